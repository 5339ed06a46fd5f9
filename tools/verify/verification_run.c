#include "tools/verify/verification_run.h"

#include <math.h>
#include <string.h>

#include "passes/train_step.h"
#include "program/optimizer.h"

const char *const sc_limit_names[SC_LIMIT_COUNT] = {NULL, "unclipped", "empty batch", "overflow"};

bool sc_limit_applies(const sc_module *global, sc_limit limit)
{
    sc_sym scale = sc_intern_text(&global->context->names, SC_SCALE_STATE);
    return limit != SC_LIMIT_OVERFLOW || sc_module_find_state(global, scale) != SC_NONE;
}

/* ---- sizes ---- */

static const double affordable = 2e9, hopeless = 1e14;

void sc_verification_shrink(sc_module *global, sc_module *local, bool full,
                            sc_verification_size *out)
{
    *out =
        (sc_verification_size){.is_shrunk = !full && sc_interpret_cost(global, local) > affordable};
    if (out->is_shrunk)
        sc_shrink_modules(global, local, affordable, &out->shrink);
    double cost = sc_interpret_cost(global, local);
    if (cost > hopeless)
        out->too_large =
            sc_arena_printf(&local->context->arena,
                            "the program is too large to interpret%s: about %.0e operations",
                            out->is_shrunk ? ", shrunk as far as it goes" : "", cost);
}

void sc_verification_restore(sc_verification_size *size)
{
    if (size->is_shrunk)
        sc_shrink_undo(&size->shrink);
}

/* ---- values ---- */

sc_array sc_verification_values(const sc_type_info *type, const sc_distribution *distribution,
                                const sc_random_options *options)
{
    int64_t sizes[SC_MAX_RANK];
    for (uint32_t i = 0; i < type->rank; i++)
        sizes[i] = type->dims[i].size;
    sc_array values = sc_array_new(type->rank, sizes);
    if (values.data != NULL)
        sc_random_fill(distribution, options, values.data, values.count);
    return values;
}

static void set_limit(const sc_module *m, const sc_state *state, sc_limit limit, sc_array *values)
{
    const char *path = sc_text(m->context, state->path), *last = strrchr(path, '.');
    double *data = values->data;
    if (state->kind == SC_STATE_SUM) {
        bool is_empty = limit == SC_LIMIT_EMPTY && strcmp(path, "weight") == 0;
        for (int64_t i = 0; i < values->count; i++)
            data[i] = is_empty ? 0 : 1 + fabs(data[i]);
    }
    if (limit == SC_LIMIT_UNCLIPPED && state->kind == SC_STATE_SCALAR && last != NULL &&
        strcmp(last + 1, sc_scalar_names[SC_SCALAR_CLIP]) == 0)
        data[0] = INFINITY;
    if (limit == SC_LIMIT_UNCLIPPED && strcmp(path, SC_SCALE_GOOD_STATE) == 0)
        data[0] = SC_SCALE_INTERVAL;
    if (limit == SC_LIMIT_OVERFLOW && state->kind == SC_STATE_GRAD)
        data[0] = INFINITY; /* on one rank only, if gradients are sharded */
}

sc_array sc_verification_state(const sc_module *m, uint32_t state,
                               const sc_random_inputs *distributions, sc_limit limit,
                               const sc_random_options *options)
{
    const sc_state *info = &m->state.data[state];
    sc_array values =
        sc_verification_values(&m->types.data[info->type], &distributions->state[state], options);
    if (values.data != NULL && limit != SC_LIMIT_NONE)
        set_limit(m, info, limit, &values);
    return values;
}

/* ---- comparable results ---- */

const sc_op *sc_returned(const sc_module *m, sc_func_id func)
{
    sc_op_id last = m->funcs.data[func].last;
    return last != SC_NONE && sc_op_has(sc_op_at(m, last), SC_RETURNS) ? sc_op_at(m, last) : NULL;
}

uint32_t sc_output_count(const sc_module *m, sc_func_id func)
{
    const sc_op *op = sc_returned(m, func);
    return op == NULL ? 0 : op->operand_count;
}

const sc_value *sc_written_states(const sc_module *global, const sc_module *m, sc_func_id func)
{
    sc_value *written =
        sc_arena_array(&m->context->arena, global->state.count + 1u, sizeof *written);
    memset(written, 0xff, global->state.count * sizeof *written);
    sc_for_each_op (m, func, id) {
        const sc_op *op = sc_op_at(m, id);
        uint32_t state = (sc_op_traits(op) & SC_STATE_WRITE) == 0
                             ? SC_NONE
                             : sc_module_find_state(global, sc_op_word(op, SC_ATTR_name));
        if (state != SC_NONE)
            written[state] = op->operands[0];
    }
    return written;
}

bool sc_same_dims(const sc_module *m, sc_type type, const sc_module *other, sc_type other_type)
{
    const sc_type_info *a = &m->types.data[type], *b = &other->types.data[other_type];
    bool same = a->rank == b->rank;
    for (uint32_t i = 0; same && i < a->rank; i++)
        same = m->dims.data[a->dims[i].dim].name == other->dims.data[b->dims[i].dim].name &&
               a->dims[i].size == b->dims[i].size;
    return same;
}

uint32_t sc_next_gradient_part(const sc_module *m, sc_sym path, uint32_t from)
{
    const char *name = sc_text(m->context, path);
    size_t length = strlen(name);
    for (uint32_t s = from; s < m->state.count; s++) {
        const char *other = sc_text(m->context, m->state.data[s].path);
        if (m->state.data[s].kind == SC_STATE_GRAD && strncmp(other, name, length) == 0 &&
            other[length] == '@')
            return s;
    }
    return SC_NONE;
}

bool sc_schedules_step(const sc_module *m)
{
    bool has_step = false;
    for (uint32_t i = 0; i < m->schedule.count; i++)
        has_step = has_step || m->schedule.data[i].func != m->schedule.data[0].func;
    return has_step;
}

bool sc_is_called(const sc_module *m, sc_func_id func, uint32_t first, uint32_t end)
{
    uint32_t at = first;
    while (at < end && m->schedule.data[at].func != func)
        at++;
    return at < end;
}

bool sc_same_schedule(const sc_module *global, const sc_module *local)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < local->schedule.count; i++) {
        const sc_call *call = &local->schedule.data[i], *wanted = &global->schedule.data[at];
        if (call->func >= global->funcs.count)
            continue;
        if (at == global->schedule.count || call->func != wanted->func ||
            call->microbatch != wanted->microbatch)
            return false;
        at++;
    }
    return at == global->schedule.count;
}
