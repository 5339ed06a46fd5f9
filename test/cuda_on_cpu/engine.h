/* What the files of the engine share. */
#ifndef SHARDC_TEST_CUDA_ON_CPU_ENGINE_H
#define SHARDC_TEST_CUDA_ON_CPU_ENGINE_H

#include <signal.h>

#include "test/cuda_on_cpu/fiber.h"
#include "test/cuda_on_cpu/harness.h"
#include "test/cuda_on_cpu/table.h"

enum {
    SC_MACHINE_WARP = 32,
    SC_MACHINE_MAX_THREADS = 1024,
    SC_MACHINE_MAX_PARAMS = 192,
    SC_MACHINE_STACK = 128 << 10,
    SC_MACHINE_MAX_TURNS = 1 << 27
};

/* ---- memory.c: arrays of the device ---- */
typedef struct sc_machine_array {
    char *pages; /* all of it, a page that nobody may touch at either end */
    size_t page_bytes;
    char *data;
    size_t bytes;
    char name[48];
    bool read_only;
    struct sc_machine_byte *touched; /* a launch's, of each byte; NULL: not yet, or read_only */
} sc_machine_array;

/* The arrays in order of their addresses, copied: a launch's own. NULL: memory ran out. */
sc_machine_array *sc_machine_arrays(sc_machine_memory *memory, uint32_t *count);
/* The array with the address in its pages, or NULL. */
sc_machine_array *sc_machine_array_of(sc_machine_array *arrays, uint32_t count, const void *at);

/* ---- module.c ---- */
/* The kernel's function, or NULL. */
void (*sc_machine_entry(const sc_machine_module *module, const char *name))(void);
int sc_machine_report_add(sc_machine_report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- run.c: a launch under way ---- */
/* Two bytes of 0x7ff5, a NaN in floats of all sizes and not the one that conversions give. */
static inline char sc_machine_poison(uintptr_t at)
{
    return at % 2 == 0 ? (char)0xf5 : (char)0x7f;
}

typedef enum sc_machine_state {
    SC_MACHINE_READY,
    SC_MACHINE_AT_BARRIER,
    SC_MACHINE_AT_WARP,
    SC_MACHINE_LEFT
} sc_machine_state;

/* Sixteen bytes under way to shared memory. */
typedef struct sc_machine_copy {
    int64_t to;
    const void *from;
    int bytes;
    int line;
    uint32_t group;
} sc_machine_copy;

typedef struct sc_machine_thread {
    sc_fiber fiber;
    char *stack; /* NULL: not begun */
    sc_machine_state state;
    int index, line;
    int what; /* AT_WARP */
    sc_machine_lane *lane;
    sc_machine_copy *copies; /* in order of issue, from first_copy on */
    uint32_t first_copy, copy_count, copy_room, groups;
} sc_machine_thread;

/* Who touched a byte last. Epochs count barriers of the block, warp epochs sc_sync_warp; both only
 * grow, over blocks too, so that a byte whose write_epoch is older than the block was not written
 * in it. Threads are counted from 1, 0 is none. */
typedef struct sc_machine_byte {
    uint32_t write_epoch, write_warp_epoch, read_epoch, read_warp_epoch;
    int write_line, read_line;
    uint16_t writer, reader;
    uint16_t other;   /* another reader of the reader's warp, in the same warp epoch */
    uint16_t foreign; /* a reader of another warp, in the same epoch */
    uint16_t copying; /* the thread whose copy is under way */
    bool read_before; /* by an earlier block */
} sc_machine_byte;

typedef struct sc_machine_warp {
    uint32_t epoch;
    int arrived;
    int what, line, first; /* of the first that arrived */
} sc_machine_warp;

typedef struct sc_machine_stacks sc_machine_stacks;

typedef struct sc_machine_block {
    const sc_machine_launch *launch;
    sc_machine_report *report;
    void (*entry)(void);
    uint64_t params[SC_MACHINE_MAX_PARAMS];
    int param_count;
    int64_t block;
    int threads, warps;
    sc_machine_thread *thread, *now; /* now: NULL while the scheduler runs */
    sc_machine_warp warp[SC_MACHINE_MAX_THREADS / SC_MACHINE_WARP];
    sc_fiber scheduler;
    int arrived, barrier_line, barrier_first; /* at the block's barrier */
    int left;
    uint32_t turns; /* of the block's threads */
    uint32_t epoch, first_epoch;
    char *shared;
    sc_machine_byte *bytes;
    sc_machine_array *arrays; /* NULL: not looked at */
    uint32_t array_count;
    sc_machine_array *array; /* the last that was looked up */
    sc_machine_stacks *kept; /* what the stacks are of */
    char *stacks;            /* a stack's lowest page is nobody's */
    size_t stack_count, stacks_begun;
    char **free_stacks;
    size_t free_count;
    bool failed;
    char why[768]; /* failed: what the report says of it, and where it was: */
    int why_line, why_thread;
    const void *code; /* of the last access without a wrapper, or NULL */
} sc_machine_block;

/* The launch of this thread of the host, or NULL. */
sc_machine_block *sc_machine_now(void);
/* Ends the run, from a thread of the block; does not return. `line` 0: where b->code is. */
_Noreturn void sc_machine_stop(sc_machine_block *b, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Gives way to the scheduler until the thread is READY. */
void sc_machine_yield(sc_machine_block *b);

/* ---- stacks.c: SC_MACHINE_MAX_THREADS stacks, for a launch; NULL: memory ran out ---- */
sc_machine_stacks *sc_machine_stacks_take(void);
void sc_machine_stacks_give_back(sc_machine_stacks *stacks);
/* Where they begin, one behind the other. */
char *sc_machine_stacks_first(sc_machine_stacks *stacks);
/* One of them, its lowest page nobody's; numbers come in order. NULL: memory ran out. */
char *sc_machine_stacks_begin(sc_machine_stacks *stacks, size_t number);

/* ---- faults.c: the process's handlers become ours, those before are kept for faults of others
 * ---- */
void sc_machine_catch_faults(void);

/* ---- order.c: the thread touches a byte; the run ends when that is a race. `at` is the number of
 * the byte in what `name` names ---- */
void sc_machine_order_read(sc_machine_block *b, sc_machine_byte *byte, const sc_machine_thread *t,
                           int line, const char *name, int64_t at);
void sc_machine_order_write(sc_machine_block *b, sc_machine_byte *byte, const sc_machine_thread *t,
                            int line, const char *name, int64_t at);
/* Of global memory, before either of the two: what other blocks did. */
void sc_machine_order_blocks(sc_machine_block *b, const sc_machine_byte *byte, int line,
                             const char *name, int64_t at, bool writes);

/* ---- shared.c, copies, and global memory: the table's functions ---- */
void sc_machine_shared_start(sc_machine_block *b);
void sc_machine_shared_read(sc_machine_block *b, const sc_machine_thread *t, int line, int64_t at,
                            void *to, int bytes, int align);
void sc_machine_shared_load(int line, int64_t at, void *to, int bytes, int align);
void sc_machine_shared_store(int line, int64_t at, const void *from, int bytes, int align);
void sc_machine_copy_async(int line, int64_t to, const void *from, int bytes);
void sc_machine_copy_commit(int line);
void sc_machine_copy_wait(int line, int newest);
/* Of vectors and copies. */
void sc_machine_global_read(sc_machine_block *b, int line, const void *from, int bytes);
void sc_machine_global_load(int line, const void *from, void *to, int bytes, int align);
void sc_machine_global_store(int line, void *to, const void *from, int bytes, int align);
/* Atomically; in races it counts as a read, so that only what is not atomic must be ordered. */
void sc_machine_global_add(int line, void *at, int64_t value, int bytes);
/* Atomically; of no account in races. */
void sc_machine_global_lower(int line, uint64_t *at, uint64_t value);
void sc_machine_touch(const void *code, const void *at, int64_t bytes, int writes);

/* ---- warp.c: what the lanes do once all have arrived. lanes[i]: of thread `first` + i ---- */
const char *sc_machine_what(int what);
void sc_machine_do_together(sc_machine_block *b, int what, sc_machine_thread *lanes);

#endif
