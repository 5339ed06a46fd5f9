/* Accesses, and whether two of them can touch the same element.
 *
 * An index is a linear form: factors times sub-axes, which are indices of dims or nodes that are
 * not sums. If two accesses touch one element, their indices are equal position by position, so the
 * difference of the forms is 0. At two points p and q, where c d is the term of dim d in both:
 *
 *   c (d_p - d_q) = the rest of the difference
 *
 * What the points agree in cancels in the rest. If |rest| < |c| then d_p = d_q, and the points
 * agree in d as well. This repeats until nothing new is found. A quotient and a remainder by the
 * same number at two positions determine the dividend, and an equation in the guards of both counts
 * like a position. */
#include "codegen/kernel/access.h"

#include <string.h>

#include "codegen/kernel/internal.h"

/* ---- marks ---- */

uint64_t sc_kernel_outer_dims(const sc_kernel *k)
{
    return ((uint64_t)1 << k->outer_count) - 1;
}

uint64_t sc_kernel_phase_dims(const sc_kernel *k, uint32_t phase)
{
    uint64_t dims = 0;
    for (uint32_t i = 0; i < k->phases.data[phase].dim_count; i++)
        dims |= (uint64_t)1 << k->phases.data[phase].dims[i];
    return dims;
}

uint32_t sc_kernel_phase_of(const sc_kernel *k, uint32_t item)
{
    uint32_t phase = 0;
    while (item >= k->phases.data[phase].first_item + k->phases.data[phase].item_count)
        phase++;
    return phase;
}

/* Goes from the last node down, as operands come earlier. */
void sc_kernel_mark_needed(const sc_kernel *k, const sc_kernel_item *item, bool *needed)
{
    memset(needed, 0, k->nodes.count * sizeof *needed);
    needed[item->value] = true;
    if (item->guard != SC_NONE)
        needed[item->guard] = true;
    if (item->shown != SC_NONE)
        needed[item->shown] = true;
    for (uint32_t i = 0; i < item->count; i++)
        needed[k->operands.data[item->first + i]] = true;
    for (sc_knode n = k->nodes.count; n-- > 0;) {
        if (!needed[n])
            continue;
        const sc_kernel_node *node = &k->nodes.data[n];
        for (uint32_t i = 0; i < node->count; i++)
            needed[sc_kernel_operands(k, n)[i]] = true;
        if (node->kind == SC_NODE_running)
            needed[k->items.data[node->index].value] = true;
    }
}

/* A `reduced` of a later node, which no valid kernel has, depends on every dim. */
void sc_kernel_mark_dependence(const sc_kernel *k, uint64_t *depends)
{
    for (sc_knode n = 0; n < k->nodes.count; n++) {
        const sc_kernel_node *node = &k->nodes.data[n];
        depends[n] = node->kind == SC_NODE_index ? (uint64_t)1 << node->index : 0;
        for (uint32_t i = 0; i < node->count; i++)
            depends[n] |= depends[sc_kernel_operands(k, n)[i]];
        if (node->kind != SC_NODE_reduced && node->kind != SC_NODE_running)
            continue;
        sc_knode value = k->items.data[node->index].value;
        uint64_t dims = sc_kernel_phase_dims(k, sc_kernel_phase_of(k, node->index));
        depends[n] = value >= n                      ? UINT64_MAX
                     : node->kind == SC_NODE_running ? depends[value] | dims
                                                     : depends[value] & ~dims;
    }
}

static void mark_changes(sc_access_list *list)
{
    const sc_kernel *k = list->k;
    for (sc_knode n = 0; n < k->nodes.count; n++) {
        const sc_kernel_node *node = &k->nodes.data[n];
        list->changes[n] = node->kind == SC_NODE_load && list->written[node->index];
        for (uint32_t i = 0; i < node->count; i++)
            list->changes[n] = list->changes[n] || list->changes[sc_kernel_operands(k, n)[i]];
        if (node->kind != SC_NODE_reduced && node->kind != SC_NODE_running)
            continue;
        sc_knode value = k->items.data[node->index].value;
        list->changes[n] = value >= n || list->changes[value];
    }
}

/* By node: the number of phases after which the arguments it is computed from are no longer
 * written; SC_NONE: unknown. This holds within an outer iteration, as other iterations touch
 * other elements. */
static uint32_t *find_settled(const sc_access_list *list, uint32_t also_written)
{
    const sc_kernel *k = list->k;
    uint32_t *settled = sc_arena_array(k->arena, k->nodes.count + 1u, sizeof *settled);
    uint32_t *written = sc_arena_array(k->arena, k->args.count + 1u, sizeof *written);
    for (uint32_t p = 0; p < k->phases.count; p++) {
        const sc_kernel_phase *phase = &k->phases.data[p];
        for (uint32_t i = phase->first_item; i < phase->first_item + phase->item_count; i++) {
            if (sc_item_writes(k->items.data[i].kind))
                written[k->items.data[i].arg] = p + 1;
        }
    }
    if (also_written < k->args.count)
        written[also_written] = SC_NONE;
    for (sc_knode n = 0; n < k->nodes.count; n++) {
        const sc_kernel_node *node = &k->nodes.data[n];
        uint32_t last = node->kind == SC_NODE_load ? written[node->index] : 0;
        for (uint32_t i = 0; i < node->count; i++) {
            uint32_t of_operand = settled[sc_kernel_operands(k, n)[i]];
            last = of_operand > last ? of_operand : last;
        }
        if (node->kind == SC_NODE_reduced || node->kind == SC_NODE_running) {
            sc_knode value = k->items.data[node->index].value;
            last = value >= n ? SC_NONE : settled[value] > last ? settled[value] : last;
        }
        settled[n] = last;
    }
    return settled;
}

/* ---- accesses ---- */

/* Facts grow with each check. Guards are mostly few, and consecutive ones equal, so the last
 * intervals are reused. */
typedef struct collector {
    sc_access_list *out;
    SC_VEC(sc_knode) facts;
    const uint32_t *settled;
    const sc_interval *unguarded, *guarded; /* NULL: not computed yet */
    sc_knode guard;
    bool never; /* the guard is never true */
} collector;

static const sc_interval *known_at(collector *c, sc_knode guard)
{
    const sc_kernel *k = c->out->k;
    if (c->unguarded == NULL)
        c->unguarded = sc_kernel_intervals(k, c->facts.data, c->facts.count, NULL);
    if (guard == SC_NONE)
        return c->unguarded;
    if (c->guarded == NULL || c->guard != guard) {
        *sc_vec_push(k->arena, &c->facts) = guard;
        c->guarded = sc_kernel_intervals(k, c->facts.data, c->facts.count, &c->never);
        c->facts.count--;
        c->guard = guard;
    }
    return c->guarded;
}

static void add_access(collector *c, sc_access access)
{
    /* never executed */
    if (access.guard != SC_NONE && sc_kernel_is_number(c->out->k, access.guard, 0))
        return;
    access.intervals = known_at(c, access.guard);
    if (access.guard != SC_NONE && c->never)
        return;
    *sc_vec_push(c->out->k->arena, &c->out->list) = access;
}

static void add_load(collector *c, uint32_t phase, uint32_t item, sc_knode n)
{
    const sc_kernel *k = c->out->k;
    const sc_kernel_node *node = &k->nodes.data[n];
    uint32_t rank = k->args.data[node->index].rank;
    const sc_knode *operands = sc_kernel_operands(k, n);
    sc_knode guard = node->count > rank ? operands[rank] : SC_NONE;
    add_access(c, (sc_access){.node = n,
                              .phase = phase,
                              .item = item,
                              .arg = node->index,
                              .indices = operands,
                              .guard = guard});
}

static void add_item(collector *c, uint32_t phase, uint32_t number)
{
    const sc_kernel *k = c->out->k;
    const sc_kernel_item *item = &k->items.data[number];
    if (sc_item_writes(item->kind))
        add_access(c, (sc_access){.writes = true,
                                  .kind = item->kind,
                                  .node = SC_NONE,
                                  .phase = phase,
                                  .item = number,
                                  .arg = item->arg,
                                  .indices = k->operands.data + item->first,
                                  .guard = item->guard});
    if (item->kind == SC_ITEM_CHECK && c->settled[item->value] <= phase) {
        *sc_vec_push(k->arena, &c->facts) = item->value;
        c->unguarded = c->guarded = NULL;
    }
}

void sc_kernel_accesses(const sc_kernel *k, uint32_t also_written, sc_access_list *out)
{
    sc_arena *arena = k->arena;
    bool *needed = sc_arena_array(arena, k->nodes.count, sizeof *needed),
         *seen = sc_arena_array(arena, k->nodes.count, sizeof *seen);
    collector c = {.out = out};
    *out = (sc_access_list){.k = k};
    out->depends = sc_arena_array(arena, k->nodes.count, sizeof *out->depends);
    out->changes = sc_arena_array(arena, k->nodes.count, sizeof *out->changes);
    out->written = sc_arena_array(arena, k->args.count, sizeof *out->written);
    for (uint32_t i = 0; i < k->args.count; i++)
        out->written[i] = k->args.data[i].mode != SC_ARG_IN || i == also_written;
    sc_kernel_mark_dependence(k, out->depends);
    mark_changes(out);
    c.settled = find_settled(out, also_written);
    for (uint32_t p = 0; p < k->phases.count; p++) {
        const sc_kernel_phase *phase = &k->phases.data[p];
        memset(seen, 0, k->nodes.count * sizeof *seen);
        for (uint32_t i = phase->first_item; i < phase->first_item + phase->item_count; i++) {
            sc_kernel_mark_needed(k, &k->items.data[i], needed);
            for (sc_knode n = 0; n < k->nodes.count; n++) {
                if (needed[n] && !seen[n] && k->nodes.data[n].kind == SC_NODE_load)
                    add_load(&c, p, i, n);
                seen[n] = seen[n] || needed[n];
            }
            add_item(&c, p, i);
        }
    }
}

/* ---- two accesses ---- */

/* Computed once per set of facts. */
static const sc_form *forms_of(sc_access_list *list, const sc_access *access)
{
    for (uint32_t i = 0; i < list->forms.count; i++) {
        if (list->forms.data[i].intervals == access->intervals)
            return list->forms.data[i].forms;
    }
    const sc_form *forms = sc_kernel_forms(list->k, access->intervals);
    *sc_vec_push(list->k->arena, &list->forms) = (sc_access_forms){access->intervals, forms};
    return forms;
}

typedef struct side {
    const sc_access *access;
    const sc_form *forms;
} side;

typedef struct meeting {
    const sc_access_list *list;
    side a, b;
    uint64_t known;                   /* dims in which the points agree */
    SC_VEC(sc_form) a_forms, b_forms; /* equal pairwise if the accesses touch one element */
} meeting;

static bool scale(sc_interval x, int64_t factor, sc_interval *out)
{
    int64_t low, high;
    if (factor == 0) { /* even if x is unbounded */
        *out = (sc_interval){0, 0};
        return true;
    }
    if (__builtin_mul_overflow(x.low, factor, &low) ||
        __builtin_mul_overflow(x.high, factor, &high))
        return false;
    *out = low <= high ? (sc_interval){low, high} : (sc_interval){high, low};
    return true;
}

/* False: the sum overflows. */
static bool grow(sc_interval *sum, sc_interval by)
{
    return !__builtin_add_overflow(sum->low, by.low, &sum->low) &&
           !__builtin_add_overflow(sum->high, by.high, &sum->high);
}

static sc_interval hull(sc_interval a, sc_interval b)
{
    return (sc_interval){a.low < b.low ? a.low : b.low, a.high > b.high ? a.high : b.high};
}

/* Adds to the difference what a sub-axis of both forms contributes. */
static bool add_difference(const meeting *m, sc_knode sub_axis, int64_t a, int64_t b,
                           sc_interval *sum)
{
    bool agreed = (m->list->depends[sub_axis] & ~m->known) == 0 && !m->list->changes[sub_axis];
    sc_interval of_a = m->a.access->intervals[sub_axis], of_b = m->b.access->intervals[sub_axis],
                product;
    int64_t factor;
    if (agreed)
        return !__builtin_sub_overflow(a, b, &factor) &&
               scale(hull(of_a, of_b), factor, &product) && grow(sum, product);
    return scale(of_a, a, &product) && grow(sum, product) && b != INT64_MIN &&
           scale(of_b, -b, &product) && grow(sum, product);
}

/* The difference of two forms without the terms of one sub-axis; false: unbounded. */
static bool rest_of(const meeting *m, const sc_form *a, const sc_form *b, sc_knode without,
                    sc_interval *out)
{
    if (__builtin_sub_overflow(a->constant, b->constant, &out->low))
        return false;
    out->high = out->low;
    for (uint32_t i = 0; i < a->count; i++) {
        sc_knode sub_axis = a->terms[i].sub_axis;
        if (sub_axis != without &&
            !add_difference(m, sub_axis, a->terms[i].factor, sc_form_factor(b, sub_axis), out))
            return false;
    }
    for (uint32_t i = 0; i < b->count; i++) {
        sc_knode sub_axis = b->terms[i].sub_axis;
        if (sub_axis != without && sc_form_factor(a, sub_axis) == 0 &&
            !add_difference(m, sub_axis, 0, b->terms[i].factor, out))
            return false;
    }
    return true;
}

static bool never_equal(const meeting *m, const sc_form *a, const sc_form *b)
{
    sc_interval rest;
    return rest_of(m, a, b, SC_NONE, &rest) && (rest.low > 0 || rest.high < 0);
}

/* The dims in which the points must agree if these two forms are equal. */
static uint64_t equal_dims(const meeting *m, const sc_form *a, const sc_form *b)
{
    const sc_kernel *k = m->list->k;
    uint64_t dims = 0;
    for (uint32_t i = 0; i < a->count; i++) {
        const sc_kernel_node *node = &k->nodes.data[a->terms[i].sub_axis];
        int64_t factor = a->terms[i].factor;
        if (node->kind != SC_NODE_index || factor == 0 || factor == INT64_MIN ||
            sc_form_factor(b, a->terms[i].sub_axis) != factor)
            continue;
        sc_interval rest;
        int64_t size = factor < 0 ? -factor : factor;
        if (rest_of(m, a, b, a->terms[i].sub_axis, &rest) && rest.low > -size && rest.high < size)
            dims |= (uint64_t)1 << node->index;
    }
    return dims;
}

static void add_equation(meeting *m, const sc_form *a, const sc_form *b)
{
    sc_arena *arena = m->list->k->arena;
    *sc_vec_push(arena, &m->a_forms) = *a;
    *sc_vec_push(arena, &m->b_forms) = *b;
}

/* Returns x if the node is x / c or x % c, with x >= 0 and c > 0. */
static sc_knode divided(const sc_access_list *list, const sc_access *access, sc_knode n,
                        sc_node_kind kind, double *out_by)
{
    const sc_kernel_node *node = &list->k->nodes.data[n];
    const sc_knode *operands = sc_kernel_operands(list->k, n);
    if (node->kind != kind || !sc_kernel_is_constant(list->k, operands[1], out_by) || *out_by <= 0)
        return SC_NONE;
    return access->intervals[operands[0]].low >= 0 ? operands[0] : SC_NONE;
}

static void add_quotients(meeting *m)
{
    const sc_access *a = m->a.access, *b = m->b.access;
    uint32_t rank = m->list->k->args.data[a->arg].rank;
    for (uint32_t i = 0; i < rank; i++) {
        for (uint32_t j = 0; j < rank; j++) {
            double by[4] = {0};
            sc_knode x = divided(m->list, a, a->indices[i], SC_NODE_div, &by[0]),
                     y = divided(m->list, b, b->indices[i], SC_NODE_div, &by[1]);
            bool whole =
                x != SC_NONE && x == divided(m->list, a, a->indices[j], SC_NODE_mod, &by[2]) &&
                y != SC_NONE && y == divided(m->list, b, b->indices[j], SC_NODE_mod, &by[3]);
            if (whole && by[0] == by[1] && by[0] == by[2] && by[0] == by[3])
                add_equation(m, &m->a.forms[x], &m->b.forms[y]);
        }
    }
}

/* Adds equations x = y of a common guard: x - y is 0 at both points. */
static void add_guard(meeting *m, sc_knode guard)
{
    const sc_kernel *k = m->list->k;
    if (guard == SC_NONE || guard != m->b.access->guard)
        return;
    uint8_t *truth = sc_arena_array(k->arena, k->nodes.count, sizeof *truth);
    sc_kernel_mark_true(k, guard, truth);
    for (sc_knode n = 0; n <= guard; n++) {
        const sc_knode *operands = sc_kernel_operands(k, n);
        bool equation = (k->nodes.data[n].kind == SC_NODE_eq && (truth[n] & SC_TRUTH_HOLDS) != 0) ||
                        (k->nodes.data[n].kind == SC_NODE_ne && (truth[n] & SC_TRUTH_FAILS) != 0);
        if (!equation || k->nodes.data[operands[0]].dtype != SC_DTYPE_i64)
            continue;
        sc_form a = m->a.forms[operands[0]], b = m->b.forms[operands[0]];
        if (sc_form_add(&a, &m->a.forms[operands[1]], -1) &&
            sc_form_add(&b, &m->b.forms[operands[1]], -1))
            add_equation(m, &a, &b);
    }
}

/* For arguments of different shapes: one form, the row-major element number. */
static bool flat_form(const sc_kernel *k, const side *s, sc_form *out)
{
    const sc_kernel_arg *arg = &k->args.data[s->access->arg];
    *out = (sc_form){0};
    int64_t stride = 1;
    for (uint32_t d = arg->rank; d-- > 0; stride *= arg->sizes[d]) {
        if (!sc_form_add(out, &s->forms[s->access->indices[d]], stride))
            return false;
    }
    return true;
}

static bool same_shape(const sc_kernel_arg *a, const sc_kernel_arg *b)
{
    return a->rank == b->rank && memcmp(a->sizes, b->sizes, a->rank * sizeof *a->sizes) == 0;
}

/* Dims of size 1, or that both accesses fix to one index. */
static uint64_t fixed_dims(const sc_access_list *list, const sc_access *a, const sc_access *b)
{
    const sc_kernel *k = list->k;
    uint64_t dims = 0;
    for (uint32_t d = 0; d < k->dims.count; d++)
        dims |= (uint64_t)(k->dims.data[d].size == 1) << d;
    for (sc_knode n = 0; n < k->nodes.count; n++) {
        sc_interval of_a = a->intervals[n], of_b = b->intervals[n];
        if (k->nodes.data[n].kind == SC_NODE_index && of_a.low == of_a.high &&
            of_b.low == of_b.high && of_a.low == of_b.low)
            dims |= (uint64_t)1 << k->nodes.data[n].index;
    }
    return dims;
}

bool sc_access_apart(sc_access_list *list, const sc_access *a, const sc_access *b, uint64_t dims,
                     bool never)
{
    const sc_kernel *k = list->k;
    meeting m = {.list = list, .a = {a, forms_of(list, a)}, .b = {b, forms_of(list, b)}};
    if (same_shape(&k->args.data[a->arg], &k->args.data[b->arg])) {
        for (uint32_t d = 0; d < k->args.data[a->arg].rank; d++)
            add_equation(&m, &m.a.forms[a->indices[d]], &m.b.forms[b->indices[d]]);
        add_quotients(&m);
    } else {
        sc_form of_a, of_b;
        if (!flat_form(k, &m.a, &of_a) || !flat_form(k, &m.b, &of_b))
            return false;
        add_equation(&m, &of_a, &of_b);
    }
    for (uint32_t i = 0; i < m.a_forms.count; i++) {
        if (never_equal(&m, &m.a_forms.data[i], &m.b_forms.data[i]))
            return true;
    }
    if (never)
        return false;
    add_guard(&m, a->guard);
    m.known = fixed_dims(list, a, b);
    uint64_t before;
    do {
        before = m.known;
        for (uint32_t i = 0; i < m.a_forms.count; i++)
            m.known |= equal_dims(&m, &m.a_forms.data[i], &m.b_forms.data[i]);
    } while (m.known != before);
    return (dims & ~m.known) == 0;
}
