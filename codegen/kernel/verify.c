/* The verifier of kernels. It checks in order that all references are valid and dtypes match; that
 * items read only what is available; that indices are inside their arguments; that iterations do
 * not interfere. Each step relies on the previous ones. */
#include <string.h>

#include "codegen/kernel/access.h"
#include "codegen/kernel/internal.h"

/* So that numbers of elements and points are exact as doubles. */
#define MOST_ELEMENTS ((int64_t)1 << 52)

typedef struct verifier {
    const sc_kernel *k;
    const char *error; /* the first one */
} verifier;

static bool fail(verifier *v, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool fail(verifier *v, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    v->error = sc_arena_vprintf(v->k->arena, format, args);
    va_end(args);
    return false;
}

static const char *arg_name(const verifier *v, uint32_t arg)
{
    return sc_text(v->k->context, v->k->args.data[arg].name);
}

static const char *dim_name(const verifier *v, uint32_t dim)
{
    return sc_text(v->k->context, v->k->dims.data[dim].name);
}

/* ---- declarations ---- */

static bool multiply(int64_t *product, int64_t size)
{
    return !__builtin_mul_overflow(*product, size, product) && *product <= MOST_ELEMENTS;
}

static bool verify_dims(verifier *v)
{
    const sc_kernel *k = v->k;
    int64_t points = 1;
    if (k->dims.count > SC_KERNEL_MAX_DIMS)
        return fail(v, "a kernel has at most %d dims", SC_KERNEL_MAX_DIMS);
    if (k->outer_count > k->dims.count || k->outer_count >= SC_KERNEL_MAX_DIMS)
        return fail(v, "%u of %u dims are outer", k->outer_count, k->dims.count);
    for (uint32_t d = 0; d < k->dims.count; d++) {
        if (k->dims.data[d].size < 1)
            return fail(v, "dim %s has size %lld", dim_name(v, d), (long long)k->dims.data[d].size);
        if (d < k->outer_count && !multiply(&points, k->dims.data[d].size))
            return fail(v, "there are too many outer iterations");
        for (uint32_t e = 0; e < d; e++) {
            if (k->dims.data[e].name == k->dims.data[d].name)
                return fail(v, "two dims are called %s", dim_name(v, d));
        }
    }
    return true;
}

static bool verify_arg(verifier *v, uint32_t number)
{
    const sc_kernel *k = v->k;
    const sc_kernel_arg *arg = &k->args.data[number];
    int64_t elements = 1;
    if (arg->rank > SC_KERNEL_MAX_RANK || arg->dtype >= SC_DTYPE_COUNT || arg->mode > SC_ARG_INOUT)
        return fail(v, "there is no argument %u", number);
    for (uint32_t d = 0; d < arg->rank; d++) {
        if (arg->sizes[d] < 1 || !multiply(&elements, arg->sizes[d]))
            return fail(v, "argument %s has no dims, or too large ones", arg_name(v, number));
    }
    for (uint32_t i = 0; i < number; i++) {
        if (k->args.data[i].name == arg->name)
            return fail(v, "two arguments are called %s", arg_name(v, number));
    }
    return true;
}

static bool verify_declarations(verifier *v)
{
    const sc_kernel *k = v->k;
    if (k->args.count > SC_KERNEL_MAX_ARGS)
        return fail(v, "a kernel has at most %d arguments", SC_KERNEL_MAX_ARGS);
    for (uint32_t i = 0; i < k->args.count; i++) {
        if (!verify_arg(v, i))
            return false;
    }
    for (uint32_t i = 0; i < k->params.count; i++) {
        const sc_image_terms *terms = &k->params.data[i].terms;
        if (k->params.data[i].kind >= SC_PARAM_KINDS)
            return fail(v, "there is no param %u", i);
        if (k->params.data[i].kind != SC_PARAM_RANK)
            continue;
        for (uint32_t t = 0; t < terms->count; t++) {
            if (terms->terms[t].divide < 1 || terms->terms[t].modulo < 1)
                return fail(v, "param %u divides by 0", i);
            if (terms->terms[t].plus >= terms->terms[t].modulo)
                return fail(v, "param %u counts from a member that a ring lacks", i);
        }
    }
    return true;
}

/* ---- nodes ---- */

static bool is_key(const sc_kernel *k, sc_knode n)
{
    return k->nodes.data[n].kind == SC_NODE_param &&
           k->params.data[k->nodes.data[n].index].kind == SC_PARAM_KEY;
}

/* Checks what a leaf refers to, by kind, and returns the resulting dtype; SC_DTYPE_COUNT: any. */
static bool verify_leaf(verifier *v, sc_knode n, sc_dtype *out_dtype)
{
    const sc_kernel *k = v->k;
    const sc_kernel_node *node = &k->nodes.data[n];
    *out_dtype = node->kind == SC_NODE_random ? SC_DTYPE_f64 : SC_DTYPE_COUNT;
    if (node->kind == SC_NODE_index || node->kind == SC_NODE_param) {
        *out_dtype = SC_DTYPE_i64;
        if (node->index >= (node->kind == SC_NODE_index ? k->dims.count : k->params.count))
            return fail(v, "%%%u is the %s of nothing", n, sc_node_rows[node->kind].name);
    } else if (node->kind == SC_NODE_load) {
        if (node->index >= k->args.count)
            return fail(v, "%%%u loads from no argument", n);
        const sc_kernel_arg *arg = &k->args.data[node->index];
        *out_dtype = sc_kernel_dtype(arg->dtype);
        if (node->count != arg->rank && node->count != arg->rank + 1)
            return fail(v, "%%%u has not an index for each dim of %s", n, arg_name(v, node->index));
    } else if (node->kind == SC_NODE_reduced || node->kind == SC_NODE_running) {
        if (node->index >= k->items.count || !sc_item_reduces(k->items.data[node->index].kind) ||
            k->items.data[node->index].value >= k->nodes.count)
            return fail(v, "%%%u: there is no reduction #%u", n, node->index);
        *out_dtype = (sc_dtype)k->nodes.data[k->items.data[node->index].value].dtype;
    }
    return true;
}

static bool verify_operands(verifier *v, sc_knode n)
{
    const sc_kernel *k = v->k;
    const sc_kernel_node *node = &k->nodes.data[n];
    const sc_knode *operands = sc_kernel_operands(k, n);
    for (uint32_t i = 0; i < node->count; i++) {
        if (operands[i] >= n)
            return fail(v, "%%%u comes before its operand %%%u", n, operands[i]);
        bool is_its_key = node->kind == SC_NODE_random && i == 1;
        if (is_key(k, operands[i]) != is_its_key)
            return fail(v,
                        is_its_key ? "%%%u: the key is a param of that kind"
                                   : "%%%u computes with a key",
                        n);
    }
    bool guarded = node->kind == SC_NODE_load && node->count > k->args.data[node->index].rank;
    if (guarded && k->nodes.data[operands[node->count - 1]].dtype != SC_DTYPE_bool)
        return fail(v, "%%%u: a guard is bool", n);
    const char *error =
        sc_kernel_operands_error(k, (sc_node_kind)node->kind, operands, node->count - guarded);
    return error == NULL || fail(v, "%%%u: %s", n, error);
}

static bool verify_node(verifier *v, sc_knode n)
{
    const sc_kernel *k = v->k;
    const sc_kernel_node *node = &k->nodes.data[n];
    sc_dtype dtype;
    if (node->kind >= SC_NODE_COUNT || node->dtype >= SC_DTYPE_COUNT ||
        sc_kernel_dtype((sc_dtype)node->dtype) != node->dtype)
        return fail(v, "%%%u is no node", n);
    if (node->first > k->operands.count || node->count > k->operands.count - node->first)
        return fail(v, "%%%u has no operands", n);
    if (!verify_leaf(v, n, &dtype) || !verify_operands(v, n))
        return false;
    if (sc_node_rows[node->kind].result != SC_RESULT_GIVEN)
        dtype = sc_kernel_result_dtype(k, (sc_node_kind)node->kind, sc_kernel_operands(k, n));
    if (dtype != SC_DTYPE_COUNT && dtype != node->dtype)
        return fail(v, "%%%u is %s, but gives %s", n, sc_dtypes[node->dtype].name,
                    sc_dtypes[dtype].name);
    return true;
}

/* ---- phases ---- */

static bool verify_item(verifier *v, uint32_t number)
{
    const sc_kernel *k = v->k;
    const sc_kernel_item *item = &k->items.data[number];
    if (item->kind > SC_ITEM_CHECK || item->value >= k->nodes.count)
        return fail(v, "#%u is no item", number);
    if (item->kind == SC_ITEM_CHECK && item->message == NULL)
        return fail(v, "#%u: a check without a message", number);
    if (item->shown != SC_NONE &&
        (item->kind != SC_ITEM_CHECK || item->shown >= k->nodes.count || is_key(k, item->shown)))
        return fail(v, "#%u shows no number", number);
    if (!sc_item_writes(item->kind) && item->count > 0)
        return fail(v, "#%u: only what stores has indices", number);
    if (sc_item_writes(item->kind) &&
        (item->arg >= k->args.count || (item->guard != SC_NONE && item->guard >= k->nodes.count)))
        return fail(v, "#%u writes to no argument", number);
    if (item->first > k->operands.count || item->count > k->operands.count - item->first)
        return fail(v, "#%u has no indices", number);
    const sc_knode *indices = k->operands.data + item->first;
    for (uint32_t i = 0; i < item->count; i++) {
        if (indices[i] >= k->nodes.count || is_key(k, indices[i]))
            return fail(v, "#%u: an index is no number", number);
    }
    if (is_key(k, item->value))
        return fail(v, "#%u computes with a key", number);
    const char *error = sc_kernel_item_error(k, item, indices);
    return error == NULL || fail(v, "#%u: %s", number, error);
}

static bool verify_phase(verifier *v, uint32_t number, uint32_t *next_item)
{
    const sc_kernel *k = v->k;
    const sc_kernel_phase *phase = &k->phases.data[number];
    int64_t points = 1;
    if (phase->first_item != *next_item || phase->item_count > k->items.count - *next_item)
        return fail(v, "the items of phase %u are not the next ones", number);
    *next_item += phase->item_count;
    if (phase->dim_count > SC_KERNEL_MAX_RANK)
        return fail(v, "phase %u has more than %d dims", number, SC_KERNEL_MAX_RANK);
    for (uint32_t d = 0; d < k->outer_count; d++)
        multiply(&points, k->dims.data[d].size); /* no overflow: verify_dims checked it */
    for (uint32_t i = 0; i < phase->dim_count; i++) {
        if (phase->dims[i] >= k->dims.count || phase->dims[i] < k->outer_count)
            return fail(v, "phase %u runs over a dim that is not an inner one", number);
        for (uint32_t j = 0; j < i; j++) {
            if (phase->dims[j] == phase->dims[i])
                return fail(v, "phase %u runs over dim %s twice", number,
                            dim_name(v, phase->dims[i]));
        }
        if (!multiply(&points, k->dims.data[phase->dims[i]].size))
            return fail(v, "phase %u has too many points", number);
    }
    return true;
}

/* Checks that what the item needs is available: dims of the phase, reductions of finished phases,
 * running ones of this phase. */
static bool verify_needs(verifier *v, uint32_t phase, uint32_t number, bool *needed)
{
    const sc_kernel *k = v->k;
    uint64_t dims = sc_kernel_outer_dims(k) | sc_kernel_phase_dims(k, phase);
    sc_kernel_mark_needed(k, &k->items.data[number], needed);
    for (sc_knode n = 0; n < k->nodes.count; n++) {
        const sc_kernel_node *node = &k->nodes.data[n];
        if (!needed[n])
            continue;
        if (node->kind == SC_NODE_index && (dims >> node->index & 1) == 0)
            return fail(v, "#%u needs an index of dim %s, which its phase does not run over",
                        number, dim_name(v, node->index));
        if (node->kind == SC_NODE_reduced && sc_kernel_phase_of(k, node->index) >= phase)
            return fail(v, "#%u reads #%u before the phase of that ended", number, node->index);
        if (node->kind == SC_NODE_running &&
            (sc_kernel_phase_of(k, node->index) != phase || k->items.data[node->index].value >= n))
            return fail(v, "#%u reads #%u running, which does not run here", number, node->index);
    }
    return true;
}

static bool verify_phases(verifier *v)
{
    const sc_kernel *k = v->k;
    bool *needed = sc_arena_array(k->arena, k->nodes.count, sizeof *needed);
    uint32_t next_item = 0, checks = 0;
    for (sc_knode n = 0; n < k->nodes.count; n++) {
        if (!verify_node(v, n))
            return false;
    }
    for (uint32_t i = 0; i < k->items.count; i++) {
        if (!verify_item(v, i))
            return false;
        checks += k->items.data[i].kind == SC_ITEM_CHECK;
    }
    if (checks > SC_IMAGE_MAX_CHECKS)
        return fail(v, "a kernel has at most %d checks", SC_IMAGE_MAX_CHECKS);
    for (uint32_t p = 0; p < k->phases.count; p++) {
        if (!verify_phase(v, p, &next_item))
            return false;
    }
    if (next_item != k->items.count)
        return fail(v, "#%u belongs to no phase", next_item);
    for (uint32_t i = 0; i < k->items.count; i++) {
        if (!verify_needs(v, sc_kernel_phase_of(k, i), i, needed))
            return false;
    }
    return true;
}

/* ---- accesses ---- */

/* "%12" or "#3" */
static const char *access_name(const verifier *v, const sc_access *access)
{
    bool item = access->node == SC_NONE;
    return sc_arena_printf(v->k->arena, item ? "#%u" : "%%%u", item ? access->item : access->node);
}

static bool verify_bounds(verifier *v, const sc_access *access)
{
    const sc_kernel_arg *arg = &v->k->args.data[access->arg];
    for (uint32_t d = 0; d < arg->rank; d++) {
        sc_interval index = access->intervals[access->indices[d]];
        if (index.low < 0 || index.high >= arg->sizes[d])
            return fail(v, "%s: index %u of %s is between %lld and %lld, its dim has %lld",
                        access_name(v, access), d, arg_name(v, access->arg), (long long)index.low,
                        (long long)index.high, (long long)arg->sizes[d]);
    }
    return true;
}

static bool is_store(const sc_access *access)
{
    return access->writes && access->kind == SC_ITEM_STORE;
}

/* An OUT is stored in an earlier phase than any that reads its elements; within one phase, an
 * argument is loaded before it is written. */
static bool verify_order(verifier *v, const sc_access_list *list, const sc_access *access)
{
    bool stored = false;
    for (uint32_t i = 0; i < list->list.count; i++) {
        const sc_access *other = &list->list.data[i];
        if (other->arg != access->arg || !other->writes)
            continue;
        stored = stored || (is_store(other) && other->phase < access->phase);
        if (!access->writes && other->phase == access->phase && other->item < access->item)
            return fail(v, "%s loads from %s behind #%u, which writes to it in the same phase",
                        access_name(v, access), arg_name(v, access->arg), other->item);
    }
    if (v->k->args.data[access->arg].mode == SC_ARG_OUT && !is_store(access) && !stored)
        return fail(v, "%s needs elements of %s, which no phase in front stores",
                    access_name(v, access), arg_name(v, access->arg));
    return true;
}

static bool verify_pair(verifier *v, sc_access_list *list, const sc_access *a, const sc_access *b)
{
    uint64_t dims = sc_kernel_outer_dims(v->k);
    if (!sc_access_apart(list, a, b, dims, false))
        return fail(v,
                    a == b ? "%s touches elements of %s in more than one outer iteration"
                           : "%s touches elements of %s in other outer iterations than %s",
                    access_name(v, a), arg_name(v, a->arg), access_name(v, b));
    bool points = a->phase == b->phase && (is_store(a) || is_store(b) || a->writes != b->writes);
    if (points && !sc_access_apart(list, a, b, dims | sc_kernel_phase_dims(v->k, a->phase), false))
        return fail(v,
                    a == b ? "%s touches elements of %s at more than one point of its phase"
                           : "%s touches elements of %s at other points of the phase than %s",
                    access_name(v, a), arg_name(v, a->arg), access_name(v, b));
    return true;
}

static bool verify_accesses(verifier *v)
{
    sc_access_list list;
    sc_kernel_accesses(v->k, SC_NONE, &list);
    for (uint32_t i = 0; i < list.list.count; i++) {
        if (!verify_bounds(v, &list.list.data[i]))
            return false;
    }
    for (uint32_t i = 0; i < list.list.count; i++) {
        const sc_access *a = &list.list.data[i];
        if (!list.written[a->arg])
            continue;
        if (!verify_order(v, &list, a))
            return false;
        for (uint32_t j = i + 1; j-- > 0;) { /* the pair with itself first */
            const sc_access *b = &list.list.data[j];
            if (b->arg == a->arg && (a->writes || b->writes) && !verify_pair(v, &list, a, b))
                return false;
        }
    }
    return true;
}

static bool verify_stored(verifier *v)
{
    const sc_kernel *k = v->k;
    for (uint32_t a = 0; a < k->args.count; a++) {
        bool stored = k->args.data[a].mode != SC_ARG_OUT;
        for (uint32_t i = 0; i < k->items.count; i++)
            stored =
                stored || (k->items.data[i].kind == SC_ITEM_STORE && k->items.data[i].arg == a);
        if (!stored)
            return fail(v, "nothing is stored to %s", arg_name(v, a));
    }
    return true;
}

const char *sc_kernel_verify(const sc_kernel *k)
{
    verifier v = {.k = k};
    bool good = verify_dims(&v) && verify_declarations(&v) && verify_phases(&v) &&
                verify_stored(&v) && verify_accesses(&v);
    return good ? NULL : v.error;
}

/* ---- sharing ---- */

static int64_t elements_of(const sc_kernel_arg *arg)
{
    int64_t count = 1;
    for (uint32_t d = 0; d < arg->rank; d++)
        count *= arg->sizes[d];
    return count;
}

/* True if no write destroys an element before the load: the write touches elements of other
 * iterations, or elements that were already loaded. */
static bool load_survives(sc_access_list *list, const sc_access *load, const sc_access *write)
{
    uint64_t outer = sc_kernel_outer_dims(list->k);
    if (load->phase > write->phase || (load->phase == write->phase && load->item > write->item))
        return sc_access_apart(list, load, write, 0, true);
    if (load->phase == write->phase)
        outer |= sc_kernel_phase_dims(list->k, load->phase);
    return sc_access_apart(list, load, write, outer, false);
}

bool sc_kernel_may_share(const sc_kernel *k, uint32_t in, uint32_t out)
{
    const sc_kernel_arg *from = &k->args.data[in], *to = &k->args.data[out];
    sc_access_list list;
    if (from->mode != SC_ARG_IN || to->mode != SC_ARG_OUT || from->dtype != to->dtype ||
        elements_of(from) != elements_of(to))
        return false;
    sc_kernel_accesses(k, in, &list);
    for (uint32_t i = 0; i < list.list.count; i++) {
        const sc_access *load = &list.list.data[i];
        if (load->arg != in)
            continue;
        for (uint32_t j = 0; j < list.list.count; j++) {
            const sc_access *write = &list.list.data[j];
            if (write->arg == out && write->writes && !load_survives(&list, load, write))
                return false;
        }
    }
    return true;
}
