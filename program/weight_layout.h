/* Where a parameter lies in tensors of a file. */
#ifndef SHARDC_PROGRAM_WEIGHT_LAYOUT_H
#define SHARDC_PROGRAM_WEIGHT_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "support/array.h"

enum { SC_MAX_WEIGHT_DIMS = 3 * SC_ARRAY_MAX_RANK };

/* Element (i0, i1, ..) of the parameter is element offset + sum of i_d * strides[d] of the tensor's row-major data. A dim that the tensor's
 * name holds (`{X}`: one tensor an index) has stride 0 and is indexed[d]. */
typedef struct sc_weight_layout {
    uint32_t rank; /* of the parameter's type, whose dims these are */
    int64_t strides[SC_ARRAY_MAX_RANK];
    bool indexed[SC_ARRAY_MAX_RANK];
    int64_t offset, elements;               /* elements: of the whole tensor */
    uint32_t boundary_count;                /* the file may merge neighbouring dims, but each of its axes begins at one of these */
    int64_t boundaries[SC_MAX_WEIGHT_DIMS]; /* elements from there to the next one of the axis before, ascending */
} sc_weight_layout;

/* Whether a tensor of the file has the shape that the layout says. */
bool sc_weight_layout_fits(const sc_weight_layout *layout, uint32_t rank, const int64_t *sizes);

/* Where an element lies, while a parameter of these sizes is walked in its own order: `for (place = {0}; e < count; sc_weight_next(..))`.
 */
typedef struct sc_weight_place {
    int64_t index[SC_ARRAY_MAX_RANK];
} sc_weight_place;

/* Which tensor (one an index of the indexed dims, the last of them fastest), and which of its elements. */
uint64_t sc_weight_tensor(const sc_weight_layout *layout, const int64_t *sizes, const sc_weight_place *place);
int64_t sc_weight_element(const sc_weight_layout *layout, const sc_weight_place *place);
void sc_weight_next(const sc_weight_layout *layout, const int64_t *sizes, sc_weight_place *place);

#endif
