/* The memory plan: assigns every buffer of a program an offset in an arena of the rank, so that
 * a run allocates nothing. Buffers in host memory have an arena of their own, planned likewise.
 *
 * Time is the position in a function's instruction list. States live forever. Any other buffer
 * belongs to one function and lives from its first access to its last one there, with these
 * extensions: what a collective reads or writes lives until its FINISH (without one, until the
 * function ends); an input is written when its call starts; an output lives until it can be
 * fetched, at the end of the list of calls (the schedule, or that of a function) or of a function
 * that is in none. Calls are sequential, so all but the outputs of earlier calls of a list may
 * overlap with another function's buffers.
 *
 * A plan is a function of the program alone: equal programs get equal offsets. */
#ifndef SHARDC_CODEGEN_MEMORY_PLAN_H
#define SHARDC_CODEGEN_MEMORY_PLAN_H

#include "program/format.h"

/* A wish: at an instruction, the buffer that it writes may take the place of one that it reads (an
 * in-place kernel argument: sc_kernel_may_share). Granted if this is the first access of `into` and
 * the last of `from`, both have one size, and neither is a state. */
typedef struct sc_memory_wish {
    uint32_t func, instr;
    uint32_t into, from; /* buffers */
} sc_memory_wish;

/* How the instruction accesses an argument. The result of a GEMM that accumulates is INOUT;
 * arguments after a GEMM's operands and step tensors are scratch: OUT. */
sc_image_access sc_memory_access(const sc_image *image, const sc_image_instr *instr, uint32_t arg);

/* A breakdown of a rank's device memory. Bytes are multiples of SC_IMAGE_ALIGN, as buffers take
 * them. */
typedef struct sc_memory_plan {
    int64_t arena_bytes;            /* of the program */
    int64_t live_bytes;             /* peak of live bytes: a lower bound for any plan */
    int64_t state_bytes;            /* bytes that are always live */
    int64_t kinds[SC_BUFFER_KINDS]; /* by kind, at the time of the peak; they sum to live_bytes */
    uint32_t func;                  /* of the peak; SC_NONE when only states take memory */
    uint32_t instr;                 /* of the peak, in func; SC_NONE: before the first */
    uint32_t live_count, *live;     /* buffers live at the peak except states, largest first; one
                                     * for each shared place */
    uint32_t in_place;              /* wishes granted */
} sc_memory_plan;

/* Sets the offsets of all buffers and the program's arena_bytes and host_bytes. NULL, or why there
 * is no plan, in the arena: a buffer that is used by two functions but is not a state, sizes beyond
 * 2^62 bytes. Wishes are in any order; of contradicting ones the first is granted. Instructions,
 * states, inputs, outputs and wishes must refer to what the program has. */
const char *sc_memory_plan_make(sc_arena *arena, sc_image *image, const sc_memory_wish *wishes,
                                uint32_t wish_count, sc_memory_plan *out);

/* Returns NULL, or what is wrong with the program's offsets, in the arena. Independent of the
 * planner: replays each list of calls and every function that is in none, tracks the last writer of
 * each byte of the arena, and reports accesses to a buffer that another one has overwritten, reads
 * of bytes that were never written, and instructions (collectives included) that access what an
 * in-flight collective moves. */
const char *sc_memory_plan_verify(sc_arena *arena, const sc_image *image,
                                  const sc_memory_wish *wishes, uint32_t wish_count);

#endif
