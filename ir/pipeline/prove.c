/* The proof of a schedule: first that it is complete, then that it ends.
 *
 * The second runs the ranks as far as they go, in any order: an action that can run stays so, so
 * the order does not matter. What is left has a cycle. Each stuck rank waits for another one (or
 * for itself), so that following the ranks finds the cycle in as many steps as there are ranks. */
#include "ir/pipeline/schedule.h"

#include <assert.h>
#include <inttypes.h>

#include "support/none.h"

enum { HAS_F = 1, HAS_B = 2, HAS_I = 4, HAS_W = 8 };

typedef struct prover {
    sc_arena *arena;
    const sc_pipeline_schedule *schedule;
    sc_schedule_fault *fault;
    uint8_t *seen; /* by chunk * micro_batches + micro-batch: HAS_ bits of the actions that there
                      are, later of those that ran */
} prover;

static bool fail(const prover *p, uint32_t rank, uint32_t index, const char *text)
{
    p->fault->text = text;
    p->fault->rank = rank;
    p->fault->index = index;
    return false;
}

static const char *text_of(const prover *p, sc_action_kind kind, uint32_t chunk,
                           uint32_t micro_batch)
{
    return sc_action_text(p->arena, (sc_action){kind, chunk, micro_batch});
}

/* ---- complete ---- */
static bool check_range(const prover *p, uint32_t rank, uint32_t index, sc_action action)
{
    const sc_pipeline_schedule *s = p->schedule;
    const char *text = sc_action_text(p->arena, action);
    if (action.chunk >= s->chunks)
        return fail(
            p, rank, index,
            sc_arena_printf(p->arena, "%s: there are only %" PRIu32 " chunks", text, s->chunks));
    if (action.micro_batch >= s->micro_batches)
        return fail(p, rank, index,
                    sc_arena_printf(p->arena, "%s: there are only %" PRIu32 " micro-batches", text,
                                    s->micro_batches));
    if (s->rank_of[action.chunk] == rank)
        return true;
    return fail(
        p, rank, index,
        s->rank_of[action.chunk] == SC_NONE
            ? sc_arena_printf(p->arena, "%s: no rank holds chunk %" PRIu32, text, action.chunk)
            : sc_arena_printf(p->arena,
                              "%s on rank %" PRIu32 ": chunk %" PRIu32
                              " is on two ranks, this one and rank %" PRIu32,
                              text, rank, action.chunk, s->rank_of[action.chunk]));
}

static bool check_once(const prover *p, uint32_t rank, uint32_t index, sc_action action)
{
    uint8_t *seen =
                &p->seen[(size_t)action.chunk * p->schedule->micro_batches + action.micro_batch],
            bit = (uint8_t)(1u << action.kind), before = *seen;
    *seen |= bit;
    if ((before & bit) != 0)
        return fail(
            p, rank, index,
            sc_arena_printf(p->arena, "%s is there twice", sc_action_text(p->arena, action)));
    if ((*seen & HAS_B) == 0 || (*seen & (HAS_I | HAS_W)) == 0)
        return true;
    return fail(p, rank, index,
                sc_arena_printf(p->arena, "%s and %s are both there: B is I and W together",
                                text_of(p, SC_ACTION_B, action.chunk, action.micro_batch),
                                text_of(p, (*seen & HAS_I) != 0 ? SC_ACTION_I : SC_ACTION_W,
                                        action.chunk, action.micro_batch)));
}

/* The pairs of a chunk and a micro-batch of which an action is missing are looked for in order, so
 * the table needs no more of them than there are actions. */
static bool check_pair(const prover *p, uint64_t pair)
{
    const sc_pipeline_schedule *s = p->schedule;
    uint32_t chunk = (uint32_t)(pair / s->micro_batches),
             micro_batch = (uint32_t)(pair % s->micro_batches);
    uint8_t seen = p->seen[pair];
    const uint8_t halves = seen & (HAS_I | HAS_W);
    bool is_whole = (seen & HAS_B) != 0 || halves == (HAS_I | HAS_W);
    if ((seen & HAS_F) != 0 && is_whole)
        return true;
    sc_action_kind missing = (seen & HAS_F) == 0 ? SC_ACTION_F
                             : halves == 0       ? SC_ACTION_B
                             : halves == HAS_W   ? SC_ACTION_I
                                                 : SC_ACTION_W;
    return fail(p, s->rank_of[chunk] == SC_NONE ? 0 : s->rank_of[chunk], SC_NONE,
                sc_arena_printf(p->arena,
                                "%s is missing: every micro-batch passes every chunk once "
                                "each way",
                                text_of(p, missing, chunk, micro_batch)));
}

static bool check_complete(prover *p)
{
    const sc_pipeline_schedule *s = p->schedule;
    uint64_t actions = 0, pairs = (uint64_t)s->chunks * s->micro_batches;
    for (uint32_t r = 0; r < s->ranks; r++)
        actions += s->actions[r].list.count;
    uint64_t kept = pairs <= actions ? pairs : actions + 1;
    p->seen = sc_arena_array(p->arena, kept, sizeof *p->seen);
    for (uint32_t r = 0; r < s->ranks; r++) {
        for (uint32_t i = 0; i < s->actions[r].list.count; i++) {
            sc_action action = s->actions[r].list.data[i];
            if (!check_range(p, r, i, action))
                return false;
            if ((uint64_t)action.chunk * s->micro_batches + action.micro_batch < kept &&
                !check_once(p, r, i, action))
                return false;
        }
    }
    for (uint64_t pair = 0; pair < kept; pair++) {
        if (!check_pair(p, pair))
            return false;
    }
    return true;
}

/* ---- order ---- */
/* What crosses one boundary in one direction: the micro-batches as they are sent. */
typedef struct channel {
    uint32_t *sent;
    uint32_t sent_count, received;
} channel;

typedef struct runner {
    prover *p;
    const sc_pipeline_schedule *s;
    uint32_t *head;          /* by rank: its first action that did not run */
    channel *down, *up;      /* by boundary, after chunk 0, 1, ..: activations, gradients */
    uint32_t *queue;         /* ranks to look at again */
    bool *queued;            /* by rank */
    uint32_t first, waiting; /* of the queue, a ring of s->ranks */
} runner;

static bool ran(const runner *r, sc_action action)
{
    return (r->p->seen[(size_t)action.chunk * r->s->micro_batches + action.micro_batch] >>
                action.kind &
            1) != 0;
}

/* True if the backward pass of the chunk got as far as what earlier chunks need. */
static bool ran_backward(const runner *r, uint32_t chunk, uint32_t micro_batch)
{
    return ran(r, (sc_action){SC_ACTION_B, chunk, micro_batch}) ||
           ran(r, (sc_action){SC_ACTION_I, chunk, micro_batch});
}

/* What an action waits for. */
typedef enum wait_kind {
    WAIT_NONE,
    WAIT_HERE, /* for an action of its own rank */
    WAIT_DATA, /* for an action of another rank */
    WAIT_TURN  /* for a micro-batch that was sent before its own */
} wait_kind;

typedef struct wait {
    wait_kind kind;
    uint32_t rank;    /* that it waits for */
    sc_action action; /* DATA, HERE: what did not run; TURN: what receives the other micro-batch */
    sc_action sender; /* DATA, TURN: what sends to it */
} wait;

/* Returns the channel from which an action receives; NULL: its data is on its rank, or it has none.
 */
static channel *source_of(const runner *r, sc_action action)
{
    const uint32_t *rank_of = r->s->rank_of;
    if (action.kind == SC_ACTION_F)
        return action.chunk == 0 || rank_of[action.chunk - 1] == rank_of[action.chunk]
                   ? NULL
                   : &r->down[action.chunk - 1];
    if (action.kind == SC_ACTION_W || action.chunk + 1 == r->s->chunks ||
        rank_of[action.chunk + 1] == rank_of[action.chunk])
        return NULL;
    return &r->up[action.chunk];
}

/* Returns the action of the chunk next to this one whose result it needs; B also where the schedule
 * has I. */
static sc_action neighbour_of(sc_action action)
{
    return action.kind == SC_ACTION_F
               ? (sc_action){SC_ACTION_F, action.chunk - 1, action.micro_batch}
               : (sc_action){SC_ACTION_B, action.chunk + 1, action.micro_batch};
}

static wait wait_here(const runner *r, sc_action action, sc_action needed)
{
    return (wait){.kind = WAIT_HERE, .rank = r->s->rank_of[action.chunk], .action = needed};
}

static wait wait_of(const runner *r, sc_action action)
{
    uint32_t c = action.chunk, b = action.micro_batch;
    const sc_action own = {SC_ACTION_F, c, b};
    if (action.kind == SC_ACTION_W)
        return ran(r, (sc_action){SC_ACTION_I, c, b})
                   ? (wait){0}
                   : wait_here(r, action, (sc_action){SC_ACTION_I, c, b});
    if (action.kind != SC_ACTION_F && !ran(r, own))
        return wait_here(r, action, own);
    if (action.kind == SC_ACTION_F ? c == 0 : c + 1 == r->s->chunks)
        return (wait){0};
    const sc_action before = neighbour_of(action);
    bool is_ready = action.kind == SC_ACTION_F ? ran(r, before) : ran_backward(r, c + 1, b);
    const channel *source = source_of(r, action);
    if (source == NULL)
        return is_ready ? (wait){0} : wait_here(r, action, before);
    if (!is_ready)
        return (wait){WAIT_DATA, r->s->rank_of[before.chunk], before, before};
    uint32_t next = source->sent[source->received];
    if (next == b)
        return (wait){0};
    return (wait){WAIT_TURN, r->s->rank_of[c], {action.kind, c, next}, before};
}

static void look_at(runner *r, uint32_t rank)
{
    if (r->queued[rank])
        return;
    r->queued[rank] = true;
    r->queue[(r->first + r->waiting++) % r->s->ranks] = rank;
}

static void send(runner *r, channel *into, uint32_t to, uint32_t micro_batch)
{
    assert(into != NULL);
    if (into->sent == NULL)
        into->sent = sc_arena_array(r->p->arena, r->s->micro_batches, sizeof *into->sent);
    into->sent[into->sent_count++] = micro_batch;
    look_at(r, to);
}

static void run(runner *r, sc_action action)
{
    const uint32_t *rank_of = r->s->rank_of;
    uint32_t c = action.chunk, b = action.micro_batch;
    channel *source = source_of(r, action);
    r->p->seen[(size_t)c * r->s->micro_batches + b] |= (uint8_t)(1u << action.kind);
    if (source != NULL)
        source->received++;
    if (action.kind == SC_ACTION_F && c + 1 < r->s->chunks && rank_of[c + 1] != rank_of[c])
        send(r, &r->down[c], rank_of[c + 1], b);
    if ((action.kind == SC_ACTION_B || action.kind == SC_ACTION_I) && c > 0 &&
        rank_of[c - 1] != rank_of[c])
        send(r, &r->up[c - 1], rank_of[c - 1], b);
}

static void run_ranks(runner *r)
{
    for (uint32_t k = 0; k < r->s->ranks; k++)
        look_at(r, k);
    while (r->waiting > 0) {
        uint32_t rank = r->queue[r->first];
        r->first = (r->first + 1) % r->s->ranks;
        r->waiting--;
        r->queued[rank] = false;
        const sc_actions *actions = &r->s->actions[rank];
        while (r->head[rank] < actions->list.count &&
               wait_of(r, actions->list.data[r->head[rank]]).kind == WAIT_NONE)
            run(r, actions->list.data[r->head[rank]++]);
    }
}

/* ---- the cycle ---- */
static sc_action head_of(const runner *r, uint32_t rank)
{
    return r->s->actions[rank].list.data[r->head[rank]];
}

static bool is_stuck(const runner *r, uint32_t rank)
{
    return r->head[rank] < r->s->actions[rank].list.count;
}

static bool same_action(sc_action a, sc_action b)
{
    return a.kind == b.kind && a.chunk == b.chunk && a.micro_batch == b.micro_batch;
}

/* Writes I for B where the schedule has that: looks among what its rank did not run. */
static sc_action as_written(const runner *r, uint32_t rank, sc_action action)
{
    sc_action other = {action.kind == SC_ACTION_B ? SC_ACTION_I : action.kind, action.chunk,
                       action.micro_batch};
    for (uint32_t i = 0; i < r->s->actions[rank].list.count; i++) {
        if (same_action(r->s->actions[rank].list.data[i], other))
            return other;
    }
    return action;
}

/* "2SEND_F1", as PyTorch writes it: what goes backward is B there, whole or not. */
static const char *transfer_text(const runner *r, const char *word, sc_action action)
{
    return sc_arena_printf(r->p->arena, "%" PRIu32 "%s_%c%" PRIu32, action.chunk, word,
                           action.kind == SC_ACTION_F ? 'F' : 'B', action.micro_batch);
}

static void say(const runner *r, uint32_t from, const char *what, uint32_t to, const char *other,
                const char *because)
{
    enum { MOST = 64 };
    if (r->p->fault->why.count < MOST)
        *sc_vec_push(r->p->arena, &r->p->fault->why) =
            sc_arena_printf(r->p->arena, "rank %" PRIu32 ": %s waits for rank %" PRIu32 ": %s%s",
                            from, what, to, other, because);
}

/* Says how the action that a rank is stuck at waits for the one that the next rank is stuck at. */
static void say_wait(const runner *r, uint32_t rank, const wait *w)
{
    sc_arena *arena = r->p->arena;
    sc_action head = head_of(r, rank);
    const char *text = sc_action_text(arena, head);
    if (w->kind == WAIT_HERE) {
        say(r, rank, text, rank, sc_action_text(arena, as_written(r, rank, w->action)),
            ", which comes after it");
        return;
    }
    uint32_t from = r->s->rank_of[w->sender.chunk];
    const char *sends = transfer_text(r, "SEND", w->sender);
    say(r, rank, text, from, sends, "");
    if (w->kind == WAIT_TURN) {
        sc_action other = w->sender;
        other.micro_batch = w->action.micro_batch;
        const char *earlier = transfer_text(r, "SEND", other);
        say(r, from, sends, from, earlier, ", which is sent before it");
        say(r, from, earlier, rank, transfer_text(r, "RECV", w->action), "");
        say(r, rank, transfer_text(r, "RECV", w->action), rank, text, ", which comes before it");
        return;
    }
    sc_action computes = as_written(r, from, w->action), blocked = head_of(r, from);
    if (!same_action(computes, blocked))
        say(r, from, sends, from, sc_action_text(arena, blocked), ", which comes before it");
}

static bool report_cycle(const runner *r, uint32_t rank)
{
    bool *met = sc_arena_array(r->p->arena, r->s->ranks, sizeof *met);
    while (!met[rank]) {
        met[rank] = true;
        rank = wait_of(r, head_of(r, rank)).rank;
    }
    uint32_t first = rank;
    bool again = true;
    while (again) {
        wait w = wait_of(r, head_of(r, rank));
        say_wait(r, rank, &w);
        rank = w.rank;
        again = rank != first;
    }
    return fail(r->p, first, r->head[first],
                sc_arena_printf(r->p->arena, "the schedule never ends: %s waits for itself",
                                sc_action_text(r->p->arena, head_of(r, first))));
}

static bool check_order(prover *p)
{
    const sc_pipeline_schedule *s = p->schedule;
    runner r = {.p = p,
                .s = s,
                .head = sc_arena_array(p->arena, s->ranks, sizeof *r.head),
                .down = sc_arena_array(p->arena, s->chunks, sizeof *r.down),
                .up = sc_arena_array(p->arena, s->chunks, sizeof *r.up),
                .queue = sc_arena_array(p->arena, s->ranks, sizeof *r.queue),
                .queued = sc_arena_array(p->arena, s->ranks, sizeof *r.queued)};
    p->seen = sc_arena_array(p->arena, (size_t)s->chunks * s->micro_batches, sizeof *p->seen);
    run_ranks(&r);
    for (uint32_t k = 0; k < s->ranks; k++) {
        if (is_stuck(&r, k))
            return report_cycle(&r, k);
    }
    return true;
}

bool sc_schedule_prove(sc_arena *arena, const sc_pipeline_schedule *schedule,
                       sc_schedule_fault *fault)
{
    prover p = {.arena = arena, .schedule = schedule, .fault = fault};
    *fault = (sc_schedule_fault){.index = SC_NONE};
    return check_complete(&p) && check_order(&p);
}
