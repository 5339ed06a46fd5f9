/* Collectives overlap what computes: a function's instruction list is put into another order, in which each collective starts where its
 * operands are there and is waited for where its results are used, as far as that takes no more memory than the list took before.
 *
 * What it does with a list of which every instruction but FINISH is an item:
 *   starts   A collective moves up to behind the last item that computes what it moves; kernels and copies that only prepare its operands
 *            (a cast, pieces brought together) move with it. Parameters as they are stored were computed by nobody: their gathers stay
 *            where `tune prefetch` put them. What waits for another collective goes behind the next start after that one, so that the
 *            wait is not a stop.
 *   waits    A FINISH stands before the first item that reads or writes what the collective brings, or writes what it takes.
 *   bounds   So many collectives are under way at most. A start goes up only as far as there is room for what it brings, and a wait goes
 *            down only as long as there is room for what it would free: what is alive at once never is more than a share of what was
 *            alive at the list's peak, but where it already was. With no share the list stays as it is.
 *
 * Items keep their operands, so results are the same bits. All ranks run one list, so the order of calls is the same in every group; that
 * nothing is touched while it is on the move is proved afterwards, by sc_memory_plan_verify. */
#ifndef SHARDC_CODEGEN_PROGRAM_OVERLAP_H
#define SHARDC_CODEGEN_PROGRAM_OVERLAP_H

#include "codegen/memory/plan.h"

enum {
    SC_OVERLAP_FLIGHTS = 8, /* collectives of a rank that are under way at once */
    SC_OVERLAP_ALL = 256    /* the whole of the peak as a share */
};

/* The shares of the peak that starts and waits may fill. */
typedef struct sc_overlap_room {
    uint32_t starts, waits; /* of SC_OVERLAP_ALL */
} sc_overlap_room;

/* The function's list is replaced, in the arena, the old one left as it was; wishes of it follow their instructions. Every collective must
 * have one FINISH behind it. */
void sc_overlap(sc_arena *arena, sc_image *image, uint32_t func, const sc_overlap_room *room, sc_memory_wish *wishes, uint32_t wish_count);

#endif
