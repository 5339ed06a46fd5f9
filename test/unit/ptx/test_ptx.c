/* The interpreter of PTX computes what the PTX ISA says: single instructions, lanes that part and
 * meet, what warps and blocks do together, matrices, copies, calls. What else sm_90 has is tried on
 * a whole kernel (test/ptx/hopper). */
#include "test/unit/helpers/ptx_case.h"

#include <math.h>

#include "support/float16.h"

/* ---- one instruction: of %r1 = a, %r2 = b, %r3 = c to %r4, in every lane ---- */

typedef struct single {
    const char *text;
    uint32_t a, b, c, wanted;
} single;

static const single singles[] = {
    {"add.s32 %r4, %r1, %r2;", 0xffffffff, 2, 0, 1},
    {"sub.s32 %r4, %r1, %r2;", 1, 2, 0, 0xffffffff},
    {"mul.lo.s32 %r4, %r1, %r2;", 0x10001, 0x10001, 0, 0x20001},
    {"mul.hi.s32 %r4, %r1, %r2;", 0xffffffff, 2, 0, 0xffffffff},
    {"mul.hi.u32 %r4, %r1, %r2;", 0xffffffff, 2, 0, 1},
    /* the upper half is of no value, and is not read */
    {"mov.b64 %rd1, {%r1, %r7}; cvt.u32.u64 %r4, %rd1;", 5, 0, 0, 5},
    {"mul.wide.s32 %rd1, %r1, %r2; cvt.u32.u64 %r4, %rd1;", 0xffffffff, 3, 0, 0xfffffffd},
    {"mul.wide.s32 %rd1, %r1, %r2; shr.u64 %rd2, %rd1, 32; cvt.u32.u64 %r4, %rd2;", 0xffffffff, 3,
     0, 0xffffffff},
    {"mad.lo.s32 %r4, %r1, %r2, %r3;", 5, 7, 11, 46},
    {"div.s32 %r4, %r1, %r2;", 0xfffffff9, 2, 0, 0xfffffffd},
    {"div.s32 %r4, %r1, %r2;", 0x80000000, 0xffffffff, 0, 0x80000000},
    {"rem.s32 %r4, %r1, %r2;", 0xfffffff9, 2, 0, 0xffffffff},
    {"div.u32 %r4, %r1, %r2;", 7, 0, 0, 0xffffffff},
    {"neg.s32 %r4, %r1;", 1, 0, 0, 0xffffffff},
    {"abs.s32 %r4, %r1;", 0xfffffffb, 0, 0, 5},
    {"min.s32 %r4, %r1, %r2;", 0xffffffff, 1, 0, 0xffffffff},
    {"min.u32 %r4, %r1, %r2;", 0xffffffff, 1, 0, 1},
    {"max.s32 %r4, %r1, %r2;", 0xffffffff, 1, 0, 1},
    {"shl.b32 %r4, %r1, %r2;", 1, 31, 0, 0x80000000},
    {"shl.b32 %r4, %r1, %r2;", 1, 32, 0, 0},
    {"shr.s32 %r4, %r1, %r2;", 0x80000000, 40, 0, 0xffffffff},
    {"shr.u32 %r4, %r1, %r2;", 0x80000000, 31, 0, 1},
    {"shf.l.wrap.b32 %r4, %r1, %r2, %r3;", 0x80000000, 1, 1, 3},
    {"shf.r.wrap.b32 %r4, %r1, %r2, %r3;", 2, 1, 1, 0x80000001},
    {"prmt.b32 %r4, %r1, %r2, %r3;", 0x33221100, 0x77665544, 0x1054, 0x11005544},
    {"prmt.b32 %r4, %r1, %r2, %r3;", 0x00008000, 0, 0x9990, 0xffffff00},
    {"bfi.b32 %r4, %r1, %r2, 5, 27;", 0x7ffffff, 0x1f, 0, 0xffffffff},
    {"bfi.b32 %r4, %r1, %r2, 4, 8;", 0xab, 0xfffff00f, 0, 0xfffffabf},
    {"bfe.u32 %r4, %r1, 4, 8;", 0xabcd, 0, 0, 0xbc},
    {"bfe.s32 %r4, %r1, 4, 8;", 0xabcd, 0, 0, 0xffffffbc},
    {"clz.b32 %r4, %r1;", 1, 0, 0, 31},
    {"popc.b32 %r4, %r1;", 0xf0f, 0, 0, 8},
    {"brev.b32 %r4, %r1;", 1, 0, 0, 0x80000000},
    {"not.b32 %r4, %r1;", 0xff, 0, 0, 0xffffff00},
    {"dp2a.lo.u32.u32 %r4, %r1, %r2, %r3;", 0x00030002, 0x0504, 7, 30},
    {"add.cc.u32 %r5, %r1, %r2; addc.u32 %r4, %r3, 0;", 0xffffffff, 1, 4, 5},
    {"sub.cc.u32 %r5, %r1, %r2; subc.u32 %r4, %r3, 0;", 0, 1, 4, 3},
    {"mad.lo.cc.u32 %r5, %r1, %r2, %r1; madc.hi.u32 %r4, %r1, %r2, %r3;", 0xffffffff, 0xffffffff, 0,
     0xffffffff},
    {"setp.lt.s32 %p1, %r1, %r2; selp.b32 %r4, 1, 0, %p1;", 0xffffffff, 0, 0, 1},
    {"setp.lt.u32 %p1, %r1, %r2; selp.b32 %r4, 1, 0, %p1;", 0xffffffff, 0, 0, 0},
    {"setp.eq.s32 %p2, %r3, 0; setp.lt.and.s32 %p1, %r1, %r2, !%p2; selp.b32 %r4, 1, 0, %p1;", 1, 2,
     0, 0},
    {"setp.eq.s32 %p1|%p2, %r1, %r2; selp.b32 %r4, 1, 0, %p2;", 1, 2, 0, 1},
    {"mov.b32 {%h1, %h2}, %r1; mov.b32 %r4, {%h2, %h1};", 0x00020001, 0, 0, 0x00010002},
    {"cvt.s64.s32 %rd1, %r1; shr.u64 %rd2, %rd1, 60; cvt.u32.u64 %r4, %rd2;", 0xffffffff, 0, 0, 15},
    {"cvt.u32.u16 %r4, %h1;", 0, 0, 0, 0xfff0},
    /* floats, by their bits */
    {"fma.rn.f32 %f4, %f1, %f2, %f3; mov.b32 %r4, %f4;", 0x40000000, 0x40400000, 0x3f800000,
     0x40e00000},
    {"fma.rn.f32 %f4, %f1, %f1, %f3; mov.b32 %r4, %f4;", 0x3f800001, 0, 0xbf800002, 0x28800000},
    {"max.f32 %f4, %f1, %f2; mov.b32 %r4, %f4;", 0x7fc00000, 0x3f800000, 0, 0x3f800000},
    {"max.NaN.f32 %f4, %f1, %f2; mov.b32 %r4, %f4;", 0x7fc00000, 0x3f800000, 0, 0x7fffffff},
    {"max.f32 %f4, %f1, %f2; mov.b32 %r4, %f4;", 0x80000000, 0, 0, 0},
    {"min.f32 %f4, %f1, %f2; mov.b32 %r4, %f4;", 0x80000000, 0, 0, 0x80000000},
    {"sub.f32 %f4, %f1, %f2; mov.b32 %r4, %f4;", 0x7f800000, 0x7f800000, 0, 0x7fffffff},
    {"cvt.rn.bf16x2.f32 %r4, %f1, %f2;", 0x3f80ffff, 0x40000000, 0, 0x3f814000},
    {"cvt.rn.f16x2.f32 %r4, %f1, %f2;", 0x3f800000, 0x477ff000, 0, 0x3c007c00},
    {"cvt.sat.f32.f32 %f4, %f1; mov.b32 %r4, %f4;", 0x7fc00000, 0, 0, 0},
    {"cvt.rzi.s32.f32 %r4, %f1;", 0xc0200000, 0, 0, 0xfffffffe},
    {"cvt.rni.s32.f32 %r4, %f1;", 0x40200000, 0, 0, 2},
    {"cvt.rmi.f32.f32 %f4, %f1; mov.b32 %r4, %f4;", 0xc0200000, 0, 0, 0xc0400000},
    {"cvt.rzi.s32.f32 %r4, %f1;", 0x7f800000, 0, 0, 0x7fffffff},
    {"copysign.f32 %f4, %f1, %f2; mov.b32 %r4, %f4;", 0x80000000, 0x3f800000, 0, 0xbf800000},
    {"setp.ltu.f32 %p1, %f1, %f2; selp.b32 %r4, 1, 0, %p1;", 0x7fc00000, 0, 0, 1},
    {"setp.ne.f32 %p1, %f1, %f2; selp.b32 %r4, 1, 0, %p1;", 0x7fc00000, 0, 0, 0},
    {"setp.neu.f32 %p1, %f1, %f2; selp.b32 %r4, 1, 0, %p1;", 0x7fc00000, 0, 0, 1},
    {"add.ftz.f32 %f4, %f1, %f2; mov.b32 %r4, %f4;", 0x007fffff, 0, 0, 0},
    {"ex2.approx.ftz.f32 %f4, %f1; mov.b32 %r4, %f4;", 0x40400000, 0, 0, 0x41000000},
    {"rcp.approx.ftz.f32 %f4, %f1; mov.b32 %r4, %f4;", 0x40800000, 0, 0, 0x3e800000},
    {"rcp.rn.f64 %fd1, 0d4010000000000000; cvt.rn.f32.f64 %f4, %fd1; mov.b32 %r4, %f4;", 0, 0, 0,
     0x3e800000},
};

static void test_single_instructions(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof singles / sizeof *singles; i++) {
        const single *s = &singles[i];
        char text[4096];
        uint32_t out[32];
        snprintf(text, sizeof text,
                 "%smov.u32 %%r1, %u; mov.u32 %%r2, %u; mov.u32 %%r3, %u;\n"
                 "mov.b32 %%f1, %%r1; mov.b32 %%f2, %%r2; mov.b32 %%f3, %%r3;\n"
                 "mov.u16 %%h1, 65520;\n%s\nst.global.u32 [%%out], %%r4;\n%s",
                 PTX_HEAD PTX_BEGIN, s->a, s->b, s->c, s->text, PTX_END);
        ptx_run(text, (ptx_launch){0}, out);
        for (int l = 0; l < 32; l++) {
            if (out[l] != s->wanted)
                fail_msg("%s: lane %d has %08x, not %08x", s->text, l, out[l], s->wanted);
        }
    }
}

/* Within the bounds of the PTX ISA, and, but for the nearest, not the nearest. */
static void test_approximations_are_off(void **state)
{
    (void)state;
    static const char text[] = PTX_HEAD PTX_BEGIN
        "ld.global.u32 %r1, [%in]; cvt.rn.f32.u32 %f1, %r1; add.f32 %f1, %f1, 0f3F19999A;\n"
        "ex2.approx.ftz.f32 %f2, %f1; st.global.f32 [%out], %f2;\n" PTX_END;
    for (int errors = SC_PTX_NEAREST; errors < SC_PTX_ERRORS; errors++) {
        uint32_t out[32], above = 0, below = 0;
        ptx_run(text, (ptx_launch){.errors = (sc_ptx_errors)errors}, out);
        for (uint32_t l = 0; l < 32; l++) {
            float exact = (float)exp2((double)((float)l + 0.6f));
            int32_t ulps = (int32_t)(out[l] - sc_bits_of_f32(exact));
            above += ulps > 0;
            below += ulps < 0;
            assert_in_range(ulps + 2, 0, 4);
        }
        bool is_above = errors == SC_PTX_ABOVE || errors == SC_PTX_EITHER,
             is_below = errors == SC_PTX_BELOW || errors == SC_PTX_EITHER;
        assert_true((above > 0) == is_above && (below > 0) == is_below);
    }
}

/* ---- lanes ---- */

/* Collatz: each thread in as many rounds as its number takes. */
static void test_lanes_part_and_meet(void **state)
{
    (void)state;
    static const char text[] = PTX_HEAD PTX_BEGIN
        "ld.global.u32 %r1, [%in]; add.u32 %r1, %r1, 1; mov.u32 %r2, 0;\n"
        "$next: setp.eq.u32 %p1, %r1, 1; @%p1 bra $end;\n"
        "and.b32 %r3, %r1, 1; setp.eq.u32 %p2, %r3, 0; @!%p2 bra $odd;\n"
        "shr.u32 %r1, %r1, 1; bra.uni $counted;\n"
        "$odd: mad.lo.u32 %r1, %r1, 3, 1;\n"
        "$counted: add.u32 %r2, %r2, 1; bra $next;\n"
        "$end: bar.warp.sync -1; shfl.sync.idx.b32 %r4|%p3, %r2, 26, 31, -1;\n"
        "shl.b32 %r4, %r4, 16; or.b32 %r2, %r2, %r4; st.global.u32 [%out], %r2;\n" PTX_END;
    uint32_t out[256];
    ptx_run_all(text, (ptx_launch){.blocks = 2, .threads = 128}, out, 256);
    uint32_t rounds[256];
    for (uint32_t i = 0; i < 256; i++) {
        rounds[i] = 0;
        for (uint32_t n = i + 1; n != 1; rounds[i]++)
            n = n % 2 == 0 ? n / 2 : 3 * n + 1;
    }
    for (uint32_t i = 0; i < 256; i++)
        assert_int_equal(out[i], rounds[i] | rounds[i / 32 * 32 + 26] << 16);
}

static void test_shuffles(void **state)
{
    (void)state;
    static const struct {
        const char *mode;
        int from[4]; /* of lanes 0, 5, 17, 31; -1: the lane itself, and the predicate is false */
    } modes[] = {{"up.b32 %r4|%p1, %r1, 2, 0", {-1, 3, 15, 29}},
                 {"down.b32 %r4|%p1, %r1, 3, 31", {3, 8, 20, -1}},
                 {"bfly.b32 %r4|%p1, %r1, 16, 31", {16, 21, 1, 15}},
                 {"idx.b32 %r4|%p1, %r1, 7, 31", {7, 7, 7, 7}},
                 {"idx.b32 %r4|%p1, %r1, 2, 6175", {2, 2, 18, 26}}, /* segments of 8 */
                 {"up.b32 %r4|%p1, %r1, 2, 6144", {-1, 3, -1, 29}}};
    static const int lanes[4] = {0, 5, 17, 31};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        char text[4096];
        uint32_t out[32];
        snprintf(text, sizeof text,
                 "%sadd.u32 %%r1, %%t, 100; shfl.sync.%s, -1;\n"
                 "selp.b32 %%r5, 1000, 0, %%p1; add.u32 %%r4, %%r4, %%r5;\n"
                 "st.global.u32 [%%out], %%r4;\n" PTX_END,
                 PTX_HEAD PTX_BEGIN, modes[i].mode);
        ptx_run(text, (ptx_launch){0}, out);
        for (int k = 0; k < 4; k++) {
            int from = modes[i].from[k];
            int wanted = from < 0 ? lanes[k] + 100 : from + 1100;
            if ((int)out[lanes[k]] != wanted)
                fail_msg("%s: lane %d has %u, not %d", modes[i].mode, lanes[k], out[lanes[k]],
                         wanted);
        }
    }
}

static void test_votes(void **state)
{
    (void)state;
    static const char text[] = PTX_HEAD PTX_BEGIN
        "and.b32 %r1, %t, 3; setp.eq.u32 %p1, %r1, 0; vote.sync.ballot.b32 %r4, %p1, -1;\n"
        "vote.sync.any.pred %p2, %p1, -1; vote.sync.all.pred %p3, !%p1, -1;\n"
        "selp.b32 %r5, 2, 0, %p2; add.u32 %r4, %r4, %r5; selp.b32 %r5, 4, 0, %p3;\n"
        "add.u32 %r4, %r4, %r5; st.global.u32 [%out], %r4;\n" PTX_END;
    uint32_t out[32];
    ptx_run(text, (ptx_launch){0}, out);
    assert_int_equal(out[13], 0x11111111u + 2);
}

/* ---- blocks ---- */

/* Turned around in shared memory, then summed up with the neighbours' by atomics. */
static void test_shared_memory_and_barriers(void **state)
{
    (void)state;
    static const char text[] = PTX_HEAD PTX_BEGIN
        "ld.global.u32 %r1, [%in]; mov.u32 %r2, memory; shl.b32 %r3, %t, 2; add.u32 %r4, %r2, "
        "%r3;\n"
        "st.shared.u32 [%r4], %r1; bar.sync 0; mov.u32 %r5, 127; sub.u32 %r5, %r5, %t;\n"
        "shl.b32 %r5, %r5, 2; add.u32 %r5, %r2, %r5; ld.shared.u32 %r6, [%r5];\n"
        "mov.u64 %rd1, memory; cvta.shared.u64 %rd2, %rd1; mul.wide.u32 %rd3, %t, 4;\n"
        "add.s64 %rd2, %rd2, %rd3; ld.u32 %r7, [%rd2]; mad.lo.u32 %r6, %r7, 1000, %r6;\n"
        "st.global.u32 [%out], %r6;\n" PTX_END;
    uint32_t out[256];
    ptx_run_all(text, (ptx_launch){.blocks = 2, .threads = 128, .shared_bytes = 512}, out, 256);
    for (uint32_t i = 0; i < 256; i++)
        assert_int_equal(out[i], i * 1000 + i / 128 * 128 + 127 - i % 128);
}

static void test_copies_arrive(void **state)
{
    (void)state;
    static const char text[] = PTX_HEAD PTX_BEGIN
        "mov.u32 %r2, memory; shl.b32 %r3, %t, 4; add.u32 %r4, %r2, %r3; mul.wide.u32 %rd1, %t, "
        "16;\n"
        "add.s64 %rd2, %base, %rd1; setp.lt.u32 %p1, %t, 30; selp.b32 %r5, 16, 4, %p1;\n"
        "cp.async.cg.shared.global [%r4], [%rd2], 16, %r5;\n"
        "cp.async.commit_group; cp.async.wait_group 0; bar.sync 0;\n"
        "shl.b32 %r6, %t, 2; add.u32 %r6, %r2, %r6; ld.shared.u32 %r7, [%r6+384];\n"
        "st.global.u32 [%out], %r7;\n" PTX_END;
    uint32_t out[128];
    ptx_run_all(text, (ptx_launch){.shared_bytes = 512, .elements = 128}, out, 32);
    for (uint32_t i = 0; i < 32; i++) {
        uint32_t at = 96 + i; /* of 16 bytes of threads 30 and 31 four are read */
        assert_int_equal(out[i], at < 120 || at % 4 == 0 ? at : 0);
    }
}

static void test_calls(void **state)
{
    (void)state;
    static const char text[] =
        PTX_HEAD ".func (.param .b32 r) twice(.param .b32 x);\n" PTX_BEGIN
                 "ld.global.u32 %r1, [%in]; setp.lt.u32 %p1, %r1, 20; @!%p1 bra $other;\n"
                 "{ .param .b32 p; st.param.b32 [p], %r1; .param .b32 q;\n"
                 "call.uni (q), twice, (p); ld.param.b32 %r1, [q]; }\n"
                 "$other: st.global.u32 [%out], %r1;\n" PTX_END
                 ".func (.param .b32 r) twice(.param .b32 x)\n{ .reg .b32 %r<3>;\n"
                 "ld.param.b32 %r1, [x]; add.u32 %r2, %r1, %r1; st.param.b32 [r], %r2; ret; }\n";
    uint32_t out[32];
    ptx_run_all(text, (ptx_launch){0}, out, 32);
    for (uint32_t i = 0; i < 32; i++)
        assert_int_equal(out[i], i < 20 ? 2 * i : i);
}

static void test_local_memory_and_constants(void **state)
{
    (void)state;
    static const char text[] =
        PTX_HEAD ".const .align 4 .b32 table[3] = {7, -1, 0x10};\n" PTX_BEGIN
                 ".local .align 8 .b8 depot[64];\n"
                 "mov.u64 %rd1, depot; cvta.local.u64 %rd2, %rd1; st.u32 [%rd2+8], %t;\n"
                 "ld.local.u32 %r1, [%rd1+8]; mov.u64 %rd3, table; ld.const.u32 %r2, [%rd3+4];\n"
                 "add.u32 %r1, %r1, %r2; st.global.u32 [%out], %r1;\n" PTX_END;
    uint32_t out[32];
    ptx_run(text, (ptx_launch){0}, out);
    for (uint32_t i = 0; i < 32; i++)
        assert_int_equal(out[i], i - 1);
}

/* ---- matrices ---- */

/* C = A B + C, of 16-bit elements that lie in rows in shared memory: A by ldmatrix, B (whose rows
 * are k) by ldmatrix.trans, so that fragments, and both instructions' lanes, agree. Small integers,
 * which are exact. */
static const char product[] = PTX_HEAD PTX_BEGIN
    "mov.u32 %r2, memory; shl.b32 %r3, %t, 1;\n"
    /* A[r][k] = r - k, at 0; B[k][n] = k + 2 n, at 512: a lane writes elements t, t + 32, .. */
    "mov.u32 %r4, %t; $a: shr.u32 %r5, %r4, 4; and.b32 %r6, %r4, 15; sub.s32 %r7, %r5, %r6;\n"
    "cvt.rn.f32.s32 %f1, %r7; CONVERT %h1, %f1; shl.b32 %r8, %r4, 1; add.u32 %r8, %r8, %r2;\n"
    "st.shared.u16 [%r8], %h1; add.u32 %r4, %r4, 32; setp.lt.u32 %p1, %r4, 256; @%p1 bra $a;\n"
    "mov.u32 %r4, %t; $b: shr.u32 %r5, %r4, 3; and.b32 %r6, %r4, 7; mad.lo.s32 %r7, %r6, 2, %r5;\n"
    "cvt.rn.f32.s32 %f1, %r7; CONVERT %h1, %f1; shl.b32 %r8, %r4, 1; add.u32 %r8, %r8, %r2;\n"
    "st.shared.u16 [%r8+512], %h1; add.u32 %r4, %r4, 32; setp.lt.u32 %p1, %r4, 128; @%p1 bra $b;\n"
    "bar.sync 0;\n"
    /* lanes 0 .. 15: rows of A, columns 0 .. 7; the others: the same rows, columns 8 .. 15 */
    "and.b32 %r5, %t, 15; shl.b32 %r5, %r5, 5; shr.u32 %r6, %t, 4; shl.b32 %r6, %r6, 4;\n"
    "add.u32 %r7, %r5, %r6; add.u32 %r7, %r7, %r2;\n"
    "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r20, %r21, %r22, %r23}, [%r7];\n"
    "and.b32 %r5, %t, 15; shl.b32 %r5, %r5, 4; add.u32 %r8, %r5, %r2;\n"
    "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%r24, %r25}, [%r8+512];\n"
    "mov.f32 %f4, 0f3F800000; mov.f32 %f5, %f4; mov.f32 %f6, %f4; mov.f32 %f7, %f4;\n"
    "mma.sync.aligned.m16n8k16.row.col.f32.TYPE.TYPE.f32 {%f4, %f5, %f6, %f7},\n"
    "{%r20, %r21, %r22, %r23}, {%r24, %r25}, {%f4, %f5, %f6, %f7};\n"
    /* lane l: rows l / 4, l / 4 + 8, columns 2 (l % 4) + {0, 1} of C */
    "ld.param.u64 %rd1, [p_out]; shr.u32 %r5, %t, 2; shl.b32 %r5, %r5, 3; and.b32 %r6, %t, 3;\n"
    "mad.lo.u32 %r5, %r6, 2, %r5; mul.wide.u32 %rd2, %r5, 4; add.s64 %rd1, %rd1, %rd2;\n"
    "st.global.v2.f32 [%rd1], {%f4, %f5}; st.global.v2.f32 [%rd1+256], {%f6, %f7};\n" PTX_END;

/* The words that differ between types. */
static void product_of(const char *type, char *out)
{
    for (const char *at = product; *at != 0;) {
        if (strncmp(at, "CONVERT", 7) == 0)
            out += sprintf(out, "cvt.rn.%s.f32", type), at += 7;
        else if (strncmp(at, "TYPE", 4) == 0)
            out += sprintf(out, "%s", type), at += 4;
        else
            *out++ = *at++;
    }
    *out = 0;
}

static void test_products_of_matrices(void **state)
{
    (void)state;
    static const char *const types[] = {"bf16", "f16"};
    for (int i = 0; i < 2; i++) {
        char text[sizeof product + 256];
        uint32_t out[128];
        product_of(types[i], text);
        ptx_run_all(text, (ptx_launch){.shared_bytes = 768, .elements = 128}, out, 128);
        for (int row = 0; row < 16; row++) {
            for (int column = 0; column < 8; column++) {
                int sum = 1;
                for (int k = 0; k < 16; k++)
                    sum += (row - k) * (k + 2 * column);
                assert_int_equal(out[8 * row + column], sc_bits_of_f32((float)sum));
            }
        }
    }
}

/* ---- beside the threads ---- */

/* A bulk copy of 512 bytes comes, each thread adds one to its element, and a bulk copy leaves.
 * Waits are for a parity and for the state that an arrival gave. */
static void test_bulk_copies_come_and_leave(void **state)
{
    (void)state;
    static const char text[] = PTX_HEAD PTX_BEGIN
        "mov.u32 %r2, memory; add.u32 %r10, %r2, 512; add.u32 %r11, %r2, 520;\n"
        "setp.ne.u32 %p1, %t, 0; @%p1 bra $ready;\n"
        "mbarrier.init.shared::cta.b64 [%r10], 1; mbarrier.init.shared.b64 [%r2+520], %r62;\n"
        "fence.mbarrier_init.release.cluster;\n"
        "mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%r10], 512;\n"
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%base], 512, "
        "[%r10];\n"
        "$ready: bar.sync 0;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r10], 0;\n"
        "shl.b32 %r3, %t, 2; add.u32 %r4, %r2, %r3; ld.shared.u32 %r5, [%r4];\n"
        "add.u32 %r5, %r5, 1; st.shared.u32 [%r4], %r5; fence.proxy.async.shared::cta;\n"
        "mbarrier.arrive.shared::cta.b64 %rd1, [%r11];\n"
        "mbarrier.try_wait.shared::cta.b64 %p2, [%r11], %rd1;\n"
        "@%p1 bra $end; ld.param.u64 %rd2, [p_out];\n"
        "cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r2], 512;\n"
        "cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;\n"
        "mbarrier.inval.shared::cta.b64 [%r10]; st.shared.u32 [%r10], 7;\n"
        "$end:\n" PTX_END;
    uint32_t out[128];
    ptx_run_all(text, (ptx_launch){.threads = 128, .shared_bytes = 528}, out, 128);
    for (uint32_t i = 0; i < 128; i++)
        assert_int_equal(out[i], i + 1);
}

static void test_one_lane_is_elected(void **state)
{
    (void)state;
    static const char text[] =
        PTX_HEAD PTX_BEGIN "mov.u32 %r1, 0; setp.lt.u32 %p1, %t, 8; @%p1 bra $end;\n"
                           "elect.sync %r2|%p2, 0xffffff00; selp.b32 %r1, 1, 2, %p2;\n"
                           "shl.b32 %r2, %r2, 8; or.b32 %r1, %r1, %r2;\n"
                           "$end: st.global.u32 [%out], %r1;\n" PTX_END;
    for (int s = 0; s < SC_MACHINE_SCHEDULE_COUNT; s++) {
        uint32_t out[32], elected = 0;
        ptx_run(text, (ptx_launch){.schedule = (sc_machine_schedule)s}, out);
        for (uint32_t l = 8; l < 32; l++) {
            elected += (out[l] & 255) == 1;
            assert_int_equal((out[l] & 255) == 1, out[l] >> 8 == l);
        }
        assert_int_equal(elected, 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_single_instructions),
        cmocka_unit_test(test_approximations_are_off),
        cmocka_unit_test(test_lanes_part_and_meet),
        cmocka_unit_test(test_shuffles),
        cmocka_unit_test(test_votes),
        cmocka_unit_test(test_shared_memory_and_barriers),
        cmocka_unit_test(test_copies_arrive),
        cmocka_unit_test(test_calls),
        cmocka_unit_test(test_local_memory_and_constants),
        cmocka_unit_test(test_products_of_matrices),
        cmocka_unit_test(test_bulk_copies_come_and_leave),
        cmocka_unit_test(test_one_lane_is_elected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
