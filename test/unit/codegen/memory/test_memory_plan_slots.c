/* The memory plan of slots: they live while functions are called that may use them, in all copies,
 * and what runs after that takes their place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "codegen/memory/plan.h"
#include "program/lookup.h"
#include "test/unit/helpers/image_case.h"

enum { BYTES = 128, BIG = 1024, COPIES = 3 };

typedef struct plan_case {
    image_case c;
    sc_image *image;
    uint32_t slot, of_forward, of_backward, of_update, update;
} plan_case;

static void call_kernel(image_case *c, uint32_t from, uint32_t to)
{
    int64_t bytes[] = {c->buffers.data[from].bytes, c->buffers.data[to].bytes};
    uint32_t kernel = image_kernel(c, "k", "io", bytes, 0, NULL);
    image_instr(c, SC_INSTR_KERNEL, kernel, 2, (uint32_t[]){from, to});
}

/* F: x -> act -> slot; B: slot -> act; update: state -> a large act. */
static void begin(plan_case *p)
{
    image_case *c = &p->c;
    image_begin(c, 2, 1);
    c->image.pipeline = (sc_image_pipeline){2, 0, 0};
    uint32_t x = image_input(c, "x", "i64[B=16]", -1),
             w = image_state(c, SC_STATE_PARAM, "w", "i64[W=16]", SC_INIT_ZEROS, 0, 0);
    p->slot = image_buffer(c, SC_BUFFER_SLOT, BYTES, "kept");
    c->buffers.data[p->slot].copies = COPIES;
    p->of_forward = image_buffer(c, SC_BUFFER_ACT, BYTES, "f");
    p->of_backward = image_buffer(c, SC_BUFFER_ACT, BYTES, "b");
    p->of_update = image_buffer(c, SC_BUFFER_ACT, BIG, "u");
    call_kernel(c, x, p->of_forward);
    call_kernel(c, p->of_forward, p->slot);
    uint32_t forward = image_func(c, "F");
    call_kernel(c, p->slot, p->of_backward);
    uint32_t backward = image_func(c, "B");
    call_kernel(c, w, p->of_update);
    p->update = image_func(c, "update");
    for (int32_t i = 0; i < 6; i++) {
        image_call(c, forward, i);
        if (i >= COPIES - 1)
            image_call(c, backward, i - (COPIES - 1));
    }
    for (int32_t i = 6 - (COPIES - 1); i < 6; i++)
        image_call(c, backward, i);
    image_call(c, p->update, -1);
    p->image = image_end(c);
}

static bool overlap(const plan_case *p, uint32_t a, uint32_t b)
{
    const sc_image_buffer *x = &p->image->buffers[a], *y = &p->image->buffers[b];
    return x->offset < y->offset + sc_image_buffer_extent(y) &&
           y->offset < x->offset + sc_image_buffer_extent(x);
}

static void slots_live_from_call_to_call(void **state)
{
    (void)state;
    plan_case p;
    sc_memory_plan plan;
    begin(&p);
    assert_null(sc_memory_plan_make(&p.c.arena, p.image, NULL, 0, &plan));
    assert_null(sc_memory_plan_verify(&p.c.arena, p.image, NULL, 0));
    assert_false(overlap(&p, p.slot, p.of_forward));
    assert_false(overlap(&p, p.slot, p.of_backward));
    /* the update needs most, and nothing is left by then */
    assert_true(overlap(&p, p.slot, p.of_update));
    assert_int_equal(p.image->arena_bytes, BYTES + BIG);
    sc_arena_free(&p.c.arena);
}

/* Every place within the slot's copies is found to be taken. */
static void whoever_takes_a_copy_is_found(void **state)
{
    (void)state;
    for (int64_t at = 0; at < COPIES * BYTES; at += SC_IMAGE_ALIGN) {
        plan_case p;
        sc_memory_plan plan;
        begin(&p);
        assert_null(sc_memory_plan_make(&p.c.arena, p.image, NULL, 0, &plan));
        p.image->buffers[p.of_backward].offset = p.image->buffers[p.slot].offset + at;
        const char *fault = sc_memory_plan_verify(&p.c.arena, p.image, NULL, 0);
        assert_non_null(fault);
        assert_non_null(strstr(fault, "is overwritten by"));
        sc_arena_free(&p.c.arena);
    }
}

/* What the last call returns of a slot is there at the end. */
static void a_returned_slot_lasts(void **state)
{
    (void)state;
    plan_case p;
    sc_memory_plan plan;
    begin(&p);
    sc_image_value output = {.name = "kept",
                             .tensor = image_tensor(&p.c, "i64[B=16]"),
                             .buffer = p.slot,
                             .batch_dim = -1};
    p.image->funcs[p.update].outputs = &output;
    p.image->funcs[p.update].output_count = 1;
    assert_null(sc_memory_plan_make(&p.c.arena, p.image, NULL, 0, &plan));
    assert_null(sc_memory_plan_verify(&p.c.arena, p.image, NULL, 0));
    assert_false(overlap(&p, p.slot, p.of_update));
    sc_arena_free(&p.c.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_live_from_call_to_call),
        cmocka_unit_test(whoever_takes_a_copy_is_found),
        cmocka_unit_test(a_returned_slot_lasts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
