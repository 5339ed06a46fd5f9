/* Random programs get a plan that the verifier and a simulation of every byte of the arena both accept; broken plans are refused by both;
 * the arena is hardly larger than what is alive at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "codegen/memory_plan.h"
#include "support/vec.h"

#define NONE SC_IMAGE_NONE

/* ---- making programs ---- */
typedef SC_VEC(sc_image_buffer) buffer_list;
typedef SC_VEC(sc_image_instr) instr_list;
typedef SC_VEC(uint32_t) numbers;

typedef struct program {
    sc_arena arena;
    uint64_t random;
    sc_image image;
    uint32_t wish_count; /* of `wishes`: that the planner is told */
    buffer_list buffers;
    SC_VEC(sc_image_kernel) kernels;
    SC_VEC(sc_gemm) gemms;
    SC_VEC(sc_image_collective) collectives;
    SC_VEC(sc_memory_wish) wishes;
    bool few_sizes;
    /* of the function being made: */
    instr_list instrs;
    numbers known;    /* buffers that hold something */
    numbers flying;   /* collectives in flight */
    numbers moved[2]; /* buffers that those read, that they write */
    uint32_t func;
} program;

static void out_of_memory(void *user)
{
    (void)user;
    abort();
}

static uint32_t draw(program *p, uint32_t below)
{
    p->random = p->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((p->random >> 33) % below);
}

static bool chance(program *p, uint32_t percent)
{
    return draw(p, 100) < percent;
}

static int64_t random_bytes(program *p)
{
    if (p->few_sizes)
        return 64 * (int64_t)(1 + draw(p, 3));
    uint32_t form = draw(p, 20);
    if (form == 0)
        return 0;
    return form < 10 ? 1 + (int64_t)draw(p, 900) : (int64_t)1 << draw(p, 10);
}

static uint32_t new_buffer(program *p, sc_image_buffer_kind kind, int64_t bytes)
{
    const char *name = sc_arena_printf(&p->arena, "b%u", p->buffers.count);
    *sc_vec_push(&p->arena, &p->buffers) = (sc_image_buffer){.kind = kind, .bytes = bytes, .offset = -1, .name = name};
    return p->buffers.count - 1;
}

static bool holds(const numbers *list, uint32_t number)
{
    for (uint32_t i = 0; i < list->count; i++) {
        if (list->data[i] == number)
            return true;
    }
    return false;
}

static void add(program *p, numbers *list, uint32_t number)
{
    if (!holds(list, number))
        *sc_vec_push(&p->arena, list) = number;
}

/* One that may be accessed now, mostly a recent one; NONE if there is none. */
static uint32_t pick(program *p, bool write)
{
    for (uint32_t tries = 0; tries < 10 && p->known.count > 0; tries++) {
        uint32_t back = chance(p, 60) ? draw(p, p->known.count < 4 ? p->known.count : 4) : draw(p, p->known.count);
        uint32_t buffer = p->known.data[p->known.count - 1 - back];
        if (!holds(&p->moved[1], buffer) && !(write && holds(&p->moved[0], buffer)))
            return buffer;
    }
    return NONE;
}

typedef struct arguments {
    sc_image_ref refs[12];
    uint8_t access[12];
    uint32_t count;
} arguments;

static bool has_argument(const arguments *args, uint32_t buffer)
{
    for (uint32_t a = 0; a < args->count; a++) {
        if (args->refs[a].buffer == buffer)
            return true;
    }
    return false;
}

static void give(arguments *args, uint32_t buffer, sc_image_access access)
{
    args->refs[args->count] = (sc_image_ref){buffer, 0};
    args->access[args->count++] = (uint8_t)access;
}

static void emit(program *p, sc_image_instr_kind kind, uint32_t index, const arguments *args)
{
    sc_image_ref *refs = sc_arena_array(&p->arena, args->count, sizeof *refs);
    memcpy(refs, args->refs, args->count * sizeof *refs);
    *sc_vec_push(&p->arena, &p->instrs) = (sc_image_instr){.kind = kind,
                                                           .stream = kind == SC_INSTR_COLLECTIVE,
                                                           .index = index,
                                                           .arg_count = args->count,
                                                           .args = refs,
                                                           .where = "here",
                                                           .phase = "forward"};
}

static void emit_kernel(program *p, const arguments *args)
{
    sc_image_arg *signature = sc_arena_array(&p->arena, args->count, sizeof *signature);
    for (uint32_t a = 0; a < args->count; a++)
        signature[a] = (sc_image_arg){p->buffers.data[args->refs[a].buffer].bytes, args->access[a]};
    *sc_vec_push(&p->arena, &p->kernels) = (sc_image_kernel){.symbol = "k", .title = "k", .arg_count = args->count, .args = signature};
    emit(p, SC_INSTR_KERNEL, p->kernels.count - 1, args);
}

/* Reads some, changes some, makes some, and wishes for places. */
static void random_kernel(program *p)
{
    arguments args = {.count = 0};
    uint32_t reads = draw(p, 4), made[2], made_count = 1 + draw(p, 2), read_to = 0;
    for (uint32_t i = 0; i < reads; i++) {
        uint32_t buffer = pick(p, false);
        if (buffer != NONE && (chance(p, 10) || !has_argument(&args, buffer)))
            give(&args, buffer, SC_ACCESS_IN);
    }
    read_to = args.count;
    for (uint32_t i = 0; i < 2 && chance(p, 15); i++) {
        uint32_t buffer = pick(p, true);
        if (buffer != NONE && !has_argument(&args, buffer))
            give(&args, buffer, chance(p, 50) ? SC_ACCESS_INOUT : SC_ACCESS_OUT);
    }
    for (uint32_t i = 0; i < made_count; i++) {
        made[i] = new_buffer(p, chance(p, 90) ? SC_BUFFER_ACT : SC_BUFFER_WORKSPACE, random_bytes(p));
        give(&args, made[i], SC_ACCESS_OUT);
    }
    for (uint32_t i = 0; i < made_count; i++) {
        for (uint32_t a = 0; a < read_to && chance(p, 70); a++)
            *sc_vec_push(&p->arena, &p->wishes) = (sc_memory_wish){p->func, p->instrs.count, made[i], args.refs[a].buffer};
    }
    emit_kernel(p, &args);
    for (uint32_t i = 0; i < made_count; i++)
        add(p, &p->known, made[i]);
}

static void random_gemm(program *p)
{
    arguments args = {.count = 0};
    sc_gemm gemm = {.accumulate = chance(p, 30), .step_count = draw(p, 3)};
    uint32_t a = pick(p, false), b = pick(p, false), c = gemm.accumulate ? pick(p, true) : NONE, made = NONE, stored = NONE;
    if (a == NONE || b == NONE || (gemm.accumulate && (c == NONE || c == a || c == b)))
        return;
    if (c == NONE)
        c = made = new_buffer(p, SC_BUFFER_ACT, random_bytes(p));
    give(&args, a, SC_ACCESS_IN);
    give(&args, b, SC_ACCESS_IN);
    give(&args, c, gemm.accumulate ? SC_ACCESS_INOUT : SC_ACCESS_OUT);
    for (uint32_t s = 0; s < gemm.step_count; s++) {
        uint32_t operand = pick(p, false);
        gemm.steps[s].kind = operand == NONE || operand == c || chance(p, 50) ? SC_GEMM_RELU : SC_GEMM_ADD;
        if (gemm.steps[s].kind == SC_GEMM_ADD)
            give(&args, operand, SC_ACCESS_IN);
        else if (stored == NONE && chance(p, 50)) {
            gemm.steps[s].kind = SC_GEMM_STORE;
            stored = new_buffer(p, SC_BUFFER_ACT, random_bytes(p));
            give(&args, stored, SC_ACCESS_OUT);
        }
    }
    if (chance(p, 30))
        give(&args, new_buffer(p, SC_BUFFER_WORKSPACE, random_bytes(p)), SC_ACCESS_OUT);
    *sc_vec_push(&p->arena, &p->gemms) = gemm;
    emit(p, SC_INSTR_GEMM, p->gemms.count - 1, &args);
    if (made != NONE)
        add(p, &p->known, made);
    if (stored != NONE)
        add(p, &p->known, stored);
}

static void random_collective(program *p)
{
    arguments args = {.count = 0};
    uint32_t parts = 1 + draw(p, 3), form = draw(p, 10), made[3];
    sc_image_collective_kind kind = form == 0 ? SC_IMAGE_SEND : form == 1 ? SC_IMAGE_RECV : SC_IMAGE_ALL_REDUCE;
    for (uint32_t i = 0; i < parts; i++) {
        uint32_t source = pick(p, chance(p, 30)), taken = NONE;
        made[i] = NONE;
        if (kind != SC_IMAGE_RECV && source == NONE)
            return;
        if (kind != SC_IMAGE_RECV)
            give(&args, source, SC_ACCESS_IN);
        if (kind == SC_IMAGE_SEND)
            continue;
        if (chance(p, 20) && kind != SC_IMAGE_RECV && !holds(&p->moved[0], source) && !holds(&p->moved[1], source))
            taken = source; /* in place */
        else
            taken = made[i] = new_buffer(p, SC_BUFFER_COMM, random_bytes(p));
        give(&args, taken, SC_ACCESS_OUT);
    }
    *sc_vec_push(&p->arena, &p->collectives) = (sc_image_collective){.kind = kind, .part_count = parts};
    *sc_vec_push(&p->arena, &p->flying) = p->instrs.count;
    for (uint32_t a = 0; a < args.count; a++)
        *sc_vec_push(&p->arena, &p->moved[args.access[a] == SC_ACCESS_OUT]) = args.refs[a].buffer;
    emit(p, SC_INSTR_COLLECTIVE, p->collectives.count - 1, &args);
    for (uint32_t i = 0; i < parts; i++) {
        if (made[i] != NONE)
            add(p, &p->known, made[i]);
    }
}

/* The arguments of the collectives still in flight are those that are moved. */
static void random_finish(program *p)
{
    if (p->flying.count == 0)
        return;
    uint32_t at = draw(p, p->flying.count);
    arguments none = {.count = 0};
    emit(p, SC_INSTR_FINISH, p->flying.data[at], &none);
    p->flying.data[at] = p->flying.data[--p->flying.count];
    p->moved[0].count = p->moved[1].count = 0;
    for (uint32_t i = 0; i < p->flying.count; i++) {
        const sc_image_instr *instr = &p->instrs.data[p->flying.data[i]];
        p->image.collectives = p->collectives.data;
        for (uint32_t a = 0; a < instr->arg_count; a++) {
            bool written = sc_memory_access(&p->image, instr, a) == SC_ACCESS_OUT;
            *sc_vec_push(&p->arena, &p->moved[written]) = instr->args[a].buffer;
        }
    }
}

static void random_copy(program *p)
{
    arguments args = {.count = 0};
    uint32_t source = pick(p, false);
    if (source == NONE)
        return;
    uint32_t made = new_buffer(p, SC_BUFFER_ACT, p->buffers.data[source].bytes);
    give(&args, source, SC_ACCESS_IN);
    give(&args, made, SC_ACCESS_OUT);
    if (chance(p, 30))
        *sc_vec_push(&p->arena, &p->wishes) = (sc_memory_wish){p->func, p->instrs.count, made, source};
    emit(p, SC_INSTR_COPY, 0, &args);
    add(p, &p->known, made);
}

static void random_func(program *p, uint32_t state_count, uint32_t length)
{
    sc_image_func *func = &p->image.funcs[p->func];
    p->instrs = (instr_list){0};
    p->known = p->flying = p->moved[0] = p->moved[1] = (numbers){0};
    func->name = sc_arena_printf(&p->arena, "f%u", p->func);
    func->input_count = draw(p, 4);
    func->inputs = sc_arena_array(&p->arena, func->input_count, sizeof *func->inputs);
    for (uint32_t s = 0; s < state_count; s++)
        add(p, &p->known, s);
    for (uint32_t i = 0; i < func->input_count; i++) {
        func->inputs[i].buffer = new_buffer(p, SC_BUFFER_ACT, random_bytes(p));
        add(p, &p->known, func->inputs[i].buffer);
    }
    while (p->instrs.count < length) {
        uint32_t form = draw(p, 20);
        if (form < 10)
            random_kernel(p);
        else if (form < 14)
            random_gemm(p);
        else if (form < 15)
            random_copy(p);
        else if (form < 17)
            random_collective(p);
        else
            random_finish(p);
        if (p->known.count == 0)
            random_kernel(p);
    }
    func->instrs = p->instrs.data;
    func->instr_count = p->instrs.count;
    func->output_count = p->known.count > 0 ? draw(p, 4) : 0;
    func->outputs = sc_arena_array(&p->arena, func->output_count, sizeof *func->outputs);
    for (uint32_t o = 0; o < func->output_count; o++)
        func->outputs[o].buffer = p->known.data[draw(p, p->known.count)];
}

static void finish_program(program *p)
{
    p->image.buffers = p->buffers.data;
    p->image.buffer_count = p->buffers.count;
    p->image.kernels = p->kernels.data;
    p->image.kernel_count = p->kernels.count;
    p->image.gemms = p->gemms.data;
    p->image.gemm_count = p->gemms.count;
    p->image.collectives = p->collectives.data;
    p->image.collective_count = p->collectives.count;
    p->wish_count = p->wishes.count;
}

static void begin_program(program *p, uint64_t seed)
{
    *p = (program){.random = seed * 0x9e3779b97f4a7c15u + 1};
    sc_arena_init(&p->arena, out_of_memory, NULL);
}

static void random_program(program *p, uint64_t seed, uint32_t most)
{
    begin_program(p, seed);
    p->few_sizes = chance(p, 40);
    p->image.state_count = draw(p, 5);
    p->image.states = sc_arena_array(&p->arena, p->image.state_count, sizeof *p->image.states);
    for (uint32_t s = 0; s < p->image.state_count; s++) /* some kinds say it, some only the list of states */
        p->image.states[s].buffer = new_buffer(p, chance(p, 80) ? SC_BUFFER_PARAM : SC_BUFFER_ACT, random_bytes(p));
    p->image.func_count = 1 + draw(p, 4);
    p->image.funcs = sc_arena_array(&p->arena, p->image.func_count, sizeof *p->image.funcs);
    for (p->func = 0; p->func < p->image.func_count; p->func++)
        random_func(p, p->image.state_count, draw(p, most));
    p->image.call_count = draw(p, 8);
    p->image.schedule = sc_arena_array(&p->arena, p->image.call_count, sizeof *p->image.schedule);
    for (uint32_t c = 0; c < p->image.call_count; c++)
        p->image.schedule[c] = (sc_image_call){draw(p, p->image.func_count), (int32_t)c};
    finish_program(p);
}

static void plan(program *p, sc_memory_plan *out)
{
    const char *error = sc_memory_plan_make(&p->arena, &p->image, p->wishes.data, p->wish_count, out);
    if (error != NULL)
        fail_msg("%s", error);
    error = sc_memory_plan_verify(&p->arena, &p->image, p->wishes.data, p->wish_count);
    if (error != NULL)
        fail_msg("%s", error);
}

/* ---- every byte ---- */
/* The arena holds a token a byte; of every buffer it is known which tokens it should find. Whoever accesses a buffer finds all of it as it
 * was left, and a write leaves new tokens. A collective in flight reads and writes all the time. */
typedef struct simulation {
    const program *p;
    uint32_t *tokens, **wanted, next;
    bool *kept, *born; /* kept: states and outputs; born: holds something now */
    bool broken;
    uint64_t moment, moments, *first, *last; /* of the accesses to a buffer since it was born; 0: none */
    int64_t *change;                         /* by moment: bytes alive from then on */
} simulation;

static void write_tokens(simulation *s, uint32_t buffer)
{
    const sc_image_buffer *b = &s->p->image.buffers[buffer];
    for (int64_t i = 0; i < b->bytes; i++)
        s->wanted[buffer][i] = s->tokens[b->offset + i] = s->next;
    s->next++;
}

static void expect_tokens(simulation *s, uint32_t buffer)
{
    const sc_image_buffer *b = &s->p->image.buffers[buffer];
    if (b->bytes > 0 && memcmp(&s->tokens[b->offset], s->wanted[buffer], (size_t)b->bytes * sizeof *s->tokens) != 0)
        s->broken = true;
}

static void access_tokens(simulation *s, uint32_t buffer)
{
    if (s->born[buffer])
        expect_tokens(s, buffer);
    else
        s->first[buffer] = s->moment;
    s->born[buffer] = true;
    s->last[buffer] = s->moment;
}

static bool is_wished(const program *p, uint32_t func, uint32_t instr, uint32_t into, uint32_t from)
{
    const sc_image_buffer *a = &p->image.buffers[into], *b = &p->image.buffers[from];
    const sc_image_instr *at = &p->image.funcs[func].instrs[instr];
    uint32_t twice = 0;
    for (uint32_t i = 0; i < at->arg_count; i++)
        twice += at->args[i].buffer == from ? 1 : 0;
    for (uint32_t w = 0; w < p->wish_count && twice < 2 && a->offset == b->offset && a->bytes == b->bytes; w++) {
        const sc_memory_wish *wish = &p->wishes.data[w];
        if (wish->func == func && wish->instr == instr && wish->into == into && wish->from == from)
            return true;
    }
    return false;
}

static bool writes(const program *p, const sc_image_instr *instr, uint32_t arg)
{
    return sc_memory_access(&p->image, instr, arg) != SC_ACCESS_IN;
}

/* Writes come before reads, the worst order, but for what may be written over. */
static void simulate_instr(simulation *s, uint32_t f, uint32_t index)
{
    const sc_image_instr *instr = &s->p->image.funcs[f].instrs[index];
    for (uint32_t a = 0; a < instr->arg_count; a++)
        access_tokens(s, instr->args[a].buffer);
    for (uint32_t a = 0; a < instr->arg_count; a++) {
        if (writes(s->p, instr, a))
            write_tokens(s, instr->args[a].buffer);
    }
    for (uint32_t a = 0; a < instr->arg_count; a++) {
        bool passed_on = false;
        for (uint32_t o = 0; o < instr->arg_count; o++)
            passed_on = passed_on || is_wished(s->p, f, index, instr->args[o].buffer, instr->args[a].buffer);
        if (!passed_on)
            expect_tokens(s, instr->args[a].buffer);
    }
}

static void simulate_transfer(simulation *s, const sc_image_instr *instr)
{
    for (uint32_t a = 0; a < instr->arg_count; a++)
        access_tokens(s, instr->args[a].buffer);
    for (uint32_t a = 0; a < instr->arg_count; a++) {
        if (writes(s->p, instr, a))
            write_tokens(s, instr->args[a].buffer);
    }
}

static void die(simulation *s, uint32_t buffer, uint64_t last)
{
    if (s->born[buffer] && s->first[buffer] != 0) {
        int64_t size = (s->p->image.buffers[buffer].bytes + SC_IMAGE_ALIGN - 1) / SC_IMAGE_ALIGN * SC_IMAGE_ALIGN;
        s->change[s->first[buffer]] += size;
        s->change[last + 1] -= size;
    }
    s->born[buffer] = false;
    s->first[buffer] = 0;
}

static void simulate_call(simulation *s, uint32_t f)
{
    const sc_image_func *func = &s->p->image.funcs[f];
    bool *flying = calloc((size_t)func->instr_count + 1, sizeof *flying);
    assert_non_null(flying);
    s->moment++;
    for (uint32_t i = 0; i < func->input_count; i++) {
        access_tokens(s, func->inputs[i].buffer);
        write_tokens(s, func->inputs[i].buffer);
    }
    for (uint32_t i = 0; i < func->input_count; i++)
        expect_tokens(s, func->inputs[i].buffer);
    for (uint32_t i = 0; i < func->instr_count; i++) {
        const sc_image_instr *instr = &func->instrs[i];
        s->moment++;
        simulate_instr(s, f, i);
        for (uint32_t j = 0; j < i; j++) {
            if (flying[j])
                simulate_transfer(s, &func->instrs[j]);
        }
        flying[i] = instr->kind == SC_INSTR_COLLECTIVE;
        if (instr->kind == SC_INSTR_FINISH)
            flying[instr->index] = false;
    }
    s->moment++;
    for (uint32_t i = 0; i < func->instr_count; i++) {
        if (flying[i])
            simulate_transfer(s, &func->instrs[i]);
    }
    for (uint32_t o = 0; o < func->output_count; o++)
        access_tokens(s, func->outputs[o].buffer);
    for (uint32_t b = 0; b < s->p->image.buffer_count; b++) {
        if (!s->kept[b])
            die(s, b, s->last[b]);
    }
    free(flying);
}

/* States and outputs are still there; outputs go. */
static void end_sequence(simulation *s)
{
    const sc_image *image = &s->p->image;
    for (uint32_t b = 0; b < image->buffer_count; b++) {
        if (s->kept[b] && s->born[b])
            expect_tokens(s, b);
        if (s->kept[b] && s->first[b] != 0)
            die(s, b, s->moment);
    }
}

/* Whether the plan holds; *out_live: the most bytes alive at once, in place or not. */
static bool simulate(const program *p, int64_t *out_live)
{
    const sc_image *image = &p->image;
    simulation s = {.p = p, .next = 1};
    uint64_t moments = 2;
    for (uint32_t c = 0; c < image->call_count; c++)
        moments += (uint64_t)image->funcs[image->schedule[c].func].instr_count + 2;
    for (uint32_t f = 0; f < image->func_count; f++)
        moments += (uint64_t)image->funcs[f].instr_count + 2;
    s.tokens = calloc((size_t)image->arena_bytes + 1, sizeof *s.tokens);
    s.wanted = calloc((size_t)image->buffer_count + 1, sizeof *s.wanted);
    s.kept = calloc((size_t)image->buffer_count + 1, sizeof *s.kept);
    s.born = calloc((size_t)image->buffer_count + 1, sizeof *s.born);
    s.first = calloc((size_t)image->buffer_count + 1, sizeof *s.first);
    s.last = calloc((size_t)image->buffer_count + 1, sizeof *s.last);
    s.change = calloc(moments + 2, sizeof *s.change);
    bool *called = calloc((size_t)image->func_count + 1, sizeof *called);
    assert_true(s.tokens && s.wanted && s.kept && s.born && s.first && s.last && s.change && called);
    int64_t live = 0;
    for (uint32_t b = 0; b < image->buffer_count; b++) {
        s.wanted[b] = calloc((size_t)image->buffers[b].bytes + 1, sizeof **s.wanted);
        assert_non_null(s.wanted[b]);
        bool state = image->buffers[b].kind < SC_BUFFER_ACT;
        for (uint32_t i = 0; i < image->state_count; i++)
            state = state || image->states[i].buffer == b;
        if (state) {
            s.kept[b] = s.born[b] = true;
            live += (image->buffers[b].bytes + SC_IMAGE_ALIGN - 1) / SC_IMAGE_ALIGN * SC_IMAGE_ALIGN;
            write_tokens(&s, b);
        }
    }
    for (uint32_t f = 0; f < image->func_count; f++) {
        for (uint32_t o = 0; o < image->funcs[f].output_count; o++)
            s.kept[image->funcs[f].outputs[o].buffer] = true;
    }
    for (uint32_t c = 0; c < image->call_count; c++) {
        simulate_call(&s, image->schedule[c].func);
        called[image->schedule[c].func] = true;
    }
    end_sequence(&s);
    for (uint32_t f = 0; f < image->func_count; f++) {
        if (called[f])
            continue;
        simulate_call(&s, f);
        end_sequence(&s);
    }
    *out_live = live;
    for (uint64_t m = 0; m < moments + 2; m++) {
        live += s.change[m];
        *out_live = live > *out_live ? live : *out_live;
    }
    for (uint32_t b = 0; b < image->buffer_count; b++)
        free(s.wanted[b]);
    free(s.tokens), free(s.wanted), free(s.kept), free(s.born), free(s.first), free(s.last), free(s.change), free(called);
    return !s.broken;
}

/* ---- random programs ---- */
static void plans_hold(void **state)
{
    (void)state;
    double ratios = 0, worst = 0;
    uint32_t granted = 0, counted = 0;
    for (uint64_t seed = 0; seed < 4000; seed++) {
        program p;
        sc_memory_plan made, without;
        int64_t live = 0;
        random_program(&p, seed, seed % 10 == 0 ? 150 : 30);
        plan(&p, &made);
        if (!simulate(&p, &live))
            fail_msg("program %llu breaks under its plan", (unsigned long long)seed);
        granted += made.in_place;
        assert_true(made.live_bytes <= live && made.live_bytes <= made.arena_bytes && made.arena_bytes == p.image.arena_bytes);
        if (made.live_bytes > 0) {
            double ratio = (double)made.arena_bytes / (double)made.live_bytes;
            ratios += ratio;
            worst = ratio > worst ? ratio : worst;
            counted++;
        }
        p.wish_count = 0;
        plan(&p, &without);
        assert_true(simulate(&p, &live));
        assert_int_equal(without.live_bytes, live);
        assert_int_equal(without.in_place, 0);
        sc_arena_free(&p.arena);
    }
    print_message("arena / alive at once: mean %.4f, worst %.4f; %u in place\n", ratios / counted, worst, granted);
    assert_true(ratios / counted <= 1.01 && worst <= 1.2);
    assert_true(granted > 2000);
}

/* Of a plan with one buffer elsewhere, the verifier says what the simulation shows, in both directions. */
static void broken_plans_are_found(void **state)
{
    (void)state;
    uint32_t broken = 0, whole = 0;
    for (uint64_t seed = 0; seed < 1500; seed++) {
        program p;
        sc_memory_plan made;
        random_program(&p, seed + 100000, 40);
        plan(&p, &made);
        for (uint32_t i = 0; i < 10 && p.image.buffer_count > 0 && p.image.arena_bytes > 0; i++) {
            int64_t live = 0;
            sc_image_buffer *moved = &p.image.buffers[draw(&p, p.image.buffer_count)];
            int64_t offset = moved->offset, places = (p.image.arena_bytes - moved->bytes) / SC_IMAGE_ALIGN + 1;
            moved->offset = SC_IMAGE_ALIGN * (int64_t)draw(&p, (uint32_t)places);
            bool holds_still = simulate(&p, &live),
                 accepted = sc_memory_plan_verify(&p.arena, &p.image, p.wishes.data, p.wish_count) == NULL;
            if (holds_still != accepted)
                fail_msg("program %llu: the simulation says %d, the verifier %d", (unsigned long long)seed, holds_still, accepted);
            broken += holds_still ? 0 : 1;
            whole += holds_still ? 1 : 0;
            moved->offset = offset;
        }
        sc_arena_free(&p.arena);
    }
    print_message("%u broken, %u still whole\n", broken, whole);
    assert_true(broken > 3000 && whole > 500);
}

/* Free space at the end is as good as any place; what overlaps nothing is never refused. */
static void free_space_is_accepted(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 300; seed++) {
        program p;
        sc_memory_plan made;
        random_program(&p, seed + 200000, 40);
        p.wish_count = 0;
        plan(&p, &made);
        for (uint32_t b = 0; b < p.image.buffer_count; b++) {
            p.image.buffers[b].offset = p.image.arena_bytes / SC_IMAGE_ALIGN * SC_IMAGE_ALIGN;
            p.image.arena_bytes += (p.image.buffers[b].bytes + SC_IMAGE_ALIGN - 1) / SC_IMAGE_ALIGN * SC_IMAGE_ALIGN;
            assert_null(sc_memory_plan_verify(&p.arena, &p.image, p.wishes.data, p.wish_count));
        }
        sc_arena_free(&p.arena);
    }
}

static void plans_are_the_same_each_time(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 50; seed++) {
        program a, b;
        sc_memory_plan first, second;
        random_program(&a, seed, 200);
        random_program(&b, seed, 200);
        plan(&a, &first);
        plan(&b, &second);
        for (uint32_t i = 0; i < a.image.buffer_count; i++)
            assert_int_equal(a.image.buffers[i].offset, b.image.buffers[i].offset);
        sc_arena_free(&a.arena);
        sc_arena_free(&b.arena);
    }
}

static void the_report_adds_up(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 500; seed++) {
        program p;
        sc_memory_plan made;
        random_program(&p, seed + 300000, 60);
        plan(&p, &made);
        int64_t kinds = 0, live = made.state_bytes, last = INT64_MAX;
        for (uint32_t k = 0; k < SC_BUFFER_KINDS; k++)
            kinds += made.kinds[k];
        for (uint32_t i = 0; i < made.live_count; i++) {
            int64_t size = (p.image.buffers[made.live[i]].bytes + SC_IMAGE_ALIGN - 1) / SC_IMAGE_ALIGN * SC_IMAGE_ALIGN;
            assert_true(size <= last && size > 0);
            last = size;
            live += size;
        }
        assert_int_equal(kinds, made.live_bytes);
        assert_int_equal(live, made.live_bytes);
        assert_true((made.live_count == 0) == (made.func == NONE));
        assert_true(made.func == NONE || made.instr == NONE || made.instr < p.image.funcs[made.func].instr_count);
        sc_arena_free(&p.arena);
    }
}

/* ---- small programs by hand ---- */
static void begin_hand(program *p, uint32_t func_count, uint32_t state_count)
{
    begin_program(p, 1);
    p->image.func_count = func_count;
    p->image.funcs = sc_arena_array(&p->arena, func_count, sizeof *p->image.funcs);
    p->image.state_count = state_count;
    p->image.states = sc_arena_array(&p->arena, state_count, sizeof *p->image.states);
    for (uint32_t s = 0; s < state_count; s++)
        p->image.states[s].buffer = new_buffer(p, SC_BUFFER_PARAM, 640);
    for (uint32_t f = 0; f < func_count; f++)
        p->image.funcs[f].name = sc_arena_printf(&p->arena, "f%u", f);
}

/* The kernel reads two (NONE: none) and writes one. */
static void kernel(program *p, uint32_t a, uint32_t b, uint32_t made)
{
    arguments args = {.count = 0};
    if (a != NONE)
        give(&args, a, SC_ACCESS_IN);
    if (b != NONE)
        give(&args, b, SC_ACCESS_IN);
    give(&args, made, SC_ACCESS_OUT);
    emit_kernel(p, &args);
}

static uint32_t collective(program *p, uint32_t source, uint32_t destination)
{
    arguments args = {.count = 0};
    give(&args, source, SC_ACCESS_IN);
    give(&args, destination, SC_ACCESS_OUT);
    *sc_vec_push(&p->arena, &p->collectives) = (sc_image_collective){.kind = SC_IMAGE_ALL_REDUCE, .part_count = 1};
    emit(p, SC_INSTR_COLLECTIVE, p->collectives.count - 1, &args);
    return p->instrs.count - 1;
}

static void finish_collective(program *p, uint32_t instr)
{
    arguments none = {.count = 0};
    emit(p, SC_INSTR_FINISH, instr, &none);
}

static void wish(program *p, uint32_t into, uint32_t from)
{
    *sc_vec_push(&p->arena, &p->wishes) = (sc_memory_wish){p->func, p->instrs.count, into, from};
}

static void end_func(program *p, uint32_t output)
{
    sc_image_func *func = &p->image.funcs[p->func++];
    func->instrs = p->instrs.data;
    func->instr_count = p->instrs.count;
    p->instrs = (instr_list){0};
    if (output != NONE) {
        func->outputs = sc_arena_array(&p->arena, 1, sizeof *func->outputs);
        func->output_count = 1;
        func->outputs[0].buffer = output;
    }
}

static uint32_t act(program *p, int64_t bytes)
{
    return new_buffer(p, SC_BUFFER_ACT, bytes);
}

static void schedule(program *p, const uint32_t *funcs, uint32_t count)
{
    p->image.call_count = count;
    p->image.schedule = sc_arena_array(&p->arena, count, sizeof *p->image.schedule);
    for (uint32_t c = 0; c < count; c++)
        p->image.schedule[c] = (sc_image_call){funcs[c], -1};
}

static void chains_in_place_take_one_buffer(void **state)
{
    (void)state;
    program p;
    sc_memory_plan made;
    begin_hand(&p, 1, 1);
    uint32_t last = act(&p, 640);
    kernel(&p, 0, NONE, last);
    for (int i = 0; i < 50; i++) {
        uint32_t next = act(&p, 640);
        wish(&p, next, last);
        kernel(&p, last, 0, next);
        last = next;
    }
    end_func(&p, last);
    finish_program(&p);
    plan(&p, &made);
    assert_int_equal(made.in_place, 50);
    assert_int_equal(made.arena_bytes, 1280);
    assert_int_equal(made.state_bytes, 640);
    sc_arena_free(&p.arena);
}

/* One granted wish as the reader expects it, and variants of the program that forbid it. */
static void wishes_are_granted_when_they_may(void **state)
{
    (void)state;
    enum { FINE, READ_LATER, STATE, OUTPUT, SIZES, TWICE, WRITTEN_BEFORE, CHANGED, IN_FLIGHT, VARIANTS };
    for (int variant = 0; variant < VARIANTS; variant++) {
        program p;
        sc_memory_plan made;
        begin_hand(&p, 1, 1);
        uint32_t from = variant == STATE ? 0 : act(&p, 640), into = act(&p, variant == SIZES ? 1280 : 640), other = act(&p, 640);
        kernel(&p, 0, NONE, from);
        if (variant == WRITTEN_BEFORE)
            kernel(&p, 0, NONE, into);
        if (variant == IN_FLIGHT)
            collective(&p, from, other);
        wish(&p, into, from);
        if (variant == CHANGED) {
            arguments args = {.count = 0};
            give(&args, from, SC_ACCESS_INOUT);
            give(&args, into, SC_ACCESS_OUT);
            emit_kernel(&p, &args);
        } else {
            kernel(&p, from, variant == TWICE ? from : NONE, into);
        }
        kernel(&p, variant == READ_LATER ? from : NONE, NONE, variant == IN_FLIGHT ? act(&p, 64) : other);
        end_func(&p, variant == OUTPUT ? from : into);
        finish_program(&p);
        plan(&p, &made);
        assert_int_equal(made.in_place, variant == FINE ? 1 : 0);
        if (variant == FINE)
            assert_int_equal(p.image.buffers[into].offset, p.image.buffers[from].offset);
        sc_arena_free(&p.arena);
    }
}

/* Of two that want one place, and of one that wants two, the first wish counts. */
static void contradicting_wishes(void **state)
{
    (void)state;
    program p;
    sc_memory_plan made;
    begin_hand(&p, 1, 1);
    uint32_t a = act(&p, 640), b = act(&p, 640), c = act(&p, 640), d = act(&p, 640);
    arguments args = {.count = 0};
    kernel(&p, 0, NONE, a);
    kernel(&p, 0, NONE, b);
    wish(&p, c, a);
    wish(&p, d, a);
    wish(&p, c, b);
    give(&args, a, SC_ACCESS_IN);
    give(&args, b, SC_ACCESS_IN);
    give(&args, c, SC_ACCESS_OUT);
    give(&args, d, SC_ACCESS_OUT);
    emit_kernel(&p, &args);
    kernel(&p, c, d, act(&p, 64));
    end_func(&p, NONE);
    finish_program(&p);
    plan(&p, &made);
    assert_int_equal(made.in_place, 1);
    assert_int_equal(p.image.buffers[c].offset, p.image.buffers[a].offset);
    assert_int_equal(made.live_bytes, 640 + 3 * 640);
    sc_arena_free(&p.arena);
}

/* While it is in flight, nothing may lie where a collective reads or writes. */
static void collectives_keep_their_buffers(void **state)
{
    (void)state;
    for (int finished = 0; finished < 2; finished++) {
        program p;
        sc_memory_plan made;
        begin_hand(&p, 1, 1);
        uint32_t source = act(&p, 640), destination = act(&p, 640), between = act(&p, 640), after = act(&p, 1280);
        kernel(&p, 0, NONE, source);
        uint32_t instr = collective(&p, source, destination);
        kernel(&p, 0, NONE, between);
        kernel(&p, between, NONE, act(&p, 64));
        if (finished)
            finish_collective(&p, instr);
        kernel(&p, 0, NONE, after);
        end_func(&p, NONE);
        finish_program(&p);
        plan(&p, &made);
        assert_int_equal(made.live_bytes, 640 + (finished ? 3 * 640 + 64 : 2 * 640 + 1280));
        assert_int_equal(made.arena_bytes, made.live_bytes);
        p.image.buffers[between].offset = p.image.buffers[source].offset;
        assert_non_null(sc_memory_plan_verify(&p.arena, &p.image, p.wishes.data, p.wish_count));
        sc_arena_free(&p.arena);
    }
}

/* Temporaries of calls overlap; an output survives what is called after it, also its own function. */
static void outputs_survive_the_schedule(void **state)
{
    (void)state;
    static const uint32_t orders[][4] = {{0, 1, 1, 1}, {1, 0, 0, 0}, {0, 0, 0, 1}, {1, 1, 1, 0}};
    static const int64_t expected[] = {640 + 640 + 1920, 640 + 640 + 640 + 1280, 640 + 640 + 1920, 640 + 640 + 1280};
    for (size_t o = 0; o < sizeof orders / sizeof *orders; o++) {
        program p;
        sc_memory_plan made;
        begin_hand(&p, 2, 1);
        uint32_t large = act(&p, 1280), small = act(&p, 640), output = act(&p, 640), other = act(&p, 1920);
        kernel(&p, 0, NONE, small);
        kernel(&p, small, NONE, large);
        kernel(&p, large, NONE, output);
        end_func(&p, output);
        kernel(&p, 0, NONE, other);
        end_func(&p, NONE);
        schedule(&p, orders[o], 4);
        finish_program(&p);
        plan(&p, &made);
        assert_int_equal(made.live_bytes, expected[o]);
        assert_int_equal(made.arena_bytes, made.live_bytes);
        sc_arena_free(&p.arena);
    }
}

static void expect_refusal(program *p, const char *text)
{
    const char *error = sc_memory_plan_verify(&p->arena, &p->image, p->wishes.data, p->wish_count);
    assert_non_null(error);
    assert_string_equal(error, text);
}

static void messages_say_what_is_wrong(void **state)
{
    (void)state;
    program p;
    sc_memory_plan made;
    begin_hand(&p, 1, 1);
    uint32_t a = act(&p, 640), b = act(&p, 640), c = act(&p, 640);
    kernel(&p, 0, NONE, a);
    uint32_t instr = collective(&p, a, b);
    kernel(&p, 0, NONE, c);
    finish_collective(&p, instr);
    kernel(&p, b, c, act(&p, 64));
    end_func(&p, NONE);
    finish_program(&p);
    plan(&p, &made);
    sc_image_buffer *buffers = p.image.buffers, good = buffers[c];
    buffers[c].offset = buffers[b].offset;
    expect_refusal(&p, "@f0, instruction 3: buffer 2 (b2) is overwritten by buffer 3 (b3) while it is needed");
    buffers[c].offset = buffers[0].offset;
    expect_refusal(&p, "@f0, instruction 2: buffer 0 (b0) is overwritten by buffer 3 (b3) while it is needed");
    buffers[c].offset = good.offset + 32;
    expect_refusal(&p, "buffer 3 (b3) has an offset that is no place for a buffer");
    buffers[c].offset = p.image.arena_bytes;
    expect_refusal(&p, "buffer 3 (b3) reaches beyond the arena");
    buffers[c] = good;
    sc_image_instr *instrs = p.image.funcs[0].instrs;
    instrs[3].index = 2;
    expect_refusal(&p, "@f0, instruction 3: finishes what no instruction before it has started");
    instrs[3].index = 1;
    instrs[2].args[0].buffer = b;
    expect_refusal(&p, "@f0, instruction 2: buffer 2 (b2) is used while a collective in flight writes it");
    instrs[2].args[0].buffer = 0;
    instrs[2].args[1].buffer = a;
    expect_refusal(&p, "@f0, instruction 2: buffer 1 (b1) is written while a collective in flight reads it");
    instrs[2].args[1].buffer = b;
    expect_refusal(&p, "@f0, instruction 2: buffer 2 (b2) is used while a collective in flight writes it");
    instrs[2].args[1].buffer = c;
    instrs[0].args[0].buffer = c;
    expect_refusal(&p, "@f0, instruction 0: buffer 3 (b3) is read, but nothing has written it");
    instrs[0].args[0].buffer = 0;
    instrs[0].args[0].at = 641;
    expect_refusal(&p, "@f0, instruction 0: buffer 0 (b0) ends before its argument begins");
    instrs[0].args[0].at = 0;
    assert_null(sc_memory_plan_verify(&p.arena, &p.image, p.wishes.data, p.wish_count));
    sc_arena_free(&p.arena);
}

static void functions_share_states_only(void **state)
{
    (void)state;
    program p;
    sc_memory_plan made;
    begin_hand(&p, 2, 1);
    uint32_t a = act(&p, 640);
    kernel(&p, 0, NONE, a);
    end_func(&p, NONE);
    kernel(&p, 0, NONE, a);
    end_func(&p, NONE);
    finish_program(&p);
    const char *error = sc_memory_plan_make(&p.arena, &p.image, p.wishes.data, p.wish_count, &made);
    assert_non_null(error);
    assert_string_equal(error, "buffer 1 (b1) is used by @f0 and @f1, but is no state");
    p.image.buffers[0].offset = 0;
    p.image.buffers[1].offset = 640;
    p.image.arena_bytes = 1280;
    expect_refusal(&p, "@f1, instruction 0: buffer 1 (b1) belongs to @f0, and is no state");
    p.image.buffers[1].bytes = (int64_t)1 << 62;
    assert_non_null(sc_memory_plan_make(&p.arena, &p.image, p.wishes.data, p.wish_count, &made));
    sc_arena_free(&p.arena);
}

/* ---- size ---- */
/* A deep network's step: every block keeps some values until its backward, gathers its parameters a block ahead, frees the rest soon. */
static void deep_program(program *p, uint32_t blocks, uint32_t per_block)
{
    begin_hand(p, 1, 1);
    uint32_t *saved = sc_arena_array(&p->arena, (size_t)blocks * per_block, sizeof *saved), last = 0;
    for (uint32_t i = 0; i < blocks * per_block; i++) {
        saved[i] = act(p, 64 * (int64_t)(1 + draw(p, 100)));
        kernel(p, last, i > 0 && chance(p, 30) ? saved[i - 1] : NONE, saved[i]);
        last = saved[i];
        if (i % per_block == 0)
            finish_collective(p, collective(p, 0, act(p, 64 * (int64_t)(1 + draw(p, 1000)))));
    }
    for (uint32_t i = blocks * per_block; i-- > 0;) {
        for (int half = 0; half < 2; half++) {
            uint32_t made = act(p, 64 * (int64_t)(1 + draw(p, 100)));
            kernel(p, last, i % 3 == 0 ? saved[i] : NONE, made);
            last = made;
        }
    }
    end_func(p, last);
    finish_program(p);
}

/* No structure at all: a third of the values are read again at any later time. */
static void wild_program(program *p, uint32_t length)
{
    begin_hand(p, 1, 1);
    for (uint32_t i = 0; i < length; i++) {
        uint32_t made = act(p, chance(p, 50) ? 64 * (int64_t)(1 + draw(p, 64)) : (int64_t)64 << draw(p, 10));
        uint32_t near = made > 6 ? made - 1 - draw(p, 6) : NONE, far = chance(p, 33) && made > 1 ? 1 + draw(p, made - 1) : NONE;
        kernel(p, near, far, made);
    }
    end_func(p, NONE);
    finish_program(p);
}

static double milliseconds(clock_t from)
{
    return 1e3 * (double)(clock() - from) / CLOCKS_PER_SEC;
}

/* Growth with the size, not speed, is what must hold: the bounds leave room for sanitizers on a busy machine. */
static void expect_good_plan(program *p, const char *title, double most)
{
    sc_memory_plan made;
    clock_t from = clock();
    assert_null(sc_memory_plan_make(&p->arena, &p->image, p->wishes.data, p->wish_count, &made));
    double planned = milliseconds(from);
    from = clock();
    assert_null(sc_memory_plan_verify(&p->arena, &p->image, p->wishes.data, p->wish_count));
    double verified = milliseconds(from), ratio = (double)made.arena_bytes / (double)made.live_bytes;
    print_message("%s, %u buffers: planned in %.1f ms, verified in %.1f ms, arena / alive %.4f\n", title, p->image.buffer_count, planned,
                  verified, ratio);
    assert_true(planned < 1000 && verified < 1000);
    assert_true(ratio < most);
    sc_arena_free(&p->arena);
}

static void large_programs(void **state)
{
    (void)state;
    static const uint32_t blocks[] = {12, 126, 1000}, lengths[] = {300, 3000, 10000, 100000};
    program p;
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        deep_program(&p, blocks[i], 33);
        expect_good_plan(&p, "deep", 1.01);
    }
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        wild_program(&p, lengths[i]);
        expect_good_plan(&p, "wild", 1.06);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_hold),
        cmocka_unit_test(broken_plans_are_found),
        cmocka_unit_test(free_space_is_accepted),
        cmocka_unit_test(plans_are_the_same_each_time),
        cmocka_unit_test(the_report_adds_up),
        cmocka_unit_test(chains_in_place_take_one_buffer),
        cmocka_unit_test(wishes_are_granted_when_they_may),
        cmocka_unit_test(contradicting_wishes),
        cmocka_unit_test(collectives_keep_their_buffers),
        cmocka_unit_test(outputs_survive_the_schedule),
        cmocka_unit_test(messages_say_what_is_wrong),
        cmocka_unit_test(functions_share_states_only),
        cmocka_unit_test(large_programs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
