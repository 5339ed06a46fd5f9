/* Validation of a program that is cut into stages. Its functions are other ones than the global
 * program's, so the global program runs all micro-batches first; then the stages' calls run in
 * their order, each on the inputs of its micro-batch. What a function computes for the last
 * micro-batch is compared with what the global program computed for it. */
#include "tools/verify/validate_internal.h"

/* Micro-batches are counted from 0; returns how many calls before `end` run. */
static uint32_t count_micro_batches(const sc_module *m, uint32_t end)
{
    int32_t most = 0;
    for (uint32_t i = 0; i < end; i++) {
        int32_t micro_batch = m->schedule.data[i].microbatch;
        most = micro_batch > most ? micro_batch : most;
    }
    return (uint32_t)most + 1;
}

const char *sc_validate_find_stages(sc_validation *v)
{
    const sc_module *m = v->local;
    v->local_last = SC_NONE;
    for (uint32_t i = 0; i < m->schedule.count; i++) {
        const sc_call *call = &m->schedule.data[i];
        v->tail = call->microbatch >= 0 ? i + 1 : v->tail;
        if (sc_output_count(m, call->func) > 0)
            v->local_last = call->func;
    }
    v->micro_batches = count_micro_batches(m, v->tail);
    if (v->local_last == SC_NONE)
        return "no stage returns the results";
    if (count_micro_batches(v->global, v->global->schedule.count) != v->micro_batches)
        return "the stages do not run the same micro-batches as the global program";
    return NULL;
}

/* Runs the micro-batches of the global program that have not run yet. */
static bool run_global_micros(sc_validation *v, const sc_random_options *options)
{
    char error[512] = "";
    for (uint32_t i = 1; i < v->micro_batches; i++) {
        const sc_call call = {v->func, (int32_t)i};
        if (!sc_validate_draw(v, options, call.microbatch) ||
            !sc_validate_run_global(v, &call, error, sizeof error)) {
            sc_differ_because(&v->differences,
                              "the global program itself fails on random inputs: %s", error);
            return false;
        }
    }
    return true;
}

static bool run_local_micros(sc_validation *v)
{
    char error[512] = "";
    for (uint32_t i = 0; i < v->tail; i++) {
        const sc_call *call = &v->local->schedule.data[i];
        bool is_last = call->microbatch == (int32_t)v->micro_batches - 1;
        v->stopped = !sc_validate_run_local(v, call, error, sizeof error);
        if (is_last)
            sc_validate_values(v, call->func);
        if (v->stopped) {
            sc_differ_because(&v->differences, "stage %u of the per-rank program fails: %s",
                              v->local->funcs.data[call->func].stage, error);
            return false;
        }
    }
    return true;
}

bool sc_validate_run_tail(sc_validation *v, char *error, size_t error_size)
{
    for (uint32_t i = v->tail; i < v->local->schedule.count; i++) {
        if (!sc_validate_run_local(v, &v->local->schedule.data[i], error, error_size))
            return false;
    }
    return true;
}

/* Runs on integers and with casts are informative about a micro-batch but not about the
 * optimizer. */
bool sc_validate_stages(sc_validation *v, const sc_random_options *options)
{
    char error[512] = "";
    if (!run_global_micros(v, options) || !run_local_micros(v))
        return false;
    sc_validate_states(v, v->func, v->bounds);
    if (!v->has_step) {
        sc_validate_outputs(v);
        return true;
    }
    if (v->kind != SC_RUN_RANDOM)
        return false;
    if (!sc_validate_run_global(v, &(sc_call){v->last, -1}, error, sizeof error)) {
        sc_differ_because(&v->differences, "the global program itself fails: %s", error);
        return false;
    }
    if (!sc_validate_run_tail(v, error, sizeof error)) {
        sc_differ_because(&v->differences, "the per-rank program fails: %s", error);
        return false;
    }
    sc_validate_states(v, v->last, v->last_bounds);
    sc_validate_outputs(v);
    return true;
}
