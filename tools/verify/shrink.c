/* Shrinks every dim to the smallest size that preserves the structure of the program.
 *
 *   D = 8192 split over fsdp = 128 and tp = 8   ->   fsdp = 2, tp = 2, D = 8: 2 elements per shard
 *
 * Dims that must have equal sizes (rename) form a class. Classes related by slice, concat or topk
 * are scaled by one divisor, so that sums and ranges of sizes still hold. A table that computed
 * positions index stays at least as large as the positions; if nothing is known about the ids, it
 * keeps its size. Slots of rows keep room for all rows that may be in them. Sizes only grow until
 * the conditions are met, and never beyond the original, so this terminates.
 *
 * Norms divide by sums of rows. With few elements such a sum may be near zero, so that the error of
 * one row is a hundred times another's. Dims along which rows are summed therefore keep more
 * elements, as many as the cost limit allows. */
#include "tools/verify/shrink.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { MOST_SCALES = 1 << 20, MOST_ROOM = 32, LEAST_ROOM = 8 };

/* A dim or, at its root, a class of dims of equal size. */
typedef struct dim_class {
    sc_sym name;
    uint32_t parent; /* of the class */
    uint32_t scale;  /* parent in the set of classes scaled together; itself if alone */
    int64_t from, to;
    int64_t minimum;
    int64_t multiple; /* multiple of all numbers of shards that divide the size */
    int64_t uneven;   /* the one number of shards that does not divide it; 0: none, -1: several */
    bool fixed, scaled;
    bool averaged; /* rows are summed along it */
    bool counts;   /* it numbers ranks or their parts: one a rank */
} dim_class;

/* The condition to(dim) >= sum of to(terms) + extra. */
typedef struct at_least {
    uint32_t dim, term_count;
    uint32_t terms[4];
    int64_t extra;
} at_least;

/* Slots of these rows: of these dims of a type of the per-rank module. */
typedef struct slot_room {
    uint32_t slots;
    sc_type type;
    const sc_attr *rows;
} slot_room;

/* `from` of a slice or unslice; scaled with its dim. */
typedef struct slice_start {
    uint32_t dim;
    int64_t value;
} slice_start;

typedef struct shrinking {
    sc_arena *arena;
    sc_shrink *out;
    SC_VEC(dim_class) dims;
    sc_map by_name;
    SC_VEC(at_least) bounds;
    SC_VEC(slot_room) rooms;
    SC_VEC(slice_start) starts;
    sc_mesh mesh; /* of the per-rank module, as shrunk so far */
    sc_sub_axis_set rings;
    int64_t room; /* minimum size of averaged dims */
} shrinking;

/* ---- cost ---- */

/* Returns the size of an op's iteration space: the product of all its dims. */
static double space_of(const sc_module *m, const sc_op *op)
{
    sc_dim seen[SC_MAX_RANK * 3];
    uint32_t count = 0, values = op->operand_count + op->result_count;
    double space = 1;
    for (uint32_t v = 0; v < values; v++) {
        const sc_type_info *type = sc_type_of(
            m, v < op->operand_count ? op->operands[v] : op->first_result + v - op->operand_count);
        for (uint32_t i = 0; i < type->rank; i++) {
            uint32_t s = 0;
            while (s < count && seen[s] != type->dims[i].dim)
                s++;
            if (s < count || count == SC_MAX_RANK * 3)
                continue;
            seen[count++] = type->dims[i].dim;
            space *= (double)sc_type_local_size(m, type, i);
        }
    }
    return (sc_ops[op->kind].fuse & SC_FUSE_CONTRACT) != 0 ? space : 4 * space;
}

/* Sums the cost of all calls of the schedule; one stage runs each. */
static double cost_of(const sc_module *m)
{
    const double per_op = 500, per_state = 20;
    double cost = 0;
    for (sc_func_id f = 0; f < m->funcs.count; f++) {
        double calls = 0, once = 0;
        for (uint32_t i = 0; i < m->schedule.count; i++)
            calls += m->schedule.data[i].func == f;
        sc_for_each_op (m, f, op)
            once += per_op + space_of(m, sc_op_at(m, op));
        cost += once * (m->schedule.count == 0 ? 1 : calls);
    }
    for (uint32_t i = 0; i < m->state.count; i++)
        cost += per_state * (double)sc_type_local_elements(m, sc_state_type(m, i));
    return cost * (double)sc_mesh_stage_ranks(&m->mesh);
}

double sc_interpret_cost(const sc_module *global, const sc_module *local)
{
    return cost_of(global) + cost_of(local);
}

/* ---- classes ---- */

static uint32_t root_of(shrinking *s, uint32_t dim)
{
    assert(dim < s->dims.count);
    while (s->dims.data[dim].parent != dim)
        dim = s->dims.data[dim].parent;
    return dim;
}

/* Returns SC_NONE for a dim that no value has. */
static uint32_t find_dim(const shrinking *s, const sc_module *m, sc_dim dim)
{
    const uint32_t *found =
        dim < m->dims.count ? sc_map_find(&s->by_name, m->dims.data[dim].name) : NULL;
    return found == NULL ? SC_NONE : *found;
}

static void fix(shrinking *s, uint32_t dim)
{
    if (dim != SC_NONE)
        s->dims.data[dim].fixed = true;
}

static void add_size(shrinking *s, const sc_module *m, const sc_type_dim *dim)
{
    bool is_new;
    uint32_t at = *sc_map_insert(&s->by_name, m->dims.data[dim->dim].name, s->dims.count, &is_new);
    if (is_new)
        *sc_vec_push(s->arena, &s->dims) = (dim_class){.name = m->dims.data[dim->dim].name,
                                                       .parent = at,
                                                       .scale = at,
                                                       .from = dim->size,
                                                       .to = dim->size,
                                                       .multiple = 1,
                                                       .fixed = dim->size < 1};
    /* a padded dim is already uneven */
    if (s->dims.data[at].from != dim->size || m->dims.data[dim->dim].multiple > 1)
        s->dims.data[at].fixed = true;
}

static void add_type(shrinking *s, const sc_module *m, sc_type type)
{
    const sc_type_info *info = &m->types.data[type];
    for (uint32_t i = 0; i < info->rank; i++)
        add_size(s, m, &info->dims[i]);
}

static void collect_dims(shrinking *s, const sc_module *m)
{
    sc_for_each_op_of_all(m, op)
    {
        for (uint32_t r = 0; r < sc_op_at(m, op)->result_count; r++)
            add_type(s, m, m->values.data[sc_result(m, op, r)].type);
    }
    for (uint32_t i = 0; i < m->state.count; i++)
        add_type(s, m, m->state.data[i].type);
}

/* ---- constraints of ops on sizes ---- */

static void tie(shrinking *s, uint32_t a, uint32_t b)
{
    if (a == SC_NONE || b == SC_NONE)
        return;
    a = root_of(s, a);
    b = root_of(s, b);
    if (a == b)
        return;
    if (s->dims.data[a].from != s->dims.data[b].from) {
        fix(s, a);
        fix(s, b);
        return;
    }
    s->dims.data[b].parent = a;
}

static uint32_t scale_root(shrinking *s, uint32_t dim)
{
    dim = root_of(s, dim);
    while (s->dims.data[dim].scale != dim)
        dim = root_of(s, s->dims.data[dim].scale);
    return dim;
}

/* Puts two dims into one set, whose sizes are divided by the same divisor. */
static void scale_together(shrinking *s, uint32_t a, uint32_t b)
{
    if (a == SC_NONE || b == SC_NONE)
        return;
    a = scale_root(s, a);
    b = scale_root(s, b);
    s->dims.data[a].scaled = s->dims.data[b].scaled = true;
    s->dims.data[b].scale = a;
}

static uint32_t attr_dim(const shrinking *s, const sc_module *m, const sc_op *op, sc_attr_key key,
                         uint32_t index)
{
    const sc_attr *attr = sc_op_attr(op, key);
    return attr == NULL || index >= attr->count ? SC_NONE : find_dim(s, m, attr->dims[index]);
}

static uint32_t attr_count(const sc_op *op, sc_attr_key key)
{
    const sc_attr *attr = sc_op_attr(op, key);
    return attr == NULL ? 0 : attr->count;
}

static void read_rename(shrinking *s, const sc_module *m, const sc_op *op)
{
    uint32_t from = attr_count(op, SC_ATTR_dims), to = attr_count(op, SC_ATTR_to);
    if (from == to) {
        for (uint32_t i = 0; i < from; i++)
            tie(s, attr_dim(s, m, op, SC_ATTR_dims, i), attr_dim(s, m, op, SC_ATTR_to, i));
    } else {
        for (uint32_t i = 0; i < from; i++)
            fix(s, attr_dim(s, m, op, SC_ATTR_dims, i));
        for (uint32_t i = 0; i < to; i++)
            fix(s, attr_dim(s, m, op, SC_ATTR_to, i));
    }
}

static void read_resize(shrinking *s, const sc_module *m, const sc_op *op)
{
    static const sc_attr_key keys[] = {SC_ATTR_dims, SC_ATTR_from_dims, SC_ATTR_to};
    uint32_t first = attr_dim(s, m, op, SC_ATTR_dims, 0);
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        bool is_plain = attr_count(op, keys[k]) == 1;
        for (uint32_t i = 0; i < attr_count(op, keys[k]); i++) {
            uint32_t dim = attr_dim(s, m, op, keys[k], i);
            scale_together(s, first, dim);
            if (!is_plain) /* otherwise it is a product of several scales */
                fix(s, dim);
        }
    }
    if (sc_op_attr(op, SC_ATTR_from) != NULL && first != SC_NONE)
        *sc_vec_push(s->arena, &s->starts) = (slice_start){first, sc_op_int(op, SC_ATTR_from, 0)};
}

static bool add_term(at_least *bound, uint32_t dim)
{
    if (dim == SC_NONE || bound->term_count == sizeof bound->terms / sizeof *bound->terms)
        return false;
    bound->terms[bound->term_count++] = dim;
    return true;
}

static bool bound_operands(const shrinking *s, const sc_module *m, const sc_op *op, at_least *bound,
                           uint32_t depth);

/* Bounds integer values by a sum of sizes. Inputs are drawn to fit and add nothing. Returns false
 * if no bound is known. */
static bool bound_ids(const shrinking *s, const sc_module *m, sc_value value, at_least *bound,
                      uint32_t depth)
{
    const sc_op *op = sc_op_at(m, sc_def(m, value));
    if (depth == 0)
        return false;
    if (sc_op_has(op, SC_FROM_OUTSIDE))
        return true;
    switch (sc_ops[op->kind].bound) {
    case SC_BOUND_value:
        bound->extra += (int64_t)fmax(0, fmin(sc_op_number(op, SC_ATTR_value, 0), 1e15));
        return true;
    case SC_BOUND_position:
        return m->values.data[value].index + 1 == op->result_count &&
               add_term(bound, attr_dim(s, m, op, SC_ATTR_dims, 0));
    case SC_BOUND_added:
    case SC_BOUND_largest:
        return bound_operands(s, m, op, bound, depth - 1);
    case SC_BOUND_subtracted:
    case SC_BOUND_multiplied:
    case SC_BOUND_summed:
    case SC_BOUND_scattered:
    case SC_BOUND_contracted:
    case SC_BOUND_any:
        return false;
    }
    return false;
}

/* Adds the bounds of the operands that the result is the sum of, or of those that it picks. */
static bool bound_operands(const shrinking *s, const sc_module *m, const sc_op *op, at_least *bound,
                           uint32_t depth)
{
    bool is_sum = sc_ops[op->kind].bound == SC_BOUND_added,
         known = is_sum || sc_ops[op->kind].picks != 0;
    for (uint32_t i = 0; i < op->operand_count && known; i++) {
        if (is_sum || sc_op_picks((sc_op_kind)op->kind, i))
            known = bound_ids(s, m, op->operands[i], bound, depth);
    }
    return known;
}

static void read_ids(shrinking *s, const sc_module *m, const sc_op *op, uint32_t operand)
{
    at_least bound = {.dim = attr_dim(s, m, op, sc_op_indexed((sc_op_kind)op->kind), 0)};
    if (bound.dim == SC_NONE || operand >= op->operand_count)
        return;
    if (!bound_ids(s, m, op->operands[operand], &bound, 16))
        fix(s, bound.dim);
    else if (bound.term_count > 0 || bound.extra > 0)
        *sc_vec_push(s->arena, &s->bounds) = bound;
}

/* Requires room for two sets of new positions, so that rows can start at several places. */
static void read_append(shrinking *s, const sc_module *m, const sc_op *op)
{
    uint32_t from = attr_dim(s, m, op, SC_ATTR_dims, 0), to = attr_dim(s, m, op, SC_ATTR_to, 0);
    if (from != SC_NONE && to != SC_NONE)
        *sc_vec_push(s->arena, &s->bounds) =
            (at_least){.dim = to, .term_count = 2, .terms = {from, from}};
}

/* Rows that are put in slots: ranks have one member and one part of these. */
static void read_slots(shrinking *s, const sc_module *m, const sc_op *op)
{
    enum { MEMBER, PART, SLOT };
    for (uint32_t i = MEMBER; i <= PART; i++)
        s->dims.data[attr_dim(s, m, op, SC_ATTR_to, i)].counts = true;
    *sc_vec_push(s->arena, &s->rooms) = (slot_room){.slots = attr_dim(s, m, op, SC_ATTR_to, SLOT),
                                                    .type = m->values.data[op->operands[0]].type,
                                                    .rows = sc_op_attr(op, SC_ATTR_dims)};
}

/* Keeps the size of a dim for whose pairs of elements an op lists numbers. */
static void read_scaling(shrinking *s, const sc_module *m, const sc_op *op)
{
    const sc_attr *numbers = sc_op_attr(op, SC_ATTR_scaling_args);
    uint32_t dim = numbers == NULL ? SC_NONE : attr_dim(s, m, op, SC_ATTR_dims, 1);
    if (dim != SC_NONE && (int64_t)numbers->count >= s->dims.data[dim].from)
        fix(s, dim);
}

/* Reads the relations of sizes in ops. Classes come first, because scaling refers to them. */
static void read_relations(shrinking *s, const sc_module *m)
{
    sc_for_each_op_of_all(m, op)
    {
        if (sc_op_has(sc_op_at(m, op), SC_RENAMES))
            read_rename(s, m, sc_op_at(m, op));
    }
    sc_for_each_op_of_all(m, op)
    {
        if (sc_op_has(sc_op_at(m, op), SC_RESIZES))
            read_resize(s, m, sc_op_at(m, op));
        read_scaling(s, m, sc_op_at(m, op));
        if (sc_op_attr(sc_op_at(m, op), SC_ATTR_parts) != NULL)
            scale_together(s, attr_dim(s, m, sc_op_at(m, op), SC_ATTR_to, 0),
                           attr_dim(s, m, sc_op_at(m, op), SC_ATTR_parts, 0));
    }
}

/* Finds the dims along which forward ops sum rows. A sum over everything is a loss and does not
 * count. */
static void read_averages(shrinking *s, const sc_module *m)
{
    sc_for_each_op_of_all(m, id)
    {
        const sc_op *op = sc_op_at(m, id);
        bool is_average = sc_op_is_sum((sc_op_kind)op->kind) && sc_op_is_forward(m, op) &&
                          sc_type_of(m, op->first_result)->rank > 0 &&
                          sc_dtype_is_float(sc_type_of(m, op->first_result)->dtype);
        if (is_average) {
            for (uint32_t i = 0; i < attr_count(op, SC_ATTR_dims); i++) {
                uint32_t dim = attr_dim(s, m, op, SC_ATTR_dims, i);
                if (dim != SC_NONE)
                    s->dims.data[dim].averaged = true;
            }
        }
    }
}

/* Reads the sizes that bound integers. */
static void read_bounds(shrinking *s, const sc_module *m, const sc_op *op)
{
    if (sc_op_has(op, SC_APPENDS))
        read_append(s, m, op);
    for (uint32_t operand = 1; operand <= 2; operand++) {
        if (sc_op_takes_ids((sc_op_kind)op->kind, operand))
            read_ids(s, m, op, operand);
    }
}

/* ---- mesh ---- */

/* Sub-axes along which values go round a ring: it has as many steps as members. */
static sc_sub_axis_set find_rings(const sc_module *m)
{
    sc_sub_axis_set rings = 0;
    sc_for_each_op_of_all(m, id)
    {
        const sc_op *op = sc_op_at(m, id);
        const sc_attr *over = sc_op_attr(op, SC_ATTR_over);
        if (sc_op_attr(op, SC_ATTR_shift) == NULL || over == NULL)
            continue;
        for (uint32_t a = 0; a < over->count; a++)
            rings |= (sc_sub_axis_set)1 << over->sub_axes[a];
    }
    return rings;
}

/* Shrinks the largest sub-axis to its smallest prime factor, which divides whatever the original
 * size divided; rings stay. Returns false if no sub-axis can be shrunk. */
static bool shrink_sub_axis(shrinking *s)
{
    uint32_t best = SC_NONE, factor = 2;
    for (uint32_t a = 0; a < s->mesh.sub_axis_count; a++) {
        uint32_t size = s->mesh.sub_axes[a].size, prime = 2;
        while (prime <= size / prime && size % prime != 0)
            prime++;
        prime = size % prime == 0 ? prime : size;
        if ((s->rings >> a & 1) == 0 && prime < size &&
            (best == SC_NONE || size > s->mesh.sub_axes[best].size)) {
            best = a;
            factor = prime;
        }
    }
    if (best == SC_NONE)
        return false;
    sc_axis *axis = &s->mesh.axes[s->mesh.sub_axes[best].axis];
    axis->size = axis->size / s->mesh.sub_axes[best].size * factor;
    s->mesh.sub_axes[best].size = factor;
    return true;
}

/* ---- sizes ---- */

static int64_t gcd(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static int64_t lcm(int64_t a, int64_t b)
{
    int64_t result;
    return __builtin_mul_overflow(a / gcd(a, b), b, &result) ? INT64_MAX : result;
}

static void read_shards(shrinking *s, const sc_module *m, sc_type type, const sc_type_info *old,
                        const sc_mesh *old_mesh)
{
    for (uint32_t i = 0; i < old->rank; i++) {
        int64_t before = (int64_t)sc_type_shards(old_mesh, old, i),
                now = (int64_t)sc_type_shards(&s->mesh, old, i);
        uint32_t at = before == 1 ? SC_NONE : find_dim(s, m, m->types.data[type].dims[i].dim);
        if (at == SC_NONE)
            continue;
        dim_class *dim = &s->dims.data[root_of(s, at)];
        if (m->dims.data[m->types.data[type].dims[i].dim].zigzag.count > 0)
            now *= 2; /* chunks */
        if (old->dims[i].size % before == 0)
            dim->multiple = lcm(dim->multiple, now);
        else
            dim->uneven = dim->uneven == 0 || dim->uneven == now ? now : -1;
    }
}

static void read_placements(shrinking *s, sc_shrink_side *side)
{
    const sc_module *m = side->m;
    sc_for_each_op_of_all(m, op)
    {
        for (uint32_t r = 0; r < sc_op_at(m, op)->result_count; r++) {
            sc_type type = m->values.data[sc_result(m, op, r)].type;
            read_shards(s, m, type, &side->types[type], &side->mesh);
        }
    }
    for (uint32_t i = 0; i < m->state.count; i++)
        read_shards(s, m, m->state.data[i].type, &side->types[m->state.data[i].type], &side->mesh);
}

/* Returns the number of which a class must be a multiple. */
static int64_t step_of(const dim_class *dim)
{
    return dim->counts || dim->multiple % 2 == 0 ? dim->multiple
                                                 : lcm(dim->multiple, 2); /* rope needs pairs */
}

static void start_sizes(shrinking *s)
{
    for (uint32_t i = 0; i < s->dims.count; i++) {
        s->dims.data[root_of(s, i)].fixed |= s->dims.data[i].fixed;
        s->dims.data[root_of(s, i)].averaged |= s->dims.data[i].averaged;
        s->dims.data[root_of(s, i)].counts |= s->dims.data[i].counts;
    }
    for (uint32_t i = 0; i < s->dims.count; i++) {
        dim_class *dim = &s->dims.data[i];
        if (dim->parent != i)
            continue;
        /* Two elements per shard: with one, its position would not be tested. A dim that is stored
         * unevenly stays uneven. */
        dim->minimum = dim->multiple > 1 ? 2 * dim->multiple : 4;
        if (dim->uneven > 1 && dim->multiple == 1)
            dim->minimum = 2 * dim->uneven - 1;
        if (dim->counts)
            dim->minimum = dim->multiple;
        else if (dim->averaged && dim->minimum < s->room)
            dim->minimum = s->room;
    }
}

static bool stays(const dim_class *dim, int64_t size)
{
    return size == dim->from;
}

/* Returns the smallest size of a class that is not scaled with others. */
static int64_t size_alone(const dim_class *dim)
{
    if (dim->fixed || dim->uneven < 0)
        return dim->from;
    bool is_uneven = dim->uneven > 1 && dim->multiple == 1;
    int64_t step = is_uneven ? 2 * dim->uneven : step_of(dim), size;
    if (is_uneven) /* the last shard has one element less */
        size = (dim->minimum + step) / step * step - 1;
    else
        size = (dim->minimum + step - 1) / step * step;
    return size < dim->from ? size : dim->from;
}

/* True if all classes scaled with `root` can be divided by d. */
static bool divides_all(shrinking *s, uint32_t root, int64_t d)
{
    for (uint32_t i = 0; i < s->dims.count; i++) {
        const dim_class *dim = &s->dims.data[root_of(s, i)];
        if (scale_root(s, i) != root)
            continue;
        int64_t size = dim->from / d, least = dim->minimum < dim->from ? dim->minimum : dim->from;
        if (dim->from % d != 0 || s->dims.data[i].fixed || dim->fixed || dim->uneven != 0 ||
            size < least || size % (dim->from % 2 == 0 ? step_of(dim) : dim->multiple) != 0)
            return false;
    }
    for (uint32_t i = 0; i < s->starts.count; i++) {
        if (scale_root(s, s->starts.data[i].dim) == root && s->starts.data[i].value % d != 0)
            return false;
    }
    return true;
}

static int64_t common_divisor(shrinking *s, uint32_t root)
{
    int64_t divisor = s->dims.data[root].from;
    if (divisor > MOST_SCALES)
        return 1;
    while (divisor > 1 &&
           (s->dims.data[root].from % divisor != 0 || !divides_all(s, root, divisor)))
        divisor--;
    return divisor < 1 ? 1 : divisor;
}

static void choose_sizes(shrinking *s)
{
    for (uint32_t i = 0; i < s->dims.count; i++) {
        if (s->dims.data[i].parent == i && !s->dims.data[scale_root(s, i)].scaled)
            s->dims.data[i].to = size_alone(&s->dims.data[i]);
    }
    for (uint32_t i = 0; i < s->dims.count; i++) {
        if (!s->dims.data[i].scaled || scale_root(s, i) != i)
            continue;
        int64_t divisor = common_divisor(s, i);
        for (uint32_t j = 0; j < s->dims.count; j++) {
            if (s->dims.data[j].parent == j && scale_root(s, j) == i)
                s->dims.data[j].to = s->dims.data[j].from / divisor;
        }
    }
}

/* The rows that a rank has, of those that slots are for. */
static int64_t rows_of(shrinking *s, const slot_room *room)
{
    const sc_shrink_side *side = &s->out->sides[1];
    const sc_type_info *type = &side->types[room->type];
    int64_t rows = 1;
    for (uint32_t i = 0; i < type->rank; i++) {
        uint32_t at = find_dim(s, side->m, type->dims[i].dim);
        if (at == SC_NONE || !sc_attr_has_dim(room->rows, type->dims[i].dim))
            continue;
        const int64_t shards = (int64_t)sc_type_shards(&s->mesh, type, i);
        rows *= (s->dims.data[root_of(s, at)].to + shards - 1) / shards;
    }
    return rows;
}

/* Raises minimums that violate a condition. Returns false if there was none. */
static bool raise_minimums(shrinking *s)
{
    bool raised = false;
    for (uint32_t b = 0; b < s->bounds.count; b++) {
        const at_least *bound = &s->bounds.data[b];
        dim_class *dim = &s->dims.data[root_of(s, bound->dim)];
        int64_t wanted = bound->extra;
        for (uint32_t t = 0; t < bound->term_count; t++)
            wanted += s->dims.data[root_of(s, bound->terms[t])].to;
        if (dim->to >= wanted || stays(dim, dim->to))
            continue;
        dim->minimum = wanted;
        raised = true;
    }
    for (uint32_t r = 0; r < s->rooms.count; r++) {
        const slot_room *room = &s->rooms.data[r];
        dim_class *slots = &s->dims.data[root_of(s, room->slots)];
        int64_t wanted = rows_of(s, room);
        if (slots->to >= wanted || stays(slots, slots->to))
            continue;
        slots->minimum = wanted;
        raised = true;
    }
    return raised;
}

static void find_sizes(shrinking *s)
{
    for (uint32_t i = 0; i < s->dims.count; i++) {
        s->dims.data[i].multiple = 1;
        s->dims.data[i].uneven = 0;
    }
    read_placements(s, &s->out->sides[1]);
    start_sizes(s);
    do
        choose_sizes(s);
    while (raise_minimums(s));
}

/* ---- writing the sizes to the modules ---- */

static void save_side(shrinking *s, sc_shrink_side *side, sc_module *m)
{
    *side = (sc_shrink_side){.m = m, .type_count = m->types.count, .mesh = m->mesh};
    side->types = sc_arena_array(s->arena, m->types.count, sizeof *side->types);
    memcpy(side->types, m->types.data, m->types.count * sizeof *side->types);
}

static void write_sizes(shrinking *s, sc_shrink_side *side)
{
    sc_module *m = side->m;
    for (uint32_t t = 0; t < side->type_count; t++) {
        for (uint32_t i = 0; i < side->types[t].rank; i++) {
            uint32_t at = find_dim(s, m, side->types[t].dims[i].dim);
            const dim_class *dim = at == SC_NONE ? NULL : &s->dims.data[root_of(s, at)];
            if (dim != NULL && side->types[t].dims[i].size == s->dims.data[at].from)
                m->types.data[t].dims[i].size = dim->to;
        }
    }
}

static void change_attr(shrinking *s, sc_shrink_side *side, sc_op_id op, sc_attr_key key,
                        sc_attr changed)
{
    const sc_op *changing = sc_op_at(side->m, op);
    for (uint32_t i = 0; i < changing->attr_count; i++) {
        sc_attr *attr = &changing->attrs[i];
        if (attr->key != key)
            continue;
        *sc_vec_push(s->arena, &side->attrs) = (sc_changed_attr){attr, *attr};
        *attr = changed;
    }
}

static void change_slice(shrinking *s, sc_shrink_side *side, sc_op_id op)
{
    uint32_t at = attr_dim(s, side->m, sc_op_at(side->m, op), SC_ATTR_dims, 0);
    if (at == SC_NONE)
        return;
    const dim_class *dim = &s->dims.data[root_of(s, at)];
    int64_t from = sc_op_int(sc_op_at(side->m, op), SC_ATTR_from, 0);
    change_attr(s, side, op, SC_ATTR_from, sc_attr_int(SC_ATTR_from, from / (dim->from / dim->to)));
}

/* Keeps a window's share of the keys, and the spread of the scores. */
static void change_attend(shrinking *s, sc_shrink_side *side, sc_op_id op)
{
    const sc_op *attend = sc_op_at(side->m, op);
    uint32_t keys = attr_dim(s, side->m, attend, SC_ATTR_dims, 0);
    if (keys == SC_NONE)
        return;
    const dim_class *dim = &s->dims.data[root_of(s, keys)];
    int64_t window = sc_op_int(attend, SC_ATTR_window, 0);
    if (window > 0 && window < dim->from && !stays(dim, dim->to)) {
        double share = (double)window * (double)dim->to / (double)dim->from;
        int64_t changed =
            (int64_t)fmin(fmax(window < 2 ? 1 : 2, ceil(share)), (double)(dim->to - 1));
        change_attr(s, side, op, SC_ATTR_window, sc_attr_int(SC_ATTR_window, changed));
    }
    double before = 1, after = 1, scale = sc_op_number(attend, SC_ATTR_scale, 0);
    for (uint32_t i = 1; i < attr_count(attend, SC_ATTR_dims); i++) {
        uint32_t at = attr_dim(s, side->m, attend, SC_ATTR_dims, i);
        before *= at == SC_NONE ? 1 : (double)s->dims.data[at].from;
        after *= at == SC_NONE ? 1 : (double)s->dims.data[root_of(s, at)].to;
    }
    if (fabs(scale * sqrt(before) - 1) < 1e-6)
        change_attr(s, side, op, SC_ATTR_scale, sc_attr_number(SC_ATTR_scale, 1 / sqrt(after)));
}

/* ---- reciprocals of means ---- */

/* The new values of constants, by their old value and location. */
typedef struct reciprocals {
    sc_map map; /* -> index into values, or SC_NONE on conflict */
    SC_VEC(double) values;
} reciprocals;

static uint64_t constant_key(const sc_op *op)
{
    double value = sc_op_number(op, SC_ATTR_value, 0);
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return sc_hash_mix(sc_hash_mix(bits, op->scope), (uint64_t)op->loc.begin << 32 | op->loc.end);
}

/* Returns the op that produces a value, skipping uses, casts and moves. */
static const sc_op *maker_of(const sc_module *m, sc_value value)
{
    const sc_op *op = sc_op_at(m, sc_def(m, value));
    for (uint32_t depth = 0; depth < 64; depth++) {
        bool passes = sc_op_has(op, SC_VIEW | SC_RESHARD | SC_CONVERTS);
        uint32_t index = m->values.data[value].index;
        if (!passes || index >= op->operand_count)
            break;
        value = op->operands[index];
        op = sc_op_at(m, sc_def(m, value));
    }
    return op;
}

/* Returns the new reciprocal of a mean: 1 / 8192 becomes 1 / 16 if it multiplies a sum over 8192
 * elements that becomes one over 16; NAN if it is not a mean. */
static double new_reciprocal(shrinking *s, const sc_module *m, const sc_op *sum, double old)
{
    bool is_sum = sc_op_is_sum((sc_op_kind)sum->kind);
    double before = 1, after = 1;
    if (is_sum) {
        for (uint32_t i = 0; i < attr_count(sum, SC_ATTR_dims); i++) {
            uint32_t at = attr_dim(s, m, sum, SC_ATTR_dims, i);
            before *= at == SC_NONE ? 1 : (double)s->dims.data[at].from;
            after *= at == SC_NONE ? 1 : (double)s->dims.data[root_of(s, at)].to;
        }
    }
    bool is_mean = is_sum && fabs(old * before - 1) < 1e-6;
    return is_mean ? old * before / after : (double)NAN;
}

static void add_reciprocal(shrinking *s, const sc_op *constant, double value, reciprocals *found)
{
    bool is_new;
    uint32_t *at = sc_map_insert(&found->map, constant_key(constant), found->values.count, &is_new);
    if (is_new)
        *sc_vec_push(s->arena, &found->values) = value;
    else if (*at != SC_NONE && found->values.data[*at] != value)
        *at = SC_NONE;
}

/* Finds the reciprocals of means. Through them sizes enter the program's numbers; with the old
 * reciprocal every norm would be far too large. The cotangent is multiplied by the same constant
 * but is not a sum, so only forward ops are examined. */
static void find_reciprocals(shrinking *s, const sc_module *m, reciprocals *found)
{
    found->map.arena = s->arena;
    sc_for_each_op_of_all(m, id)
    {
        const sc_op *op = sc_op_at(m, id);
        bool may_be_mean = sc_ops[op->kind].bound == SC_BOUND_multiplied &&
                           op->operand_count == 2 && sc_op_is_forward(m, op);
        if (!may_be_mean)
            continue;
        for (uint32_t i = 0; i < 2; i++) {
            const sc_op *constant = maker_of(m, op->operands[i]);
            if (sc_ops[constant->kind].bound == SC_BOUND_value)
                add_reciprocal(s, constant,
                               new_reciprocal(s, m, maker_of(m, op->operands[1 - i]),
                                              sc_op_number(constant, SC_ATTR_value, 0)),
                               found);
        }
    }
}

/* Recomputes a constant that records the sizes it is made of. */
static void change_sized_constant(shrinking *s, sc_shrink_side *side, sc_op_id op)
{
    const sc_op *constant = sc_op_at(side->m, op);
    double growth = 1, plus = sc_op_number(constant, SC_ATTR_plus, 0);
    for (uint32_t i = 0; i < attr_count(constant, SC_ATTR_sizes); i++) {
        uint32_t at = attr_dim(s, side->m, constant, SC_ATTR_sizes, i);
        growth *= at == SC_NONE
                      ? 1
                      : (double)s->dims.data[root_of(s, at)].to / (double)s->dims.data[at].from;
    }
    if (growth == 1)
        return;
    double scaled = (sc_op_number(constant, SC_ATTR_value, 0) - plus) *
                    pow(growth, sc_op_number(constant, SC_ATTR_exponent, 1));
    sc_dtype dtype = sc_type_of(side->m, constant->first_result)->dtype;
    change_attr(s, side, op, SC_ATTR_value,
                sc_attr_number(SC_ATTR_value,
                               (sc_dtype_is_float(dtype) ? scaled : nearbyint(scaled)) + plus));
}

static void change_constant(shrinking *s, sc_shrink_side *side, sc_op_id op,
                            const reciprocals *found)
{
    if (sc_op_attr(sc_op_at(side->m, op), SC_ATTR_sizes) != NULL) {
        change_sized_constant(s, side, op);
        return;
    }
    const uint32_t *at = sc_map_find(&found->map, constant_key(sc_op_at(side->m, op)));
    if (at != NULL && *at != SC_NONE && !isnan(found->values.data[*at]))
        change_attr(s, side, op, SC_ATTR_value,
                    sc_attr_number(SC_ATTR_value, found->values.data[*at]));
}

static void change_attrs(shrinking *s, sc_shrink_side *side, const reciprocals *found)
{
    sc_for_each_op_of_all(side->m, op)
    {
        const sc_op *changing = sc_op_at(side->m, op);
        if (sc_op_attr(changing, SC_ATTR_from) != NULL)
            change_slice(s, side, op);
        else if (sc_op_has(changing, SC_ATTENDS))
            change_attend(s, side, op);
        else if (sc_ops[changing->kind].bound == SC_BOUND_value)
            change_constant(s, side, op, found);
    }
}

/* ---- the whole ---- */

static void write_all(shrinking *s)
{
    s->out->sides[1].m->mesh = s->mesh;
    write_sizes(s, &s->out->sides[0]);
    write_sizes(s, &s->out->sides[1]);
}

static void list_changes(shrinking *s)
{
    const sc_mesh *before = &s->out->sides[1].mesh;
    for (uint32_t a = 0; a < s->mesh.axis_count; a++) {
        if (s->mesh.axes[a].size != before->axes[a].size)
            *sc_vec_push(s->arena, &s->out->list) = (sc_shrunk_size){
                before->axes[a].name, true, before->axes[a].size, s->mesh.axes[a].size};
    }
    for (uint32_t i = 0; i < s->dims.count; i++) {
        const dim_class *dim = &s->dims.data[i];
        int64_t to = s->dims.data[root_of(s, i)].to;
        if (to != dim->from)
            *sc_vec_push(s->arena, &s->out->list) =
                (sc_shrunk_size){dim->name, false, dim->from, to};
    }
}

/* Finds the largest room for averaged dims within the cost limit. */
static void give_room(shrinking *s, const sc_module *global, const sc_module *local, double limit)
{
    for (s->room = MOST_ROOM; s->room > 0; s->room = s->room > LEAST_ROOM ? s->room / 2 : 0) {
        find_sizes(s);
        write_all(s);
        if (sc_interpret_cost(global, local) <= limit)
            return;
    }
    find_sizes(s);
    write_all(s);
}

void sc_shrink_modules(sc_module *global, sc_module *local, double limit, sc_shrink *out)
{
    shrinking s = {.arena = &local->context->arena,
                   .out = out,
                   .mesh = local->mesh,
                   .rings = find_rings(local)};
    s.by_name.arena = s.arena;
    *out = (sc_shrink){0};
    save_side(&s, &out->sides[0], global);
    save_side(&s, &out->sides[1], local);
    collect_dims(&s, global);
    collect_dims(&s, local);
    read_relations(&s, global);
    read_relations(&s, local);
    sc_for_each_op_of_all(global, op) read_bounds(&s, global, sc_op_at(global, op));
    sc_for_each_op_of_all(local, op)
    {
        if (sc_op_attr(sc_op_at(local, op), SC_ATTR_share) != NULL)
            read_slots(&s, local, sc_op_at(local, op));
    }
    read_averages(&s, global);
    do {
        find_sizes(&s);
        write_all(&s);
    } while (sc_interpret_cost(global, local) > limit && shrink_sub_axis(&s));
    give_room(&s, global, local, limit);
    reciprocals found = {0};
    find_reciprocals(&s, global, &found);
    find_reciprocals(&s, local, &found);
    change_attrs(&s, &out->sides[0], &found);
    change_attrs(&s, &out->sides[1], &found);
    list_changes(&s);
}

void sc_shrink_undo(sc_shrink *shrink)
{
    for (size_t i = 0; i < 2; i++) {
        sc_shrink_side *side = &shrink->sides[i];
        for (uint32_t a = side->attrs.count; a-- > 0;)
            *side->attrs.data[a].attr = side->attrs.data[a].old;
        memcpy(side->m->types.data, side->types, side->type_count * sizeof *side->types);
        side->m->mesh = side->mesh;
    }
}
