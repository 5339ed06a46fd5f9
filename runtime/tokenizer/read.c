#include "runtime/tokenizer/read.h"

#include <stdarg.h>
#include <string.h>

#include "support/error.h"
#include "support/strbuf.h"

bool sc_read_fail(sc_reader *reader, const char *where, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const char *text = sc_arena_vprintf(reader->arena, format, args);
    va_end(args);
    sc_fail(reader->error, SHARDC_ERROR_DATA, "%s: %s: %s", reader->name, where, text);
    return false;
}

static bool is_word_of(const char *list, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = list; length > 0 && (at = strstr(at, word)) != NULL; at += length) {
        if ((at == list || at[-1] == ' ') && (at[length] == ' ' || at[length] == 0))
            return true;
    }
    return false;
}

bool sc_read_keys(sc_reader *reader, const char *where, const json_t *value, const char *keys)
{
    const char *key;
    json_t *member;
    if (!json_is_object(value))
        return sc_read_fail(reader, where, "is not an object");
    json_object_foreach ((json_t *)value, key, member) {
        if (!is_word_of(keys, key))
            return sc_read_fail(reader, where, "'%.60s' is not supported; known here are: %s", key,
                                keys);
    }
    return true;
}

bool sc_read_bool(sc_reader *reader, const char *where, const json_t *value, const char *key,
                  int fallback, bool *out)
{
    const json_t *member = json_object_get(value, key);
    *out = member == NULL ? fallback == 1 : json_is_true(member);
    if (member == NULL ? fallback != SC_REQUIRED : json_is_boolean(member))
        return true;
    return sc_read_fail(reader, where, "'%s' must be true or false", key);
}

sc_span sc_read_copy(sc_reader *reader, const json_t *text)
{
    size_t length = json_string_length(text);
    return (sc_span){sc_arena_copy_text(reader->arena, json_string_value(text), length), length};
}

bool sc_read_text(sc_reader *reader, const char *where, const json_t *value, const char *key,
                  sc_span *out)
{
    const json_t *member = json_object_get(value, key);
    if (!json_is_string(member))
        return sc_read_fail(reader, where, "'%s' must be a string", key);
    *out = sc_read_copy(reader, member);
    return true;
}

bool sc_read_optional_text(sc_reader *reader, const char *where, const json_t *value,
                           const char *key, sc_span *out)
{
    const json_t *member = json_object_get(value, key);
    *out = (sc_span){"", 0};
    return member == NULL || json_is_null(member) || sc_read_text(reader, where, value, key, out);
}

bool sc_read_number(sc_reader *reader, const char *where, const json_t *value, const char *key,
                    uint64_t most, uint64_t *out)
{
    const json_t *member = json_object_get(value, key);
    *out = 0;
    if (!json_is_integer(member) || json_integer_value(member) < 0 ||
        (uint64_t)json_integer_value(member) > most)
        return sc_read_fail(reader, where, "'%s' must be an integer from 0 to %llu", key,
                            (unsigned long long)most);
    *out = (uint64_t)json_integer_value(member);
    return true;
}

bool sc_read_pattern(sc_reader *reader, const char *where, const json_t *value, const char *key,
                     sc_pattern **out)
{
    const json_t *member = json_object_get(value, key);
    const json_t *text = json_object_get(member, "String");
    const json_t *regex = json_object_get(member, "Regex");
    const json_t *given = text != NULL ? text : regex;
    const char *why = "";
    if (json_object_size(member) != 1 || !json_is_string(given))
        return sc_read_fail(reader, where,
                            "'%s' must be {\"String\": \"..\"} or {\"Regex\": \"..\"}", key);
    *out = sc_pattern_new(reader->arena, json_string_value(given), json_string_length(given),
                          text != NULL, &why);
    if (*out == NULL)
        return sc_read_fail(reader, where,
                            "the pattern '%.100s' is not supported: %s; write it differently",
                            json_string_value(given), why);
    return true;
}

static const char *names_of(sc_reader *reader, const sc_part_type *types, size_t count)
{
    sc_strbuf out;
    sc_strbuf_init(&out, reader->arena);
    for (size_t i = 0; i < count; i++)
        sc_strbuf_printf(&out, "%s%s", i == 0 ? "" : ", ", types[i].name);
    return out.data;
}

bool sc_read_part_of(sc_reader *reader, const char *where, const json_t *value,
                     const sc_part_type *types, size_t count)
{
    sc_span type = {"", 0};
    if (value == NULL || json_is_null(value))
        return true;
    if (!json_is_object(value))
        return sc_read_fail(reader, where, "is not an object");
    if (!sc_read_text(reader, where, value, "type", &type))
        return false;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(type.data, types[i].name) == 0)
            return types[i].read(reader, where, value);
    }
    return sc_read_fail(reader, where, "type '%.60s' is not supported; supported are %s", type.data,
                        names_of(reader, types, count));
}

bool sc_read_parts(sc_reader *reader, const char *where, const json_t *value, const char *key,
                   sc_read_part *read)
{
    const json_t *list = json_object_get(value, key), *part;
    size_t i;
    if (!json_is_array(list))
        return sc_read_fail(reader, where, "'%s' must be a list", key);
    json_array_foreach (list, i, part) {
        const char *place = sc_arena_printf(reader->arena, "%s.%s[%zu]", where, key, i);
        if (strlen(place) > 300)
            return sc_read_fail(reader, "a Sequence", "is nested too deep");
        if (json_is_null(part))
            return sc_read_fail(reader, place, "is null");
        if (!read(reader, place, part))
            return false;
    }
    return true;
}
