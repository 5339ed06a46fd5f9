/* The text of nodes: each on its own, with the names or texts of its operands. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/printer/printer.h"
#include "support/number.h"

const char *sc_printer_type(sc_dtype dtype)
{
    switch (dtype) {
    case SC_DTYPE_f32:
        return "float";
    case SC_DTYPE_f64:
        return "double";
    case SC_DTYPE_i32:
        return "int32_t";
    case SC_DTYPE_i64:
        return "int64_t";
    default:
        return "_Bool";
    }
}

const char *sc_printer_stored(sc_dtype dtype)
{
    if (dtype == SC_DTYPE_bf16 || dtype == SC_DTYPE_f16)
        return "uint16_t";
    return dtype == SC_DTYPE_bool || dtype == SC_DTYPE_u8 ? "uint8_t" : sc_printer_type(dtype);
}

const char *sc_printer_identity(sc_item_kind kind, sc_dtype dtype)
{
    bool max = kind == SC_ITEM_MAX;
    if (kind == SC_ITEM_SUM || (dtype == SC_DTYPE_bool && max))
        return dtype == SC_DTYPE_f32 ? "0.0f" : dtype == SC_DTYPE_f64 ? "0.0" : "0";
    switch (dtype) {
    case SC_DTYPE_i32:
        return max ? "INT32_MIN" : "INT32_MAX";
    case SC_DTYPE_i64:
        return max ? "INT64_MIN" : "INT64_MAX";
    case SC_DTYPE_bool:
        return "1";
    default:
        return max ? "-INFINITY" : "INFINITY";
    }
}

void sc_printer_indent(sc_kernel_printer *e)
{
    for (uint32_t i = 0; i < e->indent; i++)
        sc_strbuf_add(e->out, "    ");
}

void sc_printer_line(sc_kernel_printer *e, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    sc_printer_indent(e);
    sc_strbuf_add(e->out, sc_arena_vprintf(e->arena, format, args));
    sc_strbuf_add_char(e->out, '\n');
    va_end(args);
}

/* The shortest decimal that reads back as the number, rounded to f32 or f64. */
static void float_text(sc_kernel_printer *e, sc_dtype dtype, double number)
{
    bool f32 = dtype == SC_DTYPE_f32;
    double value = f32 ? (double)(float)number : number;
    if (isnan(value) || isinf(value)) {
        sc_strbuf_add(e->out, isnan(value) ? (f32 ? "NAN" : "(double)NAN")
                              : value > 0  ? "INFINITY"
                                           : "-INFINITY");
        return;
    }
    if (!f32) {
        sc_strbuf_add_double(e->out, value);
        return;
    }
    char text[SC_NUMBER_TEXT];
    sc_float_text((float)value, text);
    sc_strbuf_add(e->out, text);
    sc_strbuf_add(e->out, strpbrk(text, ".e") == NULL ? ".0f" : "f");
}

static void constant_text(sc_kernel_printer *e, const sc_kernel_node *node)
{
    if (sc_dtype_is_float((sc_dtype)node->dtype))
        float_text(e, (sc_dtype)node->dtype, node->number);
    else if (node->dtype == SC_DTYPE_bool)
        sc_strbuf_add(e->out, node->number != 0 ? "1" : "0");
    else if (node->number <= -0x1p63)
        sc_strbuf_add(e->out, "INT64_MIN");
    else if (node->dtype == SC_DTYPE_i32 && node->number <= -0x1p31)
        sc_strbuf_add(e->out, "INT32_MIN");
    else
        sc_strbuf_printf(e->out, "%lld", (long long)node->number);
}

void sc_printer_reduction_name(sc_kernel_printer *e, char letter, uint32_t item)
{
    sc_strbuf_printf(e->out, "%c%u", letter, item);
    if (e->items[item].of_vector)
        e->target->reduction_index(e);
}

static void convert_text(sc_kernel_printer *e, sc_dtype from, sc_dtype to, sc_knode node)
{
    bool bare = true;
    if (from == to) {
        sc_printer_value(e, node, false);
        return;
    }
    bool helper = (sc_dtype_is_float(from) && !sc_dtype_is_float(to)) ||
                  (from == SC_DTYPE_i64 && sc_dtype_is_float(to));
    if (to == SC_DTYPE_bool) {
        sc_strbuf_add_char(e->out, '(');
        sc_printer_value(e, node, false);
        sc_strbuf_add(e->out, " != 0)");
        return;
    }
    if (helper) {
        sc_strbuf_printf(e->out, "sc_%s_to_%s(", sc_dtypes[from].name, sc_dtypes[to].name);
    } else {
        sc_strbuf_printf(e->out, "(%s)", sc_printer_type(to));
        bare = false;
    }
    sc_printer_value(e, node, bare);
    sc_strbuf_add(e->out, helper ? ")" : "");
}

/* True if the text is a single call, a name or parenthesized. */
static bool template_is_atomic(const char *text)
{
    const char *open = strchr(text, '(');
    if (open == NULL)
        return text[0] == '$' && text[2] == 0;
    for (const char *c = text; c < open; c++) {
        if (*c == ' ' || *c == '-' || *c == '!' || *c == '$')
            return false;
    }
    int depth = 0;
    for (const char *c = open; *c != 0; c++) {
        depth += (*c == '(') - (*c == ')');
        if (depth == 0)
            return c[1] == 0;
    }
    return false;
}

/* True if the text's C type would be int: a choice of constants, or a sign. */
static bool is_narrow(const sc_kernel *k, sc_knode id)
{
    const sc_kernel_node *node = &k->nodes.data[id];
    const sc_knode *operands = k->operands.data + node->first;
    if (node->dtype != SC_DTYPE_i64)
        return false;
    return node->kind == SC_NODE_sign ||
           (node->kind == SC_NODE_where && k->nodes.data[operands[1]].kind == SC_NODE_constant &&
            k->nodes.data[operands[2]].kind == SC_NODE_constant);
}

static bool is_atomic(const sc_kernel_printer *e, sc_knode id)
{
    const sc_kernel_node *node = &e->k->nodes.data[id];
    if (e->nodes[id].visible)
        return true;
    switch (node->kind) {
    case SC_NODE_constant:
        return !signbit(node->number);
    case SC_NODE_index:
    case SC_NODE_param:
    case SC_NODE_reduced:
    case SC_NODE_convert:
    case SC_NODE_running:
    case SC_NODE_random:
        return true;
    case SC_NODE_load:
        return e->k->args.data[node->index].rank == node->count &&
               e->k->args.data[node->index].dtype != SC_DTYPE_bool;
    default:
        return is_narrow(e->k, id) || template_is_atomic(e->target->operation(e, id));
    }
}

static void expand_template(sc_kernel_printer *e, sc_knode id)
{
    const char *text = e->target->operation(e, id);
    bool narrow = is_narrow(e->k, id);
    sc_strbuf_add(e->out, narrow ? "(int64_t)(" : "");
    for (const char *c = text; *c != 0; c++) {
        if (*c != '$') {
            sc_strbuf_add_char(e->out, *c);
            continue;
        }
        uint32_t operand = (uint32_t)(c[1] - '0');
        bool opened = c == text || c[-1] == '(' || (c[-1] == ' ' && c > text + 1 && c[-2] == ',');
        bool closed = c[2] == 0 || c[2] == ')' || c[2] == ',';
        bool bare = opened && closed && (c != text || c[2] == 0);
        sc_printer_value(e, e->nodes[id].children[operand], bare);
        c++;
    }
    sc_strbuf_add(e->out, narrow ? ")" : "");
}

static void load_text(sc_kernel_printer *e, sc_knode id)
{
    const sc_kernel_node *node = &e->k->nodes.data[id];
    const sc_kernel_arg *arg = &e->k->args.data[node->index];
    const sc_printer_node *info = &e->nodes[id];
    bool guarded = node->count > arg->rank;
    if (guarded) {
        sc_printer_value(e, info->children[info->child_count - 1], false);
        sc_strbuf_add(e->out, " ? ");
    }
    const char *before = "", *after = "";
    if (arg->dtype == SC_DTYPE_bf16)
        before = "sc_bf16_to_f32(", after = ")";
    else if (arg->dtype == SC_DTYPE_f16)
        before = "sc_f16_to_f32(", after = ")";
    else if (arg->dtype == SC_DTYPE_bool)
        after = " != 0";
    sc_strbuf_add(e->out, before);
    e->target->loaded(e, &info->access, info->depth, id);
    sc_strbuf_add(e->out, after);
    if (guarded)
        sc_strbuf_add(e->out, node->dtype == SC_DTYPE_f32   ? " : 0.0f"
                              : node->dtype == SC_DTYPE_f64 ? " : 0.0"
                                                            : " : 0");
}

static void random_text(sc_kernel_printer *e, const sc_printer_node *info)
{
    static const char *const before[] = {"sc_uniform_f64(", ", (uint32_t)", ", (uint32_t)",
                                         ", (uint64_t)"};
    static const uint32_t order[] = {0, 2, 3, 1};
    for (uint32_t i = 0; i < 4; i++) {
        sc_strbuf_add(e->out, before[i]);
        sc_printer_value(e, info->children[order[i]], i == 0);
    }
    sc_strbuf_add_char(e->out, ')');
}

void sc_printer_value(sc_kernel_printer *e, sc_knode id, bool bare)
{
    const sc_kernel_node *node = &e->k->nodes.data[id];
    const sc_printer_node *info = &e->nodes[id];
    if (info->visible) {
        sc_strbuf_printf(e->out, "v%u", id);
        return;
    }
    if (sc_printer_is_cached(e, id)) {
        e->target->cached(e, id);
        return;
    }
    bool parentheses = !bare && !is_atomic(e, id);
    if (parentheses)
        sc_strbuf_add_char(e->out, '(');
    switch (node->kind) {
    case SC_NODE_constant:
        constant_text(e, node);
        break;
    case SC_NODE_index:
        sc_strbuf_add(e->out, e->target->index_cast);
        sc_strbuf_add(e->out, e->dim_names[node->index]);
        break;
    case SC_NODE_param:
        sc_strbuf_printf(e->out, "p%u", node->index);
        break;
    case SC_NODE_running:
        sc_strbuf_add(e->out, e->items[node->index].wide ? "(float)" : "");
        sc_printer_reduction_name(e, e->items[node->index].wide ? 's' : 'r', node->index);
        break;
    case SC_NODE_reduced:
        sc_printer_reduction_name(e, 'r', node->index);
        break;
    case SC_NODE_load:
        load_text(e, id);
        break;
    case SC_NODE_random:
        random_text(e, info);
        break;
    case SC_NODE_convert:
        convert_text(e, (sc_dtype)e->k->nodes.data[info->children[0]].dtype, (sc_dtype)node->dtype,
                     info->children[0]);
        break;
    default:
        expand_template(e, id);
    }
    if (parentheses)
        sc_strbuf_add_char(e->out, ')');
}
