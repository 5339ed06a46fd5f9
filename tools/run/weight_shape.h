/* Infers the shape of a tensor in a weights file when no file is given. A `weights` line lists the
 * dims in file order, but not which neighbours form one axis. Checkpoints have matrices and
 * vectors: the contracted dims of a dot are one axis, the kept ones another, whatever the number of
 * heads; a bias has one axis. So neighbours with the same role are merged: [H, E, D] of a
 * projection becomes [H * E, D]. */
#ifndef SHARDC_TOOLS_RUN_WEIGHT_SHAPE_H
#define SHARDC_TOOLS_RUN_WEIGHT_SHAPE_H

#include "frontend/weights/map.h"

/* The roles of a parameter's dim; a bit mask. */
enum {
    SC_ROLE_CONTRACTED = 1, /* by a dot */
    SC_ROLE_GATHERED = 2,   /* indexed by ids */
    SC_ROLE_ALONE = 4       /* a batch dim of a dot, or a dim of an input; never merged */
};

typedef struct sc_weight_roles {
    uint8_t (*of)[SC_MAX_RANK]; /* by state and dim */
} sc_weight_roles;

void sc_weight_roles_find(const sc_module *m, sc_weight_roles *out);

/* Computes the sizes of the file's axes, at most SC_MAX_WEIGHT_DIMS; axes of size 1 are omitted.
 * Returns the rank. */
uint32_t sc_weight_shape(const sc_weight_layout *layout, const sc_type_info *type,
                         const uint8_t *roles, uint64_t *shape);

#endif
