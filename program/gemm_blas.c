#include "program/gemm_blas.h"

#include <string.h>

/* The dims of the matrices and of their batch; SC_GEMM_MAX_DIMS: a dim of size 1. */
typedef struct form_dims {
    uint32_t m, n, batch;
} form_dims;

/* Returns the only dim of a role, or one of size 1 with stride 0 everywhere. False if there are
 * several. */
static bool only_dim(const sc_gemm *gemm, sc_gemm_role role, sc_gemm_dim *out)
{
    uint32_t found = 0;
    *out = (sc_gemm_dim){.size = 1, .role = role};
    for (uint32_t i = 0; i < gemm->dim_count; i++) {
        if (gemm->dims[i].role == role) {
            *out = gemm->dims[i];
            found++;
        }
    }
    return found <= 1;
}

/* Chooses the matrix dim among several of role m or n: the one contiguous in c, otherwise the
 * largest. */
static uint32_t matrix_dim(const sc_gemm *gemm, sc_gemm_role role)
{
    uint32_t best = SC_GEMM_MAX_DIMS;
    for (uint32_t i = 0; i < gemm->dim_count; i++) {
        const sc_gemm_dim *dim = &gemm->dims[i];
        if (dim->role != role)
            continue;
        if (best == SC_GEMM_MAX_DIMS ||
            (dim->strides[SC_GEMM_C] == 1 && gemm->dims[best].strides[SC_GEMM_C] != 1) ||
            (gemm->dims[best].strides[SC_GEMM_C] != 1 && dim->size > gemm->dims[best].size))
            best = i;
    }
    return best;
}

/* Of the remaining dims, the largest becomes the batch, the others become loops. */
static const char *set_batches(const sc_gemm *gemm, form_dims *dims, sc_matmul *out)
{
    int64_t calls = 1;
    dims->batch = SC_GEMM_MAX_DIMS;
    for (uint32_t i = 0; i < gemm->dim_count; i++) {
        bool is_kept = i == dims->m || i == dims->n || gemm->dims[i].role == SC_GEMM_K;
        if (!is_kept &&
            (dims->batch == SC_GEMM_MAX_DIMS || gemm->dims[i].size > gemm->dims[dims->batch].size))
            dims->batch = i;
    }
    for (uint32_t i = 0; i < gemm->dim_count; i++) {
        const sc_gemm_dim *dim = &gemm->dims[i];
        if (i == dims->m || i == dims->n || i == dims->batch || dim->role == SC_GEMM_K)
            continue;
        if (out->loop_count == SC_MATMUL_LOOPS ||
            __builtin_mul_overflow(calls, dim->size, &calls) || calls > SC_MATMUL_MAX_CALLS)
            return "its layouts leave too many matmuls";
        sc_matmul_loop *loop = &out->loops[out->loop_count++];
        loop->size = dim->size;
        memcpy(loop->strides, dim->strides, sizeof loop->strides);
    }
    return NULL;
}

static sc_gemm_dim dim_at(const sc_gemm *gemm, uint32_t i, sc_gemm_role role)
{
    return i == SC_GEMM_MAX_DIMS ? (sc_gemm_dim){.size = 1, .role = role} : gemm->dims[i];
}

/* Describes an operand as a matrix, with `row` along its rows as the matmul uses it. */
static bool set_matrix(const sc_gemm *gemm, uint32_t operand, const sc_gemm_dim *row,
                       const sc_gemm_dim *column, const sc_gemm_dim *batch, sc_matmul_matrix *out)
{
    int64_t down = row->strides[operand], across = column->strides[operand];
    bool down_fits = row->size == 1 || down == 1, across_fits = column->size == 1 || across == 1;
    bool is_plain = down_fits && (column->size == 1 || across >= row->size);
    if (!is_plain && !(across_fits && (row->size == 1 || down >= column->size)))
        return false;
    const sc_gemm_dim *first = is_plain ? row : column, *second = is_plain ? column : row;
    int64_t stride = second->strides[operand];
    *out = (sc_matmul_matrix){.operand = operand,
                              .dtype = gemm->dtypes[operand],
                              .rows = first->size,
                              .columns = second->size,
                              .stride =
                                  second->size == 1 || stride < first->size ? first->size : stride,
                              .batch_stride = batch->strides[operand],
                              .is_transposed = !is_plain};
    return true;
}

static int64_t step_stride(const sc_gemm_step *step, uint32_t dim)
{
    return dim == SC_GEMM_MAX_DIMS ? 0 : step->strides[dim];
}

/* Describes aux, a matrix shaped like d that the library stores or reads for a derivative. Returns
 * NULL, or why the step's tensor does not fit. */
static const char *set_aux(const sc_gemm *gemm, uint32_t at, const form_dims *dims, sc_matmul *out)
{
    const sc_gemm_step *step = &gemm->steps[at];
    out->aux = at;
    out->aux_batch_stride = out->batches > 1 ? step_stride(step, dims->batch) : 0;
    out->aux_stride = out->columns > 1 ? step_stride(step, dims->m)
                                       : (out->rows + SC_MATMUL_AUX_UNIT - 1) / SC_MATMUL_AUX_UNIT *
                                             SC_MATMUL_AUX_UNIT;
    if (step->dtype != out->d.dtype)
        return "what its derivative needs has a different dtype";
    if (out->loop_count > 0)
        return "what its derivative needs is several matrices";
    if ((out->rows > 1 && step_stride(step, dims->n) != 1) || out->aux_stride < out->rows ||
        out->aux_stride % SC_MATMUL_AUX_UNIT != 0 ||
        out->aux_batch_stride % SC_MATMUL_AUX_UNIT != 0 ||
        (out->batches > 1 && out->aux_batch_stride == 0))
        return "what its derivative needs is not laid out as the library requires";
    return NULL;
}

/* What the library has of an activation. */
enum { NO_CUBLASLT, WITHOUT_SLOPE, WITH_SLOPE };

static const uint8_t library_has[SC_GEMM_STEP_KINDS] = {
#define CUBLASLT(epilogue)                                WITHOUT_SLOPE
#define CUBLASLT_SLOPE(epilogue)                          WITH_SLOPE
#define ACTIVATION(name, NAME, numbers, onednn, cublaslt) [SC_GEMM_##NAME] = cublaslt,
#include "program/activations.def"
#undef CUBLASLT_SLOPE
#undef CUBLASLT
};

/* True if the step is an activation that the library has; with its slope if that is needed. */
static bool is_activation(const sc_gemm *gemm, uint32_t at, bool needs_slope)
{
    return at < gemm->step_count &&
           library_has[gemm->steps[at].kind] >= (needs_slope ? WITH_SLOPE : WITHOUT_SLOPE);
}

static bool is_slope(const sc_gemm *gemm, uint32_t at)
{
    if (at == gemm->step_count)
        return false;
    sc_gemm_step_kind activation = sc_gemm_step_slope_of(gemm->steps[at].kind);
    return activation != SC_GEMM_STEP_KINDS && library_has[activation] == WITH_SLOPE;
}

static bool is_kind(const sc_gemm *gemm, uint32_t at, sc_gemm_step_kind kind)
{
    return at < gemm->step_count && gemm->steps[at].kind == kind;
}

/* Matches a scale, then a bias for each row of d, the stored operand of an activation and the
 * activation, in this order; or an activation's derivative. */
static const char *set_epilogue(const sc_gemm *gemm, const form_dims *dims, sc_matmul *out,
                                uint32_t *done)
{
    uint32_t at = 0;
    const char *fault = NULL;
    if (is_kind(gemm, at, SC_GEMM_SCALE))
        out->alpha = gemm->steps[at++].scale;
    if (is_kind(gemm, at, SC_GEMM_ADD)) {
        const sc_gemm_step *step = &gemm->steps[at];
        for (uint32_t i = 0; i < gemm->dim_count; i++) {
            if (step->strides[i] != (i == dims->n ? 1 : 0) && gemm->dims[i].size > 1)
                return "it adds something other than a vector along its rows";
        }
        if (step->dtype != out->d.dtype)
            return "it adds a vector of a different dtype";
        out->bias = at++;
    }
    bool keeps = is_kind(gemm, at, SC_GEMM_STORE) && is_activation(gemm, at + 1, true);
    if (keeps || (is_slope(gemm, at) && out->bias == SC_GEMM_MAX_STEPS))
        fault = set_aux(gemm, at, dims, out);
    at += keeps ? 1 : 0;
    if (is_activation(gemm, at, false) || out->aux == at)
        out->activation = gemm->steps[at++].kind;
    if (gemm->accumulate && out->activation != SC_GEMM_STEP_KINDS)
        return "it accumulates after an activation";
    *done = at;
    return fault;
}

/* Matches a vector of sums, for a matmul of two matrices. */
static const char *set_total(const sc_gemm *gemm, const form_dims *dims, sc_matmul *out,
                             uint32_t *done)
{
    const sc_gemm_step *step = &gemm->steps[0];
    out->total = 0;
    out->total_of_b = step->kind == SC_GEMM_SUM_A; /* column-major: the operand with m is b */
    *done = 1;
    if (out->loop_count > 0 || out->batches > 1)
        return "what it sums is several matrices";
    if (step->dtype != out->d.dtype)
        return "what it sums has a different dtype than the result";
    if ((out->total_of_b ? out->columns : out->rows) > 1 &&
        step_stride(step, out->total_of_b ? dims->m : dims->n) != 1)
        return "the sums are not contiguous";
    return NULL;
}

/* Matches the library's epilogues, one per matmul. */
static const char *set_steps(const sc_gemm *gemm, const form_dims *dims, sc_matmul *out)
{
    uint32_t done = 0;
    out->alpha = 1;
    out->bias = out->aux = out->total = SC_GEMM_MAX_STEPS;
    out->activation = SC_GEMM_STEP_KINDS;
    out->accumulate = gemm->accumulate;
    bool is_total = is_kind(gemm, 0, SC_GEMM_SUM_A) || is_kind(gemm, 0, SC_GEMM_SUM_B);
    const char *fault =
        is_total ? set_total(gemm, dims, out, &done) : set_epilogue(gemm, dims, out, &done);
    if (fault != NULL)
        return fault;
    if (done < gemm->step_count)
        return "the library has no such epilogue";
    if (gemm->sum == SC_DTYPE_f64 && gemm->step_count > 0)
        return "the library has no epilogues of f64";
    return NULL;
}

static bool fits_dtypes(const sc_gemm *gemm)
{
    sc_dtype in = gemm->dtypes[SC_GEMM_A], result = gemm->dtypes[SC_GEMM_C];
    if (in != gemm->dtypes[SC_GEMM_B])
        return false;
    if (gemm->sum == SC_DTYPE_f64)
        return in == SC_DTYPE_f64 && result == SC_DTYPE_f64;
    return gemm->sum == SC_DTYPE_f32 && ((in == SC_DTYPE_f32 && result == SC_DTYPE_f32) ||
                                         ((in == SC_DTYPE_bf16 || in == SC_DTYPE_f16) &&
                                          (result == in || result == SC_DTYPE_f32)));
}

const char *sc_matmul_of(const sc_gemm *gemm, sc_matmul *out)
{
    bool is_swapped;
    sc_gemm own = sc_gemm_canonical(gemm, &is_swapped);
    sc_gemm_dim k;
    memset(out, 0, sizeof *out);
    if (!fits_dtypes(gemm))
        return "the library has no such combination of dtypes";
    for (uint32_t i = 0; i < own.dim_count; i++) {
        if (own.dims[i].size == 0)
            return "it is empty";
        if (own.dims[i].size > INT32_MAX)
            return "a dim is too long";
    }
    if (!only_dim(&own, SC_GEMM_K, &k))
        return "the dims that it sums over do not merge into one";
    form_dims dims = {.m = matrix_dim(&own, SC_GEMM_M), .n = matrix_dim(&own, SC_GEMM_N)};
    const char *fault = set_batches(&own, &dims, out);
    if (fault != NULL)
        return fault;
    sc_gemm_dim m = dim_at(&own, dims.m, SC_GEMM_M), n = dim_at(&own, dims.n, SC_GEMM_N),
                batch = dim_at(&own, dims.batch, SC_GEMM_BATCH);
    /* Column-major: d is n x m, a is the operand with n. */
    if (!set_matrix(&own, SC_GEMM_B, &n, &k, &batch, &out->a) ||
        !set_matrix(&own, SC_GEMM_A, &k, &m, &batch, &out->b) ||
        !set_matrix(&own, SC_GEMM_C, &n, &m, &batch, &out->d) || out->d.is_transposed)
        return "the innermost elements of its result or of an operand are not contiguous";
    out->rows = n.size;
    out->columns = m.size;
    out->depth = k.size;
    out->batches = batch.size;
    out->sum = own.sum;
    fault = set_steps(&own, &dims, out);
    if (fault == NULL && is_swapped) {
        out->a.operand = SC_GEMM_A;
        out->b.operand = SC_GEMM_B;
        for (uint32_t i = 0; i < out->loop_count; i++) {
            int64_t *strides = out->loops[i].strides, a = strides[SC_GEMM_A];
            strides[SC_GEMM_A] = strides[SC_GEMM_B];
            strides[SC_GEMM_B] = a;
        }
    }
    return fault;
}

const sc_matmul_matrix *sc_matmul_uneven(const sc_matmul *form)
{
    const sc_matmul_matrix *all[] = {&form->a, &form->b, &form->d};
    for (int i = 0; i < 3; i++) {
        if (all[i]->columns > 1 &&
            all[i]->stride * sc_dtypes[all[i]->dtype].bytes % SC_MATMUL_ROW_UNIT != 0)
            return all[i];
    }
    return NULL;
}
