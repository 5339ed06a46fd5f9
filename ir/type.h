/* Types: a dtype, named dims with global sizes, and a placement on the mesh. Types are interned in the module: equal handle, equal type.
 *
 * Dims of types are *leaves*: a composite dim H = (K, G) stands in a type as its leaves K, G, each with `group` = H. So K of q and K of
 * k are the same dim, split and merge only change groups, and sharding H major first is sharding K, then G; nothing else in the compiler
 * knows composites. A group's leaves stand together, in order and complete; a plain dim has group SC_NONE. */
#ifndef SHARDC_IR_TYPE_H
#define SHARDC_IR_TYPE_H

#include <stdbool.h>
#include <stdint.h>

#include "support/dtype.h"
#include "support/intern.h"

enum { SC_MAX_RANK = 15, SC_MAX_AXES = 12, SC_MAX_SUB_AXES = 16 };
#define SC_NONE UINT32_MAX

typedef uint32_t sc_dim;  /* index in module->dims */
typedef uint32_t sc_type; /* index in module->types */

typedef struct sc_module sc_module; /* ir/graph.h */

/* A declared dim. Sizes are not here: inside one function a dim has one size, and it stands in the types. */
typedef struct sc_dim_info {
    sc_sym name;
    sc_dim alias_of; /* SC_NONE: not an alias */
    uint32_t part_count;
    sc_dim *parts;    /* composite: its leaves, major first; NULL for a leaf */
    sc_dim part_of;   /* a leaf made for an alias of a composite: that alias; else SC_NONE */
    int64_t multiple; /* where the dim is split, its size is padded up to a multiple of this; 0 or 1: never */
} sc_dim_info;

/* ---- mesh ---- */
/* A mesh is axes from slowest to fastest. Where a plan shards a composite over an axis larger than its major part, the axis is split
 * into *sub-axes* (tp.0, tp.1, major first): placements speak of sub-axes only. An axis that is not split is one sub-axis. */
typedef struct sc_axis {
    sc_sym name;
    uint32_t size;
    bool inter; /* across nodes: a byte counts 8 */
    uint8_t first_sub_axis, sub_axis_count;
} sc_axis;

typedef struct sc_sub_axis {
    uint8_t axis, index;
    uint32_t size;
} sc_sub_axis;

typedef struct sc_mesh {
    uint8_t axis_count, sub_axis_count;
    sc_axis axes[SC_MAX_AXES];
    sc_sub_axis sub_axes[SC_MAX_SUB_AXES]; /* in the axes' order */
} sc_mesh;

uint64_t sc_mesh_ranks(const sc_mesh *mesh);
/* Coordinate of a rank on a sub-axis: ranks count with the last sub-axis fastest. */
uint32_t sc_mesh_coordinate(const sc_mesh *mesh, uint64_t rank, uint32_t sub_axis);
/* How far apart two ranks are whose coordinates differ by 1, on this sub-axis alone. */
uint64_t sc_mesh_stride(const sc_mesh *mesh, uint32_t sub_axis);

/* ---- placements ---- */
typedef uint32_t sc_sub_axis_set; /* bit per sub-axis */

enum { SC_ON_NOTHING = 0xff, SC_PARTIAL_SUM = 0xf0, SC_PARTIAL_MAX = 0xf1, SC_PARTIAL_MIN = 0xf2 };

/* Per sub-axis: SC_ON_NOTHING (replicated), the index of the dim it shards, or a partial reduction. `order` ranks the sub-axes of one dim,
 * 0 the major one; 0 elsewhere. Two equal placements have equal bytes. Sub-axes beyond the mesh's are SC_ON_NOTHING. */
typedef struct sc_placement {
    uint8_t on[SC_MAX_SUB_AXES];
    uint8_t order[SC_MAX_SUB_AXES];
} sc_placement;

/* An ordered list of sub-axes, major first: how one dim is split. */
typedef struct sc_sub_axis_list {
    uint8_t count;
    uint8_t sub_axes[SC_MAX_SUB_AXES];
} sc_sub_axis_list;

sc_placement sc_placement_replicated(void);
bool sc_placement_equal(const sc_placement *a, const sc_placement *b);
static inline bool sc_is_partial(uint8_t on)
{
    return on >= SC_PARTIAL_SUM && on <= SC_PARTIAL_MIN;
}
sc_sub_axis_list sc_placement_dim(const sc_placement *placement, uint32_t dim_index);
/* Replaces the sub-axes of one dim (sub-axes of the list must be free or on that dim). */
void sc_placement_set_dim(sc_placement *placement, uint32_t dim_index, const sc_sub_axis_list *list);
/* Appends one sub-axis as the minor one of a dim. */
void sc_placement_append(sc_placement *placement, uint32_t dim_index, uint32_t sub_axis);
/* The sub-axes with a partial reduction of this kind (SC_PARTIAL_..), or of any kind for 0. */
sc_sub_axis_set sc_placement_partial(const sc_placement *placement, uint8_t kind);
/* The sub-axes that split a dim. */
sc_sub_axis_set sc_placement_split(const sc_placement *placement);
/* The placement with these sub-axes on nothing, or partial (SC_PARTIAL_..), whatever they split before. */
sc_placement sc_placement_with(const sc_placement *placement, sc_sub_axis_set sub_axes, uint8_t on);
uint64_t sc_sub_axis_list_size(const sc_mesh *mesh, const sc_sub_axis_list *list);
uint64_t sc_sub_axis_set_size(const sc_mesh *mesh, sc_sub_axis_set set);
bool sc_sub_axis_list_equal(const sc_sub_axis_list *a, const sc_sub_axis_list *b);

/* ---- types ---- */
typedef struct sc_type_dim {
    sc_dim dim;   /* a leaf */
    sc_dim group; /* the composite it is shown as part of, or SC_NONE */
    int64_t size; /* global; at least 1, or 0 where no size is known (checking without bindings) */
} sc_type_dim;

typedef struct sc_type_info {
    sc_dtype dtype;
    uint32_t rank;
    sc_type_dim dims[SC_MAX_RANK];
    sc_placement placement;
} sc_type_info;

/* Index of a leaf in a type, or -1. */
int sc_type_find_dim(const sc_type_info *type, sc_dim leaf);
bool sc_dim_has_part(const sc_module *m, sc_dim composite, sc_dim leaf);
/* Whether the type has the dim, a part of it, or the composite that it is a part of. */
bool sc_type_has_dim(const sc_module *m, const sc_type_info *type, sc_dim dim);
/* Shards of dim i, and its size on one rank: of a split dim that is padded, the padded size over the shards. */
uint64_t sc_type_shards(const sc_mesh *mesh, const sc_type_info *type, uint32_t i);
int64_t sc_type_local_size(const sc_module *m, const sc_type_info *type, uint32_t i);
/* Products of sizes; saturate at INT64_MAX. */
int64_t sc_type_elements(const sc_type_info *type);
int64_t sc_type_local_elements(const sc_module *m, const sc_type_info *type);
int64_t sc_type_local_bytes(const sc_module *m, const sc_type_info *type);
/* The size that the shards of a split dim add up to. */
int64_t sc_dim_padded(const sc_module *m, sc_dim dim, int64_t size);
/* Whether a dim of this size may be split into so many shards: they divide it, or what it is padded to. */
bool sc_dim_divides(const sc_module *m, sc_dim dim, int64_t size, uint64_t shards);
/* Whether dim i is split and its last shards hold padding. */
bool sc_type_is_uneven(const sc_module *m, const sc_type_info *type, uint32_t i);
/* First element of dim i that this rank holds, given the dim's sub-axes. */
int64_t sc_shard_offset(const sc_mesh *mesh, const sc_sub_axis_list *sub_axes, uint64_t rank, int64_t local_size);

#endif
