/* What the interpreter of PTX reports: each text is wrong in one way, which the report names, with
 * the line and the thread. */
#include "test/unit/helpers/ptx_case.h"

typedef struct fault {
    const char *name, *text, *wanted;
    ptx_launch how;
} fault;

#define BODY(text) PTX_HEAD PTX_BEGIN text "st.global.u32 [%out], %t;\n" PTX_END
/* A thread's own word of shared memory. */
#define PLACE "mov.u32 %r2, memory; shl.b32 %r3, %t, 2; add.u32 %r4, %r2, %r3;\n"
/* Sixteen bytes for each thread, from the same place for all. */
#define COPY                                                                                       \
    "mov.u32 %r2, memory; shl.b32 %r3, %t, 4; add.u32 %r4, %r2, %r3;\n"                            \
    "cp.async.cg.shared.global [%r4], [%base], 16;\n"

static const fault faults[] = {
    {"a register",
     BODY("st.global.u32 [%out], %r1;\n"),
     "its operand 2 is a register that nobody wrote",
     {0}},
    {"the half of a register",
     BODY("mov.b64 %rd1, {%t, %r1}; shr.u64 %rd2, %rd1, 32; cvt.u32.u64 %r2, %rd2;\n"
          "st.global.u32 [%out], %r2;\n"),
     "a register that nobody wrote, or made of one",
     {0}},
    {"the other half of a register",
     BODY("mov.b64 %rd1, {%r1, %t}; cvt.u32.u64 %r2, %rd1; st.global.u32 [%out], %r2;\n"),
     "a register that nobody wrote, or made of one",
     {0}},
    {"a register, by way of others",
     BODY("add.u32 %r1, %r2, %t; st.global.u32 [%out], %r1;\n"),
     "a register that nobody wrote, or made of one",
     {0}},
    {"a register of some lanes",
     BODY("setp.lt.u32 %p1, %t, 5; @%p1 mov.u32 %r1, 3; st.global.u32 [%out], %r1;\n"),
     "thread 5: its operand 2",
     {0}},
    {"a guard", BODY("@%p1 bra $end; $end: mov.u32 %r1, 1;\n"), "its guard is a predicate", {0}},
    {"an address", BODY("ld.global.u32 %r1, [%rd1];\n"), "its operand 1 is a register", {0}},
    {"beyond an array",
     BODY("ld.global.u32 %r1, [%in+4];\n"),
     "thread 31: 4 bytes from 128 on are not in in, which has 128",
     {0}},
    {"in front of it",
     BODY("st.global.u32 [%out+-4], %t;\n"),
     "thread 0: 4 bytes from -4 on are not in out",
     {0}},
    {"no array", BODY("mov.u64 %rd1, 64; ld.global.u32 %r1, [%rd1];\n"), "is in no array", {0}},
    {"alignment",
     BODY("ld.global.v2.u32 {%r1, %r2}, [%in];\n"),
     "thread 1: the address",
     {.elements = 64}},
    {"what is read only",
     BODY("st.global.u32 [%in], %t;\n"),
     "it writes to in, which is read only",
     {0}},
    {"memory that nobody wrote",
     BODY("ld.global.u32 %r1, [%out];\n"),
     "it reads global memory that nobody wrote, in out",
     {0}},
    {"shared memory that nobody wrote",
     BODY(PLACE "ld.shared.u32 %r1, [%r4];\n"),
     "it reads shared memory that nobody wrote",
     {.shared_bytes = 128}},
    {"beyond shared memory",
     BODY(PLACE "st.shared.u32 [%r4+4], %t;\n"),
     "thread 31: 4 bytes from 128 on are not in the block's 128 of shared memory",
     {.shared_bytes = 128}},
    {"local memory that was not written",
     BODY(".local .align 4 .b8 depot[8]; mov.u64 %rd1, depot; ld.local.u32 %r1, [%rd1];\n"),
     "it reads local memory that it has not written",
     {0}},
    {"beyond local memory",
     BODY(".local .align 4 .b8 depot[8]; mov.u64 %rd1, depot; st.local.u32 [%rd1+8], %t;\n"),
     "are not in local memory",
     {0}},
    /* races */
    {"no barrier",
     BODY(PLACE "st.shared.u32 [%r4], %t; and.b32 %r5, %r3, 124; add.u32 %r5, %r2, %r5;\n"
                "ld.shared.u32 %r1, [%r5];\n"),
     "with no bar.sync between",
     {.threads = 64, .shared_bytes = 256}},
    {"no barrier in front of a write",
     BODY(PLACE "st.shared.u32 [%r4], %t; bar.sync 0; setp.lt.u32 %p1, %t, 32;\n"
                "@%p1 ld.shared.u32 %r1, [%r4+128]; @!%p1 st.shared.u32 [%r4], %t;\n"),
     "thread 32: a race: it writes a byte that thread 0 reads",
     {.threads = 64, .shared_bytes = 256}},
    {"no barrier in a warp",
     BODY(PLACE "st.shared.u32 [%r4], %t; xor.b32 %r5, %r3, 4; add.u32 %r5, %r2, %r5;\n"
                "ld.shared.u32 %r1, [%r5];\n"),
     "thread 0: a race: it reads a byte that thread 1 wrote (line 26), with no bar.warp.sync",
     {.shared_bytes = 128}},
    {"one byte of two threads",
     BODY(PLACE "shr.u32 %r5, %t, 1; add.u32 %r5, %r2, %r5; cvt.u16.u32 %h1, %t;\n"
                "st.shared.u8 [%r5], %h1;\n"),
     "thread 1: a race: it writes a byte that thread 0 wrote",
     {.shared_bytes = 128}},
    {"one element of two threads",
     BODY("and.b32 %r1, %t, 30; mul.wide.u32 %rd1, %r1, 4; ld.param.u64 %rd2, [p_out];\n"
          "add.s64 %rd2, %rd2, %rd1; st.global.u32 [%rd2], %t;\n"),
     "a race: it writes a byte that thread 0 wrote",
     {0}},
    {"one element of two blocks",
     BODY("mul.wide.u32 %rd1, %t, 4; ld.param.u64 %rd2, [p_out]; add.s64 %rd2, %rd2, %rd1;\n"
          "st.global.u32 [%rd2], %t;\n"),
     "a byte that another block of the launch wrote",
     {.blocks = 2}},
    /* as NVRTC makes of a store, sc_sync_warp and a load by way of a __restrict__ pointer */
    {"a load in front of the barrier",
     BODY("ld.param.u64 %rd1, [p_out]; setp.ne.u32 %p1, %t, 0; @%p1 bra $load;\n"
          "st.global.u32 [%rd1], %t; bra.uni $end;\n"
          "$load: ld.global.u32 %r1, [%rd1]; $end: bar.warp.sync -1;\n"),
     "thread 1: a race: it reads a byte that thread 0 wrote",
     {0}},
    {"what is no constant",
     BODY("st.global.u32 [%out], %t; ld.global.nc.u32 %r1, [%out];\n"),
     "ld.global.nc reads what thread 0 of the launch wrote",
     {0}},
    {"a constant that is written",
     BODY("ld.global.nc.u32 %r1, [%in]; st.global.u32 [%in], %t;\n"),
     "it writes what ld.global.nc of the launch reads (line 25)",
     {.writes_in = true}},
    /* copies */
    {"no wait",
     BODY(COPY "cp.async.commit_group; bar.sync 0; ld.shared.u32 %r1, [%r4];\n"),
     "while thread 0's cp.async to it is under way",
     {.shared_bytes = 512}},
    {"no commit",
     BODY(COPY "cp.async.wait_group 0; bar.sync 0; ld.shared.u32 %r1, [%r4];\n"),
     "cp.async to it is under way",
     {.shared_bytes = 512}},
    {"a wait for one group less",
     BODY(COPY "cp.async.commit_group; cp.async.wait_group 1; ld.shared.u32 %r1, [%r4];\n"),
     "cp.async to it is under way",
     {.shared_bytes = 512}},
    {"a wait without a barrier",
     BODY(COPY "cp.async.commit_group; cp.async.wait_group 0; xor.b32 %r5, %r3, 16;\n"
               "add.u32 %r5, %r2, %r5; ld.shared.u32 %r1, [%r5];\n"),
     "a race: it reads a byte that thread 1 wrote",
     {.shared_bytes = 512}},
    {"a copy onto a copy",
     BODY("mov.u32 %r2, memory; cp.async.cg.shared.global [%r2], [%base], 16;\n"),
     "cp.async to it is under way",
     {.shared_bytes = 512}},
    /* together */
    {"a barrier of some threads",
     BODY("setp.lt.u32 %p1, %t, 32; @%p1 bra $end; bar.sync 0; $end: mov.u32 %r1, 0;\n"),
     "not all threads come to it: thread 0 has left",
     {.threads = 64}},
    {"two barriers",
     BODY("setp.lt.u32 %p1, %t, 32; @%p1 bra $a; bar.sync 0; bra $end; $a: bar.sync 0;\n"
          "$end: mov.u32 %r1, 0;\n"),
     "not all threads come to it: thread 32 waits at line",
     {.threads = 64}},
    {"a barrier of some lanes",
     BODY("setp.lt.u32 %p1, %t, 5; @!%p1 bar.sync 0;\n"),
     "not all threads come to it",
     {0}},
    {"lanes that are not there",
     BODY("setp.lt.u32 %p1, %t, 5; @%p1 bra $end; shfl.sync.bfly.b32 %r1|%p2, %t, 1, 31, -1;\n"
          "$end: mov.u32 %r1, 0;\n"),
     "not all lanes come to it: thread 0 has left",
     {0}},
    {"a value of no member",
     BODY(
         "setp.lt.u32 %p1, %t, 16; @!%p1 bra $end; shfl.sync.bfly.b32 %r1|%p2, %t, 16, 31, 65535;\n"
         "$end: mov.u32 %r1, 0;\n"),
     "it takes the value of lane 16, which is no member",
     {0}},
    {"no end", BODY("$next: bra $next;\n"), "the block has no end", {.max_turns = 10000}},
    /* texts */
    {"an mbarrier that nobody made",
     BODY("mov.u32 %r2, memory; mbarrier.arrive.shared::cta.b64 _, [%r2];\n"),
     "there is no mbarrier, or no more",
     {.shared_bytes = 64}},
    {"an mbarrier as data",
     BODY("mov.u32 %r2, memory; setp.eq.u32 %p1, %t, 0; @!%p1 bra $end;\n"
          "mbarrier.init.shared::cta.b64 [%r2], 1; ld.shared.u32 %r3, [%r2]; $end:\n"),
     "it touches an mbarrier as if it were data",
     {.shared_bytes = 64}},
    {"an mbarrier for good",
     BODY("mov.u32 %r2, memory; setp.eq.u32 %p1, %t, 0; @!%p1 bra $end;\n"
          "mbarrier.init.shared::cta.b64 [%r2], 3; mbarrier.arrive.shared::cta.b64 _, [%r2];\n"
          "mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0; $end:\n"),
     "it waits for an mbarrier for good: phase 0 lacks 2 of 3 arrivals and 0 bytes",
     {.shared_bytes = 64}},
    {"a bulk copy that is not waited for",
     BODY("mov.u32 %r2, memory; setp.eq.u32 %p1, %t, 0; @!%p1 bra $end;\n"
          "mbarrier.init.shared::cta.b64 [%r2+32], 1; add.u32 %r3, %r2, 32;\n"
          "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 16;\n"
          "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%base], 16, "
          "[%r3]; ld.shared.u32 %r4, [%r2]; $end:\n"),
     "bulk copy",
     {.shared_bytes = 64}},
    {"a size of a bulk copy",
     BODY("mov.u32 %r2, memory; setp.eq.u32 %p1, %t, 0; @!%p1 bra $end;\n"
          "cp.async.bulk.global.shared::cta.bulk_group [%out], [%r2], 20; $end:\n"),
     "20 bytes are no multiple of 16",
     {.shared_bytes = 64}},
    {"too many registers",
     BODY("setmaxnreg.inc.sync.aligned.u32 264;\n"),
     "a thread has 24 to 256 registers, a multiple of 8",
     {0}},
    {"an opcode",
     BODY("tcgen05.fence::before_thread_sync;\n"),
     "`tcgen05.fence::before_thread_sync`: tcgen05.fence::before_thread_sync is not in the "
     "interpreter's tables",
     {0}},
    {"a form", BODY("add.sat.s32 %r1, %t, %t;\n"), "add.sat.s32 is not in", {0}},
    {"a width", BODY("add.s32 %rd1, %t, %t;\n"), "%rd1 is not as wide as a u32", {0}},
    {"a width of an operand", BODY("add.s64 %rd1, %in, %t;\n"), "%t is not as wide as a u64", {0}},
    {"a name", BODY("mov.u32 %q1, %t;\n"), "the register %q1 is not declared", {0}},
    {"a label", BODY("bra $nowhere;\n"), "there is no label $nowhere", {0}},
    {"a special register", BODY("mov.u32 %tid.x, %t;\n"), "%tid.x cannot be written to", {0}},
    {"operands", BODY("add.s32 %r1, %t;\n"), "add.s32 has 3 operands, here are 2", {0}},
    {"a function",
     PTX_HEAD PTX_BEGIN "call.uni other, ();\n" PTX_END,
     "there is no function other to call",
     {0}},
    {"an end", PTX_HEAD PTX_BEGIN "}\n", "k has an end that is no return", {0}},
    {"a brace", PTX_HEAD PTX_BEGIN, "a function has no end", {0}},
};

static void test_faults_are_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        const fault *f = &faults[i];
        for (int s = 0; s < SC_MACHINE_SCHEDULE_COUNT; s++) {
            sc_machine_report report;
            ptx_launch how = f->how;
            how.schedule = (sc_machine_schedule)s;
            how.copies = (sc_machine_copies)(s % 2);
            if (ptx_try(f->text, how, NULL, &report))
                fail_msg("%s, schedule %d: nothing is reported", f->name, s);
            /* the first thread that is wrong depends on the schedule */
            if (s == SC_MACHINE_LOCK_STEP && strstr(report.text, f->wanted) == NULL)
                fail_msg("%s: `%s` is not in: %s", f->name, f->wanted, report.text);
            if (strstr(report.text, "line ") == NULL)
                fail_msg("%s: no line in: %s", f->name, report.text);
        }
    }
}

/* What is not wrong: values of nobody that nothing depends on, barriers of other lines in turns. */
static void test_no_fault_is_seen_where_none_is(void **state)
{
    (void)state;
    static const char *const texts[] = {
        BODY("setp.lt.u32 %p1, %t, 5; add.u32 %r1, %r9, 1; selp.b32 %r2, %t, %r1, %p1;\n"
             "@%p1 st.global.u32 [%out], %r2;\n"),
        BODY("setp.lt.u32 %p1, %t, 0; setp.eq.u32 %p2, %r9, 1; and.pred %p3, %p1, %p2;\n"
             "@%p3 st.global.u32 [%out], %t;\n"),
        BODY("setp.lt.u32 %p1, %t, 0; setp.eq.and.u32 %p3, %r9, 1, %p1;\n"
             "@%p3 st.global.u32 [%out], %t;\n"),
        BODY(PLACE "st.shared.u32 [%r4], %t; bar.warp.sync -1; xor.b32 %r5, %r3, 4;\n"
                   "add.u32 %r5, %r2, %r5; ld.shared.u32 %r1, [%r5]; bar.warp.sync -1;\n"
                   "st.shared.u32 [%r4], %r1;\n"),
        BODY(COPY "cp.async.commit_group;\n"),
        BODY("setp.lt.u32 %p1, %t, 7; @%p1 bra $a; mov.u32 %r1, 1; $a: bar.sync 0;\n"),
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        for (int s = 0; s < SC_MACHINE_SCHEDULE_COUNT; s++)
            ptx_run(texts[i],
                    (ptx_launch){.blocks = 3,
                                 .threads = 64,
                                 .shared_bytes = 1024,
                                 .schedule = (sc_machine_schedule)s},
                    NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_faults_are_named),
        cmocka_unit_test(test_no_fault_is_seen_where_none_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
