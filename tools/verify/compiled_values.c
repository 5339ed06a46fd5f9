/* The values that runs start from, and those that they leave. */
#include <math.h>

#include "support/rng.h"
#include "tools/verify/compiled_internal.h"

/* Rounds values to their dtype. In a perturbed start, then moves each by half an ulp up or down; in
 * further ones, by half an ulp of the narrowest dtype. Integer values are left unchanged, because
 * they are integers for a reason. */
void sc_compiled_settle(const sc_compiled_check *c, const sc_type_info *type,
                        const sc_distribution *distribution, uint32_t nearby, sc_array *values)
{
    double unit =
        sc_dtype_is_float(type->dtype) ? ldexp(1, -sc_dtypes[type->dtype].significand) : 0;
    unit = nearby > SC_NEARBY && unit > 0 ? fmax(unit, c->unit) : unit;
    for (int64_t i = 0; i < values->count; i++) {
        double value = sc_round_to(type->dtype, values->data[i]);
        if (nearby > 0 && nearbyint(value) != value)
            value *= sc_rng_uniform(nearby, distribution->stream, (uint64_t)i) < 0.5 ? 1 - unit
                                                                                     : 1 + unit;
        values->data[i] = value;
    }
}

/* A whole step has one value of an input that micro-batches do not split. */
static bool is_drawn_again(const sc_compiled_check *c, const sc_type_info *type)
{
    return !c->is_cut || c->batch_count == 1 || sc_type_find_dim(type, c->batch_dim) >= 0;
}

bool sc_compiled_draw_inputs(sc_compiled_check *c, int32_t micro_batch, uint32_t nearby,
                             sc_array *inputs)
{
    for (uint32_t i = 0; i < c->inputs.count; i++) {
        const sc_type_info *type = &c->global->types.data[c->inputs.data[i]];
        sc_random_options fresh = c->options;
        fresh.seed += micro_batch > 0 && is_drawn_again(c, type) ? (uint64_t)micro_batch : 0;
        inputs[i] = sc_verification_values(type, &c->distributions.inputs.data[i], &fresh);
        if (inputs[i].data == NULL)
            return false;
        sc_compiled_settle(c, type, &c->distributions.inputs.data[i], nearby, &inputs[i]);
    }
    return true;
}

/* ---- what runs leave ---- */

/* True if the place is a state after `func`, or after `joined` (SC_NONE: none) if `func` leaves it
 * unchanged. */
static bool is_left_by(const sc_compiled_check *c, const sc_compiled_place *at, sc_func_id func,
                       sc_func_id joined)
{
    if (at->state == SC_NONE || (at->func != func && at->func != joined))
        return false;
    if (at->func == func)
        return true;
    for (uint32_t p = 0; p < c->places.count; p++) {
        if (c->places.data[p].state == at->state && c->places.data[p].func == func)
            return false;
    }
    return true;
}

bool sc_compiled_note_states(sc_compiled_check *c, const sc_runner *runner, sc_func_id func,
                             sc_func_id joined, sc_compiled_record *out)
{
    const sc_module *m = sc_runner_module(runner);
    for (uint32_t p = 0; p < c->places.count; p++) {
        const sc_compiled_place *at = &c->places.data[p];
        uint32_t mine =
            is_left_by(c, at, func, joined) ? sc_module_find_state(m, at->what.path) : SC_NONE;
        if (mine == SC_NONE)
            continue;
        sc_array_free(&out->values[p]);
        out->values[p] = sc_runner_get_state(runner, mine);
        if (out->values[p].data == NULL)
            return false;
    }
    return true;
}

void sc_compiled_note_outputs(sc_compiled_check *c, sc_array *outputs, uint32_t count,
                              sc_compiled_record *out)
{
    for (uint32_t p = 0; p < c->places.count; p++) {
        const sc_compiled_place *at = &c->places.data[p];
        if (at->state != SC_NONE || (uint32_t)at->what.output >= count)
            continue;
        sc_array_free(&out->values[p]);
        out->values[p] = outputs[at->what.output];
        outputs[at->what.output] = (sc_array){0};
    }
}
