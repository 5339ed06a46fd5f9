/* shardc import: writes the model file of a Hugging Face folder. */
#include <string.h>

#include "support/file.h"
#include "support/json.h"
#include "tools/commands/commands.h"
#include "tools/explain/report.h"
#include "tools/import/check.h"
#include "tools/import/import.h"

enum { MOST_BYTES = 16 * 1024 * 1024 };

/* Reads DIR/config.json. NULL after reporting an error; the caller releases the result. */
static json_t *read_config(sc_context *context, const char *folder, const char **path)
{
    const char *reason;
    size_t size;
    json_error_t error;
    *path = sc_arena_printf(&context->arena, "%s/config.json", folder);
    char *bytes = sc_file_read(*path, MOST_BYTES, &size, &reason);
    if (bytes == NULL) {
        sc_report(&context->diag, SC_D_cannot_read, (sc_loc){0}, *path, reason, NULL);
        return NULL;
    }
    json_t *root = sc_json_read(bytes, size, JSON_REJECT_DUPLICATES, &error);
    free(bytes);
    if (root == NULL || !json_is_object(root))
        sc_report(&context->diag, SC_D_bad_config, (sc_loc){0},
                  root == NULL ? sc_arena_printf(&context->arena, "%s: line %d: %s", *path,
                                                 error.line, error.text)
                               : sc_arena_printf(&context->arena, "%s is no object", *path),
                  NULL);
    if (root == NULL || json_is_object(root))
        return root;
    json_decref(root);
    return NULL;
}

/* That of --precision, else that of the weights. */
static const char *precision_of(const sc_options *options, const sc_import_facts *facts)
{
    if (options->precision != NULL)
        return options->precision;
    if (facts->dtype != NULL && strcmp(facts->dtype, "bfloat16") == 0)
        return "bf16";
    return facts->dtype != NULL && strcmp(facts->dtype, "float64") == 0 ? "f64" : "f32";
}

static bool is_precision(const char *word)
{
    return word == NULL || strcmp(word, "f32") == 0 || strcmp(word, "bf16") == 0 ||
           strcmp(word, "f64") == 0;
}

static bool find(sc_context *context, const char *path, json_t *root, sc_import_facts *facts)
{
    sc_import_config config = {.context = context, .path = path, .root = root};
    sc_import_family *family = sc_arena_alloc(&context->arena, sizeof *family);
    const json_t *type = json_object_get(root, "model_type");
    config.used.arena = &context->arena;
    if (!json_is_string(type)) {
        sc_import_fail(&config, "\"model_type\" is missing or no string, so the family is unknown");
        return false;
    }
    return sc_import_find_family(context, json_string_value(type), family) &&
           sc_import_find_facts(&config, family, facts);
}

/* What was found, and the text. */
static void print_json(const sc_options *options, const sc_import_facts *facts,
                       const char *precision, const sc_strbuf *text, sc_strbuf *out)
{
    json_t *dims = json_object(), *arguments = json_object();
    for (uint32_t i = 0; i < facts->dims.count; i++)
        json_object_set_new(dims, facts->dims.data[i].name,
                            json_integer((json_int_t)facts->dims.data[i].size));
    for (uint32_t i = 0; i < facts->args.count; i++)
        json_object_set_new(arguments, facts->args.data[i].name,
                            json_string(facts->args.data[i].text));
    sc_print_json(json_pack("{s:i,s:s,s:s,s:s,s:s,s:o,s:o,s:s}", "version", 1, "folder",
                            options->file, "model_type", facts->family->type, "family",
                            facts->family->name, "precision", precision, "dims", dims, "arguments",
                            arguments, "text", text->data),
                  out);
}

/* Writes the model file, and compares its logits with given ones. */
static void write_model(sc_context *context, const sc_options *options,
                        const sc_import_facts *facts, sc_strbuf *out)
{
    const char *precision = precision_of(options, facts);
    sc_strbuf text, canonical;
    sc_strbuf_init(&text, &context->arena);
    sc_strbuf_init(&canonical, &context->arena);
    sc_import_write(context, facts, precision, &text);
    sc_format_file(context, sc_parse_text(context, "the imported model", text.data, text.length),
                   &canonical);
    if (options->run.json)
        print_json(options, facts, precision, &canonical, out);
    else
        sc_strbuf_add_bytes(out, canonical.data, canonical.length);
    if (options->check != NULL)
        sc_import_check(context, options, precision, &canonical);
}

int sc_cmd_import(sc_context *context, const sc_options *options, sc_strbuf *out)
{
    const char *path;
    sc_import_facts facts;
    if (!is_precision(options->precision)) {
        sc_report(&context->diag, SC_D_usage, (sc_loc){0},
                  sc_arena_printf(&context->arena, "--precision is f32, bf16 or f64, not '%s'",
                                  options->precision),
                  NULL);
        return 0;
    }
    json_t *root = read_config(context, options->file, &path);
    if (root == NULL)
        return 0;
    if (find(context, path, root, &facts))
        write_model(context, options, &facts, out);
    json_decref(root);
    return 0;
}
