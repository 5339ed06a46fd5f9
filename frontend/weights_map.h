/* Lines of `weights` blocks against parameters: which tensor of the file, and where in it each element lies. */
#ifndef SHARDC_FRONTEND_WEIGHTS_MAP_H
#define SHARDC_FRONTEND_WEIGHTS_MAP_H

#include "frontend/build.h"

enum { SC_MAX_WEIGHT_DIMS = 3 * SC_MAX_RANK };

/* Where a parameter lies in the tensor that its line names. Element (i0, i1, ..) of the parameter is element offset + sum of
 * i_d * strides[d] of the tensor's row-major data. A dim that the tensor's name holds (`{X}`: one tensor an index) has stride 0 and
 * is indexed[d]. */
typedef struct sc_weight_layout {
    uint32_t rank; /* of the parameter's type, whose dims these are */
    int64_t strides[SC_MAX_RANK];
    bool indexed[SC_MAX_RANK];
    int64_t offset, elements;               /* elements: of the whole tensor */
    uint32_t boundary_count;                /* the file may merge neighbouring dims, but each of its axes begins at one of these */
    int64_t boundaries[SC_MAX_WEIGHT_DIMS]; /* elements from there to the next one of the axis before, ascending */
} sc_weight_layout;

/* The line for a parameter's path with its indices (layers[3].attn.wq); NULL without one. */
const sc_wmap *sc_weights_find(const sc_context *context, const sc_weights *weights, sc_sym path);

/* The layout of a state of the module under its line. False after a message (bad_weights, at the line). */
bool sc_wmap_layout(const sc_program *program, const sc_wmap *map, const sc_module *m, uint32_t state, sc_weight_layout *out);

/* The tensor's name for one instance of the parameter; `index[d]` is read where the name holds dim d. False after a message. */
bool sc_wmap_tensor_name(const sc_program *program, const sc_wmap *map, sc_sym model, const sc_module *m, uint32_t state,
                         const int64_t *index, sc_sym *name);

/* Whether a tensor of the file has the shape that the line says. */
bool sc_weight_layout_fits(const sc_weight_layout *layout, uint32_t rank, const int64_t *sizes);

#endif
