#include "tools/driver/random_inputs.h"

#include <math.h>
#include <string.h>

#include "support/rng.h"

/* Readers of each value: readers[first[v] .. first[v + 1]). */
typedef struct reader {
    sc_op_id op;
    uint32_t operand;
} reader;

typedef struct use_lists {
    const sc_module *m;
    uint32_t *first;
    reader *readers;
    bool *seen; /* by value, in the current search */
} use_lists;

static use_lists list_uses(const sc_module *m, sc_func_id func)
{
    sc_arena *arena = &m->context->arena;
    use_lists uses = {.m = m};
    uses.first = sc_arena_array(arena, m->values.count + 2u, sizeof *uses.first);
    uses.seen = sc_arena_array(arena, m->values.count + 1u, sizeof *uses.seen);
    sc_for_each_op (m, func, op) {
        for (uint32_t i = 0; i < sc_op_at(m, op)->operand_count; i++)
            uses.first[sc_op_at(m, op)->operands[i] + 2]++;
    }
    for (uint32_t v = 2; v < m->values.count + 2u; v++)
        uses.first[v] += uses.first[v - 1];
    uses.readers =
        sc_arena_array(arena, uses.first[m->values.count + 1u] + 1u, sizeof *uses.readers);
    sc_for_each_op (m, func, op) {
        for (uint32_t i = 0; i < sc_op_at(m, op)->operand_count; i++)
            uses.readers[uses.first[sc_op_at(m, op)->operands[i] + 1]++] = (reader){op, i};
    }
    return uses;
}

/* ---- integers ---- */

/* A value that equals the input plus something of at most `slack`. */
typedef struct reached {
    sc_value value;
    int64_t slack;
} reached;

typedef struct int_search {
    use_lists *uses;
    sc_distribution *distribution;
    SC_VEC(reached) work;
    int64_t limit;  /* exclusive upper bound of values; INT64_MAX: none */
    bool is_picked; /* some op uses it as an index, so `ignore` is not a valid value */
} int_search;

static void limit_to(int_search *s, int64_t limit)
{
    s->limit = limit < s->limit ? limit : s->limit;
}

/* Returns the size of the first dim of an attribute, in any type of the op; 0 if it has none. */
static int64_t attr_size(const sc_module *m, const sc_op *op, sc_attr_key key)
{
    const sc_attr *attr = sc_op_attr(op, key);
    if (attr == NULL || attr->count == 0)
        return 0;
    for (uint32_t v = 0; v < op->operand_count + op->result_count; v++) {
        const sc_type_info *type = sc_type_of(
            m, v < op->operand_count ? op->operands[v] : op->first_result + v - op->operand_count);
        int at = sc_type_find_dim(type, attr->dims[0]);
        if (at >= 0)
            return type->dims[at].size;
    }
    return 0;
}

/* Returns an upper bound of positions and constants; 0 if unknown. */
static int64_t largest(const sc_module *m, sc_value value)
{
    for (uint32_t depth = 0; depth < 64; depth++) {
        const sc_op *op = sc_op_at(m, sc_def(m, value));
        if (sc_ops[op->kind].bound == SC_BOUND_position)
            return attr_size(m, op, SC_ATTR_dims) - 1;
        if (sc_ops[op->kind].bound == SC_BOUND_value)
            return (int64_t)fmax(0, fmin(1e15, sc_op_number(op, SC_ATTR_value, 0)));
        if (op->operand_count != 1)
            return 0;
        value = op->operands[0];
    }
    return 0;
}

static void read_called(int_search *s, const sc_op *op, uint32_t operand)
{
    const sc_module *m = s->uses->m;
    uint32_t fixed = (uint32_t)sc_ops[op->kind].operands;
    if ((int)operand == sc_op_operand_called(m, op, "len", fixed)) {
        int64_t size = attr_size(m, op, sc_op_has(op, SC_ATTENDS) ? SC_ATTR_to : SC_ATTR_dims);
        if (size > 0)
            limit_to(s, size + 1);
        s->distribution->form = SC_RANDOM_LENGTH;
    } else if (sc_op_has(op, SC_APPENDS) &&
               (int)operand == sc_op_operand_called(m, op, "pos", fixed)) {
        limit_to(s, attr_size(m, op, SC_ATTR_to) - attr_size(m, op, SC_ATTR_dims) + 1);
    } else if ((int)operand == sc_op_operand_called(m, op, "segments", fixed) ||
               (int)operand == sc_op_operand_called(m, op, "key_segments", fixed)) {
        limit_to(s, 3);
    }
}

static void follow(int_search *s, const sc_op *op, int64_t slack)
{
    for (uint32_t r = 0; r < op->result_count; r++)
        *sc_vec_push(&s->uses->m->context->arena, &s->work) =
            (reached){op->first_result + r, slack};
}

static void read_by(int_search *s, const sc_op *op, uint32_t operand, int64_t slack)
{
    const sc_module *m = s->uses->m;
    bool may_ignore = (sc_ops[op->kind].ids & SC_IDS_IGNORED) != 0;
    if (sc_op_takes_ids((sc_op_kind)op->kind, operand)) {
        limit_to(s, attr_size(m, op, sc_op_indexed((sc_op_kind)op->kind)) - slack);
        /* a backward op reads what a forward one read, with ignored ids replaced */
        s->is_picked |= (!may_ignore || slack > 0) && sc_op_is_forward(m, op);
        if (may_ignore) {
            double ignore = (double)sc_op_int(op, SC_ATTR_ignore, -100);
            /* an id ignored by one op is invalid for the other */
            s->is_picked |= s->distribution->may_ignore && s->distribution->ignore != ignore;
            s->distribution->may_ignore = true;
            s->distribution->ignore = ignore;
        }
    } else if (sc_ops[op->kind].operands != SC_ANY &&
               operand >= (uint32_t)sc_ops[op->kind].operands) {
        read_called(s, op, operand);
    } else if (sc_ops[op->kind].bound == SC_BOUND_added && op->operand_count == 2) {
        follow(s, op, slack + largest(m, op->operands[1 - operand]));
    } else if (sc_op_picks((sc_op_kind)op->kind, operand)) {
        follow(s, op, slack);
    }
}

static void search_ints(use_lists *uses, sc_value value, sc_distribution *distribution)
{
    int_search s = {.uses = uses, .distribution = distribution, .limit = INT64_MAX};
    memset(uses->seen, 0, uses->m->values.count * sizeof *uses->seen);
    *sc_vec_push(&uses->m->context->arena, &s.work) = (reached){value, 0};
    while (s.work.count > 0) {
        reached at = s.work.data[--s.work.count];
        if (uses->seen[at.value])
            continue;
        uses->seen[at.value] = true;
        for (uint32_t i = uses->first[at.value]; i < uses->first[at.value + 1]; i++)
            read_by(&s, sc_op_at(uses->m, uses->readers[i].op), uses->readers[i].operand, at.slack);
    }
    enum { DEFAULT_LIMIT = 8 };
    distribution->high = s.limit == INT64_MAX ? DEFAULT_LIMIT : s.limit < 1 ? 1 : s.limit;
    distribution->may_ignore &= !s.is_picked;
}

/* ---- floats ---- */

static double contracted(const sc_module *m, const sc_op *dot)
{
    const sc_attr *dims = sc_op_attr(dot, SC_ATTR_dims);
    const sc_type_info *type = sc_type_of(m, dot->operands[0]);
    double product = 1;
    if (dims != NULL) {
        for (uint32_t i = 0; i < dims->count; i++) {
            int at = sc_type_find_dim(type, dims->dims[i]);
            product *= at < 0 ? 1 : (double)type->dims[at].size;
        }
    }
    return product;
}

/* Chooses the scale of a weight to preserve the magnitude of what passes through it, whatever its
 * initialiser: values must neither vanish nor overflow with depth. */
static void search_weight(use_lists *uses, sc_value value, sc_distribution *distribution)
{
    const sc_module *m = uses->m;
    for (uint32_t i = uses->first[value]; i < uses->first[value + 1]; i++) {
        const sc_op *op = sc_op_at(m, uses->readers[i].op);
        if (!sc_op_is_forward(m, op))
            continue;
        if (sc_ops[op->kind].bound == SC_BOUND_contracted)
            *distribution = (sc_distribution){.stream = distribution->stream,
                                              .spread = 1 / sqrt(contracted(m, op))};
        else if (sc_op_has(op, SC_VIEW | SC_CONVERTS) &&
                 op->first_result > value) /* value ids grow: it ends */
            search_weight(uses, op->first_result, distribution);
    }
}

static sc_distribution distribution_of_type(const sc_module *m, sc_sym path, sc_type type)
{
    const char *text = sc_text(m->context, path);
    sc_distribution distribution = {
        .stream = sc_fnv1a64(text, strlen(text)), .spread = 1, .high = 8};
    sc_dtype_kind kind = sc_dtypes[m->types.data[type].dtype].kind;
    distribution.form = kind == SC_DTYPE_FLOAT ? SC_RANDOM_FLOAT
                        : kind == SC_DTYPE_INT ? SC_RANDOM_INT
                                               : SC_RANDOM_BOOL;
    return distribution;
}

static sc_distribution draw_of_state(const sc_module *m, const sc_state *state)
{
    sc_distribution distribution = distribution_of_type(m, state->path, state->type);
    bool is_vector = m->types.data[state->type].rank < 2;
    if (state->kind == SC_STATE_CACHE)
        return distribution;
    /* second moments, rates, corrections, counts */
    if (state->kind == SC_STATE_OPT || state->kind == SC_STATE_SCALAR) {
        distribution.is_positive = true;
        distribution.mean = 0.5;
        distribution.spread = 0.125;
        return distribution;
    }
    distribution.mean = state->init == SC_INIT_ONES       ? 1
                        : state->init == SC_INIT_CONSTANT ? state->init_args[0]
                                                          : 0;
    distribution.spread = state->init <= SC_INIT_CONSTANT || is_vector ? 0.25 : 1;
    return distribution;
}

void sc_random_inputs_find(const sc_module *m, sc_func_id func, sc_random_inputs *out)
{
    sc_arena *arena = &m->context->arena;
    use_lists uses = list_uses(m, func);
    *out =
        (sc_random_inputs){.state = sc_arena_array(arena, m->state.count + 1u, sizeof *out->state)};
    for (uint32_t i = 0; i < m->state.count; i++)
        out->state[i] = draw_of_state(m, &m->state.data[i]);
    sc_for_each_op (m, func, id) {
        const sc_op *op = sc_op_at(m, id);
        if (sc_op_has(op, SC_PARAMETER)) {
            uint32_t state = sc_module_find_state(m, sc_op_word(op, SC_ATTR_name));
            if (state != SC_NONE && out->state[state].form == SC_RANDOM_FLOAT)
                search_weight(&uses, op->first_result, &out->state[state]);
        } else if (sc_op_has(op, SC_FROM_OUTSIDE)) {
            sc_distribution distribution = distribution_of_type(
                m, sc_op_word(op, SC_ATTR_name), m->values.data[op->first_result].type);
            if (distribution.form == SC_RANDOM_INT)
                search_ints(&uses, op->first_result, &distribution);
            *sc_vec_push(arena, &out->inputs) = distribution;
        }
    }
}
