/* Programs for tests of sessions: an image made by hand, kernels from C text, compiled here. */
#ifndef SHARDC_TEST_SESSION_CASE_H
#define SHARDC_TEST_SESSION_CASE_H

#include <unistd.h>

#include "program/bytes.h"
#include "runtime/session/session.h"
#include "support/strbuf.h"
#include "test/unit/helpers/image_case.h"

/* The image's object is what cc makes of the text. */
static inline void image_compile(image_case *c, const char *text)
{
    char folder[] = "/tmp/shardc_session_XXXXXX";
    char source[64], object[64], command[256];
    if (mkdtemp(folder) == NULL)
        abort();
    snprintf(source, sizeof source, "%s/k.c", folder);
    snprintf(object, sizeof object, "%s/k.so", folder);
    FILE *file = fopen(source, "w");
    if (file == NULL || fputs(text, file) < 0 || fclose(file) != 0)
        abort();
    snprintf(command, sizeof command, "cc -O1 -fopenmp -shared -fPIC -o %s %s", object, source);
    if (system(command) != 0 || (file = fopen(object, "rb")) == NULL)
        abort();
    fseek(file, 0, SEEK_END);
    c->image.object_bytes = (size_t)ftell(file);
    rewind(file);
    uint8_t *bytes = sc_arena_alloc(&c->arena, c->image.object_bytes);
    if (fread(bytes, 1, c->image.object_bytes, file) != c->image.object_bytes)
        abort();
    c->image.object = bytes;
    fclose(file);
    unlink(source);
    unlink(object);
    rmdir(folder);
}

/* The program, by way of its bytes. */
static inline shardc_executable *image_executable(image_case *c)
{
    shardc_error error = {0};
    shardc_executable *program;
    sc_strbuf bytes;
    sc_strbuf_init(&bytes, &c->arena);
    sc_image_write(image_end(c), &bytes);
    if (shardc_executable_read(bytes.data, bytes.length, &program, &error) != SHARDC_OK) {
        fprintf(stderr, "%s\n", error.text);
        abort();
    }
    return program;
}

enum { STEP_ROWS = 7, STEP_D = 5, STEP_H = 6, STEP_BATCHES = 2 };

static const char step_kernels[] =
    "#include <stdint.h>\n"
    "#include <time.h>\n"
    "int64_t k_weigh(void *const *args, const int64_t *params) {\n"
    "  const float *y = args[0], *bias = args[1]; const int32_t *ids = args[2]; float *out = "
    "args[3];\n"
    "  float sum = 0;\n"
    "  for (int64_t i = 0; i < ROWS && params[0] + i < 7; i++) {\n"
    "    if (ids[i] < 0) return (int64_t)1 << 48 | (ids[i] & 0xffffffffffff);\n"
    "    if (ids[i] >= 100) return (int64_t)2 << 48 | ids[i];\n"
    "    for (int64_t j = 0; j < COLUMNS && params[1] + j < 6; j++) sum += (y[i * COLUMNS + j] + "
    "bias[j]) * (float)ids[i];\n"
    "  }\n"
    "  *out = sum;\n"
    "  return 0;\n"
    "}\n"
    "int64_t k_add(void *const *args, const int64_t *params) { *(float *)args[1] += *(const float "
    "*)args[0]; return 0; }\n"
    "int64_t k_zero(void *const *args, const int64_t *params) { *(float *)args[0] = 0; return 0; "
    "}\n"
    "int64_t k_who(void *const *args, const int64_t *params) { for (int i = 0; i < 4; i++) "
    "((int64_t *)args[0])[i] = params[i]; return 0; "
    "}\n"
    "int64_t k_wait(void *const *args, const int64_t *params) {\n"
    "  struct timespec time = {*(const int32_t *)args[0] / 1000, *(const int32_t *)args[0] % 1000 "
    "* 1000000l};\n"
    "  if (params[0] == 1) nanosleep(&time, 0);\n"
    "  return 0;\n"
    "}\n";

static inline int64_t step_share(int64_t size, uint64_t shards)
{
    return (size + (int64_t)shards - 1) / (int64_t)shards;
}

/* state: w f32[D, H@tp] with an f64 master, bias f32[H@tp], total f32 (a sum that is partial over
 * dp) micro(x f32[B@dp, D], ids i32[B@dp]): total += the sum of (x w + bias) * ids; gives x w
 * update(): gives the whole total, which begins anew
 * who(): gives for every rank its number, the key of "a.path", step and micro-batch
 * wait(ms i32): rank 1 comes so much later to a collective of all */
static inline void step_image(image_case *c)
{
    uint64_t dp = c->axes[0].size, tp = c->axes[1].size;
    int64_t rows = step_share(STEP_ROWS, dp), columns = step_share(STEP_H, tp);
    uint32_t w = image_state(c, SC_STATE_PARAM, "w", "f32[D=5, H=6@tp]", SC_INIT_NORMAL, 0.3, 0);
    uint32_t bias = image_state(c, SC_STATE_PARAM, "bias", "f32[H=6@tp]", SC_INIT_UNIFORM, -1, 3);
    uint32_t total = image_state(c, SC_STATE_SUM, "total", "f32[] sum@dp", SC_INIT_ZEROS, 0, 0);
    image_state(c, SC_STATE_OPT, "w.master", "f64[D=5@dp, H=6@tp]", SC_INIT_ZEROS, 0, 0);
    c->states.data[0].master = 3;

    uint32_t all = image_group(c, "dp", "tp"), over_dp = image_group(c, "dp", NULL),
             over_tp = image_group(c, "tp", NULL);
    uint32_t sum_tp =
        image_collective(c, SC_IMAGE_ALL_REDUCE, SC_IMAGE_SUM, over_tp, SC_DTYPE_f32, 1);
    uint32_t sum_dp =
        image_collective(c, SC_IMAGE_ALL_REDUCE, SC_IMAGE_SUM, over_dp, SC_DTYPE_f32, 1);
    uint32_t meet = image_collective(c, SC_IMAGE_ALL_REDUCE, SC_IMAGE_MAX, all, SC_DTYPE_i32, 1);

    uint32_t weigh = image_kernel(c, "k_weigh", "iiio",
                                  (int64_t[]){rows * columns * 4, columns * 4, rows * 4, 4}, 2,
                                  "an id is negative");
    c->kernels.data[weigh].check_count = 2;
    c->kernels.data[weigh].checks = sc_arena_array(&c->arena, 2, sizeof(char *));
    c->kernels.data[weigh].checks[0] = "rows of {where}: id {value} is negative";
    c->kernels.data[weigh].checks[1] = "rows of {where}: id {value} is 100 or more";
    uint32_t x = image_input(c, "x", "f32[B=7@dp, D=5]", 0),
             ids = image_input(c, "ids", "i32[B=7@dp]", 0);
    uint32_t y = image_buffer(c, SC_BUFFER_ACT, rows * columns * 4, "y"),
             part = image_buffer(c, SC_BUFFER_ACT, 4, "part");
    uint32_t summed = image_buffer(c, SC_BUFFER_COMM, 4, "summed");
    image_multiply(c, rows, columns, STEP_D, x, w, y);
    image_instr(c, SC_INSTR_KERNEL, weigh, 4, (uint32_t[]){y, bias, ids, part});
    image_param(c, (sc_image_param){.kind = SC_PARAM_RANK, .terms = image_terms(c, "dp", rows)});
    image_param(c, (sc_image_param){.kind = SC_PARAM_RANK, .terms = image_terms(c, "tp", columns)});
    image_move(c, sum_tp, part, summed);
    image_instr(c, SC_INSTR_KERNEL, image_kernel(c, "k_add", "ib", (int64_t[]){4, 4}, 0, NULL), 2,
                (uint32_t[]){summed, total});
    image_output(c, "y", "f32[B=7@dp, H=6@tp]", y);
    uint32_t micro = image_func(c, "micro");

    uint32_t kept = image_buffer(c, SC_BUFFER_ACT, 4, "kept");
    image_move(c, sum_dp, total, total);
    image_instr(c, SC_INSTR_COPY, 0, 2, (uint32_t[]){total, kept});
    image_instr(c, SC_INSTR_KERNEL, image_kernel(c, "k_zero", "o", (int64_t[]){4}, 0, NULL), 1,
                (uint32_t[]){total});
    image_output(c, "total", "f32[]", kept);
    uint32_t update = image_func(c, "update");

    char tensor[64];
    uint32_t seen = image_buffer(c, SC_BUFFER_ACT, 32, "seen");
    image_instr(c, SC_INSTR_KERNEL, image_kernel(c, "k_who", "o", (int64_t[]){32}, 4, NULL), 1,
                (uint32_t[]){seen});
    sc_image_param who = {.kind = SC_PARAM_RANK,
                          .terms = {2, sc_arena_array(&c->arena, 2, sizeof(sc_image_term))}};
    who.terms.terms[0] = image_terms(c, "tp", 1).terms[0];
    who.terms.terms[1] = image_terms(c, "dp", 10).terms[0];
    image_param(c, who);
    image_param(c, (sc_image_param){.kind = SC_PARAM_KEY, .path_hash = sc_fnv1a64("a.path", 6)});
    image_param(c, (sc_image_param){.kind = SC_PARAM_STEP});
    image_param(c, (sc_image_param){.kind = SC_PARAM_MICRO_BATCH});
    snprintf(tensor, sizeof tensor, "i64[R=%d@dp, T=%d@tp, K=4]", (int)dp, (int)tp);
    image_output(c, "seen", tensor, seen);
    image_func(c, "who");

    uint32_t ms = image_input(c, "ms", "i32[]", -1);
    image_instr(c, SC_INSTR_KERNEL, image_kernel(c, "k_wait", "i", (int64_t[]){4}, 1, NULL), 1,
                (uint32_t[]){ms});
    sc_image_param rank = who;
    rank.terms.terms = sc_arena_array(&c->arena, 2, sizeof(sc_image_term));
    rank.terms.terms[0] = image_terms(c, "tp", 1).terms[0];
    rank.terms.terms[1] = image_terms(c, "dp", (int64_t)tp).terms[0];
    image_param(c, rank);
    image_move(c, meet, ms, ms);
    image_func(c, "wait");

    for (int32_t i = 0; i < STEP_BATCHES; i++)
        image_call(c, micro, i);
    image_call(c, update, -1);
}

static inline shardc_executable *step_program(image_case *c, uint64_t dp, uint64_t tp)
{
    char text[4096];
    image_begin(c, dp, tp);
    snprintf(text, sizeof text, "#define ROWS %d\n#define COLUMNS %d\n%s",
             (int)step_share(STEP_ROWS, dp), (int)step_share(STEP_H, tp), step_kernels);
    image_compile(c, text);
    step_image(c);
    return image_executable(c);
}

#endif
