/* Emitted CUDA on a CPU: texts are compiled by the host's C++ compiler behind machine.h, and blocks
 * run with a fiber a thread. What a GPU would do silently wrong, or not always, ends a run with a
 * report instead:
 *  - shared memory: a byte read that was not written, outside of the block's, at an address that
 * the width does not divide, touched by two threads of which one writes with no sc_sync (within a
 * warp: sc_sync_warp) between - sc_shuffle and its like order no memory -, or touched while a copy
 * to it is under way;
 *  - barriers that not all threads reach, or at different lines; what warps do together without all
 * 32 lanes;
 *  - integers that overflow, shifts by more bits than there are, indices beyond an array of a
 * thread;
 *  - global memory (sc_machine_alloc): the same for its bounds, its first reads, and what two
 * threads of a launch touch. No run hangs unless a thread by itself does, without waiting for any.
 * Everything here may be called from several threads at once, with launches of their own. */
#ifndef SHARDC_TEST_CUDA_ON_CPU_HARNESS_H
#define SHARDC_TEST_CUDA_ON_CPU_HARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What went wrong, for people; empty while nothing did. */
typedef struct sc_machine_report {
    char text[1024];
} sc_machine_report;

/* ---- modules: texts in one shared object ---- */
typedef struct sc_machine_module sc_machine_module;

/* Each text: helpers and kernels, as they stand behind sc_cuda_machine_text; names of kernels
 * differ. The compiler is $CXX, else c++, g++ or clang++; objects are kept where those of emitted C
 * are (codegen/toolchain/objects.h). NULL after a report, with the compiler's words. */
sc_machine_module *sc_machine_compile(const char *const *texts, uint32_t count,
                                      sc_machine_report *report);
void sc_machine_unload(sc_machine_module *module);
/* The same in two steps: the texts' kernels, which cannot run yet; and those of several modules as
 * one object, which is sooner done than one for each. Names of kernels of modules that are made
 * together differ. */
sc_machine_module *sc_machine_declare(const char *const *texts, uint32_t count,
                                      sc_machine_report *report);
bool sc_machine_make(sc_machine_module *const *modules, uint32_t count, sc_machine_report *report);
bool sc_machine_is_made(const sc_machine_module *module);

typedef struct sc_machine_kernel {
    char name[128];
    int max_threads; /* of its launch bounds */
    int param_count;
} sc_machine_kernel;

/* In the order of the texts; NULL: no such kernel. */
uint32_t sc_machine_kernel_count(const sc_machine_module *module);
const sc_machine_kernel *sc_machine_kernel_at(const sc_machine_module *module, uint32_t index);
const sc_machine_kernel *sc_machine_kernel_named(const sc_machine_module *module, const char *name);

/* ---- memory of the device ---- */
typedef struct sc_machine_memory sc_machine_memory;

sc_machine_memory *sc_machine_memory_new(void);
void sc_machine_memory_free(sc_machine_memory *memory);

/* Where an array lies between pages that nobody may touch: all accesses beyond that end are caught,
 * beyond the other one writes, afterwards (by sc_machine_memory_check). Either way aligned to 64.
 */
typedef enum sc_machine_place {
    SC_MACHINE_AT_END,
    SC_MACHINE_AT_START,
    /* at the start of a page, zeros instead of NaNs: large arrays cost nothing until they are
       touched */
    SC_MACHINE_ZEROED
} sc_machine_place;

/* Filled with 0x7ff5, which is a NaN in floats of all sizes; a read of 4 bytes of it, or of 2,
 * counts as one of what nobody wrote. The name is for reports. NULL: memory ran out. */
void *sc_machine_alloc(sc_machine_memory *memory, size_t bytes, sc_machine_place place,
                       const char *name);
/* By its first byte; false: there is none. */
bool sc_machine_release(sc_machine_memory *memory, void *array);
/* Launches may not write to it; nor may the host, meanwhile. */
void sc_machine_read_only(sc_machine_memory *memory, void *array, bool read_only);
/* Whether all that lies beside arrays is as it was. */
bool sc_machine_memory_check(sc_machine_memory *memory, sc_machine_report *report);

/* ---- launches ---- */
typedef enum sc_machine_schedule {
    SC_MACHINE_LOCK_STEP,      /* each thread goes to its next wrapper that orders */
    SC_MACHINE_WARPS,          /* each warp goes as far as it can */
    SC_MACHINE_WARPS_REVERSED, /* from the last warp and lane to the first */
    SC_MACHINE_SCHEDULE_COUNT
} sc_machine_schedule;

typedef enum sc_machine_copies {
    SC_MACHINE_COPY_AT_ISSUE,
    SC_MACHINE_COPY_AT_WAIT
} sc_machine_copies;
typedef enum sc_machine_order {
    SC_MACHINE_FORWARD,
    SC_MACHINE_REVERSED,
    SC_MACHINE_SHUFFLED
} sc_machine_order;

typedef struct sc_machine_launch {
    const sc_machine_module *module;
    const char *entry;
    int64_t blocks;
    uint32_t threads, shared_bytes;
    void *const *params; /* one for each of the kernel: where its 8 bytes are */
    /* of global memory, look at bounds alone: quicker, and what else is known of a byte takes 40 */
    bool bounds_only;
    /* whose arrays the kernel touches and nothing else; NULL: global memory is not looked at */
    sc_machine_memory *memory;
    sc_machine_schedule schedule;
    sc_machine_copies copies;
    sc_machine_order order; /* of blocks */
    /* of a block's threads: how often they may wait before the block counts as one without an end;
     * 0: 2^27 */
    uint32_t max_turns;
    uint64_t seed; /* of SC_MACHINE_SHUFFLED */
} sc_machine_launch;

/* Runs all blocks; false after a report. */
bool sc_machine_run(const sc_machine_launch *launch, sc_machine_report *report);

/* ---- emitted functions: all stages, under all schedules ---- */
typedef enum sc_machine_kind { SC_MACHINE_IN, SC_MACHINE_OUT, SC_MACHINE_INOUT } sc_machine_kind;

typedef struct sc_machine_argument {
    const char *name;
    sc_machine_kind kind;
    void *data; /* IN, INOUT: what the device gets; OUT, INOUT: what it has afterwards */
    size_t bytes;
    /* 1 + the number of an earlier INOUT or OUT argument whose array this one is; 0: its own */
    int shares;
} sc_machine_argument;

typedef struct sc_machine_stage {
    const char *entry;
    int64_t blocks;
    uint32_t threads, shared_bytes;
} sc_machine_stage;

/* Parameters as codegen/cuda/emit.h has them: the arguments, the scratch, the values, where the
 * step is, where the failure goes. */
typedef struct sc_machine_function {
    const sc_machine_module *module;
    const sc_machine_stage *stages;
    uint32_t stage_count;
    sc_machine_argument *arguments;
    uint32_t argument_count;
    size_t scratch_bytes;
    const int64_t *values;
    uint32_t value_count;
    int64_t step;
    uint32_t runs; /* how many of the runs; 0: all */
} sc_machine_function;

enum { SC_MACHINE_RUNS = 6 };

/* Runs the stages SC_MACHINE_RUNS times, each with arrays of its own: every schedule with both
 * times of copies; orders of blocks and places of arrays take turns. All must end alike, to the
 * bit. *failure: the least of a failed check, else all ones. False after a report; then arguments
 * are as they were. */
bool sc_machine_run_function(const sc_machine_function *function, uint64_t *failure,
                             sc_machine_report *report);

#endif
