/* Slots and room: what a stage keeps from call to call, a copy a micro-batch, and how many messages
 * it sends ahead. A stage that keeps x for its backward pass and sends it:
 *
 *   F: x -> slot, room, sent      B: slot -> out      F 0, F 1, B 0, B 1, .. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "program/bytes.h"
#include "program/lookup.h"
#include "test/unit/helpers/image_case.h"

enum { BYTES = 24, BATCHES = 4 };

typedef struct slots_case {
    image_case c;
    uint32_t slot, out, forward, backward;
} slots_case;

static void begin(slots_case *s, uint32_t copies, uint32_t slots)
{
    image_case *c = &s->c;
    image_begin(c, 2, 1);
    c->image.pipeline = (sc_image_pipeline){2, 0, 0};
    uint32_t x = image_input(c, "x", "i64[B=3]", -1);
    s->slot = image_buffer(c, SC_BUFFER_SLOT, BYTES, "kept");
    c->buffers.data[s->slot].copies = copies;
    c->image.arena_bytes += (int64_t)(copies - 1) * SC_IMAGE_ALIGN;
    s->out = image_buffer(c, SC_BUFFER_ACT, BYTES, "out");
    uint32_t boundary = image_boundary(c, false, 1, 0, slots),
             message = image_message(c, boundary, SC_DTYPE_i64, 3),
             kernel = image_kernel(c, "k", "io", (int64_t[]){BYTES, BYTES}, 0, NULL);
    image_instr(c, SC_INSTR_ROOM, boundary, 1, (uint32_t[]){s->slot});
    image_instr(c, SC_INSTR_KERNEL, kernel, 2, (uint32_t[]){x, s->slot});
    image_instr(c, SC_INSTR_MESSAGE, message, 1, (uint32_t[]){s->slot});
    s->forward = image_func(c, "F");
    image_instr(c, SC_INSTR_KERNEL, kernel, 2, (uint32_t[]){s->slot, s->out});
    s->backward = image_func(c, "B");
}

/* `ahead` micro-batches are under way at a time. */
static void schedule(slots_case *s, uint32_t ahead)
{
    for (uint32_t i = 0; i < BATCHES + ahead; i++) {
        if (i < BATCHES)
            image_call(&s->c, s->forward, (int32_t)i);
        if (i + 1 >= ahead && i + 1 - ahead < BATCHES)
            image_call(&s->c, s->backward, (int32_t)(i + 1 - ahead));
    }
}

static const char *check(slots_case *s)
{
    return sc_image_check(image_end(&s->c), &s->c.arena);
}

static void expect(slots_case *s, const char *wanted)
{
    const char *fault = check(s);
    if ((fault == NULL) != (wanted == NULL) ||
        (fault != NULL && wanted != NULL && strstr(fault, wanted) == NULL))
        fail_msg("'%s', not '%s'", fault == NULL ? "nothing" : fault,
                 wanted == NULL ? "nothing" : wanted);
    sc_arena_free(&s->c.arena);
}

/* As many copies as micro-batches under way, and one more for what is still being sent. */
static void each_micro_batch_has_its_copy(void **state)
{
    (void)state;
    for (uint32_t ahead = 1; ahead <= BATCHES; ahead++) {
        for (uint32_t copies = 1; copies <= BATCHES; copies++) {
            slots_case s;
            begin(&s, copies, 1);
            schedule(&s, ahead);
            expect(&s, copies >= ahead ? NULL : "it reads slot kept for micro-batch 0");
        }
    }
}

static void a_copy_in_flight_is_not_written(void **state)
{
    (void)state;
    slots_case s;
    begin(&s, 1, 2); /* room for two messages, of which the second overwrites the first */
    schedule(&s, 1);
    expect(&s, "where the message of layers[0] is in flight");
    begin(&s, 2, 2);
    schedule(&s, 1);
    expect(&s, NULL);
    begin(&s, 2, 3);
    schedule(&s, 2);
    expect(&s, "where the message of layers[0] is in flight");
}

static void without_room_no_slot_is_free(void **state)
{
    (void)state;
    slots_case s;
    begin(&s, 2, 1);
    sc_image_func *forward = &s.c.funcs.data[s.forward];
    forward->instrs++;
    forward->instr_count--;
    schedule(&s, 1);
    expect(&s, "boundary 0 has 1 slots, all in flight");
}

static void a_slot_is_written_before_it_is_read(void **state)
{
    (void)state;
    slots_case s;
    begin(&s, 2, 1);
    image_call(&s.c, s.backward, 0);
    schedule(&s, 1);
    expect(&s, "it reads slot kept for micro-batch 0, which holds nothing");
}

static void copies_are_of_slots(void **state)
{
    (void)state;
    slots_case s;
    begin(&s, 2, 1);
    s.c.buffers.data[s.out].copies = 2;
    expect(&s, "2 copies of a buffer of kind act");
    begin(&s, 2, 1);
    s.c.buffers.data[s.slot].copies = 0;
    expect(&s, "0 copies of a buffer of kind slot");
    begin(&s, 2, 1);
    s.c.buffers.data[s.slot].copies = 1000;
    expect(&s, "24 bytes at 64, in an arena of");
    begin(&s, 2, 1);
    s.c.boundaries.data[0].is_receive = true;
    expect(&s, "it waits for room on boundary 0, which receives");
}

/* Whatever copy a call uses, nothing else may be in its place. */
static void copies_lie_apart(void **state)
{
    (void)state;
    slots_case s;
    begin(&s, 2, 1);
    s.c.buffers.data[s.out].offset = s.c.buffers.data[s.slot].offset + SC_IMAGE_ALIGN;
    schedule(&s, 1);
    expect(&s, "arguments 0 and 1 overlap");
}

static void places_of_copies(void **state)
{
    (void)state;
    const sc_image_buffer slot = {
        .kind = SC_BUFFER_SLOT, .bytes = 70, .offset = 0, .copies = 3, .name = ""};
    assert_int_equal(sc_image_buffer_step(&slot), 128);
    assert_int_equal(sc_image_buffer_extent(&slot), 2 * 128 + 70);
    for (int32_t i = 0; i < 7; i++)
        assert_int_equal(sc_image_copy_at(&slot, i), i % 3 * 128);
    assert_int_equal(sc_image_copy_at(&slot, -1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_micro_batch_has_its_copy),
        cmocka_unit_test(a_copy_in_flight_is_not_written),
        cmocka_unit_test(without_room_no_slot_is_free),
        cmocka_unit_test(a_slot_is_written_before_it_is_read),
        cmocka_unit_test(copies_are_of_slots),
        cmocka_unit_test(copies_lie_apart),
        cmocka_unit_test(places_of_copies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
