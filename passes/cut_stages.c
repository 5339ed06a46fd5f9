/* cut-stages: cuts a program into the functions that the stages of a pipeline run.
 *
 *   micro: forward, backward of all layers        F0, B0: of the layers of chunk 0, on its stage
 *   update                                   ->   F1, B1: of chunk 1 ..
 *                                                 U0_0, U0_1, U1_0, ..: the update, by stage
 *   schedule: micro n times, update               schedule: F0, F1, B1, B0, .. with micro-batches
 *
 * Ops carry the chunk that runs them (tag-chunks). Values that cross a cut are sent; values of a
 * forward pass that the backward pass of the chunk reads are kept in slots. Before this pass the
 * program is one step on all ranks, so placement and communication within a stage need nothing of
 * their own for pipelines. Requires RESHARDS_EXPLICIT; runs before collectives are coalesced.
 * Linear in the program and the schedule. No-op without stages. */
#include "passes/cut_stages.h"

#include "ir/batches.h"
#include "passes/cutting.h"
#include "passes/propagate.h"

/* Finds which stages have each state: those whose chunks read or write it. An op of no chunk, such
 * as the read of a parameter that several chunks use, runs where its readers do; so does what each
 * reader repeats, such as the gather of a parameter. */
static void find_owners(sc_cutting *c)
{
    sc_module *m = c->m;
    const sc_pipeline_schedule *schedule = c->pipeline->schedule;
    sc_segments segments;
    sc_segments_begin(&segments, m, c->step);
    sc_segments_find_repeats(&segments, c->micro, true);
    uint64_t *stages = sc_arena_array(&m->context->arena, m->ops.count + 1u, sizeof *stages);
    c->owners = sc_arena_array(&m->context->arena, m->state.count + 1u, sizeof *c->owners);
    sc_for_each_op_reverse (m, c->micro, id) {
        const sc_op *op = sc_op_at(m, id);
        if (op->chunk != SC_NO_CHUNK)
            stages[id] |= UINT64_C(1) << schedule->rank_of[op->chunk];
        for (uint32_t i = 0; i < op->operand_count; i++) {
            sc_op_id def = sc_def(m, op->operands[i]);
            if (sc_op_at(m, def)->chunk == SC_NO_CHUNK || segments.repeats[def])
                stages[def] |= stages[id];
        }
        if ((sc_op_traits(op) & (SC_STATE_READ | SC_STATE_WRITE)) != 0)
            c->owners[sc_module_find_state(m, sc_op_word(op, SC_ATTR_name))] |= stages[id];
    }
}

/* Optimizer state is where its parameter is; numbers of the step are everywhere, but for those
 * that only the results' stage needs. */
static void complete_owners(sc_cutting *c)
{
    const sc_module *m = c->m;
    for (uint32_t s = 0; s < m->state.count; s++) {
        uint32_t param = sc_param_of_state(c->step, s);
        if (c->owners[s] != 0)
            continue;
        if (m->state.data[s].kind == SC_STATE_SCALAR)
            c->owners[s] = UINT64_MAX;
        else
            c->owners[s] = param != SC_NONE && c->owners[param] != 0 ? c->owners[param]
                                                                     : UINT64_C(1) << c->results;
    }
}

bool sc_run_cut_stages(sc_module *m, sc_pass_env *env)
{
    if (env->pipeline == NULL)
        return true;
    const sc_pipeline_schedule *schedule = env->pipeline->schedule;
    sc_cutting c = {.m = m,
                    .pipeline = env->pipeline,
                    .step = env->step,
                    .micro = m->schedule.data[0].func,
                    .batches = env->batches == NULL ? 1 : env->batches->count,
                    .results = schedule->rank_of[schedule->chunks - 1],
                    .forward = sc_intern_text(&m->context->names, "forward"),
                    .prefetch = env->prefetch,
                    .planner = env->planner};
    find_owners(&c);
    if (c.step != NULL)
        complete_owners(&c);
    sc_cut_micro(&c);
    if (c.step != NULL)
        sc_cut_update(&c);
    return true;
}
