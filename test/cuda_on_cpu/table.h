/* What a kernel asks of the engine that runs it: hooks.c, in the kernel's shared object, forwards
 * the calls of machine.h to this table, which the engine gives it. C and C++; the text also stands
 * in front of hooks.c and machine.h where they are compiled. `line` is the line of the kernel's
 * text that asks. Of shared memory, `at` is a byte of the block's. */
#ifndef SHARDC_TEST_CUDA_ON_CPU_TABLE_H
#define SHARDC_TEST_CUDA_ON_CPU_TABLE_H

#include <stdint.h>

/* What a whole warp does at once. */
enum {
    SC_MACHINE_SYNC_WARP,
    SC_MACHINE_SHUFFLE,
    SC_MACHINE_SHUFFLE_XOR,
    SC_MACHINE_SHUFFLE_UP,
    SC_MACHINE_BALLOT,
    SC_MACHINE_LOAD_MATRICES,
    SC_MACHINE_LOAD_MATRICES_TRANSPOSED,
    SC_MACHINE_MMA_BF16,
    SC_MACHINE_MMA_F16
};

/* A lane's part in it. */
typedef struct sc_machine_lane {
    uint64_t value; /* in and out */
    int argument;   /* of a shuffle: lane, mask, by */
    int64_t row;    /* of matrices: where the lane's row is in shared memory */
    uint32_t r[4];  /* matrices that were loaded; a of a product */
    uint32_t b[2];
    float c[4]; /* in and out */
} sc_machine_lane;

typedef struct sc_machine_table {
    int (*thread)(void);
    int (*threads)(void);
    int64_t (*block)(void);
    void (*sync)(int line);
    void (*together)(int line, int what, sc_machine_lane *lane);
    /* The address is a multiple of `align`, else the run ends with a report. */
    void (*shared_load)(int line, int64_t at, void *to, int bytes, int align);
    void (*shared_store)(int line, int64_t at, const void *from, int bytes, int align);
    void (*global_load)(int line, const void *from, void *to, int bytes, int align);
    void (*global_store)(int line, void *to, const void *from, int bytes, int align);
    void (*copy_async)(int line, int64_t to, const void *from, int bytes);
    void (*copy_commit)(int line);
    void (*copy_wait)(int line, int newest);
    void (*global_add)(int line, void *at, int64_t value, int bytes);
    void (*fail)(int line, uint64_t *failure, uint64_t value);
    /* Memory that the kernel reads or writes without a wrapper: its stack, global memory. `code` is
     * where it does. */
    void (*touch)(const void *code, const void *at, int64_t bytes, int writes);
} sc_machine_table;

#endif
