/* The location of a parameter within tensors of a file. */
#ifndef SHARDC_PROGRAM_WEIGHT_LAYOUT_H
#define SHARDC_PROGRAM_WEIGHT_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "support/array.h"

enum { SC_MAX_WEIGHT_DIMS = 3 * SC_ARRAY_MAX_RANK };

/* Element (i0, i1, ..) of the parameter is element offset + sum of i_d * strides[d] of the tensor's
 * row-major data. A dim in the tensor's name (`{X}`: one tensor per index) has stride 0 and
 * indexed[d]. */
typedef struct sc_weight_layout {
    uint32_t rank; /* of the parameter's type; its dims are used here */
    int64_t strides[SC_ARRAY_MAX_RANK];
    bool indexed[SC_ARRAY_MAX_RANK];
    int64_t offset, elements; /* elements: of the whole tensor */
    /* the file may merge adjacent dims, but each of its axes begins at one of these boundaries */
    uint32_t boundary_count;
    /* number of elements from the boundary to the next one of the preceding axis, ascending */
    int64_t boundaries[SC_MAX_WEIGHT_DIMS];
} sc_weight_layout;

/* True if a tensor of the file has the shape required by the layout. */
bool sc_weight_layout_fits(const sc_weight_layout *layout, uint32_t rank, const int64_t *sizes);

/* The location of an element, while iterating over a parameter of these sizes in its own order:
 * `for (place = {0}; e < count; sc_weight_next(..))`. */
typedef struct sc_weight_place {
    int64_t index[SC_ARRAY_MAX_RANK];
} sc_weight_place;

/* Returns the tensor (one per index of the indexed dims, the last of them fastest), and the element
 * within it. */
uint64_t sc_weight_tensor(const sc_weight_layout *layout, const int64_t *sizes,
                          const sc_weight_place *place);
int64_t sc_weight_element(const sc_weight_layout *layout, const sc_weight_place *place);
void sc_weight_next(const sc_weight_layout *layout, const int64_t *sizes, sc_weight_place *place);

#endif
