/* Small programs by hand get the plan that a reader expects, what breaks a plan is named, and large
 * programs are planned in time and in hardly more than what is alive at once. */
#include <time.h>

#include "test/unit/helpers/memory_case.h"

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

/* The kernel reads two (SC_NONE: none) and writes one. */
static void kernel(program *p, uint32_t a, uint32_t b, uint32_t made)
{
    arguments args = {.count = 0};
    if (a != SC_NONE)
        give(&args, a, SC_ACCESS_IN);
    if (b != SC_NONE)
        give(&args, b, SC_ACCESS_IN);
    give(&args, made, SC_ACCESS_OUT);
    emit_kernel(p, &args);
}

static uint32_t collective(program *p, uint32_t source, uint32_t destination)
{
    arguments args = {.count = 0};
    give(&args, source, SC_ACCESS_IN);
    give(&args, destination, SC_ACCESS_OUT);
    *sc_vec_push(&p->arena, &p->collectives) =
        (sc_image_collective){.kind = SC_IMAGE_ALL_REDUCE, .part_count = 1};
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
    if (output != SC_NONE) {
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
    kernel(&p, 0, SC_NONE, last);
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
    enum {
        FINE,
        READ_LATER,
        STATE,
        OUTPUT,
        SIZES,
        TWICE,
        WRITTEN_BEFORE,
        CHANGED,
        IN_FLIGHT,
        VARIANTS
    };
    for (int variant = 0; variant < VARIANTS; variant++) {
        program p;
        sc_memory_plan made;
        begin_hand(&p, 1, 1);
        uint32_t from = variant == STATE ? 0 : act(&p, 640),
                 into = act(&p, variant == SIZES ? 1280 : 640), other = act(&p, 640);
        kernel(&p, 0, SC_NONE, from);
        if (variant == WRITTEN_BEFORE)
            kernel(&p, 0, SC_NONE, into);
        if (variant == IN_FLIGHT)
            collective(&p, from, other);
        wish(&p, into, from);
        if (variant == CHANGED) {
            arguments args = {.count = 0};
            give(&args, from, SC_ACCESS_INOUT);
            give(&args, into, SC_ACCESS_OUT);
            emit_kernel(&p, &args);
        } else {
            kernel(&p, from, variant == TWICE ? from : SC_NONE, into);
        }
        kernel(&p, variant == READ_LATER ? from : SC_NONE, SC_NONE,
               variant == IN_FLIGHT ? act(&p, 64) : other);
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
    kernel(&p, 0, SC_NONE, a);
    kernel(&p, 0, SC_NONE, b);
    wish(&p, c, a);
    wish(&p, d, a);
    wish(&p, c, b);
    give(&args, a, SC_ACCESS_IN);
    give(&args, b, SC_ACCESS_IN);
    give(&args, c, SC_ACCESS_OUT);
    give(&args, d, SC_ACCESS_OUT);
    emit_kernel(&p, &args);
    kernel(&p, c, d, act(&p, 64));
    end_func(&p, SC_NONE);
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
        uint32_t source = act(&p, 640), destination = act(&p, 640), between = act(&p, 640),
                 after = act(&p, 1280);
        kernel(&p, 0, SC_NONE, source);
        uint32_t instr = collective(&p, source, destination);
        kernel(&p, 0, SC_NONE, between);
        kernel(&p, between, SC_NONE, act(&p, 64));
        if (finished)
            finish_collective(&p, instr);
        kernel(&p, 0, SC_NONE, after);
        end_func(&p, SC_NONE);
        finish_program(&p);
        plan(&p, &made);
        assert_int_equal(made.live_bytes, 640 + (finished ? 3 * 640 + 64 : 2 * 640 + 1280));
        assert_int_equal(made.arena_bytes, made.live_bytes);
        p.image.buffers[between].offset = p.image.buffers[source].offset;
        assert_non_null(sc_memory_plan_verify(&p.arena, &p.image, p.wishes.data, p.wish_count));
        sc_arena_free(&p.arena);
    }
}

/* Temporaries of calls overlap; an output survives what is called after it, also its own function.
 */
static void outputs_survive_the_schedule(void **state)
{
    (void)state;
    static const uint32_t orders[][4] = {{0, 1, 1, 1}, {1, 0, 0, 0}, {0, 0, 0, 1}, {1, 1, 1, 0}};
    static const int64_t expected[] = {640 + 640 + 1920, 640 + 640 + 640 + 1280, 640 + 640 + 1920,
                                       640 + 640 + 1280};
    for (size_t o = 0; o < sizeof orders / sizeof *orders; o++) {
        program p;
        sc_memory_plan made;
        begin_hand(&p, 2, 1);
        uint32_t large = act(&p, 1280), small = act(&p, 640), output = act(&p, 640),
                 other = act(&p, 1920);
        kernel(&p, 0, SC_NONE, small);
        kernel(&p, small, SC_NONE, large);
        kernel(&p, large, SC_NONE, output);
        end_func(&p, output);
        kernel(&p, 0, SC_NONE, other);
        end_func(&p, SC_NONE);
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
    kernel(&p, 0, SC_NONE, a);
    uint32_t instr = collective(&p, a, b);
    kernel(&p, 0, SC_NONE, c);
    finish_collective(&p, instr);
    kernel(&p, b, c, act(&p, 64));
    end_func(&p, SC_NONE);
    finish_program(&p);
    plan(&p, &made);
    sc_image_buffer *buffers = p.image.buffers, good = buffers[c];
    buffers[c].offset = buffers[b].offset;
    expect_refusal(
        &p, "@f0, instruction 3: buffer 2 (b2) is overwritten by buffer 3 (b3) while it is needed");
    buffers[c].offset = buffers[0].offset;
    expect_refusal(
        &p, "@f0, instruction 2: buffer 0 (b0) is overwritten by buffer 3 (b3) while it is needed");
    buffers[c].offset = good.offset + 32;
    expect_refusal(&p, "buffer 3 (b3) has an offset at which no buffer can be");
    buffers[c].offset = p.image.arena_bytes;
    expect_refusal(&p, "buffer 3 (b3) reaches beyond the arena");
    buffers[c] = good;
    sc_image_instr *instrs = p.image.funcs[0].instrs;
    instrs[3].index = 2;
    expect_refusal(&p, "@f0, instruction 3: finishes what no instruction before it has started");
    instrs[3].index = 1;
    instrs[2].args[0].buffer = b;
    expect_refusal(
        &p, "@f0, instruction 2: buffer 2 (b2) is used while a collective in flight writes it");
    instrs[2].args[0].buffer = 0;
    instrs[2].args[1].buffer = a;
    expect_refusal(
        &p, "@f0, instruction 2: buffer 1 (b1) is written while a collective in flight reads it");
    instrs[2].args[1].buffer = b;
    expect_refusal(
        &p, "@f0, instruction 2: buffer 2 (b2) is used while a collective in flight writes it");
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
    kernel(&p, 0, SC_NONE, a);
    end_func(&p, SC_NONE);
    kernel(&p, 0, SC_NONE, a);
    end_func(&p, SC_NONE);
    finish_program(&p);
    const char *error = sc_memory_plan_make(&p.arena, &p.image, p.wishes.data, p.wish_count, &made);
    assert_non_null(error);
    assert_string_equal(error, "buffer 1 (b1) is used by @f0 and @f1, but is not a state");
    p.image.buffers[0].offset = 0;
    p.image.buffers[1].offset = 640;
    p.image.arena_bytes = 1280;
    expect_refusal(&p, "@f1, instruction 0: buffer 1 (b1) belongs to @f0 and is not a state");
    p.image.buffers[1].bytes = (int64_t)1 << 62;
    assert_non_null(sc_memory_plan_make(&p.arena, &p.image, p.wishes.data, p.wish_count, &made));
    sc_arena_free(&p.arena);
}

/* ---- size ---- */
/* A deep network's step: every block keeps some values until its backward, gathers its parameters a
 * block ahead, frees the rest soon. */
static void deep_program(program *p, uint32_t blocks, uint32_t per_block)
{
    begin_hand(p, 1, 1);
    uint32_t *saved = sc_arena_array(&p->arena, (size_t)blocks * per_block, sizeof *saved),
             last = 0;
    for (uint32_t i = 0; i < blocks * per_block; i++) {
        saved[i] = act(p, 64 * (int64_t)(1 + draw(p, 100)));
        kernel(p, last, i > 0 && chance(p, 30) ? saved[i - 1] : SC_NONE, saved[i]);
        last = saved[i];
        if (i % per_block == 0)
            finish_collective(p, collective(p, 0, act(p, 64 * (int64_t)(1 + draw(p, 1000)))));
    }
    for (uint32_t i = blocks * per_block; i-- > 0;) {
        for (int half = 0; half < 2; half++) {
            uint32_t made = act(p, 64 * (int64_t)(1 + draw(p, 100)));
            kernel(p, last, i % 3 == 0 ? saved[i] : SC_NONE, made);
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
        uint32_t made =
            act(p, chance(p, 50) ? 64 * (int64_t)(1 + draw(p, 64)) : (int64_t)64 << draw(p, 10));
        uint32_t near = made > 6 ? made - 1 - draw(p, 6) : SC_NONE,
                 far = chance(p, 33) && made > 1 ? 1 + draw(p, made - 1) : SC_NONE;
        kernel(p, near, far, made);
    }
    end_func(p, SC_NONE);
    finish_program(p);
}

static double milliseconds(clock_t from)
{
    return 1e3 * (double)(clock() - from) / CLOCKS_PER_SEC;
}

/* Growth with the size, not speed, is what must hold: the bounds leave room for sanitizers on a
 * busy machine. */
static void expect_good_plan(program *p, const char *title, double most)
{
    sc_memory_plan made;
    clock_t from = clock();
    assert_null(sc_memory_plan_make(&p->arena, &p->image, p->wishes.data, p->wish_count, &made));
    double planned = milliseconds(from);
    from = clock();
    assert_null(sc_memory_plan_verify(&p->arena, &p->image, p->wishes.data, p->wish_count));
    double verified = milliseconds(from),
           ratio = (double)made.arena_bytes / (double)made.live_bytes;
    print_message("%s, %u buffers: planned in %.1f ms, verified in %.1f ms, arena / alive %.4f\n",
                  title, p->image.buffer_count, planned, verified, ratio);
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
