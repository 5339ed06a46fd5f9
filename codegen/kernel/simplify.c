/* Reduces the number of dims: drops dims of size 1, turns integers with a single possible value
 * into constants (so guards that always hold vanish), and merges two dims that every access walks
 * as one.
 *
 *     dim B = 2, dim S = 3                          dim "B*S" = 6
 *     load x %b, %s, %d  of f32[2, 3, 64]     ->    load x %bs, %d   of f32[6, 64]
 *     %b * 192 + %s * 64 + %d                       %bs * 64 + %d
 *
 * A merge rebuilds the kernel: the nodes that items need are translated, and if that meets an index
 * of one of the two dims that is neither next to the other's in an argument nor combined with it in
 * a sum, the attempt is abandoned. Items, params and arguments keep their numbers; dead nodes are
 * dropped. Every merge removes a dim, so this terminates. */
#include <string.h>

#include "codegen/kernel/access.h"
#include "codegen/kernel/internal.h"

typedef struct rewrite {
    const sc_kernel *from;
    sc_kernel *to;
    uint32_t slow, fast;          /* dims to merge, or SC_NONE */
    uint32_t *dims;               /* old to new; dims of size 1 to SC_NONE */
    uint32_t *drops;              /* per argument, bit j: position j has size 1 */
    uint32_t *merges;             /* bit j: positions j and j + 1 become one */
    sc_knode *nodes;              /* old to new */
    bool *wanted;                 /* per old node: it is needed */
    const sc_interval *intervals; /* of the old nodes */
    const sc_form *forms;
} rewrite;

static bool is_index_of(const sc_kernel *k, sc_knode n, uint32_t dim)
{
    return k->nodes.data[n].kind == SC_NODE_index && k->nodes.data[n].index == dim;
}

/* ---- choice of merges ---- */

/* True if in each phase the two dims are adjacent or both absent. Outer dims have no order. */
static bool follow_each_other(const sc_kernel *k, uint32_t slow, uint32_t fast)
{
    if ((slow < k->outer_count) != (fast < k->outer_count))
        return false;
    for (uint32_t p = 0; p < k->phases.count; p++) {
        const sc_kernel_phase *phase = &k->phases.data[p];
        for (uint32_t i = 0; i < phase->dim_count; i++) {
            if (phase->dims[i] == slow && (i + 1 == phase->dim_count || phase->dims[i + 1] != fast))
                return false;
            if (phase->dims[i] == fast && (i == 0 || phase->dims[i - 1] != slow))
                return false;
        }
    }
    return true;
}

/* The positions at which this access walks the two dims as one. */
static uint32_t merges_of(const rewrite *r, uint32_t arg, const sc_knode *indices)
{
    const sc_kernel_arg *a = &r->from->args.data[arg];
    uint32_t merges = 0;
    for (uint32_t j = 0; j + 1 < a->rank; j++) {
        bool beside = is_index_of(r->from, indices[j], r->slow) &&
                      is_index_of(r->from, indices[j + 1], r->fast);
        merges |= (uint32_t)(beside && a->sizes[j + 1] == r->from->dims.data[r->fast].size) << j;
    }
    return merges;
}

/* True if all accesses to an argument merge the same positions. */
static bool find_merges(rewrite *r)
{
    const sc_kernel *k = r->from;
    bool *met = sc_arena_array(k->arena, k->args.count, sizeof *met);
    for (sc_knode n = 0; n < k->nodes.count + k->items.count; n++) {
        bool load = n < k->nodes.count;
        const sc_kernel_item *item = load ? NULL : &k->items.data[n - k->nodes.count];
        if (load ? k->nodes.data[n].kind != SC_NODE_load : !sc_item_writes(item->kind))
            continue;
        uint32_t arg = load ? k->nodes.data[n].index : item->arg;
        uint32_t merges =
            merges_of(r, arg, load ? sc_kernel_operands(k, n) : k->operands.data + item->first);
        if (met[arg] && r->merges[arg] != merges)
            return false;
        met[arg] = true;
        r->merges[arg] = merges;
    }
    return true;
}

static void find_drops(rewrite *r)
{
    for (uint32_t a = 0; a < r->from->args.count; a++) {
        const sc_kernel_arg *arg = &r->from->args.data[a];
        for (uint32_t j = 0; j < arg->rank; j++)
            r->drops[a] |= (uint32_t)(arg->sizes[j] == 1) << j;
    }
}

/* ---- needed nodes ---- */

/* The node's form if it has an index of one of the two dims, else NULL. The merged dim can express
 * it if the slow dim's factor is the fast one's times its size. */
static const sc_form *sum_to_merge(const rewrite *r, sc_knode n, bool *out_fits)
{
    const sc_kernel *k = r->from;
    int64_t slow = 0, fast = 0, whole;
    if (r->forms == NULL || k->nodes.data[n].dtype != SC_DTYPE_i64)
        return NULL;
    const sc_form *f = &r->forms[n];
    for (uint32_t i = 0; i < f->count; i++) {
        slow += is_index_of(k, f->terms[i].sub_axis, r->slow) ? f->terms[i].factor : 0;
        fast += is_index_of(k, f->terms[i].sub_axis, r->fast) ? f->terms[i].factor : 0;
    }
    *out_fits = !__builtin_mul_overflow(fast, k->dims.data[r->fast].size, &whole) && whole == slow;
    return slow != 0 || fast != 0 ? f : NULL;
}

/* True if position j of the access stays; dropped positions, and the second of two merged ones, do
 * not. */
static bool keeps_position(const rewrite *r, uint32_t arg, uint32_t j)
{
    bool second = j > 0 && (r->merges[arg] >> (j - 1) & 1) != 0;
    return (r->drops[arg] >> j & 1) == 0 && !second;
}

static void want_indices(rewrite *r, uint32_t arg, const sc_knode *indices)
{
    for (uint32_t j = 0; j < r->from->args.data[arg].rank; j++) {
        if (keeps_position(r, arg, j) && (r->merges[arg] >> j & 1) == 0)
            r->wanted[indices[j]] = true;
    }
}

/* An integer with only one possible value. */
static bool is_settled(const rewrite *r, sc_knode n)
{
    return !sc_dtype_is_float((sc_dtype)r->from->nodes.data[n].dtype) &&
           r->intervals[n].low == r->intervals[n].high;
}

/* For a remainder that is a no-op, or a minimum or maximum that always selects the same operand:
 * that operand; else SC_NONE. */
static sc_knode settled_operand(const rewrite *r, sc_knode n)
{
    const sc_kernel_node *node = &r->from->nodes.data[n];
    const sc_knode *operands = sc_kernel_operands(r->from, n);
    bool chooses = node->kind == SC_NODE_minimum || node->kind == SC_NODE_maximum;
    if (sc_dtype_is_float((sc_dtype)node->dtype) || (!chooses && node->kind != SC_NODE_mod))
        return SC_NONE;
    sc_interval x = r->intervals[operands[0]], y = r->intervals[operands[1]];
    if (!chooses)
        return x.low >= 0 && x.high < y.low ? operands[0] : SC_NONE;
    if (x.high <= y.low)
        return operands[node->kind == SC_NODE_minimum ? 0 : 1];
    return y.high <= x.low ? operands[node->kind == SC_NODE_minimum ? 1 : 0] : SC_NONE;
}

static bool want_parts(rewrite *r, sc_knode n)
{
    const sc_kernel *k = r->from;
    const sc_kernel_node *node = &k->nodes.data[n];
    const sc_knode *operands = sc_kernel_operands(k, n), same = settled_operand(r, n);
    bool fits;
    if (is_settled(r, n))
        return true;
    if (same != SC_NONE)
        return r->wanted[same] = true;
    const sc_form *f = sum_to_merge(r, n, &fits);
    if (f != NULL) {
        for (uint32_t i = 0; i < f->count; i++) {
            if (f->terms[i].factor != 0 && !is_index_of(k, f->terms[i].sub_axis, r->slow) &&
                !is_index_of(k, f->terms[i].sub_axis, r->fast))
                r->wanted[f->terms[i].sub_axis] = true;
        }
        return fits;
    }
    uint32_t first = 0;
    if (node->kind == SC_NODE_load) {
        want_indices(r, node->index, operands);
        first = k->args.data[node->index].rank;
    }
    for (uint32_t i = first; i < node->count; i++)
        r->wanted[operands[i]] = true;
    return true;
}

/* False: an index of the two dims occurs by itself. */
static bool find_wanted(rewrite *r)
{
    const sc_kernel *k = r->from;
    for (uint32_t i = 0; i < k->items.count; i++) {
        const sc_kernel_item *item = &k->items.data[i];
        r->wanted[item->value] = true;
        if (item->guard != SC_NONE)
            r->wanted[item->guard] = true;
        if (item->shown != SC_NONE)
            r->wanted[item->shown] = true;
        if (sc_item_writes(item->kind))
            want_indices(r, item->arg, k->operands.data + item->first);
    }
    for (sc_knode n = k->nodes.count; n-- > 0;) {
        if (r->wanted[n] && !want_parts(r, n))
            return false;
    }
    return true;
}

/* ---- the new kernel ---- */

static sc_sym merged_name(const rewrite *r)
{
    const sc_kernel *k = r->from;
    sc_sym name = sc_intern_printf(&k->context->names, "%s*%s",
                                   sc_text(k->context, k->dims.data[r->slow].name),
                                   sc_text(k->context, k->dims.data[r->fast].name));
    for (uint32_t d = 0; d < k->dims.count; d++) {
        if (k->dims.data[d].name == name) { /* the name is taken: append to it and search again */
            name = sc_intern_printf(&k->context->names, "%s'", sc_text(k->context, name));
            d = UINT32_MAX;
        }
    }
    return name;
}

static bool runs(const sc_kernel *k, uint32_t dim)
{
    bool found = dim < k->outer_count;
    for (uint32_t p = 0; p < k->phases.count; p++)
        found = found || (sc_kernel_phase_dims(k, p) >> dim & 1) != 0;
    return found;
}

/* The merged dim goes where the first of the two was. A dim that no phase iterates over is dropped,
 * too. */
static void make_dims(rewrite *r)
{
    const sc_kernel *k = r->from;
    for (uint32_t d = 0; d < k->dims.count; d++) {
        uint32_t other = d == r->slow ? r->fast : d == r->fast ? r->slow : SC_NONE;
        int64_t size = k->dims.data[d].size;
        if (other != SC_NONE && other < d)
            r->dims[d] = r->dims[other];
        else if (other != SC_NONE)
            r->dims[d] = sc_kernel_add_dim(r->to, merged_name(r), size * k->dims.data[other].size);
        else
            r->dims[d] = size == 1 || !runs(k, d)
                             ? SC_NONE
                             : sc_kernel_add_dim(r->to, k->dims.data[d].name, size);
        if (d + 1 == k->outer_count)
            r->to->outer_count = r->to->dims.count;
    }
}

static void make_args(rewrite *r)
{
    for (uint32_t a = 0; a < r->from->args.count; a++) {
        const sc_kernel_arg *old = &r->from->args.data[a];
        sc_kernel_arg arg = *old;
        arg.rank = 0;
        memset(arg.sizes, 0, sizeof arg.sizes);
        for (uint32_t j = 0; j < old->rank; j++) {
            if (keeps_position(r, a, j))
                arg.sizes[arg.rank++] =
                    old->sizes[j] * ((r->merges[a] >> j & 1) != 0 ? old->sizes[j + 1] : 1);
        }
        sc_kernel_add_arg(r->to, &arg);
    }
}

/* Translates indices; their number is the new argument's rank. */
static void translate_indices(const rewrite *r, uint32_t arg, const sc_knode *indices,
                              sc_knode *out)
{
    uint32_t count = 0;
    for (uint32_t j = 0; j < r->from->args.data[arg].rank; j++) {
        if (keeps_position(r, arg, j))
            out[count++] = (r->merges[arg] >> j & 1) != 0 ? sc_kernel_index(r->to, r->dims[r->slow])
                                                          : r->nodes[indices[j]];
    }
}

static sc_knode times(sc_kernel *k, sc_knode x, int64_t factor)
{
    sc_knode by = sc_kernel_constant(k, SC_DTYPE_i64, (double)factor);
    return sc_kernel_node_new(k, SC_NODE_mul, (sc_knode[]){x, by}, 2);
}

static sc_knode plus(sc_kernel *k, sc_knode x, sc_knode y)
{
    return sc_kernel_node_new(k, SC_NODE_add, (sc_knode[]){x, y}, 2);
}

static sc_knode make_sum(const rewrite *r, const sc_form *f)
{
    sc_knode sum = sc_kernel_constant(r->to, SC_DTYPE_i64, 0);
    for (uint32_t i = 0; i < f->count; i++) {
        sc_knode sub_axis = f->terms[i].sub_axis;
        if (f->terms[i].factor == 0 || is_index_of(r->from, sub_axis, r->slow))
            continue;
        bool fast = is_index_of(r->from, sub_axis, r->fast);
        sc_knode x = fast ? sc_kernel_index(r->to, r->dims[r->fast]) : r->nodes[sub_axis];
        sum = plus(r->to, sum, times(r->to, x, f->terms[i].factor));
    }
    return plus(r->to, sum, sc_kernel_constant(r->to, SC_DTYPE_i64, (double)f->constant));
}

static sc_knode translate_node(const rewrite *r, sc_knode n)
{
    const sc_kernel *k = r->from;
    const sc_kernel_node *node = &k->nodes.data[n];
    const sc_knode *operands = sc_kernel_operands(k, n);
    sc_knode own[SC_KERNEL_MAX_RANK + 1] = {0};
    bool fits;
    if (is_settled(r, n))
        return sc_kernel_constant(r->to, (sc_dtype)node->dtype, (double)r->intervals[n].low);
    if (settled_operand(r, n) != SC_NONE)
        return r->nodes[settled_operand(r, n)];
    const sc_form *sum = sum_to_merge(r, n, &fits);
    if (sum != NULL)
        return make_sum(r, sum);
    if (node->kind == SC_NODE_index) {
        uint32_t dim = r->dims[node->index];
        return dim == SC_NONE ? sc_kernel_constant(r->to, SC_DTYPE_i64, 0)
                              : sc_kernel_index(r->to, dim);
    }
    if (node->kind == SC_NODE_load) {
        uint32_t rank = k->args.data[node->index].rank;
        translate_indices(r, node->index, operands, own);
        return sc_kernel_load(r->to, node->index, own,
                              node->count > rank ? r->nodes[operands[rank]] : SC_NONE);
    }
    for (uint32_t i = 0; i < node->count; i++)
        own[i] = r->nodes[operands[i]];
    if (node->kind == SC_NODE_convert)
        return sc_kernel_convert(r->to, own[0], (sc_dtype)node->dtype);
    if (node->kind > SC_NODE_convert)
        return sc_kernel_node_new(r->to, (sc_node_kind)node->kind, own, node->count);
    return sc_kernel_unique(r->to, *node, own, node->count);
}

/* Items keep their numbers, so none is dropped; a guard that always holds is removed. */
static void make_items(rewrite *r, const sc_kernel_phase *phase)
{
    const sc_kernel *k = r->from;
    for (uint32_t i = phase->first_item; i < phase->first_item + phase->item_count; i++) {
        sc_kernel_item item = k->items.data[i];
        sc_knode indices[SC_KERNEL_MAX_RANK] = {0};
        item.value = r->nodes[item.value];
        if (item.shown != SC_NONE)
            item.shown = r->nodes[item.shown];
        if (item.guard != SC_NONE)
            item.guard = r->nodes[item.guard];
        if (item.guard != SC_NONE && sc_kernel_is_number(r->to, item.guard, 1))
            item.guard = SC_NONE;
        if (sc_item_writes(item.kind)) {
            translate_indices(r, item.arg, k->operands.data + item.first, indices);
            item.count = r->to->args.data[item.arg].rank;
        }
        sc_kernel_add_item(r->to, item, indices);
    }
}

static void make_phases(rewrite *r)
{
    for (uint32_t p = 0; p < r->from->phases.count; p++) {
        const sc_kernel_phase *phase = &r->from->phases.data[p];
        uint32_t dims[SC_KERNEL_MAX_RANK], count = 0;
        for (uint32_t i = 0; i < phase->dim_count; i++) {
            uint32_t dim = phase->dims[i];
            if (r->dims[dim] != SC_NONE && dim != r->fast)
                dims[count++] = r->dims[dim];
        }
        sc_kernel_add_phase(r->to, dims, count);
        make_items(r, phase);
    }
}

/* NULL if the two dims cannot be merged. */
static sc_kernel *rewritten(const sc_kernel *k, uint32_t slow, uint32_t fast,
                            const sc_interval *intervals, const sc_form *forms)
{
    sc_arena *arena = k->arena;
    rewrite r = {.from = k, .slow = slow, .fast = fast, .intervals = intervals, .forms = forms};
    r.dims = sc_arena_array(arena, k->dims.count, sizeof *r.dims);
    r.drops = sc_arena_array(arena, k->args.count, sizeof *r.drops);
    r.merges = sc_arena_array(arena, k->args.count, sizeof *r.merges);
    r.nodes = sc_arena_array(arena, k->nodes.count, sizeof *r.nodes);
    r.wanted = sc_arena_array(arena, k->nodes.count, sizeof *r.wanted);
    if (slow == SC_NONE)
        find_drops(&r);
    else if (!find_merges(&r))
        return NULL;
    if (!find_wanted(&r))
        return NULL;
    r.to = sc_kernel_new_in(k->context, k->arena, k->name);
    r.to->title = k->title;
    r.to->comments = k->comments;
    r.to->params = k->params;
    make_dims(&r);
    make_args(&r);
    for (sc_knode n = 0; n < k->nodes.count; n++)
        r.nodes[n] = r.wanted[n] ? translate_node(&r, n) : SC_NONE;
    make_phases(&r);
    return r.to;
}

static sc_kernel *merged_once(const sc_kernel *k)
{
    const sc_interval *intervals = sc_kernel_intervals(k, NULL, 0, NULL);
    const sc_form *forms = sc_kernel_forms(k, intervals);
    for (uint32_t slow = 0; slow < k->dims.count; slow++) {
        for (uint32_t fast = 0; fast < k->dims.count; fast++) {
            sc_kernel *merged = slow != fast && follow_each_other(k, slow, fast)
                                    ? rewritten(k, slow, fast, intervals, forms)
                                    : NULL;
            if (merged != NULL)
                return merged;
        }
    }
    return NULL;
}

/* Repeats until folding leaves no dead nodes: each round has fewer nodes. */
static const sc_kernel *tidied(const sc_kernel *k)
{
    uint32_t before;
    do {
        before = k->nodes.count;
        k = rewritten(k, SC_NONE, SC_NONE, sc_kernel_intervals(k, NULL, 0, NULL), NULL);
    } while (k->nodes.count < before);
    return k;
}

void sc_kernel_simplify(sc_kernel *k)
{
    const sc_kernel *simpler = tidied(k);
    for (const sc_kernel *next = simpler; next != NULL; next = merged_once(simpler))
        simpler = next;
    *k = *tidied(simpler);
}
