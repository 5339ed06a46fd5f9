/* Kernels in PTX, written by hand, on the interpreter (test/ptx). */
#ifndef SHARDC_TEST_PTX_CASE_H
#define SHARDC_TEST_PTX_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "test/ptx/ptx.h"

/* In front of a body: registers of all widths, the address of this thread's element of 4 bytes of
 * `in` in %in, of `out` in %out, the thread in %t. Both arrays have an element a thread of the
 * grid. */
#define PTX_HEAD                                                                                   \
    ".version 8.0\n.target sm_80\n.address_size 64\n"                                              \
    ".extern .shared .align 128 .b8 memory[];\n"
#define PTX_BEGIN                                                                                  \
    ".visible .entry k(.param .u64 p_in, .param .u64 p_out)\n.maxntid 1024, 1, 1\n{\n"             \
    ".reg .pred %p<32>;\n.reg .b16 %h<32>;\n.reg .b32 %r<64>;\n.reg .b64 %rd<64>;\n"               \
    ".reg .f32 %f<32>;\n.reg .f64 %fd<32>;\n.reg .b64 %in, %out, %base;\n.reg .b32 %t, %block;\n"  \
    "ld.param.u64 %base, [p_in];\nld.param.u64 %out, [p_out];\nmov.u32 %t, %tid.x;\n"              \
    "mov.u32 %block, %ctaid.x;\nmov.u32 %r62, %ntid.x;\nmad.lo.s32 %r63, %block, %r62, %t;\n"      \
    "mul.wide.u32 %rd63, %r63, 4;\nadd.s64 %in, %base, %rd63;\nadd.s64 %out, %out, %rd63;\n"
#define PTX_END "ret;\n}\n"

typedef struct ptx_launch {
    uint32_t blocks, threads, shared_bytes; /* 0: 1 block, 32 threads, none */
    sc_machine_schedule schedule;
    sc_machine_copies copies;
    sc_machine_order order;
    sc_ptx_errors errors;
    bool bounds_only, writes_in;  /* writes_in: `in` is not read only */
    uint32_t max_turns, elements; /* elements of the arrays; 0: one a thread */
} ptx_launch;

/* In: element i is i. False: the report says why. */
static inline bool ptx_try(const char *text, ptx_launch how, uint32_t *out,
                           sc_machine_report *report)
{
    uint32_t blocks = how.blocks == 0 ? 1 : how.blocks,
             threads = how.threads == 0 ? 32 : how.threads,
             count = how.elements == 0 ? blocks * threads : how.elements;
    sc_ptx_module *module = sc_ptx_load(text, strlen(text), report);
    if (module == NULL)
        return false;
    sc_machine_memory *memory = sc_machine_memory_new();
    uint32_t *in = sc_machine_alloc(memory, count * sizeof *in, SC_MACHINE_AT_END, "in"),
             *to = sc_machine_alloc(memory, count * sizeof *to, SC_MACHINE_AT_END, "out");
    for (uint32_t i = 0; i < count; i++)
        in[i] = i;
    sc_machine_read_only(memory, in, !how.writes_in);
    void *params[] = {&in, &to};
    sc_machine_launch launch = {.entry = "k",
                                .blocks = blocks,
                                .threads = threads,
                                .shared_bytes = how.shared_bytes,
                                .params = params,
                                .bounds_only = how.bounds_only,
                                .memory = memory,
                                .schedule = how.schedule,
                                .copies = how.copies,
                                .order = how.order,
                                .max_turns = how.max_turns,
                                .seed = 5};
    bool ok = sc_ptx_run(module, &launch, how.errors, report);
    if (ok && out != NULL)
        memcpy(out, to, count * sizeof *to);
    sc_machine_memory_free(memory);
    sc_ptx_unload(module);
    return ok;
}

static inline void ptx_run(const char *text, ptx_launch how, uint32_t *out)
{
    sc_machine_report report;
    if (!ptx_try(text, how, out, &report))
        fail_msg("%s", report.text);
}

/* Under every schedule and both times of copies the same first `count` elements; with all of the
 * first run's. */
static inline void ptx_run_all(const char *text, ptx_launch how, uint32_t *out, uint32_t count)
{
    uint32_t *other = calloc(how.elements > count ? how.elements : count, sizeof *other);
    ptx_run(text, how, out);
    for (int s = 0; s < SC_MACHINE_SCHEDULE_COUNT; s++) {
        for (int c = 0; c < 2; c++) {
            how.schedule = (sc_machine_schedule)s;
            how.copies = (sc_machine_copies)c;
            how.order = (sc_machine_order)s;
            ptx_run(text, how, other);
            assert_memory_equal(out, other, count * sizeof *other);
        }
    }
    free(other);
}

#endif
