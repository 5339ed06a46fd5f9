/* Places entry inputs: an input is split as far as all its readers agree, so that none has to
 * gather it.
 *
 *   %0 = input "t"                      a line splits the formal, gather[V] reads it whole:
 *   %1 = use %0 {formal} : i32[B, S@tp] %0 stays replicated, %1 is a slice of it, and the
 *   %2 = gather[V] %tok, %1             gather reads %0
 *
 * Readers of formals and other names of an input count as its readers, as do readers of values
 * computed elementwise from it alone: insert-reshards rematerializes those where needed. One walk
 * over these once forward placements are final. A value is a function of at most one input and is
 * visited once, so all walks together are linear in the program. */
#include "passes/propagate.h"

/* The input, another name of it or an elementwise function of it, with the location of the input's
 * dims; -1: absent. */
typedef struct input_name {
    sc_value value;
    int dim[SC_MAX_RANK];
} input_name;

typedef struct input_search {
    sc_propagation *p;
    sc_value input;
    uint32_t rank;
    SC_VEC(input_name) names;
    bool *is_name;       /* per value: it is a name of this or another input */
    sc_placement wanted; /* by the readers seen so far */
    bool any;            /* a reader or a plan line has been seen */
} input_search;

/* Shortens the list to the common prefix. */
static void keep_common_prefix(sc_sub_axis_list *list, const sc_sub_axis_list *other)
{
    uint32_t common = 0;
    while (common < list->count && common < other->count &&
           list->sub_axes[common] == other->sub_axes[common])
        common++;
    list->count = (uint8_t)common;
}

/* Records the placement that a reader wants for a name of the input. */
static void want(input_search *s, const input_name *name, const sc_placement *needed)
{
    for (uint32_t d = 0; d < s->rank; d++) {
        sc_sub_axis_list mine = sc_placement_dim(&s->wanted, d), theirs = {0};
        if (name->dim[d] >= 0)
            theirs = sc_placement_dim(needed, (uint32_t)name->dim[d]);
        if (!s->any && mine.count == 0)
            mine = theirs;
        else
            keep_common_prefix(&mine, &theirs);
        sc_placement_set_dim(&s->wanted, d, &mine);
    }
    s->any = true;
}

/* True if the op computes an elementwise function of this operand alone, which can be
 * rematerialized anywhere. */
static bool is_function_of(const sc_module *m, const sc_op *op, uint32_t operand)
{
    uint32_t fuse = sc_ops[op->kind].fuse;
    bool is_function = (fuse & (SC_FUSE_VIEW | SC_FUSE_MAP)) != 0 &&
                       (fuse & SC_FUSE_INDEXED) == 0 && op->result_count == 1 &&
                       (sc_op_traits(op) & SC_RANDOM) == 0;
    for (uint32_t o = 0; is_function && o < op->operand_count; o++)
        is_function =
            op->operands[o] == op->operands[operand] || sc_is_made_anywhere(m, op->operands[o]);
    return is_function;
}

static void add_name(input_search *s, const input_name *name, const sc_op *op, uint32_t operand,
                     const sc_factors *factors)
{
    input_name made = {.value = op->first_result};
    if (s->is_name[made.value])
        return;
    s->is_name[made.value] = true;
    for (uint32_t d = 0; d < s->rank; d++) {
        made.dim[d] = -1;
        if (name->dim[d] < 0)
            continue;
        for (uint32_t f = 0; f < factors->count; f++) {
            if (factors->list[f].operand[operand] == name->dim[d])
                made.dim[d] = factors->list[f].result[0];
        }
    }
    *sc_vec_push(&s->p->m->context->arena, &s->names) = made;
}

static void ask_reader(input_search *s, const input_name *name, sc_op_id reader)
{
    sc_propagation *p = s->p;
    sc_factors factors;
    sc_assignment assignment;
    sc_op_factors(p->m, sc_op_at(p->m, reader), &factors);
    if (factors.count == 0) { /* it takes any placement */
        want(s, name, &p->placing->at[name->value]);
        return;
    }
    sc_assign(&p->assigner, reader, &factors, &assignment);
    const sc_op *op = sc_op_at(p->m, reader);
    for (uint32_t o = 0; o < op->operand_count; o++) {
        const sc_placement needed = sc_assigned_operand(p->m, &factors, &assignment, op, o);
        if (op->operands[o] != name->value)
            continue;
        want(s, name, &needed);
        if (!is_function_of(p->m, op, o))
            continue;
        const sc_placement made = sc_assigned_result(p->m, &factors, &assignment, op, 0);
        /* otherwise it is resharded */
        if (sc_placement_equal(&made, &p->placing->at[op->first_result]))
            add_name(s, name, op, o, &factors);
    }
}

static void settle(const input_search *s)
{
    sc_placing *placing = s->p->placing;
    sc_placement *at = &placing->at[s->input];
    sc_op_id reader = s->p->users[s->p->user_begin[s->input]];
    for (uint32_t d = 0; d < s->rank; d++) {
        const sc_sub_axis_list list = sc_placement_dim(&s->wanted, d);
        for (uint32_t i = sc_placement_dim(at, d).count; i < list.count; i++) {
            if (at->on[list.sub_axes[i]] != SC_ON_NOTHING ||
                (placing->closed[s->input] >> list.sub_axes[i] & 1) != 0)
                break;
            sc_placement_append(at, d, list.sub_axes[i]);
            *sc_cause_of(placing, s->input, list.sub_axes[i]) = (sc_cause){
                placing->lock_rules[(size_t)reader * placing->sub_axis_count + list.sub_axes[i]],
                reader, SC_NONE};
        }
    }
}

static void place_input(sc_propagation *p, sc_value input, bool *is_name)
{
    input_search s = {.p = p,
                      .input = input,
                      .rank = sc_type_of(p->m, input)->rank,
                      .is_name = is_name,
                      .wanted = p->placing->at[input]};
    input_name *own = sc_vec_push(&p->m->context->arena, &s.names);
    own->value = input;
    for (uint32_t d = 0; d < s.rank; d++)
        own->dim[d] = (int)d;
    for (uint32_t n = 0; n < s.names.count; n++) {
        const input_name name = s.names.data[n];
        for (uint32_t u = p->user_begin[name.value]; u < p->user_begin[name.value + 1]; u++) {
            if (p->stage_of[p->users[u]] == p->stage)
                ask_reader(&s, &name, p->users[u]);
        }
    }
    if (s.any)
        settle(&s);
}

void sc_place_inputs(sc_propagation *p)
{
    bool *is_name = sc_arena_array(&p->m->context->arena, p->placing->value_count, sizeof *is_name);
    for (sc_value v = 0; v < p->placing->value_count; v++) {
        if (p->is_input[v])
            place_input(p, v, is_name);
    }
}
