/* Running a function written as IR text, for the interpreter's tests. The text's first function is
 * run; inputs and expected results are flat lists, one tensor after the other, of the sizes that
 * the text says. */
#ifndef SHARDC_TEST_INTERP_CASE_H
#define SHARDC_TEST_INTERP_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/interp/interp.h"
#include "ir/text/text.h"

enum { CASE_MAX = 16 };

/* Enough dims for every test; H and J are composites, T an alias of S. */
#define CASE_DIMS                                                                                  \
    "dim A\ndim B\ndim C\ndim D\ndim E\ndim G\ndim K\ndim N\ndim Q\ndim R\ndim S\ndim T = alias "  \
    "S\ndim V\ndim X\ndim H = (K, G)\ndim J = "                                                    \
    "(N, Q, R)\n"

typedef struct sc_case {
    sc_context context;
    const char *text;
    sc_module *m;
    sc_interp *interp;
    sc_array inputs[CASE_MAX], outputs[CASE_MAX];
    uint32_t input_count, output_count;
    char error[512];
} sc_case;

static inline void case_parse(sc_context *context, void *user)
{
    sc_case *c = user;
    c->m = sc_parse_module(context, "case", c->text, strlen(c->text));
    if (c->m == NULL) {
        sc_strbuf out;
        sc_strbuf_init(&out, &context->arena);
        sc_diag_render_text(&context->diag, &context->sources, &out);
        fprintf(stderr, "%s", out.data);
    }
}

static inline sc_array case_array(const sc_module *m, sc_value value)
{
    const sc_type_info *type = sc_type_of(m, value);
    int64_t sizes[SC_MAX_RANK];
    for (uint32_t i = 0; i < type->rank; i++)
        sizes[i] = type->dims[i].size;
    sc_array array = sc_array_new(type->rank, sizes);
    assert_non_null(array.data);
    return array;
}

/* Parsed only. */
static inline sc_case *case_read(const char *mesh, const char *state, const char *body)
{
    static char text[1 << 16];
    sc_case *c = calloc(1, sizeof *c);
    assert_non_null(c);
    int length = snprintf(text, sizeof text, "shardc.ir 1\n%s%s" CASE_DIMS "%sfunc @f {\n%s}\n",
                          mesh[0] == 0 ? "" : "mesh ", mesh, state, body);
    assert_true(length > 0 && (size_t)length < sizeof text);
    c->text = text;
    assert_true(sc_context_run(&c->context, 0, case_parse, c));
    if (c->m == NULL)
        fprintf(stderr, "%s", text);
    assert_non_null(c->m);
    return c;
}

/* Ready to run. */
static inline void case_start(sc_case *c, const sc_interp_options *options)
{
    c->interp = sc_interp_new(c->m, options);
    assert_non_null(c->interp);
    sc_for_each_op (c->m, 0, op) {
        if (sc_op_at(c->m, op)->kind == SC_OP_input)
            c->inputs[c->input_count++] = case_array(c->m, sc_result(c->m, op, 0));
        if (sc_op_at(c->m, op)->kind == SC_OP_return)
            c->output_count = sc_op_at(c->m, op)->operand_count;
    }
}

static inline sc_case *case_open(const char *mesh, const char *state, const char *body,
                                 sc_interp_options options)
{
    sc_case *c = case_read(mesh, state, body);
    case_start(c, &options);
    return c;
}

static inline void case_close(sc_case *c)
{
    for (uint32_t i = 0; i < c->input_count; i++)
        sc_array_free(&c->inputs[i]);
    for (uint32_t i = 0; i < c->output_count; i++)
        sc_array_free(&c->outputs[i]);
    sc_interp_free(c->interp);
    sc_context_free(&c->context);
    free(c);
}

static inline bool case_run(sc_case *c)
{
    for (uint32_t i = 0; i < c->output_count; i++)
        sc_array_free(&c->outputs[i]);
    c->error[0] = 0;
    return sc_interp_run(c->interp, 0, c->inputs, c->input_count, c->outputs, c->output_count,
                         c->error, sizeof c->error);
}

static inline void case_set_inputs(sc_case *c, const double *values, size_t count)
{
    for (uint32_t i = 0; i < c->input_count; i++) {
        assert_true((size_t)c->inputs[i].count <= count);
        memcpy(c->inputs[i].data, values, (size_t)c->inputs[i].count * sizeof *values);
        values += c->inputs[i].count;
        count -= (size_t)c->inputs[i].count;
    }
    assert_int_equal(count, 0);
}

static inline bool case_same(double got, double wanted, double tolerance)
{
    return got == wanted || (isnan(got) && isnan(wanted)) || fabs(got - wanted) <= tolerance;
}

static inline void case_expect(const sc_case *c, const double *values, size_t count,
                               double tolerance)
{
    size_t at = 0;
    for (uint32_t i = 0; i < c->output_count; i++) {
        for (int64_t j = 0; j < c->outputs[i].count; j++, at++) {
            assert_true(at < count);
            if (!case_same(c->outputs[i].data[j], values[at], tolerance))
                fail_msg("output %u, element %lld: %.17g, wanted %.17g", i, (long long)j,
                         c->outputs[i].data[j], values[at]);
        }
    }
    assert_int_equal(at, count);
}

/* Runs `body` on one device and compares. */
static inline void check_values(const char *body, const double *in, size_t in_count,
                                const double *out, size_t out_count, double tolerance, bool round)
{
    sc_case *c = case_open("", "", body, (sc_interp_options){.round = round});
    case_set_inputs(c, in, in_count);
    if (!case_run(c))
        fail_msg("%s", c->error);
    case_expect(c, out, out_count, tolerance);
    case_close(c);
}

#define LIST(...)                                                                                  \
    ((const double[]){__VA_ARGS__}), sizeof((const double[]){__VA_ARGS__}) / sizeof(double)

/* Runs and expects a failure whose message has `wanted` in it. */
static inline void check_error(const char *mesh, const char *body, const double *in,
                               size_t in_count, const char *wanted)
{
    sc_case *c = case_open(mesh, "", body, (sc_interp_options){.ranks = mesh[0] != 0});
    case_set_inputs(c, in, in_count);
    bool ok = case_run(c);
    if (ok || strstr(c->error, wanted) == NULL)
        fail_msg("wanted an error with \"%s\", got \"%s\"", wanted, c->error);
    for (uint32_t i = 0; i < c->output_count; i++)
        assert_null(c->outputs[i].data);
    case_close(c);
}

/* Distinct integers in a scattered order; in [0, limit) when limit is not 0. */
static inline void case_fill(sc_case *c, uint32_t limit)
{
    uint32_t x = 12345;
    for (uint32_t i = 0; i < c->input_count; i++) {
        for (int64_t j = 0; j < c->inputs[i].count; j++) {
            x = x * 1664525u + 1013904223u;
            c->inputs[i].data[j] =
                limit == 0 ? (double)(x >> 12) - 524288 : (double)((x >> 16) % limit);
        }
    }
}

/* The same text as one device and as ranks: equal bits, or different when `same` is false; returns
 * false when the ranks' run fails. */
static inline bool compare_ranks(const char *mesh, const char *body, uint32_t limit, bool same,
                                 char *error)
{
    sc_case *one = case_open(mesh, "", body, (sc_interp_options){0}),
            *all = case_open(mesh, "", body, (sc_interp_options){.ranks = true});
    case_fill(one, limit);
    case_fill(all, limit);
    bool equal = true;
    if (!case_run(one))
        fail_msg("one device: %s", one->error);
    bool ok = case_run(all);
    memcpy(error, all->error, sizeof all->error);
    for (uint32_t i = 0; ok && i < one->output_count; i++)
        equal = equal && memcmp(one->outputs[i].data, all->outputs[i].data,
                                (size_t)one->outputs[i].count * sizeof(double)) == 0;
    if (ok && equal != same)
        fail_msg("%s: %s%s", same ? "ranks differ from one device" : "ranks equal one device", mesh,
                 body);
    case_close(one);
    case_close(all);
    return ok;
}

static inline void check_ranks(const char *mesh, const char *body, uint32_t limit)
{
    char error[512];
    if (!compare_ranks(mesh, body, limit, true, error))
        fail_msg("%s: %s%s", error, mesh, body);
}

/* A program that says the wrong thing must not come out right: an error or another result. */
static inline void check_wrong(const char *mesh, const char *body, uint32_t limit)
{
    char error[512];
    compare_ranks(mesh, body, limit, false, error);
}

#endif
