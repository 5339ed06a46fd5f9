/* Scatter, gather and initialization of one rank's shard. */
#include "runtime/session/shard.h"

#include <math.h>
#include <string.h>

#include "program/lookup.h"
#include "support/hash.h"
#include "support/min.h"

sc_element sc_element_of_dtype(sc_dtype dtype)
{
    static const sc_element elements[SC_DTYPE_COUNT] = {
        [SC_DTYPE_f32] = SC_ELEMENT_F32,   [SC_DTYPE_f64] = SC_ELEMENT_F64,
        [SC_DTYPE_bf16] = SC_ELEMENT_BF16, [SC_DTYPE_f16] = SC_ELEMENT_F16,
        [SC_DTYPE_i32] = SC_ELEMENT_I32,   [SC_DTYPE_i64] = SC_ELEMENT_I64,
        [SC_DTYPE_u8] = SC_ELEMENT_U8,     [SC_DTYPE_bool] = SC_ELEMENT_BOOL,
    };
    return elements[dtype];
}

/* ---- rows ---- */

uint32_t sc_shard_boxes(const sc_image_tensor *tensor)
{
    uint32_t count = 1;
    for (uint32_t i = 0; i < tensor->rank; i++)
        count *= tensor->dims[i].order.members > 1 ? SC_RUNS : 1;
    return count;
}

void sc_shard_box(const sc_image_tensor *tensor, uint64_t rank, uint32_t number, int64_t *at,
                  int64_t *first, int64_t *sizes)
{
    for (uint32_t i = 0; i < tensor->rank; i++) {
        const sc_image_dim *dim = &tensor->dims[i];
        sc_run runs[SC_RUNS];
        uint32_t run = 0;
        if (dim->order.members > 1) {
            run = number % SC_RUNS;
            number /= SC_RUNS;
        }
        sc_shard_runs(&dim->order, sc_image_terms_value(&dim->first, rank) / dim->local, dim->local,
                      runs);
        int64_t left = dim->size - runs[run].first;
        at[i] = runs[run].at;
        first[i] = runs[run].first;
        sizes[i] = left < 0 ? 0 : sc_min_i64(left, runs[run].count);
    }
}

/* Describes the rows common to the full tensor (a) and a box of the shard (b). */
static sc_rows walk_rows(const sc_image_tensor *tensor, uint64_t rank, const sc_whole *whole,
                         uint32_t box)
{
    int64_t first[SC_IMAGE_MAX_RANK], sizes[SC_IMAGE_MAX_RANK], whole_dims[SC_IMAGE_MAX_RANK],
        local[SC_IMAGE_MAX_RANK], at[SC_IMAGE_MAX_RANK];
    sc_shard_box(tensor, rank, box, at, first, sizes);
    for (uint32_t i = 0; i < tensor->rank; i++) {
        const sc_image_dim *dim = &tensor->dims[i];
        bool is_split = whole != NULL && whole->batch_dim == (int32_t)i;
        local[i] = dim->local;
        whole_dims[i] = dim->size * (is_split ? whole->batches : 1);
        first[i] += is_split ? whole->batch * dim->size : 0;
    }
    return sc_rows_begin(tensor->rank, sizes, (sc_rows_place){whole_dims, first},
                         (sc_rows_place){local, at});
}

/* ---- elements ---- */

/* sc_element_store rejects floats that are no integers where the target is an integer type. */
static bool copy_row(sc_element to, void *to_data, int64_t to_at, sc_element from,
                     const void *from_data, int64_t from_at, int64_t count, int64_t *bad)
{
    size_t size = sc_element_size(to);
    if (to == from) {
        memcpy((char *)to_data + (size_t)to_at * size,
               (const char *)from_data + (size_t)from_at * size, (size_t)count * size);
        return true;
    }
    for (int64_t i = 0; i < count; i++) {
        if (!sc_element_store(to, to_data, (uint64_t)(to_at + i),
                              sc_element_load(from, from_data, (uint64_t)(from_at + i)))) {
            *bad = i;
            return false;
        }
    }
    return true;
}

static double combine(sc_image_reduce reduce, double a, double b)
{
    switch (reduce) {
    case SC_IMAGE_MAX:
        return b > a || isnan(b) ? b : a;
    case SC_IMAGE_MIN:
        return b < a || isnan(b) ? b : a;
    default:
        return a + b;
    }
}

static bool reduce_row(sc_image_reduce reduce, const sc_whole *whole, int64_t at, sc_element from,
                       const void *from_data, int64_t from_at, int64_t count, int64_t *bad)
{
    for (int64_t i = 0; i < count; i++) {
        double sum =
            combine(reduce, sc_element_load(whole->element, whole->data, (uint64_t)(at + i)),
                    sc_element_load(from, from_data, (uint64_t)(from_at + i)));
        if (!sc_element_store(whole->element, whole->data, (uint64_t)(at + i), sum)) {
            *bad = i;
            return false;
        }
    }
    return true;
}

/* Fills in the neutral element of the reduction. For integers these are the least and largest
 * values, which a double may not represent. */
static void fill_neutral(const sc_image_tensor *tensor, void *local)
{
    sc_element element = sc_element_of_dtype(tensor->dtype);
    int64_t count = sc_image_tensor_bytes(tensor) / sc_dtypes[tensor->dtype].bytes;
    bool is_max = tensor->partial == SC_IMAGE_MAX;
    memset(local, 0, (size_t)sc_image_tensor_bytes(tensor));
    if (tensor->partial == SC_IMAGE_SUM)
        return;
    for (int64_t i = 0; i < count; i++) {
        if (tensor->dtype == SC_DTYPE_i64)
            ((int64_t *)local)[i] = is_max ? INT64_MIN : INT64_MAX;
        else if (tensor->dtype == SC_DTYPE_i32)
            ((int32_t *)local)[i] = is_max ? INT32_MIN : INT32_MAX;
        else if (sc_dtype_is_float(tensor->dtype))
            sc_element_store(element, local, (uint64_t)i,
                             is_max ? (double)-INFINITY : (double)INFINITY);
        else if (!is_max)
            ((uint8_t *)local)[i] = tensor->dtype == SC_DTYPE_bool ? 1 : UINT8_MAX;
    }
}

/* ---- shards ---- */

bool sc_shard_scatter(const sc_image_tensor *tensor, uint64_t rank, const sc_whole *whole,
                      void *local, int64_t *bad)
{
    sc_element element = sc_element_of_dtype(tensor->dtype);
    if (tensor->partial != SC_IMAGE_WHOLE && sc_image_terms_value(&tensor->part, rank) != 0) {
        fill_neutral(tensor, local);
        return true;
    }
    for (uint32_t box = 0; box < sc_shard_boxes(tensor); box++) {
        sc_rows walk = walk_rows(tensor, rank, whole, box);
        if (box == 0 &&
            (walk.is_done || walk.rank > 0 ||
             walk.length * sc_dtypes[tensor->dtype].bytes < sc_image_tensor_bytes(tensor)))
            memset(local, 0, (size_t)sc_image_tensor_bytes(tensor)); /* there may be padding */
        for (; !walk.is_done; sc_rows_next(&walk)) {
            if (!copy_row(element, local, walk.b_at, whole->element, whole->data, walk.a_at,
                          walk.length, bad)) {
                *bad += walk.a_at;
                return false;
            }
        }
    }
    return true;
}

bool sc_shard_is_given(const sc_image_tensor *tensor, uint64_t rank)
{
    return sc_image_has_first(tensor, rank) && sc_image_terms_value(&tensor->replica, rank) == 0;
}

static bool gather_box(const sc_image_tensor *tensor, uint64_t rank, const void *local,
                       const sc_whole *whole, uint32_t box, int64_t *bad)
{
    sc_element element = sc_element_of_dtype(tensor->dtype);
    bool is_first = sc_image_terms_value(&tensor->part, rank) == 0;
    for (sc_rows walk = walk_rows(tensor, rank, whole, box); !walk.is_done; sc_rows_next(&walk)) {
        bool ok = is_first ? copy_row(whole->element, whole->data, walk.a_at, element, local,
                                      walk.b_at, walk.length, bad)
                           : reduce_row(tensor->partial, whole, walk.a_at, element, local,
                                        walk.b_at, walk.length, bad);
        if (!ok) {
            *bad += walk.a_at;
            return false;
        }
    }
    return true;
}

bool sc_shard_gather(const sc_image_tensor *tensor, uint64_t rank, const void *local,
                     const sc_whole *whole, int64_t *bad)
{
    for (uint32_t box = 0; box < sc_shard_boxes(tensor); box++) {
        if (!gather_box(tensor, rank, local, whole, box, bad))
            return false;
    }
    return true;
}

/* Number of random elements of a row that are generated at once. */
enum { DRAWN = 1024 };

static void seek_row(sc_rows *walk, int64_t row)
{
    for (uint32_t i = walk->rank; i-- > 0;) {
        walk->a_at += row % walk->sizes[i] * walk->a_strides[i];
        walk->b_at += row % walk->sizes[i] * walk->b_strides[i];
        row /= walk->sizes[i];
    }
}

static bool initialise_part(const sc_image_state *from, uint64_t seed, uint64_t stream,
                            int64_t whole_at, int64_t count, sc_element element, void *local,
                            int64_t local_at)
{
    double values[DRAWN];
    int64_t bad;
    sc_init_values((sc_init_kind)from->init, from->init_args, seed, stream, (uint64_t)whole_at,
                   (uint64_t)count, values);
    return copy_row(element, local, local_at, SC_ELEMENT_F64, values, 0, count, &bad);
}

/* States are one box: never split zigzag (program/check.c). */
bool sc_shard_initialise(const sc_image_state *from, const sc_image_tensor *tensor, uint64_t rank,
                         uint64_t seed, void *local)
{
    sc_element element = sc_element_of_dtype(tensor->dtype);
    uint64_t stream = sc_fnv1a64(from->path, strlen(from->path));
    if (tensor->partial != SC_IMAGE_WHOLE && sc_image_terms_value(&tensor->part, rank) != 0) {
        fill_neutral(tensor, local);
        return true;
    }
    memset(local, 0, (size_t)sc_image_tensor_bytes(tensor));
    sc_rows walk = walk_rows(tensor, rank, NULL, 0);
    if (from->init == SC_INIT_ZEROS || walk.is_done)
        return true;
    int64_t rows = 1, parts = (walk.length + DRAWN - 1) / DRAWN;
    for (uint32_t i = 0; i < walk.rank; i++)
        rows *= walk.sizes[i];
    bool all_fit = true;
#pragma omp parallel for schedule(static) reduction(&& : all_fit) if (rows * walk.length > 16 * DRAWN)
    for (int64_t p = 0; p < rows * parts; p++) {
        sc_rows at = walk;
        int64_t begin = p % parts * DRAWN,
                count = walk.length - begin < DRAWN ? walk.length - begin : DRAWN;
        seek_row(&at, p / parts);
        bool fits = initialise_part(from, seed, stream, at.a_at + begin, count, element, local,
                                    at.b_at + begin);
        all_fit = all_fit && fits;
    }
    return all_fit;
}
