/* Random kernels that verify, for property tests, with arguments to run them on. What they compute
 * is chosen so that f32 and f64 tell the same story: each node has a bound on its magnitude, and is
 * known to be exact in f32 (a multiple of a power of 2, in few bits) or not; what jumps
 * (comparisons, floor, conversions to integers) is only done to exact ones, and what is not exact
 * stays small. So stored integers and bools must agree to the bit whatever computes them, f32 and
 * f64 to about 1e-4 of 1 + |x|, f16 and bf16 to a unit in the last place more. */
#ifndef SHARDC_TEST_RANDOM_KERNEL_H
#define SHARDC_TEST_RANDOM_KERNEL_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/kernel/kernel.h"
#include "ir/interp/interp.h"

enum { RANDOM_KERNEL_NODES = 4096, RANDOM_KERNEL_POOL = 256, RANDOM_KERNEL_POINTS = 2500 };

typedef struct random_kernel {
    sc_kernel *k;
    /* elements of the argument lie between; floats are multiples of 1/4 */
    int64_t low[SC_KERNEL_MAX_ARGS], high[SC_KERNEL_MAX_ARGS];
} random_kernel;

/* What is known of a node. */
typedef struct random_fact {
    bool known, exact;
    uint32_t inner;     /* bit d: depends on the kernel's inner dim d */
    uint32_t phase;     /* SC_NONE, or the only phase that it may be used in */
    int fraction, size; /* a multiple of 2^-fraction (when exact), at most 2^size */
} random_fact;

typedef struct random_maker {
    random_kernel made;
    sc_kernel *k;
    uint64_t seed;
    uint32_t phase;       /* being made */
    uint32_t phase_inner; /* its dims */
    random_fact facts[RANDOM_KERNEL_NODES];
    sc_knode pool[RANDOM_KERNEL_POOL];
    uint32_t pool_count;
} random_maker;

static inline uint64_t random_bits(uint64_t *seed) /* splitmix64 */
{
    uint64_t x = *seed += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static inline uint32_t random_below(random_maker *r, uint32_t count)
{
    return (uint32_t)(random_bits(&r->seed) >> 32) % count;
}

static inline bool random_chance(random_maker *r, uint32_t percent)
{
    return random_below(r, 100) < percent;
}

/* ---- nodes with facts ---- */

/* A node that was there keeps what was known of it. */
static inline sc_knode random_note(random_maker *r, sc_knode node, random_fact fact)
{
    fact.known = true;
    if (!r->facts[node].known)
        r->facts[node] = fact;
    return node;
}

static inline sc_dtype random_dtype_of(const random_maker *r, sc_knode node)
{
    return (sc_dtype)r->k->nodes.data[node].dtype;
}

static inline sc_knode random_constant(random_maker *r, sc_dtype dtype, double number)
{
    int size = number == 0 ? 0 : (int)ceil(log2(fabs(number))), fraction = 0;
    while (fraction < 30 && ldexp(number, fraction) != floor(ldexp(number, fraction)))
        fraction++;
    random_fact fact = {.exact = fraction < 20,
                        .phase = SC_NONE,
                        .fraction = fraction,
                        .size = size < 0 ? 0 : size};
    return random_note(r, sc_kernel_constant(r->k, dtype, number), fact);
}

/* What of the operands a result has: a bound must be set by the caller. */
static inline random_fact random_joined(const random_maker *r, const sc_knode *operands,
                                        uint32_t count)
{
    random_fact fact = {.exact = true, .phase = SC_NONE};
    for (uint32_t i = 0; i < count; i++) {
        const random_fact *f = &r->facts[operands[i]];
        fact.exact = fact.exact && f->exact;
        fact.inner |= f->inner;
        fact.phase = f->phase != SC_NONE ? f->phase : fact.phase;
        fact.fraction = f->fraction > fact.fraction ? f->fraction : fact.fraction;
        fact.size = f->size > fact.size ? f->size : fact.size;
    }
    return fact;
}

/* An operation whose result has this bound and is exact if its operands are and `exact` says so. */
static inline sc_knode random_node(random_maker *r, sc_node_kind kind, const sc_knode *operands,
                                   uint32_t count, int fraction, int size, bool exact)
{
    random_fact fact = random_joined(r, operands, count);
    fact.fraction = fraction;
    fact.size = size < 0 ? 0 : size;
    fact.exact = fact.exact && exact && fraction + size <= 20;
    return random_note(r, sc_kernel_node_new(r->k, kind, operands, count), fact);
}

static inline sc_knode random_binary(random_maker *r, sc_node_kind kind, sc_knode x, sc_knode y,
                                     int fraction, int size, bool exact)
{
    return random_node(r, kind, (sc_knode[]){x, y}, 2, fraction, size, exact);
}

static inline sc_knode random_unary(random_maker *r, sc_node_kind kind, sc_knode x, int fraction,
                                    int size, bool exact)
{
    return random_node(r, kind, &x, 1, fraction, size, exact);
}

static inline sc_knode random_convert(random_maker *r, sc_knode x, sc_dtype dtype)
{
    random_fact fact = random_joined(r, &x, 1);
    if (!sc_dtype_is_float(dtype))
        fact.fraction = 0;
    if (dtype == SC_DTYPE_bool)
        fact.size = 0;
    return random_note(r, sc_kernel_convert(r->k, x, dtype), fact);
}

/* ---- arguments and their indices ---- */

static inline uint32_t random_arg(random_maker *r, sc_dtype dtype, sc_kernel_arg_mode mode,
                                  uint32_t rank, const int64_t *sizes)
{
    sc_kernel *k = r->k;
    sc_kernel_arg arg = {.name = sc_intern_printf(&k->context->names,
                                                  mode == SC_ARG_IN ? "x%u" : "y%u", k->args.count),
                         .dtype = dtype,
                         .mode = mode,
                         .rank = rank};
    for (uint32_t d = 0; d < rank; d++)
        arg.sizes[d] = sizes[d];
    uint32_t number = sc_kernel_add_arg(k, &arg);
    r->made.low[number] = dtype == SC_DTYPE_u8 || dtype == SC_DTYPE_bool ? 0 : -4;
    r->made.high[number] = dtype == SC_DTYPE_bool ? 1 : 4;
    return number;
}

typedef struct random_access {
    uint32_t rank;
    int64_t sizes[SC_KERNEL_MAX_RANK];
    sc_knode indices[SC_KERNEL_MAX_RANK];
    sc_knode guard;
    random_fact fact; /* of the indices together */
} random_access;

static inline sc_knode random_index(random_maker *r, uint32_t dim)
{
    random_fact fact = {
        .exact = true, .phase = SC_NONE, .inner = dim < r->k->outer_count ? 0 : 1u << dim};
    while (((int64_t)1 << fact.size) < r->k->dims.data[dim].size)
        fact.size++;
    return random_note(r, sc_kernel_index(r->k, dim), fact);
}

static inline sc_knode random_index_op(random_maker *r, sc_node_kind kind, sc_knode x, int64_t y)
{
    int size = r->facts[x].size + (kind == SC_NODE_mul ? 3 : 1);
    return random_binary(r, kind, x, random_constant(r, SC_DTYPE_i64, (double)y), 0, size, true);
}

static inline void random_guard(random_maker *r, random_access *access, sc_knode condition)
{
    if (access->guard == SC_NONE)
        access->guard = condition;
    else
        access->guard = random_binary(r, SC_NODE_and, access->guard, condition, 0, 0, true);
}

/* low <= x < high, said in one of several ways */
static inline sc_knode random_between(random_maker *r, sc_knode x, int64_t low, int64_t high)
{
    sc_knode first, second, l = random_constant(r, SC_DTYPE_i64, (double)low),
                            h = random_constant(r, SC_DTYPE_i64, (double)high);
    first = random_chance(r, 50) ? random_binary(r, SC_NODE_ge, x, l, 0, 0, true)
                                 : random_binary(r, SC_NODE_le, l, x, 0, 0, true);
    sc_knode last = random_constant(r, SC_DTYPE_i64, (double)high - 1);
    second = random_chance(r, 50) ? random_binary(r, SC_NODE_lt, x, h, 0, 0, true)
                                  : random_binary(r, SC_NODE_le, x, last, 0, 0, true);
    return random_binary(r, SC_NODE_and, first, second, 0, 0, true);
}

/* An index that is itself loaded, from an array over the dim: clamped, guarded or checked. */
static inline sc_knode random_loaded_index(random_maker *r, random_access *access, uint32_t dim,
                                           int64_t size)
{
    static const sc_dtype dtypes[] = {SC_DTYPE_i32, SC_DTYPE_i64, SC_DTYPE_u8};
    uint32_t ids = random_arg(r, dtypes[random_below(r, 3)], SC_ARG_IN, 1,
                              &r->k->dims.data[dim].size),
             how = random_below(r, 3);
    bool is_u8 = r->k->args.data[ids].dtype == SC_DTYPE_u8,
         leaves = how != 2 || random_chance(r, 10);
    r->made.low[ids] = leaves && !is_u8 ? -2 : 0;
    r->made.high[ids] = size - 1 + (leaves ? 2 : 0);
    sc_knode at = random_index(r, dim);
    random_fact fact = r->facts[at];
    fact.size = 8;
    sc_knode x = random_convert(r, random_note(r, sc_kernel_load(r->k, ids, &at, SC_NONE), fact),
                                SC_DTYPE_i64);
    if (how == 0) {
        x = random_index_op(r, SC_NODE_maximum, x, 0);
        return random_index_op(r, SC_NODE_minimum, x, size - 1);
    }
    if (how == 1)
        random_guard(r, access, random_between(r, x, 0, size));
    else
        sc_kernel_add_check(r->k, random_between(r, x, 0, size), random_chance(r, 50) ? x : SC_NONE,
                            "a loaded index is out of range");
    return x;
}

/* One position over a dim; `writes`: different indices give different elements, and all are inside.
 */
static inline void random_position(random_maker *r, random_access *access, uint32_t dim,
                                   bool writes)
{
    int64_t size = r->k->dims.data[dim].size, by = 1 + random_below(r, 3), elements = size;
    sc_knode index = random_index(r, dim);
    for (uint32_t i = 0; i < access->rank; i++)
        elements *= access->sizes[i];
    switch (random_chance(r, 60) || elements > 4000 ? 0 : 1 + random_below(r, writes ? 3 : 7)) {
    case 1: /* behind others */
        index = random_index_op(r, SC_NODE_add, index, by);
        size += by + random_below(r, 2);
        break;
    case 2: /* from behind */
        index = random_binary(r, SC_NODE_sub, random_constant(r, SC_DTYPE_i64, (double)(size - 1)),
                              index, 0, r->facts[index].size, true);
        break;
    case 3: /* every n-th */
        index = random_index_op(r, SC_NODE_add, random_index_op(r, SC_NODE_mul, index, by + 1), by);
        size = size * (by + 1) + by;
        break;
    case 4:
        index = random_index_op(r, SC_NODE_div, index, by + 1);
        size = (size + by) / (by + 1);
        break;
    case 5:
        index = random_index_op(r, SC_NODE_mod, index, by + 1);
        size = by + 1;
        break;
    case 6: { /* a window of the dim */
        int64_t first = random_below(r, (uint32_t)size),
                count = 1 + random_below(r, (uint32_t)(size - first));
        sc_knode inside = random_index_op(r, SC_NODE_sub, index, first);
        random_guard(r, access,
                     random_chance(r, 50) ? random_between(r, index, first, first + count)
                                          : random_between(r, inside, 0, count));
        index = inside;
        size = count;
        break;
    }
    case 7:
        size = 1 + random_below(r, 6);
        index = random_loaded_index(r, access, dim, size);
        break;
    default:
        break;
    }
    access->indices[access->rank] = index;
    access->sizes[access->rank++] = size;
}

/* Indices over the dims in `set`, in any order; now and then two positions are one. */
static inline random_access random_access_to(random_maker *r, uint32_t set, bool writes)
{
    random_access access = {.guard = SC_NONE};
    uint32_t order[32], count = 0;
    for (uint32_t d = 0; d < r->k->dims.count; d++) {
        if ((set >> d & 1) != 0)
            order[count++] = d;
    }
    for (uint32_t i = count; random_chance(r, 40) && i-- > 1;) {
        uint32_t other = random_below(r, i + 1), dim = order[i];
        order[i] = order[other];
        order[other] = dim;
    }
    for (uint32_t i = 0; i < count; i++)
        random_position(r, &access, order[i], writes);
    if (access.rank >= 2 && random_chance(r, 20)) {
        uint32_t at = access.rank - 2;
        sc_knode slow = random_index_op(r, SC_NODE_mul, access.indices[at], access.sizes[at + 1]);
        access.indices[at] =
            random_binary(r, SC_NODE_add, slow, access.indices[at + 1], 0, 12, true);
        access.sizes[at] *= access.sizes[at + 1];
        access.rank--;
    }
    access.fact = random_joined(r, access.indices, access.rank);
    if (access.guard != SC_NONE)
        access.fact.inner |= r->facts[access.guard].inner;
    return access;
}

static inline uint32_t random_outer_set(const random_maker *r)
{
    return (1u << r->k->outer_count) - 1;
}

static inline sc_knode random_load(random_maker *r)
{
    sc_dtype dtype =
        random_chance(r, 45) ? SC_DTYPE_f32 : (sc_dtype)random_below(r, SC_DTYPE_COUNT);
    uint32_t within = random_outer_set(r) | r->phase_inner,
             set = within & (random_chance(r, 50) ? UINT32_MAX : (uint32_t)random_bits(&r->seed));
    random_access access = random_access_to(r, set, false);
    uint32_t arg = random_arg(r, dtype, SC_ARG_IN, access.rank, access.sizes);
    access.fact.exact = true;
    access.fact.fraction = sc_dtype_is_float(dtype) ? 2 : 0;
    access.fact.size = dtype == SC_DTYPE_bool ? 0 : 2;
    return random_note(r, sc_kernel_load(r->k, arg, access.indices, access.guard), access.fact);
}

/* ---- expressions ---- */

static inline void random_keep(random_maker *r, sc_knode node)
{
    r->pool[r->pool_count < RANDOM_KERNEL_POOL ? r->pool_count++
                                               : random_below(r, RANDOM_KERNEL_POOL)] = node;
}

/* A node that this phase can use. */
static inline sc_knode random_pick(random_maker *r)
{
    for (int tries = 0; tries < 40; tries++) {
        sc_knode node = r->pool[random_below(r, r->pool_count)];
        const random_fact *fact = &r->facts[node];
        if ((fact->inner & ~r->phase_inner) == 0 &&
            (fact->phase == SC_NONE || fact->phase == r->phase))
            return node;
    }
    return random_constant(r, SC_DTYPE_f32, 0.75);
}

/* A pick in some dtype: what is not exact becomes no integer. */
static inline sc_knode random_pick_as(random_maker *r, sc_dtype dtype)
{
    sc_knode node = random_pick(r);
    if (!sc_dtype_is_float(dtype) && !r->facts[node].exact)
        return random_constant(r, dtype, dtype == SC_DTYPE_bool ? 1 : 3);
    return random_convert(r, node, dtype);
}

/* Back into the bounds within which everything is done. */
static inline sc_knode random_tamed(random_maker *r, sc_knode x)
{
    const random_fact *fact = &r->facts[x];
    sc_dtype dtype = random_dtype_of(r, x);
    if (!sc_dtype_is_float(dtype))
        return fact->size <= 16
                   ? x
                   : random_binary(r, SC_NODE_mod, x, random_constant(r, dtype, 17), 0, 5, true);
    if (fact->size <= 6)
        return x;
    if (!fact->exact)
        return random_unary(r, SC_NODE_tanh,
                            random_binary(r, SC_NODE_mul, x,
                                          random_constant(r, dtype, ldexp(1, -fact->size)), 0, 0,
                                          false),
                            0, 0, false);
    x = random_binary(r, SC_NODE_minimum, x, random_constant(r, dtype, 8), fact->fraction,
                      fact->size, true);
    return random_binary(r, SC_NODE_maximum, x, random_constant(r, dtype, -8), r->facts[x].fraction,
                         3, true);
}

static inline sc_knode random_arithmetic(random_maker *r, sc_dtype dtype)
{
    static const sc_node_kind kinds[] = {SC_NODE_add, SC_NODE_sub, SC_NODE_mul, SC_NODE_minimum,
                                         SC_NODE_maximum};
    sc_node_kind kind = kinds[random_below(r, 5)];
    sc_knode x = random_pick_as(r, dtype), y = random_pick_as(r, dtype);
    random_fact a = r->facts[x], b = r->facts[y];
    int size = a.size > b.size ? a.size : b.size,
        fraction = a.fraction > b.fraction ? a.fraction : b.fraction;
    if (kind == SC_NODE_mul && (!a.exact || !b.exact) && a.size + b.size > 4)
        kind = SC_NODE_sub; /* which makes no error larger */
    if (kind == SC_NODE_mul)
        return random_binary(r, kind, x, y, a.fraction + b.fraction, a.size + b.size, true);
    return random_binary(r, kind, x, y, fraction, size + (kind <= SC_NODE_sub), true);
}

static inline sc_knode random_shifted_abs(random_maker *r, sc_knode x, double by)
{
    random_fact f = r->facts[x];
    x = random_unary(r, SC_NODE_abs, x, f.fraction, f.size, true);
    return random_binary(r, SC_NODE_add, x, random_constant(r, random_dtype_of(r, x), by),
                         f.fraction > 1 ? f.fraction : 1, f.size + 1, true);
}

/* Of a float: within the domain, and with a bounded slope. */
static inline sc_knode random_function(random_maker *r, sc_dtype dtype)
{
    static const sc_node_kind free_kinds[] = {SC_NODE_tanh, SC_NODE_sin, SC_NODE_cos, SC_NODE_erf};
    sc_knode x = random_pick_as(r, dtype);
    int size = r->facts[x].size;
    switch (random_below(r, 8)) {
    case 0:
        x = random_binary(r, SC_NODE_minimum, x, random_constant(r, dtype, 2), r->facts[x].fraction,
                          size, true);
        return random_unary(r, SC_NODE_exp, x, 0, 3, false);
    case 1:
        return random_unary(r, SC_NODE_log, random_shifted_abs(r, x, 1), 0, 3, false);
    case 2:
        return random_unary(r, random_chance(r, 50) ? SC_NODE_sqrt : SC_NODE_rsqrt,
                            random_shifted_abs(r, x, 0.5), 0, size / 2 + 1, false);
    case 3:
        return random_binary(r, SC_NODE_div, random_pick_as(r, dtype), random_shifted_abs(r, x, 1),
                             0, 6, false);
    case 4: {
        static const double exponents[] = {0.5, 1.5, 2, -1, 0.25};
        x = random_unary(r, SC_NODE_tanh, x, 0, 0, false);
        return random_binary(r, SC_NODE_pow, random_shifted_abs(r, x, 1),
                             random_constant(r, dtype, exponents[random_below(r, 5)]), 0, 2, false);
    }
    default:
        return random_unary(r, free_kinds[random_below(r, 4)], x, 0, 0, false);
    }
}

static inline sc_knode random_stepwise(random_maker *r, sc_dtype dtype)
{
    sc_knode x = random_pick_as(r, dtype);
    random_fact f = r->facts[x];
    if (!f.exact)
        return x;
    switch (random_below(r, 6)) {
    case 0:
        return random_unary(r, SC_NODE_floor, x, 0, f.size + 1, true);
    case 1:
        return random_unary(r, SC_NODE_sign, x, 0, 0, true);
    case 2:
        return random_unary(r, SC_NODE_relu, x, f.fraction, f.size, true);
    case 3:
        return random_unary(r, SC_NODE_abs, x, f.fraction, f.size, true);
    case 4: {
        double by[] = {2, 3, -3, sc_dtype_is_float(dtype) ? 1.5 : -7};
        return random_binary(r, SC_NODE_mod, x, random_constant(r, dtype, by[random_below(r, 4)]),
                             f.fraction > 1 ? f.fraction : 1, 3, true);
    }
    default:
        if (sc_dtype_is_float(dtype))
            return random_unary(r, SC_NODE_neg, x, f.fraction, f.size, true);
        /* by 0, too */
        return random_binary(r, SC_NODE_div, x, random_pick_as(r, dtype), 0, f.size, true);
    }
}

static inline sc_knode random_condition(random_maker *r)
{
    static const sc_dtype dtypes[] = {SC_DTYPE_f32, SC_DTYPE_f64, SC_DTYPE_i32, SC_DTYPE_i64,
                                      SC_DTYPE_bool};
    sc_knode x = random_pick(r), y;
    if (!r->facts[x].exact || random_chance(r, 20)) {
        x = random_pick_as(r, SC_DTYPE_bool);
        if (random_chance(r, 30))
            return random_unary(r, SC_NODE_not, x, 0, 0, true);
        return random_binary(r, random_chance(r, 50) ? SC_NODE_and : SC_NODE_or, x,
                             random_pick_as(r, SC_DTYPE_bool), 0, 0, true);
    }
    if (random_chance(r, 30))
        x = random_convert(r, x, dtypes[random_below(r, 5)]);
    y = random_pick(r);
    y = r->facts[y].exact ? random_convert(r, y, random_dtype_of(r, x))
                          : random_constant(r, random_dtype_of(r, x), 1);
    return random_binary(r, (sc_node_kind)(SC_NODE_lt + random_below(r, 6)), x, y, 0, 0, true);
}

static inline sc_knode random_choice(random_maker *r, sc_dtype dtype)
{
    sc_knode operands[] = {random_condition(r), random_pick_as(r, dtype), random_pick_as(r, dtype)};
    random_fact f = random_joined(r, operands + 1, 2);
    return random_node(r, SC_NODE_where, operands, 3, f.fraction, f.size, true);
}

/* A uniform number of the element, as dropout has it. */
static inline sc_knode random_uniform(random_maker *r)
{
    sc_image_param params[] = {{.kind = SC_PARAM_KEY, .path_hash = random_below(r, 3)},
                               {.kind = SC_PARAM_STEP},
                               {.kind = SC_PARAM_MICRO_BATCH}};
    sc_knode operands[4] = {random_constant(r, SC_DTYPE_i64, 0)};
    for (uint32_t d = 0; d < r->k->dims.count; d++) {
        if (((random_outer_set(r) | r->phase_inner) >> d & 1) == 0)
            continue;
        sc_knode slower = random_index_op(r, SC_NODE_mul, operands[0], r->k->dims.data[d].size);
        operands[0] = random_binary(r, SC_NODE_add, slower, random_index(r, d), 0, 20, true);
    }
    for (int i = 0; i < 3; i++) {
        sc_knode param = sc_kernel_param(r->k, sc_kernel_add_param(r->k, &params[i]));
        operands[i + 1] = random_note(r, param, (random_fact){.phase = SC_NONE, .size = 30});
    }
    if (random_chance(r, 30))
        operands[3] = random_constant(r, SC_DTYPE_i64, 0);
    random_fact fact = random_joined(r, operands, 1);
    fact.exact = false;
    fact.size = 0;
    sc_knode uniform = random_note(
        r, sc_kernel_random(r->k, operands[0], operands[1], operands[2], operands[3]), fact);
    if (random_chance(r, 30))
        return uniform;
    /* f64 everywhere, so the comparison is exact */
    fact.exact = true;
    sc_knode limit = random_constant(r, SC_DTYPE_f64, 0.3);
    return random_note(r, sc_kernel_node_new(r->k, SC_NODE_ge, (sc_knode[]){uniform, limit}, 2),
                       fact);
}

static inline void random_grow(random_maker *r)
{
    static const sc_dtype dtypes[] = {SC_DTYPE_f32, SC_DTYPE_f32, SC_DTYPE_f32,
                                      SC_DTYPE_f64, SC_DTYPE_i32, SC_DTYPE_i64};
    sc_dtype dtype = dtypes[random_below(r, 6)];
    bool is_float = sc_dtype_is_float(dtype);
    uint32_t what = random_below(r, 100);
    sc_knode node =
        what < 40   ? random_arithmetic(r, dtype)
        : what < 60 ? random_stepwise(r, dtype)
        : what < 75 ? (is_float ? random_function(r, dtype) : random_arithmetic(r, dtype))
        : what < 85 ? random_choice(r, dtype)
        : what < 90 ? random_condition(r)
        : what < 95 ? random_uniform(r)
                    : random_convert(r, random_index(r, random_below(r, r->k->dims.count)), dtype);
    random_keep(r, random_tamed(r, node));
}

/* ---- items ---- */

static inline int random_phase_bits(const random_maker *r)
{
    double points = 1;
    for (uint32_t d = 0; d < r->k->dims.count; d++)
        points *= (r->phase_inner >> d & 1) != 0 ? (double)r->k->dims.data[d].size : 1;
    return (int)ceil(log2(points));
}

/* Reads it in this phase already, perhaps. */
static inline sc_knode random_reduction(random_maker *r, uint32_t *out_item)
{
    sc_knode value = random_pick(r);
    bool is_bool = random_dtype_of(r, value) == SC_DTYPE_bool;
    sc_item_kind kind = random_chance(r, 60) && !is_bool ? SC_ITEM_SUM
                        : random_chance(r, 50)           ? SC_ITEM_MAX
                                                         : SC_ITEM_MIN;
    random_fact fact = r->facts[value];
    fact.size += kind == SC_ITEM_SUM ? random_phase_bits(r) : 0;
    fact.exact = fact.exact && fact.size + fact.fraction <= 22;
    fact.inner = 0;
    *out_item = sc_kernel_add_reduction(r->k, kind, value);
    return random_note(r, sc_kernel_reduced(r->k, *out_item, false), fact);
}

/* The sum in the bounds of everything else. */
static inline sc_knode random_scaled(random_maker *r, sc_knode x)
{
    random_fact f = r->facts[x];
    sc_dtype dtype = random_dtype_of(r, x);
    if (!sc_dtype_is_float(dtype) || f.size <= 6)
        return random_tamed(r, x);
    return random_binary(r, SC_NODE_mul, x, random_constant(r, dtype, ldexp(1, 3 - f.size)),
                         f.fraction + f.size - 3, 3, true);
}

static inline sc_dtype random_stored_dtype(random_maker *r, sc_dtype dtype)
{
    static const sc_dtype floats[] = {SC_DTYPE_f32, SC_DTYPE_f32, SC_DTYPE_bf16, SC_DTYPE_f16,
                                      SC_DTYPE_f64};
    if (dtype == SC_DTYPE_i32 && random_chance(r, 30))
        return SC_DTYPE_u8;
    return sc_dtype_is_float(dtype) ? floats[random_below(r, 5)] : dtype;
}

static inline void random_store(random_maker *r, sc_knode value)
{
    random_access access = random_access_to(r, random_outer_set(r) | r->phase_inner, true);
    uint32_t arg = random_arg(r, random_stored_dtype(r, random_dtype_of(r, value)), SC_ARG_OUT,
                              access.rank, access.sizes);
    sc_knode guard = random_chance(r, 10) ? random_condition(r) : SC_NONE;
    /* a store that never happens is none */
    if (guard != SC_NONE && r->k->nodes.data[guard].kind == SC_NODE_constant)
        guard = SC_NONE;
    sc_kernel_add_store(r->k, SC_ITEM_STORE, arg, access.indices, value, guard);
}

/* x = some function of x, element by element */
static inline void random_update(random_maker *r)
{
    random_access access = random_access_to(r, random_outer_set(r) | r->phase_inner, true);
    sc_knode value = random_pick(r);
    uint32_t arg =
        random_arg(r, random_dtype_of(r, value), SC_ARG_INOUT, access.rank, access.sizes);
    sc_knode old = sc_kernel_load(r->k, arg, access.indices, SC_NONE);
    value = sc_kernel_node_new(r->k, SC_NODE_maximum, (sc_knode[]){old, value}, 2);
    sc_kernel_add_store(r->k, SC_ITEM_STORE, arg, access.indices, value, SC_NONE);
}

/* Adds over the points of the phase, perhaps to where a loaded index says. */
static inline void random_addition(random_maker *r)
{
    uint32_t some = r->phase_inner & (uint32_t)random_bits(&r->seed);
    random_access access = random_access_to(r, random_outer_set(r) | some, true);
    sc_knode value = random_pick(r);
    sc_dtype dtype = random_dtype_of(r, value), stored = random_stored_dtype(r, dtype);
    if (dtype == SC_DTYPE_bool)
        return;
    /* else rounding in between may differ */
    if (!r->facts[value].exact || r->facts[value].size + random_phase_bits(r) > 8)
        stored = sc_dtype_is_float(dtype) ? dtype : stored;
    if (r->phase_inner != 0 && access.rank < 4 && random_chance(r, 60)) {
        uint32_t dim = r->k->outer_count;
        while ((r->phase_inner >> dim & 1) == 0)
            dim++;
        int64_t size = 1 + random_below(r, 7);
        access.indices[access.rank] = random_loaded_index(r, &access, dim, size);
        access.sizes[access.rank++] = size;
    }
    uint32_t arg = random_arg(r, stored, SC_ARG_INOUT, access.rank, access.sizes);
    sc_kernel_add_store(r->k, SC_ITEM_ADD, arg, access.indices, value, access.guard);
}

/* ---- the kernel ---- */

static inline void random_dims(random_maker *r)
{
    static const int64_t sizes[] = {1, 2, 2, 3, 3, 4, 5, 7, 8, 9, 16, 17, 31, 33, 70};
    uint32_t count = 1 + random_below(r, 4);
    int64_t points = 1;
    for (uint32_t d = 0; d < count; d++) {
        int64_t size = sizes[random_below(r, sizeof sizes / sizeof *sizes)];
        size = points * size > RANDOM_KERNEL_POINTS ? 1 + random_below(r, 3) : size;
        points *= size;
        sc_kernel_add_dim(r->k,
                          sc_intern_printf(&r->k->context->names,
                                           random_chance(r, 10) ? "%c*2" : "%c", "ABCDE"[d]),
                          size);
    }
    r->k->outer_count = random_below(r, count + 1);
}

static inline void random_phase(random_maker *r, bool last)
{
    uint32_t dims[SC_KERNEL_MAX_RANK], count = 0;
    r->phase = r->k->phases.count;
    r->phase_inner = 0;
    for (uint32_t d = r->k->outer_count; d < r->k->dims.count; d++) {
        if (random_chance(r, 70)) {
            dims[count++] = d;
            r->phase_inner |= 1u << d;
        }
    }
    if (count > 1 && random_chance(r, 30)) {
        uint32_t first = dims[0];
        dims[0] = dims[count - 1];
        dims[count - 1] = first;
    }
    sc_kernel_add_phase(r->k, dims, count);
    for (uint32_t i = 1 + random_below(r, 3); i-- > 0;)
        random_keep(r, random_load(r));
    for (uint32_t i = 2 + random_below(r, 7); i-- > 0;)
        random_grow(r);
    sc_knode reduced[3]; /* read behind this phase only */
    uint32_t items = last ? random_below(r, 2) : 1 + random_below(r, 3);
    for (uint32_t i = 0; i < items; i++) {
        uint32_t item;
        reduced[i] = random_reduction(r, &item);
        if (random_chance(r, 20)) {
            random_fact fact = r->facts[reduced[i]];
            fact.inner = r->phase_inner;
            fact.phase = r->phase;
            random_store(r, random_note(r, sc_kernel_reduced(r->k, item, true), fact));
        }
    }
    for (uint32_t i = last ? 1 + random_below(r, 3) : random_below(r, 2); i-- > 0;)
        random_store(r, random_pick(r));
    if (random_chance(r, 20))
        random_update(r);
    if (random_chance(r, 30))
        random_addition(r);
    for (uint32_t i = 0; i < items; i++)
        random_keep(r, random_scaled(r, reduced[i]));
}

/* The kernel of a seed; it verifies. */
static inline random_kernel random_kernel_make(sc_context *context, uint64_t seed)
{
    random_maker *r = sc_arena_alloc(&context->arena, sizeof *r);
    r->seed = seed;
    r->k = sc_kernel_new(context,
                         sc_intern_printf(&context->names, "k%llu", (unsigned long long)seed));
    r->made.k = r->k;
    random_dims(r);
    random_keep(r, random_constant(r, SC_DTYPE_f32, 1.25));
    random_keep(r, random_constant(r, SC_DTYPE_i32, -3));
    uint32_t phases = 1 + random_below(r, 4);
    for (uint32_t p = 0; p < phases; p++)
        random_phase(r, p + 1 == phases);
    return r->made;
}

/* ---- what to run it on ---- */

static inline int64_t random_kernel_elements(const sc_kernel_arg *arg)
{
    int64_t count = 1;
    for (uint32_t d = 0; d < arg->rank; d++)
        count *= arg->sizes[d];
    return count;
}

/* Elements of the argument, exact in its dtype; OUT ones too, since not every element need be
 * stored. In the context's arena. */
static inline double *random_kernel_fill(const random_kernel *made, uint32_t arg, uint64_t seed)
{
    const sc_kernel_arg *a = &made->k->args.data[arg];
    int64_t count = random_kernel_elements(a), low = made->low[arg], range = made->high[arg] - low;
    double *data = sc_arena_array(&made->k->context->arena, (size_t)count, sizeof *data);
    seed = seed * 131 + arg;
    for (int64_t i = 0; i < count; i++) {
        uint64_t bits = random_bits(&seed) >> 8;
        if (sc_dtype_is_float(a->dtype))
            data[i] = (double)low + (double)(bits % (uint64_t)(range * 4 + 1)) * 0.25;
        else
            data[i] = (double)(low + (int64_t)(bits % (uint64_t)(range + 1)));
    }
    return data;
}

static inline int64_t *random_kernel_params(const random_kernel *made, uint64_t seed)
{
    int64_t *params =
        sc_arena_array(&made->k->context->arena, made->k->params.count + 1u, sizeof *params);
    for (uint32_t i = 0; i < made->k->params.count; i++) {
        uint64_t bits = random_bits(&seed);
        params[i] =
            made->k->params.data[i].kind == SC_PARAM_KEY ? (int64_t)bits : (int64_t)(bits >> 40);
    }
    return params;
}

#endif
