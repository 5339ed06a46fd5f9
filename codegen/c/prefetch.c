/* Software prefetch during compute-bound phases.
 *
 * The phases of a row alternate: the first waits for memory, exponentials keep the CPU busy while
 * memory idles, and the last waits again for its stores. So the first phase with an expensive op
 * prefetches, one group of lanes at a time, the next row of what earlier phases load, and this row
 * of what later phases load and store:
 *
 *     for (D_at = 0; D_at < 768; D_at += 32) {
 *       __builtin_prefetch(x + R_next * 768 + D_at, 0, 2);
 *       ..
 *       __builtin_prefetch(y + R * 768 + D_at, 1);
 *       for (lane = 0; lane < 32; lane++)
 *         ..
 *     }
 *
 * Arrays that fit in a cache are not prefetched, nor rows that would evict data in use. R_next is R
 * in the last row. */
#include "codegen/c/internal.h"

enum { MOST_PREFETCHED = 4 /* arrays at once */, LINE = 64 /* bytes */, FEWEST_ROWS = 8 };

static bool is_store(const sc_kernel_printer *e, uint32_t item)
{
    return e->k->items.data[item].kind == SC_ITEM_STORE && e->k->items.data[item].guard == SC_NONE;
}

static uint32_t next_dim(const sc_kernel_printer *e)
{
    return e->shape.order[e->shape.order_count - 1];
}

/* True if the phase walks one row of the array, and the next outer iteration the next row. */
static bool is_row(const sc_kernel_printer *e, const sc_printer_access *access)
{
    const sc_kernel_arg *arg = &e->k->args.data[access->arg];
    uint32_t dim = e->k->phases.data[e->prefetch_phase].dims[0];
    int64_t bytes = sc_dtypes[arg->dtype].bytes, row = bytes * e->k->dims.data[dim].size;
    for (uint32_t i = 0; i < arg->rank; i++)
        bytes *= arg->sizes[i];
    bool plain = access->count > 0;
    for (uint32_t i = 0; i < access->count; i++) {
        const sc_printer_term *term = &access->terms[i];
        plain =
            plain && (term->dim != SC_NONE ? term->dim == dim || term->dim < e->k->outer_count
                                           : e->k->nodes.data[term->node].kind == SC_NODE_param);
    }
    return plain && sc_printer_stride(e, access, dim) == 1 &&
           sc_printer_stride(e, access, next_dim(e)) != 0 &&
           e->phase.lanes * sc_dtypes[arg->dtype].bytes >= LINE && row <= e->limits->prefetch_row &&
           bytes >= e->limits->prefetch_array;
}

void sc_c_choose_prefetch(sc_kernel_printer *e)
{
    const sc_kernel *k = e->k;
    const sc_printer_shape *shape = &e->shape;
    e->prefetch_phase = SC_NONE;
    for (sc_knode i = 0; i < k->nodes.count; i++)
        e->nodes[i].first_phase = SC_NONE;
    if (shape->vector != SC_NONE || shape->split || shape->order_count == 0 ||
        k->dims.data[next_dim(e)].size < FEWEST_ROWS)
        return;
    e->scopes.body = 0, e->scopes.inner = 0;
    for (uint32_t p = 0; p < k->phases.count; p++) {
        const sc_kernel_phase *phase = &k->phases.data[p];
        sc_printer_place(e, phase->first_item, phase->first_item + phase->item_count, 0);
        for (sc_knode i = 0; i < k->nodes.count; i++) {
            if (e->nodes[i].pass != e->scopes.pass || e->nodes[i].first_phase != SC_NONE)
                continue;
            e->nodes[i].first_phase = p;
            if (e->prefetch_phase == SC_NONE && phase->dim_count == 1 &&
                sc_printer_is_expensive((sc_node_kind)k->nodes.data[i].kind) &&
                sc_printer_depends_on_all(e, i, p))
                e->prefetch_phase = p;
        }
    }
}

/* Emits prefetches of the row's elements for the lanes that begin at `at`. */
static void fetch(sc_kernel_printer *e, const sc_printer_access *access, const char *at, bool next,
                  const char *how)
{
    uint32_t dim = e->k->phases.data[e->prefetch_phase].dims[0];
    int64_t bytes = sc_dtypes[e->k->args.data[access->arg].dtype].bytes,
            lines = (e->phase.lanes * bytes + LINE - 1) / LINE;
    for (int64_t line = 0; line < lines; line++) {
        int64_t constant = access->constant + line * LINE / bytes;
        sc_write_indent(e->out);
        sc_strbuf_printf(e->out->text, "__builtin_prefetch(%s", e->arg_names[access->arg]);
        for (uint32_t i = 0; i < access->count; i++) {
            const sc_printer_term *term = &access->terms[i];
            sc_strbuf_add(e->out->text, " + ");
            if (term->dim == SC_NONE)
                sc_printer_value(e, term->node, false);
            else
                sc_strbuf_printf(e->out->text, "%s%s",
                                 term->dim == dim ? at : e->dim_names[term->dim],
                                 next && term->dim == next_dim(e) ? "_next" : "");
            if (term->times != 1)
                sc_strbuf_printf(e->out->text, " * %lld", (long long)term->times);
        }
        if (constant != 0)
            sc_strbuf_printf(e->out->text, " + %lld", (long long)constant);
        sc_strbuf_printf(e->out->text, ", %s);\n", how);
    }
}

static bool same_row(const sc_printer_access *a, const sc_printer_access *b)
{
    bool same = a->arg == b->arg && a->constant == b->constant && a->count == b->count;
    for (uint32_t i = 0; same && i < a->count; i++)
        same = a->terms[i].dim == b->terms[i].dim && a->terms[i].node == b->terms[i].node &&
               a->terms[i].times == b->terms[i].times;
    return same;
}

typedef struct sc_rows {
    struct {
        const sc_printer_access *access;
        bool next, stored;
    } rows[MOST_PREFETCHED];
    uint32_t count;
} sc_rows;

static void add_row(const sc_kernel_printer *e, sc_rows *rows, const sc_printer_access *access,
                    bool next, bool stored)
{
    bool known = !is_row(e, access);
    for (uint32_t i = 0; i < rows->count; i++)
        known |= same_row(rows->rows[i].access, access);
    if (known || rows->count == MOST_PREFETCHED)
        return;
    rows->rows[rows->count].access = access;
    rows->rows[rows->count].next = next;
    rows->rows[rows->count++].stored = stored;
}

/* Rows that earlier phases load come first: these phases wait for memory. */
static sc_rows rows_of(const sc_kernel_printer *e)
{
    const sc_kernel *k = e->k;
    sc_rows rows = {.count = 0};
    for (int before = 1; before >= 0; before--) {
        for (sc_knode i = 0; i < k->nodes.count; i++) {
            const sc_printer_node *info = &e->nodes[i];
            const sc_kernel_node *node = &k->nodes.data[i];
            bool load = node->kind == SC_NODE_load && info->first_phase != SC_NONE &&
                        node->count == k->args.data[node->index].rank;
            if (load && info->first_phase != e->prefetch_phase &&
                (info->first_phase < e->prefetch_phase) == before)
                add_row(e, &rows, &info->access, before, false);
        }
    }
    for (uint32_t i = 0; i < k->items.count; i++) {
        if (is_store(e, i) && e->items[i].phase > e->prefetch_phase)
            add_row(e, &rows, &e->items[i].access, false, true);
    }
    return rows;
}

void sc_c_prefetch_begin(sc_kernel_printer *e)
{
    if (e->phase.number != e->prefetch_phase || e->phase.lanes == 0)
        return;
    sc_rows rows = rows_of(e);
    bool next = false;
    for (uint32_t i = 0; i < rows.count; i++)
        next |= rows.rows[i].next;
    const char *name = e->dim_names[next_dim(e)];
    if (next)
        sc_write_line(e->out, "const int64_t %s_next = %s < %lld ? %s + 1 : %s;", name, name,
                      (long long)e->k->dims.data[next_dim(e)].size - 1, name, name);
}

void sc_c_prefetch(sc_kernel_printer *e, const char *at)
{
    if (e->phase.number != e->prefetch_phase)
        return;
    sc_rows rows = rows_of(e);
    for (uint32_t i = 0; i < rows.count; i++)
        fetch(e, rows.rows[i].access, at, rows.rows[i].next, rows.rows[i].stored ? "1" : "0, 2");
}
