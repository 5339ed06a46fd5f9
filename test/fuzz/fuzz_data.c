/* Files that --data names: lines of JSON, ids with a description beside them, and lists of names.
 * Nothing is read beyond its end, nothing is believed, and what is wrong ends with a message. The
 * first byte says which of them the rest is. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/data/data.h"

static char folder[] = "/tmp/shardc-fuzz-XXXXXX";

typedef struct input {
    const char *bytes;
    size_t size;
    char kind;
} input;

static void write_file(const char *name, const char *bytes, size_t size)
{
    FILE *file = fopen(name, "wb");
    if (file == NULL || fwrite(bytes, 1, size, file) != size || fclose(file) != 0)
        abort();
}

/* Every token that a file is said to have can be read. */
static void read_all(sc_data *data)
{
    for (uint32_t p = 0; p < data->parts.count; p++) {
        sc_data_error error;
        uint64_t bytes = 0;
        double id;
        for (uint64_t at = 0; at < data->parts.data[p].count; at++) {
            if (!sc_data_read(data, p, at, 1, &id, &bytes, &error))
                abort();
        }
    }
}

static void open_data(sc_context *context, void *user)
{
    const input *in = user;
    sc_text_list texts = {0};
    sc_data data;
    const char *name = in->kind == 'l' ? "x.jsonl" : "x.bin";
    if (in->kind == 'n')
        name = sc_arena_copy_text(&context->arena, in->bytes, in->size);
    *sc_vec_push(&context->arena, &texts) = name;
    const sc_data_request request = {.texts = &texts,
                                     .option = "--data",
                                     .may_mix = true,
                                     .text = {.eos = in->kind == 'l' ? "7" : NULL}};
    bool ok = sc_data_open(context, &request, &data);
    if (ok == (context->diag.errors > 0))
        abort();
    if (ok)
        read_all(&data);
    sc_data_close(&data);
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    if (mkdtemp(folder) == NULL || chdir(folder) != 0)
        abort();
    write_file("x.bin", "abcdefgh", 8);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static const char kinds[] = "ljn";
    input in = {(const char *)bytes + 1, size - 1, kinds[size == 0 ? 0 : bytes[0] % 3]};
    sc_context context;
    if (size == 0)
        return 0;
    /* names lead nowhere else: neither by '/' nor by '..' */
    for (size_t i = 0; i < in.size && in.kind == 'n'; i++) {
        if (in.bytes[i] == '/' || in.bytes[i] == 0 ||
            (in.bytes[i] == '.' && i + 1 < in.size && in.bytes[i + 1] == '.'))
            return 0;
    }
    remove("x.json");
    if (in.kind == 'l')
        write_file("x.jsonl", in.bytes, in.size);
    else if (in.kind == 'j')
        write_file("x.json", in.bytes, in.size);
    if (!sc_context_run(&context, 0, open_data, &in))
        abort();
    sc_context_free(&context);
    return 0;
}
