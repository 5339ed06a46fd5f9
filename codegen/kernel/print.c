/* Prints a kernel as text. Nodes are numbered in order, so a node's name in the text is its
 * number. */
#include <string.h>

#include "codegen/kernel/internal.h"
#include "codegen/kernel/kernel.h"

const char *const sc_kernel_mode_names[] = {"in", "out", "inout"};
const char *const sc_kernel_item_names[] = {"sum", "max", "min", "store", "add", "check"};
const char *const sc_kernel_param_names[] = {"rank", "key", "step", "micro_batch"};

/* True if the lexer reads it as one word. */
static bool is_word(const char *text)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_",
                      digits[] = "0123456789";
    if (*text == 0 || strchr(letters, *text) == NULL)
        return false;
    for (const char *c = text + 1; *c != 0; c++) {
        if (strchr(letters, *c) == NULL && strchr(digits, *c) == NULL)
            return false;
    }
    return true;
}

static void print_name(const sc_kernel *k, sc_sym name, sc_strbuf *out)
{
    const char *text = sc_text(k->context, name);
    if (is_word(text))
        sc_strbuf_add(out, text);
    else
        sc_strbuf_add_quoted(out, text);
}

static void print_arg_name(const sc_kernel *k, uint32_t arg, sc_strbuf *out)
{
    if (arg < k->args.count)
        print_name(k, k->args.data[arg].name, out);
    else /* invalid kernels print, too, for debugging */
        sc_strbuf_printf(out, "?%u", arg);
}

static void print_dim_name(const sc_kernel *k, uint32_t dim, sc_strbuf *out)
{
    if (dim < k->dims.count)
        print_name(k, k->dims.data[dim].name, out);
    else
        sc_strbuf_printf(out, "?%u", dim);
}

/* ---- declarations ---- */

static void print_arg(const sc_kernel *k, const sc_kernel_arg *arg, sc_strbuf *out)
{
    sc_strbuf_add(out, "  arg ");
    print_name(k, arg->name, out);
    sc_strbuf_printf(out, ": %s[", sc_dtypes[arg->dtype].name);
    for (uint32_t d = 0; d < arg->rank; d++) {
        sc_strbuf_add(out, d > 0 ? ", " : "");
        sc_strbuf_add_integer(out, arg->sizes[d]);
    }
    sc_strbuf_printf(out, "] %s\n", sc_kernel_mode_names[arg->mode]);
}

static void print_terms(const sc_image_terms *terms, sc_strbuf *out)
{
    if (terms->count == 0)
        sc_strbuf_add(out, " = 0");
    for (uint32_t i = 0; i < terms->count; i++) {
        const sc_image_term *term = &terms->terms[i];
        sc_strbuf_printf(out, "%s(%llu, %llu, %lld", i == 0 ? " = " : " + ",
                         (unsigned long long)term->divide, (unsigned long long)term->modulo,
                         (long long)term->times);
        if (term->plus > 0)
            sc_strbuf_printf(out, ", %llu", (unsigned long long)term->plus);
        sc_strbuf_add_char(out, ')');
    }
}

static void print_param(const sc_image_param *param, uint32_t number, sc_strbuf *out)
{
    sc_strbuf_printf(out, "  param %u: %s", number, sc_kernel_param_names[param->kind]);
    if (param->kind == SC_PARAM_KEY)
        sc_strbuf_printf(out, " = \"%016llx\"", (unsigned long long)param->path_hash);
    if (param->kind == SC_PARAM_RANK)
        print_terms(&param->terms, out);
    sc_strbuf_add_char(out, '\n');
}

static void print_head(const sc_kernel *k, sc_strbuf *out)
{
    sc_strbuf_add(out, "kernel @");
    print_name(k, k->name, out);
    if (k->title != NULL) {
        sc_strbuf_add_char(out, ' ');
        sc_strbuf_add_quoted(out, k->title);
    }
    sc_strbuf_add(out, " {\n");
    for (uint32_t i = 0; i < k->comments.count; i++) {
        sc_strbuf_add(out, "  from ");
        sc_strbuf_add_quoted(out, k->comments.data[i]);
        sc_strbuf_add_char(out, '\n');
    }
    for (uint32_t d = 0; d < k->dims.count; d++) {
        sc_strbuf_add(out, "  dim ");
        print_name(k, k->dims.data[d].name, out);
        sc_strbuf_printf(out, " = %lld\n", (long long)k->dims.data[d].size);
    }
    for (uint32_t i = 0; i < k->args.count; i++)
        print_arg(k, &k->args.data[i], out);
    for (uint32_t i = 0; i < k->params.count; i++)
        print_param(&k->params.data[i], i, out);
    for (uint32_t d = 0; d < k->outer_count; d++) {
        sc_strbuf_add(out, d == 0 ? "  outer " : ", ");
        print_dim_name(k, d, out);
    }
    if (k->outer_count > 0)
        sc_strbuf_add_char(out, '\n');
}

/* ---- nodes ---- */

static void print_list(const sc_knode *nodes, uint32_t count, sc_strbuf *out)
{
    for (uint32_t i = 0; i < count; i++)
        sc_strbuf_printf(out, "%s%%%u", i == 0 ? " " : ", ", nodes[i]);
}

static void print_constant(const sc_kernel_node *node, sc_strbuf *out)
{
    sc_strbuf_add_char(out, ' ');
    if (node->dtype == SC_DTYPE_bool)
        sc_strbuf_add(out, node->number != 0 ? "true" : "false");
    else if (sc_dtype_is_float((sc_dtype)node->dtype))
        sc_strbuf_add_double(out, node->number);
    else
        sc_strbuf_printf(out, "%.0f", node->number);
}

static void print_load(const sc_kernel *k, const sc_kernel_node *node, const sc_knode *operands,
                       sc_strbuf *out)
{
    uint32_t rank = node->index < k->args.count ? k->args.data[node->index].rank : node->count;
    rank = rank > node->count ? node->count : rank;
    sc_strbuf_add_char(out, ' ');
    print_arg_name(k, node->index, out);
    print_list(operands, rank, out);
    if (node->count > rank) {
        sc_strbuf_add(out, " if");
        print_list(operands + rank, node->count - rank, out);
    }
}

static void print_node(const sc_kernel *k, sc_knode n, sc_strbuf *out)
{
    const sc_kernel_node *node = &k->nodes.data[n];
    const sc_knode *operands = sc_kernel_operands(k, n);
    sc_strbuf_printf(out, "  %%%u = %s", n, sc_node_rows[node->kind].name);
    switch (node->kind) {
    case SC_NODE_constant:
        print_constant(node, out);
        break;
    case SC_NODE_index:
        sc_strbuf_add_char(out, ' ');
        print_dim_name(k, node->index, out);
        break;
    case SC_NODE_param:
        sc_strbuf_printf(out, " %u", node->index);
        break;
    case SC_NODE_load:
        print_load(k, node, operands, out);
        break;
    case SC_NODE_reduced:
    case SC_NODE_running:
        sc_strbuf_printf(out, " #%u", node->index);
        break;
    default:
        print_list(operands, node->count, out);
    }
    sc_strbuf_printf(out, " : %s\n", sc_dtypes[node->dtype].name);
}

/* ---- phases ---- */

static void print_item(const sc_kernel *k, uint32_t number, sc_strbuf *out)
{
    const sc_kernel_item *item = &k->items.data[number];
    if (sc_item_reduces(item->kind)) {
        sc_strbuf_printf(out, "    #%u = %s %%%u\n", number, sc_kernel_item_names[item->kind],
                         item->value);
        return;
    }
    sc_strbuf_printf(out, "    %s", sc_kernel_item_names[item->kind]);
    if (item->kind == SC_ITEM_CHECK) {
        sc_strbuf_printf(out, " %%%u ", item->value);
        sc_strbuf_add_quoted(out, item->message == NULL ? "" : item->message);
        if (item->shown != SC_NONE)
            sc_strbuf_printf(out, " shows %%%u", item->shown);
    } else {
        sc_strbuf_add_char(out, ' ');
        print_arg_name(k, item->arg, out);
        print_list(k->operands.data + item->first, item->count, out);
        sc_strbuf_printf(out, " = %%%u", item->value);
        if (item->guard != SC_NONE)
            sc_strbuf_printf(out, " if %%%u", item->guard);
    }
    sc_strbuf_add_char(out, '\n');
}

static void print_phase(const sc_kernel *k, const sc_kernel_phase *phase, sc_strbuf *out)
{
    sc_strbuf_add(out, "  phase");
    for (uint32_t i = 0; i < phase->dim_count; i++) {
        sc_strbuf_add(out, i == 0 ? " " : ", ");
        print_dim_name(k, phase->dims[i], out);
    }
    sc_strbuf_add(out, " {\n");
    for (uint32_t i = 0; i < phase->item_count; i++)
        print_item(k, phase->first_item + i, out);
    sc_strbuf_add(out, "  }\n");
}

void sc_kernel_print(const sc_kernel *k, sc_strbuf *out)
{
    print_head(k, out);
    for (sc_knode n = 0; n < k->nodes.count; n++)
        print_node(k, n, out);
    for (uint32_t p = 0; p < k->phases.count; p++)
        print_phase(k, &k->phases.data[p], out);
    sc_strbuf_add(out, "}\n");
}
