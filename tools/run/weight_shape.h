/* The shape that a tensor of a weights file gets when no file says it. A `weights` line gives a file's dims in their order, but not which
 * neighbours are one axis there. Checkpoints hold matrices and vectors: what a dot contracts is one axis, what it keeps another, whatever
 * the number of heads; a bias has one axis. So neighbours that are used alike are merged: [H, E, D] of a projection is [H * E, D]. */
#ifndef SHARDC_TOOLS_RUN_WEIGHT_SHAPE_H
#define SHARDC_TOOLS_RUN_WEIGHT_SHAPE_H

#include "frontend/weights/map.h"

/* How a dim of a parameter is used; bits. */
enum {
    SC_ROLE_CONTRACTED = 1, /* by a dot */
    SC_ROLE_GATHERED = 2,   /* ids pick its entries */
    SC_ROLE_ALONE = 4       /* a batch dim of a dot, or a dim of an input: never merged */
};

typedef struct sc_weight_roles {
    uint8_t (*of)[SC_MAX_RANK]; /* by state and dim */
} sc_weight_roles;

void sc_weight_roles_find(const sc_module *m, sc_weight_roles *out);

/* Sizes of the file's axes, at most SC_MAX_WEIGHT_DIMS of them; axes of size 1 are left out. Gives the rank. */
uint32_t sc_weight_shape(const sc_weight_layout *layout, const sc_type_info *type, const uint8_t *roles, uint64_t *shape);

#endif
