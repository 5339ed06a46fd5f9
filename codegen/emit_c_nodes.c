/* What is known of a kernel's nodes before any text, and their text. Offsets are sums of dims and of nodes that are no sums, each times a
 * number: so equal parts of offsets are found, and what stands before the innermost loop. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/emit_c_internal.h"

/* ---- offsets ---- */

typedef struct sc_linear {
    sc_emit *e;
    SC_VEC(sc_emit_term) terms;
    int64_t constant;
} sc_linear;

static void add_term(sc_linear *linear, uint32_t dim, sc_knode node, int64_t times)
{
    for (uint32_t i = 0; i < linear->terms.count; i++) {
        sc_emit_term *term = &linear->terms.data[i];
        if (term->dim == dim && term->node == node) {
            term->times += times;
            return;
        }
    }
    *sc_vec_push(&linear->e->context->arena, &linear->terms) = (sc_emit_term){dim, node, times};
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
        add_term(linear, node->index, SC_IMAGE_NONE, times);
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
        add_term(linear, SC_IMAGE_NONE, id, times);
}

static sc_emit_access access_of(sc_emit *e, uint32_t arg_index, const sc_knode *indices)
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
    sc_emit_access access = {.arg = arg_index, .constant = linear.constant, .terms = linear.terms.data};
    for (uint32_t i = 0; i < linear.terms.count; i++) {
        if (linear.terms.data[i].times != 0)
            access.terms[access.count++] = linear.terms.data[i];
    }
    return access;
}

/* ---- nodes ---- */

static const char *template_of(const sc_kernel *k, sc_knode id)
{
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

static uint64_t dims_of_access(const sc_emit *e, const sc_emit_access *access)
{
    uint64_t dims = 0;
    for (uint32_t i = 0; i < access->count; i++) {
        const sc_emit_term *term = &access->terms[i];
        dims |= term->dim != SC_IMAGE_NONE ? (uint64_t)1 << term->dim : e->nodes[term->node].dims;
    }
    return dims;
}

static void analyse_load(sc_emit *e, sc_knode id)
{
    const sc_kernel *k = e->k;
    const sc_kernel_node *node = &k->nodes.data[id];
    const sc_kernel_arg *arg = &k->args.data[node->index];
    sc_emit_node *info = &e->nodes[id];
    info->access = access_of(e, node->index, k->operands.data + node->first);
    info->children = sc_arena_array(&e->context->arena, info->access.count + 1, sizeof *info->children);
    for (uint32_t i = 0; i < info->access.count; i++) {
        if (info->access.terms[i].dim == SC_IMAGE_NONE)
            info->children[info->child_count++] = info->access.terms[i].node;
    }
    if (node->count > arg->rank)
        info->children[info->child_count++] = k->operands.data[node->first + arg->rank];
    info->dims = dims_of_access(e, &info->access);
    info->reads_written = arg->mode != SC_ARG_IN;
}

static uint64_t outer_dims(const sc_kernel *k)
{
    return k->outer_count >= 64 ? UINT64_MAX : ((uint64_t)1 << k->outer_count) - 1;
}

static void analyse_node(sc_emit *e, sc_knode id)
{
    const sc_kernel *k = e->k;
    const sc_kernel_node *node = &k->nodes.data[id];
    sc_emit_node *info = &e->nodes[id];
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
    const char *text = template_of(k, id);
    for (uint32_t i = 0; i < info->child_count; i++) {
        sc_emit_node *child = &e->nodes[info->children[i]];
        info->dims |= child->dims;
        info->late |= child->late;
        info->reads_written |= child->reads_written;
        info->has_load |= child->has_load || k->nodes.data[info->children[i]].kind == SC_NODE_load;
        if (node->kind != SC_NODE_load && names_twice(text, i))
            child->atom = true;
    }
}

/* Uses by what is needed; each node once. */
static void count_uses(sc_emit *e, sc_knode id)
{
    sc_emit_node *info = &e->nodes[id];
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

static void analyse_item(sc_emit *e, uint32_t id)
{
    const sc_kernel_item *item = &e->k->items.data[id];
    sc_emit_item *info = &e->items[id];
    count_uses(e, item->value);
    if (item->kind == SC_ITEM_CHECK)
        info->check = e->check_count++;
    if (item->shown != SC_IMAGE_NONE)
        count_uses(e, item->shown);
    if (item->kind == SC_ITEM_MAX || item->kind == SC_ITEM_MIN)
        e->nodes[item->value].atom = true;
    if (item->kind != SC_ITEM_STORE && item->kind != SC_ITEM_ADD)
        return;
    e->arg_used[item->arg] = true;
    info->access = access_of(e, item->arg, e->k->operands.data + item->first);
    for (uint32_t i = 0; i < info->access.count; i++) {
        if (info->access.terms[i].dim == SC_IMAGE_NONE)
            count_uses(e, info->access.terms[i].node);
    }
    if (item->guard != SC_IMAGE_NONE)
        count_uses(e, item->guard);
}

/* Arrays of the same bytes: what sc_kernel_may_share could allow. */
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

void sc_emit_analyse(sc_emit *e)
{
    const sc_kernel *k = e->k;
    for (uint32_t p = 0; p < k->phases.count; p++) {
        for (uint32_t i = 0; i < k->phases.data[p].item_count; i++)
            e->items[k->phases.data[p].first_item + i].phase = p;
    }
    for (sc_knode i = 0; i < k->nodes.count; i++) {
        e->nodes[i].kept_from = SC_IMAGE_NONE;
        analyse_node(e, i);
    }
    for (uint32_t i = 0; i < k->items.count; i++)
        analyse_item(e, i);
    for (uint32_t i = 0; i < k->args.count; i++) {
        for (uint32_t j = 0; j < k->args.count; j++) {
            if (!e->arg_used[i] || !e->arg_used[j] || !could_share(&k->args.data[i], &k->args.data[j]))
                continue;
            e->arg_shared[i] = true;
            e->arg_shared[j] = true;
        }
    }
    for (sc_knode i = 0; i < k->nodes.count; i++)
        e->writes_read |= e->nodes[i].uses > 0 && e->nodes[i].reads_written;
}

/* ---- text ---- */

const char *sc_emit_type(sc_dtype dtype)
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

const char *sc_emit_stored(sc_dtype dtype)
{
    if (dtype == SC_DTYPE_bf16 || dtype == SC_DTYPE_f16)
        return "uint16_t";
    return dtype == SC_DTYPE_bool || dtype == SC_DTYPE_u8 ? "uint8_t" : sc_emit_type(dtype);
}

const char *sc_emit_identity(sc_item_kind kind, sc_dtype dtype)
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

void sc_emit_indent(sc_emit *e)
{
    for (uint32_t i = 0; i < e->indent; i++)
        sc_strbuf_add(e->out, "    ");
}

void sc_emit_line(sc_emit *e, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    sc_emit_indent(e);
    sc_strbuf_add(e->out, sc_arena_vprintf(&e->context->arena, format, args));
    sc_strbuf_add_char(e->out, '\n');
    va_end(args);
}

/* The shortest decimal of the f32 or f64 that the number is rounded to. */
static void float_text(sc_emit *e, sc_dtype dtype, double number)
{
    bool f32 = dtype == SC_DTYPE_f32;
    double value = f32 ? (double)(float)number : number;
    if (isnan(value) || isinf(value)) {
        sc_strbuf_add(e->out, isnan(value) ? (f32 ? "NAN" : "(double)NAN") : value > 0 ? "INFINITY" : "-INFINITY");
        return;
    }
    if (!f32) {
        sc_strbuf_add_double(e->out, value);
        return;
    }
    char text[40];
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if ((double)strtof(text, NULL) == value)
            break;
    }
    sc_strbuf_add(e->out, text);
    sc_strbuf_add(e->out, strpbrk(text, ".e") == NULL ? ".0f" : "f");
}

static void constant_text(sc_emit *e, const sc_kernel_node *node)
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

void sc_emit_reduction_name(sc_emit *e, char letter, uint32_t item)
{
    sc_strbuf_printf(e->out, "%c%u", letter, item);
    if (!e->items[item].of_vector)
        return;
    const char *name = e->dim_names[e->shape.vector];
    bool blocked = e->shape.block < e->k->dims.data[e->shape.vector].size;
    sc_strbuf_printf(e->out, blocked ? "[%s - %s_from]" : "[%s]", name, name);
}

static void convert_text(sc_emit *e, sc_dtype from, sc_dtype to, sc_knode node)
{
    bool bare = true;
    if (from == to) {
        sc_emit_value(e, node, false);
        return;
    }
    bool helper = (sc_dtype_is_float(from) && !sc_dtype_is_float(to)) || (from == SC_DTYPE_i64 && sc_dtype_is_float(to));
    if (to == SC_DTYPE_bool) {
        sc_strbuf_add_char(e->out, '(');
        sc_emit_value(e, node, false);
        sc_strbuf_add(e->out, " != 0)");
        return;
    }
    if (helper) {
        sc_strbuf_printf(e->out, "sc_%s_to_%s(", sc_dtypes[from].name, sc_dtypes[to].name);
    } else {
        sc_strbuf_printf(e->out, "(%s)", sc_emit_type(to));
        bare = false;
    }
    sc_emit_value(e, node, bare);
    sc_strbuf_add(e->out, helper ? ")" : "");
}

/* Whether the text is one call, one name or stands in parentheses. */
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

static bool is_atomic(const sc_emit *e, sc_knode id)
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
        return true;
    case SC_NODE_running:
        return true;
    case SC_NODE_random:
        return true;
    case SC_NODE_load:
        return e->k->args.data[node->index].rank == node->count && e->k->args.data[node->index].dtype != SC_DTYPE_bool;
    default:
        return template_is_atomic(template_of(e->k, id));
    }
}

static void expand_template(sc_emit *e, sc_knode id)
{
    const char *text = template_of(e->k, id);
    for (const char *c = text; *c != 0; c++) {
        if (*c != '$') {
            sc_strbuf_add_char(e->out, *c);
            continue;
        }
        uint32_t operand = (uint32_t)(c[1] - '0');
        bool opened = c == text || c[-1] == '(' || (c[-1] == ' ' && c > text + 1 && c[-2] == ',');
        bool closed = c[2] == 0 || c[2] == ')' || c[2] == ',';
        bool bare = opened && closed && (c != text || c[2] == 0);
        sc_emit_value(e, e->nodes[id].children[operand], bare);
        c++;
    }
}

static void element_text(sc_emit *e, const sc_emit_access *access, uint32_t depth)
{
    sc_strbuf_printf(e->out, "%s[", e->arg_names[access->arg]);
    sc_emit_offset_text(e, access, depth);
    sc_strbuf_add_char(e->out, ']');
}

static void load_text(sc_emit *e, sc_knode id)
{
    const sc_kernel_node *node = &e->k->nodes.data[id];
    const sc_kernel_arg *arg = &e->k->args.data[node->index];
    const sc_emit_node *info = &e->nodes[id];
    bool guarded = node->count > arg->rank;
    if (guarded) {
        sc_emit_value(e, info->children[info->child_count - 1], false);
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
    element_text(e, &info->access, info->depth);
    sc_strbuf_add(e->out, after);
    if (guarded)
        sc_strbuf_add(e->out, node->dtype == SC_DTYPE_f32 ? " : 0.0f" : node->dtype == SC_DTYPE_f64 ? " : 0.0" : " : 0");
}

static void random_text(sc_emit *e, const sc_emit_node *info)
{
    static const char *const before[] = {"sc_uniform_f64(", ", (uint32_t)", ", (uint32_t)", ", (uint64_t)"};
    static const uint32_t order[] = {0, 2, 3, 1};
    for (uint32_t i = 0; i < 4; i++) {
        sc_strbuf_add(e->out, before[i]);
        sc_emit_value(e, info->children[order[i]], i == 0);
    }
    sc_strbuf_add_char(e->out, ')');
}

void sc_emit_value(sc_emit *e, sc_knode id, bool bare)
{
    const sc_kernel_node *node = &e->k->nodes.data[id];
    const sc_emit_node *info = &e->nodes[id];
    if (info->visible) {
        sc_strbuf_printf(e->out, "v%u", id);
        return;
    }
    if (sc_emit_is_kept(e, id)) {
        sc_emit_kept_element(e, id);
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
        sc_strbuf_add(e->out, e->dim_names[node->index]);
        break;
    case SC_NODE_param:
        sc_strbuf_printf(e->out, "p%u", node->index);
        break;
    case SC_NODE_running:
        sc_strbuf_add(e->out, e->items[node->index].wide ? "(float)" : "");
        sc_emit_reduction_name(e, e->items[node->index].wide ? 's' : 'r', node->index);
        break;
    case SC_NODE_reduced:
        sc_emit_reduction_name(e, 'r', node->index);
        break;
    case SC_NODE_load:
        load_text(e, id);
        break;
    case SC_NODE_random:
        random_text(e, info);
        break;
    case SC_NODE_convert:
        convert_text(e, (sc_dtype)e->k->nodes.data[info->children[0]].dtype, (sc_dtype)node->dtype, info->children[0]);
        break;
    default:
        expand_template(e, id);
    }
    if (parentheses)
        sc_strbuf_add_char(e->out, ')');
}
