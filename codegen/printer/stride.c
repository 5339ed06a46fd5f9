/* Chooses the loop to vectorize.
 *
 * Every phase's innermost loop is either its own last dim or, for all phases, the same outer dim,
 * of which a block is processed at once. A cost estimate decides: contiguous elements cost a lane
 * each, others a load each. Rows of layernorm use the former; column sums and elementwise kernels
 * the latter. */
#include "codegen/printer/printer.h"

enum { FEWEST_LANES = 4, FAR = 8 /* elements */ };

static const double LANE = 0.125, ARITHMETIC = 0.25;

double sc_printer_points_of(const sc_kernel_printer *e, uint64_t dims)
{
    double points = 1;
    for (uint32_t i = 0; i < e->k->dims.count; i++)
        points *= (dims >> i & 1) != 0 ? (double)sc_printer_size_of(e, i) : 1;
    return points;
}

int64_t sc_printer_stride(const sc_kernel_printer *e, const sc_printer_access *access, uint32_t dim)
{
    int64_t stride = 0;
    for (uint32_t i = 0; i < access->count; i++) {
        const sc_printer_term *term = &access->terms[i];
        if (term->dim == dim)
            stride = term->times;
        else if (term->dim == SC_NONE && (e->nodes[term->node].dims >> dim & 1) != 0)
            return INT64_MAX;
    }
    return stride;
}

bool sc_printer_is_far(int64_t stride)
{
    return stride != INT64_MAX && (stride > FAR || stride < -FAR);
}

/* True if the check's outcome depends on the dim. */
static bool check_depends(const sc_kernel_printer *e, uint32_t item, uint32_t dim)
{
    const sc_kernel_item *check = &e->k->items.data[item];
    uint64_t dims =
        e->nodes[check->value].dims | (check->shown == SC_NONE ? 0 : e->nodes[check->shown].dims);
    return (dims >> dim & 1) != 0;
}

bool sc_printer_may_vectorise(const sc_kernel_printer *e, uint32_t phase_index, uint32_t dim)
{
    const sc_kernel *k = e->k;
    const sc_kernel_phase *phase = &k->phases.data[phase_index];
    bool inner = dim >= k->outer_count;
    for (uint32_t i = phase->first_item; i < phase->first_item + phase->item_count; i++) {
        const sc_kernel_item *item = &k->items.data[i];
        if (item->kind == SC_ITEM_CHECK && check_depends(e, i, dim))
            return false;
        if (!inner)
            continue;
        bool reduction = sc_item_reduces(item->kind);
        if (e->items[i].running || (reduction && k->nodes.data[item->value].dtype == SC_DTYPE_bool))
            return false;
        int64_t stride =
            item->kind == SC_ITEM_ADD ? sc_printer_stride(e, &e->items[i].access, dim) : 1;
        if (stride == 0 || stride == INT64_MAX)
            return false;
    }
    return true;
}

static double access_cost(const sc_kernel_printer *e, const sc_printer_access *access, uint32_t dim,
                          bool lanes)
{
    double points = sc_printer_points_of(e, sc_printer_dims_of(e, access));
    int64_t stride = dim == SC_NONE ? 0 : sc_printer_stride(e, access, dim);
    return points * (lanes && (stride == 0 || stride == 1 || stride == -1) ? LANE : 1);
}

/* A partially written cache line is read first, so stores are preferred to be contiguous. */
static double store_cost(const sc_kernel_printer *e, const sc_printer_access *access, uint32_t dim,
                         bool lanes)
{
    bool far = lanes && sc_printer_is_far(sc_printer_stride(e, access, dim));
    return access_cost(e, access, dim, lanes) * (far ? 1 + LANE : 1);
}

/* The cost of the phase with `vector` (if none, its own last dim) as its innermost loop. */
static double phase_cost(sc_kernel_printer *e, uint32_t index, uint32_t vector)
{
    const sc_kernel *k = e->k;
    const sc_kernel_phase *phase = &k->phases.data[index];
    uint32_t dim = vector != SC_NONE      ? vector
                   : phase->dim_count > 0 ? phase->dims[phase->dim_count - 1]
                                          : SC_NONE;
    bool lanes = dim != SC_NONE && sc_printer_size_of(e, dim) >= FEWEST_LANES &&
                 sc_printer_may_vectorise(e, index, dim);
    double cost = 0;
    e->scopes.body = 0, e->scopes.inner = 0;
    sc_printer_place(e, phase->first_item, phase->first_item + phase->item_count, 0);
    for (sc_knode i = 0; i < k->nodes.count; i++) {
        const sc_kernel_node *node = &k->nodes.data[i];
        if (e->nodes[i].pass != e->scopes.pass || (node->count == 0 && node->kind != SC_NODE_load))
            continue;
        if (node->kind == SC_NODE_load)
            cost += access_cost(e, &e->nodes[i].access, dim, lanes);
        else
            cost += sc_printer_points_of(e, e->nodes[i].dims) * ARITHMETIC * (lanes ? LANE : 1);
    }
    for (uint32_t i = phase->first_item; i < phase->first_item + phase->item_count; i++) {
        if (e->items[i].access.count > 0)
            cost += store_cost(e, &e->items[i].access, dim, lanes);
    }
    return cost;
}

static double kernel_cost(sc_kernel_printer *e, uint32_t vector)
{
    double cost = 0;
    for (uint32_t i = 0; i < e->k->phases.count; i++)
        cost += phase_cost(e, i, vector);
    return cost;
}

/* Indices of a block run through the phases together; an iteration that ends early would have to be
 * masked. */
static bool may_walk_side_by_side(const sc_kernel_printer *e, uint32_t dim)
{
    const sc_kernel *k = e->k;
    bool plain = k->phases.count == 1 && k->phases.data[0].dim_count == 0;
    if (!plain) {
        for (uint32_t i = 0; i < k->items.count; i++) {
            if (k->items.data[i].kind == SC_ITEM_CHECK && check_depends(e, i, dim))
                return false;
        }
    }
    return true;
}

uint32_t sc_printer_choose_vector(sc_kernel_printer *e)
{
    uint32_t vector = SC_NONE;
    double best = kernel_cost(e, SC_NONE);
    for (uint32_t i = e->k->outer_count; i-- > 0;) {
        double cost = may_walk_side_by_side(e, i) ? kernel_cost(e, i) : best;
        if (cost < best) {
            best = cost;
            vector = i;
        }
    }
    return vector;
}
