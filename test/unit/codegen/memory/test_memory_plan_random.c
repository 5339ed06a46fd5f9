/* Random programs get a plan that the verifier and a simulation of every byte of the arena both
 * accept; broken plans are refused by both; the arena is hardly larger than what is alive at once.
 */
#include "test/unit/helpers/memory_case.h"

/* ---- making programs ---- */
static int64_t random_bytes(program *p)
{
    if (p->few_sizes)
        return 64 * (int64_t)(1 + draw(p, 3));
    uint32_t form = draw(p, 20);
    if (form == 0)
        return 0;
    return form < 10 ? 1 + (int64_t)draw(p, 900) : (int64_t)1 << draw(p, 10);
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

/* One that may be accessed now, mostly a recent one; SC_NONE if there is none. */
static uint32_t pick(program *p, bool write)
{
    for (uint32_t tries = 0; tries < 10 && p->known.count > 0; tries++) {
        uint32_t back = chance(p, 60) ? draw(p, p->known.count < 4 ? p->known.count : 4)
                                      : draw(p, p->known.count);
        uint32_t buffer = p->known.data[p->known.count - 1 - back];
        if (!holds(&p->moved[1], buffer) && !(write && holds(&p->moved[0], buffer)))
            return buffer;
    }
    return SC_NONE;
}

static bool has_argument(const arguments *args, uint32_t buffer)
{
    for (uint32_t a = 0; a < args->count; a++) {
        if (args->refs[a].buffer == buffer)
            return true;
    }
    return false;
}

/* Reads some, changes some, makes some, and wishes for places. */
static void random_kernel(program *p)
{
    arguments args = {.count = 0};
    uint32_t reads = draw(p, 4), made[2], made_count = 1 + draw(p, 2), read_to = 0;
    for (uint32_t i = 0; i < reads; i++) {
        uint32_t buffer = pick(p, false);
        if (buffer != SC_NONE && (chance(p, 10) || !has_argument(&args, buffer)))
            give(&args, buffer, SC_ACCESS_IN);
    }
    read_to = args.count;
    for (uint32_t i = 0; i < 2 && chance(p, 15); i++) {
        uint32_t buffer = pick(p, true);
        if (buffer != SC_NONE && !has_argument(&args, buffer))
            give(&args, buffer, chance(p, 50) ? SC_ACCESS_INOUT : SC_ACCESS_OUT);
    }
    for (uint32_t i = 0; i < made_count; i++) {
        made[i] =
            new_buffer(p, chance(p, 90) ? SC_BUFFER_ACT : SC_BUFFER_WORKSPACE, random_bytes(p));
        give(&args, made[i], SC_ACCESS_OUT);
    }
    for (uint32_t i = 0; i < made_count; i++) {
        for (uint32_t a = 0; a < read_to && chance(p, 70); a++)
            *sc_vec_push(&p->arena, &p->wishes) =
                (sc_memory_wish){p->func, p->instrs.count, made[i], args.refs[a].buffer};
    }
    emit_kernel(p, &args);
    for (uint32_t i = 0; i < made_count; i++)
        add(p, &p->known, made[i]);
}

static void random_gemm(program *p)
{
    arguments args = {.count = 0};
    sc_gemm gemm = {.accumulate = chance(p, 30), .step_count = draw(p, 3)};
    uint32_t a = pick(p, false), b = pick(p, false), c = gemm.accumulate ? pick(p, true) : SC_NONE,
             made = SC_NONE, stored = SC_NONE;
    if (a == SC_NONE || b == SC_NONE || (gemm.accumulate && (c == SC_NONE || c == a || c == b)))
        return;
    if (c == SC_NONE)
        c = made = new_buffer(p, SC_BUFFER_ACT, random_bytes(p));
    give(&args, a, SC_ACCESS_IN);
    give(&args, b, SC_ACCESS_IN);
    give(&args, c, gemm.accumulate ? SC_ACCESS_INOUT : SC_ACCESS_OUT);
    for (uint32_t s = 0; s < gemm.step_count; s++) {
        uint32_t operand = pick(p, false);
        gemm.steps[s].kind =
            operand == SC_NONE || operand == c || chance(p, 50) ? SC_GEMM_RELU : SC_GEMM_ADD;
        if (gemm.steps[s].kind == SC_GEMM_ADD)
            give(&args, operand, SC_ACCESS_IN);
        else if (stored == SC_NONE && chance(p, 50)) {
            gemm.steps[s].kind = SC_GEMM_STORE;
            stored = new_buffer(p, SC_BUFFER_ACT, random_bytes(p));
            give(&args, stored, SC_ACCESS_OUT);
        }
    }
    if (chance(p, 30))
        give(&args, new_buffer(p, SC_BUFFER_WORKSPACE, random_bytes(p)), SC_ACCESS_OUT);
    *sc_vec_push(&p->arena, &p->gemms) = gemm;
    emit(p, SC_INSTR_GEMM, p->gemms.count - 1, &args);
    if (made != SC_NONE)
        add(p, &p->known, made);
    if (stored != SC_NONE)
        add(p, &p->known, stored);
}

static void random_collective(program *p)
{
    arguments args = {.count = 0};
    uint32_t parts = 1 + draw(p, 3), form = draw(p, 10), made[3];
    sc_image_collective_kind kind = form == 0   ? SC_IMAGE_SEND
                                    : form == 1 ? SC_IMAGE_RECV
                                                : SC_IMAGE_ALL_REDUCE;
    for (uint32_t i = 0; i < parts; i++) {
        uint32_t source = pick(p, chance(p, 30)), taken = SC_NONE;
        made[i] = SC_NONE;
        if (kind != SC_IMAGE_RECV && source == SC_NONE)
            return;
        if (kind != SC_IMAGE_RECV)
            give(&args, source, SC_ACCESS_IN);
        if (kind == SC_IMAGE_SEND)
            continue;
        if (chance(p, 20) && kind != SC_IMAGE_RECV && !holds(&p->moved[0], source) &&
            !holds(&p->moved[1], source))
            taken = source; /* in place */
        else
            taken = made[i] = new_buffer(p, SC_BUFFER_COMM, random_bytes(p));
        give(&args, taken, SC_ACCESS_OUT);
    }
    *sc_vec_push(&p->arena, &p->collectives) =
        (sc_image_collective){.kind = kind, .part_count = parts};
    *sc_vec_push(&p->arena, &p->flying) = p->instrs.count;
    for (uint32_t a = 0; a < args.count; a++)
        *sc_vec_push(&p->arena, &p->moved[args.access[a] == SC_ACCESS_OUT]) = args.refs[a].buffer;
    emit(p, SC_INSTR_COLLECTIVE, p->collectives.count - 1, &args);
    for (uint32_t i = 0; i < parts; i++) {
        if (made[i] != SC_NONE)
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
    if (source == SC_NONE)
        return;
    uint32_t made = new_buffer(p, SC_BUFFER_ACT, p->buffers.data[source].bytes);
    give(&args, source, SC_ACCESS_IN);
    give(&args, made, SC_ACCESS_OUT);
    if (chance(p, 30))
        *sc_vec_push(&p->arena, &p->wishes) =
            (sc_memory_wish){p->func, p->instrs.count, made, source};
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

static void random_program(program *p, uint64_t seed, uint32_t most)
{
    begin_program(p, seed);
    p->few_sizes = chance(p, 40);
    p->image.state_count = draw(p, 5);
    p->image.states = sc_arena_array(&p->arena, p->image.state_count, sizeof *p->image.states);
    /* some kinds say it, some only the list of states */
    for (uint32_t s = 0; s < p->image.state_count; s++)
        p->image.states[s].buffer =
            new_buffer(p, chance(p, 80) ? SC_BUFFER_PARAM : SC_BUFFER_ACT, random_bytes(p));
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

/* ---- every byte ---- */
/* The arena holds a token a byte; of every buffer it is known which tokens it should find. Whoever
 * accesses a buffer finds all of it as it was left, and a write leaves new tokens. A collective in
 * flight reads and writes all the time. */
typedef struct simulation {
    const program *p;
    uint32_t *tokens, **wanted, next;
    bool *kept, *born; /* kept: states and outputs; born: holds something now */
    bool broken;
    /* of the accesses to a buffer since it was born; 0: none */
    uint64_t moment, moments, *first, *last;
    int64_t *change; /* by moment: bytes alive from then on */
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
    if (b->bytes > 0 &&
        memcmp(&s->tokens[b->offset], s->wanted[buffer], (size_t)b->bytes * sizeof *s->tokens) != 0)
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
    for (uint32_t w = 0;
         w < p->wish_count && twice < 2 && a->offset == b->offset && a->bytes == b->bytes; w++) {
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
            passed_on = passed_on ||
                        is_wished(s->p, f, index, instr->args[o].buffer, instr->args[a].buffer);
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
        int64_t size = (s->p->image.buffers[buffer].bytes + SC_IMAGE_ALIGN - 1) / SC_IMAGE_ALIGN *
                       SC_IMAGE_ALIGN;
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
    assert_true(s.tokens && s.wanted && s.kept && s.born && s.first && s.last && s.change &&
                called);
    int64_t live = 0;
    for (uint32_t b = 0; b < image->buffer_count; b++) {
        s.wanted[b] = calloc((size_t)image->buffers[b].bytes + 1, sizeof **s.wanted);
        assert_non_null(s.wanted[b]);
        bool state = image->buffers[b].kind < SC_BUFFER_ACT;
        for (uint32_t i = 0; i < image->state_count; i++)
            state = state || image->states[i].buffer == b;
        if (state) {
            s.kept[b] = s.born[b] = true;
            live +=
                (image->buffers[b].bytes + SC_IMAGE_ALIGN - 1) / SC_IMAGE_ALIGN * SC_IMAGE_ALIGN;
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
    free(s.tokens), free(s.wanted), free(s.kept), free(s.born), free(s.first), free(s.last),
        free(s.change), free(called);
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
        assert_true(made.live_bytes <= live && made.live_bytes <= made.arena_bytes &&
                    made.arena_bytes == p.image.arena_bytes);
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
    print_message("arena / alive at once: mean %.4f, worst %.4f; %u in place\n", ratios / counted,
                  worst, granted);
    assert_true(ratios / counted <= 1.01 && worst <= 1.2);
    assert_true(granted > 2000);
}

/* Of a plan with one buffer elsewhere, the verifier says what the simulation shows, in both
 * directions. */
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
            int64_t offset = moved->offset,
                    places = (p.image.arena_bytes - moved->bytes) / SC_IMAGE_ALIGN + 1;
            moved->offset = SC_IMAGE_ALIGN * (int64_t)draw(&p, (uint32_t)places);
            bool holds_still = simulate(&p, &live),
                 accepted =
                     sc_memory_plan_verify(&p.arena, &p.image, p.wishes.data, p.wish_count) == NULL;
            if (holds_still != accepted)
                fail_msg("program %llu: the simulation says %d, the verifier %d",
                         (unsigned long long)seed, holds_still, accepted);
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
            p.image.arena_bytes +=
                (p.image.buffers[b].bytes + SC_IMAGE_ALIGN - 1) / SC_IMAGE_ALIGN * SC_IMAGE_ALIGN;
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
            int64_t size = (p.image.buffers[made.live[i]].bytes + SC_IMAGE_ALIGN - 1) /
                           SC_IMAGE_ALIGN * SC_IMAGE_ALIGN;
            assert_true(size <= last && size > 0);
            last = size;
            live += size;
        }
        assert_int_equal(kinds, made.live_bytes);
        assert_int_equal(live, made.live_bytes);
        assert_true((made.live_count == 0) == (made.func == SC_NONE));
        assert_true(made.func == SC_NONE || made.instr == SC_NONE ||
                    made.instr < p.image.funcs[made.func].instr_count);
        sc_arena_free(&p.arena);
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
