/* Random calls whose inputs and results every rank knows without asking: drawn from a seed by all
 * ranks alike. The results are computed one element at a time, from the definitions in
 * runtime/comm/comm.h, by nothing of the communicators. */
#ifndef SHARDC_TEST_COMM_CASE_H
#define SHARDC_TEST_COMM_CASE_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/comm/comm.h"
#include "runtime/files/element.h"
#include "support/rng.h"

enum { CASE_PARTS = 4, CASE_RANKS = 16, CASE_GUARD = 64 /* bytes around each buffer */ };

typedef struct comm_case {
    uint64_t seed;
    sc_comm_kind kind;
    sc_comm_reduce reduce;
    uint32_t group_size, part_count;
    int32_t to[CASE_RANKS], from[CASE_RANKS]; /* by group rank */
    sc_dtype dtypes[CASE_PARTS];
    int64_t counts[CASE_PARTS];
    bool in_place;
} comm_case;

static inline uint32_t draw(uint64_t seed, uint64_t index, uint32_t limit)
{
    uint32_t counter[4] = {(uint32_t)index, (uint32_t)(index >> 32), 7, 7},
             key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)}, out[4];
    sc_rng_philox(counter, key, out);
    return (uint32_t)(((uint64_t)out[0] * limit) >> 32);
}

/* Each `to` a permutation of some of the members, `from` its inverse. */
static inline void draw_permutation(comm_case *c)
{
    int32_t order[CASE_RANKS];
    uint32_t n = c->group_size;
    for (uint32_t i = 0; i < n; i++)
        order[i] = (int32_t)i;
    for (uint32_t i = n; i > 1; i--) {
        uint32_t j = draw(c->seed, 100 + i, i);
        int32_t other = order[j];
        order[j] = order[i - 1];
        order[i - 1] = other;
    }
    for (uint32_t i = 0; i < n; i++)
        c->from[i] = SC_COMM_NOBODY;
    for (uint32_t i = 0; i < n; i++) {
        c->to[i] = draw(c->seed, 200 + i, 5) == 0 ? SC_COMM_NOBODY : order[i];
        if (c->to[i] != SC_COMM_NOBODY)
            c->from[c->to[i]] = (int32_t)i;
    }
}

static inline int64_t draw_count(uint64_t seed, uint64_t index)
{
    uint32_t size = draw(seed, index, 20);
    return size == 0   ? 0
           : size == 1 ? 1
           : size < 16 ? draw(seed, index + 1000, 500)
           : size < 19 ? draw(seed, index + 1000, 9000)
                       : draw(seed, index + 1000, 70000);
}

/* `kind`: SC_COMM_KINDS draws one; send and recv are made by the tests themselves. */
static inline comm_case draw_case(uint64_t seed, uint32_t group_size, sc_comm_kind kind)
{
    comm_case c = {.seed = seed, .group_size = group_size};
    c.kind = kind == SC_COMM_KINDS ? (sc_comm_kind)draw(seed, 1, SC_COMM_SEND) : kind;
    bool reduces = c.kind == SC_COMM_ALL_REDUCE || c.kind == SC_COMM_REDUCE_SCATTER;
    bool divides = c.kind == SC_COMM_ALL_GATHER || c.kind == SC_COMM_REDUCE_SCATTER ||
                   c.kind == SC_COMM_ALL_TO_ALL;
    c.reduce = reduces ? (sc_comm_reduce)(SC_COMM_SUM + draw(seed, 2, 3)) : SC_COMM_NONE;
    c.in_place = draw(seed, 3, 3) == 0 &&
                 (reduces || c.kind == SC_COMM_BROADCAST || c.kind == SC_COMM_ALL_GATHER);
    c.part_count = c.kind == SC_COMM_BARRIER ? 0
                   : draw(seed, 4, 12) == 0  ? 0
                                             : 1 + draw(seed, 5, CASE_PARTS);
    for (uint32_t i = 0; i < c.part_count; i++) {
        c.dtypes[i] = (sc_dtype)draw(seed, 10 + i, SC_DTYPE_COUNT);
        c.counts[i] = draw_count(seed, 20 + i);
        if (divides)
            c.counts[i] -= c.counts[i] % group_size;
    }
    if (c.kind == SC_COMM_PERMUTE)
        draw_permutation(&c);
    int32_t root = (int32_t)draw(seed, 6, group_size);
    for (uint32_t i = 0; c.kind == SC_COMM_BROADCAST && i < group_size; i++)
        c.from[i] = root;
    return c;
}

/* Element `index` of a member's source: any bits of an integer; floats of moderate size, now and
 * then a special one. */
static inline void source_element(const comm_case *c, uint32_t member, uint32_t part, int64_t index,
                                  void *out)
{
    static const double specials[] = {0.0,   -0.0,    INFINITY, -INFINITY, NAN,
                                      1e-40, 0x1p-24, 65504.0,  3e38,      -1e300};
    static const sc_element elements[SC_DTYPE_COUNT] = {[SC_DTYPE_f32] = SC_ELEMENT_F32,
                                                        [SC_DTYPE_f64] = SC_ELEMENT_F64,
                                                        [SC_DTYPE_bf16] = SC_ELEMENT_BF16,
                                                        [SC_DTYPE_f16] = SC_ELEMENT_F16};
    uint32_t counter[4] = {(uint32_t)index, member, part, 1},
             key[2] = {(uint32_t)c->seed, (uint32_t)(c->seed >> 32)}, words[4];
    sc_rng_philox(counter, key, words);
    uint64_t bits = words[0] | (uint64_t)words[1] << 32;
    if (!sc_dtype_is_float(c->dtypes[part])) {
        bits = c->dtypes[part] == SC_DTYPE_bool ? bits & 1 : bits;
        memcpy(out, &bits, sc_dtypes[c->dtypes[part]].bytes);
        return;
    }
    double value = ldexp((double)(int64_t)bits, -63 + (int)(words[2] % 12));
    if (words[3] % 64 == 0)
        value = specials[(words[3] >> 8) % (sizeof specials / sizeof *specials)];
    sc_element_store(elements[c->dtypes[part]], out, 0, value);
}

static inline double float_of_element(sc_dtype dtype, const void *bits)
{
    return sc_element_load(dtype == SC_DTYPE_f32    ? SC_ELEMENT_F32
                           : dtype == SC_DTYPE_f64  ? SC_ELEMENT_F64
                           : dtype == SC_DTYPE_bf16 ? SC_ELEMENT_BF16
                                                    : SC_ELEMENT_F16,
                           bits, 0);
}

static inline void reduce_floats(const comm_case *c, uint32_t part, int64_t index, void *out)
{
    sc_dtype dtype = c->dtypes[part];
    double result = 0;
    for (uint32_t i = 0; i < c->group_size; i++) {
        uint64_t bits = 0;
        source_element(c, i, part, index, &bits);
        double term = float_of_element(dtype, &bits);
        if (i == 0)
            result = term;
        else if (c->reduce != SC_COMM_SUM)
            result = isnan(term) || isnan(result) ? (double)NAN
                     : c->reduce == SC_COMM_MAX   ? (term > result ? term : result)
                                                  : (term < result ? term : result);
        else
            result = dtype == SC_DTYPE_f64 ? result + term : (double)((float)result + (float)term);
    }
    sc_element_store(dtype == SC_DTYPE_f32    ? SC_ELEMENT_F32
                     : dtype == SC_DTYPE_f64  ? SC_ELEMENT_F64
                     : dtype == SC_DTYPE_bf16 ? SC_ELEMENT_BF16
                                              : SC_ELEMENT_F16,
                     out, 0, result);
}

static inline int64_t integer_of_element(sc_dtype dtype, const void *bits)
{
    int32_t narrow;
    int64_t wide;
    memcpy(&narrow, bits, sizeof narrow);
    memcpy(&wide, bits, sizeof wide);
    return dtype == SC_DTYPE_i64 ? wide : dtype == SC_DTYPE_i32 ? narrow : *(const uint8_t *)bits;
}

static inline void reduce_integers(const comm_case *c, uint32_t part, int64_t index, void *out)
{
    sc_dtype dtype = c->dtypes[part];
    uint64_t sum = 0;
    int64_t most = INT64_MIN, least = INT64_MAX;
    for (uint32_t i = 0; i < c->group_size; i++) {
        uint64_t bits = 0;
        source_element(c, i, part, index, &bits);
        int64_t term = integer_of_element(dtype, &bits);
        sum += (uint64_t)term;
        most = term > most ? term : most;
        least = term < least ? term : least;
    }
    uint64_t result = c->reduce == SC_COMM_SUM   ? sum
                      : c->reduce == SC_COMM_MAX ? (uint64_t)most
                                                 : (uint64_t)least;
    if (dtype == SC_DTYPE_bool && c->reduce == SC_COMM_SUM)
        result = sum != 0;
    memcpy(out, &result, sc_dtypes[dtype].bytes);
}

/* Element `index` of a member's destination; false: it stays as it was. */
static inline bool expected_element(const comm_case *c, uint32_t member, uint32_t part,
                                    int64_t index, void *out)
{
    int64_t m = c->counts[part] / c->group_size;
    int64_t at = c->kind == SC_COMM_REDUCE_SCATTER ? member * m + index : index;
    switch (c->kind) {
    case SC_COMM_ALL_GATHER:
        source_element(c, (uint32_t)(index / m), part, index % m, out);
        return true;
    case SC_COMM_ALL_TO_ALL:
        source_element(c, (uint32_t)(index / m), part, member * m + index % m, out);
        return true;
    case SC_COMM_PERMUTE:
    case SC_COMM_BROADCAST:
    case SC_COMM_RECV:
        if (c->from[member] != SC_COMM_NOBODY)
            source_element(c, (uint32_t)c->from[member], part, index, out);
        return c->from[member] != SC_COMM_NOBODY;
    case SC_COMM_ALL_REDUCE:
    case SC_COMM_REDUCE_SCATTER:
        if (sc_dtype_is_float(c->dtypes[part]))
            reduce_floats(c, part, at, out);
        else
            reduce_integers(c, part, at, out);
        return true;
    default:
        return false;
    }
}

/* One member's buffers of a case. */
typedef struct comm_buffers {
    sc_comm_part parts[CASE_PARTS];
    int64_t source_count[CASE_PARTS], destination_count[CASE_PARTS];
    unsigned char *blocks[2 * CASE_PARTS];
} comm_buffers;

static inline unsigned char *guarded(comm_buffers *b, uint32_t index, int64_t bytes)
{
    b->blocks[index] = malloc((size_t)bytes + 2 * CASE_GUARD);
    if (b->blocks[index] == NULL)
        abort();
    memset(b->blocks[index], 0xa5, (size_t)bytes + 2 * CASE_GUARD);
    return b->blocks[index] + CASE_GUARD;
}

static inline void make_buffers(const comm_case *c, uint32_t member, comm_buffers *b)
{
    memset(b, 0, sizeof *b);
    for (uint32_t p = 0; p < c->part_count; p++) {
        int64_t bytes = sc_dtypes[c->dtypes[p]].bytes, count = c->counts[p],
                m = count / c->group_size;
        b->source_count[p] = c->kind == SC_COMM_ALL_GATHER ? m
                             : c->kind == SC_COMM_RECV     ? 0
                                                           : count;
        b->destination_count[p] = c->kind == SC_COMM_REDUCE_SCATTER ? m
                                  : c->kind == SC_COMM_SEND         ? 0
                                                                    : count;
        unsigned char *source =
            guarded(b, 2 * p, (c->in_place ? count : b->source_count[p]) * bytes);
        unsigned char *destination =
            c->in_place ? source : guarded(b, 2 * p + 1, b->destination_count[p] * bytes);
        if (c->in_place && c->kind == SC_COMM_ALL_GATHER)
            source += member * m * bytes;
        if (c->in_place && c->kind == SC_COMM_REDUCE_SCATTER)
            destination += member * m * bytes;
        for (int64_t i = 0; i < b->source_count[p]; i++)
            source_element(c, member, p, i, source + i * bytes);
        b->parts[p] = (sc_comm_part){
            .source = source, .destination = destination, .count = count, .dtype = c->dtypes[p]};
    }
}

static inline sc_comm_call call_of(const comm_case *c, uint32_t member, const comm_buffers *b,
                                   const char *what)
{
    return (sc_comm_call){.kind = c->kind,
                          .reduce = c->reduce,
                          .part_count = c->part_count,
                          .parts = b->parts,
                          .to = c->to[member],
                          .from = c->from[member],
                          .what = what};
}

static inline bool is_same(sc_dtype dtype, const void *a, const void *b)
{
    uint64_t x = 0, y = 0;
    memcpy(&x, a, sc_dtypes[dtype].bytes);
    memcpy(&y, b, sc_dtypes[dtype].bytes);
    return x == y || (sc_dtype_is_float(dtype) && isnan(float_of_element(dtype, &x)) &&
                      isnan(float_of_element(dtype, &y)));
}

/* NULL, or what is wrong (in `text`): results, guards, and sources that are no destinations. */
static inline const char *check_buffers(const comm_case *c, uint32_t member, const comm_buffers *b,
                                        char *text, size_t size)
{
    for (uint32_t p = 0; p < c->part_count; p++) {
        size_t bytes = sc_dtypes[c->dtypes[p]].bytes;
        const unsigned char *destination = b->parts[p].destination, *source = b->parts[p].source;
        for (int64_t i = 0; i < b->destination_count[p]; i++) {
            uint64_t wanted = 0xa5a5a5a5a5a5a5a5u, got = 0;
            expected_element(c, member, p, i, &wanted);
            memcpy(&got, destination + (size_t)i * bytes, bytes);
            if (is_same(c->dtypes[p], &got, &wanted))
                continue;
            snprintf(text, size,
                     "%s(%s) in %u ranks, seed %llu: part %u, %s[%lld] of %lld is %llx, not %llx",
                     sc_comm_kind_names[c->kind], sc_comm_reduce_names[c->reduce], c->group_size,
                     (unsigned long long)c->seed, p, sc_dtypes[c->dtypes[p]].name, (long long)i,
                     (long long)c->counts[p], (unsigned long long)got, (unsigned long long)wanted);
            return text;
        }
        for (int64_t i = 0; !c->in_place && i < b->source_count[p]; i++) {
            uint64_t wanted = 0;
            source_element(c, member, p, i, &wanted);
            if (!is_same(c->dtypes[p], source + (size_t)i * bytes, &wanted))
                return "a source has changed";
        }
        const unsigned char *ends[] = {destination - CASE_GUARD,
                                       destination + (size_t)b->destination_count[p] * bytes};
        /* its neighbours are sources */
        bool is_inside = c->in_place && c->kind == SC_COMM_REDUCE_SCATTER;
        for (int e = 0; !is_inside && e < 2; e++) {
            for (int i = 0; i < CASE_GUARD; i++) {
                if (ends[e][i] != 0xa5)
                    return "bytes beside a destination have changed";
            }
        }
    }
    return NULL;
}

static inline void free_buffers(comm_buffers *b)
{
    for (int i = 0; i < 2 * CASE_PARTS; i++)
        free(b->blocks[i]);
}

#endif
