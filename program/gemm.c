/* Descriptors of contractions: validation, sizes, canonical form, text. */
#include "program/gemm.h"

#include <math.h>
#include <string.h>

/* The roles whose dims an operand has. Tensors of steps have those of c, except for sums over k. */
static const bool has[SC_GEMM_OPERANDS][SC_GEMM_ROLES] = {
    [SC_GEMM_A] = {[SC_GEMM_BATCH] = true, [SC_GEMM_M] = true, [SC_GEMM_K] = true},
    [SC_GEMM_B] = {[SC_GEMM_BATCH] = true, [SC_GEMM_N] = true, [SC_GEMM_K] = true},
    [SC_GEMM_C] = {[SC_GEMM_BATCH] = true, [SC_GEMM_M] = true, [SC_GEMM_N] = true},
};
static const bool sum_has[SC_GEMM_OPERANDS][SC_GEMM_ROLES] = {
    [SC_GEMM_A] = {[SC_GEMM_BATCH] = true, [SC_GEMM_M] = true},
    [SC_GEMM_B] = {[SC_GEMM_BATCH] = true, [SC_GEMM_N] = true},
};

enum { ANY_NUMBER, ONLY_FLOATS };

static const struct {
    const char *name;           /* in dumps */
    int numbers;                /* that it applies to */
    sc_gemm_step_kind slope_of; /* SC_GEMM_STEP_KINDS: it is no derivative */
} steps[SC_GEMM_STEP_KINDS] = {
    [SC_GEMM_ADD] = {"+", ANY_NUMBER, SC_GEMM_STEP_KINDS},
    [SC_GEMM_MUL] = {"*", ANY_NUMBER, SC_GEMM_STEP_KINDS},
    [SC_GEMM_STORE] = {"store", ANY_NUMBER, SC_GEMM_STEP_KINDS},
    [SC_GEMM_SUM_A] = {"sum_a", ANY_NUMBER, SC_GEMM_STEP_KINDS},
    [SC_GEMM_SUM_B] = {"sum_b", ANY_NUMBER, SC_GEMM_STEP_KINDS},
    [SC_GEMM_SCALE] = {"*", ANY_NUMBER, SC_GEMM_STEP_KINDS},
#define ACTIVATION(name, NAME, numbers, ...)                                                       \
    [SC_GEMM_##NAME] = {#name, numbers, SC_GEMM_STEP_KINDS},
#include "program/activations.def"
#define ACTIVATION(...)
#define ACTIVATION_SLOPE(name, NAME, ...)                                                          \
    [SC_GEMM_##NAME##_GRAD] = {#name "_grad", ONLY_FLOATS, SC_GEMM_##NAME},
#include "program/activations.def"
};

sc_gemm_operand sc_gemm_step_sums(sc_gemm_step_kind kind)
{
    return kind == SC_GEMM_SUM_A ? SC_GEMM_A : kind == SC_GEMM_SUM_B ? SC_GEMM_B : SC_GEMM_OPERANDS;
}

bool sc_gemm_step_writes(sc_gemm_step_kind kind)
{
    return kind == SC_GEMM_STORE || sc_gemm_step_sums(kind) != SC_GEMM_OPERANDS;
}

bool sc_gemm_step_has_tensor(sc_gemm_step_kind kind)
{
    return kind == SC_GEMM_ADD || kind == SC_GEMM_MUL || sc_gemm_step_writes(kind) ||
           sc_gemm_step_slope_of(kind) != SC_GEMM_STEP_KINDS;
}

static const bool *step_has(sc_gemm_step_kind kind)
{
    sc_gemm_operand summed = sc_gemm_step_sums(kind);
    return summed == SC_GEMM_OPERANDS ? has[SC_GEMM_C] : sum_has[summed];
}

sc_gemm_step_kind sc_gemm_step_slope_of(sc_gemm_step_kind kind)
{
    return kind < SC_GEMM_STEP_KINDS ? steps[kind].slope_of : SC_GEMM_STEP_KINDS;
}

/* ---- sizes ---- */

int64_t sc_gemm_size(const sc_gemm *gemm, sc_gemm_role role)
{
    int64_t size = 1;
    for (uint32_t i = 0; i < gemm->dim_count; i++)
        size *= gemm->dims[i].role == role ? gemm->dims[i].size : 1;
    return size;
}

int64_t sc_gemm_whole(const sc_gemm *gemm, sc_gemm_role role)
{
    int64_t size = sc_gemm_size(gemm, role);
    for (uint32_t i = 0; i < gemm->dim_count; i++)
        size *= gemm->dims[i].role == role ? 1 + gemm->dims[i].others : 1;
    return size;
}

/* Computes the extent of an array with one stride per dim, over the dims of its roles; false on
 * overflow. */
static bool find_extent(const sc_gemm *gemm, const bool *own, const int64_t *strides, int64_t *out)
{
    int64_t last = 0;
    *out = 0;
    for (uint32_t i = 0; i < gemm->dim_count; i++) {
        if (own[gemm->dims[i].role] && gemm->dims[i].size == 0)
            return true;
    }
    for (uint32_t i = 0; i < gemm->dim_count; i++) {
        int64_t reach;
        if (!own[gemm->dims[i].role])
            continue;
        if (__builtin_mul_overflow(gemm->dims[i].size - 1, strides[i], &reach) ||
            __builtin_add_overflow(last, reach, &last))
            return false;
    }
    return !__builtin_add_overflow(last, 1, out);
}

static void operand_strides(const sc_gemm *gemm, sc_gemm_operand operand,
                            int64_t strides[SC_GEMM_MAX_DIMS])
{
    for (uint32_t i = 0; i < gemm->dim_count; i++)
        strides[i] = gemm->dims[i].strides[operand];
}

int64_t sc_gemm_extent(const sc_gemm *gemm, sc_gemm_operand operand)
{
    int64_t strides[SC_GEMM_MAX_DIMS], extent;
    operand_strides(gemm, operand, strides);
    find_extent(gemm, has[operand], strides, &extent);
    return extent;
}

/* A step's tensor has no k; nothing of it is read if c is empty. */
int64_t sc_gemm_step_extent(const sc_gemm *gemm, uint32_t step)
{
    int64_t extent;
    if (!sc_gemm_step_has_tensor(gemm->steps[step].kind))
        return 0;
    find_extent(gemm, step_has(gemm->steps[step].kind), gemm->steps[step].strides, &extent);
    return extent;
}

double sc_gemm_flops(const sc_gemm *gemm)
{
    double flops = 2;
    for (uint32_t i = 0; i < gemm->dim_count; i++)
        flops *= (double)gemm->dims[i].size;
    return flops;
}

/* ---- validity ---- */

static const char *invalid_dims(const sc_gemm *gemm)
{
    int64_t sizes[SC_GEMM_ROLES] = {1, 1, 1, 1}, wholes[SC_GEMM_ROLES] = {1, 1, 1, 1};
    for (uint32_t i = 0; i < gemm->dim_count; i++) {
        const sc_gemm_dim *dim = &gemm->dims[i];
        if ((unsigned)dim->role >= SC_GEMM_ROLES)
            return "a dim has no such role";
        if (dim->size < 0)
            return "a size is negative";
        if (dim->size > 0 && __builtin_mul_overflow(sizes[dim->role], dim->size, &sizes[dim->role]))
            return "the sizes of a role overflow";
        int64_t whole;
        if (dim->others < 0 || dim->others == INT64_MAX)
            return "a number of other pieces is negative or too large";
        if (dim->size > 0 && (__builtin_mul_overflow(dim->size, 1 + dim->others, &whole) ||
                              __builtin_mul_overflow(wholes[dim->role], whole, &wholes[dim->role])))
            return "the pieces of a role overflow";
        for (int o = 0; o < SC_GEMM_OPERANDS; o++) {
            if (dim->strides[o] < 0)
                return "a stride is negative";
            if (!has[o][dim->role] && dim->strides[o] != 0)
                return "an operand has a stride for a dim that it lacks";
            if (has[o][dim->role] && dim->role != SC_GEMM_BATCH && dim->size > 1 &&
                dim->strides[o] == 0)
                return "an operand has no stride for a dim that it has";
        }
        if (dim->role == SC_GEMM_BATCH && dim->size > 1 && dim->strides[SC_GEMM_A] == 0 &&
            dim->strides[SC_GEMM_B] == 0)
            return "neither a nor b has a batch dim";
    }
    return NULL;
}

/* Returns the next of the roles' dims in order of stride, among those with more than one element
 * and a larger stride (or an equal one and a larger index). */
static uint32_t next_by_stride(const sc_gemm *gemm, const bool *own, const int64_t *strides,
                               uint32_t last)
{
    uint32_t next = SC_GEMM_MAX_DIMS;
    for (uint32_t i = 0; i < gemm->dim_count; i++) {
        if (!own[gemm->dims[i].role] || gemm->dims[i].size < 2)
            continue;
        if (last != SC_GEMM_MAX_DIMS &&
            (strides[i] < strides[last] || (strides[i] == strides[last] && i <= last)))
            continue;
        if (next == SC_GEMM_MAX_DIMS || strides[i] < strides[next])
            next = i;
    }
    return next;
}

/* True if each dim's stride exceeds the extent of all faster dims. This also rejects layouts that
 * interleave without overlapping, which do not occur. */
static bool nests(const sc_gemm *gemm, const bool *own, const int64_t *strides)
{
    int64_t reached = 0;
    uint32_t dim = next_by_stride(gemm, own, strides, SC_GEMM_MAX_DIMS);
    for (; dim != SC_GEMM_MAX_DIMS; dim = next_by_stride(gemm, own, strides, dim)) {
        if (strides[dim] <= reached)
            return false;
        reached += (gemm->dims[dim].size - 1) * strides[dim];
    }
    return true;
}

static const char *invalid_extents(const sc_gemm *gemm)
{
    int64_t strides[SC_GEMM_MAX_DIMS], extent, bytes;
    for (int o = 0; o < SC_GEMM_OPERANDS; o++) {
        operand_strides(gemm, (sc_gemm_operand)o, strides);
        if (!find_extent(gemm, has[o], strides, &extent) ||
            __builtin_mul_overflow(extent, (int64_t)sc_dtypes[gemm->dtypes[o]].bytes, &bytes))
            return "an operand's extent overflows";
        if (o == SC_GEMM_C && extent > 0 && !nests(gemm, has[o], strides))
            return "two elements of c have the same address";
    }
    return NULL;
}

static const char *invalid_dtypes(const sc_gemm *gemm)
{
    if ((unsigned)gemm->sum >= SC_DTYPE_COUNT ||
        (gemm->sum != SC_DTYPE_f32 && gemm->sum != SC_DTYPE_f64 && gemm->sum != SC_DTYPE_i64))
        return "sums are of f32, f64 or i64";
    for (int o = 0; o < SC_GEMM_OPERANDS; o++) {
        if ((unsigned)gemm->dtypes[o] >= SC_DTYPE_COUNT ||
            sc_dtypes[gemm->dtypes[o]].kind == SC_DTYPE_BOOL)
            return "an operand's dtype is not numeric";
        if (sc_dtype_is_float(gemm->dtypes[o]) != sc_dtype_is_float(gemm->sum))
            return "floats and integers are mixed";
        if (o != SC_GEMM_C && gemm->dtypes[o] == SC_DTYPE_f64 && gemm->sum == SC_DTYPE_f32)
            return "the sum is narrower than an operand";
    }
    return NULL;
}

static const char *invalid_step(const sc_gemm *gemm, const sc_gemm_step *step)
{
    bool floats = sc_dtype_is_float(gemm->sum);
    int64_t extent, bytes;
    if ((unsigned)step->kind >= SC_GEMM_STEP_KINDS)
        return "there is no such step";
    const bool *own = step_has(step->kind);
    sc_gemm_operand summed = sc_gemm_step_sums(step->kind);
    if (!floats && steps[step->kind].numbers == ONLY_FLOATS)
        return "a step needs floats";
    if (!floats && step->kind == SC_GEMM_SCALE &&
        !(step->scale == trunc(step->scale) && fabs(step->scale) < 0x1p63))
        return "integers cannot be scaled by a fraction";
    if (!sc_gemm_step_has_tensor(step->kind))
        return NULL;
    if ((unsigned)step->dtype >= SC_DTYPE_COUNT || sc_dtypes[step->dtype].kind == SC_DTYPE_BOOL ||
        sc_dtype_is_float(step->dtype) != floats)
        return "a step's tensor has a different kind of dtype";
    for (uint32_t i = 0; i < gemm->dim_count; i++) {
        if (step->strides[i] < 0)
            return "a stride is negative";
        if (gemm->dims[i].role == SC_GEMM_K && step->strides[i] != 0)
            return "a step's tensor has a k";
        if (!own[gemm->dims[i].role] && step->strides[i] != 0)
            return "the sum of an operand has a dim that this lacks";
        bool is_broadcast = gemm->dims[i].role == SC_GEMM_BATCH && gemm->dims[i].size > 1;
        if (is_broadcast && summed != SC_GEMM_OPERANDS && gemm->dims[i].strides[summed] == 0)
            return "what is summed is the same for all of a batch dim";
    }
    if (!find_extent(gemm, own, step->strides, &extent) ||
        __builtin_mul_overflow(extent, (int64_t)sc_dtypes[step->dtype].bytes, &bytes))
        return "a step's extent overflows";
    if (sc_gemm_step_writes(step->kind) && extent > 0 && !nests(gemm, own, step->strides))
        return "two elements that a step stores have the same address";
    return NULL;
}

const char *sc_gemm_invalid(const sc_gemm *gemm)
{
    if (gemm->dim_count > SC_GEMM_MAX_DIMS)
        return "too many dims";
    if (gemm->step_count > SC_GEMM_MAX_STEPS)
        return "too many steps";
    const char *why = invalid_dims(gemm);
    why = why != NULL ? why : invalid_dtypes(gemm);
    why = why != NULL ? why : invalid_extents(gemm);
    for (uint32_t s = 0; s < gemm->step_count; s++) {
        if (why != NULL)
            break;
        why = invalid_step(gemm, &gemm->steps[s]);
    }
    return why;
}

/* ---- canonical form ---- */

/* A dim with its strides in a, b, c and every step's tensor. */
typedef struct wide_dim {
    int64_t size, others;
    sc_gemm_role role;
    int64_t strides[SC_GEMM_OPERANDS + SC_GEMM_MAX_STEPS];
} wide_dim;

static wide_dim widen(const sc_gemm *gemm, uint32_t i)
{
    wide_dim dim = {
        .size = gemm->dims[i].size, .others = gemm->dims[i].others, .role = gemm->dims[i].role};
    memcpy(dim.strides, gemm->dims[i].strides, sizeof gemm->dims[i].strides);
    for (uint32_t s = 0; s < gemm->step_count; s++)
        dim.strides[SC_GEMM_OPERANDS + s] =
            sc_gemm_step_has_tensor(gemm->steps[s].kind) ? gemm->steps[s].strides[i] : 0;
    bool batch = dim.role == SC_GEMM_BATCH && dim.size > 0;
    if (batch && dim.strides[SC_GEMM_A] == 0)
        dim.role = SC_GEMM_N;
    else if (batch && dim.strides[SC_GEMM_B] == 0)
        dim.role = SC_GEMM_M;
    return dim;
}

static void swap_operands(wide_dim *dims, uint32_t count)
{
    static const sc_gemm_role swapped[SC_GEMM_ROLES] = {SC_GEMM_BATCH, SC_GEMM_N, SC_GEMM_M,
                                                        SC_GEMM_K};
    for (uint32_t i = 0; i < count; i++) {
        int64_t a = dims[i].strides[SC_GEMM_A];
        dims[i].strides[SC_GEMM_A] = dims[i].strides[SC_GEMM_B];
        dims[i].strides[SC_GEMM_B] = a;
        dims[i].role = swapped[dims[i].role];
    }
}

static sc_gemm_step_kind swapped_step(sc_gemm_step_kind kind)
{
    return kind == SC_GEMM_SUM_A ? SC_GEMM_SUM_B : kind == SC_GEMM_SUM_B ? SC_GEMM_SUM_A : kind;
}

static bool fastest_is_m(const wide_dim *dims, uint32_t count)
{
    const wide_dim *fastest = NULL;
    for (uint32_t i = 0; i < count; i++) {
        if (dims[i].size == 0 && dims[i].role != SC_GEMM_K)
            return false;
        if ((dims[i].role == SC_GEMM_M || dims[i].role == SC_GEMM_N) &&
            (fastest == NULL || dims[i].strides[SC_GEMM_C] < fastest->strides[SC_GEMM_C]))
            fastest = &dims[i];
    }
    return fastest != NULL && fastest->role == SC_GEMM_M;
}

/* Replaces the dims of an empty role by one dim of size 0. */
static uint32_t drop_dims_of_empty_roles(wide_dim *dims, uint32_t count)
{
    bool empty[SC_GEMM_ROLES] = {false}, kept_one[SC_GEMM_ROLES] = {false};
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++)
        empty[dims[i].role] = empty[dims[i].role] || dims[i].size == 0;
    for (uint32_t i = 0; i < count; i++) {
        sc_gemm_role role = dims[i].role;
        if (empty[role] && kept_one[role])
            continue;
        dims[kept++] = empty[role] ? (wide_dim){.size = 0, .role = role} : dims[i];
        kept_one[role] = true;
    }
    return kept;
}

/* Order of dims: by role, then by stride in c (k: in a, then b), slowest first. */
static bool stands_before(const wide_dim *x, const wide_dim *y)
{
    int main = x->role == SC_GEMM_K ? SC_GEMM_A : SC_GEMM_C;
    if (x->role != y->role)
        return x->role < y->role;
    if (x->strides[main] != y->strides[main])
        return x->strides[main] > y->strides[main];
    return x->role == SC_GEMM_K && x->strides[SC_GEMM_B] > y->strides[SC_GEMM_B];
}

static void sort_dims(wide_dim *dims, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        wide_dim moved = dims[i];
        uint32_t at = i;
        for (; at > 0 && stands_before(&moved, &dims[at - 1]); at--)
            dims[at] = dims[at - 1];
        dims[at] = moved;
    }
}

/* True if the two dims form one dim of size outer times inner in every array. */
static bool are_one(const wide_dim *outer, const wide_dim *inner)
{
    bool one = outer->role == inner->role;
    for (int o = 0; o < SC_GEMM_OPERANDS + SC_GEMM_MAX_STEPS; o++) {
        int64_t step;
        one = one && !__builtin_mul_overflow(inner->size, inner->strides[o], &step) &&
              outer->strides[o] == step;
    }
    return one;
}

static uint32_t merge_dims(wide_dim *dims, uint32_t count)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (kept > 0 && are_one(&dims[kept - 1], &dims[i])) {
            dims[i].size *= dims[kept - 1].size;
            dims[i].others = (1 + dims[i].others) * (1 + dims[kept - 1].others) - 1;
            kept--;
        }
        dims[kept++] = dims[i];
    }
    return kept;
}

sc_gemm sc_gemm_canonical(const sc_gemm *gemm, bool *out_swapped)
{
    wide_dim dims[SC_GEMM_MAX_DIMS];
    uint32_t count = 0;
    sc_gemm result;
    memset(&result, 0, sizeof result);
    for (uint32_t i = 0; i < gemm->dim_count; i++) {
        if (gemm->dims[i].size != 1 || gemm->dims[i].others > 0)
            dims[count++] = widen(gemm, i);
    }
    count = drop_dims_of_empty_roles(dims, count);
    *out_swapped = fastest_is_m(dims, count);
    if (*out_swapped)
        swap_operands(dims, count);
    sort_dims(dims, count);
    count = merge_dims(dims, count);

    result.dim_count = count;
    result.dtypes[SC_GEMM_A] = gemm->dtypes[*out_swapped ? SC_GEMM_B : SC_GEMM_A];
    result.dtypes[SC_GEMM_B] = gemm->dtypes[*out_swapped ? SC_GEMM_A : SC_GEMM_B];
    result.dtypes[SC_GEMM_C] = gemm->dtypes[SC_GEMM_C];
    result.sum = gemm->sum;
    result.accumulate = gemm->accumulate;
    result.step_count = gemm->step_count;
    for (uint32_t s = 0; s < gemm->step_count; s++) {
        sc_gemm_step *step = &result.steps[s];
        step->kind = *out_swapped ? swapped_step(gemm->steps[s].kind) : gemm->steps[s].kind;
        step->dtype = sc_gemm_step_has_tensor(step->kind) ? gemm->steps[s].dtype : (sc_dtype)0;
        step->scale = step->kind == SC_GEMM_SCALE ? gemm->steps[s].scale : 0;
        for (uint32_t i = 0; i < count; i++)
            step->strides[i] = dims[i].strides[SC_GEMM_OPERANDS + s];
    }
    for (uint32_t i = 0; i < count; i++) {
        result.dims[i].size = dims[i].size;
        result.dims[i].role = dims[i].role;
        result.dims[i].others = dims[i].others;
        memcpy(result.dims[i].strides, dims[i].strides, sizeof result.dims[i].strides);
    }
    return result;
}

/* ---- text ---- */

static const char *const role_names[SC_GEMM_ROLES] = {"batch", "m", "n", "k"};

static void print_sizes(const sc_gemm *gemm, sc_strbuf *out)
{
    const char *before = " [";
    for (int role = 0; role < SC_GEMM_ROLES; role++) {
        bool named = false;
        for (uint32_t i = 0; i < gemm->dim_count; i++) {
            if ((int)gemm->dims[i].role != role)
                continue;
            if (!named)
                sc_strbuf_printf(out, "%s%s", before, role_names[role]);
            sc_strbuf_printf(out, " %lld", (long long)gemm->dims[i].size);
            if (gemm->dims[i].others > 0)
                sc_strbuf_printf(out, " (a piece of %lld)", 1 + (long long)gemm->dims[i].others);
            named = true;
            before = " | ";
        }
    }
    sc_strbuf_add(out, gemm->dim_count == 0 ? " []" : "]");
}

static void print_strides(const sc_gemm *gemm, const bool *own, const int64_t *strides,
                          sc_strbuf *out)
{
    const char *before = "(";
    for (int role = 0; role < SC_GEMM_ROLES; role++) {
        for (uint32_t i = 0; i < gemm->dim_count; i++) {
            if ((int)gemm->dims[i].role != role || !own[role])
                continue;
            sc_strbuf_printf(out, "%s%lld", before, (long long)strides[i]);
            before = ",";
        }
    }
    sc_strbuf_add(out, *before == '(' ? "()" : ")");
}

static void print_step(const sc_gemm *gemm, const sc_gemm_step *step, bool one_dtype,
                       sc_strbuf *out)
{
    sc_strbuf_printf(out, " %s", steps[step->kind].name);
    if (step->kind == SC_GEMM_SCALE) {
        sc_strbuf_add_char(out, ' ');
        sc_strbuf_add_double(out, step->scale);
    }
    if (!sc_gemm_step_has_tensor(step->kind))
        return;
    sc_strbuf_add_char(out, ' ');
    if (!one_dtype)
        sc_strbuf_printf(out, "%s", sc_dtypes[step->dtype].name);
    print_strides(gemm, step_has(step->kind), step->strides, out);
}

/* Returns the accumulation dtype that is not printed. */
static sc_dtype usual_sum(const sc_gemm *gemm)
{
    if (!sc_dtype_is_float(gemm->dtypes[SC_GEMM_A]))
        return SC_DTYPE_i64;
    return gemm->dtypes[SC_GEMM_A] == SC_DTYPE_f64 || gemm->dtypes[SC_GEMM_B] == SC_DTYPE_f64
               ? SC_DTYPE_f64
               : SC_DTYPE_f32;
}

void sc_gemm_print(const sc_gemm *gemm, sc_strbuf *out)
{
    static const char *const names[SC_GEMM_OPERANDS] = {"a", "b", "c"};
    bool one_dtype = true;
    for (int o = 0; o < SC_GEMM_OPERANDS; o++)
        one_dtype = one_dtype && gemm->dtypes[o] == gemm->dtypes[0];
    for (uint32_t s = 0; s < gemm->step_count; s++)
        one_dtype = one_dtype && (!sc_gemm_step_has_tensor(gemm->steps[s].kind) ||
                                  gemm->steps[s].dtype == gemm->dtypes[0]);
    sc_strbuf_add(out, "gemm");
    if (one_dtype)
        sc_strbuf_printf(out, " %s", sc_dtypes[gemm->dtypes[0]].name);
    if (gemm->sum != usual_sum(gemm))
        sc_strbuf_printf(out, " sum %s", sc_dtypes[gemm->sum].name);
    print_sizes(gemm, out);
    for (int o = 0; o < SC_GEMM_OPERANDS; o++) {
        int64_t strides[SC_GEMM_MAX_DIMS];
        operand_strides(gemm, (sc_gemm_operand)o, strides);
        bool adds = o == SC_GEMM_C && gemm->accumulate;
        sc_strbuf_printf(out, " %s%s%s", names[o], adds ? " +=" : "",
                         adds || !one_dtype ? " " : "");
        sc_strbuf_add(out, one_dtype ? "" : sc_dtypes[gemm->dtypes[o]].name);
        print_strides(gemm, has[o], strides, out);
    }
    for (uint32_t s = 0; s < gemm->step_count; s++)
        print_step(gemm, &gemm->steps[s], one_dtype, out);
}
