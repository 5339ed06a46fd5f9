/* shardc ir: prints the module after any pass. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "ir/text/text.h"
#include "tools/commands/commands.h"
#include "tools/explain/expect.h"
#include "tools/explain/report.h"

typedef struct dumping {
    sc_context *context;
    const sc_options *options;
    uint32_t number;
    sc_text_list paths;
    bool failed;
} dumping;

static void dump(sc_module *m, const sc_pass *pass, void *user)
{
    dumping *d = user;
    if (d->failed)
        return;
    sc_strbuf text;
    sc_strbuf_init(&text, &d->context->arena);
    sc_print_module(m, &(sc_print_options){.fold = d->options->fold}, &text);
    const char *path = sc_arena_printf(&d->context->arena, "%s/%02u-%s.shir", d->options->dump_dir,
                                       d->number++, pass == NULL ? "build" : pass->name);
    FILE *file = fopen(path, "w");
    *sc_vec_push(&d->context->arena, &d->paths) = path;
    bool written = file != NULL && fwrite(text.data, 1, text.length, file) == text.length;
    if (file != NULL && fclose(file) != 0)
        written = false;
    if (!written) {
        sc_report(&d->context->diag, SC_D_cannot_write, (sc_loc){0}, path, strerror(errno), NULL);
        d->failed = true;
    }
}

static bool check_pass_name(sc_context *context, const char *name)
{
    if (name == NULL || sc_pass_find(name) != NULL || strcmp(name, "build") == 0)
        return true;
    const char *names[SC_PASS_COUNT];
    for (size_t i = 0; i < SC_PASS_COUNT; i++)
        names[i] = sc_passes[i].name;
    const char *near = sc_nearest(name, names, SC_PASS_COUNT);
    sc_report(&context->diag, SC_D_usage, (sc_loc){0},
              sc_arena_printf(&context->arena, "there is no pass '%s'%s%s%s", name,
                              near ? "; did you mean '" : "", near ? near : "", near ? "'?" : ""),
              NULL);
    if (near != NULL)
        return false;
    sc_strbuf list;
    sc_strbuf_init(&list, &context->arena);
    for (size_t i = 0; i < SC_PASS_COUNT; i++)
        sc_strbuf_printf(&list, ", %s", names[i]);
    sc_report_note(&context->diag, (sc_loc){0}, "the passes are build%s", list.data);
    return false;
}

/* `text` NULL: it was written to files. */
static void print_json(const dumping *d, const sc_compiled *c, const char *text, sc_strbuf *out)
{
    json_t *root = json_pack("{s:i,s:s,s:o,s:s,s:s?}", "version", 1, "file", d->options->file,
                             "plan", sc_plan_json(d->context, c->plan), "entry",
                             sc_text(d->context, c->entry), "after", d->options->after);
    json_t *paths = json_array();
    for (uint32_t i = 0; i < d->paths.count; i++)
        json_array_append_new(paths, json_string(d->paths.data[i]));
    json_object_set_new(root, "files", paths);
    json_object_set_new(root, "ir", text == NULL ? json_null() : json_string(text));
    sc_print_json(root, out);
}

int sc_cmd_ir(sc_context *context, const sc_options *options, sc_strbuf *out)
{
    sc_compiled c;
    if (!check_pass_name(context, options->after))
        return 0;
    if (options->dump_dir != NULL && mkdir(options->dump_dir, 0777) != 0 && errno != EEXIST) {
        sc_report(&context->diag, SC_D_cannot_write, (sc_loc){0}, options->dump_dir,
                  strerror(errno), NULL);
        return 0;
    }
    dumping d = {.context = context, .options = options};
    bool as_built = options->after != NULL && strcmp(options->after, "build") == 0;
    if (!sc_driver_compile_file(context, options, options->dump_dir != NULL ? dump : NULL, &d,
                                as_built ? NULL : options->after, &c))
        return 0;
    sc_strbuf text;
    sc_strbuf_init(&text, &context->arena);
    sc_strbuf *into = options->run.json ? &text : out;
    if (options->dump_dir == NULL)
        sc_print_module(as_built ? c.global : c.local, &(sc_print_options){.fold = options->fold},
                        into);
    if (options->run.json)
        print_json(&d, &c, options->dump_dir == NULL ? text.data : NULL, out);
    if ((c.local->states & SC_RESHARDS_EXPLICIT) != 0)
        sc_check_expects(context, &c, SC_D_expect_warns);
    return 0;
}
