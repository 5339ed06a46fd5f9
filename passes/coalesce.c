/* coalesce: merges collectives that can share a call.
 *
 *   %5 = all_reduce %3 {form = 0}                          %5, %6 = all_reduce %3, %4 {form = 0}
 *   %6 = all_reduce %4 {form = 0}                  ->
 *   %7 = all_gather %1 {unit = 2, gather = [D]}            %7, %8 = all_gather %1, %2
 *   %8 = all_gather %2 {unit = 2, gather = [D]}                     {unit = 2, gather = [D, D]}
 *
 * Two families. Reductions of one op's sharded form (the sums of a cross-entropy) are merged where
 * the last one is ready, before the first result is read. Gathers of one FSDP unit's parameters are
 * merged at the unit's first gather; their reads and casts move up with them. If a path has several
 * collectives, each is merged with its counterparts. Members of a call have the same group, dtype
 * and reduction. Requires RESHARDS_EXPLICIT. Each merge removes a call. */
#include <math.h>
#include <string.h>

#include "passes/pass.h"
#include "passes/uses.h"

typedef struct coalescing {
    sc_module *m;
    uint32_t *position; /* per op at the start; of a merged op: position of the merged call */
    /* per value at the start: a lower bound of the position of its first reader */
    uint32_t *first_reader;
    /* per op: a collective of values read from state, placed at the first one of its unit */
    bool *is_early;
    sc_value *map;
    uint32_t map_count;
    double limit; /* maximum bytes of a call with a bucket */
} coalescing;

static sc_dtype dtype_of(const sc_module *m, sc_op_id op)
{
    return sc_type_of(m, m->ops.data[op].operands[0])->dtype;
}

static bool same_group(const sc_module *m, sc_op_id a, sc_op_id b)
{
    const sc_attr *x = sc_op_attr(sc_op_at(m, a), SC_ATTR_over),
                  *y = sc_op_attr(sc_op_at(m, b), SC_ATTR_over);
    return x->count == y->count && memcmp(x->sub_axes, y->sub_axes, x->count) == 0;
}

static bool go_together(const sc_module *m, sc_op_id a, sc_op_id b)
{
    const sc_op *x = sc_op_at(m, a), *y = sc_op_at(m, b);
    return x->kind == y->kind && sc_op_word(x, SC_ATTR_reduce) == sc_op_word(y, SC_ATTR_reduce) &&
           dtype_of(m, a) == dtype_of(m, b) &&
           sc_op_int(x, SC_ATTR_per_step, 0) == sc_op_int(y, SC_ATTR_per_step, 0) &&
           same_group(m, a, b);
}

/* Sets attribute `key` of the merged op from those of the ops: one dim per operand. */
static void join_dims(sc_module *m, sc_op_id made, sc_attr_key key, const sc_op_id *ops,
                      uint32_t count)
{
    if (sc_op_attr(sc_op_at(m, ops[0]), key) == NULL)
        return;
    sc_dim *dims = sc_arena_array(&m->context->arena, count, sizeof *dims);
    for (uint32_t i = 0; i < count; i++)
        dims[i] = sc_op_attr(sc_op_at(m, ops[i]), key)->dims[0];
    sc_op_set_attr(m, made, sc_attr_dims(m, key, dims, count));
}

/* Merges several one-operand collectives into one op at `before`. */
static void merge(coalescing *c, const sc_op_id *ops, uint32_t count, sc_op_id before)
{
    sc_module *m = c->m;
    sc_arena *arena = &m->context->arena;
    sc_value *operands = sc_arena_array(arena, count, sizeof *operands);
    sc_type *types = sc_arena_array(arena, count, sizeof *types);
    for (uint32_t i = 0; i < count; i++) {
        operands[i] = m->ops.data[ops[i]].operands[0];
        types[i] = m->values.data[sc_result(m, ops[i], 0)].type;
    }
    const sc_op first = *sc_op_at(m, ops[0]);
    /* or later: a reader assumed too early only prevents a merge */
    uint32_t at = c->position[ops[0]];
    sc_op_id made = sc_op_new(m, first.func, before, (sc_op_kind)first.kind, operands, count,
                              first.attrs, first.attr_count, types, count, ops[0]);
    join_dims(m, made, SC_ATTR_gather, ops, count);
    join_dims(m, made, SC_ATTR_scatter, ops, count);
    sc_op_drop_attr(m, made, SC_ATTR_moves); /* it names only the first operand */
    for (uint32_t i = 0; i < count; i++) {
        sc_value old = sc_result(m, ops[i], 0), fresh = sc_result(m, made, i);
        m->values.data[fresh].path = m->values.data[old].path;
        c->map[old] = fresh;
        if (c->first_reader[operands[i]] > at)
            c->first_reader[operands[i]] = at;
        sc_op_unlink(m, ops[i]);
    }
}

typedef SC_VEC(sc_op_id) op_list;

/* Returns the one-operand collectives with an attribute, in function order. */
static op_list with_attr(const sc_module *m, sc_func_id func, sc_attr_key key)
{
    op_list list = {0};
    sc_for_each_op (m, func, op) {
        const sc_op *o = sc_op_at(m, op);
        if ((sc_op_traits(o) & SC_COLLECTIVE) != 0 && o->operand_count == 1 &&
            sc_op_attr(o, key) != NULL)
            *sc_vec_push(&m->context->arena, &list) = op;
    }
    return list;
}

/* True for reads of parameters, their casts and first collectives, which can be anywhere before
 * their readers. */
static bool is_movable(const coalescing *c, sc_op_id op)
{
    const sc_op *o = sc_op_at(c->m, op);
    if ((sc_op_traits(o) & SC_STATE_READ) != 0 || c->is_early[op])
        return true;
    return o->operand_count == 1 && (sc_op_traits(o) & SC_LOCAL_PURE) != 0 &&
           is_movable(c, sc_def(c->m, o->operands[0]));
}

static void move_up(coalescing *c, sc_op_id op, sc_op_id before)
{
    sc_module *m = c->m;
    /* equal: it was moved there for another member, and its readers stand behind it */
    if (c->position[op] <= c->position[before])
        return;
    for (uint32_t i = 0; i < m->ops.data[op].operand_count; i++)
        move_up(c, sc_def(m, m->ops.data[op].operands[i]), before);
    sc_op_move(m, op, before);
    c->position[op] = c->position[before];
}

/* Size of the full buffer: the operand of a reduction, the result of a gather. */
static double buffer_bytes(const sc_module *m, sc_op_id op)
{
    const sc_op *o = sc_op_at(m, op);
    sc_value value = o->kind == SC_OP_all_gather ? o->first_result : o->operands[0];
    return (double)sc_type_local_bytes(m, sc_type_of(m, value));
}

/* Position of the first reader of a family's results: all members must be before it. */
static uint32_t earliest_reader(const coalescing *c, uint32_t so_far, sc_op_id op)
{
    uint32_t reader = c->first_reader[sc_result(c->m, op, 0)];
    return reader < so_far ? reader : so_far;
}

static bool joins_unit(coalescing *c, const op_list *so_far, sc_op_id op)
{
    sc_op_id maker = sc_def(c->m, c->m->ops.data[op].operands[0]);
    if (!is_movable(c, maker))
        return false;
    move_up(c, maker, so_far->data[0]);
    return true;
}

/* Collectives of state can move up to the first member; others move down to the last. */
static bool can_be_early(const coalescing *c, sc_op_id op)
{
    return is_movable(c, sc_def(c->m, c->m->ops.data[op].operands[0]));
}

static int64_t number_of(const coalescing *c, const op_list *list, sc_attr_key key, uint32_t at)
{
    return sc_op_int(sc_op_at(c->m, list->data[at]), key, -1);
}

/* Per op of a list: the smallest buffer among the later ops with the same number. If a call has no
 * room for that, it has none for any. */
static double *least_bytes(const coalescing *c, const op_list *list, sc_attr_key key)
{
    double *least = sc_arena_array(&c->m->context->arena, list->count, sizeof *least);
    for (uint32_t i = list->count; i-- > 0;) {
        least[i] = buffer_bytes(c->m, list->data[i]);
        if (i + 1 < list->count && number_of(c, list, key, i + 1) == number_of(c, list, key, i) &&
            least[i + 1] < least[i])
            least[i] = least[i + 1];
    }
    return least;
}

/* Merges each op of a list with later ones that can join it, up to `limit` bytes per call, or one
 * op above the limit. */
static void merge_family(coalescing *c, const op_list *list, sc_attr_key key, double limit)
{
    sc_module *m = c->m;
    bool *gone = sc_arena_array(&m->context->arena, list->count, sizeof *gone);
    const double *least = least_bytes(c, list, key);
    for (uint32_t i = 0; i < list->count; i++) {
        if (gone[i])
            continue;
        op_list family = {0};
        const int64_t number = number_of(c, list, key, i);
        bool early = key != SC_ATTR_form && can_be_early(c, list->data[i]);
        double bytes = buffer_bytes(m, list->data[i]);
        uint32_t reader = earliest_reader(c, SC_NONE, list->data[i]);
        *sc_vec_push(&m->context->arena, &family) = list->data[i];
        for (uint32_t j = i + 1;
             j < list->count && number_of(c, list, key, j) == number && bytes + least[j] <= limit;
             j++) {
            double more = buffer_bytes(m, list->data[j]);
            if (gone[j] || !go_together(m, list->data[i], list->data[j]) || bytes + more > limit ||
                !(early ? joins_unit(c, &family, list->data[j])
                        : c->position[list->data[j]] <= reader))
                continue;
            bytes += more;
            reader = earliest_reader(c, reader, list->data[j]);
            *sc_vec_push(&m->context->arena, &family) = list->data[j];
            gone[j] = true;
        }
        if (early) {
            for (uint32_t f = 0; f < family.count; f++) {
                c->position[family.data[f]] = c->position[family.data[0]];
                c->is_early[family.data[f]] = true;
            }
        }
        if (family.count > 1)
            merge(c, family.data, family.count,
                  early ? family.data[0] : m->ops.data[family.data[family.count - 1]].next);
    }
}

/* Moves casts of reduced gradients right before their first reader, so that they do not block
 * merging collectives. */
static void sink_casts(sc_module *m, sc_func_id func)
{
    sc_op_id *reader = sc_arena_array(&m->context->arena, m->values.count, sizeof *reader);
    memset(reader, 0xff, m->values.count * sizeof *reader);
    sc_for_each_op_reverse (m, func, id) {
        const sc_op *op = sc_op_at(m, id);
        for (uint32_t i = 0; i < op->operand_count; i++)
            reader[op->operands[i]] = id;
        bool sinks =
            (sc_op_traits(op) & SC_CONVERTS) != 0 && sc_op_attr(op, SC_ATTR_gradient) != NULL;
        if (sinks && reader[op->first_result] != SC_NONE)
            sc_op_move(m, id, reader[op->first_result]);
    }
}

/* ---- paths of several collectives ---- */
/* Reorders a unit's paths of several collectives, as for a gradient that is scattered within a node
 * and then across nodes:
 *
 *   a = scatter %1   a' = scatter a   b = scatter %2   b' = scatter b     ->     a   b   a'   b'
 *
 * so that a and b can be merged, and a' and b'. */
typedef struct path_search {
    coalescing *c;
    /* per op: index of the collective in its path, from 1; 0: none, or one of state, which is
     * merged early */
    uint32_t *stage;
    uint32_t *order;    /* per op of the function */
    uint32_t *earliest; /* per value: its first reader that does not move */
    bool *moves;        /* per op */
    sc_map last;        /* unit -> its last collective that is first in a path */
    op_list later;      /* second and later collectives of paths */
    uint32_t stages;
} path_search;

static int64_t unit_of(const sc_module *m, sc_op_id op)
{
    return sc_op_int(sc_op_at(m, op), SC_ATTR_unit, -1);
}

static void find_stages(path_search *s, sc_func_id func)
{
    sc_module *m = s->c->m;
    uint32_t count = 0;
    sc_for_each_op (m, func, op) {
        const sc_op *o = sc_op_at(m, op);
        s->order[op] = count++;
        if ((sc_op_traits(o) & SC_COLLECTIVE) == 0 || o->operand_count != 1 || unit_of(m, op) < 0)
            continue;
        sc_op_id maker = sc_def(m, o->operands[0]);
        bool goes_on = (sc_op_traits(sc_op_at(m, maker)) & SC_COLLECTIVE) != 0 &&
                       unit_of(m, maker) == unit_of(m, op);
        if (goes_on ? s->stage[maker] == 0 : is_movable(s->c, maker))
            continue;
        s->stage[op] = goes_on ? s->stage[maker] + 1 : 1;
        s->stages = s->stage[op] > s->stages ? s->stage[op] : s->stages;
        if (goes_on)
            *sc_vec_push(&m->context->arena, &s->later) = op;
        else
            *sc_map_insert(&s->last, (uint64_t)unit_of(m, op), op, NULL) = op;
    }
}

/* A later collective can move after its unit's last first one if its result is not read before. */
static void find_moves(path_search *s, sc_func_id func)
{
    const sc_module *m = s->c->m;
    sc_for_each_op_reverse (m, func, op) {
        const sc_op *o = sc_op_at(m, op);
        if (s->stage[op] > 1) {
            const uint32_t *last = sc_map_find(&s->last, (uint64_t)unit_of(m, op));
            s->moves[op] = s->earliest[o->first_result] > s->order[*last];
        }
        if (s->moves[op])
            continue;
        for (uint32_t i = 0; i < o->operand_count; i++)
            s->earliest[o->operands[i]] = s->order[op];
    }
}

static void sort_paths(coalescing *c, sc_func_id func)
{
    sc_module *m = c->m;
    sc_arena *arena = &m->context->arena;
    path_search s = {.c = c, .last = {.arena = arena}};
    s.stage = sc_arena_array(arena, m->ops.count, sizeof *s.stage);
    s.order = sc_arena_array(arena, m->ops.count, sizeof *s.order);
    s.moves = sc_arena_array(arena, m->ops.count, sizeof *s.moves);
    s.earliest = sc_arena_array(arena, m->values.count, sizeof *s.earliest);
    memset(s.earliest, 0xff, m->values.count * sizeof *s.earliest);
    find_stages(&s, func);
    if (s.later.count == 0)
        return;
    find_moves(&s, func);
    for (uint32_t stage = 2; stage <= s.stages; stage++) {
        for (uint32_t i = 0; i < s.later.count; i++) {
            sc_op_id op = s.later.data[i];
            uint32_t *last = sc_map_find(&s.last, (uint64_t)unit_of(m, op));
            if (s.stage[op] != stage || !s.moves[op])
                continue;
            if (m->ops.data[*last].next != op)
                sc_op_move(m, op, m->ops.data[*last].next);
            *last = op;
        }
    }
}

static void find_first_readers(coalescing *c)
{
    sc_module *m = c->m;
    c->first_reader = sc_arena_array(&m->context->arena, m->values.count, sizeof *c->first_reader);
    memset(c->first_reader, 0xff, m->values.count * sizeof *c->first_reader);
    for (sc_func_id f = 0; f < m->funcs.count; f++) {
        sc_for_each_op_reverse (m, f, id) {
            const sc_op *op = sc_op_at(m, id);
            for (uint32_t i = 0; i < op->operand_count; i++)
                c->first_reader[op->operands[i]] = c->position[id];
        }
    }
}

bool sc_run_coalesce(sc_module *m, sc_pass_env *env)
{
    static const double default_bucket = 26214400;
    coalescing c = {.m = m,
                    .is_early = sc_arena_array(&m->context->arena, m->ops.count, sizeof(bool))};
    for (sc_func_id f = 0; f < m->funcs.count; f++) {
        sink_casts(m, f);
        sort_paths(&c, f);
    }
    c.map = sc_new_value_map(m, &c.map_count);
    c.position = sc_number_ops(m);
    find_first_readers(&c);
    for (sc_func_id f = 0; f < m->funcs.count; f++) {
        op_list forms = with_attr(m, f, SC_ATTR_form), units = with_attr(m, f, SC_ATTR_unit),
                buckets = with_attr(m, f, SC_ATTR_bucket);
        merge_family(&c, &forms, SC_ATTR_form, INFINITY);
        merge_family(&c, &units, SC_ATTR_unit, INFINITY);
        merge_family(&c, &buckets, SC_ATTR_bucket, env->bucket > 0 ? env->bucket : default_bucket);
        sc_func_replace_uses(m, f, c.map, c.map_count);
    }
    return true;
}
