/* Merges the orders of a pipeline's ranks into one list. Ranks take turns; each runs until its next
 * action needs one that has not run. Linear in the number of actions. */
#include "passes/cut_stages.h"

typedef struct merging {
    const sc_pipeline_schedule *schedule;
    uint8_t *done;  /* by chunk and micro-batch: a bit for each kind of action */
    uint32_t *next; /* by rank: its next action */
} merging;

static bool has_run(const merging *g, uint32_t chunk, uint32_t micro_batch, uint32_t kinds)
{
    size_t at = (size_t)chunk * g->schedule->micro_batches + micro_batch;
    return (g->done[at] & kinds) != 0;
}

static bool is_ready(const merging *g, const sc_action *action)
{
    const uint32_t backward = 1u << SC_ACTION_B | 1u << SC_ACTION_I, last = g->schedule->chunks - 1;
    uint32_t chunk = action->chunk, i = action->micro_batch;
    switch (action->kind) {
    case SC_ACTION_F:
        return chunk == 0 || has_run(g, chunk - 1, i, 1u << SC_ACTION_F);
    case SC_ACTION_W:
        return has_run(g, chunk, i, 1u << SC_ACTION_I);
    default:
        return has_run(g, chunk, i, 1u << SC_ACTION_F) &&
               (chunk == last || has_run(g, chunk + 1, i, backward));
    }
}

/* Runs what the rank can run. */
static uint32_t advance(merging *g, uint32_t rank, sc_action *out)
{
    const sc_actions *actions = &g->schedule->actions[rank];
    uint32_t count = 0;
    while (g->next[rank] < actions->list.count) {
        const sc_action *action = &actions->list.data[g->next[rank]];
        if (!is_ready(g, action))
            break;
        g->done[(size_t)action->chunk * g->schedule->micro_batches + action->micro_batch] |=
            (uint8_t)(1u << action->kind);
        out[count++] = *action;
        g->next[rank]++;
    }
    return count;
}

uint32_t sc_merge_actions(sc_arena *arena, const sc_pipeline_schedule *schedule, sc_action *out)
{
    merging g = {.schedule = schedule};
    uint32_t count = 0;
    bool moved = true;
    g.done = sc_arena_array(arena, (size_t)schedule->chunks * schedule->micro_batches, 1);
    g.next = sc_arena_array(arena, schedule->ranks, sizeof *g.next);
    while (moved) {
        uint32_t before = count;
        for (uint32_t rank = 0; rank < schedule->ranks; rank++)
            count += advance(&g, rank, out + count);
        moved = count > before;
    }
    return count;
}
