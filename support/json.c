#include "support/json.h"

#include "support/number.h"

json_t *sc_json_read(const void *bytes, size_t size, size_t flags, json_error_t *error)
{
    locale_t before = sc_plain_locale_enter();
    json_t *root = json_loadb(bytes, size, flags, error);
    sc_plain_locale_leave(before);
    return root;
}

char *sc_json_write(const json_t *root, size_t flags)
{
    locale_t before = sc_plain_locale_enter();
    const size_t digits = JSON_REAL_PRECISION(31),
                 precision = (flags & digits) != 0 ? 0 : JSON_REAL_PRECISION(17);
    char *text = root == NULL ? NULL : json_dumps(root, flags | precision);
    sc_plain_locale_leave(before);
    return text;
}
