#include "tools/time/device.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "support/file.h"
#include "support/json.h"

static const sc_device_model devices[] = {
#define DEVICE(...) {__VA_ARGS__},
#include "tools/time/devices.def"
#undef DEVICE
};
enum { COUNT = sizeof devices / sizeof *devices };

static const struct {
    const char *name;
    size_t at;
} fields[] = {
#define FIELD(name)                                                                                \
    {                                                                                              \
#name, offsetof(sc_device_model, name)                                                     \
    }
    FIELD(memory),  FIELD(bandwidth),  FIELD(launch),   FIELD(units),         FIELD(f64),
    FIELD(f32),     FIELD(half),       FIELD(matmul),   FIELD(deep),          FIELD(rows),
    FIELD(columns), FIELD(forward),    FIELD(backward), FIELD(stream),        FIELD(node),
    FIELD(link),    FIELD(link_start), FIELD(network),  FIELD(network_start), FIELD(host),
#undef FIELD
};
enum { FIELDS = sizeof fields / sizeof *fields };

static bool fail(sc_context *context, const char *text)
{
    sc_report(&context->diag, SC_D_usage, (sc_loc){0}, text, NULL);
    return false;
}

static const sc_device_model *row_named(const char *name)
{
    for (size_t i = 0; i < COUNT; i++) {
        if (strcmp(devices[i].name, name) == 0)
            return &devices[i];
    }
    return NULL;
}

static void note_names(sc_context *context)
{
    sc_strbuf text;
    sc_strbuf_init(&text, &context->arena);
    for (size_t i = 0; i < COUNT; i++)
        sc_strbuf_printf(&text, "%s%s", i > 0 ? ", " : "", devices[i].name);
    sc_report_note(&context->diag, (sc_loc){0}, "devices are %s, or a file NAME.json", text.data);
}

static bool set_field(sc_context *context, const char *file, const char *key, const json_t *value,
                      sc_device_model *out)
{
    for (size_t i = 0; i < FIELDS; i++) {
        if (strcmp(fields[i].name, key) != 0)
            continue;
        double number = json_number_value(value);
        if (!json_is_number(value) || !(number > 0))
            return fail(context, sc_arena_printf(&context->arena,
                                                 "%s: '%s' must be a number above 0", file, key));
        *(double *)(void *)((char *)out + fields[i].at) = number;
        return true;
    }
    return fail(context,
                sc_arena_printf(&context->arena,
                                "%s: a device has no '%s' (tools/time/devices.def)", file, key));
}

static bool read_object(sc_context *context, const char *file, json_t *root, sc_device_model *out)
{
    const json_t *like = json_object_get(root, "like");
    const sc_device_model *base = json_is_string(like) ? row_named(json_string_value(like)) : NULL;
    const char *key;
    json_t *value;
    if (base == NULL) {
        fail(context,
             sc_arena_printf(&context->arena,
                             "%s: 'like' must name the device that it differs from", file));
        note_names(context);
        return false;
    }
    *out = *base;
    out->name = file;
    json_object_foreach (root, key, value) {
        if (strcmp(key, "like") != 0 && !set_field(context, file, key, value, out))
            return false;
    }
    return true;
}

static const sc_device_model *read_device(sc_context *context, const char *file)
{
    enum { MOST = 1 << 16 };
    const char *reason;
    size_t size;
    json_error_t error;
    char *text = sc_file_read(file, MOST, &size, &reason);
    if (text == NULL) {
        fail(context, sc_arena_printf(&context->arena, "cannot read %s: %s", file, reason));
        return NULL;
    }
    json_t *root = sc_json_read(text, size, JSON_REJECT_DUPLICATES, &error);
    sc_device_model *made = sc_arena_alloc(&context->arena, sizeof *made);
    bool ok = false;
    if (!json_is_object(root))
        fail(context, sc_arena_printf(&context->arena, "%s is no JSON object: line %d, %s", file,
                                      error.line, error.text));
    else
        ok = read_object(context, file, root, made);
    json_decref(root);
    free(text);
    return ok ? made : NULL;
}

const sc_device_model *sc_device_find(sc_context *context, const char *name)
{
    size_t length = strlen(name);
    if (length > 5 && strcmp(name + length - 5, ".json") == 0)
        return read_device(context, name);
    const sc_device_model *found = row_named(name);
    if (found == NULL) {
        fail(context, sc_arena_printf(&context->arena, "there is no device '%s'", name));
        note_names(context);
    }
    return found;
}
