/* shardc build: writes a program as one executable file. */
#define _GNU_SOURCE /* memrchr */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "program/file.h"
#include "tools/commands/commands.h"
#include "tools/explain/expect.h"
#include "tools/explain/report.h"
#include "tools/explain/waste.h"
#include "tools/run/build_image.h"

static bool fail(sc_context *context, sc_diag_id id, const char *path, const char *reason)
{
    sc_report(&context->diag, id, (sc_loc){0}, path, reason, NULL);
    return false;
}

/* ---- the runtime's executable: beside this one, or in an installation ---- */

static const char *find_stub(sc_context *context)
{
    static const char *const places[] = {"shardc-prog", "../lib/shardc/shardc-prog"};
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    char *slash = length < 0 ? NULL : memrchr(self, '/', (size_t)length);
    for (size_t i = 0; slash != NULL && i < sizeof places / sizeof *places; i++) {
        const char *path =
            sc_arena_printf(&context->arena, "%.*s/%s", (int)(slash - self), self, places[i]);
        if (access(path, R_OK) == 0)
            return path;
    }
    fail(context, SC_D_cannot_read, "shardc-prog", "install it beside shardc, or in ../lib/shardc");
    return NULL;
}

/* ---- the file ---- */

static bool write_program(sc_context *context, const char *path, const sc_strbuf *image)
{
    const char *stub_path = find_stub(context), *reason = NULL;
    sc_file_writing writing;
    size_t size = 0;
    char *stub = stub_path == NULL ? NULL : sc_file_read(stub_path, SIZE_MAX, &size, &reason);
    if (stub == NULL)
        return stub_path != NULL && fail(context, SC_D_cannot_read, stub_path, reason);
    bool ok = sc_file_begin(&writing, path, 0777, &reason);
    if (ok && sc_program_file_write(writing.file, stub, size, image->data, image->length)) {
        ok = sc_file_end(&writing, &reason);
    } else if (ok) {
        reason = strerror(errno);
        sc_file_drop(&writing);
        ok = false;
    }
    free(stub);
    return ok || fail(context, SC_D_cannot_write, path, reason);
}

/* ---- the command ---- */
static void print_text(sc_context *context, const sc_options *options, const sc_compiled *c,
                       sc_strbuf *out)
{
    unsigned long long ranks = sc_mesh_ranks(&c->local->mesh);
    const char *program = options->run.output;
    sc_strbuf_printf(out, "%s: %s '%s' on %llu rank%s; '%s info' says more\n", program,
                     c->step != NULL ? "the train step of" : "the entry",
                     sc_text(context, c->entry), ranks, ranks == 1 ? "" : "s", program);
}

static void print_json(sc_context *context, const sc_options *options, const sc_compiled *c,
                       sc_strbuf *out)
{
    sc_print_json(json_pack("{s:i,s:s,s:s,s:o,s:s,s:b,s:I}", "version", 1, "file", options->file,
                            "program", options->run.output, "plan", sc_plan_json(context, c->plan),
                            "entry", sc_text(context, c->entry), "trains", c->step != NULL, "ranks",
                            (json_int_t)sc_mesh_ranks(&c->local->mesh)),
                  out);
}

int sc_cmd_build(sc_context *context, const sc_options *options, sc_strbuf *out)
{
    sc_compiled c;
    sc_strbuf image;
    uint32_t errors = context->diag.errors;
    if (options->run.output == NULL) {
        sc_report(&context->diag, SC_D_usage, (sc_loc){0}, "build needs -o PROGRAM", NULL);
        return 0;
    }
    if (!sc_driver_compile_file(context, options, NULL, NULL, "fuse", &c))
        return 0;
    sc_check_expects(context, &c, SC_D_expect_fails);
    sc_warn_of_repeated_work(context,
                             &(sc_compiled_list){.data = (const sc_compiled *[]){&c}, .count = 1});
    if (context->diag.errors > errors || !sc_build_image(context, options, &c, &image) ||
        !write_program(context, options->run.output, &image))
        return 0;
    (options->run.json ? print_json : print_text)(context, options, &c, out);
    return 0;
}
