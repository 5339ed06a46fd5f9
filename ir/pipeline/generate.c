/* The schedules by name. Each is written rank by rank, from its rank's number alone.
 *
 * gpipe, one_f_one_b: Huang et al. 2019 (arXiv 1811.06965); Narayanan et al. 2019 (PipeDream).
 * interleaved: Narayanan et al. 2021 (arXiv 2104.04473), section 2.2. looped_bfs: Lamy-Poirier 2022
 * (arXiv 2211.05953). zero_bubble: ZB-H1 of Qi et al. 2023 (arXiv 2401.10241), zero_bubble_v: ZB-V
 * of Qi et al. 2024 (arXiv 2405.15362). dual_pipe_v: DeepSeek-AI 2024 (DualPipe), cut in half. */
#include "ir/pipeline/schedule.h"

const sc_schedule_row sc_schedule_rows[SC_SCHEDULE_COUNT] = {
#define SCHEDULE(name, chunks, v, least) {#name, chunks, v, least},
#include "ir/pipeline/schedules.def"
#undef SCHEDULE
};

uint64_t sc_schedule_least(sc_schedule_kind kind, uint32_t ranks)
{
    uint64_t least = (uint64_t)sc_schedule_rows[kind].least * ranks;
    return least == 0 ? 1 : least;
}

/* ---- one rank ---- */
typedef struct writer {
    sc_arena *arena;
    sc_actions *out;
    uint32_t ranks, rank, per_rank, micro_batches;
} writer;

/* Adds an action. Micro-batches that there are not are left out: some orders are written for more
 * of them. */
static void add(const writer *w, sc_action_kind kind, uint32_t chunk, uint32_t micro_batch)
{
    if (micro_batch < w->micro_batches)
        *sc_vec_push(w->arena, &w->out->list) = (sc_action){kind, chunk, micro_batch};
}

static uint32_t least_of(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static void order_gpipe(const writer *w)
{
    for (uint32_t i = 0; i < w->micro_batches; i++)
        add(w, SC_ACTION_F, w->rank, i);
    for (uint32_t i = 0; i < w->micro_batches; i++)
        add(w, SC_ACTION_B, w->rank, i);
}

static void order_looped_bfs(const writer *w)
{
    for (uint32_t v = 0; v < w->per_rank; v++) {
        for (uint32_t i = 0; i < w->micro_batches; i++)
            add(w, SC_ACTION_F, w->rank + v * w->ranks, i);
    }
    for (uint32_t v = w->per_rank; v-- > 0;) {
        for (uint32_t i = w->micro_batches; i-- > 0;)
            add(w, SC_ACTION_B, w->rank + v * w->ranks, i);
    }
}

static void order_one_f_one_b(const writer *w)
{
    uint32_t m = w->micro_batches, ahead = least_of(w->ranks - w->rank - 1, m);
    for (uint32_t i = 0; i < ahead; i++)
        add(w, SC_ACTION_F, w->rank, i);
    for (uint32_t i = 0; i < m; i++) {
        add(w, SC_ACTION_F, w->rank, ahead + i);
        add(w, SC_ACTION_B, w->rank, i);
    }
}

/* one_f_one_b whose weight gradients are late by as many micro-batches as the rank's number, so
 * that every rank holds as many as the first. */
static void order_zero_bubble(const writer *w)
{
    uint32_t m = w->micro_batches, ahead = least_of(w->ranks - w->rank - 1, m), done = 0;
    for (uint32_t i = 0; i < ahead; i++)
        add(w, SC_ACTION_F, w->rank, i);
    for (uint32_t i = 0; i < m; i++) {
        add(w, SC_ACTION_F, w->rank, ahead + i);
        add(w, SC_ACTION_I, w->rank, i);
        if (i >= w->rank || ahead + i >= m)
            add(w, SC_ACTION_W, w->rank, done++);
    }
    for (; done < m; done++)
        add(w, SC_ACTION_W, w->rank, done);
}

/* ---- interleaved ---- */
/* The steps of one direction: groups of micro-batches, each through all chunks of the rank. */
typedef struct steps {
    const writer *writer;
    bool backward;
    uint32_t groups, group, first, size, chunk, at;
} steps;

static uint32_t group_size(const steps *s, uint32_t group)
{
    uint32_t m = s->writer->micro_batches;
    return m / s->groups + (group < m % s->groups ? 1 : 0);
}

static steps steps_begin(const writer *w, bool backward)
{
    steps s = {.writer = w, .backward = backward, .groups = w->micro_batches / w->ranks};
    s.groups = s.groups == 0 ? 1 : s.groups;
    s.size = group_size(&s, 0);
    return s;
}

static void step(steps *s)
{
    const writer *w = s->writer;
    uint32_t chunk = s->backward ? w->per_rank - 1 - s->chunk : s->chunk;
    add(w, s->backward ? SC_ACTION_B : SC_ACTION_F, w->rank + chunk * w->ranks, s->first + s->at);
    if (++s->at < s->size)
        return;
    s->at = 0;
    if (++s->chunk < w->per_rank)
        return;
    s->chunk = 0;
    s->first += s->size;
    s->size = group_size(s, ++s->group);
}

static void order_interleaved(const writer *w)
{
    steps forward = steps_begin(w, false), backward = steps_begin(w, true);
    uint32_t all = w->per_rank * w->micro_batches;
    uint32_t ahead = 2 * (w->ranks - w->rank - 1) + (w->per_rank - 1) * forward.size;
    ahead = least_of(ahead, all);
    for (uint32_t i = 0; i < ahead; i++)
        step(&forward);
    for (uint32_t i = 0; i < all; i++) {
        if (ahead + i < all)
            step(&forward);
        step(&backward);
    }
}

/* ---- V ---- */
/* A rank's two chunks, and how far each is. */
typedef struct half {
    uint32_t chunk, forward, backward, weight;
} half;

static void forward(const writer *w, half *h)
{
    add(w, SC_ACTION_F, h->chunk, h->forward++);
}

static void input(const writer *w, half *h)
{
    add(w, SC_ACTION_I, h->chunk, h->backward++);
}

static void weight(const writer *w, half *h)
{
    add(w, SC_ACTION_W, h->chunk, h->weight++);
}

static void input_and_weight(const writer *w, half *h)
{
    input(w, h);
    weight(w, h);
}

static void backward(const writer *w, half *h)
{
    add(w, SC_ACTION_B, h->chunk, h->backward++);
    h->weight++;
}

/* Filling and steady state of both V schedules. Written for at least 2 ranks - 1 micro-batches. */
static void order_zero_bubble_v(const writer *w)
{
    uint32_t p = w->ranks, r = w->rank;
    uint32_t m = w->micro_batches > 2 * p - 1 ? w->micro_batches : 2 * p - 1;
    half a = {.chunk = r}, b = {.chunk = 2 * p - 1 - r};
    for (uint32_t i = 0; i < 2 * (p - r) - 1; i++)
        forward(w, &a);
    for (uint32_t i = 0; i < r; i++) {
        forward(w, &b);
        forward(w, &a);
    }
    for (uint32_t i = 0; i < p - r; i++) {
        forward(w, &b);
        input_and_weight(w, &b);
    }
    while (b.forward < a.forward || a.forward < m) {
        if (a.forward < m)
            forward(w, &a);
        input_and_weight(w, &a);
        forward(w, &b);
        input_and_weight(w, &b);
    }
    for (uint32_t i = 0; i < r; i++) {
        input(w, &a);
        input(w, &b);
    }
    for (uint32_t i = 0; i < p - r; i++)
        input_and_weight(w, &a);
    while (b.weight < b.backward)
        weight(w, &b);
    while (a.weight < a.backward)
        weight(w, &a);
}

/* Weight gradients that wait, oldest first; at most one a micro-batch and chunk. */
typedef struct waiting {
    half **list;
    uint32_t first, count;
} waiting;

static void put_off(const writer *w, half *h, waiting *q)
{
    input(w, h);
    q->list[q->count++] = h;
}

static void catch_up(const writer *w, waiting *q)
{
    weight(w, q->list[q->first++]);
}

/* The end of dual_pipe_v: from the middle of the alternation on, weight gradients fill the gaps. */
static void drain(const writer *w, half *a, half *b)
{
    uint32_t p = w->ranks, r = w->rank;
    waiting q = {.list = sc_arena_array(w->arena, 2 * ((size_t)p + 1), sizeof *q.list)};
    for (uint32_t i = 0; i < 2 * (r + 1); i++) {
        half *h = i % 2 == 0 ? b : a;
        if (i < r + 1)
            backward(w, h);
        else
            put_off(w, h, &q);
    }
    for (uint32_t i = 0; i < p - r - 1; i++) {
        catch_up(w, &q);
        put_off(w, a, &q);
    }
    while (q.first < q.count)
        catch_up(w, &q);
}

static void order_dual_pipe_v(const writer *w)
{
    uint32_t p = w->ranks, r = w->rank;
    half a = {.chunk = r}, b = {.chunk = 2 * p - 1 - r};
    for (uint32_t i = 0; i < 2 * (p - r - 1); i++)
        forward(w, &a);
    for (uint32_t i = 0; i < r + 1; i++) {
        forward(w, &a);
        forward(w, &b);
    }
    for (uint32_t i = 0; i < p - r - 1; i++) {
        input_and_weight(w, &b);
        forward(w, &b);
    }
    for (uint32_t i = 0; i < w->micro_batches - 2 * p + r + 1; i++) {
        forward(w, &a);
        backward(w, &b);
        forward(w, &b);
        backward(w, &a);
    }
    for (uint32_t i = 0; i < p - r - 1; i++) {
        backward(w, &b);
        forward(w, &b);
        backward(w, &a);
    }
    drain(w, &a, &b);
}

/* ---- all ranks ---- */
sc_pipeline_schedule *sc_schedule_generate(sc_arena *arena, sc_schedule_kind kind, uint32_t ranks,
                                           uint32_t per_rank, uint32_t micro_batches)
{
    static void (*const orders[SC_SCHEDULE_COUNT])(const writer *) = {
#define SCHEDULE(name, chunks, v, least) order_##name,
#include "ir/pipeline/schedules.def"
#undef SCHEDULE
    };
    sc_pipeline_schedule *schedule = sc_arena_alloc(arena, sizeof *schedule);
    *schedule = (sc_pipeline_schedule){
        .ranks = ranks, .chunks = ranks * per_rank, .micro_batches = micro_batches};
    schedule->rank_of = sc_arena_array(arena, schedule->chunks, sizeof *schedule->rank_of);
    schedule->actions = sc_arena_array(arena, ranks, sizeof *schedule->actions);
    for (uint32_t c = 0; c < schedule->chunks; c++)
        schedule->rank_of[c] =
            sc_schedule_rows[kind].is_v && c >= ranks ? schedule->chunks - 1 - c : c % ranks;
    for (uint32_t r = 0; r < ranks; r++) {
        writer w = {arena, &schedule->actions[r], ranks, r, per_rank, micro_batches};
        sc_vec_reserve(arena, &w.out->list, 3 * per_rank * micro_batches);
        orders[kind](&w);
    }
    return schedule;
}
