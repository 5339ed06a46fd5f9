/* Keys of config.json. Every key is used, listed as unused in a table, or refused. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "support/json.h"
#include "tools/import/import.h"

void sc_import_fail(sc_import_config *config, const char *format, ...)
{
    sc_context *context = config->context;
    sc_strbuf text;
    va_list args;
    sc_strbuf_init(&text, &context->arena);
    sc_strbuf_printf(&text, "%s: ", config->path);
    va_start(args, format);
    sc_strbuf_vprintf(&text, format, args);
    va_end(args);
    sc_report(&context->diag, SC_D_bad_config, (sc_loc){0}, text.data, NULL);
}

const char *sc_import_text(sc_context *context, const json_t *value)
{
    enum { MOST = 60 };
    /* as a person wrote it: 0.1 has more digits only where a double has to be told from others */
    char *text = sc_json_write(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15));
    const char *copy = "?";
    if (text != NULL)
        copy = strlen(text) <= MOST ? sc_arena_copy_text(&context->arena, text, strlen(text))
                                    : sc_arena_printf(&context->arena, "%.*s..", MOST, text);
    free(text);
    return copy;
}

/* The value at a path; `key` may be one with dots itself. */
static const json_t *find(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    const char *dot = strchr(key, '.');
    if (value != NULL || dot == NULL)
        return value;
    char name[128];
    size_t length = (size_t)(dot - key);
    if (length >= sizeof name)
        return NULL;
    memcpy(name, key, length);
    name[length] = 0;
    return find(json_object_get(object, name), dot + 1);
}

void sc_import_use(sc_import_config *config, const char *key)
{
    sc_interner *names = &config->context->names;
    /* an object is used when one of its keys is; its other keys are still to be accounted for */
    for (const char *dot = strchr(key, '.'); dot != NULL; dot = strchr(dot + 1, '.'))
        sc_map_insert(&config->used, sc_intern(names, key, (size_t)(dot - key)), 0, NULL);
    sc_map_insert(&config->used, sc_intern_text(names, key), 0, NULL);
}

static bool is_used(const sc_import_config *config, const char *key)
{
    sc_sym name = sc_intern_text(&config->context->names, key);
    return sc_map_find(&config->used, name) != NULL;
}

bool sc_import_has(const sc_import_config *config, const char *key)
{
    return find(config->root, key) != NULL;
}

const json_t *sc_import_get(sc_import_config *config, const char *key)
{
    const json_t *value = find(config->root, key);
    if (value != NULL)
        sc_import_use(config, key);
    return json_is_null(value) ? NULL : value;
}

static void check_object(sc_import_config *config, const json_t *object, const char *prefix)
{
    sc_context *context = config->context;
    const char *name;
    json_t *value;
    json_object_foreach ((json_t *)object, name, value) {
        const char *path = sc_arena_printf(&context->arena, "%s%s", prefix, name);
        if (!is_used(config, path))
            sc_import_fail(config,
                           "key \"%s\" (%s) has no meaning here: it is neither expressed nor known "
                           "to be irrelevant",
                           path, sc_import_text(context, value));
        else if (json_is_object(value))
            check_object(config, value, sc_arena_printf(&context->arena, "%s.", path));
    }
}

void sc_import_check_used(sc_import_config *config)
{
    check_object(config, config->root, "");
}
