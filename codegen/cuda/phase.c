/* A phase as CUDA: its loops and its reductions. Item 3 reduces to r3 (s3 in f64 if a thread sums
 * many f32); then the team's threads exchange their values and all of them get the result. */
#include "codegen/cuda/internal.h"

static sc_cuda_printer *cuda_of(sc_kernel_printer *e)
{
    return (sc_cuda_printer *)e;
}

/* ---- operations and elements in CUDA ---- */

static bool is_one(const sc_kernel *k, sc_knode id)
{
    return k->nodes.data[id].kind == SC_NODE_constant && k->nodes.data[id].number == 1;
}

/* True if the node, maybe squared or negated first, is only added to 1: its absolute error then
 * counts relative to 1, as for tanh in gelu. */
static bool is_added_to_one(const sc_kernel_printer *e, sc_knode id)
{
    const sc_kernel *k = e->k;
    for (uint32_t i = 0; i < k->items.count; i++) {
        const sc_kernel_item *item = &k->items.data[i];
        bool reads = item->value == id || item->guard == id || item->shown == id;
        if (reads)
            return false;
    }
    for (sc_knode i = id + 1; i < k->nodes.count; i++) {
        const sc_kernel_node *node = &k->nodes.data[i];
        const sc_knode *operands = sc_kernel_operands(k, i);
        uint32_t named = 0;
        for (uint32_t o = 0; o < node->count; o++)
            named += operands[o] == id;
        bool adds = node->kind == SC_NODE_add && (is_one(k, operands[0]) || is_one(k, operands[1]));
        bool passes = node->kind == SC_NODE_neg || (node->kind == SC_NODE_mul && named == 2);
        if (named > 0 && e->nodes[i].uses > 0 && !adds && !(passes && is_added_to_one(e, i)))
            return false;
    }
    return true;
}

/* GPU forms with a few instructions where C has many, or a branch for exact rounding. */
static const char *of_machine(const sc_kernel_printer *e, sc_knode id)
{
    switch (e->k->nodes.data[id].kind) {
    case SC_NODE_div:
        return "sc_divide_f32($0, $1)";
    case SC_NODE_sqrt:
        return "sc_sqrt_f32($0)";
    case SC_NODE_rsqrt:
        return "sc_rsqrt_f32($0)";
    case SC_NODE_tanh:
        return is_added_to_one(e, id) ? "sc_tanh_near_one_f32($0)" : "sc_tanh_f32($0)";
    default:
        return sc_printer_template(e, id);
    }
}

static const char *operation(const sc_kernel_printer *e, sc_knode id)
{
    const sc_cuda_printer *c = (const sc_cuda_printer *)e;
    const sc_kernel_node *node = &e->k->nodes.data[id];
    if (node->dtype == SC_DTYPE_f32)
        return of_machine(e, id);
    bool whole = node->dtype == SC_DTYPE_i32 || node->dtype == SC_DTYPE_i64;
    if (!whole || node->count == 0 || sc_kernel_stays(e->k, id, c->intervals))
        return sc_printer_template(e, id);
    switch (node->kind) {
    case SC_NODE_add:
        return "sc_wrap_add($0, $1)";
    case SC_NODE_sub:
        return "sc_wrap_sub($0, $1)";
    case SC_NODE_mul:
        return "sc_wrap_mul($0, $1)";
    case SC_NODE_neg:
        return "sc_wrap_sub(0, $0)";
    case SC_NODE_abs:
        return "($0 < 0 ? sc_wrap_sub(0, $0) : $0)";
    default:
        return sc_printer_template(e, id);
    }
}

/* True if the team's threads search for the first check that fails. */
static bool finds(const sc_cuda_printer *c, uint32_t phase)
{
    return c->phases[phase].finds && c->stage.form.team_threads > 1;
}

/* Threads that wait for each other leave together: either the check is the same for all, or they
 * determine the first failure together. */
static void leave_iteration(sc_kernel_printer *e, uint32_t item)
{
    if (finds(cuda_of(e), e->items[item].phase) && e->items[item].depth > SC_CUDA_READS) {
        sc_write_line(e->out, "failed_at = point;");
        sc_write_indent(e->out);
        sc_strbuf_add(e->out->text, "failure = ");
        sc_printer_failure(e, item);
        sc_strbuf_add(e->out->text, ";\n");
        sc_write_line(e->out, "break;");
        return;
    }
    sc_write_indent(e->out);
    sc_strbuf_add(e->out->text, "sc_fail(sc_failure, (uint64_t)(");
    sc_printer_failure(e, item);
    sc_strbuf_add(e->out->text, "));\n");
    sc_write_line(e->out, "return;");
}

static void accumulator(sc_kernel_printer *e, uint32_t item)
{
    sc_printer_reduction_name(e, e->items[item].wide ? 's' : 'r', item);
}

static void reduction_index(sc_kernel_printer *e)
{
    sc_strbuf_add(e->out->text, "[lane]");
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
    if (cuda_of(e)->run_of_load[node])
        sc_strbuf_printf(e->out->text,
                         cuda_of(e)->stage.form.team == SC_CUDA_TILES ? "l%u" : "l%u[lane]", node);
    else
        memory_element(e, access, depth);
}

static void stored(sc_kernel_printer *e, const sc_printer_access *access, uint32_t depth,
                   uint32_t item)
{
    if (cuda_of(e)->run_of_item[item])
        sc_strbuf_printf(e->out->text, "w%u[lane]", item);
    else
        memory_element(e, access, depth);
}

static void cached(sc_kernel_printer *e, sc_knode node)
{
    const sc_cuda_phase *phase = &cuda_of(e)->phases[e->phase.number];
    if (phase->steps == 1)
        sc_strbuf_printf(e->out->text, phase->lanes > 1 ? "b%u[lane]" : "b%u[0]", node);
    else if (phase->lanes > 1)
        sc_strbuf_printf(e->out->text, "b%u[step * %d + lane]", node, phase->lanes);
    else
        sc_strbuf_printf(e->out->text, "b%u[step]", node);
}

static const char *const words[] = {
    "alignas",   "alignof",      "and",       "and_eq",        "at",       "bitand",
    "bitor",     "block",        "bool",      "catch",         "class",    "compl",
    "concept",   "decltype",     "delete",    "explicit",      "export",   "false",
    "friend",    "int8_t",       "int16_t",   "int32_t",       "int64_t",  "live",
    "mutable",   "namespace",    "new",       "noexcept",      "not",      "not_eq",
    "nullptr",   "operator",     "or",        "or_eq",         "part",     "point",
    "private",   "protected",    "public",    "requires",      "row",      "slot",
    "step",      "template",     "this",      "threadIdx",     "blockIdx", "blockDim",
    "gridDim",   "throw",        "true",      "try",           "typeid",   "typename",
    "uint8_t",   "uint16_t",     "uint32_t",  "uint64_t",      "using",    "virtual",
    "thread",    "some",         "wanted",    "set",           "place",    "failed_at",
    "least",     "wchar_t",      "xor",       "xor_eq",        "warpSize", "SC_KERNEL",
    "SC_DEVICE", "SC_MEMBER",    "SC_CALLED", "static_assert", "first",    "last",
    "constexpr", "thread_local", "found",     "parts",         NULL};

const sc_printer_target sc_cuda_target = {
    .letters = "vorstpqcblw",
    .words = words,
    .index_cast = "(int64_t)",
    .whole_sum = "sc_wrap_add",
    .operation = operation,
    .leave_iteration = leave_iteration,
    .accumulator = accumulator,
    .reduction_index = reduction_index,
    .loaded = loaded,
    .stored = stored,
    .cached = cached,
    .item = sc_cuda_scan_item,
};

/* ---- reductions ---- */

static void begin_reductions(sc_cuda_printer *c, uint32_t first, uint32_t end)
{
    sc_kernel_printer *e = &c->e;
    for (uint32_t i = first; i < end; i++) {
        sc_item_kind kind = e->k->items.data[i].kind;
        if (!sc_item_reduces(kind))
            continue;
        bool wide = e->items[i].wide;
        sc_dtype dtype = wide ? SC_DTYPE_f64 : sc_printer_dtype_of(e, i);
        const char *nothing = sc_printer_identity(kind, dtype), *type = sc_printer_type(dtype);
        if (e->items[i].running && sc_cuda_scans(c, e->items[i].phase))
            sc_write_line(e->out, "%s t%u = 0;", type, i);
        if (!e->items[i].of_vector) {
            sc_write_line(e->out, "%s %c%u = %s;", type, wide ? 's' : 'r', i, nothing);
            continue;
        }
        sc_write_indent(e->out);
        sc_strbuf_printf(e->out->text, "%s %c%u[%d] = {", type, wide ? 's' : 'r', i, c->lanes);
        for (int lane = 0; lane < c->lanes; lane++)
            sc_strbuf_printf(e->out->text, "%s%s", lane == 0 ? "" : ", ", nothing);
        sc_strbuf_add(e->out->text, "};\n");
    }
}

static void end_reductions(sc_cuda_printer *c, uint32_t first, uint32_t end)
{
    sc_kernel_printer *e = &c->e;
    for (uint32_t i = first; i < end; i++) {
        if (!sc_item_reduces(e->k->items.data[i].kind))
            continue;
        if (e->items[i].running && sc_cuda_scans(c, e->items[i].phase)) {
            sc_write_line(e->out, "r%u = t%u;", i, i);
            continue;
        }
        if (c->stage.form.team_threads > 1) {
            sc_cuda_exchange(c, i, e->items[i].wide ? 's' : 'r');
            c->stage.ordered =
                c->stage.form.team == SC_CUDA_COLUMNS || c->stage.form.team_threads > SC_CUDA_WARP;
        }
        if (!e->items[i].wide)
            continue;
        if (!e->items[i].of_vector) {
            sc_write_line(e->out, "const float r%u = (float)s%u;", i, i);
            continue;
        }
        sc_write_line(e->out, "float r%u[%d];", i, c->lanes);
        sc_write_line(e->out, "#pragma unroll");
        sc_write_line(e->out, "for (int lane = 0; lane < %d; lane++)", c->lanes);
        sc_write_line(e->out, "    r%u[lane] = (float)s%u[lane];", i, i);
    }
}

/* ---- checks ---- */

static void begin_finding(sc_cuda_printer *c, uint32_t phase)
{
    if (!finds(c, phase))
        return;
    sc_write_open_block(c->e.out);
    sc_write_line(c->e.out, "%s failed_at = %lld;", sc_cuda_index_type(c),
                  (long long)c->phases[phase].points);
    sc_write_line(c->e.out, "int64_t failure = 0;");
}

/* Each thread has stopped at its first failure; the first of all is reported, and the team
 * leaves. */
static void end_finding(sc_cuda_printer *c, uint32_t phase_index)
{
    sc_kernel_printer *e = &c->e;
    if (!finds(c, phase_index))
        return;
    long long points = c->phases[phase_index].points;
    sc_write_line(e->out, "const %s least = sc_over_team<sc_min, %d>(failed_at, %d);",
                  sc_cuda_index_type(c), c->stage.form.team_threads, sc_cuda_next_slot(c));
    sc_write_line(e->out, "if (failed_at == least && least < %lld)", points);
    sc_write_line(e->out, "    sc_fail(sc_failure, (uint64_t)failure);");
    sc_write_line(e->out, "if (least < %lld)", points);
    sc_write_line(e->out, "    return;");
    sc_write_close(e->out);
}

/* ---- loops ---- */

static void open_serial(sc_cuda_printer *c, const sc_kernel_phase *phase)
{
    sc_kernel_printer *e = &c->e;
    const char *type = sc_cuda_index_type(c);
    for (uint32_t i = 0; i < phase->dim_count; i++) {
        const char *name = e->dim_names[phase->dims[i]];
        long long size = e->k->dims.data[phase->dims[i]].size;
        sc_write_open(e->out, "for (%s %s = 0; %s < %lld; %s++)", type, name, name, size, name);
    }
}

enum { UNROLLED = 64 /* most elements of a thread in flight */ };

/* Unrolls as many points of the phase as their loads leave registers for. */
static void unroll(sc_cuda_printer *c, uint32_t phase)
{
    const sc_kernel_printer *e = &c->e;
    int loads = 1, points = c->limits->unroll;
    for (sc_knode i = 0; i < e->k->nodes.count; i++)
        loads += e->k->nodes.data[i].kind == SC_NODE_load && e->nodes[i].pass == e->scopes.pass &&
                 e->nodes[i].depth >= SC_CUDA_POINT;
    while (points > 1 && points * loads * c->phases[phase].lanes > UNROLLED)
        points /= 2;
    if (points > 1)
        sc_write_line(e->out, "#pragma unroll %d", points);
}

/* True if threads beyond the last team must skip the phase's points. Without stores they repeat the
 * last team's work, as its results may determine later loads. */
static bool is_for_live(const sc_cuda_printer *c, uint32_t phase_index)
{
    const sc_kernel *k = c->e.k;
    const sc_kernel_phase *phase = &k->phases.data[phase_index];
    for (uint32_t i = phase->first_item; i < phase->first_item + phase->item_count; i++) {
        if (c->stage.form.live && !sc_item_reduces(k->items.data[i].kind))
            return true;
    }
    return false;
}

/* Opens the loop over a thread's points, strided by the team's size. */
static void open_shared(sc_cuda_printer *c, uint32_t phase_index)
{
    sc_kernel_printer *e = &c->e;
    const sc_cuda_phase *phase = &c->phases[phase_index];
    const char *type = sc_cuda_index_type(c);
    long long points = phase->points;
    bool live = is_for_live(c, phase_index);
    if (c->stage.form.parts > 1) {
        unroll(c, phase_index);
        sc_write_open(e->out, "for (%s point = %s; point < last; point += %d)", type,
                      c->stage.form.live ? "live ? first + thread : last" : "first + thread",
                      c->stage.form.team_threads);
        sc_cuda_point_indices(c, phase_index);
        return;
    }
    if (e->k->phases.data[phase_index].dim_count == 0) {
        sc_write_open(e->out, c->stage.form.live ? "if (thread == 0 && live)" : "if (thread == 0)");
        return;
    }
    if (phase->steps > 0) {
        bool whole = phase->steps * c->stage.form.team_threads == points && !live;
        if (phase->steps > 1) {
            sc_write_line(e->out, "#pragma unroll");
            sc_write_open(e->out, "for (int step = 0; step < %lld; step++)",
                          (long long)phase->steps);
            sc_write_line(e->out, "const %s point = thread + step * %d;", type,
                          c->stage.form.team_threads);
        } else {
            sc_write_open_block(e->out);
            sc_write_line(e->out, "const %s point = thread;", type);
        }
        if (!whole) {
            sc_write_open(e->out, live ? "if (point < %lld && live)" : "if (point < %lld)", points);
        }
    } else {
        if (points > c->stage.form.team_threads)
            unroll(c, phase_index);
        const char *from =
            live ? sc_arena_printf(e->arena, "live ? thread : %lld", points) : "thread";
        sc_write_open(e->out, "for (%s point = %s; point < %lld; point += %d)", type, from, points,
                      c->stage.form.team_threads);
    }
    sc_cuda_point_indices(c, phase_index);
}

/* Opens the loops over the points that the thread takes. */
static void open_points(sc_cuda_printer *c, uint32_t phase_index)
{
    if (c->stage.form.scatters)
        sc_cuda_open_scatter(c, phase_index);
    else if (sc_cuda_scans(c, phase_index))
        sc_cuda_open_scan(c, phase_index);
    else if (c->stage.form.team_threads == 1)
        open_serial(c, &c->e.k->phases.data[phase_index]);
    else
        open_shared(c, phase_index);
}

static void plan_items(sc_cuda_printer *c, uint32_t phase_index)
{
    sc_kernel_printer *e = &c->e;
    const sc_kernel *k = e->k;
    const sc_kernel_phase *phase = &k->phases.data[phase_index];
    for (uint32_t i = phase->first_item; i < phase->first_item + phase->item_count; i++) {
        sc_printer_item *item = &e->items[i];
        bool reduces = sc_item_reduces(k->items.data[i].kind);
        uint32_t vector = e->shape.vector;
        item->of_vector = vector != SC_NONE && reduces &&
                          (e->nodes[k->items.data[i].value].dims >> vector & 1) != 0;
        item->depth =
            reduces && vector != SC_NONE && !item->of_vector ? SC_CUDA_POINT : SC_CUDA_LANES;
        bool sum =
            k->items.data[i].kind == SC_ITEM_SUM && sc_printer_dtype_of(e, i) == SC_DTYPE_f32;
        item->wide = sum && (item->running || c->phases[phase_index].points / c->stage.form.parts /
                                                      c->stage.form.team_threads >
                                                  c->limits->few);
    }
}

static void declare_row_cache(sc_cuda_printer *c, uint32_t phase)
{
    const sc_kernel_printer *e = &c->e;
    for (sc_knode i = 0; i < e->k->nodes.count; i++) {
        if (e->nodes[i].cached_from == phase)
            sc_write_line(c->e.out, "%s b%u[%lld];",
                          sc_printer_type((sc_dtype)e->k->nodes.data[i].dtype), i,
                          (long long)c->phases[phase].steps * c->phases[phase].lanes);
    }
}

static void sync(sc_cuda_printer *c)
{
    if (c->exchange && !c->stage.ordered)
        sc_write_line(c->e.out, c->stage.form.team == SC_CUDA_ROWS &&
                                        c->stage.form.team_threads <= SC_CUDA_WARP
                                    ? "sc_sync_warp();"
                                    : "sc_sync();");
}

void sc_cuda_phase_text(sc_cuda_printer *c, uint32_t phase_index)
{
    sc_kernel_printer *e = &c->e;
    const sc_kernel *k = e->k;
    const sc_kernel_phase *phase = &k->phases.data[phase_index];
    uint32_t first = phase->first_item, end = first + phase->item_count;
    uint32_t dim = sc_cuda_lane_dim(c, phase_index);
    e->phase.number = phase_index;
    e->scopes.inner = SC_CUDA_LANES;
    e->scopes.dims[SC_CUDA_READS] = 0;
    e->scopes.dims[SC_CUDA_POINT] = sc_kernel_phase_dims(k, phase_index);
    e->scopes.dims[SC_CUDA_LANES] =
        dim == SC_NONE ? e->scopes.dims[SC_CUDA_POINT] : (uint64_t)1 << dim;
    e->scopes.dims[SC_CUDA_POINT] &= ~e->scopes.dims[SC_CUDA_LANES];
    plan_items(c, phase_index);
    sc_printer_place(e, first, end, e->scopes.floors[phase_index]);
    if (phase_index > c->stage.form.first)
        sync(c);
    c->stage.ordered = phase_index > c->stage.form.first;
    declare_row_cache(c, phase_index);
    begin_reductions(c, first, end);
    size_t before = e->out->text->length;
    sc_printer_scope(e, SC_CUDA_BODY, first, end);
    const bool scans = sc_cuda_scans(c, phase_index);
    bool block = scans || (phase->dim_count == 0 && c->stage.form.team_threads == 1);
    for (sc_knode i = 0; i < k->nodes.count; i++)
        block |= e->nodes[i].pass == e->scopes.pass && e->nodes[i].depth == SC_CUDA_READS;
    if (block)
        sc_write_open_block(e->out);
    sc_printer_scope(e, SC_CUDA_READS, first, end);
    c->stage.ordered = c->stage.ordered && e->out->text->length == before;
    bool single = c->phases[phase_index].points *
                      (e->shape.vector == SC_NONE ? c->phases[phase_index].lanes : 1) ==
                  1;
    if (single) /* all threads have read what one thread now writes */
        sync(c);
    begin_finding(c, phase_index);
    const uint32_t depth = e->out->depth;
    open_points(c, phase_index);
    sc_cuda_point_text(c, phase_index, first, end);
    c->stage.ordered = false;
    sc_write_close_to(e->out, depth);
    if (scans && c->slot_bytes > 0) { /* how many slots were used is not known */
        sc_write_line(e->out, "sc_sync();");
        c->stage.ordered = true;
    }
    end_finding(c, phase_index);
    if (block)
        sc_write_close(e->out);
    sc_printer_leave(e, SC_CUDA_READS);
    end_reductions(c, first, end);
}
