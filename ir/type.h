/* Types: a dtype, named dims with global sizes, and a placement on the mesh. Types are interned in
 * the module: equal handles, equal types.
 *
 * Dims of types are *leaves*. A composite dim H = (K, G) is represented by its leaves K, G, each
 * with `group` = H. So K of q and K of k are the same dim, split and merge only change groups, and
 * sharding H major first means sharding K, then G; no other part of the compiler deals with
 * composites. The leaves of a group are adjacent, in order and complete; a plain dim has group
 * SC_NONE. */
#ifndef SHARDC_IR_TYPE_H
#define SHARDC_IR_TYPE_H

#include <stdbool.h>
#include <stdint.h>

#include "program/shard_order.h"
#include "support/dtype.h"
#include "support/intern.h"
#include "support/none.h"

enum { SC_MAX_RANK = 15, SC_MAX_AXES = 12, SC_MAX_SUB_AXES = 16, SC_MAX_STAGES = 64 };

typedef uint32_t sc_dim;  /* index in module->dims */
typedef uint32_t sc_type; /* index in module->types */

typedef struct sc_module sc_module; /* ir/graph.h */

/* ---- mesh ---- */
/* The axes of a mesh, slowest first. If a plan shards a composite over an axis larger than its
 * major part, the axis is split into *sub-axes* (tp.0, tp.1, major first). Placements use sub-axes
 * only; an axis that is not split is a single sub-axis. */
typedef struct sc_axis {
    sc_sym name;
    uint32_t size;
    bool inter; /* crosses nodes: each byte costs 8 */
    /* its ranks are the stages of a pipeline. No value is placed on it: it has no sub-axes, and
     * within a stage the ranks are those of the other axes. At most one axis; its size is > 1. */
    bool is_stage;
    uint8_t first_sub_axis, sub_axis_count;
} sc_axis;

typedef struct sc_sub_axis {
    uint8_t axis, index;
    uint32_t size;
} sc_sub_axis;

typedef struct sc_mesh {
    uint8_t axis_count, sub_axis_count;
    sc_axis axes[SC_MAX_AXES];
    sc_sub_axis sub_axes[SC_MAX_SUB_AXES]; /* in axis order */
} sc_mesh;

/* All ranks, those of all stages. */
uint64_t sc_mesh_ranks(const sc_mesh *mesh);
/* The index of the stage axis, or -1; the number of stages, 1 without it; the ranks of one stage.
 */
int sc_mesh_stage_axis(const sc_mesh *mesh);
uint32_t sc_mesh_stages(const sc_mesh *mesh);
uint64_t sc_mesh_stage_ranks(const sc_mesh *mesh);
/* The number among all ranks of a rank of one stage, both row-major in the order of the axes. */
uint64_t sc_mesh_world_rank(const sc_mesh *mesh, uint32_t stage, uint64_t rank);
/* Coordinate of a rank of a stage on a sub-axis. Ranks are row-major: the last sub-axis is the
 * fastest. */
uint32_t sc_mesh_coordinate(const sc_mesh *mesh, uint64_t rank, uint32_t sub_axis);
/* Distance between two ranks of a stage whose coordinates differ by 1 on this sub-axis only. */
uint64_t sc_mesh_stride(const sc_mesh *mesh, uint32_t sub_axis);
/* The same in the numbers of all ranks, of all stages. */
uint64_t sc_mesh_world_stride(const sc_mesh *mesh, uint32_t sub_axis);

/* ---- placements ---- */
typedef uint32_t sc_sub_axis_set; /* one bit per sub-axis */

enum { SC_ON_NOTHING = 0xff, SC_PARTIAL_SUM = 0xf0, SC_PARTIAL_MAX = 0xf1, SC_PARTIAL_MIN = 0xf2 };

/* Per sub-axis: SC_ON_NOTHING (replicated), the index of the dim that it shards, or a partial
 * reduction. `order` is the rank of a sub-axis among those of its dim, 0 for the major one; 0
 * elsewhere. Equal placements have equal bytes. Sub-axes beyond the mesh's are SC_ON_NOTHING. */
typedef struct sc_placement {
    uint8_t on[SC_MAX_SUB_AXES];
    uint8_t order[SC_MAX_SUB_AXES];
} sc_placement;

/* An ordered list of sub-axes, major first: how one dim is split. */
typedef struct sc_sub_axis_list {
    uint8_t count;
    uint8_t sub_axes[SC_MAX_SUB_AXES];
} sc_sub_axis_list;

/* A declared dim. It has no size: within one function a dim has one size, which is in the types. */
typedef struct sc_dim_info {
    sc_sym name;
    sc_dim alias_of; /* SC_NONE: not an alias */
    uint32_t part_count;
    sc_dim *parts;    /* composite: its leaves, major first; NULL for a leaf */
    sc_dim part_of;   /* a leaf made for an alias of a composite: that alias; otherwise SC_NONE */
    int64_t multiple; /* when split, the size is padded up to a multiple of this; 0 or 1: never */
    /* sub-axes that split it zigzag, wherever they split it: all or none of them, next to each
     * other and in this order (sc_shard_order) */
    sc_sub_axis_list zigzag;
} sc_dim_info;

sc_placement sc_placement_replicated(void);
bool sc_placement_equal(const sc_placement *a, const sc_placement *b);
static inline bool sc_is_partial(uint8_t on)
{
    return on >= SC_PARTIAL_SUM && on <= SC_PARTIAL_MIN;
}
sc_sub_axis_list sc_placement_dim(const sc_placement *placement, uint32_t dim_index);
/* Replaces the sub-axes of one dim. The sub-axes of the list must be free or already on that
 * dim. */
void sc_placement_set_dim(sc_placement *placement, uint32_t dim_index,
                          const sc_sub_axis_list *list);
/* Appends a sub-axis as the minor one of a dim. */
void sc_placement_append(sc_placement *placement, uint32_t dim_index, uint32_t sub_axis);
/* Returns the sub-axes with a partial reduction of this kind (SC_PARTIAL_..), or of any kind if
 * 0. */
sc_sub_axis_set sc_placement_partial(const sc_placement *placement, uint8_t kind);
/* Returns the sub-axes that shard any dim. */
sc_sub_axis_set sc_placement_split(const sc_placement *placement);
/* Returns the placement with these sub-axes set to `on` (SC_ON_NOTHING or SC_PARTIAL_..), whatever
 * they sharded before. */
sc_placement sc_placement_with(const sc_placement *placement, sc_sub_axis_set sub_axes, uint8_t on);
uint64_t sc_sub_axis_list_size(const sc_mesh *mesh, const sc_sub_axis_list *list);
uint64_t sc_sub_axis_set_size(const sc_mesh *mesh, sc_sub_axis_set set);
bool sc_sub_axis_list_equal(const sc_sub_axis_list *a, const sc_sub_axis_list *b);
bool sc_sub_axis_list_has(const sc_sub_axis_list *list, uint32_t sub_axis);

/* ---- types ---- */
typedef struct sc_type_dim {
    sc_dim dim;   /* a leaf */
    sc_dim group; /* the composite it is printed as part of, or SC_NONE */
    int64_t size; /* global; at least 1, or 0 if unknown (checking without bindings) */
} sc_type_dim;

typedef struct sc_type_info {
    sc_dtype dtype;
    uint32_t rank;
    sc_type_dim dims[SC_MAX_RANK];
    sc_placement placement;
} sc_type_info;

/* Returns the index of a leaf in a type, or -1. */
int sc_type_find_dim(const sc_type_info *type, sc_dim leaf);
bool sc_dim_has_part(const sc_module *m, sc_dim composite, sc_dim leaf);
/* True if the type has the dim, one of its parts, or the composite that it is a part of. */
bool sc_type_has_dim(const sc_module *m, const sc_type_info *type, sc_dim dim);
/* Number of shards of dim i, and its size on one rank: the padded size divided by the shards. */
uint64_t sc_type_shards(const sc_mesh *mesh, const sc_type_info *type, uint32_t i);
int64_t sc_type_local_size(const sc_module *m, const sc_type_info *type, uint32_t i);
/* Element and byte counts; they saturate at INT64_MAX. */
int64_t sc_type_elements(const sc_type_info *type);
int64_t sc_type_local_elements(const sc_module *m, const sc_type_info *type);
int64_t sc_type_local_bytes(const sc_module *m, const sc_type_info *type);
/* Returns the size rounded up to the dim's padding multiple: the sum of its shards. */
int64_t sc_dim_padded(const sc_module *m, sc_dim dim, int64_t size);
/* True if a dim of this size can be split into this many shards: they divide the size or the padded
 * size. */
bool sc_dim_divides(const sc_module *m, sc_dim dim, int64_t size, uint64_t shards);
/* True if dim i is split and its last shards contain padding. */
bool sc_type_is_uneven(const sc_module *m, const sc_type_info *type, uint32_t i);
/* Returns the number of the rank's shard of a dim that these sub-axes split. */
int64_t sc_shard_number(const sc_mesh *mesh, const sc_sub_axis_list *sub_axes, uint64_t rank);

/* ---- zigzag ---- */
/* The sub-axes in a list that splits a dim, or pieces of it, that split it zigzag; count 0: none.
 * False if they are neither next to each other nor in the zigzag's order: no such split is used.
 * Some of a zigzag's sub-axes make a zigzag themselves, of shards and of the pieces of these. */
bool sc_find_zigzag(const sc_module *m, sc_dim dim, const sc_sub_axis_list *sub_axes,
                    uint32_t *begin, uint32_t *count);
/* The order of a dim's shards when these sub-axes split it. */
sc_shard_order sc_shard_order_of(const sc_module *m, sc_dim dim, const sc_sub_axis_list *sub_axes);
/* True if any of the type's dims is split in no way that its zigzag allows. */
bool sc_type_breaks_zigzag(const sc_module *m, const sc_type_info *type);
/* True if dim i may be split zigzag and is split otherwise in the other placement. */
bool sc_moves_zigzag(const sc_module *m, const sc_type_info *type, const sc_placement *to,
                     uint32_t i);

#endif
