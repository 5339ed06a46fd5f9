/* Prefill and decode share caches: a sequence read in pieces, rows at differing positions and idle
 * ones among them, gives what reading it whole gives, on one device and on ranks. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "frontend/read_program.h"
#include "ir/interp/interp.h"
#include "support/rng.h"
#include "tools/driver/driver.h"

enum { ROWS = 3, LENGTH = 9, CAPACITY = 12, VOCABULARY = 24 };

static const char *const model =
    "lang 1; dim B = 3, S, T = alias S, D = 16, V = 24, L = 2, K = 2, G = 2, H = (K, G), E = 4;\n"
    "block attention(x[B, S, D]) -> [B, S, D] {\n"
    "  param wq[D, H, E], wk[D, K, E], wv[D, K, E], wo[H, E, D];\n"
    "  cache ck[B, T, K, E], cv[B, T, K, E];\n"
    "  q = rope[S, E](dot[D](x, wq), theta = 1e4);\n"
    "  k = append[S -> T](ck, rope[S, E](dot[D](x, wk), theta = 1e4));\n"
    "  v = append[S -> T](cv, dot[D](x, wv));\n"
    "  return x + dot[H, E](attend[T, E](q, k, v, mask = window(5)), wo);\n"
    "}\n"
    "model m {\n"
    "  param tok[V, D] = normal(1.0), head[D, V] = normal(1.0);\n"
    "  sub layers: attention * L;\n"
    "  fn trunk(t: i32[B, S]) -> [B, S, D] { x = gather[V](tok, t); repeat L { x = layers(x); } "
    "return x; }\n"
    "  entry whole(t: i32[B, S]) -> [B, S, V] { return dot[D](trunk(t), head); }\n"
    "  entry prefill(t: i32[B, S]) at pos[B] along S -> [B, V] { return dot[D](last[S](trunk(t)), "
    "head); }\n"
    "  entry decode(t: i32[B, S]) at pos[B] along S -> [B, V] { return dot[D](last[S](trunk(t)), "
    "head); }\n"
    "}\n"
    "plan heads for m { mesh tp = 2; BINDS shard H, V over tp; }\n"
    "plan beyond for m { mesh tp = 4; BINDS shard H, V over tp; }\n"
    "plan rows for m { mesh dp = 3; BINDS shard B over dp; }\n"
    "plan keys for m { mesh cp = 4; BINDS shard cache T over cp; }\n";

static const char *const binds =
    "bind S = 9 in whole; bind S = 5, T = 12 in prefill; bind S = 1, T = 12 in decode;";

/* One entry of one plan, ready to run: on one device or on all ranks. */
typedef struct runner {
    sc_compiled c;
    sc_interp *interp;
    const sc_module *m;
} runner;

static double parameter(sc_sym path, int64_t index)
{
    return sc_rng_normal(1, path, (uint64_t)index) * 0.3;
}

static void set_parameters(runner *r, const sc_context *context)
{
    for (uint32_t s = 0; s < r->m->state.count; s++) {
        const sc_state *state = &r->m->state.data[s];
        const char *path = sc_text(context, state->path);
        int64_t count = sc_type_elements(&r->m->types.data[state->type]);
        if (state->kind != SC_STATE_PARAM)
            continue;
        double *values = calloc((size_t)count, sizeof *values);
        assert_non_null(values);
        for (int64_t i = 0; i < count; i++)
            values[i] = parameter((sc_sym)sc_fnv1a64(path, strlen(path)), i);
        assert_true(sc_interp_set_state(r->interp, s, values));
        free(values);
    }
}

static void open_entry(sc_context *context, sc_declarations *program, const sc_plan *plan,
                       const char *entry, bool ranks, runner *r)
{
    sc_options options = {.entry = entry};
    if (!sc_driver_compile(context, program, plan, &options, NULL, NULL, NULL, &r->c)) {
        sc_strbuf messages;
        sc_strbuf_init(&messages, &context->arena);
        sc_diag_render_text(&context->diag, &context->sources, &messages);
        fail_msg("%s", messages.data);
    }
    r->m = ranks ? r->c.local : r->c.global;
    r->interp = sc_interp_new(r->m, &(sc_interp_options){.ranks = ranks, .poison = ranks});
    assert_non_null(r->interp);
    set_parameters(r, context);
}

static int token(int64_t row, int64_t position)
{
    return (int)((row * 7 + position * 5 + position * position) % VOCABULARY);
}

/* Runs a cached entry on S tokens a row from `start`, `length` of them real; the caches stay in the
 * interpreter. */
static sc_array step(runner *r, int64_t size, const int64_t *start, const int64_t *length)
{
    sc_array inputs[3] = {sc_array_new(2, (int64_t[]){ROWS, size}),
                          sc_array_new(1, (int64_t[]){ROWS}), sc_array_new(1, (int64_t[]){ROWS})},
             out;
    char error[512] = "";
    for (int64_t b = 0; b < ROWS; b++) {
        for (int64_t s = 0; s < size; s++)
            inputs[0].data[b * size + s] = token(b, start[b] + s);
        inputs[1].data[b] = (double)start[b];
        inputs[2].data[b] = (double)length[b];
    }
    if (!sc_interp_run(r->interp, r->c.func, inputs, 3, &out, 1, error, sizeof error))
        fail_msg("%s", error);
    for (size_t i = 0; i < 3; i++)
        sc_array_free(&inputs[i]);
    return out;
}

/* The caches of one entry become those of another, by path: both placed them alike or the values
 * would not fit. */
static void hand_over(const runner *from, runner *to)
{
    for (uint32_t s = 0; s < from->m->state.count; s++) {
        const sc_state *state = &from->m->state.data[s];
        if (state->kind != SC_STATE_CACHE)
            continue;
        uint32_t other = sc_module_find_state(to->m, state->path);
        assert_true(other != SC_NONE);
        const sc_placement a = from->m->types.data[state->type].placement,
                           b = sc_state_type(to->m, other)->placement;
        assert_true(sc_placement_equal(&a, &b));
        bool agree = true;
        sc_array values = sc_interp_get_state(from->interp, s, &agree);
        assert_true(agree);
        assert_true(sc_interp_set_state(to->interp, other, values.data));
        sc_array_free(&values);
    }
}

static sc_array read_whole(sc_context *context, sc_declarations *program, const sc_plan *plan)
{
    runner r;
    sc_array tokens = sc_array_new(2, (int64_t[]){ROWS, LENGTH}), out;
    char error[512] = "";
    open_entry(context, program, plan, "whole", false, &r);
    for (int64_t i = 0; i < ROWS * LENGTH; i++)
        tokens.data[i] = token(i / LENGTH, i % LENGTH);
    if (!sc_interp_run(r.interp, r.c.func, &tokens, 1, &out, 1, error, sizeof error))
        fail_msg("%s", error);
    sc_interp_free(r.interp);
    sc_array_free(&tokens);
    return out;
}

/* Row b's logits after `position` tokens are those of the whole text at its last one. */
static void expect_row(const sc_array *whole, const sc_array *logits, int64_t row, int64_t position)
{
    for (int64_t v = 0; v < VOCABULARY; v++) {
        double a = whole->data[(row * LENGTH + position - 1) * VOCABULARY + v],
               b = logits->data[row * VOCABULARY + v];
        if (!(fabs(a - b) <= 1e-9))
            fail_msg("row %d at %d: logit %d is %.17g, expected %.17g", (int)row, (int)position,
                     (int)v, b, a);
    }
}

static void read_in_pieces(sc_context *context, sc_declarations *program, const sc_plan *plan,
                           bool ranks)
{
    runner prefill, decode;
    sc_array whole = read_whole(context, program, plan);
    int64_t at[ROWS] = {0, 0, 0}, first[ROWS] = {5, 3, 0};
    open_entry(context, program, plan, "prefill", ranks, &prefill);
    open_entry(context, program, plan, "decode", ranks, &decode);
    sc_array logits = step(&prefill, 5, at, first); /* row 2 idles */
    for (int64_t b = 0; b < ROWS; b++) {
        at[b] += first[b];
        if (first[b] > 0)
            expect_row(&whole, &logits, b, at[b]);
    }
    sc_array_free(&logits);
    hand_over(&prefill, &decode);
    for (int turn = 0; turn < 4; turn++) {
        int64_t one[ROWS] = {1, turn != 1, 1}; /* row 1 idles once */
        logits = step(&decode, 1, at, one);
        for (int64_t b = 0; b < ROWS; b++) {
            at[b] += one[b];
            if (one[b] > 0)
                expect_row(&whole, &logits, b, at[b]);
        }
        sc_array_free(&logits);
    }
    hand_over(&decode, &prefill); /* and a second piece of several tokens */
    int64_t rest[ROWS] = {0, 3, 5};
    logits = step(&prefill, 5, at, rest);
    expect_row(&whole, &logits, 1, at[1] + 3);
    expect_row(&whole, &logits, 2, at[2] + 5);
    sc_array_free(&logits);
    sc_array_free(&whole);
    sc_interp_free(prefill.interp);
    sc_interp_free(decode.interp);
}

static void every_plan(sc_context *context, void *user)
{
    sc_strbuf text;
    sc_plan_list plans = {0};
    (void)user;
    sc_strbuf_init(&text, &context->arena);
    for (const char *p = model; *p != 0; p++) {
        bool marked = strncmp(p, "BINDS", 5) == 0;
        sc_strbuf_add_bytes(&text, marked ? binds : p, marked ? strlen(binds) : 1);
        p += marked ? 4 : 0;
    }
    sc_declarations *program = sc_declarations_new(
        context, sc_parse_text(context, "cached.shard", text.data, text.length));
    assert_int_equal(context->diag.errors, 0);
    sc_declarations_plans(program, &plans);
    assert_int_equal(plans.count, 4);
    for (uint32_t i = 0; i < plans.count; i++) {
        read_in_pieces(context, program, plans.data[i], false);
        read_in_pieces(context, program, plans.data[i], true);
    }
}

static void pieces_equal_the_whole(void **state)
{
    sc_context context;
    (void)state;
    assert_true(sc_context_run(&context, 0, every_plan, NULL));
    sc_context_free(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(pieces_equal_the_whole)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
