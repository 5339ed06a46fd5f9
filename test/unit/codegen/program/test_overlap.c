/* Collectives that overlap what computes: lists that were put into another order give what they
 * gave, in no more memory; and of train steps, that reductions of gradients really are under way
 * during the backward pass, with the same bits as one call after the other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "codegen/program/generate.h"
#include "codegen/program/overlap.h"
#include "frontend/read_program.h"
#include "program/bytes.h"
#include "shardc/runtime.h"
#include "test/unit/helpers/image_case.h"
#include "tools/driver/driver.h"

/* ---- random lists ---- */
enum { SIZES = 3, MOST_LIVE = 200 };

typedef struct growing {
    image_case c;
    uint64_t random;
    uint32_t group;
    uint32_t ready[MOST_LIVE], ready_count; /* what may be read; states first */
    uint32_t state_count;
    SC_VEC(uint32_t) flying; /* instructions */
    SC_VEC(sc_memory_wish) wishes;
} growing;

static uint32_t below(growing *g, uint32_t limit)
{
    g->random += 0x9e3779b97f4a7c15;
    uint64_t z = (g->random ^ (g->random >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return (uint32_t)((z ^ (z >> 31)) % limit);
}

static int64_t size_of(const growing *g, uint32_t buffer)
{
    return g->c.buffers.data[buffer].bytes;
}

static uint32_t fresh(growing *g, int64_t bytes)
{
    return image_buffer(&g->c, SC_BUFFER_ACT, bytes, "b");
}

static void finish_one(growing *g, uint32_t at)
{
    image_instr(&g->c, SC_INSTR_FINISH, g->flying.data[at], 0, NULL);
    g->flying.data[at] = g->flying.data[--g->flying.count];
}

/* Before an instruction has the buffer. */
static void settle(growing *g, uint32_t buffer, bool writes)
{
    for (uint32_t f = 0; f < g->flying.count;) {
        const sc_image_instr *instr = &g->c.instrs.data[g->flying.data[f]];
        bool has = false;
        for (uint32_t a = 0; a < instr->arg_count; a++)
            has = has || (instr->args[a].buffer == buffer && (a % 2 == 1 || writes));
        if (has)
            finish_one(g, f);
        else
            f++;
    }
}

static uint32_t any_ready(growing *g)
{
    /* mostly what is new */
    uint32_t newest = g->ready_count > 6 && below(g, 4) > 0 ? g->ready_count - 6 : 0;
    return g->ready[newest + below(g, g->ready_count - newest)];
}

static void now_ready(growing *g, uint32_t buffer)
{
    if (g->ready_count == MOST_LIVE)
        g->ready[g->state_count + below(g, MOST_LIVE - g->state_count)] = buffer;
    else
        g->ready[g->ready_count++] = buffer;
}

static void add_kernel(growing *g)
{
    char access[6] = "";
    uint32_t args[5], count = 0, reads = 1 + below(g, 3);
    int64_t bytes[5];
    for (; count < reads; count++) {
        args[count] = any_ready(g);
        access[count] = 'i';
    }
    bool to_state = below(g, 3) == 0;
    uint32_t from = args[below(g, reads)];
    args[count] = to_state
                      ? g->ready[below(g, g->state_count)]
                      : fresh(g, below(g, 2) == 0 ? size_of(g, from) : 64 * (1 + below(g, SIZES)));
    access[count] = to_state && below(g, 2) == 0 ? 'b' : 'o';
    for (uint32_t i = 0; i <= count; i++) {
        settle(g, args[i], i == count);
        bytes[i] = size_of(g, args[i]);
    }
    uint32_t kernel = image_kernel(&g->c, "k", access, bytes, 0, NULL);
    uint32_t instr = image_instr(&g->c, SC_INSTR_KERNEL, kernel, count + 1, args);
    if (to_state)
        return;
    now_ready(g, args[count]);
    if (size_of(g, from) == size_of(g, args[count]))
        *sc_vec_push(&g->c.arena, &g->wishes) = (sc_memory_wish){0, instr, args[count], from};
}

static void add_copy(growing *g)
{
    uint32_t from = any_ready(g), to = fresh(g, size_of(g, from));
    settle(g, from, false);
    image_instr(&g->c, SC_INSTR_COPY, 0, 2, (uint32_t[]){from, to});
    now_ready(g, to);
}

static void add_product(growing *g)
{
    uint32_t a = any_ready(g), b = any_ready(g), out = fresh(g, 64);
    settle(g, a, false);
    settle(g, b, false);
    image_multiply(&g->c, 4, 4, 4, a, b, out);
    now_ready(g, out);
}

static void add_collective(growing *g)
{
    uint32_t parts = 1 + below(g, 2), args[4], collective = g->c.collectives.count;
    sc_image_collective made = {.kind = SC_IMAGE_ALL_REDUCE,
                                .reduce = SC_IMAGE_SUM,
                                .group = g->group,
                                .part_count = parts};
    for (uint32_t p = 0; p < parts; p++) {
        uint32_t from = any_ready(g), state = g->ready[below(g, g->state_count)],
                 kind = below(g, 6);
        bool is_new = p == 0 || (state != args[0] && state != args[1]);
        args[2 * p] = from;
        args[2 * p + 1] = kind == 0 && is_new && size_of(g, state) == size_of(g, from)
                              ? state
                              : fresh(g, size_of(g, from));
        if (p == 1 && from == args[1]) /* what the first part brings */
            parts = made.part_count = 1;
    }
    for (uint32_t i = 0; i < 2 * parts; i++)
        settle(g, args[i], i % 2 == 1);
    *sc_vec_push(&g->c.arena, &g->c.collectives) = made;
    uint32_t instr = image_instr(&g->c, SC_INSTR_COLLECTIVE, collective, 2 * parts, args);
    g->c.instrs.data[instr].stream = 1;
    *sc_vec_push(&g->c.arena, &g->flying) = instr;
    for (uint32_t p = 0; p < parts; p++) {
        if (args[2 * p + 1] >= g->state_count)
            now_ready(g, args[2 * p + 1]);
    }
    while (g->flying.count > 4 || (g->flying.count > 0 && below(g, 3) == 0))
        finish_one(g, below(g, g->flying.count));
}

static sc_image *grow(growing *g, uint64_t seed, uint32_t steps)
{
    *g = (growing){.random = seed * 977};
    image_begin(&g->c, 2, 1);
    g->group = image_group(&g->c, "dp", NULL);
    g->state_count = 2 + below(g, 5);
    for (uint32_t s = 0; s < g->state_count; s++)
        now_ready(g, image_buffer(&g->c, SC_BUFFER_GRAD, 64 * (1 + below(g, SIZES)), "state"));
    now_ready(g, image_input(&g->c, "x", "f32[B=16]", -1));
    for (uint32_t i = 0; i < steps; i++) {
        uint32_t what = below(g, 20);
        if (what < 5)
            add_collective(g);
        else if (what < 7)
            add_copy(g);
        else if (what < 9)
            add_product(g);
        else
            add_kernel(g);
    }
    while (g->flying.count > 0)
        finish_one(g, 0);
    for (int i = 0; i < 2; i++) {
        uint32_t out = g->ready[g->ready_count - 1 - below(g, 2)];
        if (g->c.buffers.data[out].kind == SC_BUFFER_ACT)
            image_output(&g->c, "out", "f32[B=16]", out);
    }
    image_func(&g->c, "f");
    return image_end(&g->c);
}

/* ---- what a list computes ---- */
static uint64_t mix(uint64_t hash, uint64_t with)
{
    return sc_hash_mix(hash, with);
}

static void transfer(const sc_image *image, const sc_image_instr *instr, uint64_t *tokens)
{
    for (uint32_t p = 0; p < image->collectives[instr->index].part_count; p++)
        tokens[instr->args[2 * p + 1].buffer] =
            mix(mix(instr->index, p), tokens[instr->args[2 * p].buffer]);
}

/* Tokens for values; a collective takes and brings them when it starts, or all at its end. */
static uint64_t *run_list(sc_arena *arena, const sc_image *image, bool late)
{
    uint64_t *tokens = sc_arena_array(arena, image->buffer_count, sizeof *tokens);
    for (uint32_t b = 0; b < image->buffer_count; b++)
        tokens[b] = image->buffers[b].kind < SC_BUFFER_ACT || b == image->funcs[0].inputs[0].buffer
                        ? mix(7, b)
                        : 0;
    for (uint32_t i = 0; i < image->funcs[0].instr_count; i++) {
        const sc_image_instr *instr = &image->funcs[0].instrs[i];
        uint64_t hash = mix((uint64_t)instr->kind, instr->index);
        if (instr->kind == SC_INSTR_FINISH) {
            if (late)
                transfer(image, &image->funcs[0].instrs[instr->index], tokens);
            continue;
        }
        if (instr->kind == SC_INSTR_COLLECTIVE) {
            if (!late)
                transfer(image, instr, tokens);
            continue;
        }
        for (uint32_t a = 0; a < instr->arg_count; a++)
            hash = sc_memory_access(image, instr, a) == SC_ACCESS_OUT
                       ? hash
                       : mix(hash, tokens[instr->args[a].buffer]);
        for (uint32_t a = 0; a < instr->arg_count; a++) {
            if (sc_memory_access(image, instr, a) != SC_ACCESS_IN)
                tokens[instr->args[a].buffer] = mix(hash, a);
        }
    }
    return tokens;
}

static void expect_same(const sc_image *image, const uint64_t *expected, const uint64_t *found,
                        uint64_t seed)
{
    for (uint32_t b = 0; b < image->buffer_count; b++) {
        bool counts = image->buffers[b].kind < SC_BUFFER_ACT;
        for (uint32_t o = 0; o < image->funcs[0].output_count; o++)
            counts = counts || image->funcs[0].outputs[o].buffer == b;
        if (counts && expected[b] != found[b])
            fail_msg("seed %llu: buffer %u has another value", (unsigned long long)seed, b);
    }
}

/* Computing instructions that stand between starts and their waits; every start has one wait, and
 * few are under way. */
static uint32_t overlap_of(const sc_image_func *func)
{
    uint32_t sum = 0, flying = 0, starts = 0, waits = 0;
    for (uint32_t i = 0; i < func->instr_count; i++) {
        switch (func->instrs[i].kind) {
        case SC_INSTR_COLLECTIVE:
            starts++;
            assert_in_range(++flying, 1, SC_OVERLAP_IN_FLIGHT);
            break;
        case SC_INSTR_FINISH:
            assert_true(func->instrs[i].index < i &&
                        func->instrs[func->instrs[i].index].kind == SC_INSTR_COLLECTIVE);
            waits++;
            flying--;
            break;
        default:
            sum += flying;
            break;
        }
    }
    assert_int_equal(starts, waits);
    assert_int_equal(flying, 0);
    return sum;
}

static void any_list_gives_what_it_gave(void **state)
{
    static const sc_overlap_room rooms[] = {{256, 256}, {256, 256}, {240, 120}, {128, 64}, {0, 0}};
    uint64_t before_sum = 0, after_sum = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= 3000; seed++) {
        growing g;
        sc_image *image = grow(&g, seed, (uint32_t)(4 + seed % 90));
        const sc_overlap_room *room = &rooms[seed % 5];
        sc_memory_plan before, after;
        assert_null(sc_memory_plan_make(&g.c.arena, image, g.wishes.data, g.wishes.count, &before));
        const uint64_t *expected = run_list(&g.c.arena, image, false);
        expect_same(image, expected, run_list(&g.c.arena, image, true), seed);
        uint32_t was = overlap_of(&image->funcs[0]);
        sc_overlap(&g.c.arena, image, 0, room, g.wishes.data, g.wishes.count);
        uint32_t is = overlap_of(&image->funcs[0]);
        if (room->starts > 0) {
            before_sum += was;
            after_sum += is;
        }
        expect_same(image, expected, run_list(&g.c.arena, image, false), seed);
        expect_same(image, expected, run_list(&g.c.arena, image, true), seed);
        assert_null(sc_memory_plan_make(&g.c.arena, image, g.wishes.data, g.wishes.count, &after));
        const char *error = sc_memory_plan_verify(&g.c.arena, image, g.wishes.data, g.wishes.count);
        if (error != NULL)
            fail_msg("seed %llu: %s", (unsigned long long)seed, error);
        if (after.live_bytes > before.live_bytes)
            fail_msg("seed %llu: %lld bytes alive, not %lld", (unsigned long long)seed,
                     (long long)after.live_bytes, (long long)before.live_bytes);
        sc_arena_free(&g.c.arena);
    }
    assert_true(after_sum > before_sum * 3 / 2);
}

/* ---- train steps ---- */
enum { ROWS = 64, WIDTH = 8, STEPS = 3 };

static const char program_text[] = "lang 1;\ndim B = 64, D = 8, F = 16, L = 4;\n"
                                   "block mlp(x[B, D]) -> [B, D] {\n"
                                   "  param w1[D, F], w2[F, D];\n"
                                   "  return dot[F](relu(dot[D](x, w1)), w2);\n"
                                   "}\n"
                                   "model m {\n"
                                   "  param head[D];\n"
                                   "  sub layers: mlp * L;\n"
                                   "  entry loss(x: f32[B, D], y: f32[B]) -> f32[] {\n"
                                   "    x = dropout(x, p = 0.25);\n"
                                   "    repeat L { x = x + layers(x); }\n"
                                   "    e = dot[D](x, head) - y;\n"
                                   "    return mean[B](e * e);\n"
                                   "  }\n"
                                   "}\n"
                                   "minimize m.loss with adamw(lr = 1e-2, clip = 1.0);\n"
                                   "plan p for m { mesh dp = 2; PLAN }\n";

typedef struct step_case {
    const char *plan;
    /* early: reductions of the update that must begin before the last product of the backward pass
     */
    uint32_t micro_batches, early;
} step_case;

static const step_case step_cases[] = {
    {"shard B over dp; tune bucket = 1024;", 1, 4},
    {"shard B over dp; tune bucket = 512;", 1, 7},
    {"shard B over dp; accumulate 2 over B; tune bucket = 1024;", 2, 4},
    {"shard B over dp; accumulate 4 over B; tune bucket = 512;", 4, 7},
    {"shard B over dp; shard opt * over dp; tune bucket = 1024;", 1, 4},
    {"shard B over dp; precision param = bf16, act = bf16, reduce = bf16; tune bucket = 512;", 1,
     3},
    {"shard B over dp; shard grad, opt * over dp; accumulate 2 over B;", 2, 0},
    {"shard B over dp; shard param, grad, opt * over dp; remat layers;", 1, 0},
    {"shard B over dp; shard param, grad, opt * over dp; accumulate 2 over B; reshard after step;",
     2, 0},
    {"shard F over dp;", 1, 0},
    {"", 1, 0},
};

typedef struct step_run {
    const step_case *of;
    const sc_image *image;
    shardc_executable *program;
    sc_optimizer_settings settings;
} step_run;

static sc_image_func *func_of(const sc_image *image, const char *name)
{
    for (uint32_t f = 0; f < image->func_count; f++) {
        if (strcmp(image->funcs[f].name, name) == 0)
            return &image->funcs[f];
    }
    fail_msg("there is no function '%s'", name);
    return NULL;
}

static uint32_t count_kind(const sc_image_func *func, sc_image_instr_kind kind, uint32_t index)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < func->instr_count; i++)
        count +=
            func->instrs[i].kind == kind &&
            (kind == SC_INSTR_COPY || kind == SC_INSTR_FINISH || func->instrs[i].index == index);
    return count;
}

static bool is_backward(const sc_image_instr *instr, sc_image_instr_kind kind)
{
    return instr->kind == kind && strcmp(instr->phase, "backward") == 0;
}

/* The image itself says it: when reductions start, and that they do not end before what they
 * overlap. */
static void check_image(const step_run *run)
{
    const sc_image *image = run->image;
    const sc_image_func *micro = func_of(image, "micro"), *update = func_of(image, "update"),
                        *both = func_of(image, "micro+update");
    uint32_t last_product = 0, early = 0, begins = 0;
    for (uint32_t c = 0; c < image->call_count; c++)
        begins += image->schedule[c].micro_batch < 0;
    assert_int_equal(image->call_count, run->of->micro_batches + begins);
    assert_ptr_equal(&image->funcs[image->schedule[image->call_count - 1].func], both);
    assert_int_equal(image->schedule[image->call_count - 1].micro_batch,
                     run->of->micro_batches - 1);
    for (uint32_t i = 0; i < both->instr_count; i++)
        last_product = is_backward(&both->instrs[i], SC_INSTR_GEMM) ? i : last_product;
    for (uint32_t i = 0; i < both->instr_count; i++) {
        const sc_image_instr *instr = &both->instrs[i];
        assert_int_equal(instr->stream, instr->kind == SC_INSTR_COLLECTIVE);
        assert_int_equal(count_kind(both, instr->kind, instr->index),
                         count_kind(micro, instr->kind, instr->index) +
                             count_kind(update, instr->kind, instr->index));
        if (instr->kind != SC_INSTR_FINISH ||
            !is_backward(&both->instrs[instr->index], SC_INSTR_COLLECTIVE) ||
            strcmp(both->instrs[instr->index].where, "update") != 0)
            continue;
        early += instr->index < last_product && i > last_product;
    }
    if (early < run->of->early)
        fail_msg(
            "%s: %u reductions are under way during the last product of the backward pass, not %u",
            run->of->plan, early, run->of->early);
    assert_int_equal(both->instr_count, micro->instr_count + update->instr_count);
}

static void generate(sc_context *context, void *user)
{
    step_run *run = user;
    sc_strbuf text, bytes;
    sc_options options = {0};
    sc_compiled compiled;
    sc_plan_list plans = {0};
    sc_generated generated;
    shardc_error error;
    sc_strbuf_init(&text, &context->arena);
    sc_strbuf_init(&bytes, &context->arena);
    const char *mark = strstr(program_text, "PLAN");
    sc_strbuf_printf(&text, "%.*s%s%s", (int)(mark - program_text), program_text, run->of->plan,
                     mark + 4);
    sc_declarations *program =
        sc_declarations_new(context, sc_parse_text(context, "step", text.data, text.length));
    sc_declarations_plans(program, &plans);
    if (context->diag.errors > 0 ||
        !sc_driver_compile(context, program, plans.data[0], &options, NULL, NULL, "fuse",
                           &compiled) ||
        !sc_generate_parts(&(sc_generate_part){.m = compiled.local, .step = compiled.step}, 1,
                           &(sc_generate_options){0}, &generated))
        return;
    run->image = generated.image;
    run->settings = compiled.step->training->groups.data[0];
    sc_image_write(generated.image, &bytes);
    if (shardc_executable_read(bytes.data, bytes.length, &run->program, &error) != SHARDC_OK)
        fail_msg("%s", error.text);
}

static shardc_session *session_of(const shardc_executable *program)
{
    shardc_session *session = NULL;
    shardc_error error;
    if (shardc_session_new(program, NULL, &session, &error) != SHARDC_OK)
        fail_msg("%s", error.text);
    shardc_session_set_random(session, 5, 0, 0);
    assert_int_equal(shardc_session_initialise(session, &error), SHARDC_OK);
    return session;
}

static void set_scalars(const step_run *run, shardc_session *session, uint64_t step)
{
    double scalars[SC_SCALAR_COUNT];
    char name[64];
    sc_optimizer_scalars(&run->settings, (int64_t)step, scalars);
    scalars[SC_SCALAR_LR] = 0.01;
    for (uint32_t i = 0; i < SC_SCALAR_COUNT; i++) {
        snprintf(name, sizeof name, "optimizer0.%s", sc_scalar_names[i]);
        uint32_t state = shardc_executable_find_state(run->program, name);
        if (state != SHARDC_NOT_FOUND)
            assert_int_equal(shardc_session_set_state(session, state, &scalars[i],
                                                      sizeof scalars[i], "f64", NULL),
                             SHARDC_OK);
    }
}

/* A step, call by call; the outputs are those of `update`. */
static void step_by_calls(const step_run *run, shardc_session *session, uint64_t step,
                          const float *x, const float *y, float *out)
{
    int64_t rows = ROWS / run->of->micro_batches;
    uint32_t begin = shardc_executable_find_func(run->program, "begin"),
             micro = shardc_executable_find_func(run->program, "micro");
    shardc_error error = {.status = SHARDC_OK};
    shardc_session_set_random(session, 5, step, 0);
    if (begin != SHARDC_NOT_FOUND)
        assert_int_equal(shardc_session_run(session, begin, NULL, 0, NULL, 0, &error), SHARDC_OK);
    for (uint32_t i = 0; i < run->of->micro_batches; i++) {
        shardc_feed_value feeds[] = {
            {"x", x + i * rows * WIDTH, (size_t)(rows * WIDTH) * sizeof *x, "f32"},
            {"y", y + i * rows, (size_t)rows * sizeof *y, "f32"}};
        shardc_session_set_random(session, 5, step, i);
        if (shardc_session_run(session, micro, feeds, 2, NULL, 0, &error) != SHARDC_OK)
            fail_msg("%s", error.text);
    }
    shardc_fetch_value fetches[] = {{0, &out[0], sizeof out[0], "f32"},
                                    {1, &out[1], sizeof out[1], "f32"}};
    shardc_session_set_random(session, 5, step, 0);
    assert_int_equal(shardc_session_run(session,
                                        shardc_executable_find_func(run->program, "update"), NULL,
                                        0, fetches, 2, &error),
                     SHARDC_OK);
}

static void expect_same_states(const step_run *run, shardc_session *a, shardc_session *b)
{
    for (uint32_t s = 0; s < shardc_executable_state_count(run->program); s++) {
        shardc_tensor_info info;
        shardc_executable_state(run->program, s, &info);
        double *left = calloc((size_t)info.count, sizeof *left),
               *right = calloc((size_t)info.count, sizeof *right);
        assert_true(left != NULL && right != NULL);
        assert_int_equal(
            shardc_session_get_state(a, s, left, (size_t)info.count * sizeof *left, "f64", NULL),
            SHARDC_OK);
        assert_int_equal(
            shardc_session_get_state(b, s, right, (size_t)info.count * sizeof *right, "f64", NULL),
            SHARDC_OK);
        if (memcmp(left, right, (size_t)info.count * sizeof *left) != 0)
            fail_msg("%s: '%s' is not the same", run->of->plan, info.name);
        free(left);
        free(right);
    }
}

static void check_runs(const step_run *run)
{
    float x[ROWS * WIDTH], y[ROWS];
    shardc_session *calls = session_of(run->program), *schedule = session_of(run->program);
    for (int i = 0; i < ROWS * WIDTH; i++)
        x[i] = (float)((i * 37) % 19) / 16 - 0.5F;
    for (int i = 0; i < ROWS; i++)
        y[i] = (float)(i % 9) / 4 - 1;
    for (uint64_t step = 1; step <= STEPS; step++) {
        float expected[2], found[2];
        shardc_error error;
        set_scalars(run, calls, step);
        set_scalars(run, schedule, step);
        step_by_calls(run, calls, step, x, y, expected);
        shardc_feed_value feeds[] = {{"x", x, sizeof x, "f32"}, {"y", y, sizeof y, "f32"}};
        shardc_fetch_value fetches[] = {{0, &found[0], sizeof found[0], "f32"},
                                        {1, &found[1], sizeof found[1], "f32"}};
        shardc_session_set_random(schedule, 5, step, 0);
        if (shardc_session_step(schedule, feeds, 2, fetches, 2, &error) != SHARDC_OK)
            fail_msg("%s", error.text);
        assert_memory_equal(expected, found, sizeof expected);
        if (!(found[0] > 0 && found[1] > 0))
            fail_msg("%s: loss %g, norm %g", run->of->plan, (double)found[0], (double)found[1]);
        expect_same_states(run, calls, schedule);
    }
    shardc_session_free(calls);
    shardc_session_free(schedule);
}

static void reductions_fly_during_the_backward_pass(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof step_cases / sizeof *step_cases; i++) {
        sc_context context;
        step_run run = {.of = &step_cases[i]};
        assert_true(sc_context_run(&context, 0, generate, &run));
        if (run.program == NULL)
            fail_msg("'%s' does not compile", run.of->plan);
        check_image(&run);
        check_runs(&run);
        shardc_executable_free(run.program);
        sc_context_free(&context);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_list_gives_what_it_gave),
        cmocka_unit_test(reductions_fly_during_the_backward_pass),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
