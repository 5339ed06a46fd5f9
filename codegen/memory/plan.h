/* The memory plan: every buffer of a program gets its offset in the one arena of a rank, so that a run allocates nothing.
 *
 * Time is the order of a function's instruction list. States live for ever. Any other buffer belongs to one function and lives from its
 * first access to its last one there; what a collective reads or writes stays alive until its FINISH (without one, until the function
 * ends), an input is written when its call starts, an output stays until it can be fetched: the end of the schedule, or of a function that
 * is not part of it. Calls follow one another, so what is not an output of an earlier call overlaps freely with another function's buffers.
 *
 * A plan is a function of the image alone: the same image gives the same offsets. */
#ifndef SHARDC_CODEGEN_MEMORY_PLAN_H
#define SHARDC_CODEGEN_MEMORY_PLAN_H

#include "program/format.h"

/* A wish: at an instruction, the buffer that it writes may take the place of one that it reads (a kernel's argument in place:
 * sc_kernel_may_share). Granted if it is the first access of `into` and the last of `from`, both have one size, and neither is a state. */
typedef struct sc_memory_wish {
    uint32_t func, instr;
    uint32_t into, from; /* buffers */
} sc_memory_wish;

/* What the instruction does with an argument. INOUT also for a gemm that accumulates; what follows a gemm's operands is scratch: OUT. */
sc_image_access sc_memory_access(const sc_image *image, const sc_image_instr *instr, uint32_t arg);

/* Where a rank's memory goes. Bytes are what buffers take: multiples of SC_IMAGE_ALIGN. */
typedef struct sc_memory_plan {
    int64_t arena_bytes;            /* the image's */
    int64_t live_bytes;             /* alive at once, at most: no plan can do with less */
    int64_t state_bytes;            /* what is alive always */
    int64_t kinds[SC_BUFFER_KINDS]; /* at the moment of live_bytes; their sum */
    uint32_t func;                  /* that moment; SC_IMAGE_NONE when only states take memory */
    uint32_t instr;                 /* in func; SC_IMAGE_NONE: before its first */
    uint32_t live_count, *live;     /* buffers alive then but for states, largest first; one of those that share their place */
    uint32_t in_place;              /* wishes granted */
} sc_memory_plan;

/* Fills the offsets of all buffers and the image's arena_bytes. NULL, or why there is no plan, in the arena: a buffer that two functions
 * use and that is no state, sizes beyond 2^62 bytes. Wishes stand in any order; of contradicting ones the first is granted. Instructions,
 * states, inputs, outputs and wishes must name what the image has. */
const char *sc_memory_plan_make(sc_arena *arena, sc_image *image, const sc_memory_wish *wishes, uint32_t wish_count, sc_memory_plan *out);

/* NULL, or what is wrong with the image's offsets, in the arena. Knows nothing of how they were made: it replays the schedule and every
 * function that is not part of it, keeps who wrote each byte of the arena last, and finds any access to a buffer that another one has
 * overwritten; also reads of what nobody wrote, and instructions, collectives among them, that touch what a collective in flight moves. */
const char *sc_memory_plan_verify(sc_arena *arena, const sc_image *image, const sc_memory_wish *wishes, uint32_t wish_count);

#endif
