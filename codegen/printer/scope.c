/* Assigns nodes to scopes: each is computed in the outermost scope in which all that it depends on
 * is available, after the checks that it relies on. A node gets a name if it is used more than once
 * or in an inner scope; else its text is inlined in its user's. */
#include <stdlib.h>

#include "codegen/printer/printer.h"

enum { LONGEST_TEXT = 9 /* nodes */ };

static uint32_t scope_of_dims(const sc_kernel_printer *e, uint64_t dims)
{
    for (uint32_t i = e->scopes.inner; i > 0; i--) {
        if ((e->scopes.dims[i] & dims) != 0)
            return i;
    }
    return 0;
}

static uint32_t at_least(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static void place_node(sc_kernel_printer *e, sc_knode id, uint32_t floor)
{
    sc_printer_node *info = &e->nodes[id];
    if (info->pass == e->scopes.pass)
        return;
    info->pass = e->scopes.pass;
    info->user_depth = 0;
    info->depth = scope_of_dims(e, info->dims);
    const sc_kernel_node *node = &e->k->nodes.data[id];
    if (sc_printer_is_cached(e, id))
        return;
    for (uint32_t i = 0; i < info->child_count; i++) {
        place_node(e, info->children[i], floor);
        info->depth = at_least(info->depth, e->nodes[info->children[i]].depth);
    }
    bool load = node->kind == SC_NODE_load;
    if (info->late)
        info->depth = at_least(info->depth, e->scopes.body);
    if (node->kind == SC_NODE_running)
        info->depth = at_least(info->depth, e->items[node->index].depth);
    if (load && info->reads_written)
        info->depth = at_least(info->depth, e->scopes.body < e->scopes.inner ? e->scopes.body + 1
                                                                             : e->scopes.inner);
    if (load && info->has_load)
        info->depth = at_least(info->depth, floor);
}

static void use_from(sc_kernel_printer *e, sc_knode id, uint32_t depth)
{
    e->nodes[id].user_depth = at_least(e->nodes[id].user_depth, depth);
}

/* Collects the nodes that an item uses directly; returns the count. */
static uint32_t roots_of(const sc_kernel_printer *e, uint32_t item_index,
                         sc_knode roots[SC_KERNEL_MAX_RANK * 4])
{
    const sc_kernel_item *item = &e->k->items.data[item_index];
    const sc_printer_access *access = &e->items[item_index].access;
    uint32_t count = 0;
    for (uint32_t i = 0; i < access->count; i++) {
        if (access->terms[i].dim == SC_NONE)
            roots[count++] = access->terms[i].node;
    }
    roots[count++] = item->value;
    bool guarded = sc_item_writes(item->kind) && item->guard != SC_NONE;
    if (guarded)
        roots[count++] = item->guard;
    if (item->shown != SC_NONE)
        roots[count++] = item->shown;
    return count;
}

/* The innermost of the floor and the scopes of the nodes. */
static uint32_t deepest(const sc_kernel_printer *e, const sc_knode *nodes, uint32_t count,
                        uint32_t floor)
{
    for (uint32_t i = 0; i < count; i++)
        floor = at_least(floor, e->nodes[nodes[i]].depth);
    return floor;
}

uint32_t sc_printer_place(sc_kernel_printer *e, uint32_t first, uint32_t end, uint32_t floor)
{
    sc_knode roots[SC_KERNEL_MAX_RANK * 4];
    e->scopes.pass++;
    for (uint32_t i = first; i < end; i++) {
        uint32_t count = roots_of(e, i, roots);
        for (uint32_t j = 0; j < count; j++)
            place_node(e, roots[j], floor);
        if (e->k->items.data[i].kind == SC_ITEM_CHECK)
            floor = e->items[i].depth = deepest(e, roots, count, floor);
        for (uint32_t j = 0; j < count; j++)
            use_from(e, roots[j], e->items[i].depth);
    }
    for (sc_knode id = e->k->nodes.count; id-- > 0;) {
        const sc_printer_node *info = &e->nodes[id];
        if (info->pass != e->scopes.pass || sc_printer_is_cached(e, id))
            continue;
        for (uint32_t j = 0; j < info->child_count; j++)
            use_from(e, info->children[j], info->depth);
    }
    return floor;
}

void sc_printer_place_all(sc_kernel_printer *e)
{
    const sc_kernel *k = e->k;
    e->scopes.floors = sc_arena_array(e->arena, k->phases.count + 1, sizeof *e->scopes.floors);
    for (uint32_t i = 0; i < k->items.count; i++)
        e->items[i].depth = e->scopes.inner;
    for (uint32_t p = 0; p < k->phases.count; p++) {
        uint32_t first = k->phases.data[p].first_item;
        uint32_t floor =
            sc_printer_place(e, first, first + k->phases.data[p].item_count, e->scopes.floors[p]);
        e->scopes.floors[p + 1] = floor < e->scopes.body ? floor : e->scopes.body;
    }
    for (uint32_t i = 0; i < k->items.count; i++)
        e->items[i].depth = e->scopes.inner;
    sc_printer_place(e, 0, k->items.count, 0);
}

/* ---- names ---- */

static bool is_leaf(const sc_kernel_node *node)
{
    return node->count == 0 && node->kind != SC_NODE_load;
}

static bool wants_name(const sc_kernel_printer *e, sc_knode id)
{
    const sc_printer_node *info = &e->nodes[id];
    const sc_kernel_node *node = &e->k->nodes.data[id];
    if (is_leaf(node))
        return false;
    if (info->cached_from != SC_NONE || info->uses > 1 || info->sub_axis ||
        info->user_depth > info->depth || info->size > LONGEST_TEXT)
        return true;
    return node->kind == SC_NODE_load &&
           (info->reads_written || (e->arg_shared[node->index] && !info->transposed));
}

static void declare(sc_kernel_printer *e, sc_knode id, uint32_t depth)
{
    sc_write_indent(e->out);
    sc_strbuf_printf(e->out->text,
                     "const %s v%u = ", sc_printer_type((sc_dtype)e->k->nodes.data[id].dtype), id);
    sc_printer_value(e, id, true);
    sc_strbuf_add(e->out->text, ";\n");
    e->nodes[id].visible = true;
    *sc_vec_push(e->arena, &e->scopes.declared) = id;
    *sc_vec_push(e->arena, &e->scopes.declared_scopes) = depth;
    if (e->nodes[id].cached_from != e->phase.number || depth != e->scopes.inner)
        return;
    sc_write_indent(e->out);
    e->target->cached(e, id);
    sc_strbuf_printf(e->out->text, " = v%u;\n", id);
}

/* Emits declarations of what the node needs in this scope, in order. */
static void need(sc_kernel_printer *e, sc_knode id, uint32_t depth)
{
    sc_printer_node *info = &e->nodes[id];
    if (info->visible || info->visit == e->scopes.visit)
        return;
    info->visit = e->scopes.visit;
    info->size = 1;
    uint32_t child_count = sc_printer_is_cached(e, id) ? 0 : info->child_count;
    for (uint32_t i = 0; i < child_count; i++) {
        const sc_printer_node *child = &e->nodes[info->children[i]];
        need(e, info->children[i], depth);
        info->size +=
            child->visible || is_leaf(&e->k->nodes.data[info->children[i]]) ? 0 : child->size;
    }
    if (info->depth == depth && wants_name(e, id))
        declare(e, id, depth);
}

/* ---- offsets ---- */

static uint32_t scope_of_term(const sc_kernel_printer *e, const sc_printer_term *term)
{
    return term->dim != SC_NONE ? scope_of_dims(e, (uint64_t)1 << term->dim)
                                : e->nodes[term->node].depth;
}

/* The terms available outside scope `depth`; *scope: the deepest scope that they need. */
static sc_printer_access outer_part(sc_kernel_printer *e, const sc_printer_access *access,
                                    uint32_t depth, uint32_t *scope)
{
    sc_printer_access part = {.arg = access->arg};
    part.terms = sc_arena_array(e->arena, access->count + 1, sizeof *part.terms);
    *scope = 0;
    for (uint32_t i = 0; i < access->count; i++) {
        uint32_t at = scope_of_term(e, &access->terms[i]);
        if (at >= depth)
            continue;
        part.terms[part.count++] = access->terms[i];
        *scope = at_least(*scope, at);
    }
    return part;
}

static bool same_terms(const sc_printer_access *a, const sc_printer_access *b)
{
    bool same = a->count == b->count;
    for (uint32_t i = 0; same && i < a->count; i++)
        same = a->terms[i].dim == b->terms[i].dim && a->terms[i].node == b->terms[i].node &&
               a->terms[i].times == b->terms[i].times;
    return same;
}

static const sc_printer_offset *find_offset(const sc_kernel_printer *e,
                                            const sc_printer_access *part)
{
    for (uint32_t i = 0; i < e->scopes.offsets.count; i++) {
        if (same_terms(&e->scopes.offsets.data[i].access, part))
            return &e->scopes.offsets.data[i];
    }
    return NULL;
}

static void add_terms(sc_kernel_printer *e, const sc_printer_access *access, uint32_t from_depth,
                      bool *begun)
{
    for (uint32_t i = 0; i < access->count; i++) {
        const sc_printer_term *term = &access->terms[i];
        if (scope_of_term(e, term) < from_depth)
            continue;
        bool minus = term->times < 0;
        int64_t times = minus ? -term->times : term->times;
        sc_strbuf_add(e->out->text, *begun ? (minus ? " - " : " + ") : minus ? "-" : "");
        if (term->dim != SC_NONE)
            sc_strbuf_add(e->out->text, e->dim_names[term->dim]);
        else
            sc_printer_value(e, term->node, false);
        if (times != 1)
            sc_strbuf_printf(e->out->text, " * %lld", (long long)times);
        *begun = true;
    }
}

void sc_printer_offset_text(sc_kernel_printer *e, const sc_printer_access *access, uint32_t depth)
{
    uint32_t scope;
    sc_printer_access part = outer_part(e, access, depth, &scope);
    const sc_printer_offset *offset = part.count == 0 ? NULL : find_offset(e, &part);
    bool begun = offset != NULL;
    if (offset != NULL)
        sc_strbuf_printf(e->out->text, "o%u", offset->number);
    add_terms(e, access, offset == NULL ? 0 : depth, &begun);
    if (access->constant != 0 && begun)
        sc_strbuf_printf(e->out->text, access->constant < 0 ? " - %lld" : " + %lld",
                         llabs((long long)access->constant));
    else if (!begun)
        sc_strbuf_printf(e->out->text, "%lld", (long long)access->constant);
}

/* Names the part of an offset that is complete in this scope, unless it is just a name. */
static void name_offset(sc_kernel_printer *e, const sc_printer_access *access, uint32_t user,
                        uint32_t depth)
{
    uint32_t scope;
    sc_printer_access part = outer_part(e, access, user, &scope);
    if (scope != depth || part.count == 0 || (part.count == 1 && part.terms[0].times == 1) ||
        find_offset(e, &part) != NULL)
        return;
    sc_write_indent(e->out);
    sc_strbuf_printf(e->out->text, "const int64_t o%u = ", e->scopes.offset_number);
    bool begun = false;
    add_terms(e, &part, 0, &begun);
    sc_strbuf_add(e->out->text, ";\n");
    *sc_vec_push(e->arena, &e->scopes.offsets) =
        (sc_printer_offset){part, depth, e->scopes.offset_number++};
}

static void name_offsets(sc_kernel_printer *e, uint32_t depth, uint32_t first, uint32_t end)
{
    for (sc_knode id = 0; id < e->k->nodes.count; id++) {
        const sc_printer_node *info = &e->nodes[id];
        if (info->pass == e->scopes.pass && e->k->nodes.data[id].kind == SC_NODE_load &&
            info->depth > depth && !info->transposed)
            name_offset(e, &info->access, info->depth, depth);
    }
    for (uint32_t i = first; i < end; i++) {
        if (e->items[i].depth > depth && e->items[i].access.count > 0 && !e->items[i].transposed &&
            !e->items[i].streamed)
            name_offset(e, &e->items[i].access, e->items[i].depth, depth);
    }
}

/* ---- scopes ---- */

/* Loads of an IN that may share its array with an OUT go before the point's stores. */
static void need_shared(sc_kernel_printer *e, sc_knode id, uint32_t depth)
{
    const sc_kernel_node *node = &e->k->nodes.data[id];
    const sc_printer_node *info = &e->nodes[id];
    if (info->visible || info->depth < depth || node->kind == SC_NODE_running)
        return;
    if (node->kind == SC_NODE_load && e->arg_shared[node->index] && !info->has_load && !info->late)
        need(e, id, depth);
    if (sc_printer_is_cached(e, id))
        return;
    for (uint32_t i = 0; i < info->child_count; i++)
        need_shared(e, info->children[i], depth);
}

static void need_item(sc_kernel_printer *e, uint32_t item, uint32_t depth,
                      void (*what)(sc_kernel_printer *, sc_knode, uint32_t))
{
    sc_knode roots[SC_KERNEL_MAX_RANK * 4];
    uint32_t count = roots_of(e, item, roots);
    for (uint32_t i = 0; i < count; i++)
        what(e, roots[i], depth);
}

/* Emits items in order; if there are no running values or checks, everything they need is computed
 * first. */
void sc_printer_scope(sc_kernel_printer *e, uint32_t depth, uint32_t first, uint32_t end)
{
    e->scopes.visit++;
    bool in_order = false;
    for (uint32_t i = first; i < end; i++)
        in_order |= e->items[i].running ||
                    (e->k->items.data[i].kind == SC_ITEM_CHECK && e->items[i].depth == depth);
    if (!in_order) {
        for (uint32_t i = first; i < end; i++)
            need_item(e, i, depth, need);
    }
    for (uint32_t i = first; i < end; i++) {
        bool here = e->items[i].depth == depth;
        if (in_order && (here || e->items[i].depth > depth))
            need_item(e, i, depth, need);
        bool stores = sc_item_writes(e->k->items.data[i].kind);
        if (in_order && here && stores) {
            for (uint32_t j = i + 1; j < end; j++)
                need_item(e, j, depth, need_shared);
        }
        if (here)
            sc_printer_do_item(e, i);
    }
    if (depth >= e->scopes.body && depth < e->scopes.inner)
        name_offsets(e, depth, first, end);
}

void sc_printer_leave(sc_kernel_printer *e, uint32_t depth)
{
    while (e->scopes.declared.count > 0 &&
           e->scopes.declared_scopes.data[e->scopes.declared.count - 1] >= depth) {
        e->nodes[e->scopes.declared.data[--e->scopes.declared.count]].visible = false;
        e->scopes.declared_scopes.count--;
    }
    while (e->scopes.offsets.count > 0 &&
           e->scopes.offsets.data[e->scopes.offsets.count - 1].scope >= depth)
        e->scopes.offsets.count--;
}
