/* Builds the identity lines of a process from its options and files. */
#include "runtime/drive/started.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/data/paths.h"
#include "runtime/drive/state_index.h"
#include "support/hash.h"
#include "support/sha256.h"
#include "support/strbuf.h"

/* Options whose value need not simply be equal on all ranks. */
static const struct {
    const char *name;
    sc_started_kind kind;
} exceptions[] = {
    {"--weights", SC_STARTED_CONTENTS},
    {"--data", SC_STARTED_CONTENTS},
    {"--input", SC_STARTED_CONTENTS},
    /* only rank 0 writes it */
    {"--eval-data", SC_STARTED_CONTENTS},
    {"--tokenizer", SC_STARTED_CONTENTS},
    {"--resume", SC_STARTED_CONTENTS},
    {"--log", SC_STARTED_FREE},
    {"--format", SC_STARTED_FREE},
    {"--json", SC_STARTED_FREE},
    {"--diagnostics", SC_STARTED_FREE},
    /* does not affect results */
    {"--gemm-cache", SC_STARTED_FREE},
    {"--products", SC_STARTED_FREE},
    {"--profile", SC_STARTED_FREE},
    {"--threads", SC_STARTED_FREE},
    {"--host-memory", SC_STARTED_FREE},
    /* each rank compares it with the program */
    {"--deadline", SC_STARTED_FREE},
    {"--ranks", SC_STARTED_FREE},
    {"--help", SC_STARTED_FREE},
    {"--version", SC_STARTED_FREE},
};

sc_started_kind sc_started_kind_of(const char *option)
{
    for (size_t i = 0; i < sizeof exceptions / sizeof *exceptions; i++) {
        if (strcmp(exceptions[i].name, option) == 0)
            return exceptions[i].kind;
    }
    return SC_STARTED_SAME;
}

/* ---- contents ---- */

enum {
    WHOLE_BYTES = 1 << 20, /* files up to this size are hashed completely */
    /* number of samples of a larger file, equally spaced, including its first and last bytes */
    SAMPLES = 256,
    SAMPLE_BYTES = 4096, /* of one sample */
    MOST_DEPTH = 2,      /* levels of subfolders that are included */
    LONGEST = 160,       /* characters up to which a value is compared verbatim */
    HASH_TEXT = 16       /* characters of a hash */
};

static bool add_sample(sc_sha256 *hash, int file, off_t at, char *buffer)
{
    ssize_t got = pread(file, buffer, SAMPLE_BYTES, at);
    if (got > 0)
        sc_sha256_add(hash, buffer, (size_t)got);
    return got >= 0;
}

/* Only detects an unreadable file; its reader reports what is wrong. */
static bool add_file(sc_sha256 *hash, int file, const struct stat *about)
{
    char buffer[SAMPLE_BYTES];
    uint64_t size = (uint64_t)about->st_size;
    bool ok = true;
    sc_sha256_add(hash, &size, sizeof size);
    if (about->st_size <= WHOLE_BYTES) {
        for (off_t at = 0; at < about->st_size; at += SAMPLE_BYTES) {
            if (!ok)
                break;
            ok = add_sample(hash, file, at, buffer);
        }
        return ok;
    }
    off_t step = (about->st_size - SAMPLE_BYTES) / (SAMPLES - 1);
    for (int i = 0; i < SAMPLES; i++) {
        if (!ok)
            break;
        ok = add_sample(hash, file, i == SAMPLES - 1 ? about->st_size - SAMPLE_BYTES : step * i,
                        buffer);
    }
    return ok;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool add_path(sc_context *context, sc_sha256 *hash, int folder, const char *name, int depth,
                     uint64_t *bytes);

/* Returns the folder named by a file `latest`: in a folder of checkpoints, the one to resume from.
 * NULL: none. */
static const char *latest_of(sc_context *context, int folder)
{
    char name[NAME_MAX + 1];
    int file = openat(folder, "latest", O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    ssize_t got = file < 0 ? -1 : pread(file, name, sizeof name - 1, 0);
    if (file >= 0)
        close(file);
    if (got <= 0)
        return NULL;
    name[got] = 0;
    size_t length = strcspn(name, "\n/");
    return length == 0 ? NULL : sc_arena_copy_text(&context->arena, name, length);
}

/* Excludes locks and hidden files, which a starting run may be writing. */
static bool counts(const char *name)
{
    const char *dot = strrchr(name, '.');
    return name[0] != '.' && (dot == NULL || strcmp(dot, ".lock") != 0);
}

/* True for a checkpoint, whose index has the checksums of all other files. */
static bool is_checkpoint(int folder)
{
    return faccessat(folder, SC_STATE_INDEX_NAME, R_OK, 0) == 0 &&
           faccessat(folder, SC_STATE_COUNTS_NAME, R_OK, 0) == 0;
}

/* Hashes entries in name order. */
static bool add_folder(sc_context *context, sc_sha256 *hash, int file, int depth, uint64_t *bytes)
{
    sc_text_list names = {0};
    const char *latest = depth == 0 ? latest_of(context, file) : NULL;
    if (latest != NULL)
        return add_path(context, hash, file, latest, 1, bytes);
    if (is_checkpoint(file))
        return add_path(context, hash, file, SC_STATE_INDEX_NAME, depth + 1, bytes);
    int again = dup(file);
    DIR *folder = again < 0 ? NULL : fdopendir(again);
    bool ok = folder != NULL;
    if (!ok && again >= 0)
        close(again);
    if (ok) {
        for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
            if (counts(entry->d_name))
                *sc_vec_push(&context->arena, &names) =
                    sc_arena_copy_text(&context->arena, entry->d_name, strlen(entry->d_name));
        }
    }
    if (folder != NULL)
        closedir(folder);
    if (names.count > 0)
        qsort(names.data, names.count, sizeof *names.data, by_name);
    for (uint32_t i = 0; i < names.count; i++) {
        if (!ok)
            break;
        sc_sha256_add(hash, names.data[i], strlen(names.data[i]) + 1);
        ok = depth == MOST_DEPTH || add_path(context, hash, file, names.data[i], depth + 1, bytes);
    }
    return ok;
}

static bool add_path(sc_context *context, sc_sha256 *hash, int folder, const char *name, int depth,
                     uint64_t *bytes)
{
    struct stat about;
    int file = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool ok = file >= 0 && fstat(file, &about) == 0;
    if (ok && S_ISREG(about.st_mode)) {
        *bytes += (uint64_t)about.st_size;
        ok = add_file(hash, file, &about);
    } else if (ok && S_ISDIR(about.st_mode)) {
        ok = add_folder(context, hash, file, depth, bytes);
    }
    if (file >= 0)
        close(file);
    return ok;
}

/* Returns "of 1024 bytes, hash 0123456789abcdef". */
static const char *contents_of(sc_context *context, const char *path)
{
    sc_sha256 hash;
    uint8_t code[SC_SHA256_BYTES];
    char text[HASH_TEXT + 1];
    uint64_t bytes = 0;
    sc_sha256_begin(&hash);
    if (!add_path(context, &hash, AT_FDCWD, path, 0, &bytes))
        return "that cannot be read";
    sc_sha256_end(&hash, code);
    for (int i = 0; i < HASH_TEXT / 2; i++)
        snprintf(text + 2 * (size_t)i, 3, "%02x", code[i]);
    return sc_arena_printf(&context->arena, "of %" PRIu64 " bytes, hash %s", bytes, text);
}

/* Parses NAME=FILE[:TENSOR]. Paths may contain colons: if the whole text names an existing file, it
 * is the path. */
static const char *input_of(sc_context *context, const sc_named_text *input)
{
    const char *colon = strrchr(input->value, ':'), *path = input->value;
    if (colon != NULL && access(path, F_OK) != 0)
        path = sc_arena_copy_text(&context->arena, path, (size_t)(colon - path));
    else
        colon = "";
    return sc_arena_printf(&context->arena, "%s=FILE%s %s", input->name, colon,
                           contents_of(context, path));
}

/* Returns the weights and contents of the files that --data names. Feeds are open by now, so that
 * mistakes have been reported. */
static const char *data_of(sc_context *context, const sc_text_list *texts)
{
    sc_data_items items;
    sc_strbuf out;
    sc_strbuf_init(&out, &context->arena);
    if (texts->count == 0 || !sc_data_list(context, texts, &items))
        return NULL;
    for (uint32_t i = 0; i < items.count; i++) {
        const sc_data_item *item = &items.data[i];
        if (item->weight > 0) {
            sc_strbuf_add(&out, out.length > 0 ? ", weight " : "weight ");
            sc_strbuf_add_double(&out, item->weight);
            sc_strbuf_add(&out, " of");
        }
        for (uint32_t f = 0; f < item->files.count; f++)
            sc_strbuf_printf(&out, "%s%s",
                             f > 0              ? ", "
                             : item->weight > 0 ? " "
                             : out.length > 0   ? ", "
                                                : "",
                             contents_of(context, item->files.data[f]));
    }
    return out.data;
}

/* ---- lines ---- */

/* Appends a line; a long value, or one with line breaks, is replaced by its hash. */
static void add_line(sc_strbuf *out, const char *name, const char *value)
{
    if (strlen(value) <= LONGEST && strchr(value, '\n') == NULL)
        sc_strbuf_printf(out, "%s%s%s\n", name, *value == 0 ? "" : " ", value);
    else
        sc_strbuf_printf(out, "%s of %zu characters, hash %016" PRIx64 "\n", name, strlen(value),
                         sc_fnv1a64(value, strlen(value)));
}

static void add_option(sc_context *context, const sc_option_row *row, const void *into,
                       sc_strbuf *out)
{
    const void *field = (const char *)into + row->field;
    const char *text = NULL;
    bool has_contents = sc_started_kind_of(row->name) == SC_STARTED_CONTENTS;
    switch (row->kind) {
    case SC_OPTION_FLAG:
    case SC_OPTION_JSON:
        text = *(const bool *)field ? "" : NULL;
        break;
    case SC_OPTION_TEXT:
    case SC_OPTION_JOINED:
    case SC_OPTION_OWN: /* the option's original text */
    case SC_OPTION_OWN_LIST:
        text = *(const char *const *)field;
        if (text != NULL && has_contents)
            text = contents_of(context, text);
        break;
    case SC_OPTION_TEXTS:
        if (has_contents) {
            text = data_of(context, field);
            break;
        }
        for (uint32_t i = 0; i < ((const sc_text_list *)field)->count; i++)
            text = sc_arena_printf(&context->arena, "%s'%s' ", text == NULL ? "" : text,
                                   ((const sc_text_list *)field)->data[i]);
        break;
    case SC_OPTION_NAMED:
        for (uint32_t i = 0; i < ((const sc_named_text_list *)field)->count; i++)
            add_line(out, row->name,
                     input_of(context, &((const sc_named_text_list *)field)->data[i]));
        break;
    case SC_OPTION_NUMBER:
    case SC_OPTION_COUNT:
        if (*(const int64_t *)field != 0)
            text = sc_arena_printf(&context->arena, "%" PRId64, *(const int64_t *)field);
        break;
    case SC_OPTION_UNSIGNED:
        if (*(const uint64_t *)field != 0)
            text = sc_arena_printf(&context->arena, "%" PRIu64, *(const uint64_t *)field);
        break;
    case SC_OPTION_REAL:
    case SC_OPTION_SHARE:
        if (*(const double *)field > 0)
            text = sc_arena_printf(&context->arena, "%.17g", *(const double *)field);
        break;
    }
    if (text != NULL)
        add_line(out, row->name, text);
}

const char *sc_started_with(sc_context *context, const char *command, const sc_option_table *tables,
                            uint32_t count)
{
    sc_strbuf out;
    sc_strbuf_init(&out, &context->arena);
    add_line(&out, "command", command);
    for (uint32_t t = 0; t < count; t++) {
        for (uint32_t i = 0; i < tables[t].count; i++) {
            if (sc_started_kind_of(tables[t].rows[i].name) != SC_STARTED_FREE)
                add_option(context, &tables[t].rows[i], tables[t].into, &out);
        }
    }
    return out.data;
}
