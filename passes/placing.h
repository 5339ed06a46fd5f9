/* How values got their placements. Filled by seeding and propagation, read by reshard insertion
 * (reasons) and by `explain`. */
#ifndef SHARDC_PASSES_PLACING_H
#define SHARDC_PASSES_PLACING_H

#include "ir/ops/ops.h"
#include "ir/plan.h"

/* Why a sub-axis of a value has its placement: the plan line at the root, and the op through which
 * it propagated (SC_NONE: the line names the value itself). */
typedef struct sc_cause {
    uint32_t rule;
    sc_op_id op;
    sc_value from; /* the value it propagated from; SC_NONE if set by a line */
} sc_cause;

#define SC_LOCKED_OUT (SC_NONE - 1)

typedef struct sc_placing {
    /* counts of the module when propagation began */
    uint32_t value_count, op_count, sub_axis_count;
    sc_placement *at; /* per value, without storage-only splits */
    /* per value: sub-axes on which nothing more may be placed */
    sc_sub_axis_set *closed;
    sc_cause *causes; /* [value * sub_axis_count + sub-axis] */
    /* [op * sub_axis_count + sub-axis]: the factor that owns the sub-axis; SC_LOCKED_OUT: none may;
     * SC_NONE: undecided */
    sc_dim *locks;
    /* per op: sub-axes placed by `if free` lines and withdrawn; also holds for derivatives */
    sc_sub_axis_set *withdrawn;
    uint32_t *lock_rules;
    bool *acted;         /* per rule of the module: it placed or closed something first */
    bool *is_form;       /* per rule of the module: it is a `form` line, or a form by cost */
    uint32_t line_count; /* rules from here on are forms that ops have by cost */
    /* indexed like locks: position of the sub-axis among those of its factor, if known */
    uint8_t *lock_orders;
} sc_placing;

static inline sc_cause *sc_cause_of(const sc_placing *placing, sc_value value, uint32_t sub_axis)
{
    return &placing->causes[(size_t)value * placing->sub_axis_count + sub_axis];
}

/* The `form` line that gives the op its form over the sub-axis, or SC_NONE. */
static inline uint32_t sc_form_rule(const sc_placing *placing, sc_op_id op, uint32_t sub_axis)
{
    if (placing == NULL || op >= placing->op_count)
        return SC_NONE;
    uint32_t rule = placing->lock_rules[(size_t)op * placing->sub_axis_count + sub_axis];
    return rule != SC_NONE && placing->is_form[rule] ? rule : SC_NONE;
}

#endif
