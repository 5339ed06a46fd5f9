/* Analysis of a kernel's nodes before printing. Offsets are sums of dims and of nodes that are not
 * sums, each times a number, so that equal parts of offsets, and parts invariant in the innermost
 * loop, can be found. */
#include <string.h>

#include "codegen/printer/printer.h"

/* ---- offsets ---- */

typedef struct sc_linear {
    sc_kernel_printer *e;
    SC_VEC(sc_printer_term) terms;
    int64_t constant;
} sc_linear;

static void add_term(sc_linear *linear, uint32_t dim, sc_knode node, int64_t times)
{
    for (uint32_t i = 0; i < linear->terms.count; i++) {
        sc_printer_term *term = &linear->terms.data[i];
        if (term->dim == dim && term->node == node) {
            term->times += times;
            return;
        }
    }
    *sc_vec_push(linear->e->arena, &linear->terms) = (sc_printer_term){dim, node, times};
}

static bool is_constant(const sc_kernel *k, sc_knode node)
{
    return k->nodes.data[node].kind == SC_NODE_constant;
}

static void linearise(sc_linear *linear, sc_knode id, int64_t times)
{
    const sc_kernel *k = linear->e->k;
    const sc_kernel_node *node = &k->nodes.data[id];
    const sc_knode *operands = k->operands.data + node->first;
    if (node->kind == SC_NODE_constant)
        linear->constant += (int64_t)node->number * times;
    else if (node->kind == SC_NODE_index && k->dims.data[node->index].size > 1)
        add_term(linear, node->index, SC_NONE, times);
    else if (node->kind == SC_NODE_index)
        return;
    else if (node->kind == SC_NODE_add || node->kind == SC_NODE_sub) {
        linearise(linear, operands[0], times);
        linearise(linear, operands[1], node->kind == SC_NODE_add ? times : -times);
    } else if (node->kind == SC_NODE_mul && is_constant(k, operands[1]))
        linearise(linear, operands[0], times * (int64_t)k->nodes.data[operands[1]].number);
    else if (node->kind == SC_NODE_mul && is_constant(k, operands[0]))
        linearise(linear, operands[1], times * (int64_t)k->nodes.data[operands[0]].number);
    else
        add_term(linear, SC_NONE, id, times);
}

static sc_printer_access access_of(sc_kernel_printer *e, uint32_t arg_index,
                                   const sc_knode *indices)
{
    const sc_kernel_arg *arg = &e->k->args.data[arg_index];
    sc_linear linear = {.e = e};
    int64_t strides[SC_KERNEL_MAX_RANK + 1] = {0}, stride = 1;
    for (uint32_t i = arg->rank; i-- > 0; stride *= arg->sizes[i])
        strides[i] = stride;
    for (uint32_t i = 0; i < arg->rank; i++) {
        if (arg->sizes[i] > 1)
            linearise(&linear, indices[i], strides[i]);
    }
    sc_printer_access access = {
        .arg = arg_index, .constant = linear.constant, .terms = linear.terms.data};
    for (uint32_t i = 0; i < linear.terms.count; i++) {
        if (linear.terms.data[i].times != 0)
            access.terms[access.count++] = linear.terms.data[i];
    }
    return access;
}

/* ---- nodes ---- */

const char *sc_printer_template(const sc_kernel_printer *e, sc_knode id)
{
    const sc_kernel *k = e->k;
    const sc_kernel_node *node = &k->nodes.data[id];
    const sc_node_row *row = &sc_node_rows[node->kind];
    if (node->count == 0)
        return "";
    uint8_t dtype = k->nodes.data[k->operands.data[node->first + node->count - 1]].dtype;
    return dtype == SC_DTYPE_f32 ? row->f32 : dtype == SC_DTYPE_f64 ? row->f64 : row->integer;
}

static bool names_twice(const char *text, uint32_t operand)
{
    char name[3] = {'$', (char)('0' + operand), 0};
    const char *once = strstr(text, name);
    return once != NULL && strstr(once + 2, name) != NULL;
}

uint64_t sc_printer_dims_of(const sc_kernel_printer *e, const sc_printer_access *access)
{
    uint64_t dims = 0;
    for (uint32_t i = 0; i < access->count; i++) {
        const sc_printer_term *term = &access->terms[i];
        dims |= term->dim != SC_NONE ? (uint64_t)1 << term->dim : e->nodes[term->node].dims;
    }
    return dims;
}

static void analyse_load(sc_kernel_printer *e, sc_knode id)
{
    const sc_kernel *k = e->k;
    const sc_kernel_node *node = &k->nodes.data[id];
    const sc_kernel_arg *arg = &k->args.data[node->index];
    sc_printer_node *info = &e->nodes[id];
    info->access = access_of(e, node->index, k->operands.data + node->first);
    info->children = sc_arena_array(e->arena, info->access.count + 1, sizeof *info->children);
    for (uint32_t i = 0; i < info->access.count; i++) {
        if (info->access.terms[i].dim == SC_NONE)
            info->children[info->child_count++] = info->access.terms[i].node;
    }
    if (node->count > arg->rank)
        info->children[info->child_count++] = k->operands.data[node->first + arg->rank];
    info->dims = sc_printer_dims_of(e, &info->access);
    info->reads_written = arg->mode != SC_ARG_IN;
}

static uint64_t outer_dims(const sc_kernel *k)
{
    return k->outer_count >= 64 ? UINT64_MAX : ((uint64_t)1 << k->outer_count) - 1;
}

static void analyse_node(sc_kernel_printer *e, sc_knode id)
{
    const sc_kernel *k = e->k;
    const sc_kernel_node *node = &k->nodes.data[id];
    sc_printer_node *info = &e->nodes[id];
    if (node->kind == SC_NODE_load) {
        analyse_load(e, id);
    } else {
        info->children = k->operands.data + node->first;
        info->child_count = node->count;
    }
    if (node->kind == SC_NODE_index)
        info->dims = (uint64_t)1 << node->index;
    if (node->kind == SC_NODE_reduced || node->kind == SC_NODE_running) {
        info->dims = e->nodes[k->items.data[node->index].value].dims;
        info->late = true;
    }
    if (node->kind == SC_NODE_reduced)
        info->dims &= outer_dims(k);
    if (node->kind == SC_NODE_running) {
        const sc_kernel_phase *phase = &k->phases.data[e->items[node->index].phase];
        for (uint32_t i = 0; i < phase->dim_count; i++)
            info->dims |= (uint64_t)1 << phase->dims[i];
        e->items[node->index].running = true;
    }
    const char *text = e->target->operation(e, id);
    for (uint32_t i = 0; i < info->child_count; i++) {
        sc_printer_node *child = &e->nodes[info->children[i]];
        info->dims |= child->dims;
        info->late |= child->late;
        info->reads_written |= child->reads_written;
        info->has_load |= child->has_load || k->nodes.data[info->children[i]].kind == SC_NODE_load;
        if (node->kind != SC_NODE_load && names_twice(text, i))
            child->sub_axis = true;
    }
}

/* Counts uses by live nodes; visits each node once. */
static void count_uses(sc_kernel_printer *e, sc_knode id)
{
    sc_printer_node *info = &e->nodes[id];
    if (info->uses++ > 0)
        return;
    const sc_kernel_node *node = &e->k->nodes.data[id];
    if (node->kind == SC_NODE_load)
        e->arg_used[node->index] = true;
    if (node->kind == SC_NODE_param)
        e->param_used[node->index] = true;
    for (uint32_t i = 0; i < info->child_count; i++)
        count_uses(e, info->children[i]);
}

static void analyse_item(sc_kernel_printer *e, uint32_t id)
{
    const sc_kernel_item *item = &e->k->items.data[id];
    sc_printer_item *info = &e->items[id];
    count_uses(e, item->value);
    if (item->kind == SC_ITEM_CHECK)
        info->check = e->check_count++;
    if (item->shown != SC_NONE)
        count_uses(e, item->shown);
    if (item->kind == SC_ITEM_MAX || item->kind == SC_ITEM_MIN)
        e->nodes[item->value].sub_axis = true;
    if (item->kind != SC_ITEM_STORE && item->kind != SC_ITEM_ADD)
        return;
    e->arg_used[item->arg] = true;
    info->access = access_of(e, item->arg, e->k->operands.data + item->first);
    for (uint32_t i = 0; i < info->access.count; i++) {
        if (info->access.terms[i].dim == SC_NONE)
            count_uses(e, info->access.terms[i].node);
    }
    if (item->guard != SC_NONE)
        count_uses(e, item->guard);
}

/* True for arrays of equal size in bytes: candidates for sc_kernel_may_share. */
static bool could_share(const sc_kernel_arg *in, const sc_kernel_arg *out)
{
    int64_t elements = 1, others = 1;
    for (uint32_t i = 0; i < in->rank; i++)
        elements *= in->sizes[i];
    for (uint32_t i = 0; i < out->rank; i++)
        others *= out->sizes[i];
    return in->mode == SC_ARG_IN && out->mode == SC_ARG_OUT &&
           elements * sc_dtypes[in->dtype].bytes == others * sc_dtypes[out->dtype].bytes;
}

void sc_printer_analyse(sc_kernel_printer *e)
{
    const sc_kernel *k = e->k;
    for (uint32_t p = 0; p < k->phases.count; p++) {
        for (uint32_t i = 0; i < k->phases.data[p].item_count; i++)
            e->items[k->phases.data[p].first_item + i].phase = p;
    }
    for (sc_knode i = 0; i < k->nodes.count; i++) {
        e->nodes[i].cached_from = SC_NONE;
        analyse_node(e, i);
    }
    for (uint32_t i = 0; i < k->items.count; i++)
        analyse_item(e, i);
    for (uint32_t i = 0; i < k->args.count; i++) {
        for (uint32_t j = 0; j < k->args.count; j++) {
            if (!e->arg_used[i] || !e->arg_used[j] ||
                !could_share(&k->args.data[i], &k->args.data[j]))
                continue;
            e->arg_shared[i] = true;
            e->arg_shared[j] = true;
        }
    }
    for (sc_knode i = 0; i < k->nodes.count; i++)
        e->writes_read |= e->nodes[i].uses > 0 && e->nodes[i].reads_written;
}

/* ---- phases ---- */

static bool node_reads(sc_kernel_printer *e, sc_knode id, uint32_t item)
{
    const sc_kernel_node *node = &e->k->nodes.data[id];
    sc_printer_node *info = &e->nodes[id];
    if (!info->late || info->visit == e->scopes.visit)
        return false;
    info->visit = e->scopes.visit;
    bool reads = node->kind == SC_NODE_reduced && node->index == item;
    for (uint32_t i = 0; i < info->child_count && !reads; i++)
        reads = node_reads(e, info->children[i], item);
    return reads;
}

bool sc_printer_phase_reads(sc_kernel_printer *e, uint32_t phase_index, uint32_t item)
{
    const sc_kernel_phase *phase = &e->k->phases.data[phase_index];
    if (e->items[item].phase >= phase_index)
        return false;
    e->scopes.visit++;
    for (uint32_t i = phase->first_item; i < phase->first_item + phase->item_count; i++) {
        const sc_kernel_item *it = &e->k->items.data[i];
        bool writes = sc_item_writes(it->kind);
        if (node_reads(e, it->value, item) ||
            (writes && it->guard != SC_NONE && node_reads(e, it->guard, item)))
            return true;
        const sc_printer_access *access = &e->items[i].access;
        for (uint32_t t = 0; t < access->count; t++) {
            if (access->terms[t].dim == SC_NONE && node_reads(e, access->terms[t].node, item))
                return true;
        }
    }
    return false;
}

bool sc_printer_same_dims(const sc_kernel *k, uint32_t a, uint32_t b)
{
    const sc_kernel_phase *first = &k->phases.data[a], *second = &k->phases.data[b];
    bool same = first->dim_count == second->dim_count;
    for (uint32_t i = 0; same && i < first->dim_count; i++)
        same = first->dims[i] == second->dims[i];
    return same;
}

bool sc_printer_is_cached(const sc_kernel_printer *e, sc_knode node)
{
    uint32_t from = e->nodes[node].cached_from;
    return from != SC_NONE && e->phase.number > from &&
           sc_printer_same_dims(e->k, from, e->phase.number);
}
