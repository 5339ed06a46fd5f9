/* Copies between a rank's arenas: beside the rank, in the order of their starts, and what a failure
 * leaves. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/cpu/copier.h"

enum { BYTES = 4096, COPIES = 2, OUT = 0, IN = 1, SECOND_IN = 2, TRANSFERS = 3 };

/* A rank with a buffer in host memory, a slot of two copies, and two of the device's; transfers
 * copy the first of those out, and in to either. */
typedef struct copier_case {
    sc_image_buffer buffers[3];
    sc_image_ref refs[TRANSFERS][2];
    sc_image_instr instrs[TRANSFERS];
    sc_image_func func;
    sc_image image;
    char device[2][BYTES];
    void *args[TRANSFERS][2];
    sc_bound bound[TRANSFERS], *funcs[1];
    sc_rank rank;
    sc_copier *copier;
} copier_case;

static shardc_error error;

static void begin(copier_case *c, const char *folder)
{
    static const uint32_t ends[TRANSFERS][2] = {{1, 0}, {0, 1}, {0, 2}};
    *c = (copier_case){.buffers = {{.bytes = BYTES, .copies = COPIES, .host = true},
                                   {.bytes = BYTES, .copies = 1},
                                   {.bytes = BYTES, .copies = 1}}};
    assert_int_equal(sc_host_arena_open(folder, COPIES * BYTES, 0, &c->rank.host, &error),
                     SHARDC_OK);
    for (int t = 0; t < TRANSFERS; t++) {
        for (int e = 0; e < 2; e++) {
            uint32_t buffer = ends[t][e];
            c->refs[t][e].buffer = buffer;
            c->args[t][e] = buffer == 0 ? c->rank.host.memory : c->device[buffer - 1];
        }
        c->instrs[t] = (sc_image_instr){
            .kind = SC_INSTR_TRANSFER, .stream = 2, .arg_count = 2, .args = c->refs[t]};
        c->bound[t] = (sc_bound){.instr = &c->instrs[t], .args = c->args[t]};
    }
    c->func = (sc_image_func){.instr_count = TRANSFERS, .instrs = c->instrs};
    c->image =
        (sc_image){.buffers = c->buffers, .buffer_count = 3, .funcs = &c->func, .func_count = 1};
    c->funcs[0] = c->bound;
    c->rank.image = &c->image;
    c->rank.funcs = c->funcs;
    assert_int_equal(sc_copier_new(&c->rank, &c->copier, &error), SHARDC_OK);
    assert_non_null(c->copier);
}

static void end(copier_case *c)
{
    sc_copier_free(c->copier);
    sc_host_arena_close(&c->rank.host);
}

static void a_rank_without_transfers_has_no_thread(void **state)
{
    copier_case c;
    sc_copier *none;
    (void)state;
    begin(&c, NULL);
    c.func.instr_count = 0;
    assert_int_equal(sc_copier_new(&c.rank, &none, &error), SHARDC_OK);
    assert_null(none);
    sc_copier_drain(none);
    sc_copier_free(none);
    end(&c);
}

/* Nobody waits for the copy: only another thread can make it. */
static void copies_run_beside_the_rank(void **state)
{
    enum { MOST_MS = 60000 };
    char there[BYTES] = "";
    copier_case c;
    (void)state;
    begin(&c, ".");
    memset(c.device[0], 7, BYTES);
    sc_copier_start(c.copier, &c.bound[OUT]);
    for (int ms = 0; ms < MOST_MS && there[BYTES - 1] != 7; ms++) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        assert_int_equal(pread(c.rank.host.file, there, BYTES, 0), BYTES);
    }
    assert_int_equal(there[BYTES - 1], 7);
    assert_int_equal(sc_copier_finish(c.copier, &c.bound[OUT], &error), SHARDC_OK);
    end(&c);
}

/* What one copy writes the next reads, without a wait between. */
static void copies_follow_one_another(void **state)
{
    static const char *const folders[] = {NULL, "."};
    (void)state;
    for (int round = 0; round < 400; round++) {
        const char value = (char)(round % 100 + 1);
        static copier_case c;
        if (round % 200 == 0)
            begin(&c, folders[round / 200]);
        memset(c.device[0], value, BYTES);
        sc_copier_start(c.copier, &c.bound[OUT]);
        sc_copier_start(c.copier, &c.bound[SECOND_IN]);
        sc_copier_start(c.copier, &c.bound[IN]);
        if (round % 3 == 0)
            nanosleep(&(struct timespec){.tv_nsec = 1000L * (round % 50)}, NULL);
        assert_int_equal(sc_copier_finish(c.copier, &c.bound[SECOND_IN], &error), SHARDC_OK);
        assert_int_equal(c.device[1][BYTES - 1], value);
        if (round % 2 == 0)
            assert_int_equal(sc_copier_finish(c.copier, &c.bound[IN], &error), SHARDC_OK);
        else
            sc_copier_drain(c.copier);
        assert_memory_equal(c.device[0], c.device[1], BYTES);
        if (round % 200 == 199)
            end(&c);
    }
}

/* Each micro-batch has its copy of a slot. */
static void a_slot_has_copies(void **state)
{
    static const char *const folders[] = {NULL, "."};
    (void)state;
    for (int f = 0; f < 2; f++) {
        static copier_case c;
        begin(&c, folders[f]);
        for (uint32_t batch = 0; batch < COPIES; batch++) {
            c.bound[OUT].micro_batch = batch;
            memset(c.device[0], (int)batch + 1, BYTES);
            sc_copier_start(c.copier, &c.bound[OUT]);
            assert_int_equal(sc_copier_finish(c.copier, &c.bound[OUT], &error), SHARDC_OK);
        }
        for (uint32_t batch = 0; batch < 2 * COPIES; batch++) {
            c.bound[SECOND_IN].micro_batch = batch;
            c.args[SECOND_IN][0] = NULL; /* the copier finds it */
            sc_copier_start(c.copier, &c.bound[SECOND_IN]);
            assert_int_equal(sc_copier_finish(c.copier, &c.bound[SECOND_IN], &error), SHARDC_OK);
            assert_int_equal(c.device[1][BYTES - 1], batch % COPIES + 1);
        }
        end(&c);
    }
}

/* The error of a copy is that of all that were started before it is forgotten; those do nothing. */
static void a_failure_ends_what_follows(void **state)
{
    copier_case c;
    (void)state;
    begin(&c, ".");
    int whole = c.rank.host.file, broken = open("/dev/null", O_WRONLY);
    c.rank.host.file = broken;
    memset(c.device[1], 5, BYTES);
    sc_copier_start(c.copier, &c.bound[IN]);
    sc_copier_start(c.copier, &c.bound[SECOND_IN]);
    assert_int_equal(sc_copier_finish(c.copier, &c.bound[IN], &error), SHARDC_ERROR_DEVICE);
    assert_non_null(strstr(error.text, "cannot read the file of host memory of rank 0"));
    error.text[0] = 0;
    assert_int_equal(sc_copier_finish(c.copier, &c.bound[SECOND_IN], &error), SHARDC_ERROR_DEVICE);
    assert_non_null(strstr(error.text, "cannot read the file"));
    c.rank.host.file = whole;
    sc_copier_start(c.copier, &c.bound[SECOND_IN]);
    sc_copier_drain(c.copier);
    assert_int_equal(c.device[1][0], 5);
    sc_copier_start(c.copier, &c.bound[SECOND_IN]);
    assert_int_equal(sc_copier_finish(c.copier, &c.bound[SECOND_IN], &error), SHARDC_OK);
    assert_int_equal(c.device[1][0], 0);
    close(broken);
    end(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_without_transfers_has_no_thread),
        cmocka_unit_test(copies_run_beside_the_rank),
        cmocka_unit_test(copies_follow_one_another),
        cmocka_unit_test(a_slot_has_copies),
        cmocka_unit_test(a_failure_ends_what_follows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
