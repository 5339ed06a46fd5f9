#include "tools/verify/validate_internal.h"

static sc_array *inputs_of(const sc_validation *v, int32_t micro_batch)
{
    uint32_t at = v->is_cut && micro_batch > 0 ? (uint32_t)micro_batch : 0;
    return &v->inputs[at * v->distributions.inputs.count];
}

bool sc_validate_draw(sc_validation *v, const sc_random_options *options, int32_t micro_batch)
{
    uint32_t input = 0;
    sc_array *inputs = inputs_of(v, micro_batch);
    sc_random_options fresh = *options;
    fresh.seed += micro_batch > 0 ? (uint64_t)micro_batch : 0;
    sc_for_each_op (v->global, v->func, id) {
        const sc_op *op = sc_op_at(v->global, id);
        if (!sc_op_has(op, SC_FROM_OUTSIDE))
            continue;
        sc_array_free(&inputs[input]);
        inputs[input] = sc_verification_values(sc_type_of(v->global, op->first_result),
                                               &v->distributions.inputs.data[input], &fresh);
        if (inputs[input].data == NULL)
            return false;
        input++;
    }
    return true;
}

/* Functions of stages get the inputs that they name; others get all of theirs in order. */
static bool run_one(sc_validation *v, sc_interp *interp, const sc_call *call, bool returns,
                    sc_array *outputs, uint32_t count, char *error, size_t error_size)
{
    bool by_name = v->is_cut && interp == v->all, is_fed = by_name || call->func == v->func;
    const sc_interp_inputs inputs = {by_name ? v->input_names : NULL,
                                     inputs_of(v, call->microbatch),
                                     is_fed ? v->distributions.inputs.count : 0};
    /* the call of an earlier micro-batch, or an earlier attempt, may have left results */
    uint32_t returned = returns ? count : 0;
    for (uint32_t i = 0; i < returned; i++)
        sc_array_free(&outputs[i]);
    return sc_interp_run_call(interp, call, &inputs, outputs, returned, error, error_size);
}

bool sc_validate_run_global(sc_validation *v, const sc_call *call, char *error, size_t error_size)
{
    bool returns = call->func == v->last;
    return run_one(v, v->one, call, returns, v->expected, v->global_outputs, error, error_size) &&
           (v->truth == NULL || run_one(v, v->truth, call, returns, v->unrounded, v->global_outputs,
                                        error, error_size));
}

bool sc_validate_run_local(sc_validation *v, const sc_call *call, char *error, size_t error_size)
{
    return run_one(v, v->all, call, call->func == v->local_last, v->found, v->local_outputs, error,
                   error_size);
}
