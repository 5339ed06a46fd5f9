/* fuse: decides which ops share a kernel.
 *
 *   %8 = sum[D] %7 : f32[B, S]                    ->    %8 = sum[D] %7 {kernel = 0}
 *   %10 = mul %8, %9                                    %10 = mul %8, %9 {kernel = 0}
 *   %11 = sub %7, %10 : f32[B, S, D]                    %11 = sub %7, %10 {kernel = 0}
 *
 * A kernel iterates over *outer* dims, whose elements are independent, and for each of them over
 * *inner* dims, along which it reduces. All its reductions have results over the outer dims; what
 * it stores has the outer dims or all dims. So a norm with the preceding residual sum is one
 * kernel, as is a row of a softmax; intermediate values are not stored.
 *
 * Ops are visited from last to first, so that readers are placed before the op:
 * - read by one kernel only: it joins if that kernel can compute it at the indices where it reads
 *   it;
 * - cheap and read by several: each kernel gets a copy, but only if what it is computed from
 *   (reading_costs.h) is no more bytes than the result;
 * - otherwise it is stored, by the kernel that reads it first if that kernel's dims allow it, or by
 *   a new one.
 *
 * A contraction followed by a bias, an activation or the derivative of one, another layout or a sum
 * is fused with them (its epilogue). It also stores the operand of an activation if that is read
 * later.
 *
 * A kernel runs at the position of its last op. An op joins only the first of the kernels that read
 * it, so every value is stored before it is read, and no kernel depends on itself. Ops of an
 * earlier phase whose values are needed late stay in that phase. Requires LOCAL; establishes FUSED.
 * One walk; each decision considers only the op's readers and operands. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "ir/ops/loops.h"
#include "passes/epilogue.h"
#include "passes/offload.h"
#include "passes/pass.h"
#include "passes/reading_costs.h"
#include "passes/uses.h"

enum { MAX_MEMBERS = 160, MAX_READ = 40, MAX_STORED = 48 };

typedef enum region_kind { KERNEL, EPILOGUE, OTHER } region_kind;

/* Ops that will be adjacent: a kernel, or an op of its own. */
typedef struct region {
    region_kind kind;
    uint64_t position; /* its position in the execution order */
    sc_sym phase;
    bool open;    /* accepts more than elementwise ops with no other reader */
    bool reduces; /* outer and inner are fixed; otherwise outer is the dims of what it stores */
    sc_loop_dims outer, inner;
    sc_dim fastest; /* dim of the full-size results that it stores; SC_NONE: none yet */
    int64_t elements;
    uint32_t root; /* index of its last op */
    /* values read from memory so far; values stored */
    uint32_t member_count, read_count, stored_count;
} region;

/* A region that reads a value; one entry per region. */
typedef struct reader {
    uint32_t region, next;
    uint32_t elsewhere; /* one bit per dim of the value: read at indices other than the region's */
    bool whole;         /* must be in memory */
    bool chain;         /* the value is the operand of an epilogue step */
} reader;

typedef struct member {
    uint64_t position; /* position of its region */
    /* first: the region's first op; index: in the function, of the op or of the one it copies */
    uint32_t first, region, index;
    sc_op_id op;
} member;

typedef struct fusion {
    sc_module *m;
    sc_func_id func;
    uint32_t op_count;
    sc_epilogues epilogues;
    sc_reading_costs costs;
    uint32_t *first_reader; /* by value */
    SC_VEC(reader) readers;
    SC_VEC(region) regions;
    SC_VEC(member) members;
    sc_op_id *ops; /* the function before fusion */
} fusion;

static uint32_t traits_of(const fusion *f, sc_op_id op)
{
    return sc_ops[sc_op_at(f->m, op)->kind].fuse;
}

/* ---- readers ---- */
static void add_reader(fusion *f, sc_value value, uint32_t by, uint32_t elsewhere, bool whole)
{
    for (uint32_t r = f->first_reader[value]; r != SC_NONE; r = f->readers.data[r].next) {
        reader *known = &f->readers.data[r];
        if (known->region == by) {
            known->elsewhere |= elsewhere;
            known->whole = known->whole || whole;
            return;
        }
    }
    reader made = {by, f->first_reader[value], elsewhere, whole, false};
    f->first_reader[value] = f->readers.count;
    *sc_vec_push(&f->m->context->scratch, &f->readers) = made;
    f->regions.data[by].read_count++;
}

/* Returns the dims of operand i that are read at other indices, given those of the result in
 * `elsewhere`. */
static uint32_t moved_dims(const fusion *f, sc_op_id op, uint32_t i, uint32_t elsewhere)
{
    const sc_module *m = f->m;
    const sc_op *o = sc_op_at(m, op);
    uint32_t traits = traits_of(f, op), moved = 0;
    sc_loop_dims from = sc_loops_of(m, o->operands[i]), to = sc_loops_of(m, o->first_result);
    bool indexed =
        (traits & SC_FUSE_INDEXED) != 0 &&
        (i == 0 || sc_ops[o->kind].operands == SC_ANY || sc_op_attr(o, SC_ATTR_from_dims) != NULL);
    for (uint32_t d = 0; d < from.count; d++) {
        bool found = false;
        for (uint32_t r = 0; r < to.count; r++) {
            if (to.dims[r].dim == from.dims[d].dim && to.dims[r].size == from.dims[d].size) {
                found = true;
                moved |= (elsewhere >> r & 1) << d;
            }
        }
        /* a slice of a dim of one element, which is padded, is as large as the dim */
        if (indexed && (!found || sc_attr_has_dim(sc_op_attr(o, SC_ATTR_dims), from.dims[d].dim) ||
                        sc_attr_has_dim(sc_op_attr(o, SC_ATTR_gather), from.dims[d].dim)))
            moved |= 1u << d;
        if ((traits & SC_FUSE_VIEW) != 0 && !found)
            moved |= 1u << d;
    }
    return moved;
}

/* Adds the op's operands to the values that the region reads. */
static void read_operands(fusion *f, sc_op_id op, uint32_t in, uint32_t elsewhere)
{
    const sc_op *o = sc_op_at(f->m, op);
    bool inside = f->regions.data[in].kind == KERNEL && o->result_count > 0;
    uint32_t traits = traits_of(f, op);
    int64_t read_elsewhere = 0; /* elements of the operands read at other indices */
    if (inside) {
        for (uint32_t i = 0; i < o->operand_count; i++) {
            if (moved_dims(f, op, i, elsewhere) != 0)
                read_elsewhere += sc_type_local_elements(f->m, sc_type_of(f->m, o->operands[i]));
        }
    }
    for (uint32_t i = 0; i < o->operand_count; i++) {
        uint32_t moved = inside ? moved_dims(f, op, i, elsewhere) : 0;
        /* recomputed at each index where it is read, unless that is more often than it has
         * elements */
        bool more = moved != 0 && sc_type_local_elements(f->m, sc_type_of(f->m, o->first_result)) >
                                      read_elsewhere;
        bool in_place = (traits & SC_FUSE_ROOT) != 0 && (traits & SC_FUSE_INDEXED) != 0 && i == 0;
        add_reader(f, o->operands[i], in, moved, !inside || more || in_place);
    }
}

/* The region no longer reads a value that it computes itself. */
static void stop_reading(fusion *f, sc_op_id op, uint32_t region_index)
{
    const sc_op *o = sc_op_at(f->m, op);
    for (uint32_t v = 0; v < o->result_count; v++) {
        for (uint32_t r = f->first_reader[o->first_result + v]; r != SC_NONE;
             r = f->readers.data[r].next)
            f->regions.data[region_index].read_count -= f->readers.data[r].region == region_index;
    }
}

static void join(fusion *f, sc_op_id op, uint32_t index, uint32_t into, uint32_t elsewhere)
{
    if (op == f->ops[index]) /* copies have no readers yet */
        stop_reading(f, op, into);
    region *g = &f->regions.data[into];
    if (g->member_count++ == 0)
        g->root = index;
    *sc_vec_push(&f->m->context->scratch, &f->members) =
        (member){g->position, g->root, into, index, op};
    read_operands(f, op, into, elsewhere);
}

static uint32_t new_region(fusion *f, region made)
{
    *sc_vec_push(&f->m->context->scratch, &f->regions) = made;
    return f->regions.count - 1;
}

/* ---- what a region takes ---- */
static bool same_phase(const fusion *f, sc_op_id op, const region *g)
{
    return sc_op_word(sc_op_at(f->m, op), SC_ATTR_phase) == g->phase;
}

static bool has_room(const fusion *f, sc_op_id op, const region *g)
{
    return g->kind == KERNEL && g->member_count < MAX_MEMBERS &&
           g->read_count + sc_op_at(f->m, op)->operand_count <= MAX_READ;
}

static bool may_store(const fusion *f, sc_op_id op, const region *g)
{
    return g->stored_count + sc_op_at(f->m, op)->result_count <= MAX_STORED;
}

/* True if the region reads no more for recomputing the op's result than for reading it. Of what is
 * much smaller than the region only the kernel counts that it would take to store it. */
static bool is_recomputed_for_little(const fusion *f, sc_op_id op, const region *g)
{
    const sc_op *o = sc_op_at(f->m, op);
    return sc_reads_little(&f->costs, o) ||
           (sc_reads_one(f->m, o) &&
            sc_type_local_elements(f->m, sc_type_of(f->m, o->first_result)) <= g->elements / 8);
}

/* True if the region can compute the op with a result local to the region. */
static bool takes(const fusion *f, sc_op_id op, const reader *r)
{
    const region *g = &f->regions.data[r->region];
    uint32_t traits = traits_of(f, op);
    if (r->whole || !has_room(f, op, g))
        return false;
    if ((traits & (SC_FUSE_FREE | SC_FUSE_VIEW)) != 0)
        return true;
    if ((traits & SC_FUSE_MAP) == 0 ||
        (!same_phase(f, op, g) &&
         (sc_is_expensive(&f->costs, sc_op_at(f->m, op)) || !is_recomputed_for_little(f, op, g))))
        return false;
    /* not if it has fewer elements than the region without being one per outer iteration: it would
     * be recomputed many times */
    sc_loop_dims own = sc_loops_of(f->m, sc_op_at(f->m, op)->first_result);
    return (traits & SC_FUSE_EXPENSIVE) == 0 || sc_loops_elements(&own) >= g->elements ||
           (g->reduces && sc_loops_within(&own, &g->outer));
}

/* Splits the dims of a reduction into outer dims and reduced dims. */
static void reduction_spaces(const sc_module *m, const sc_op *o, sc_loop_dims *outer,
                             sc_loop_dims *inner)
{
    sc_loop_dims from = sc_loops_of(m, o->operands[0]);
    *outer = sc_loops_of(m, o->first_result);
    *inner = sc_loops_minus(&from, outer);
}

/* True if a region that reduces in this way can store full values with these dims consecutively. */
static bool by_rows(const sc_loop_dims *whole, sc_dim fastest, const sc_loop_dims *outer)
{
    for (uint32_t i = 0; i < outer->count; i++) {
        if (outer->dims[i].dim == fastest)
            return sc_loops_equal(whole, outer);
    }
    return true;
}

static bool takes_reduction(const fusion *f, sc_op_id op, const reader *r)
{
    const region *g = &f->regions.data[r->region];
    if (r->whole || r->elsewhere != 0 || !g->open || !has_room(f, op, g) || !same_phase(f, op, g))
        return false;
    sc_loop_dims outer, inner;
    reduction_spaces(f->m, sc_op_at(f->m, op), &outer, &inner);
    if (g->reduces)
        return sc_loops_equal(&outer, &g->outer) && sc_loops_equal(&inner, &g->inner);
    sc_loop_dims all = sc_loops_plus(&outer, &inner);
    return sc_loops_equal(&outer, &g->outer) ||
           (sc_loops_equal(&all, &g->outer) && by_rows(&all, g->fastest, &outer));
}

static sc_dim fastest_dim(const sc_loop_dims *s)
{
    return s->count == 0 ? SC_NONE : s->dims[s->count - 1].dim;
}

/* True if the region can compute the op and also store its result. */
static bool takes_stored(const fusion *f, sc_op_id op, const reader *r)
{
    const region *g = &f->regions.data[r->region];
    if (r->whole || r->elsewhere != 0 || !g->open || !has_room(f, op, g) || !may_store(f, op, g) ||
        !same_phase(f, op, g))
        return false;
    if ((traits_of(f, op) & SC_FUSE_REDUCE) != 0)
        return takes_reduction(f, op, r);
    sc_loop_dims own = sc_loops_of(f->m, sc_op_at(f->m, op)->first_result);
    if (!g->reduces || sc_loops_equal(&own, &g->outer))
        return sc_loops_equal(&own, &g->outer);
    sc_loop_dims all = sc_loops_plus(&g->outer, &g->inner);
    return sc_loops_equal(&own, &all) && by_rows(&own, fastest_dim(&own), &g->outer);
}

/* Updates the region's dims for the added op. */
static void widen(fusion *f, sc_op_id op, uint32_t region_index)
{
    region *g = &f->regions.data[region_index];
    if ((traits_of(f, op) & SC_FUSE_REDUCE) == 0 || g->reduces)
        return;
    reduction_spaces(f->m, sc_op_at(f->m, op), &g->outer, &g->inner);
    g->elements = sc_loops_elements(&g->outer) * sc_loops_elements(&g->inner);
    g->reduces = true;
}

/* ---- the walk ---- */
static uint64_t position_of(uint32_t index)
{
    return 2 * (uint64_t)index + 1;
}

/* Marks the op, and the value that it is applied to, as part of an epilogue. */
static void mark_chain(fusion *f, sc_op_id op, uint32_t in)
{
    int chained = sc_epilogue_operand(&f->epilogues, op, f->regions.data[in].root);
    uint32_t r = chained < 0 ? SC_NONE : f->first_reader[sc_op_at(f->m, op)->operands[chained]];
    while (r != SC_NONE && f->readers.data[r].region != in)
        r = f->readers.data[r].next;
    if (r != SC_NONE)
        f->readers.data[r].chain = true;
}

static uint32_t start(fusion *f, sc_op_id op, uint32_t index, region_kind kind, uint64_t position)
{
    const sc_op *o = sc_op_at(f->m, op);
    uint32_t traits = traits_of(f, op);
    region g = {.kind = kind,
                .position = position,
                .phase = sc_op_word(o, SC_ATTR_phase),
                .fastest = SC_NONE};
    if (kind == KERNEL) {
        g.outer = sc_loops_of(f->m, o->first_result);
        g.open = (traits & SC_FUSE_ROOT) == 0;
        g.fastest = fastest_dim(&g.outer);
        g.elements = sc_loops_elements(&g.outer);
    }
    g.stored_count = o->result_count;
    uint32_t made = new_region(f, g);
    if (kind == KERNEL)
        widen(f, op, made);
    join(f, op, index, made, 0);
    if (kind == EPILOGUE)
        mark_chain(f, op, made);
    return made;
}

/* The copy has no name: the original or another copy keeps it. */
static sc_op_id copy_of(fusion *f, sc_op_id op)
{
    sc_module *m = f->m;
    const sc_op o = *sc_op_at(m, op);
    sc_type types[SC_MAX_FIXED_RESULTS];
    for (uint32_t r = 0; r < o.result_count; r++)
        types[r] = m->values.data[o.first_result + r].type;
    return sc_op_new(m, f->func, op, (sc_op_kind)o.kind, o.operands, o.operand_count, o.attrs,
                     o.attr_count, types, o.result_count, op);
}

/* Summary of the readers of an op's results. */
typedef struct audience {
    uint32_t count, first; /* number of regions; the first to run */
    const reader *of_first;
    bool all_take;  /* every region accepts the op */
    bool is_little; /* and none reads more for it than for its result */
    uint64_t position;
} audience;

static audience audience_of(const fusion *f, sc_op_id op)
{
    const sc_op *o = sc_op_at(f->m, op);
    audience a = {.first = SC_NONE, .all_take = true, .is_little = true, .position = UINT64_MAX};
    for (uint32_t v = 0; v < o->result_count; v++) {
        for (uint32_t r = f->first_reader[o->first_result + v]; r != SC_NONE;
             r = f->readers.data[r].next) {
            assert(r < f->readers.count);
            const reader *by = &f->readers.data[r];
            a.count++;
            a.all_take = a.all_take && takes(f, op, by);
            a.is_little =
                a.is_little && is_recomputed_for_little(f, op, &f->regions.data[by->region]);
            if (f->regions.data[by->region].position < a.position) {
                a.position = f->regions.data[by->region].position;
                a.first = by->region;
                a.of_first = by;
            }
        }
    }
    return a;
}

/* Creates a copy in every kernel that accepts one; returns whether other readers remain. */
static bool give_copies(fusion *f, sc_op_id op, uint32_t index, uint32_t readers)
{
    sc_value value = sc_op_at(f->m, op)->first_result;
    reader *taking = sc_arena_array(&f->m->context->scratch, readers, sizeof *taking);
    uint32_t *link = &f->first_reader[value], count = 0;
    while (*link != SC_NONE) {
        const reader by = f->readers.data[*link];
        if (takes(f, op, &by)) {
            taking[count++] = by;
            f->regions.data[by.region].read_count--;
            *link = by.next;
        } else {
            link = &f->readers.data[*link].next;
        }
    }
    bool left = f->first_reader[value] != SC_NONE;
    for (uint32_t i = 0; i < count; i++)
        join(f, left || i + 1 < count ? copy_of(f, op) : op, index, taking[i].region,
             taking[i].elsewhere);
    return left;
}

enum { MOST_ASKED = 64 }; /* readers of a value that are looked at: visits stay linear */

/* Returns a kernel that reads this operand of the op at the same indices, that can compute and
 * store the op, too, and that runs before its result is read; SC_NONE: none. */
static uint32_t sibling_by(const fusion *f, sc_op_id op, uint32_t operand, uint64_t before)
{
    const sc_op *o = sc_op_at(f->m, op);
    bool is_reduction = (traits_of(f, op) & SC_FUSE_REDUCE) != 0;
    sc_loop_dims own = sc_loops_of(f->m, o->first_result);
    uint32_t found = SC_NONE, r = f->first_reader[o->operands[operand]];
    for (uint32_t asked = 0; r != SC_NONE && asked < MOST_ASKED; asked++) {
        assert(r < f->readers.count);
        const reader *by = &f->readers.data[r];
        const region *g = &f->regions.data[by->region];
        bool is_alike = is_reduction
                            ? g->reduces && takes_reduction(f, op, by) && may_store(f, op, g)
                            : g->fastest == fastest_dim(&own) && takes_stored(f, op, by);
        if (is_alike && g->position < before &&
            (found == SC_NONE || g->position < f->regions.data[found].position))
            found = by->region;
        r = by->next;
    }
    return found;
}

/* The same of any operand that is as large as what the op iterates over. It is then read once. */
static uint32_t sibling_of(const fusion *f, sc_op_id op, uint64_t before)
{
    const sc_op *o = sc_op_at(f->m, op);
    uint32_t found = SC_NONE, traits = traits_of(f, op);
    if ((traits & SC_FUSE_REDUCE) != 0)
        return sibling_by(f, op, 0, before);
    if ((traits & SC_FUSE_ROOT) != 0 || o->result_count != 1)
        return SC_NONE;
    sc_loop_dims own = sc_loops_of(f->m, o->first_result);
    for (uint32_t i = 0; i < o->operand_count; i++) {
        sc_loop_dims from = sc_loops_of(f->m, o->operands[i]);
        uint32_t by = sc_loops_equal(&from, &own) ? sibling_by(f, op, i, before) : SC_NONE;
        if (by != SC_NONE &&
            (found == SC_NONE || f->regions.data[by].position < f->regions.data[found].position))
            found = by;
    }
    return found;
}

static void visit(fusion *f, sc_op_id op, uint32_t index)
{
    uint32_t traits = traits_of(f, op);
    const sc_op *o = sc_op_at(f->m, op);
    audience a = audience_of(f, op);
    bool single = a.count == 1;
    if ((traits & (SC_FUSE_CONTRACT | SC_FUSE_EPILOGUE)) != 0 && a.count > 0 && a.of_first->chain) {
        assert(a.first < f->regions.count);
        f->regions.data[a.first].stored_count += single ? 0 : 1;
        join(f, op, index, a.first, 0);
        mark_chain(f, op, a.first);
        return;
    }
    if ((traits & SC_FUSE_MOVES) != 0 && sc_epilogue_operand(&f->epilogues, op, index) >= 0) {
        start(f, op, index, EPILOGUE, position_of(index));
        return;
    }
    if ((traits & (SC_FUSE_FREE | SC_FUSE_VIEW)) != 0) {
        if (a.count == 0 || give_copies(f, op, index, a.count)) {
            audience rest = audience_of(f, op);
            /* right before its first reader */
            uint64_t position = rest.count == 0 ? position_of(index) : rest.position & ~(uint64_t)1;
            start(f, op, index, (traits & SC_FUSE_FREE) != 0 ? KERNEL : OTHER, position);
        }
        return;
    }
    if ((traits & (SC_FUSE_MAP | SC_FUSE_REDUCE | SC_FUSE_ROOT)) == 0) {
        /* state changes at the end of the call, so nothing needs the value earlier */
        bool last = (sc_op_traits(o) & SC_STATE_WRITE) != 0;
        start(f, op, index, OTHER, last ? 2 * (uint64_t)(f->op_count - 1) : position_of(index));
        return;
    }
    bool reduction = (traits & SC_FUSE_REDUCE) != 0;
    if (single && (reduction ? takes_reduction(f, op, a.of_first) : a.all_take)) {
        widen(f, op, a.first);
        join(f, op, index, a.first, a.of_first->elsewhere);
        return;
    }
    if (a.count > 1 && a.all_take && !sc_is_expensive(&f->costs, o) && a.is_little &&
        o->result_count == 1) {
        give_copies(f, op, index, a.count);
        return;
    }
    if (a.count > 0 && (traits & SC_FUSE_ROOT) == 0 && takes_stored(f, op, a.of_first)) {
        widen(f, op, a.first);
        join(f, op, index, a.first, 0);
        f->regions.data[a.first].stored_count += o->result_count;
        return;
    }
    bool is_contraction_step = sc_epilogue_operand(&f->epilogues, op, index) >= 0;
    uint32_t sibling = reduction || !is_contraction_step ? sibling_of(f, op, a.position) : SC_NONE;
    if (sibling != SC_NONE) {
        join(f, op, index, sibling, 0);
        f->regions.data[sibling].stored_count++;
    } else
        start(f, op, index, is_contraction_step ? EPILOGUE : KERNEL, position_of(index));
}

/* ---- the function in its new order ---- */
static int by_position(const void *left, const void *right)
{
    const member *a = left, *b = right;
    if (a->position != b->position)
        return a->position < b->position ? -1 : 1;
    if (a->first != b->first)
        return a->first < b->first ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

/* Orders the ops by region; members of a region read its own copies. */
static void arrange(fusion *f, uint32_t old_values, int64_t *number)
{
    sc_module *m = f->m;
    sc_value *copy = sc_arena_array(&m->context->scratch, old_values, sizeof *copy);
    uint32_t *copied_in = sc_arena_array(&m->context->scratch, old_values, sizeof *copied_in),
             last = SC_NONE;
    memset(copied_in, 0xff, old_values * sizeof *copied_in);
    if (f->members.count > 0)
        qsort(f->members.data, f->members.count, sizeof *f->members.data, by_position);
    for (uint32_t i = 0; i < f->members.count; i++) {
        const member *it = &f->members.data[i];
        sc_op_move(m, it->op, SC_NONE);
        sc_op *o = sc_op_at(m, it->op);
        for (uint32_t v = 0; v < o->operand_count; v++) {
            if (o->operands[v] < old_values && copied_in[o->operands[v]] == it->region)
                o->operands[v] = copy[o->operands[v]];
        }
        if (it->op != f->ops[it->index]) {
            sc_value original = sc_op_at(m, f->ops[it->index])->first_result;
            copied_in[original] = it->region;
            copy[original] = o->first_result;
        }
        if (f->regions.data[it->region].kind != OTHER) {
            *number += it->region != last ? 1 : 0;
            sc_op_set_attr(m, it->op, sc_attr_int(SC_ATTR_kernel, *number));
        }
        last = it->region;
    }
}

bool sc_run_fuse(sc_module *m, sc_pass_env *env)
{
    int64_t number = -1;
    for (sc_func_id func = 0; func < m->funcs.count; func++) {
        const sc_arena_mark mark = sc_arena_mark_here(&m->context->scratch);
        fusion f = {.m = m,
                    .func = func,
                    .epilogues = sc_epilogues_of(m),
                    .costs = sc_find_reading_costs(m, func, env->cheap_functions)};
        uint32_t count = 0, old_values = m->values.count;
        sc_for_each_op (m, func, op)
            count++;
        f.ops = sc_arena_array(&m->context->scratch, count, sizeof *f.ops);
        f.first_reader = sc_new_value_map(m, &old_values);
        count = 0;
        sc_for_each_op (m, func, op)
            f.ops[count++] = op;
        f.op_count = count;
        for (uint32_t i = count; i-- > 0;)
            visit(&f, f.ops[i], i);
        arrange(&f, old_values, &number);
        sc_arena_release(&m->context->scratch, mark);
        sc_order_staged_copies(m, func);
    }
    return true;
}
