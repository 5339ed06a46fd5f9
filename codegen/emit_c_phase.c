/* A phase: its loops, and what becomes of its reductions.
 *
 * Item 3 reduces to r3. A sum of many f32 is s3, in f64, of sums t3 of parts: of the innermost loop, in pieces if that is long. Where the
 * innermost loop is over an outer dim, these are arrays over a block of it, and memory is walked along rows however the reduction lies. */
#include "codegen/emit_c_internal.h"

typedef struct sc_emit_loops {
    uint32_t dims[SC_KERNEL_MAX_RANK + 1], count;
    uint32_t part; /* the loop whose sums are parts */
    bool parts, pieces;
    int64_t piece;
    uint32_t first, end; /* items */
} sc_emit_loops;

static bool is_reduction(sc_item_kind kind)
{
    return kind == SC_ITEM_SUM || kind == SC_ITEM_MAX || kind == SC_ITEM_MIN;
}

static sc_dtype dtype_of(const sc_emit *e, uint32_t item)
{
    return (sc_dtype)e->k->nodes.data[e->k->items.data[item].value].dtype;
}

/* ---- items ---- */

static void fail(sc_emit *e, uint32_t item)
{
    uint32_t depth = e->items[item].depth, code = e->items[item].check + 1;
    bool lane = e->shape.vector != SC_IMAGE_NONE && (e->scope_dims[depth] >> e->shape.vector & 1) != 0 && depth > e->body;
    if (depth == 0 || (e->body == 0 && !lane)) {
        sc_emit_line(e, "    return %u;", code);
        return;
    }
    sc_emit_line(e, "    failed = failed < %u ? failed : %u;", code, code);
    bool near = depth <= e->body + 1 || lane;
    sc_emit_line(e, near ? "    continue;" : "    goto next;");
    e->leaves |= !near;
}

static void check(sc_emit *e, uint32_t item)
{
    sc_emit_indent(e);
    sc_strbuf_add(e->out, "if (!(");
    sc_emit_value(e, e->k->items.data[item].value, true);
    sc_strbuf_add(e->out, ")) {\n");
    fail(e, item);
    sc_emit_line(e, "}");
}

/* What a value becomes in memory. */
static void stored_text(sc_emit *e, sc_dtype stored, sc_dtype dtype, sc_knode value)
{
    bool narrow = stored == SC_DTYPE_bf16 || stored == SC_DTYPE_f16,
         same = stored == dtype || (stored == SC_DTYPE_u8 && dtype == SC_DTYPE_i32);
    if (stored == SC_DTYPE_u8 && dtype == SC_DTYPE_i32)
        sc_strbuf_add(e->out, "(uint8_t)");
    else if (narrow && sc_dtype_is_float(dtype))
        sc_strbuf_printf(e->out, "sc_%s_to_%s(", sc_dtypes[dtype].name, sc_dtypes[stored].name);
    else if (!same && sc_dtype_is_float(stored) && !narrow)
        sc_strbuf_printf(e->out, "(%s)", sc_emit_type(stored));
    sc_emit_value(e, value, same && stored != SC_DTYPE_u8);
    sc_strbuf_add(e->out, narrow && sc_dtype_is_float(dtype) ? ")" : "");
}

static void store(sc_emit *e, uint32_t id)
{
    const sc_kernel_item *item = &e->k->items.data[id];
    const sc_kernel_arg *arg = &e->k->args.data[item->arg];
    sc_dtype dtype = dtype_of(e, id);
    sc_emit_indent(e);
    if (item->guard != SC_IMAGE_NONE) {
        sc_strbuf_add(e->out, "if (");
        sc_emit_value(e, item->guard, true);
        sc_strbuf_add(e->out, ")\n");
        e->indent++;
        sc_emit_indent(e);
        e->indent--;
    }
    sc_strbuf_printf(e->out, "%s[", e->arg_names[item->arg]);
    sc_emit_offset_text(e, &e->items[id].access, e->items[id].depth);
    sc_strbuf_add(e->out, "] = ");
    if (item->kind == SC_ITEM_STORE) {
        stored_text(e, arg->dtype, dtype, item->value);
        sc_strbuf_add(e->out, ";\n");
        return;
    }
    bool narrow = arg->dtype == SC_DTYPE_bf16 || arg->dtype == SC_DTYPE_f16;
    const char *name = sc_dtypes[arg->dtype].name;
    if (narrow)
        sc_strbuf_printf(e->out, "sc_f32_to_%s(sc_%s_to_f32(", name, name);
    else if (arg->dtype == SC_DTYPE_u8)
        sc_strbuf_add(e->out, "(uint8_t)(");
    sc_strbuf_printf(e->out, "%s[", e->arg_names[item->arg]);
    sc_emit_offset_text(e, &e->items[id].access, e->items[id].depth);
    sc_strbuf_add(e->out, narrow ? "]) + " : "] + ");
    sc_emit_value(e, item->value, false);
    sc_strbuf_add(e->out, narrow || arg->dtype == SC_DTYPE_u8 ? ");\n" : ";\n");
}

static void reduce(sc_emit *e, uint32_t id)
{
    const sc_kernel_item *item = &e->k->items.data[id];
    const sc_emit_item *info = &e->items[id];
    sc_dtype dtype = dtype_of(e, id);
    char letter = info->parts ? 't' : info->wide ? 's' : 'r';
    sc_emit_indent(e);
    sc_emit_reduction_name(e, letter, id);
    if (item->kind == SC_ITEM_SUM) {
        sc_strbuf_add(e->out, info->wide && !info->parts ? " += (double)" : " += ");
        sc_emit_value(e, item->value, !info->wide || info->parts);
        sc_strbuf_add(e->out, ";\n");
        return;
    }
    bool lanes = e->simd && !info->of_vector && info->depth == e->inner;
    sc_strbuf_add(e->out, " = ");
    if (sc_dtype_is_float(dtype) && !lanes) {
        sc_strbuf_printf(e->out, "sc_%s_%s(", item->kind == SC_ITEM_MAX ? "max" : "min", sc_dtypes[dtype].name);
        sc_emit_reduction_name(e, letter, id);
        sc_strbuf_add(e->out, ", ");
        sc_emit_value(e, item->value, true);
        sc_strbuf_add(e->out, ");\n");
        return;
    }
    sc_emit_value(e, item->value, false);
    sc_strbuf_add(e->out, item->kind == SC_ITEM_MAX ? " > " : " < ");
    sc_emit_reduction_name(e, letter, id);
    sc_strbuf_add(e->out, " ? ");
    sc_emit_value(e, item->value, false);
    sc_strbuf_add(e->out, " : ");
    sc_emit_reduction_name(e, letter, id);
    sc_strbuf_add(e->out, ";\n");
    if (!sc_dtype_is_float(dtype))
        return;
    sc_emit_indent(e);
    sc_strbuf_printf(e->out, "n%u |= ", id);
    sc_emit_value(e, item->value, false);
    sc_strbuf_add(e->out, " != ");
    sc_emit_value(e, item->value, false);
    sc_strbuf_add(e->out, ";\n");
}

void sc_emit_do_item(sc_emit *e, uint32_t item)
{
    sc_item_kind kind = e->k->items.data[item].kind;
    if (kind == SC_ITEM_CHECK)
        check(e, item);
    else if (is_reduction(kind))
        reduce(e, item);
    else
        store(e, item);
}

/* ---- what holds reductions ---- */

static bool has_nan_flag(const sc_emit *e, uint32_t item)
{
    sc_item_kind kind = e->k->items.data[item].kind;
    return (kind == SC_ITEM_MAX || kind == SC_ITEM_MIN) && sc_dtype_is_float(dtype_of(e, item)) && e->simd && !e->items[item].of_vector &&
           e->items[item].depth == e->inner;
}

static void declare_accumulator(sc_emit *e, uint32_t item, char letter, sc_dtype dtype)
{
    sc_item_kind kind = e->k->items.data[item].kind;
    const char *type = sc_emit_type(dtype), *nothing = sc_emit_identity(kind, dtype);
    if (!e->items[item].of_vector) {
        sc_emit_line(e, "%s %c%u = %s;", type, letter, item, nothing);
        return;
    }
    if (kind == SC_ITEM_SUM) {
        sc_emit_line(e, "%s %c%u[%lld] = {0};", type, letter, item, (long long)e->shape.block);
        return;
    }
    sc_emit_line(e, "%s %c%u[%lld];", type, letter, item, (long long)e->shape.block);
    sc_emit_line(e, "for (int64_t i = 0; i < %lld; i++)", (long long)e->shape.block);
    sc_emit_line(e, "    %c%u[i] = %s;", letter, item, nothing);
}

static void begin_reductions(sc_emit *e, const sc_emit_loops *loops)
{
    for (uint32_t i = loops->first; i < loops->end; i++) {
        if (!is_reduction(e->k->items.data[i].kind))
            continue;
        bool wide = e->items[i].wide;
        declare_accumulator(e, i, wide ? 's' : 'r', wide ? SC_DTYPE_f64 : dtype_of(e, i));
        if (has_nan_flag(e, i))
            sc_emit_line(e, "%s n%u = 0;", dtype_of(e, i) == SC_DTYPE_f32 ? "int32_t" : "int64_t", i);
    }
}

static void end_reductions(sc_emit *e, const sc_emit_loops *loops)
{
    for (uint32_t i = loops->first; i < loops->end; i++) {
        if (!is_reduction(e->k->items.data[i].kind))
            continue;
        if (has_nan_flag(e, i))
            sc_emit_line(e, "r%u = n%u != 0 ? NAN : r%u;", i, i, i);
        if (e->items[i].wide && e->items[i].of_vector) {
            sc_emit_line(e, "float r%u[%lld];", i, (long long)e->shape.block);
            sc_emit_line(e, "for (int64_t i = 0; i < %lld; i++)", (long long)e->shape.block);
            sc_emit_line(e, "    r%u[i] = (float)s%u[i];", i, i);
        } else if (e->items[i].wide) {
            sc_emit_line(e, "const float r%u = (float)s%u;", i, i);
        }
    }
}

static void begin_parts(sc_emit *e, const sc_emit_loops *loops)
{
    for (uint32_t i = loops->first; i < loops->end; i++) {
        if (e->items[i].parts)
            declare_accumulator(e, i, 't', SC_DTYPE_f32);
    }
}

static void end_parts(sc_emit *e, const sc_emit_loops *loops)
{
    for (uint32_t i = loops->first; i < loops->end; i++) {
        if (!e->items[i].parts)
            continue;
        if (e->items[i].of_vector) {
            sc_emit_line(e, "for (int64_t i = 0; i < %lld; i++)", (long long)e->shape.block);
            sc_emit_line(e, "    s%u[i] += (double)t%u[i];", i, i);
        } else {
            sc_emit_line(e, "s%u += (double)t%u;", i, i);
        }
    }
}

/* ---- loops ---- */

static void name_reductions(sc_emit *e, const sc_emit_loops *loops, sc_item_kind kind, const char *sign)
{
    uint32_t count = 0;
    for (uint32_t i = loops->first; i < loops->end; i++) {
        const sc_emit_item *info = &e->items[i];
        if (e->k->items.data[i].kind != kind || info->of_vector || info->depth != e->inner)
            continue;
        if (count++ == 0)
            sc_strbuf_printf(e->out, " reduction(%s : ", sign);
        else
            sc_strbuf_add(e->out, ", ");
        sc_emit_reduction_name(e, info->parts ? 't' : info->wide ? 's' : 'r', i);
    }
    sc_strbuf_add(e->out, count > 0 ? ")" : "");
}

static void write_simd(sc_emit *e, const sc_emit_loops *loops)
{
    sc_strbuf_add(e->out, "#pragma omp simd");
    name_reductions(e, loops, SC_ITEM_SUM, "+");
    name_reductions(e, loops, SC_ITEM_MAX, "max");
    name_reductions(e, loops, SC_ITEM_MIN, "min");
    bool begun = false;
    for (uint32_t i = loops->first; i < loops->end; i++) {
        if (!has_nan_flag(e, i))
            continue;
        sc_strbuf_printf(e->out, begun ? ", n%u" : " reduction(| : n%u", i);
        begun = true;
    }
    sc_strbuf_add(e->out, begun ? ")\n" : "\n");
}

static void open_loop(sc_emit *e, const sc_emit_loops *loops, uint32_t l)
{
    uint32_t dim = loops->dims[l];
    const char *name = e->dim_names[dim];
    int64_t size = e->k->dims.data[dim].size;
    const char *from = "0", *to = sc_arena_printf(&e->context->arena, "%lld", (long long)size);
    if (dim == e->shape.vector && e->shape.block < size) {
        from = sc_arena_printf(&e->context->arena, "%s_from", name);
        to = sc_arena_printf(&e->context->arena, "%s_to", name);
    } else if (dim == e->cut) {
        from = sc_arena_printf(&e->context->arena, "%s_first", name);
        to = sc_arena_printf(&e->context->arena, "%s_end", name);
    }
    if (loops->parts && l == loops->part) {
        if (loops->pieces) {
            long long piece = loops->piece;
            sc_emit_line(e, "for (int64_t %s_from = %s; %s_from < %s; %s_from += %lld) {", name, from, name, to, name, piece);
            e->indent++;
            sc_emit_line(e, "const int64_t %s_to = %s_from < %s - %lld ? %s_from + %lld : %s;", name, name, to, piece, name, piece, to);
            from = sc_arena_printf(&e->context->arena, "%s_from", name);
            to = sc_arena_printf(&e->context->arena, "%s_to", name);
        }
        begin_parts(e, loops);
    }
    if (l + 1 == loops->count && e->simd)
        write_simd(e, loops);
    sc_emit_line(e, "for (int64_t %s = %s; %s < %s; %s++) {", name, from, name, to, name);
    e->indent++;
}

static void close_loop(sc_emit *e, const sc_emit_loops *loops, uint32_t l)
{
    e->indent--;
    sc_emit_line(e, "}");
    if (!loops->parts || l != loops->part)
        return;
    end_parts(e, loops);
    if (loops->pieces) {
        e->indent--;
        sc_emit_line(e, "}");
    }
}

static void plan_loops(sc_emit *e, uint32_t phase_index, sc_emit_loops *loops)
{
    const sc_kernel *k = e->k;
    const sc_kernel_phase *phase = &k->phases.data[phase_index];
    bool rows = e->shape.vector == SC_IMAGE_NONE;
    int64_t points = 1;
    *loops = (sc_emit_loops){.first = phase->first_item, .end = phase->first_item + phase->item_count};
    for (uint32_t i = 0; i < phase->dim_count; i++) {
        loops->dims[loops->count++] = phase->dims[i];
        points *= phase->dims[i] == e->cut ? e->cut_size : k->dims.data[phase->dims[i]].size;
    }
    loops->part = loops->count - 1;
    loops->piece = rows ? e->limits->piece : e->limits->piece_rows;
    if (loops->count > 0) {
        uint32_t dim = loops->dims[loops->part];
        loops->pieces = (dim == e->cut ? e->cut_size : k->dims.data[dim].size) > 2 * loops->piece;
    }
    if (!rows)
        loops->dims[loops->count++] = e->shape.vector;
    e->simd = loops->count > 0 && sc_emit_may_vectorise(e, phase_index, loops->dims[loops->count - 1]);
    e->inner = loops->count > 0 ? e->body + 1 + loops->count : e->writes_read ? e->body + 1 : e->body;
    if (e->inner > e->body)
        e->scope_dims[e->body + 1] = 0;
    for (uint32_t i = 0; i < loops->count; i++)
        e->scope_dims[e->body + 2 + i] = (uint64_t)1 << loops->dims[i];
    for (uint32_t i = loops->first; i < loops->end; i++) {
        sc_emit_item *item = &e->items[i];
        item->depth = e->inner;
        item->of_vector =
            !rows && is_reduction(k->items.data[i].kind) && (e->nodes[k->items.data[i].value].dims >> e->shape.vector & 1) != 0;
        if (!rows && is_reduction(k->items.data[i].kind) && !item->of_vector)
            item->depth--;
        bool sum = k->items.data[i].kind == SC_ITEM_SUM && dtype_of(e, i) == SC_DTYPE_f32;
        item->parts = sum && !item->running && points > (rows ? e->limits->few : e->limits->few_rows);
        item->wide = item->parts || (sum && item->running);
        loops->parts |= item->parts;
    }
}

void sc_emit_phase(sc_emit *e, uint32_t phase)
{
    sc_emit_loops loops;
    plan_loops(e, phase, &loops);
    sc_emit_place(e, loops.first, loops.end, e->floors[phase]);
    begin_reductions(e, &loops);
    sc_emit_scope(e, e->body, loops.first, loops.end);
    bool block = loops.count == 0 && e->inner > e->body;
    for (sc_knode i = 0; e->inner > e->body && i < e->k->nodes.count; i++)
        block |= e->nodes[i].pass == e->pass && e->nodes[i].depth == e->body + 1;
    if (block) {
        sc_emit_line(e, "{");
        e->indent++;
    }
    if (e->inner > e->body)
        sc_emit_scope(e, e->body + 1, loops.first, loops.end);
    for (uint32_t l = 0; l < loops.count; l++) {
        open_loop(e, &loops, l);
        sc_emit_scope(e, e->body + 2 + l, loops.first, loops.end);
    }
    for (uint32_t l = loops.count; l-- > 0;)
        close_loop(e, &loops, l);
    if (block) {
        e->indent--;
        sc_emit_line(e, "}");
    }
    sc_emit_leave(e, e->body + 1);
    end_reductions(e, &loops);
}
