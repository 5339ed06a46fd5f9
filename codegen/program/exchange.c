#include "codegen/program/exchange.h"

#include <assert.h>
#include <string.h>

typedef struct finding {
    const sc_module *m;
    sc_arena *arena;
    sc_exchanges *out;
    sc_calls_of of;
    uint32_t stages;
    uint32_t *last;     /* by stage, of a step: the function of its last call; SC_NONE: a function
                           of its own that does nothing */
    uint32_t *first_to; /* by function: the exchanges to it, linked by next_to; SC_NONE */
    uint32_t *first_from;
    uint32_t *next_to, *next_from; /* by exchange */
} finding;

bool sc_is_view(const sc_op *op)
{
    return (sc_ops[op->kind].fuse & SC_FUSE_VIEW) != 0 && sc_op_attr(op, SC_ATTR_kernel) == NULL;
}

sc_value sc_root_of(const sc_module *m, sc_value value)
{
    const sc_op *def = sc_op_at(m, sc_def(m, value));
    while (sc_is_view(def)) {
        value = def->operands[0];
        def = sc_op_at(m, sc_def(m, value));
    }
    return value;
}

static uint32_t stage_of(const finding *f, sc_func_id func)
{
    return f->m->funcs.data[func].stage;
}

/* ---- exchanges ---- */

/* Returns the op that sends what each name is. */
static sc_map find_senders(const finding *f)
{
    const sc_module *m = f->m;
    sc_map senders = {.arena = f->arena};
    sc_for_each_op_of_all(m, id)
    {
        const sc_op *op = sc_op_at(m, id);
        if (sc_op_transfers((sc_op_kind)op->kind) && op->operand_count > 0)
            sc_map_insert(&senders, sc_op_word(op, SC_ATTR_name), id, NULL);
    }
    return senders;
}

static void add_transfer(finding *f, sc_map *known, sc_op_id send, sc_op_id recv)
{
    const sc_module *m = f->m;
    sc_func_id from = sc_op_at(m, send)->func, to = sc_op_at(m, recv)->func;
    bool is_new;
    uint32_t at = *sc_map_insert(known, (uint64_t)from << 32 | to, f->out->list.count, &is_new);
    if (is_new)
        *sc_vec_push(f->arena, &f->out->list) = (sc_exchange){.from = from,
                                                              .to = to,
                                                              .from_stage = stage_of(f, from),
                                                              .to_stage = stage_of(f, to),
                                                              .slots = 1};
    sc_exchange *exchange = &f->out->list.data[at];
    *sc_vec_push(f->arena, &exchange->sends) = send;
    *sc_vec_push(f->arena, &exchange->recvs) = recv;
    f->out->of_op[send] = f->out->of_op[recv] = at;
}

/* Numbers the exchanges from one stage to another. */
static void number_boundaries(const finding *f)
{
    sc_map counts = {.arena = f->arena};
    for (uint32_t i = 0; i < f->out->list.count; i++) {
        sc_exchange *exchange = &f->out->list.data[i];
        uint64_t pair = (uint64_t)exchange->from_stage << 32 | exchange->to_stage;
        exchange->number = (*sc_map_insert(&counts, pair, 0, NULL))++;
    }
}

static void link_exchanges(finding *f)
{
    uint32_t count = f->out->list.count;
    f->first_to = sc_arena_array(f->arena, f->m->funcs.count, sizeof *f->first_to);
    f->first_from = sc_arena_array(f->arena, f->m->funcs.count, sizeof *f->first_from);
    memset(f->first_to, 0xff, f->m->funcs.count * sizeof *f->first_to);
    memset(f->first_from, 0xff, f->m->funcs.count * sizeof *f->first_from);
    f->next_to = sc_arena_array(f->arena, count + 1u, sizeof *f->next_to);
    f->next_from = sc_arena_array(f->arena, count + 1u, sizeof *f->next_from);
    for (uint32_t i = count; i-- > 0;) {
        const sc_exchange *exchange = &f->out->list.data[i];
        f->next_to[i] = f->first_to[exchange->to];
        f->next_from[i] = f->first_from[exchange->from];
        f->first_to[exchange->to] = f->first_from[exchange->from] = i;
    }
}

static void find_exchanges(finding *f)
{
    const sc_module *m = f->m;
    sc_map senders = find_senders(f), known = {.arena = f->arena};
    f->out->of_op = sc_arena_array(f->arena, m->ops.count, sizeof *f->out->of_op);
    sc_for_each_op_of_all(m, id)
    {
        const sc_op *op = sc_op_at(m, id);
        if (sc_op_transfers((sc_op_kind)op->kind) && op->operand_count == 0)
            add_transfer(f, &known, *sc_map_find(&senders, sc_op_word(op, SC_ATTR_name)), id);
    }
    number_boundaries(f);
    link_exchanges(f);
}

/* ---- calls ---- */

/* Finds the last call of each stage. Before the last calls all ranks meet, so what such a call
 * sends is received in another one. */
static void find_last(finding *f)
{
    const sc_module *m = f->m;
    f->last = sc_arena_array(f->arena, f->stages, sizeof *f->last);
    memset(f->last, 0xff, f->stages * sizeof *f->last);
    for (uint32_t i = 0; i < m->schedule.count; i++) {
        const sc_call *call = &m->schedule.data[i];
        f->last[stage_of(f, call->func)] = call->microbatch < 0 ? call->func : SC_NONE;
    }
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t i = 0; i < f->out->list.count; i++) {
            const sc_exchange *exchange = &f->out->list.data[i];
            uint32_t *last = &f->last[exchange->from_stage];
            if (*last == exchange->from && f->last[exchange->to_stage] != exchange->to) {
                *last = SC_NONE;
                changed = true;
            }
        }
    }
    for (uint32_t i = 0; i < f->out->list.count; i++) {
        sc_exchange *exchange = &f->out->list.data[i];
        exchange->starts_in_func =
            f->of == SC_CALLS_OF_ENTRY || f->last[exchange->from_stage] == exchange->from;
    }
}

static void add_receives(finding *f, sc_func_id to, int32_t micro_batch)
{
    for (uint32_t e = f->first_to[to]; e != SC_NONE; e = f->next_to[e]) {
        if (!f->out->list.data[e].starts_in_func)
            *sc_vec_push(f->arena, &f->out->calls[stage_of(f, to)]) =
                (sc_stage_call){.func = to, .exchange = e, .micro_batch = micro_batch};
    }
}

/* Finds the next call of the same function, by call of the schedule; SC_NONE: there is none. */
static uint32_t *find_next_calls(const finding *f)
{
    const sc_module *m = f->m;
    uint32_t *next = sc_arena_array(f->arena, m->schedule.count + 1u, sizeof *next),
             *latest = sc_arena_array(f->arena, m->funcs.count, sizeof *latest);
    memset(latest, 0xff, m->funcs.count * sizeof *latest);
    for (uint32_t i = m->schedule.count; i-- > 0;) {
        next[i] = latest[m->schedule.data[i].func];
        latest[m->schedule.data[i].func] = i;
    }
    return next;
}

static void list_calls(finding *f)
{
    const sc_module *m = f->m;
    const uint32_t *next = find_next_calls(f);
    bool *is_called = sc_arena_array(f->arena, m->funcs.count, sizeof *is_called);
    for (uint32_t i = 0; i < m->schedule.count; i++) {
        const sc_call *call = &m->schedule.data[i];
        uint32_t stage = stage_of(f, call->func);
        if (!is_called[call->func])
            add_receives(f, call->func, call->microbatch);
        is_called[call->func] = true;
        *sc_vec_push(f->arena, &f->out->calls[stage]) = (sc_stage_call){
            .func = call->func, .exchange = SC_NONE, .micro_batch = call->microbatch};
        if (next[i] != SC_NONE)
            add_receives(f, call->func, m->schedule.data[next[i]].microbatch);
    }
    for (uint32_t stage = 0; stage < f->stages; stage++) {
        if (f->of == SC_CALLS_OF_STEP && f->last[stage] == SC_NONE)
            *sc_vec_push(f->arena, &f->out->calls[stage]) =
                (sc_stage_call){.func = SC_NONE, .exchange = SC_NONE, .micro_batch = -1};
    }
}

/* ---- room ---- */

/* Runs the calls without data, as sc_program_check does later. */
typedef struct dry_run {
    const finding *f;
    uint32_t *at;                           /* by stage: its call */
    uint32_t *sent, *received, *waited_for; /* by exchange: started at its ends; ended and waited
                                               for by the sender */
    uint32_t *taken;                        /* by exchange: received and waited for */
    uint32_t *without_room;                 /* by stage: the exchange that it waits for; SC_NONE */
} dry_run;

static bool may_call(dry_run *d, uint32_t stage, const sc_stage_call *call)
{
    const finding *f = d->f;
    d->without_room[stage] = SC_NONE;
    for (uint32_t e = f->first_to[call->func]; e != SC_NONE; e = f->next_to[e]) {
        if (d->sent[e] <= d->taken[e])
            return false;
    }
    for (uint32_t e = f->first_from[call->func]; e != SC_NONE; e = f->next_from[e]) {
        if (d->sent[e] >= d->received[e] + f->out->list.data[e].slots) {
            d->without_room[stage] = e;
            return false;
        }
    }
    return true;
}

static void do_call(dry_run *d, const sc_stage_call *call)
{
    const finding *f = d->f;
    for (uint32_t e = f->first_to[call->func]; e != SC_NONE; e = f->next_to[e])
        d->taken[e]++;
    for (uint32_t e = f->first_from[call->func]; e != SC_NONE; e = f->next_from[e])
        d->sent[e]++;
}

static bool run_stage(dry_run *d, uint32_t stage)
{
    const sc_stage_calls *calls = &d->f->out->calls[stage];
    uint32_t begin = d->at[stage];
    for (; d->at[stage] < calls->count; d->at[stage]++) {
        const sc_stage_call *call = &calls->data[d->at[stage]];
        if (call->exchange != SC_NONE)
            d->received[call->exchange]++;
        if (call->exchange != SC_NONE || call->func == SC_NONE)
            continue;
        for (uint32_t e = d->f->first_to[call->func]; e != SC_NONE; e = d->f->next_to[e])
            d->received[e] =
                d->f->out->list.data[e].starts_in_func ? d->taken[e] + 1 : d->received[e];
        if (!may_call(d, stage, call))
            break;
        do_call(d, call);
    }
    return d->at[stage] > begin;
}

/* Gives each stage that waits for room one more slot; false: none does. */
static bool add_slots(dry_run *d)
{
    bool has_more = false;
    for (uint32_t stage = 0; stage < d->f->stages; stage++) {
        uint32_t exchange = d->without_room[stage];
        if (d->at[stage] == d->f->out->calls[stage].count || exchange == SC_NONE)
            continue;
        d->f->out->list.data[exchange].slots++;
        has_more = true;
    }
    return has_more;
}

/* Gives boundaries more slots until the calls end. */
static const char *find_room(finding *f)
{
    uint32_t count = f->out->list.count;
    dry_run d = {.f = f};
    d.at = sc_arena_array(f->arena, f->stages, sizeof *d.at);
    d.without_room = sc_arena_array(f->arena, f->stages, sizeof *d.without_room);
    d.sent = sc_arena_array(f->arena, count + 1u, sizeof *d.sent);
    d.received = sc_arena_array(f->arena, count + 1u, sizeof *d.received);
    d.taken = sc_arena_array(f->arena, count + 1u, sizeof *d.taken);
    for (bool is_over = false; !is_over;) {
        bool moved = false;
        is_over = true;
        for (uint32_t stage = 0; stage < f->stages; stage++) {
            moved = run_stage(&d, stage) || moved;
            is_over = is_over && d.at[stage] == f->out->calls[stage].count;
        }
        if (!moved && !is_over && !add_slots(&d))
            return "the calls of stages wait for each other";
    }
    return NULL;
}

/* ---- copies ---- */

/* What a call keeps or uses for one micro-batch, from its first call to the last. */
typedef struct kept_life {
    uint32_t first, last;
    uint32_t micro_batch, next; /* next: the next life of the same thing; SC_NONE */
} kept_life;

/* Things are numbered: slots by their states, then what is sent or received by its root. */
typedef struct keeping {
    const finding *f;
    uint32_t *first_life, *last_life; /* by thing */
    SC_VEC(kept_life) lives;
    sc_map known;               /* thing << 32 | micro-batch -> its life */
    uint32_t *first_use, *uses; /* by function and by exchange: the things that its calls use */
    uint32_t *slot_of;          /* by value: the slot that is written from it; SC_NONE */
    uint32_t calls;             /* of the stage */
    SC_VEC(uint32_t) list;
} keeping;

static uint32_t slot_named(const sc_module *m, const sc_op *op)
{
    if ((sc_op_traits(op) & (SC_STATE_READ | SC_STATE_WRITE)) == 0)
        return SC_NONE;
    uint32_t state = sc_module_find_state(m, sc_op_word(op, SC_ATTR_name));
    return m->state.data[state].kind == SC_STATE_SLOT ? state : SC_NONE;
}

/* The thing in which a value is that is sent or received. */
static uint32_t thing_of(const keeping *k, sc_value value)
{
    const sc_module *m = k->f->m;
    sc_value root = sc_root_of(m, value);
    uint32_t read = slot_named(m, sc_op_at(m, sc_def(m, root)));
    if (read != SC_NONE || k->slot_of[root] != SC_NONE)
        return read != SC_NONE ? read : k->slot_of[root];
    return m->state.count + root;
}

static void find_slots(keeping *k)
{
    const sc_module *m = k->f->m;
    k->slot_of = sc_arena_array(k->f->arena, m->values.count, sizeof *k->slot_of);
    memset(k->slot_of, 0xff, m->values.count * sizeof *k->slot_of);
    sc_for_each_op_of_all(m, id)
    {
        const sc_op *op = sc_op_at(m, id);
        uint32_t slot = (sc_op_traits(op) & SC_STATE_WRITE) != 0 ? slot_named(m, op) : SC_NONE;
        if (slot != SC_NONE)
            k->slot_of[sc_root_of(m, op->operands[0])] = slot;
    }
}

/* Lists what each function uses, then what the start of each receive does. */
static void list_uses(keeping *k)
{
    const finding *f = k->f;
    const sc_module *m = f->m;
    uint32_t count = m->funcs.count + f->out->list.count;
    k->first_use = sc_arena_array(f->arena, count + 1u, sizeof *k->first_use);
    for (sc_func_id func = 0; func < m->funcs.count; func++) {
        k->first_use[func] = k->list.count;
        sc_for_each_op (m, func, id) {
            const sc_op *op = sc_op_at(m, id);
            uint32_t slot = slot_named(m, op);
            if (slot != SC_NONE)
                *sc_vec_push(f->arena, &k->list) = slot;
            else if (sc_op_transfers((sc_op_kind)op->kind))
                *sc_vec_push(f->arena, &k->list) =
                    thing_of(k, op->operand_count > 0 ? op->operands[0] : op->first_result);
        }
    }
    for (uint32_t e = 0; e < f->out->list.count; e++) {
        const sc_exchange *exchange = &f->out->list.data[e];
        k->first_use[m->funcs.count + e] = k->list.count;
        for (uint32_t i = 0; i < exchange->recvs.count; i++)
            *sc_vec_push(f->arena, &k->list) =
                thing_of(k, sc_op_at(m, exchange->recvs.data[i])->first_result);
    }
    k->first_use[count] = k->list.count;
}

static void use(keeping *k, uint32_t thing, int32_t micro_batch, uint32_t call)
{
    bool is_new;
    uint32_t batch = micro_batch < 0 ? 0 : (uint32_t)micro_batch;
    uint32_t at = *sc_map_insert(&k->known, (uint64_t)thing << 32 | batch, k->lives.count, &is_new);
    if (is_new) {
        *sc_vec_push(k->f->arena, &k->lives) =
            (kept_life){.first = call, .micro_batch = batch, .next = SC_NONE};
        if (k->first_life[thing] == SC_NONE)
            k->first_life[thing] = at;
        else
            k->lives.data[k->last_life[thing]].next = at;
        k->last_life[thing] = at;
    }
    kept_life *life = &k->lives.data[at];
    life->last = call > life->last ? call : life->last;
}

/* What a call sends is kept until a later call of the function has made room for its own message,
 * before it computes that. */
static void use_in_flight(keeping *k, uint32_t stage)
{
    const finding *f = k->f;
    const sc_stage_calls *calls = &f->out->calls[stage];
    for (uint32_t e = 0; e < f->out->list.count; e++) {
        const sc_exchange *exchange = &f->out->list.data[e];
        SC_VEC(uint32_t) of_func = {0};
        if (exchange->from_stage != stage)
            continue;
        for (uint32_t i = 0; i < calls->count; i++) {
            if (calls->data[i].func == exchange->from && calls->data[i].exchange == SC_NONE)
                *sc_vec_push(f->arena, &of_func) = i;
        }
        for (uint32_t n = 0; n < of_func.count; n++) {
            uint32_t end = n + exchange->slots < of_func.count
                               ? of_func.data[n + exchange->slots] - 1
                               : calls->count - 1;
            assert(exchange->sends.data != NULL);
            for (uint32_t i = 0; i < exchange->sends.count; i++) {
                const sc_op *send = sc_op_at(f->m, exchange->sends.data[i]);
                use(k, thing_of(k, send->operands[0]), calls->data[of_func.data[n]].micro_batch,
                    end);
            }
        }
    }
}

/* True if no two micro-batches that are under way at the same time share one of so many copies.
 * Lives are in the order of their beginnings. */
static bool fits(const keeping *k, uint32_t thing, uint32_t copies, int64_t *busy_until)
{
    assert(copies > 0);
    for (uint32_t c = 0; c < copies; c++)
        busy_until[c] = -1;
    for (uint32_t l = k->first_life[thing]; l != SC_NONE; l = k->lives.data[l].next) {
        const kept_life *life = &k->lives.data[l];
        int64_t *busy = &busy_until[life->micro_batch % copies];
        if (*busy >= life->first)
            return false;
        *busy = life->last;
    }
    return true;
}

/* The fewest copies that fit: at most one for each micro-batch. */
static uint32_t copies_for(const keeping *k, uint32_t thing)
{
    uint32_t most = 1, copies = 1;
    assert(k->lives.data != NULL);
    for (uint32_t l = k->first_life[thing]; l != SC_NONE; l = k->lives.data[l].next)
        most = k->lives.data[l].micro_batch >= most ? k->lives.data[l].micro_batch + 1 : most;
    int64_t *busy_until = sc_arena_array(&k->f->m->context->scratch, most, sizeof *busy_until);
    while (copies < most && !fits(k, thing, copies, busy_until))
        copies++;
    return copies;
}

static void use_calls(keeping *k, uint32_t stage)
{
    const finding *f = k->f;
    const sc_stage_calls *calls = &f->out->calls[stage];
    for (uint32_t i = 0; i < calls->count; i++) {
        const sc_stage_call *call = &calls->data[i];
        if (call->func == SC_NONE)
            continue;
        uint32_t user = call->exchange == SC_NONE ? call->func : f->m->funcs.count + call->exchange;
        for (uint32_t u = k->first_use[user]; u < k->first_use[user + 1]; u++) {
            assert(k->list.data != NULL);
            use(k, k->list.data[u], call->micro_batch, i);
        }
    }
    use_in_flight(k, stage);
}

static void find_copies(finding *f)
{
    const sc_module *m = f->m;
    uint32_t things = m->state.count + m->values.count;
    keeping k = {.f = f, .known = {.arena = f->arena}};
    k.first_life = sc_arena_array(f->arena, things, sizeof *k.first_life);
    k.last_life = sc_arena_array(f->arena, things, sizeof *k.last_life);
    memset(k.first_life, 0xff, things * sizeof *k.first_life);
    find_slots(&k);
    list_uses(&k);
    for (uint32_t stage = 0; stage < f->stages; stage++)
        use_calls(&k, stage);
    f->out->copies_of_state = sc_arena_array(f->arena, things, sizeof(uint32_t));
    f->out->copies_of_value = &f->out->copies_of_state[m->state.count];
    for (uint32_t t = 0; t < things; t++) {
        sc_arena *scratch = &m->context->scratch;
        const sc_arena_mark mark = sc_arena_mark_here(scratch);
        f->out->copies_of_state[t] = k.first_life[t] == SC_NONE ? 1 : copies_for(&k, t);
        sc_arena_release(scratch, mark);
    }
}

const char *sc_exchanges_find(const sc_module *m, sc_calls_of calls, sc_exchanges *out)
{
    finding f = {.m = m,
                 .arena = &m->context->arena,
                 .out = out,
                 .of = calls,
                 .stages = sc_mesh_stages(&m->mesh)};
    *out = (sc_exchanges){0};
    out->calls = sc_arena_array(f.arena, f.stages, sizeof *out->calls);
    find_exchanges(&f);
    find_last(&f);
    if (calls != SC_CALLS_OF_ENTRY)
        list_calls(&f);
    const char *error = find_room(&f);
    if (error == NULL)
        find_copies(&f);
    return error;
}
