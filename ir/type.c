#include "ir/graph.h"

#include <assert.h>
#include <string.h>

uint64_t sc_mesh_ranks(const sc_mesh *mesh)
{
    uint64_t ranks = 1;
    for (uint32_t i = 0; i < mesh->axis_count; i++)
        ranks *= mesh->axes[i].size;
    return ranks;
}

int sc_mesh_stage_axis(const sc_mesh *mesh)
{
    for (int i = 0; i < mesh->axis_count; i++) {
        if (mesh->axes[i].is_stage)
            return i;
    }
    return -1;
}

uint32_t sc_mesh_stages(const sc_mesh *mesh)
{
    int axis = sc_mesh_stage_axis(mesh);
    return axis < 0 ? 1 : mesh->axes[axis].size;
}

uint64_t sc_mesh_stage_ranks(const sc_mesh *mesh)
{
    return sc_mesh_ranks(mesh) / sc_mesh_stages(mesh);
}

uint64_t sc_mesh_world_rank(const sc_mesh *mesh, uint32_t stage, uint64_t rank)
{
    int axis = sc_mesh_stage_axis(mesh);
    if (axis < 0)
        return rank;
    uint64_t faster = 1; /* ranks that differ only on the axes after the stage axis */
    for (int i = axis + 1; i < mesh->axis_count; i++)
        faster *= mesh->axes[i].size;
    return (rank / faster * mesh->axes[axis].size + stage) * faster + rank % faster;
}

uint64_t sc_mesh_stride(const sc_mesh *mesh, uint32_t sub_axis)
{
    uint64_t stride = 1;
    for (uint32_t i = mesh->sub_axis_count; i-- > sub_axis + 1;)
        stride *= mesh->sub_axes[i].size;
    return stride;
}

uint64_t sc_mesh_world_stride(const sc_mesh *mesh, uint32_t sub_axis)
{
    return sc_mesh_world_rank(mesh, 0, sc_mesh_stride(mesh, sub_axis));
}

uint32_t sc_mesh_coordinate(const sc_mesh *mesh, uint64_t rank, uint32_t sub_axis)
{
    return (uint32_t)(rank / sc_mesh_stride(mesh, sub_axis) % mesh->sub_axes[sub_axis].size);
}

sc_placement sc_placement_replicated(void)
{
    sc_placement placement;
    memset(placement.on, SC_ON_NOTHING, sizeof placement.on);
    memset(placement.order, 0, sizeof placement.order);
    return placement;
}

bool sc_placement_equal(const sc_placement *a, const sc_placement *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

/* True if any of the 16 bytes equals `byte`. A fast path: most dims are not split, and every dim of
 * every op is checked. */
static bool has_byte(const uint8_t *bytes, uint8_t byte)
{
    static_assert(SC_MAX_SUB_AXES == 16, "two words");
    const uint64_t low = 0x0101010101010101u, high = 0x8080808080808080u;
    uint64_t words[2];
    memcpy(words, bytes, sizeof words);
    uint64_t a = words[0] ^ (low * byte), b = words[1] ^ (low * byte);
    return ((((a - low) & ~a) | ((b - low) & ~b)) & high) != 0;
}

sc_sub_axis_list sc_placement_dim(const sc_placement *placement, uint32_t dim_index)
{
    sc_sub_axis_list list = {0};
    if (!has_byte(placement->on, (uint8_t)dim_index))
        return list;
    for (uint32_t a = 0; a < SC_MAX_SUB_AXES; a++) {
        if (placement->on[a] == dim_index) {
            list.sub_axes[placement->order[a]] = (uint8_t)a;
            list.count++;
        }
    }
    return list;
}

void sc_placement_set_dim(sc_placement *placement, uint32_t dim_index, const sc_sub_axis_list *list)
{
    for (uint32_t a = 0; a < SC_MAX_SUB_AXES; a++) {
        if (placement->on[a] == dim_index) {
            placement->on[a] = SC_ON_NOTHING;
            placement->order[a] = 0;
        }
    }
    for (uint32_t i = 0; i < list->count; i++) {
        placement->on[list->sub_axes[i]] = (uint8_t)dim_index;
        placement->order[list->sub_axes[i]] = (uint8_t)i;
    }
}

void sc_placement_append(sc_placement *placement, uint32_t dim_index, uint32_t sub_axis)
{
    uint8_t count = 0;
    for (uint32_t a = 0; a < SC_MAX_SUB_AXES; a++)
        count = (uint8_t)(count + (placement->on[a] == dim_index));
    placement->on[sub_axis] = (uint8_t)dim_index;
    placement->order[sub_axis] = count;
}

/* Renumbers the sub-axes that split the dim of this one and follow it in order. */
static void close_gap(sc_placement *at, uint32_t sub_axis)
{
    uint8_t dim = at->on[sub_axis], order = at->order[sub_axis];
    for (uint32_t a = 0; a < SC_MAX_SUB_AXES; a++)
        at->order[a] = (uint8_t)(at->order[a] - (at->on[a] == dim && at->order[a] > order));
}

sc_placement sc_placement_with(const sc_placement *placement, sc_sub_axis_set sub_axes, uint8_t on)
{
    sc_placement at = *placement;
    for (uint32_t a = 0; a < SC_MAX_SUB_AXES; a++) {
        if ((sub_axes >> a & 1) == 0)
            continue;
        if (at.on[a] < SC_MAX_RANK)
            close_gap(&at, a);
        at.on[a] = on;
        at.order[a] = 0;
    }
    return at;
}

sc_sub_axis_set sc_placement_partial(const sc_placement *placement, uint8_t kind)
{
    sc_sub_axis_set set = 0;
    for (uint32_t a = 0; a < SC_MAX_SUB_AXES; a++) {
        if (kind == 0 ? sc_is_partial(placement->on[a]) : placement->on[a] == kind)
            set |= (sc_sub_axis_set)1 << a;
    }
    return set;
}

sc_sub_axis_set sc_placement_split(const sc_placement *placement)
{
    sc_sub_axis_set set = 0;
    for (uint32_t a = 0; a < SC_MAX_SUB_AXES; a++) {
        if (placement->on[a] != SC_ON_NOTHING && !sc_is_partial(placement->on[a]))
            set |= (sc_sub_axis_set)1 << a;
    }
    return set;
}

uint64_t sc_sub_axis_list_size(const sc_mesh *mesh, const sc_sub_axis_list *list)
{
    uint64_t size = 1;
    for (uint32_t i = 0; i < list->count; i++)
        size *= mesh->sub_axes[list->sub_axes[i]].size;
    return size;
}

uint64_t sc_sub_axis_set_size(const sc_mesh *mesh, sc_sub_axis_set set)
{
    uint64_t size = 1;
    for (uint32_t a = 0; a < mesh->sub_axis_count; a++)
        size *= (set >> a & 1) != 0 ? mesh->sub_axes[a].size : 1;
    return size;
}

bool sc_sub_axis_list_equal(const sc_sub_axis_list *a, const sc_sub_axis_list *b)
{
    return a->count == b->count && memcmp(a->sub_axes, b->sub_axes, a->count) == 0;
}

bool sc_sub_axis_list_has(const sc_sub_axis_list *list, uint32_t sub_axis)
{
    for (uint32_t i = 0; i < list->count; i++) {
        if (list->sub_axes[i] == sub_axis)
            return true;
    }
    return false;
}

int sc_type_find_dim(const sc_type_info *type, sc_dim leaf)
{
    for (uint32_t i = 0; i < type->rank; i++) {
        if (type->dims[i].dim == leaf)
            return (int)i;
    }
    return -1;
}

uint64_t sc_type_shards(const sc_mesh *mesh, const sc_type_info *type, uint32_t i)
{
    uint64_t shards = 1;
    for (uint32_t a = 0; a < mesh->sub_axis_count; a++)
        shards *= type->placement.on[a] == i ? mesh->sub_axes[a].size : 1;
    return shards;
}

/* Sizes come from files and plans. A multiple that would overflow adds no padding. */
int64_t sc_dim_padded(const sc_module *m, sc_dim dim, int64_t size)
{
    int64_t multiple = m->dims.data[dim].multiple;
    if (multiple <= 1 || size % multiple == 0 || size > INT64_MAX - multiple)
        return size;
    return size - size % multiple + multiple;
}

/* Every shard of a zigzag has two chunks; a zigzag has no padding. */
bool sc_dim_divides(const sc_module *m, sc_dim dim, int64_t size, uint64_t shards)
{
    bool is_zigzag = m->dims.data[dim].zigzag.count > 0 && shards > 1;
    uint64_t pieces = is_zigzag ? 2 * shards : shards;
    int64_t padded = sc_dim_padded(m, dim, size);
    return pieces <= INT64_MAX && padded % (int64_t)pieces == 0 && (!is_zigzag || padded == size);
}

int64_t sc_type_local_size(const sc_module *m, const sc_type_info *type, uint32_t i)
{
    int64_t shards = (int64_t)sc_type_shards(&m->mesh, type, i), size = type->dims[i].size;
    size = shards > 1 ? sc_dim_padded(m, type->dims[i].dim, size) : size;
    return size / shards + (size % shards != 0);
}

bool sc_type_is_uneven(const sc_module *m, const sc_type_info *type, uint32_t i)
{
    int64_t shards = (int64_t)sc_type_shards(&m->mesh, type, i);
    return shards > 1 && sc_type_local_size(m, type, i) * shards != type->dims[i].size;
}

static int64_t saturating_product(int64_t a, int64_t b)
{
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

int64_t sc_type_elements(const sc_type_info *type)
{
    int64_t count = 1;
    for (uint32_t i = 0; i < type->rank; i++)
        count = saturating_product(count, type->dims[i].size);
    return count;
}

int64_t sc_type_local_elements(const sc_module *m, const sc_type_info *type)
{
    int64_t count = 1;
    for (uint32_t i = 0; i < type->rank; i++)
        count = saturating_product(count, sc_type_local_size(m, type, i));
    return count;
}

int64_t sc_type_local_bytes(const sc_module *m, const sc_type_info *type)
{
    return saturating_product(sc_type_local_elements(m, type), sc_dtypes[type->dtype].bytes);
}

int64_t sc_shard_number(const sc_mesh *mesh, const sc_sub_axis_list *sub_axes, uint64_t rank)
{
    int64_t number = 0;
    for (uint32_t i = 0; i < sub_axes->count; i++)
        number = number * mesh->sub_axes[sub_axes->sub_axes[i]].size +
                 sc_mesh_coordinate(mesh, rank, sub_axes->sub_axes[i]);
    return number;
}

bool sc_dim_has_part(const sc_module *m, sc_dim composite, sc_dim leaf)
{
    const sc_dim_info *info = &m->dims.data[composite];
    for (uint32_t i = 0; i < info->part_count; i++) {
        if (info->parts[i] == leaf)
            return true;
    }
    return false;
}

bool sc_type_has_dim(const sc_module *m, const sc_type_info *type, sc_dim dim)
{
    for (uint32_t i = 0; i < type->rank; i++) {
        if (type->dims[i].dim == dim || type->dims[i].group == dim ||
            sc_dim_has_part(m, dim, type->dims[i].dim))
            return true;
    }
    return false;
}

/* ---- zigzag ---- */

/* Returns the index of the sub-axis in the list, or its count. */
static uint32_t index_in(const sc_sub_axis_list *list, uint8_t sub_axis)
{
    uint32_t i = 0;
    while (i < list->count && list->sub_axes[i] != sub_axis)
        i++;
    return i;
}

bool sc_find_zigzag(const sc_module *m, sc_dim dim, const sc_sub_axis_list *sub_axes,
                    uint32_t *begin, uint32_t *count)
{
    const sc_sub_axis_list *zigzag = &m->dims.data[dim].zigzag;
    *begin = *count = 0;
    for (uint32_t i = 0; i < sub_axes->count; i++) {
        uint32_t at = index_in(zigzag, sub_axes->sub_axes[i]);
        if (at == zigzag->count)
            continue;
        *begin = *count == 0 ? i : *begin;
        if (i != *begin + *count || at != index_in(zigzag, sub_axes->sub_axes[*begin]) + *count)
            return false;
        ++*count;
    }
    return true;
}

sc_shard_order sc_shard_order_of(const sc_module *m, sc_dim dim, const sc_sub_axis_list *sub_axes)
{
    sc_shard_order order = {1, 1, 1};
    uint32_t begin, count;
    sc_find_zigzag(m, dim, sub_axes, &begin, &count);
    for (uint32_t i = 0; i < sub_axes->count; i++) {
        int64_t *factor = count == 0 || i >= begin + count ? &order.inner
                          : i < begin                      ? &order.outer
                                                           : &order.members;
        *factor *= (int64_t)m->mesh.sub_axes[sub_axes->sub_axes[i]].size;
    }
    return order;
}

bool sc_type_breaks_zigzag(const sc_module *m, const sc_type_info *type)
{
    for (uint32_t i = 0; i < type->rank; i++) {
        uint32_t begin, count;
        sc_sub_axis_list list = sc_placement_dim(&type->placement, i);
        if (!sc_find_zigzag(m, type->dims[i].dim, &list, &begin, &count))
            return true;
    }
    return false;
}

bool sc_moves_zigzag(const sc_module *m, const sc_type_info *type, const sc_placement *to,
                     uint32_t i)
{
    sc_sub_axis_list now = sc_placement_dim(&type->placement, i), then = sc_placement_dim(to, i);
    return m->dims.data[type->dims[i].dim].zigzag.count > 0 && !sc_sub_axis_list_equal(&now, &then);
}
