/* Overlaps collectives with computation: reorders a function's instruction list so that each
 * collective starts when its operands are ready and is waited for when its results are used, as far
 * as this takes no more memory than the original list.
 *
 * Each instruction except FINISH is an item of the list.
 * - Starts: a collective moves up to just after the last item that computes its operands. Kernels
 *   and copies that only prepare its operands (a cast, packing) move with it. Stored parameters
 *   have no producer, so their gathers stay where `tune prefetch` put them. A start that depends on
 *   another collective goes after the next start that follows it, so that the wait does not stall.
 * - Waits: a FINISH goes before the first item that reads or writes the collective's results, or
 *   writes its operands.
 * - Bounds: the number of in-flight collectives is limited. A start moves up only as far as there
 *   is memory for its results, and a wait moves down only while there is memory for what it would
 *   free: live bytes never exceed a share of the original peak, except where they already did. With
 *   no share the list stays as it is.
 *
 * Items keep their operands, so results are bitwise the same. All ranks run one list, so the order
 * of calls is the same in every group. sc_memory_plan_verify checks afterwards that no in-flight
 * buffer is accessed. */
#ifndef SHARDC_CODEGEN_PROGRAM_OVERLAP_H
#define SHARDC_CODEGEN_PROGRAM_OVERLAP_H

#include "codegen/memory/plan.h"

enum {
    SC_OVERLAP_IN_FLIGHT = 8, /* in-flight collectives per rank */
    SC_OVERLAP_ALL = 256      /* the whole peak, as a share */
};

/* Shares of the peak that starts and waits may use. */
typedef struct sc_overlap_room {
    uint32_t starts, waits; /* in units of 1 / SC_OVERLAP_ALL */
} sc_overlap_room;

/* Replaces the function's list, in the arena, and leaves the old one intact; its wishes follow
 * their instructions. Every collective must be followed by exactly one FINISH. */
void sc_overlap(sc_arena *arena, sc_image *image, uint32_t func, const sc_overlap_room *room,
                sc_memory_wish *wishes, uint32_t wish_count);

#endif
