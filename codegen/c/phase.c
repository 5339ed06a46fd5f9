/* A phase: its loops and its reductions.
 *
 * Item 3 reduces to r3. A row is reduced in parallel accumulators, t3[32], which are combined by
 * halves at the end: this many independent chains keep a CPU busy, and their number does not depend
 * on its vector width. A long f32 sum is s3, in f64, over partial sums t3 of the innermost loop, in
 * pieces if that is long. If the innermost loop is over an outer dim, reductions are arrays over a
 * block of it, so that memory is walked along rows whichever way the reduction runs. */
#include "codegen/c/internal.h"

enum { MANY_LANES = 32, FEW_LANES = 8, DEEPEST = 8 /* nodes that is_exact looks through */ };

typedef struct sc_c_loops {
    uint32_t dims[SC_KERNEL_MAX_RANK + 1], count;
    uint32_t part; /* the loop whose sums are partial sums */
    bool parts, pieces;
    int64_t piece;
    uint32_t first, end; /* items */
} sc_c_loops;

/* ---- operations and elements in C ---- */

/* True if the node has the same value wherever it is recomputed: compilers may contract a
 * floating-point multiplication with an addition in one place and not in another. Looks at most
 * `depth` levels down. */
static bool is_exact(const sc_kernel_printer *e, sc_knode id, uint32_t depth)
{
    const sc_kernel_node *node = &e->k->nodes.data[id];
    bool chooses =
        node->kind == SC_NODE_where || node->kind == SC_NODE_load || node->kind == SC_NODE_constant;
    bool exact = depth > 0 && !e->nodes[id].late && !e->nodes[id].reads_written &&
                 (chooses || !sc_dtype_is_float((sc_dtype)node->dtype));
    for (uint32_t i = 0; exact && i < node->count; i++)
        exact = is_exact(e, e->k->operands.data[node->first + i], depth - 1);
    return exact;
}

/* True for x - max(x): at most 0, or NaN. */
static bool is_below(const sc_kernel_printer *e, sc_knode id)
{
    const sc_kernel *k = e->k;
    const sc_kernel_node *node = &k->nodes.data[id];
    if (node->kind != SC_NODE_sub)
        return false;
    sc_knode x = k->operands.data[node->first];
    const sc_kernel_node *largest = &k->nodes.data[k->operands.data[node->first + 1]];
    if (largest->kind != SC_NODE_reduced)
        return false;
    const sc_kernel_item *item = &k->items.data[largest->index];
    return item->kind == SC_ITEM_MAX && item->value == x && is_exact(e, x, DEEPEST);
}

/* exp has a cheaper form for arguments known not to exceed 0. */
static const char *operation(const sc_kernel_printer *e, sc_knode id)
{
    const sc_kernel_node *node = &e->k->nodes.data[id];
    bool below = node->kind == SC_NODE_exp && node->dtype == SC_DTYPE_f32 &&
                 is_below(e, e->k->operands.data[node->first]);
    return below ? "sc_exp_below_f32($0)" : sc_printer_template(e, id);
}

static void leave_iteration(sc_kernel_printer *e, uint32_t item)
{
    uint32_t depth = e->items[item].depth;
    bool lane = e->shape.vector != SC_NONE && (e->scopes.dims[depth] >> e->shape.vector & 1) != 0 &&
                depth > e->scopes.body;
    if (depth == 0 || (e->scopes.body == 0 && !lane)) {
        sc_write_indent(e->out);
        sc_strbuf_add(e->out->text, "return ");
        sc_printer_failure(e, item);
        sc_strbuf_add(e->out->text, ";\n");
        return;
    }
    sc_write_indent(e->out);
    sc_strbuf_add(e->out->text, "const int64_t failure = ");
    sc_printer_failure(e, item);
    sc_strbuf_add(e->out->text, ";\n");
    sc_write_line(e->out, "failed = failed < failure ? failed : failure;");
    bool near = depth <= e->scopes.body + 1 || lane;
    sc_write_line(e->out, near ? "continue;" : "goto next;");
    e->scopes.leaves |= !near;
}

/* Emits the variable that the innermost loop accumulates in. */
static void accumulator(sc_kernel_printer *e, uint32_t id)
{
    const sc_printer_item *info = &e->items[id];
    bool lanes = e->phase.lanes > 0 && info->depth == e->scopes.inner;
    if (lanes)
        sc_strbuf_printf(e->out->text, "t%u[lane]", id);
    else
        sc_printer_reduction_name(e, (char)(info->parts ? 't' : info->wide ? 's' : 'r'), id);
}

static void reduction_index(sc_kernel_printer *e)
{
    const char *name = e->dim_names[e->shape.vector];
    bool blocked = e->shape.block < e->k->dims.data[e->shape.vector].size;
    sc_strbuf_printf(e->out->text, blocked ? "[%s - %s_from]" : "[%s]", name, name);
}

static void memory_element(sc_kernel_printer *e, const sc_printer_access *access, uint32_t depth)
{
    sc_strbuf_printf(e->out->text, "%s[", e->arg_names[access->arg]);
    sc_printer_offset_text(e, access, depth);
    sc_strbuf_add_char(e->out->text, ']');
}

static void loaded(sc_kernel_printer *e, const sc_printer_access *access, uint32_t depth,
                   uint32_t node)
{
    if (e->nodes[node].transposed)
        sc_c_transposed_element(e, 'q', node, access->arg, true);
    else
        memory_element(e, access, depth);
}

static void stored(sc_kernel_printer *e, const sc_printer_access *access, uint32_t depth,
                   uint32_t item)
{
    if (e->k->items.data[item].kind == SC_ITEM_STORE &&
        (e->items[item].transposed || e->items[item].streamed))
        sc_c_transposed_element(e, 'w', item, access->arg, e->items[item].transposed);
    else
        memory_element(e, access, depth);
}

const sc_printer_target sc_c_target = {
    .letters = "vorstpqcbw",
    .index_cast = "",
    .operation = operation,
    .leave_iteration = leave_iteration,
    .accumulator = accumulator,
    .reduction_index = reduction_index,
    .loaded = loaded,
    .stored = stored,
    .cached = sc_c_cached_element,
};

/* ---- accumulators ---- */

/* True if the item uses parallel accumulators in this phase. */
static bool in_lanes(const sc_kernel_printer *e, uint32_t item)
{
    return e->phase.lanes > 0 && e->items[item].depth == e->scopes.inner;
}

static void declare_accumulator(sc_kernel_printer *e, uint32_t item, char letter, sc_dtype dtype,
                                int64_t count)
{
    sc_item_kind kind = e->k->items.data[item].kind;
    const char *type = sc_printer_type(dtype), *nothing = sc_printer_identity(kind, dtype);
    if (count == 0) {
        sc_write_line(e->out, "%s %c%u = %s;", type, letter, item, nothing);
    } else if (kind == SC_ITEM_SUM) {
        sc_write_line(e->out, "%s %c%u[%lld] = {0};", type, letter, item, (long long)count);
    } else {
        sc_write_line(e->out, "%s %c%u[%lld];", type, letter, item, (long long)count);
        sc_write_line(e->out, "for (int64_t i = 0; i < %lld; i++)", (long long)count);
        sc_write_line(e->out, "    %c%u[i] = %s;", letter, item, nothing);
    }
}

static void begin_reductions(sc_kernel_printer *e, const sc_c_loops *loops)
{
    for (uint32_t i = loops->first; i < loops->end; i++) {
        if (!sc_item_reduces(e->k->items.data[i].kind))
            continue;
        int64_t block = e->items[i].of_vector ? e->shape.block : 0;
        if (e->items[i].wide)
            declare_accumulator(e, i, 's', SC_DTYPE_f64, block);
        else if (in_lanes(e, i))
            declare_accumulator(e, i, 't', sc_printer_dtype_of(e, i), e->phase.lanes);
        else
            declare_accumulator(e, i, 'r', sc_printer_dtype_of(e, i), block);
    }
}

static const char *folded(sc_kernel_printer *e, uint32_t item)
{
    sc_item_kind kind = e->k->items.data[item].kind;
    char how = (char)(kind == SC_ITEM_SUM ? '+' : kind == SC_ITEM_MAX ? '>' : '<');
    return sc_arena_printf(e->arena, "sc_lanes_%s(t%u, %d, '%c')",
                           sc_dtypes[sc_printer_dtype_of(e, item)].name, item, (int)e->phase.lanes,
                           how);
}

static void end_reductions(sc_kernel_printer *e, const sc_c_loops *loops)
{
    for (uint32_t i = loops->first; i < loops->end; i++) {
        if (!sc_item_reduces(e->k->items.data[i].kind))
            continue;
        if (e->items[i].wide && e->items[i].of_vector) {
            sc_write_line(e->out, "float r%u[%lld];", i, (long long)e->shape.block);
            sc_write_line(e->out, "for (int64_t i = 0; i < %lld; i++)", (long long)e->shape.block);
            sc_write_line(e->out, "    r%u[i] = (float)s%u[i];", i, i);
        } else if (e->items[i].wide) {
            sc_write_line(e->out, "const float r%u = (float)s%u;", i, i);
        } else if (in_lanes(e, i)) {
            sc_write_line(e->out, "const %s r%u = %s;", sc_printer_type(sc_printer_dtype_of(e, i)),
                          i, folded(e, i));
        }
    }
}

static void begin_parts(sc_kernel_printer *e, const sc_c_loops *loops)
{
    for (uint32_t i = loops->first; i < loops->end; i++) {
        if (e->items[i].parts)
            declare_accumulator(e, i, 't', SC_DTYPE_f32,
                                in_lanes(e, i)          ? e->phase.lanes
                                : e->items[i].of_vector ? e->shape.block
                                                        : 0);
    }
}

static void end_parts(sc_kernel_printer *e, const sc_c_loops *loops)
{
    for (uint32_t i = loops->first; i < loops->end; i++) {
        if (!e->items[i].parts)
            continue;
        if (e->items[i].of_vector) {
            sc_write_line(e->out, "for (int64_t i = 0; i < %lld; i++)", (long long)e->shape.block);
            sc_write_line(e->out, "    s%u[i] += (double)t%u[i];", i, i);
        } else if (in_lanes(e, i)) {
            sc_write_line(e->out, "s%u += (double)%s;", i, folded(e, i));
        } else {
            sc_write_line(e->out, "s%u += (double)t%u;", i, i);
        }
    }
}

/* ---- loops ---- */

/* The innermost loop with parallel accumulators: full groups, then the rest. */
static void lane_loops(sc_kernel_printer *e, const sc_c_loops *loops, const char *from,
                       const char *to)
{
    uint32_t dim = loops->dims[loops->count - 1];
    const char *name = e->dim_names[dim];
    long long lanes = e->phase.lanes, size = e->k->dims.data[dim].size;
    bool fixed = from[0] == '0' && from[1] == 0 && to[0] <= '9';
    bool whole = size % lanes == 0 && (dim != e->phase.cut || e->phase.cut_size % lanes == 0) &&
                 (!loops->parts || !loops->pieces || loops->piece % lanes == 0);
    const char *main_end = to;
    if (!whole && fixed) {
        main_end = sc_arena_printf(e->arena, "%lld", size / lanes * lanes);
    } else if (!whole) {
        main_end = sc_arena_printf(e->arena, "%s_main", name);
        sc_write_line(e->out, "const int64_t %s_main = %s + (%s - %s) / %lld * %lld;", name, from,
                      to, from, lanes, lanes);
    }
    sc_c_prefetch_begin(e);
    sc_write_open(e->out, "for (int64_t %s_at = %s; %s_at < %s; %s_at += %lld)", name, from, name,
                  main_end, name, lanes);
    sc_c_prefetch(e, sc_arena_printf(e->arena, "%s_at", name));
    sc_write_line(e->out, "#pragma omp simd");
    for (int rest = 0; rest <= !whole; rest++) {
        if (rest == 0)
            sc_write_open(e->out, "for (int64_t lane = 0; lane < %lld; lane++)", lanes);
        else
            sc_write_open(e->out, "for (int64_t lane = 0; lane < %s - %s; lane++)", to, main_end);
        if (rest == 0)
            sc_write_line(e->out, "const int64_t %s = %s_at + lane;", name, name);
        else
            sc_write_line(e->out, "const int64_t %s = %s + lane;", name, main_end);
        sc_printer_scope(e, e->scopes.inner, loops->first, loops->end);
        sc_printer_leave(e, e->scopes.inner);
        sc_write_close(e->out);
        if (rest == 0)
            sc_write_close(e->out);
    }
}

static void open_loop(sc_kernel_printer *e, const sc_c_loops *loops, uint32_t l)
{
    uint32_t dim = loops->dims[l];
    const char *name = e->dim_names[dim];
    int64_t size = e->k->dims.data[dim].size;
    const char *from = "0", *to = sc_arena_printf(e->arena, "%lld", (long long)size);
    if (dim == e->shape.vector && e->shape.block < size) {
        from = sc_arena_printf(e->arena, "%s_from", name);
        to = sc_arena_printf(e->arena, "%s_to", name);
    } else if (dim == e->phase.cut) {
        from = sc_arena_printf(e->arena, "%s_first", name);
        to = sc_arena_printf(e->arena, "%s_end", name);
    }
    if (loops->parts && l == loops->part) {
        if (loops->pieces) {
            long long piece = loops->piece;
            sc_write_open(e->out, "for (int64_t %s_from = %s; %s_from < %s; %s_from += %lld)", name,
                          from, name, to, name, piece);
            sc_write_line(e->out,
                          "const int64_t %s_to = %s_from < %s - %lld ? %s_from + %lld : %s;", name,
                          name, to, piece, name, piece, to);
            from = sc_arena_printf(e->arena, "%s_from", name);
            to = sc_arena_printf(e->arena, "%s_to", name);
        }
        begin_parts(e, loops);
    }
    bool innermost = l + 1 == loops->count;
    if (innermost && e->phase.lanes > 0) {
        lane_loops(e, loops, from, to);
        return;
    }
    if (innermost && e->phase.simd)
        sc_write_line(e->out, "#pragma omp simd");
    sc_write_open(e->out, "for (int64_t %s = %s; %s < %s; %s++)", name, from, name, to, name);
    sc_printer_scope(e, e->scopes.body + 2 + l, loops->first, loops->end);
}

static void close_loop(sc_kernel_printer *e, const sc_c_loops *loops, uint32_t l)
{
    if (l + 1 < loops->count || e->phase.lanes == 0)
        sc_write_close(e->out);
    if (!loops->parts || l != loops->part)
        return;
    end_parts(e, loops);
    if (loops->pieces)
        sc_write_close(e->out);
}

/* Reductions of rows use parallel accumulators; a row too short for that is reduced in order. */
static void plan_lanes(sc_kernel_printer *e, const sc_c_loops *loops)
{
    bool any = false;
    e->phase.lanes = 0;
    for (uint32_t i = loops->first; i < loops->end; i++)
        any |= sc_item_reduces(e->k->items.data[i].kind);
    if (!any || !e->phase.simd || e->shape.vector != SC_NONE)
        return;
    uint32_t dim = loops->dims[loops->count - 1];
    int64_t size = dim == e->phase.cut ? e->phase.cut_size : e->k->dims.data[dim].size;
    e->phase.lanes = size >= 4 * MANY_LANES ? MANY_LANES : size >= 2 * FEW_LANES ? FEW_LANES : 0;
    e->phase.simd = e->phase.lanes > 0;
}

static void plan_loops(sc_kernel_printer *e, uint32_t phase_index, sc_c_loops *loops)
{
    const sc_kernel *k = e->k;
    const sc_kernel_phase *phase = &k->phases.data[phase_index];
    bool rows = e->shape.vector == SC_NONE;
    int64_t points = 1;
    *loops = (sc_c_loops){.first = phase->first_item, .end = phase->first_item + phase->item_count};
    for (uint32_t i = 0; i < phase->dim_count; i++) {
        loops->dims[loops->count++] = phase->dims[i];
        points *=
            phase->dims[i] == e->phase.cut ? e->phase.cut_size : k->dims.data[phase->dims[i]].size;
    }
    loops->part = loops->count - 1;
    loops->piece = rows ? e->limits->piece : e->limits->piece_rows;
    if (loops->count > 0) {
        uint32_t dim = loops->dims[loops->part];
        loops->pieces =
            (dim == e->phase.cut ? e->phase.cut_size : k->dims.data[dim].size) > 2 * loops->piece;
    }
    if (!rows)
        loops->dims[loops->count++] = e->shape.vector;
    e->phase.simd =
        loops->count > 0 && sc_printer_may_vectorise(e, phase_index, loops->dims[loops->count - 1]);
    e->scopes.inner = loops->count > 0 ? e->scopes.body + 1 + loops->count
                      : e->writes_read ? e->scopes.body + 1
                                       : e->scopes.body;
    if (e->scopes.inner > e->scopes.body)
        e->scopes.dims[e->scopes.body + 1] = 0;
    for (uint32_t i = 0; i < loops->count; i++)
        e->scopes.dims[e->scopes.body + 2 + i] = (uint64_t)1 << loops->dims[i];
    for (uint32_t i = loops->first; i < loops->end; i++) {
        sc_printer_item *item = &e->items[i];
        item->depth = e->scopes.inner;
        item->of_vector = !rows && sc_item_reduces(k->items.data[i].kind) &&
                          (e->nodes[k->items.data[i].value].dims >> e->shape.vector & 1) != 0;
        if (!rows && sc_item_reduces(k->items.data[i].kind) && !item->of_vector)
            item->depth--;
        bool sum =
            k->items.data[i].kind == SC_ITEM_SUM && sc_printer_dtype_of(e, i) == SC_DTYPE_f32;
        item->parts =
            sum && !item->running && points > (rows ? e->limits->few : e->limits->few_rows);
        item->wide = item->parts || (sum && item->running);
        loops->parts |= item->parts;
    }
    plan_lanes(e, loops);
}

/* True if the current pass places a node in the scope inside the body. */
static bool has_inner_nodes(const sc_kernel_printer *e)
{
    for (sc_knode i = 0; i < e->k->nodes.count; i++) {
        if (e->nodes[i].pass == e->scopes.pass && e->nodes[i].depth == e->scopes.body + 1)
            return true;
    }
    return false;
}

void sc_c_phase(sc_kernel_printer *e, uint32_t phase)
{
    sc_c_loops loops;
    e->phase.number = phase;
    plan_loops(e, phase, &loops);
    sc_printer_place(e, loops.first, loops.end, e->scopes.floors[phase]);
    sc_c_declare_row_cache(e);
    begin_reductions(e, &loops);
    sc_printer_scope(e, e->scopes.body, loops.first, loops.end);
    bool has_inner = e->scopes.inner > e->scopes.body;
    bool block = has_inner && (loops.count == 0 || has_inner_nodes(e));
    if (block)
        sc_write_open_block(e->out);
    if (has_inner)
        sc_printer_scope(e, e->scopes.body + 1, loops.first, loops.end);
    for (uint32_t l = 0; l < loops.count; l++)
        open_loop(e, &loops, l);
    for (uint32_t l = loops.count; l-- > 0;)
        close_loop(e, &loops, l);
    if (block)
        sc_write_close(e->out);
    sc_printer_leave(e, e->scopes.body + 1);
    end_reductions(e, &loops);
}
