#include "ir/ops/verify_stages.h"

#include "ir/ops/ops.h"

/* One op that passes a value between calls: a send or receive, or a read or write of a slot. */
typedef struct handover {
    sc_op_id op;
    bool gives; /* send, write */
    sc_sym name;
    uint32_t slot; /* state; SC_NONE for a send or receive */
} handover;

typedef struct checking {
    const sc_module *m;
    sc_stage_report *report;
    void *user;
    bool good;
    SC_VEC(handover) handovers; /* of all functions, in order */
    uint32_t *first;            /* per function: its first one; one entry more at the end */
    uint32_t *writer;           /* per slot: the function that writes it, or as below */
} checking;

static const uint32_t no_writer = SC_NONE, several_writers = SC_NONE - 1;

#define wrong(c, op, ...) fail((c), (op), sc_arena_printf(&(c)->m->context->arena, __VA_ARGS__))

static void fail(checking *c, sc_op_id op, const char *text)
{
    c->good = false;
    c->report(c->user, op, text);
}

static const char *text_of(const checking *c, sc_sym sym)
{
    return sc_text(c->m->context, sym);
}

static sc_func_id func_of(const checking *c, const handover *h)
{
    return sc_op_at(c->m, h->op)->func;
}

static uint32_t stage_of(const checking *c, const handover *h)
{
    return c->m->funcs.data[func_of(c, h)].stage;
}

/* ---- what there is ---- */

static uint32_t slot_named(const sc_module *m, const sc_op *op)
{
    uint32_t state = sc_module_find_state(m, sc_op_word(op, SC_ATTR_name));
    bool is_slot = state != SC_NONE && m->state.data[state].kind == SC_STATE_SLOT;
    return is_slot ? state : SC_NONE;
}

static void collect(checking *c)
{
    const sc_module *m = c->m;
    sc_arena *arena = &m->context->arena;
    c->first = sc_arena_array(arena, m->funcs.count + 1u, sizeof *c->first);
    for (sc_func_id f = 0; f < m->funcs.count; f++) {
        c->first[f] = c->handovers.count;
        sc_for_each_op (m, f, op) {
            const sc_op *o = sc_op_at(m, op);
            bool transfers = sc_op_transfers((sc_op_kind)o->kind),
                 of_state = (sc_op_traits(o) & (SC_STATE_READ | SC_STATE_WRITE)) != 0;
            uint32_t slot = of_state ? slot_named(m, o) : SC_NONE;
            if (transfers || slot != SC_NONE)
                *sc_vec_push(arena, &c->handovers) =
                    (handover){op, o->operand_count > 0, sc_op_word(o, SC_ATTR_name), slot};
        }
    }
    c->first[m->funcs.count] = c->handovers.count;
}

/* ---- functions ---- */

static void check_functions(checking *c)
{
    const sc_module *m = c->m;
    bool any = false;
    uint32_t stages = sc_mesh_stage_axis(&m->mesh) < 0 ? 0 : sc_mesh_stages(&m->mesh);
    for (sc_func_id f = 0; f < m->funcs.count; f++) {
        const sc_func *func = &m->funcs.data[f];
        any = any || func->stage != SC_ALL_STAGES_RUN;
        if (func->stage != SC_ALL_STAGES_RUN && func->stage >= stages)
            wrong(c, SC_NONE, "function '%s' is of stage %u, but the mesh has %u stages",
                  text_of(c, func->name), func->stage, stages);
    }
    for (uint32_t i = 0; i < m->schedule.count; i++) {
        const sc_func *func = &m->funcs.data[m->schedule.data[i].func];
        if (any && func->stage == SC_ALL_STAGES_RUN)
            wrong(c, SC_NONE, "function '%s' is called, but has no stage, as others have",
                  text_of(c, func->name));
    }
}

/* ---- sends and receives ---- */

static uint32_t peer_of(const checking *c, const handover *h)
{
    int64_t stage = sc_op_int(sc_op_at(c->m, h->op), SC_ATTR_stage, -1);
    return stage < 0 || stage >= SC_ALL_STAGES_RUN ? SC_ALL_STAGES_RUN : (uint32_t)stage;
}

static sc_type type_of(const checking *c, const handover *h)
{
    const sc_op *op = sc_op_at(c->m, h->op);
    return c->m->values.data[h->gives ? op->operands[0] : op->first_result].type;
}

static bool check_transfer(checking *c, const handover *h)
{
    const sc_op *op = sc_op_at(c->m, h->op);
    uint32_t peer = peer_of(c, h), stage = stage_of(c, h);
    if (op->operand_count + op->result_count != 1)
        wrong(c, h->op, "it has %u operands and %u results", op->operand_count, op->result_count);
    else if (h->name == 0)
        wrong(c, h->op, "it has no name");
    else if (stage == SC_ALL_STAGES_RUN)
        wrong(c, h->op, "its function has no stage");
    else if (peer >= sc_mesh_stages(&c->m->mesh))
        wrong(c, h->op, "there is no such stage");
    else if (peer == stage)
        wrong(c, h->op, "it is of its own stage, %u", stage);
    else
        return true;
    return false;
}

/* All sends and receives of one name are between the same two stages and of one type, and a
 * function sends or receives a name once. */
static void check_transfers(checking *c)
{
    sc_arena *arena = &c->m->context->arena;
    sc_map by_name = {.arena = arena}, in_func = {.arena = arena};
    for (uint32_t i = 0; i < c->handovers.count; i++) {
        const handover *h = &c->handovers.data[i];
        bool is_new;
        if (h->slot != SC_NONE || !check_transfer(c, h))
            continue;
        sc_map_insert(&in_func, (uint64_t)func_of(c, h) << 32 | h->name, i, &is_new);
        if (!is_new)
            wrong(c, h->op, "its function has a second send or receive of '%s'",
                  text_of(c, h->name));
        const handover *like = &c->handovers.data[*sc_map_insert(&by_name, h->name, i, &is_new)];
        bool same_way = h->gives == like->gives;
        if (type_of(c, h) != type_of(c, like))
            wrong(c, h->op, "'%s' is sent or received with two types", text_of(c, h->name));
        else if (stage_of(c, h) != (same_way ? stage_of(c, like) : peer_of(c, like)) ||
                 peer_of(c, h) != (same_way ? peer_of(c, like) : stage_of(c, like)))
            wrong(c, h->op, "'%s' is sent or received between other stages too",
                  text_of(c, h->name));
    }
}

/* ---- slots ---- */

static void check_slots(checking *c)
{
    const sc_module *m = c->m;
    sc_arena *arena = &m->context->arena;
    c->writer = sc_arena_array(arena, m->state.count + 1u, sizeof *c->writer);
    for (uint32_t s = 0; s < m->state.count; s++)
        c->writer[s] = no_writer;
    uint32_t *user = sc_arena_array(arena, m->state.count + 1u, sizeof *user); /* index + 1 */
    for (uint32_t i = 0; i < c->handovers.count; i++) {
        const handover *h = &c->handovers.data[i];
        if (h->slot == SC_NONE)
            continue;
        uint32_t *writer = &c->writer[h->slot];
        if (h->gives)
            *writer =
                *writer == no_writer || *writer == func_of(c, h) ? func_of(c, h) : several_writers;
        if (user[h->slot] == 0)
            user[h->slot] = i + 1;
        else if (stage_of(c, &c->handovers.data[user[h->slot] - 1]) != stage_of(c, h))
            wrong(c, h->op, "slot '%s' is used by functions of two stages", text_of(c, h->name));
    }
    for (uint32_t i = 0; i < c->handovers.count; i++) {
        const handover *h = &c->handovers.data[i];
        if (h->slot != SC_NONE && c->writer[h->slot] == no_writer)
            wrong(c, h->op, "no function writes slot '%s'", text_of(c, h->name));
    }
}

/* ---- the schedule ---- */

/* Of the slots that a function reads, keeps one for each function that writes them: a schedule is
 * checked by calls, not by slots. Slots of several writers are all kept, with their writes. */
static void drop_equal_slots(checking *c)
{
    const sc_module *m = c->m;
    sc_map known = {.arena = &m->context->arena}; /* function << 32 | writer */
    uint32_t kept = 0, next = 0;
    for (sc_func_id f = 0; f < m->funcs.count; f++) {
        uint32_t end = c->first[f + 1];
        c->first[f] = kept;
        for (uint32_t i = next; i < end; i++) {
            const handover h = c->handovers.data[i];
            bool is_kept = h.slot == SC_NONE || c->writer[h.slot] == several_writers;
            if (!is_kept && !h.gives)
                sc_map_insert(&known, (uint64_t)f << 32 | c->writer[h.slot], 1, &is_kept);
            if (is_kept)
                c->handovers.data[kept++] = h;
        }
        next = end;
    }
    c->first[m->funcs.count] = c->handovers.count = kept;
}

/* What is under way at one point of the schedule. */
typedef struct under_way {
    sc_map sent;           /* name and micro-batch -> schedule entry of the send + 1; 0: received */
    sc_map called;         /* function and micro-batch */
    sc_map written;        /* slot of several writers and micro-batch */
    SC_VEC(uint64_t) keys; /* of sent */
} under_way;

static uint64_t key_of(uint32_t what, int32_t micro_batch)
{
    return (uint64_t)what << 32 | (uint32_t)micro_batch;
}

static void run_transfer(checking *c, under_way *w, const handover *h, uint32_t call)
{
    int32_t micro_batch = c->m->schedule.data[call].microbatch;
    const char *name = text_of(c, h->name);
    uint64_t key = key_of(h->name, micro_batch);
    uint32_t *sent = sc_map_find(&w->sent, key);
    if (!h->gives) {
        if (sent == NULL || *sent == 0)
            wrong(c, h->op, "'%s' of micro-batch %d is received %s", name, micro_batch,
                  sent == NULL ? "before it is sent" : "twice");
        if (sent != NULL)
            *sent = 0;
        return;
    }
    if (sent != NULL) {
        wrong(c, h->op, "'%s' of micro-batch %d is sent twice", name, micro_batch);
        return;
    }
    sc_map_insert(&w->sent, key, call + 1, NULL);
    *sc_vec_push(&c->m->context->arena, &w->keys) = key;
}

static bool has_slot(const checking *c, const under_way *w, uint32_t slot, int32_t micro_batch)
{
    uint32_t writer = c->writer[slot];
    return writer == several_writers ? sc_map_find(&w->written, key_of(slot, micro_batch)) != NULL
                                     : sc_map_find(&w->called, key_of(writer, micro_batch)) != NULL;
}

/* A call's writes take effect when it ends. */
static void run_call(checking *c, under_way *w, uint32_t call)
{
    sc_func_id func = c->m->schedule.data[call].func;
    int32_t micro_batch = c->m->schedule.data[call].microbatch;
    for (uint32_t i = c->first[func]; i < c->first[func + 1]; i++) {
        const handover *h = &c->handovers.data[i];
        if (h->slot == SC_NONE)
            run_transfer(c, w, h, call);
        else if (!h->gives && !has_slot(c, w, h->slot, micro_batch))
            wrong(c, h->op, "slot '%s' of micro-batch %d is read before it is written",
                  text_of(c, h->name), micro_batch);
    }
    sc_map_insert(&w->called, key_of(func, micro_batch), 1, NULL);
    for (uint32_t i = c->first[func]; i < c->first[func + 1]; i++) {
        const handover *h = &c->handovers.data[i];
        if (h->slot != SC_NONE && h->gives)
            sc_map_insert(&w->written, key_of(h->slot, micro_batch), 1, NULL);
    }
}

static void check_schedule(checking *c)
{
    sc_arena *arena = &c->m->context->arena;
    under_way w = {.sent.arena = arena, .called.arena = arena, .written.arena = arena};
    drop_equal_slots(c);
    for (uint32_t i = 0; i < c->m->schedule.count; i++)
        run_call(c, &w, i);
    for (uint32_t i = 0; i < w.keys.count; i++) {
        const uint32_t *sent = sc_map_find(&w.sent, w.keys.data[i]);
        if (*sent != 0)
            wrong(c, SC_NONE, "'%s' of micro-batch %d is sent, but never received",
                  text_of(c, (sc_sym)(w.keys.data[i] >> 32)), (int)(int32_t)w.keys.data[i]);
    }
}

bool sc_verify_stages(const sc_module *m, sc_stage_report *report, void *user)
{
    checking c = {.m = m, .report = report, .user = user, .good = true};
    check_functions(&c);
    collect(&c);
    if (c.handovers.count == 0)
        return c.good;
    check_transfers(&c);
    check_slots(&c);
    if (c.good)
        check_schedule(&c);
    return c.good;
}
