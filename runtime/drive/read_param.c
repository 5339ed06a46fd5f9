/* Reads values in file order through a moving window and stores each at its destination. So a
 * transposed or interleaved parameter takes one pass over its part of the file, and no memory
 * beyond its own. */
#include "runtime/drive/read_param.h"

#include <assert.h>
#include <string.h>

enum { WINDOW_BYTES = 1 << 16, PAGE_BYTES = 4096, SPARSE = 4 };

typedef struct reading {
    const sc_safetensors *file;
    const sc_fact_param *param;
    double *values;
    sc_read_failure *failure;
    int64_t steps[SC_ARRAY_MAX_RANK]; /* by dim: distance between neighbouring values */
    /* dims in loop order: those of tensor names, then by decreasing stride */
    uint32_t order[SC_ARRAY_MAX_RANK];
    /* dims order[block ..] are so dense in the file that the gaps between them are read, too */
    uint32_t block;
    int64_t block_span; /* elements from the start of such a block to its end */
    sc_weight_place place;
    const sc_safetensor *tensor; /* tensor of the window; NULL: the window is empty */
    int64_t begin, end;          /* the window's range of elements */
    char window[WINDOW_BYTES];
} reading;

static bool comes_before(const sc_weight_layout *layout, uint32_t a, uint32_t b)
{
    if (layout->indexed[a] != layout->indexed[b])
        return layout->indexed[a];
    return !layout->indexed[a] && layout->strides[a] > layout->strides[b];
}

static void order_dims(reading *r)
{
    const sc_fact_param *param = r->param;
    int64_t step = 1;
    for (uint32_t d = param->rank; d-- > 0;) {
        r->steps[d] = step;
        step *= param->sizes[d];
    }
    for (uint32_t d = 0; d < param->rank; d++) {
        uint32_t at = d;
        for (; at > 0 && comes_before(&param->layout, d, r->order[at - 1]); at--)
            r->order[at] = r->order[at - 1];
        r->order[at] = d;
    }
}

/* Chooses the largest block whose values are dense enough or within a page. */
static void find_block(reading *r, size_t element_bytes)
{
    const sc_weight_layout *layout = &r->param->layout;
    int64_t span = 1, count = 1;
    r->block = r->param->rank;
    r->block_span = 1;
    for (uint32_t i = r->param->rank; i-- > 0 && !layout->indexed[r->order[i]];) {
        int64_t size = r->param->sizes[r->order[i]];
        span += (size - 1) * layout->strides[r->order[i]];
        count *= size;
        if (span <= SPARSE * count || (uint64_t)span * element_bytes <= PAGE_BYTES) {
            r->block = i;
            r->block_span = span;
        }
    }
}

/* Moves the window to an element of the tensor. */
static bool move_window(reading *r, const sc_safetensor *tensor, int64_t element)
{
    const sc_weight_layout *layout = &r->param->layout;
    int64_t block_begin = sc_weight_element(layout, &r->place),
            most = (int64_t)(WINDOW_BYTES / sc_element_size(tensor->element));
    for (uint32_t i = r->block; i < r->param->rank; i++)
        block_begin -= r->place.index[r->order[i]] * layout->strides[r->order[i]];
    int64_t left = r->block < r->param->rank ? block_begin + r->block_span - element : 1,
            count = left < most ? left : most;
    r->tensor = tensor;
    r->begin = element;
    r->end = element + count;
    if (sc_safetensors_read_stored(r->file, tensor, (uint64_t)element, (uint64_t)count, r->window,
                                   &r->failure->reason))
        return true;
    r->failure->tensor = tensor;
    return false;
}

/* Reads `count` elements of the tensor, `stride` apart, and stores them `step` apart. */
static bool read_row(reading *r, const sc_safetensor *tensor, int64_t element, int64_t stride,
                     double *values, int64_t step, int64_t count)
{
    assert(tensor != NULL);
    while (count > 0) {
        bool is_inside = r->tensor == tensor && element >= r->begin && element < r->end;
        if (!is_inside && !move_window(r, tensor, element))
            return false;
        int64_t there = stride > 0 ? (r->end - element + stride - 1) / stride : 1;
        there = there < count ? there : count;
        for (int64_t i = 0; i < there; i++)
            values[i * step] = sc_element_load(tensor->element, r->window,
                                               (uint64_t)(element - r->begin + i * stride));
        element += there * stride;
        values += there * step;
        count -= there;
    }
    return true;
}

/* Advances to the next row; false after the last. */
static bool next_row(reading *r, uint32_t rows_rank)
{
    for (uint32_t i = rows_rank; i-- > 0;) {
        uint32_t dim = r->order[i];
        if (++r->place.index[dim] < r->param->sizes[dim])
            return true;
        r->place.index[dim] = 0;
    }
    return false;
}

bool sc_param_read(const sc_safetensors *file, const sc_fact_param *param,
                   const sc_safetensor *const *tensors, double *values, sc_read_failure *failure)
{
    const sc_weight_layout *layout = &param->layout;
    reading r = {.file = file, .param = param, .values = values, .failure = failure};
    order_dims(&r);
    find_block(&r, sc_element_size(tensors[0]->element));
    uint32_t last = param->rank == 0 ? 0 : r.order[param->rank - 1];
    bool has_rows = param->rank > 0 && !layout->indexed[last];
    uint32_t rows_rank = has_rows ? param->rank - 1 : param->rank;
    do {
        const sc_safetensor *tensor = tensors[sc_weight_tensor(layout, param->sizes, &r.place)];
        double *to = values;
        for (uint32_t d = 0; d < param->rank; d++)
            to += r.place.index[d] * r.steps[d];
        int64_t element = sc_weight_element(layout, &r.place);
        bool ok = has_rows ? read_row(&r, tensor, element, layout->strides[last], to, r.steps[last],
                                      param->sizes[last])
                           : read_row(&r, tensor, element, 1, to, 1, 1);
        if (!ok)
            return false;
    } while (next_row(&r, rows_rank));
    return true;
}
