/* Constructors of kernels. Nodes are hash-consed, and folded where that is exact. */
#include "codegen/kernel/kernel.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "codegen/kernel/internal.h"
#include "ir/interp/interp.h"

const sc_node_row sc_node_rows[SC_NODE_COUNT] = {
#define COST_CHEAP     false
#define COST_EXPENSIVE true
#define NODE(name, operands, type, cost, f32, f64, integer, reference)                             \
    {#name, operands, SC_RESULT_##type, COST_##cost, f32, f64, integer},
#include "codegen/kernel/nodes.def"
};

/* ---- dims, arguments, params ---- */

sc_kernel *sc_kernel_new(sc_context *context, sc_sym name)
{
    return sc_kernel_new_in(context, &context->arena, name);
}

sc_kernel *sc_kernel_new_in(sc_context *context, sc_arena *arena, sc_sym name)
{
    sc_kernel *k = sc_arena_alloc(arena, sizeof *k);
    k->context = context;
    k->arena = arena;
    k->name = name;
    k->unique.arena = arena;
    sc_vec_reserve(arena, &k->operands, 1); /* so that empty lists have an address */
    return k;
}

uint32_t sc_kernel_add_dim(sc_kernel *k, sc_sym name, int64_t size)
{
    assert(size >= 1);
    *sc_vec_push(k->arena, &k->dims) = (sc_kernel_dim){name, size};
    return k->dims.count - 1;
}

uint32_t sc_kernel_add_arg(sc_kernel *k, const sc_kernel_arg *arg)
{
    assert(k->args.count < SC_KERNEL_MAX_ARGS && arg->rank <= SC_KERNEL_MAX_RANK);
    for (uint32_t d = 0; d < arg->rank; d++)
        assert(arg->sizes[d] >= 1);
    *sc_vec_push(k->arena, &k->args) = *arg;
    return k->args.count - 1;
}

static bool same_terms(const sc_image_terms *a, const sc_image_terms *b)
{
    bool same = a->count == b->count;
    for (uint32_t i = 0; same && i < a->count; i++)
        same = a->terms[i].divide == b->terms[i].divide &&
               a->terms[i].modulo == b->terms[i].modulo && a->terms[i].times == b->terms[i].times &&
               a->terms[i].plus == b->terms[i].plus;
    return same;
}

static bool same_param(const sc_image_param *a, const sc_image_param *b)
{
    if (a->kind != b->kind)
        return false;
    return a->kind == SC_PARAM_RANK ? same_terms(&a->terms, &b->terms)
                                    : a->kind != SC_PARAM_KEY || a->path_hash == b->path_hash;
}

uint32_t sc_kernel_add_param(sc_kernel *k, const sc_image_param *param)
{
    for (uint32_t i = 0; i < k->params.count; i++) {
        if (same_param(&k->params.data[i], param))
            return i;
    }
    *sc_vec_push(k->arena, &k->params) = *param;
    return k->params.count - 1;
}

/* ---- dtypes ---- */

sc_dtype sc_kernel_dtype(sc_dtype stored)
{
    return stored == SC_DTYPE_bf16 || stored == SC_DTYPE_f16 ? SC_DTYPE_f32
           : stored == SC_DTYPE_u8                           ? SC_DTYPE_i32
                                                             : stored;
}

static sc_dtype dtype_of(const sc_kernel *k, sc_knode node)
{
    return (sc_dtype)k->nodes.data[node].dtype;
}

sc_dtype sc_kernel_result_dtype(const sc_kernel *k, sc_node_kind kind, const sc_knode *operands)
{
    const sc_node_row *row = &sc_node_rows[kind];
    assert(row->result != SC_RESULT_GIVEN);
    return row->result == SC_RESULT_BOOL
               ? SC_DTYPE_bool
               : dtype_of(k, operands[row->result == SC_RESULT_LAST ? row->operands - 1 : 0]);
}

/* Kinds that take bool: comparisons, logic, selection, minimum and maximum. */
static bool takes_bool(sc_node_kind kind)
{
    return (kind >= SC_NODE_lt && kind <= SC_NODE_where) || kind == SC_NODE_minimum ||
           kind == SC_NODE_maximum;
}

static bool takes_only_bool(sc_node_kind kind)
{
    return kind == SC_NODE_and || kind == SC_NODE_or || kind == SC_NODE_not;
}

const char *sc_kernel_operands_error(const sc_kernel *k, sc_node_kind kind,
                                     const sc_knode *operands, uint32_t count)
{
    const sc_node_row *row = &sc_node_rows[kind];
    if (row->operands != SC_NODE_ANY && count != (uint32_t)row->operands)
        return "it has the wrong number of operands";
    /* a load's guard is checked where the argument is known */
    if (kind == SC_NODE_random || kind == SC_NODE_load) {
        for (uint32_t i = 0; i < count; i++) {
            if (dtype_of(k, operands[i]) != SC_DTYPE_i64)
                return "an index is i64";
        }
        return NULL;
    }
    if (count == 0 || kind == SC_NODE_convert)
        return NULL;
    if (kind == SC_NODE_where && dtype_of(k, operands[0]) != SC_DTYPE_bool)
        return "the first operand of a choice is bool";
    sc_dtype dtype = dtype_of(k, operands[count - 1]);
    if (count > 1 && dtype_of(k, operands[count - 2]) != dtype)
        return "its operands have different dtypes";
    if (dtype == SC_DTYPE_bool ? !takes_bool(kind) : takes_only_bool(kind))
        return dtype == SC_DTYPE_bool ? "it takes numbers, not bool" : "it takes bool";
    if (!sc_dtype_is_float(dtype) && row->integer[0] == 0)
        return "it takes f32 or f64";
    return NULL;
}

static bool fits_argument(sc_dtype value, sc_dtype stored)
{
    return sc_dtype_is_float(stored) ? sc_dtype_is_float(value) : value == sc_kernel_dtype(stored);
}

const char *sc_kernel_item_error(const sc_kernel *k, const sc_kernel_item *item,
                                 const sc_knode *indices)
{
    sc_dtype dtype = dtype_of(k, item->value);
    if (item->kind == SC_ITEM_CHECK && item->shown != SC_NONE &&
        dtype_of(k, item->shown) != SC_DTYPE_i64)
        return "what a check shows is i64";
    if (item->kind == SC_ITEM_CHECK)
        return dtype == SC_DTYPE_bool ? NULL : "a check is bool";
    if (item->kind == SC_ITEM_SUM)
        return dtype != SC_DTYPE_bool ? NULL : "a sum is of numbers";
    if (!sc_item_writes(item->kind))
        return NULL;
    const sc_kernel_arg *arg = &k->args.data[item->arg];
    if (arg->mode == SC_ARG_IN)
        return "this argument is only read";
    if (item->count != arg->rank)
        return "the argument needs an index for each of its dims";
    if (!fits_argument(dtype, arg->dtype))
        return "the value's dtype is not that of the argument";
    if (item->kind == SC_ITEM_ADD && dtype == SC_DTYPE_bool)
        return "bool is not added";
    if (item->guard != SC_NONE && dtype_of(k, item->guard) != SC_DTYPE_bool)
        return "a guard is bool";
    for (uint32_t i = 0; i < item->count; i++) {
        if (dtype_of(k, indices[i]) != SC_DTYPE_i64)
            return "an index is i64";
    }
    return NULL;
}

/* ---- unique nodes ---- */

/* The bits in which nodes differ besides their operands. */
static uint64_t payload(const sc_kernel_node *node)
{
    uint64_t bits = 0;
    if (node->kind == SC_NODE_constant)
        memcpy(&bits, &node->number, sizeof bits);
    else
        bits = node->index;
    return bits;
}

static bool same_node(const sc_kernel *k, sc_knode other, const sc_kernel_node *node,
                      const sc_knode *operands)
{
    const sc_kernel_node *n = &k->nodes.data[other];
    return n->kind == node->kind && n->dtype == node->dtype && n->count == node->count &&
           payload(n) == payload(node) &&
           (n->count == 0 ||
            memcmp(k->operands.data + n->first, operands, n->count * sizeof *operands) == 0);
}

sc_knode sc_kernel_unique(sc_kernel *k, sc_kernel_node node, const sc_knode *operands,
                          uint32_t count)
{
    sc_arena *arena = k->arena;
    node.first = k->operands.count;
    node.count = count;
    uint64_t key = sc_hash_mix((uint64_t)node.kind << 8 | node.dtype, payload(&node));
    if (count > 0)
        key = sc_hash_mix(key, sc_hash_bytes(operands, count * sizeof *operands, count));
    bool is_new;
    uint32_t *slot;
    while (slot = sc_map_insert(&k->unique, key, k->nodes.count, &is_new),
           !is_new && !same_node(k, *slot, &node, operands))
        key++;
    if (!is_new)
        return *slot;
    sc_vec_reserve(arena, &k->operands, count);
    for (uint32_t i = 0; i < count; i++) {
        assert(operands[i] < k->nodes.count);
        *sc_vec_push(arena, &k->operands) = operands[i];
    }
    *sc_vec_push(arena, &k->nodes) = node;
    return k->nodes.count - 1;
}

/* ---- leaves ---- */

sc_knode sc_kernel_constant(sc_kernel *k, sc_dtype dtype, double number)
{
    assert(sc_kernel_dtype(dtype) == dtype);
    if (!sc_dtype_is_float(dtype))
        number = sc_round_to(dtype, number);
    return sc_kernel_unique(k,
                            (sc_kernel_node){.kind = SC_NODE_constant,
                                             .dtype = (uint8_t)dtype,
                                             .number = isnan(number) ? NAN : number},
                            NULL, 0);
}

sc_knode sc_kernel_index(sc_kernel *k, uint32_t dim)
{
    assert(dim < k->dims.count);
    return sc_kernel_unique(
        k, (sc_kernel_node){.kind = SC_NODE_index, .dtype = SC_DTYPE_i64, .index = dim}, NULL, 0);
}

sc_knode sc_kernel_param(sc_kernel *k, uint32_t param)
{
    assert(param < k->params.count);
    return sc_kernel_unique(
        k, (sc_kernel_node){.kind = SC_NODE_param, .dtype = SC_DTYPE_i64, .index = param}, NULL, 0);
}

sc_knode sc_kernel_load(sc_kernel *k, uint32_t arg, const sc_knode *indices, sc_knode guard)
{
    assert(arg < k->args.count);
    const sc_kernel_arg *a = &k->args.data[arg];
    sc_dtype dtype = sc_kernel_dtype(a->dtype);
    sc_knode operands[SC_KERNEL_MAX_RANK + 1];
    assert(sc_kernel_operands_error(k, SC_NODE_load, indices, a->rank) == NULL);
    if (a->rank > 0)
        memcpy(operands, indices, a->rank * sizeof *operands);
    bool guarded = guard != SC_NONE;
    assert(!guarded || dtype_of(k, guard) == SC_DTYPE_bool);
    if (guarded && sc_kernel_is_number(k, guard, 0))
        return sc_kernel_constant(k, dtype, 0);
    guarded = guarded && !sc_kernel_is_number(k, guard, 1);
    if (guarded)
        operands[a->rank] = guard;
    return sc_kernel_unique(
        k, (sc_kernel_node){.kind = SC_NODE_load, .dtype = (uint8_t)dtype, .index = arg}, operands,
        a->rank + guarded);
}

sc_knode sc_kernel_reduced(sc_kernel *k, uint32_t item, bool running)
{
    assert(item < k->items.count && sc_item_reduces(k->items.data[item].kind));
    uint16_t kind = running ? SC_NODE_running : SC_NODE_reduced;
    uint8_t dtype = k->nodes.data[k->items.data[item].value].dtype;
    return sc_kernel_unique(k, (sc_kernel_node){.kind = kind, .dtype = dtype, .index = item}, NULL,
                            0);
}

sc_knode sc_kernel_random(sc_kernel *k, sc_knode element, sc_knode key, sc_knode step,
                          sc_knode micro_batch)
{
    const sc_knode operands[] = {element, key, step, micro_batch};
    assert(sc_kernel_operands_error(k, SC_NODE_random, operands, 4) == NULL &&
           k->nodes.data[key].kind == SC_NODE_param);
    return sc_kernel_unique(k, (sc_kernel_node){.kind = SC_NODE_random, .dtype = SC_DTYPE_f64},
                            operands, 4);
}

/* ---- folding: each returns the equivalent node, or SC_NONE ---- */

static sc_knode fold_constants(sc_kernel *k, sc_node_kind kind, const sc_knode *operands,
                               uint32_t count)
{
    double values[3] = {0};
    for (uint32_t i = 0; i < count; i++) {
        if (!sc_kernel_is_constant(k, operands[i], &values[i]))
            return SC_NONE;
    }
    sc_dtype dtype = sc_kernel_result_dtype(k, kind, operands);
    return sc_kernel_constant(k, dtype,
                              sc_node_evaluate(kind, dtype, values[0], values[1], values[2]));
}

/* -(-x), not not x, | -x |, | |x| |; floor of an integral value; max(max(x, 0), 0). */
static sc_knode fold_unary(sc_kernel *k, sc_node_kind kind, sc_knode x)
{
    const sc_kernel_node *inner = &k->nodes.data[x];
    bool integer = !sc_dtype_is_float((sc_dtype)inner->dtype);
    if ((kind == SC_NODE_neg || kind == SC_NODE_not) && inner->kind == kind)
        return *sc_kernel_operands(k, x);
    if (kind == SC_NODE_abs && inner->kind == SC_NODE_neg)
        return sc_kernel_node_new(k, SC_NODE_abs, sc_kernel_operands(k, x), 1);
    bool twice = (kind == SC_NODE_abs || kind == SC_NODE_floor || kind == SC_NODE_relu) &&
                 inner->kind == kind;
    return twice || (kind == SC_NODE_floor && integer) ? x : SC_NONE;
}

/* x + 0 is x unless x is -0; x - 0 and x + -0 are x; x * 1, x / 1, x ^ 1. */
static sc_knode fold_float(sc_kernel *k, sc_node_kind kind, sc_knode x, sc_knode y)
{
    bool one = sc_kernel_is_number(k, y, 1);
    if ((kind == SC_NODE_add && sc_kernel_is_number(k, y, -0.0)) ||
        (kind == SC_NODE_sub && sc_kernel_is_number(k, y, 0)))
        return x;
    if ((kind == SC_NODE_mul || kind == SC_NODE_div || kind == SC_NODE_pow) && one)
        return x;
    if (kind == SC_NODE_pow && sc_kernel_is_number(k, y, 2))
        return sc_kernel_node_new(k, SC_NODE_mul, (sc_knode[]){x, x}, 2);
    if ((kind == SC_NODE_minimum || kind == SC_NODE_maximum) && x == y)
        return x;
    return SC_NONE;
}

static sc_knode fold_integer(sc_kernel *k, sc_node_kind kind, sc_knode x, sc_knode y)
{
    sc_dtype dtype = (sc_dtype)k->nodes.data[x].dtype;
    bool zero = sc_kernel_is_number(k, y, 0), one = sc_kernel_is_number(k, y, 1);
    switch (kind) {
    case SC_NODE_add:
        return zero ? x : SC_NONE;
    case SC_NODE_sub:
        return zero ? x : x == y ? sc_kernel_constant(k, dtype, 0) : SC_NONE;
    case SC_NODE_mul:
    case SC_NODE_div:
        return zero ? y : one ? x : SC_NONE;
    case SC_NODE_mod:
        return zero ? y : one ? sc_kernel_constant(k, dtype, 0) : SC_NONE;
    case SC_NODE_minimum:
    case SC_NODE_maximum:
        return x == y ? x : SC_NONE;
    case SC_NODE_le:
    case SC_NODE_ge:
    case SC_NODE_eq:
    case SC_NODE_lt:
    case SC_NODE_gt:
    case SC_NODE_ne:
        return x == y ? sc_kernel_constant(k, SC_DTYPE_bool,
                                           kind == SC_NODE_le || kind == SC_NODE_ge ||
                                               kind == SC_NODE_eq)
                      : SC_NONE;
    case SC_NODE_and:
        return zero || x == y ? y : one ? x : SC_NONE;
    case SC_NODE_or:
        return one || x == y ? y : zero ? x : SC_NONE;
    default:
        return SC_NONE;
    }
}

static sc_knode fold(sc_kernel *k, sc_node_kind kind, const sc_knode *operands, uint32_t count)
{
    sc_knode constant = fold_constants(k, kind, operands, count);
    if (constant != SC_NONE)
        return constant;
    if (kind == SC_NODE_where) {
        double chosen;
        if (operands[1] == operands[2])
            return operands[1];
        return sc_kernel_is_constant(k, operands[0], &chosen) ? operands[chosen != 0 ? 1 : 2]
                                                              : SC_NONE;
    }
    if (count == 1)
        return fold_unary(k, kind, operands[0]);
    bool floats = sc_dtype_is_float((sc_dtype)k->nodes.data[operands[0]].dtype);
    return floats ? fold_float(k, kind, operands[0], operands[1])
                  : fold_integer(k, kind, operands[0], operands[1]);
}

/* ---- operations ---- */

/* Maximum and minimum do not commute: for 0 and -0 they return the second. */
static bool commutes(sc_node_kind kind)
{
    return kind == SC_NODE_add || kind == SC_NODE_mul || kind == SC_NODE_eq || kind == SC_NODE_ne ||
           kind == SC_NODE_and || kind == SC_NODE_or;
}

sc_knode sc_kernel_node_new(sc_kernel *k, sc_node_kind kind, const sc_knode *operands,
                            uint32_t count)
{
    assert(count > 0 && count <= 3 && kind > SC_NODE_convert);
    assert(sc_kernel_operands_error(k, kind, operands, count) == NULL);
    sc_knode own[3];
    memcpy(own, operands, count * sizeof *own);
    if (commutes(kind)) { /* canonical order: the older operand first, a constant last */
        bool first = k->nodes.data[own[0]].kind == SC_NODE_constant,
             second = k->nodes.data[own[1]].kind == SC_NODE_constant;
        if (first != second ? first : own[0] > own[1]) {
            own[0] = operands[1];
            own[1] = operands[0];
        }
    }
    sc_knode folded = fold(k, kind, own, count);
    if (folded != SC_NONE)
        return folded;
    sc_dtype dtype = sc_kernel_result_dtype(k, kind, own);
    return sc_kernel_unique(k, (sc_kernel_node){.kind = (uint16_t)kind, .dtype = (uint8_t)dtype},
                            own, count);
}

/* True if `to` represents every value of `from`. */
static bool widens(sc_dtype from, sc_dtype to)
{
    if (from == SC_DTYPE_bool || from == to)
        return true;
    if (sc_dtype_is_float(from) != sc_dtype_is_float(to))
        return from == SC_DTYPE_i32 && to == SC_DTYPE_f64;
    return to != SC_DTYPE_bool && sc_dtypes[from].significand <= sc_dtypes[to].significand;
}

sc_knode sc_kernel_convert(sc_kernel *k, sc_knode value, sc_dtype dtype)
{
    assert(sc_kernel_dtype(dtype) == dtype);
    const sc_kernel_node *node = &k->nodes.data[value];
    sc_dtype from = (sc_dtype)node->dtype;
    if (from == dtype)
        return value;
    if (node->kind == SC_NODE_constant)
        return sc_kernel_constant(k, dtype, node->number);
    if (node->kind == SC_NODE_convert) { /* a first conversion that is exact can be skipped */
        sc_knode inner = *sc_kernel_operands(k, value);
        if (widens(dtype_of(k, inner), from))
            return sc_kernel_convert(k, inner, dtype);
    }
    return sc_kernel_unique(k, (sc_kernel_node){.kind = SC_NODE_convert, .dtype = (uint8_t)dtype},
                            &value, 1);
}

/* ---- phases and items ---- */

void sc_kernel_add_phase(sc_kernel *k, const uint32_t *dims, uint32_t dim_count)
{
    assert(dim_count <= SC_KERNEL_MAX_RANK);
    sc_kernel_phase *phase = sc_vec_push(k->arena, &k->phases);
    *phase = (sc_kernel_phase){.dim_count = dim_count, .first_item = k->items.count};
    for (uint32_t i = 0; i < dim_count; i++)
        phase->dims[i] = dims[i];
}

uint32_t sc_kernel_add_item(sc_kernel *k, sc_kernel_item item, const sc_knode *indices)
{
    assert(k->phases.count > 0 && sc_kernel_item_error(k, &item, indices) == NULL);
    item.first = k->operands.count;
    for (uint32_t i = 0; i < item.count; i++)
        *sc_vec_push(k->arena, &k->operands) = indices[i];
    k->phases.data[k->phases.count - 1].item_count++;
    *sc_vec_push(k->arena, &k->items) = item;
    return k->items.count - 1;
}

uint32_t sc_kernel_add_reduction(sc_kernel *k, sc_item_kind kind, sc_knode value)
{
    assert(sc_item_reduces(kind));
    return sc_kernel_add_item(
        k, (sc_kernel_item){.kind = kind, .value = value, .guard = SC_NONE, .shown = SC_NONE},
        NULL);
}

void sc_kernel_add_store(sc_kernel *k, sc_item_kind kind, uint32_t arg, const sc_knode *indices,
                         sc_knode value, sc_knode guard)
{
    assert(sc_item_writes(kind) && arg < k->args.count);
    if (guard != SC_NONE && sc_kernel_is_number(k, guard, 0))
        return;
    if (guard != SC_NONE && sc_kernel_is_number(k, guard, 1))
        guard = SC_NONE;
    sc_kernel_item item = {
        .kind = kind, .value = value, .arg = arg, .guard = guard, .shown = SC_NONE};
    item.count = k->args.data[arg].rank;
    sc_kernel_add_item(k, item, indices);
}

void sc_kernel_add_check(sc_kernel *k, sc_knode value, sc_knode shown, const char *message)
{
    sc_kernel_item item = {.kind = SC_ITEM_CHECK,
                           .value = value,
                           .message = message,
                           .guard = SC_NONE,
                           .shown = shown};
    if (!sc_kernel_is_number(k, value, 1))
        sc_kernel_add_item(k, item, NULL);
}

/* ---- queries ---- */

/* A reduction removes the dims of its phase; a running one keeps them. */
bool sc_kernel_depends(const sc_kernel *k, sc_knode node, uint32_t dim)
{
    bool *depends = sc_arena_array(k->arena, k->nodes.count, sizeof *depends);
    for (sc_knode n = 0; n <= node; n++) {
        const sc_kernel_node *row = &k->nodes.data[n];
        if (row->kind == SC_NODE_index)
            depends[n] = row->index == dim;
        for (uint32_t i = 0; i < row->count; i++)
            depends[n] = depends[n] || depends[sc_kernel_operands(k, n)[i]];
        if (row->kind != SC_NODE_reduced && row->kind != SC_NODE_running)
            continue;
        const sc_kernel_phase *phase = k->phases.data;
        while (row->index >= phase->first_item + phase->item_count)
            phase++;
        bool inner = false;
        for (uint32_t i = 0; i < phase->dim_count; i++)
            inner = inner || phase->dims[i] == dim;
        sc_knode value = k->items.data[row->index].value;
        depends[n] = inner ? row->kind == SC_NODE_running : value < n && depends[value];
    }
    return depends[node];
}
