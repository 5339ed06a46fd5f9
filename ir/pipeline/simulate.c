/* The cost of a schedule: when each action can start, if sends are free. */
#include "ir/pipeline/schedule.h"

typedef struct simulation {
    const sc_pipeline_schedule *s;
    const double *work; /* by chunk; NULL: 1 each */
    double **start;     /* by rank, by action */
    double *down, *up;  /* by chunk * micro_batches + micro-batch: when F, and B or I, ended;
                           negative: not yet */
    double *free;       /* by rank: when its last action ended */
    uint32_t *head;     /* by rank: its first action that did not start */
    uint32_t *queue;    /* ranks to look at again, a ring */
    bool *queued;       /* by rank */
    uint32_t first, waiting;
} simulation;

static size_t pair_of(const simulation *m, uint32_t chunk, uint32_t micro_batch)
{
    return (size_t)chunk * m->s->micro_batches + micro_batch;
}

/* Returns when the data of an action is there; negative: not yet known. What its own rank computes
 * is there in time, as the rank's order says. */
static double data_of(const simulation *m, sc_action action)
{
    bool forward = action.kind == SC_ACTION_F;
    if (action.kind == SC_ACTION_W ||
        (forward ? action.chunk == 0 : action.chunk + 1 == m->s->chunks))
        return 0;
    return forward ? m->down[pair_of(m, action.chunk - 1, action.micro_batch)]
                   : m->up[pair_of(m, action.chunk + 1, action.micro_batch)];
}

static double work_of(const simulation *m, sc_action action)
{
    double work = m->work == NULL ? 1 : m->work[action.chunk];
    return action.kind == SC_ACTION_B ? 2 * work : work;
}

static void look_at(simulation *m, uint32_t rank)
{
    if (m->queued[rank])
        return;
    m->queued[rank] = true;
    m->queue[(m->first + m->waiting++) % m->s->ranks] = rank;
}

static void start(simulation *m, uint32_t rank, sc_action action, double data)
{
    double begin = data > m->free[rank] ? data : m->free[rank], end = begin + work_of(m, action);
    size_t pair = pair_of(m, action.chunk, action.micro_batch);
    m->start[rank][m->head[rank]++] = begin;
    m->free[rank] = end;
    if (action.kind == SC_ACTION_F) {
        m->down[pair] = end;
        if (action.chunk + 1 < m->s->chunks)
            look_at(m, m->s->rank_of[action.chunk + 1]);
    } else if (action.kind != SC_ACTION_W) {
        m->up[pair] = end;
        if (action.chunk > 0)
            look_at(m, m->s->rank_of[action.chunk - 1]);
    }
}

static void run(simulation *m)
{
    for (uint32_t k = 0; k < m->s->ranks; k++)
        look_at(m, k);
    while (m->waiting > 0) {
        uint32_t rank = m->queue[m->first];
        m->first = (m->first + 1) % m->s->ranks;
        m->waiting--;
        m->queued[rank] = false;
        const sc_actions *actions = &m->s->actions[rank];
        bool more = true;
        while (more && m->head[rank] < actions->list.count) {
            sc_action action = actions->list.data[m->head[rank]];
            double data = data_of(m, action);
            more = data >= 0;
            if (more)
                start(m, rank, action, data);
        }
    }
}

/* Returns the most micro-batches that a rank holds at once, counted in chunks. */
static uint32_t live_chunks(const sc_actions *actions)
{
    uint32_t live = 0, most = 0;
    for (uint32_t i = 0; i < actions->list.count; i++) {
        sc_action_kind kind = actions->list.data[i].kind;
        live += kind == SC_ACTION_F;
        live -= kind == SC_ACTION_B || kind == SC_ACTION_W;
        most = live > most ? live : most;
    }
    return most;
}

/* Sums up, in the unit of the makespan: `full` is the work of a full stage. */
static void sum_up(simulation *m, double full, sc_schedule_cost *out)
{
    const sc_pipeline_schedule *s = m->s;
    double makespan = 0, busy = 0, busiest = 0;
    for (uint32_t r = 0; r < s->ranks; r++) {
        const sc_actions *actions = &s->actions[r];
        double own = 0;
        for (uint32_t i = 0; i < actions->list.count; i++) {
            own += work_of(m, actions->list.data[i]);
            m->start[r][i] /= full;
        }
        busy += own;
        busiest = own > busiest ? own : busiest;
        makespan = m->free[r] > makespan ? m->free[r] : makespan;
        out->live[r] = (double)live_chunks(actions) * s->ranks / s->chunks;
    }
    out->makespan = makespan / full;
    out->bubble = 1 - busy / (s->ranks * makespan);
    out->imbalance = 1 - busy / (s->ranks * busiest);
    out->idle = 1 - busiest / makespan;
}

void sc_schedule_simulate(sc_arena *arena, const sc_pipeline_schedule *schedule, const double *work,
                          sc_schedule_cost *out)
{
    size_t ranks = schedule->ranks, pairs = (size_t)schedule->chunks * schedule->micro_batches;
    double total = 0;
    for (uint32_t c = 0; c < schedule->chunks; c++)
        total += work == NULL ? 0 : work[c];
    simulation m = {.s = schedule,
                    .work = total > 0 ? work : NULL,
                    .start = sc_arena_array(arena, ranks, sizeof *m.start),
                    .down = sc_arena_array(arena, pairs, sizeof *m.down),
                    .up = sc_arena_array(arena, pairs, sizeof *m.up),
                    .free = sc_arena_array(arena, ranks, sizeof *m.free),
                    .head = sc_arena_array(arena, ranks, sizeof *m.head),
                    .queue = sc_arena_array(arena, ranks, sizeof *m.queue),
                    .queued = sc_arena_array(arena, ranks, sizeof *m.queued)};
    for (size_t i = 0; i < pairs; i++)
        m.down[i] = m.up[i] = -1;
    for (uint32_t r = 0; r < schedule->ranks; r++)
        m.start[r] = sc_arena_array(arena, schedule->actions[r].list.count, sizeof **m.start);
    *out = (sc_schedule_cost){.live = sc_arena_array(arena, ranks, sizeof *out->live),
                              .start = m.start};
    run(&m);
    sum_up(&m, (total > 0 ? total : schedule->chunks) / (double)ranks, out);
}

void sc_pipeline_simulate(sc_arena *arena, const sc_pipeline *pipeline, sc_schedule_cost *out)
{
    double *work = sc_arena_array(arena, pipeline->schedule->chunks, sizeof *work);
    for (uint32_t c = 0; c < pipeline->schedule->chunks; c++)
        work[c] = pipeline->chunks[c].flops;
    sc_schedule_simulate(arena, pipeline->schedule, work, out);
}
