/* How fast parameters are read from a weights file, beside a plain read of the same bytes: weights
 * [MiB] [FOLDER]. A file of one square f32 matrix and one bf16 matrix of the same bytes is written
 * to the folder, so it is in the page cache: the bound is memory, not the disk. Read are the
 * parameter as it is in the file, transposed (as Hugging Face stores linear layers), and half of
 * its rows and of its columns, as a rank of two does; the best of five. GB/s are bytes of the file.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "bench/measure.h"
#include "runtime/drive/read_param.h"

enum { REPEATS = 5 };

typedef struct bench {
    sc_safetensors *file;
    const char *path;
    int64_t side[2]; /* of the f32 and of the bf16 matrix */
    void *local;
    double plain;
} bench;

static void check(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static void write_matrices(bench *b, int64_t bytes)
{
    sc_safetensors_error error = {0};
    uint64_t shapes[2][2];
    void *raw = calloc((size_t)bytes, 1);
    sc_safetensors_item items[2] = {{.name = "f32", .element = SC_ELEMENT_F32, .rank = 2},
                                    {.name = "bf16", .element = SC_ELEMENT_BF16, .rank = 2}};
    check(raw != NULL, "there is not enough memory");
    for (int i = 0; i < 2; i++) {
        int64_t elements = bytes / (int64_t)sc_element_size(items[i].element);
        b->side[i] = (int64_t)sqrt((double)elements) / 2 * 2;
        shapes[i][0] = shapes[i][1] = (uint64_t)b->side[i];
        items[i].shape = shapes[i];
        items[i].raw = raw;
    }
    check(sc_safetensors_write(b->path, items, 2, NULL, 0, &error), error.text);
    free(raw);
    b->file = sc_safetensors_open(b->path, &error);
    check(b->file != NULL, error.text);
}

/* Reads the file in one stream, in pieces that stay in the cache. */
static double plain_read(const bench *b)
{
    static char piece[1 << 20];
    double best = INFINITY;
    for (int i = 0; i < REPEATS; i++) {
        int file = open(b->path, O_RDONLY);
        ssize_t got = 1;
        int64_t bytes = 0;
        double begin = now(CLOCK_PROCESS_CPUTIME_ID);
        check(file >= 0, b->path);
        while (got > 0) {
            got = read(file, piece, sizeof piece);
            bytes += got;
        }
        double seconds = (now(CLOCK_PROCESS_CPUTIME_ID) - begin) / (double)bytes;
        best = seconds < best ? seconds : best;
        close(file);
    }
    return 1e-9 / best;
}

typedef struct read_case {
    const char *what;
    int matrix;
    bool is_transposed;
    int halved; /* the dim of the parameter of which half is read; -1: none */
    sc_element to;
} read_case;

static void measure(const bench *b, const read_case *row)
{
    static const char *names[] = {"f32", "bf16"};
    int64_t side = b->side[row->matrix], sizes[] = {side, side};
    const sc_safetensor *tensor = sc_safetensors_find(b->file, names[row->matrix]);
    sc_fact_param param = {
        .rank = 2, .sizes = {side, side}, .tensor_count = 1, .tensors = &names[row->matrix]};
    sc_read_failure failure = {0};
    sc_shard_place place;
    double best = INFINITY;
    param.layout = (sc_weight_layout){.rank = 2, .elements = side * side};
    param.layout.strides[0] = row->is_transposed ? 1 : side;
    param.layout.strides[1] = row->is_transposed ? side : 1;
    sc_place_whole(2, sizes, &place);
    if (row->halved >= 0)
        place.sizes[row->halved] = place.local[row->halved] = side / 2;
    double bytes =
        (double)(place.sizes[0] * place.sizes[1]) * (double)sc_element_size(tensor->element);
    for (int i = 0; i < REPEATS; i++) {
        double begin = now(CLOCK_PROCESS_CPUTIME_ID);
        check(sc_param_read(b->file, &param, &tensor, &place, row->to, b->local, &failure),
              "the file cannot be read");
        double seconds = now(CLOCK_PROCESS_CPUTIME_ID) - begin;
        best = seconds < best ? seconds : best;
    }
    printf("%-44s %6.2f GB/s  %4.2f of a plain read\n", row->what, bytes / best * 1e-9,
           bytes / best * 1e-9 / b->plain);
}

int main(int argc, char **argv)
{
    static const read_case rows[] = {
        {"f32", 0, false, -1, SC_ELEMENT_F32},
        {"f32, transposed", 0, true, -1, SC_ELEMENT_F32},
        {"f32, half of its rows", 0, false, 0, SC_ELEMENT_F32},
        {"f32, half of its columns", 0, false, 1, SC_ELEMENT_F32},
        {"f32, transposed, half of its rows", 0, true, 0, SC_ELEMENT_F32},
        {"bf16", 1, false, -1, SC_ELEMENT_BF16},
        {"bf16, transposed", 1, true, -1, SC_ELEMENT_BF16},
        {"bf16 to f32", 1, false, -1, SC_ELEMENT_F32},
        {"bf16 to f32, transposed", 1, true, -1, SC_ELEMENT_F32},
    };
    int64_t bytes = (argc > 1 ? strtoll(argv[1], NULL, 10) : 256) << 20;
    char path[4096];
    bench b = {.path = path};
    check(bytes > 0, "weights [MiB] [FOLDER]");
    snprintf(path, sizeof path, "%s/bench_weights.safetensors", argc > 2 ? argv[2] : "/tmp");
    write_matrices(&b, bytes);
    b.local = room(2 * bytes);
    memset(b.local, 1, 2 * (size_t)bytes);
    b.plain = plain_read(&b);
    printf("%-44s %6.2f GB/s\n", "plain read", b.plain);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        measure(&b, &rows[i]);
    sc_safetensors_close(b.file);
    unlink(path);
    free(b.local);
    return 0;
}
