#include "tools/time/simulate.h"

#include <math.h>
#include <string.h>

#include "program/lookup.h"

const char *const sc_time_kind_names[SC_TIME_KINDS] = {
    "matmuls",   "attention",   "routed products", "kernels",  "copies",
    "optimizer", "collectives", "host copies",     "messages",
};

/* ---- messages ---- */

/* A FIFO from one stage to another. A message starts when both ends have started it, and after the
 * one before. */
typedef struct channel {
    uint32_t from, to, number;
    SC_VEC(double) sent, received, bytes; /* starts of each end, of each message */
    SC_VEC(double) ends;                  /* of those that both have started */
    uint32_t waited[2];                   /* by the sender, by the receiver */
} channel;
typedef SC_VEC(channel) channels;

/* ---- a stage ---- */

typedef struct stage_run {
    const sc_generated *of;
    const sc_image *image;
    uint32_t number;
    SC_VEC(uint32_t) funcs; /* in the order in which they are called */
    uint32_t at, instr;     /* the next instruction: of funcs[at] */
    double now, host_free;
    double *group_free;   /* by group */
    double *ends;         /* by instruction of the function: when what it started has ended */
    uint32_t *channel_of; /* by boundary */
    uint32_t row_of_kind[SC_TIME_KINDS], *row_of_collective; /* SC_NONE: none yet */
    sc_time_stage *out;
} stage_run;

typedef struct simulation {
    sc_arena *arena;
    const sc_device_model *device;
    stage_run *runs;
    uint32_t count;
    channels channels;
    sc_time_slices *slices; /* NULL: not asked for */
} simulation;

static sc_time_row *row_at(const simulation *s, stage_run *r, uint32_t *at, sc_time_row like)
{
    if (*at == SC_NONE) {
        *at = r->out->rows.count;
        *sc_vec_push(s->arena, &r->out->rows) = like;
    }
    return &r->out->rows.data[*at];
}

static sc_time_row *row_of_kind(const simulation *s, stage_run *r, sc_time_kind kind)
{
    return row_at(s, r, &r->row_of_kind[kind], (sc_time_row){.kind = kind});
}

/* Calls of one op over the same axes, all within nodes or not, are one row. */
static sc_time_row *row_of_collective(const simulation *s, stage_run *r, uint32_t index)
{
    const sc_image_collective *c = &r->image->collectives[index];
    sc_time_row like = {.kind = SC_TIME_COLLECTIVE,
                        .op = sc_collectives[c->kind].name,
                        .axes = c->axes,
                        .within_node =
                            sc_time_is_within_node(s->device, &r->image->groups[c->group])};
    for (uint32_t k = 0; k < r->out->rows.count && r->row_of_collective[index] == SC_NONE; k++) {
        const sc_time_row *row = &r->out->rows.data[k];
        if (row->kind == like.kind && strcmp(row->op, like.op) == 0 &&
            strcmp(row->axes, like.axes) == 0 && row->within_node == like.within_node)
            r->row_of_collective[index] = k;
    }
    return row_at(s, r, &r->row_of_collective[index], like);
}

static void note_slice(const simulation *s, const stage_run *r, const char *stream,
                       const char *name, double start, double end, bool is_wait)
{
    if (s->slices != NULL && end > start)
        *sc_vec_push(s->arena, s->slices) =
            (sc_time_slice){r->number, stream, name, start, end, is_wait};
}

static void compute(const simulation *s, stage_run *r, sc_time_kind kind, const char *where,
                    double seconds)
{
    sc_time_row *row = row_of_kind(s, r, kind);
    row->count++;
    row->seconds += seconds;
    note_slice(s, r, "compute", where, r->now, r->now + seconds, false);
    r->now += seconds;
    r->out->busy += seconds;
}

/* Stream 0 goes on at `end`; returns how long it waited. */
static double wait_until(const simulation *s, stage_run *r, const char *what, double end)
{
    double waited = fmax(0, end - r->now);
    note_slice(s, r, "compute", what, r->now, r->now + waited, true);
    r->now += waited;
    return waited;
}

/* ---- instructions ---- */

static bool is_update(const sc_image_instr *instr)
{
    return strcmp(instr->phase, "update") == 0;
}

static void run_kernel(const simulation *s, stage_run *r, const sc_image_instr *instr)
{
    const sc_image_kernel *kernel = &r->image->kernels[instr->index];
    double flops = r->of->kernels.data[instr->index].flops;
    sc_time_kind kind = kernel->attention  ? SC_TIME_ATTENTION
                        : flops > 0        ? SC_TIME_ROUTED
                        : is_update(instr) ? SC_TIME_UPDATE
                                           : SC_TIME_KERNEL;
    compute(s, r, kind, kernel->title,
            sc_time_kernel(s->device, kernel, flops, strcmp(instr->phase, "backward") == 0));
}

static void start_collective(const simulation *s, stage_run *r, const sc_image_instr *instr)
{
    const sc_image_collective *c = &r->image->collectives[instr->index];
    double seconds = sc_time_collective(s->device, r->image, c),
           start = fmax(r->now, r->group_free[c->group]);
    sc_time_row *row = row_of_collective(s, r, instr->index);
    row->count++;
    row->seconds += seconds;
    r->group_free[c->group] = r->ends[r->instr] = start + seconds;
    note_slice(s, r, c->axes, row->op, start, start + seconds, false);
}

static void start_transfer(const simulation *s, stage_run *r, const sc_image_instr *instr)
{
    double bytes = 0;
    for (uint32_t a = 0; a + 1 < instr->arg_count; a += 2)
        bytes += (double)sc_image_copy_bytes(r->image, &instr->args[a]);
    double seconds = sc_time_host_copy(s->device, bytes), start = fmax(r->now, r->host_free);
    sc_time_row *row = row_of_kind(s, r, SC_TIME_TRANSFER);
    row->count++;
    row->seconds += seconds;
    r->host_free = r->ends[r->instr] = start + seconds;
    note_slice(s, r, "host", instr->where, start, start + seconds, false);
}

static void finish(const simulation *s, stage_run *r, const sc_image_func *f,
                   const sc_image_instr *instr)
{
    const sc_image_instr *started = &f->instrs[instr->index];
    bool is_collective = started->kind == SC_INSTR_COLLECTIVE;
    sc_time_row *row = is_collective ? row_of_collective(s, r, started->index)
                                     : row_of_kind(s, r, SC_TIME_TRANSFER);
    const char *name = is_collective ? row->op : "host copy";
    row->exposed += wait_until(s, r, name, r->ends[instr->index]);
}

static void start_message(const simulation *s, stage_run *r, const sc_image_instr *instr)
{
    const sc_image_message *m = &r->image->messages[instr->index];
    channel *c = &s->channels.data[r->channel_of[m->boundary]];
    double bytes = 0;
    for (uint32_t p = 0; p < m->part_count; p++)
        bytes += (double)m->counts[p] * (double)sc_dtypes[m->dtypes[p]].bytes;
    if (c->from == r->number) {
        *sc_vec_push(s->arena, &c->sent) = r->now;
        *sc_vec_push(s->arena, &c->bytes) = bytes;
    } else {
        *sc_vec_push(s->arena, &c->received) = r->now;
    }
    while (c->ends.count < c->sent.count && c->ends.count < c->received.count) {
        uint32_t i = c->ends.count;
        double before = i > 0 ? c->ends.data[i - 1] : 0,
               start = fmax(before, fmax(c->sent.data[i], c->received.data[i])),
               seconds = sc_time_message(s->device, r->image, c->bytes.data[i]);
        *sc_vec_push(s->arena, &c->ends) = start + seconds;
        stage_run *sender = &s->runs[c->from];
        sc_time_row *row = row_of_kind(s, sender, SC_TIME_MESSAGE);
        row->count++;
        row->seconds += seconds;
        note_slice(s, sender, sc_arena_printf(s->arena, "to stage %u", c->to), m->why, start,
                   start + seconds, false);
    }
}

/* False: the other end has not started it yet. */
static bool wait_for_message(const simulation *s, stage_run *r, uint32_t boundary)
{
    channel *c = &s->channels.data[r->channel_of[boundary]];
    uint32_t *waited = &c->waited[c->from == r->number ? 0 : 1];
    if (*waited >= c->ends.count)
        return false;
    double before = r->now;
    r->out->waiting += wait_until(s, r, "message", c->ends.data[(*waited)++]);
    row_of_kind(s, r, SC_TIME_MESSAGE)->exposed += r->now - before;
    return true;
}

static bool wait_for_room(const simulation *s, stage_run *r, uint32_t boundary)
{
    channel *c = &s->channels.data[r->channel_of[boundary]];
    while (c->sent.count - c->waited[0] >= r->image->boundaries[boundary].slots) {
        if (!wait_for_message(s, r, boundary))
            return false;
    }
    return true;
}

/* False: it must wait for another stage. */
static bool run_instr(const simulation *s, stage_run *r, const sc_image_func *f)
{
    const sc_image_instr *instr = &f->instrs[r->instr];
    switch (instr->kind) {
    case SC_INSTR_KERNEL:
        if (!instr->instead)
            run_kernel(s, r, instr);
        return true;
    case SC_INSTR_GEMM:
        if (!instr->instead)
            compute(s, r, SC_TIME_MATMUL, instr->where,
                    sc_time_matmul(s->device, &r->image->gemms[instr->index]));
        return true;
    case SC_INSTR_COPY:
        compute(s, r, is_update(instr) ? SC_TIME_UPDATE : SC_TIME_COPY, instr->where,
                sc_time_copy(s->device, (double)sc_image_copy_bytes(r->image, &instr->args[0])));
        return true;
    case SC_INSTR_COLLECTIVE:
        start_collective(s, r, instr);
        return true;
    case SC_INSTR_TRANSFER:
        start_transfer(s, r, instr);
        return true;
    case SC_INSTR_FINISH:
        finish(s, r, f, instr);
        return true;
    case SC_INSTR_MESSAGE:
        start_message(s, r, instr);
        return true;
    case SC_INSTR_WAIT:
        return wait_for_message(s, r, instr->index);
    case SC_INSTR_ROOM:
        return wait_for_room(s, r, instr->index);
    case SC_INSTR_KINDS:
        break;
    }
    return true;
}

/* As far as it goes; returns how many instructions that were. */
static uint64_t run_stage(const simulation *s, stage_run *r)
{
    uint64_t done = 0;
    while (r->at < r->funcs.count) {
        const sc_image_func *f = &r->image->funcs[r->funcs.data[r->at]];
        for (; r->instr < f->instr_count; r->instr++, done++) {
            if (!run_instr(s, r, f))
                return done;
        }
        r->instr = 0;
        r->at++;
        done++;
    }
    r->out->end = r->now;
    return done;
}

/* ---- the whole ---- */

static void list_calls(const simulation *s, stage_run *r, const sc_image_call *calls,
                       uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const sc_image_func *f = &r->image->funcs[calls[i].func];
        if (f->call_count > 0)
            list_calls(s, r, f->calls, f->call_count);
        else
            *sc_vec_push(s->arena, &r->funcs) = calls[i].func;
    }
}

static void find_channels(simulation *s, stage_run *r)
{
    r->channel_of = sc_arena_array(s->arena, r->image->boundary_count + 1u, sizeof *r->channel_of);
    for (uint32_t b = 0; b < r->image->boundary_count; b++) {
        const sc_image_boundary *of = &r->image->boundaries[b];
        uint32_t from = of->is_receive ? of->peer : r->number,
                 to = of->is_receive ? r->number : of->peer, k = 0;
        while (k < s->channels.count &&
               !(s->channels.data[k].from == from && s->channels.data[k].to == to &&
                 s->channels.data[k].number == of->number))
            k++;
        if (k == s->channels.count)
            *sc_vec_push(s->arena, &s->channels) =
                (channel){.from = from, .to = to, .number = of->number};
        r->channel_of[b] = k;
    }
}

static void begin_stage(simulation *s, stage_run *r, const sc_generated *of, uint32_t number,
                        sc_time_stage *out)
{
    const sc_image *image = of->image;
    uint32_t most = 1;
    *r = (stage_run){.of = of, .image = image, .number = number, .out = out};
    for (uint32_t f = 0; f < image->func_count; f++)
        most = image->funcs[f].instr_count > most ? image->funcs[f].instr_count : most;
    r->ends = sc_arena_array(s->arena, most, sizeof *r->ends);
    r->group_free = sc_arena_array(s->arena, image->group_count + 1u, sizeof *r->group_free);
    r->row_of_collective =
        sc_arena_array(s->arena, image->collective_count + 1u, sizeof *r->row_of_collective);
    for (uint32_t k = 0; k < SC_TIME_KINDS; k++)
        r->row_of_kind[k] = SC_NONE;
    for (uint32_t k = 0; k < image->collective_count; k++)
        r->row_of_collective[k] = SC_NONE;
    list_calls(s, r, image->schedule, image->call_count);
    find_channels(s, r);
}

const char *sc_simulate(sc_arena *arena, const sc_device_model *device,
                        const sc_generated_program *program, bool with_slices, sc_simulated *out)
{
    simulation s = {.arena = arena, .device = device, .count = program->stage_count};
    *out = (sc_simulated){.stage_count = program->stage_count};
    s.slices = with_slices ? &out->slices : NULL;
    s.runs = sc_arena_array(arena, s.count, sizeof *s.runs);
    out->stages = sc_arena_array(arena, s.count, sizeof *out->stages);
    for (uint32_t k = 0; k < s.count; k++)
        begin_stage(&s, &s.runs[k], &program->stages[k], k, &out->stages[k]);
    uint64_t done = 1;
    bool ended = false;
    while (!ended && done > 0) {
        ended = true;
        done = 0;
        for (uint32_t k = 0; k < s.count; k++) {
            done += run_stage(&s, &s.runs[k]);
            ended = ended && s.runs[k].at == s.runs[k].funcs.count;
        }
    }
    for (uint32_t k = 0; k < s.count; k++) {
        if (out->stages[k].end >= out->stages[out->last].end)
            out->last = k;
    }
    out->seconds = out->stages[out->last].end;
    return ended ? NULL : "stages wait for each other for good";
}
