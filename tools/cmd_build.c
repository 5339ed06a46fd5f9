/* shardc build: a program as one executable file. */
#define _GNU_SOURCE /* memrchr */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/hash.h"
#include "support/program_file.h"
#include "tools/build_image.h"
#include "tools/commands.h"

static bool fail(sc_context *context, sc_diag_id id, const char *path, const char *reason)
{
    sc_report(&context->diag, id, (sc_loc){0}, path, reason, NULL);
    return false;
}

/* ---- the runtime's executable: beside this one, or where an installation has it ---- */

static const char *find_stub(sc_context *context)
{
    static const char *const places[] = {"shardc-prog", "../lib/shardc/shardc-prog"};
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    char *slash = length < 0 ? NULL : memrchr(self, '/', (size_t)length);
    for (size_t i = 0; slash != NULL && i < sizeof places / sizeof *places; i++) {
        const char *path = sc_arena_printf(&context->arena, "%.*s/%s", (int)(slash - self), self, places[i]);
        if (access(path, R_OK) == 0)
            return path;
    }
    fail(context, SC_D_cannot_read, "shardc-prog", "it belongs beside shardc, or into ../lib/shardc");
    return NULL;
}

/* ---- the file ---- */

static bool copy(FILE *from, FILE *to, uint64_t *size)
{
    char part[1 << 16];
    size_t length;
    *size = 0;
    while ((length = fread(part, 1, sizeof part, from)) > 0) {
        if (fwrite(part, 1, length, to) != length)
            return false;
        *size += length;
    }
    return !ferror(from);
}

static bool write_parts(FILE *stub, FILE *out, const sc_strbuf *image)
{
    uint8_t bytes[SC_PROGRAM_TRAILER_BYTES];
    sc_program_trailer trailer = {.length = image->length, .hash = sc_fnv1a64(image->data, image->length)};
    if (!copy(stub, out, &trailer.offset))
        return false;
    sc_program_trailer_write(&trailer, bytes);
    return fwrite(image->data, 1, image->length, out) == image->length && fwrite(bytes, 1, sizeof bytes, out) == sizeof bytes &&
           fflush(out) == 0;
}

/* Under another name first: one that runs may stand there, and nobody sees half of one. */
static bool write_program(sc_context *context, const char *path, const sc_strbuf *image)
{
    const char *stub_path = find_stub(context), *made = sc_arena_printf(&context->arena, "%s.%ld.tmp", path, (long)getpid());
    FILE *stub = stub_path == NULL ? NULL : fopen(stub_path, "rb");
    if (stub == NULL)
        return stub_path != NULL && fail(context, SC_D_cannot_read, stub_path, strerror(errno));
    FILE *out = fopen(made, "wb");
    mode_t mask = umask(0);
    umask(mask);
    bool ok = out != NULL && write_parts(stub, out, image) && fchmod(fileno(out), 0777 & ~mask) == 0;
    int reason = errno;
    if (out != NULL && fclose(out) != 0 && ok) {
        reason = errno;
        ok = false;
    }
    fclose(stub);
    if (ok && rename(made, path) != 0) {
        reason = errno;
        ok = false;
    }
    if (!ok && out != NULL)
        (void)unlink(made);
    return ok || fail(context, SC_D_cannot_write, path, strerror(reason));
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
    if (context->diag.errors > errors || !sc_build_image(context, options, &c, &image) ||
        !write_program(context, options->run.output, &image))
        return 0;
    sc_strbuf_printf(out, "%s: %s '%s' on %llu rank%s; '%s info' says more\n", options->run.output,
                     c.step != NULL ? "the train step of" : "the entry", sc_text(context, c.entry),
                     (unsigned long long)sc_mesh_ranks(&c.local->mesh), sc_mesh_ranks(&c.local->mesh) == 1 ? "" : "s", options->run.output);
    return 0;
}
