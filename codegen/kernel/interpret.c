/* The reference interpreter: executes a kernel point by point on doubles.
 *
 * Each phase has a plan: the nodes that its items need, each with the first item that needs it and
 * its level, which is 1 + the position of the fastest of the phase's dims that it depends on (0 if
 * none). From one point to the next a node is evaluated again only if a dim up to its level
 * changed. Before each item only the nodes that no earlier item needed are evaluated, so what
 * follows a failed check is not touched. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/kernel/access.h"
#include "codegen/kernel/internal.h"
#include "ir/interp/interp.h"
#include "program/failure.h"
#include "support/rng.h"

typedef struct step {
    sc_knode node;
    uint32_t level;
} step;

typedef struct machine {
    const sc_kernel *k;
    double *const *args;
    const int64_t *params;
    bool round;
    step *steps;
    uint32_t *step_ends;    /* per item: end of its steps; they begin at the previous end */
    double *values;         /* per node */
    double *reductions;     /* per item */
    int64_t *at;            /* per dim */
    uint32_t *check_number; /* per item: number of checks before it */
    int64_t failed;         /* least failure at which an iteration ended; INT64_MAX if none */
} machine;

/* ---- plans ---- */

static uint32_t level_of(const sc_kernel *k, const sc_kernel_phase *phase, sc_knode n,
                         const uint32_t *levels)
{
    const sc_kernel_node *node = &k->nodes.data[n];
    uint32_t level = 0;
    if (node->kind == SC_NODE_index) {
        for (uint32_t i = 0; i < phase->dim_count; i++)
            level = phase->dims[i] == node->index ? i + 1 : level;
    }
    if (node->kind == SC_NODE_running)
        level = phase->dim_count;
    for (uint32_t i = 0; i < node->count; i++) {
        uint32_t of_operand = levels[sc_kernel_operands(k, n)[i]];
        level = of_operand > level ? of_operand : level;
    }
    return level;
}

/* The total number of steps is at most the kernel's nodes times its phases. */
static void make_plan(machine *m, const sc_kernel_phase *phase, uint32_t *step_count,
                      uint32_t *levels, bool *needed, bool *planned)
{
    const sc_kernel *k = m->k;
    memset(planned, 0, k->nodes.count * sizeof *planned);
    for (sc_knode n = 0; n < k->nodes.count; n++)
        levels[n] = level_of(k, phase, n, levels);
    for (uint32_t i = phase->first_item; i < phase->first_item + phase->item_count; i++) {
        sc_kernel_mark_needed(k, &k->items.data[i], needed);
        for (sc_knode n = 0; n < k->nodes.count; n++) {
            if (needed[n] && !planned[n])
                m->steps[(*step_count)++] = (step){n, levels[n]};
            planned[n] = planned[n] || needed[n];
        }
        m->step_ends[i] = *step_count;
    }
}

static bool make_plans(machine *m)
{
    const sc_kernel *k = m->k;
    size_t nodes = k->nodes.count;
    uint32_t *levels = calloc(nodes + 1, sizeof *levels);
    bool *needed = calloc(nodes + 1, sizeof *needed), *planned = calloc(nodes + 1, sizeof *planned);
    bool good = levels != NULL && needed != NULL && planned != NULL;
    uint32_t step_count = 0;
    uint32_t checks = 0;
    if (good) {
        for (uint32_t p = 0; p < k->phases.count; p++)
            make_plan(m, &k->phases.data[p], &step_count, levels, needed, planned);
    }
    for (uint32_t i = 0; i < k->items.count; i++) {
        m->check_number[i] = checks;
        checks += k->items.data[i].kind == SC_ITEM_CHECK;
    }
    free(levels);
    free(needed);
    free(planned);
    return good;
}

/* ---- one point ---- */

/* Computes the offset of the element at these indices; false if it is outside the argument. */
static bool locate(const machine *m, uint32_t arg, const sc_knode *indices, int64_t *out_offset)
{
    const sc_kernel_arg *a = &m->k->args.data[arg];
    int64_t offset = 0;
    for (uint32_t d = 0; d < a->rank; d++) {
        double index = m->values[indices[d]];
        if (!(index >= 0 && index < (double)a->sizes[d]))
            return false;
        offset = offset * a->sizes[d] + (int64_t)index;
    }
    *out_offset = offset;
    return true;
}

static bool load(const machine *m, const sc_kernel_node *node, const sc_knode *operands,
                 double *out_value)
{
    uint32_t rank = m->k->args.data[node->index].rank;
    int64_t offset;
    *out_value = 0;
    if (node->count > rank && m->values[operands[rank]] == 0)
        return true;
    if (!locate(m, node->index, operands, &offset))
        return false;
    *out_value = m->args[node->index][offset];
    return true;
}

static uint64_t whole(double value)
{
    return fabs(value) < 0x1p63 ? (uint64_t)(int64_t)value : 0;
}

static double draw(const machine *m, const sc_knode *operands)
{
    uint64_t index = whole(m->values[operands[0]]),
             key = (uint64_t)m->params[m->k->nodes.data[operands[1]].index];
    uint32_t counter[4] = {(uint32_t)index, (uint32_t)(index >> 32),
                           (uint32_t)whole(m->values[operands[2]]),
                           (uint32_t)whole(m->values[operands[3]])};
    return sc_rng_uniform_at(counter, (uint32_t[]){(uint32_t)key, (uint32_t)(key >> 32)});
}

/* `item`: the next one; earlier items have already accumulated this point. */
static double running(const machine *m, const sc_kernel_node *node, uint32_t item)
{
    const sc_kernel_item *of = &m->k->items.data[node->index];
    double so_far = m->reductions[node->index];
    return node->index < item
               ? so_far
               : sc_item_combine(of->kind, (sc_dtype)node->dtype, so_far, m->values[of->value]);
}

static bool evaluate(machine *m, sc_knode n, uint32_t item)
{
    const sc_kernel_node *node = &m->k->nodes.data[n];
    const sc_knode *operands = sc_kernel_operands(m->k, n);
    double x[3] = {0};
    switch (node->kind) {
    case SC_NODE_constant:
        m->values[n] = node->number;
        return true;
    case SC_NODE_index:
        m->values[n] = (double)m->at[node->index];
        return true;
    case SC_NODE_param:
        m->values[n] = (double)m->params[node->index];
        return true;
    case SC_NODE_load:
        return load(m, node, operands, &m->values[n]);
    case SC_NODE_reduced:
        m->values[n] = m->reductions[node->index];
        return true;
    case SC_NODE_running:
        m->values[n] = running(m, node, item);
        return true;
    case SC_NODE_random:
        m->values[n] = draw(m, operands);
        return true;
    default:
        for (uint32_t i = 0; i < node->count; i++)
            x[i] = m->values[operands[i]];
        m->values[n] =
            sc_node_evaluate((sc_node_kind)node->kind, (sc_dtype)node->dtype, x[0], x[1], x[2]);
        return true;
    }
}

static bool write(machine *m, const sc_kernel_item *item)
{
    int64_t offset;
    if (item->guard != SC_NONE && m->values[item->guard] == 0)
        return true;
    if (!locate(m, item->arg, m->k->operands.data + item->first, &offset))
        return false;
    sc_dtype dtype = m->k->args.data[item->arg].dtype;
    double *element = &m->args[item->arg][offset], value = m->values[item->value];
    value = item->kind == SC_ITEM_ADD ? *element + value : value;
    *element = m->round || !sc_dtype_is_float(dtype) ? sc_round_to(dtype, value) : value;
    return true;
}

typedef enum outcome { GOES_ON, CHECK_FAILED, OUTSIDE } outcome;

static outcome do_item(machine *m, uint32_t number)
{
    const sc_kernel_item *item = &m->k->items.data[number];
    double value = m->values[item->value];
    if (sc_item_reduces(item->kind)) {
        sc_dtype dtype = (sc_dtype)m->k->nodes.data[item->value].dtype;
        m->reductions[number] = sc_item_combine(item->kind, dtype, m->reductions[number], value);
    } else if (sc_item_writes(item->kind)) {
        return write(m, item) ? GOES_ON : OUTSIDE;
    } else if (value == 0) {
        int64_t shown = item->shown == SC_NONE ? 0 : (int64_t)whole(m->values[item->shown]);
        int64_t failure = sc_image_failure(m->check_number[number], shown);
        m->failed = failure < m->failed ? failure : m->failed;
        return CHECK_FAILED;
    }
    return GOES_ON;
}

/* ---- phases and outer iterations ---- */

/* Advances to the next point in row-major order. Returns the position of the slowest dim that
 * changed, or -1 after the last point. */
static int64_t advance(machine *m, const uint32_t *dims, uint32_t count)
{
    for (uint32_t i = count; i-- > 0;) {
        if (++m->at[dims[i]] < m->k->dims.data[dims[i]].size)
            return i;
        m->at[dims[i]] = 0;
    }
    return -1;
}

static outcome do_point(machine *m, const sc_kernel_phase *phase, uint32_t from_level)
{
    for (uint32_t i = phase->first_item; i < phase->first_item + phase->item_count; i++) {
        for (uint32_t s = i == 0 ? 0 : m->step_ends[i - 1]; s < m->step_ends[i]; s++) {
            if (m->steps[s].level >= from_level && !evaluate(m, m->steps[s].node, i))
                return OUTSIDE;
        }
        outcome result = do_item(m, i);
        if (result != GOES_ON)
            return result;
    }
    return GOES_ON;
}

static outcome do_phase(machine *m, const sc_kernel_phase *phase)
{
    int64_t changed = -1;
    for (uint32_t i = phase->first_item; i < phase->first_item + phase->item_count; i++) {
        const sc_kernel_item *item = &m->k->items.data[i];
        m->reductions[i] =
            sc_item_nothing(item->kind, (sc_dtype)m->k->nodes.data[item->value].dtype);
    }
    for (uint32_t i = 0; i < phase->dim_count; i++)
        m->at[phase->dims[i]] = 0;
    do {
        outcome result = do_point(m, phase, (uint32_t)(changed + 1));
        if (result != GOES_ON)
            return result;
    } while ((changed = advance(m, phase->dims, phase->dim_count)) >= 0);
    return GOES_ON;
}

/* The phases at one point of the outer dims, up to the first that ends the iteration. */
static outcome do_phases(machine *m)
{
    for (uint32_t p = 0; p < m->k->phases.count; p++) {
        outcome result = do_phase(m, &m->k->phases.data[p]);
        if (result != GOES_ON)
            return result;
    }
    return GOES_ON;
}

static int64_t run(machine *m)
{
    const sc_kernel *k = m->k;
    uint32_t *outer = calloc(k->outer_count + 1, sizeof *outer);
    outcome result;
    if (outer == NULL)
        return SC_KERNEL_NO_MEMORY;
    for (uint32_t d = 0; d < k->outer_count; d++)
        outer[d] = d;
    do {
        result = do_phases(m);
        if (result == OUTSIDE)
            break;
    } while (advance(m, outer, k->outer_count) >= 0);
    free(outer);
    return result == OUTSIDE ? SC_KERNEL_OUTSIDE : m->failed == INT64_MAX ? 0 : m->failed;
}

int64_t sc_kernel_interpret(const sc_kernel *k, double *const *args, const int64_t *params,
                            bool round)
{
    size_t nodes = k->nodes.count, items = k->items.count;
    machine m = {.k = k, .args = args, .params = params, .round = round, .failed = INT64_MAX};
    m.steps = calloc(nodes * k->phases.count + 1, sizeof *m.steps);
    m.step_ends = calloc(items + 1, sizeof *m.step_ends);
    m.values = calloc(nodes + 1, sizeof *m.values);
    m.reductions = calloc(items + 1, sizeof *m.reductions);
    m.at = calloc((size_t)k->dims.count + 1, sizeof *m.at);
    m.check_number = calloc(items + 1, sizeof *m.check_number);
    bool memory = m.steps != NULL && m.step_ends != NULL && m.values != NULL &&
                  m.reductions != NULL && m.at != NULL && m.check_number != NULL;
    int64_t result = memory && make_plans(&m) ? run(&m) : SC_KERNEL_NO_MEMORY;
    free(m.steps);
    free(m.step_ends);
    free(m.values);
    free(m.reductions);
    free(m.at);
    free(m.check_number);
    return result;
}
