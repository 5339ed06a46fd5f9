/* Shared by the parts of sc_image_check: check.c (entry point and tables), check_instr.c
 * (instructions), checker.c (helpers). */
#ifndef SHARDC_PROGRAM_CHECK_H
#define SHARDC_PROGRAM_CHECK_H

#include "program/format.h"

/* A range of one of the arenas that an instruction accesses. */
typedef struct sc_touched {
    int64_t begin, end; /* in the first copy of its buffer */
    uint32_t buffer;
    bool is_written, is_host;
} sc_touched;

static inline bool sc_touches_overlap(const sc_touched *a, const sc_touched *b)
{
    return a->is_host == b->is_host && a->begin < b->end && b->begin < a->end;
}

typedef struct sc_touches {
    uint32_t count;
    sc_touched *list;
} sc_touches;

typedef struct sc_checker {
    const sc_image *image;
    sc_arena *arena;
    const char *what, *name; /* the item being checked: "buffer", its index and its name */
    uint32_t index;
    const char *fault;
    /* by function and instruction, as sc_check_instrs finds them; NULL if there are no stages,
     * where nobody needs them */
    sc_touches **touches;
    sc_touches *kept; /* where the accesses of the instruction being checked go; or NULL */
} sc_checker;

/* ---- checker.c ---- */
void sc_checker_at(sc_checker *c, const char *what, uint32_t index, const char *name);
/* Records the first fault; returns false. */
bool sc_checker_fail(sc_checker *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

bool sc_check_digit(sc_checker *c, uint64_t divide, uint64_t modulo);
/* Checks the terms' digits and computes the range of the sum over all ranks. */
bool sc_check_terms(sc_checker *c, const sc_image_terms *terms, int64_t *out_least,
                    int64_t *out_most);
/* ---- check_calls.c ---- */
/* Checks the schedule and the calls of functions that are lists of them. */
bool sc_check_calls(sc_checker *c);
/* ---- check_messages.c ---- */
/* Checks the stage, boundaries and messages. */
bool sc_check_pipeline(sc_checker *c);
/* Checks that the calls of each list, and every function that is in none, wait for the
 * messages that they start, and access nothing of those in flight. Needs `touches`. */
bool sc_check_flight(sc_checker *c);
/* ---- check_instr.c ---- */
bool sc_check_collectives(sc_checker *c);
/* Checks the dtypes and counts of a call's parts; each count must be a multiple of `divisor`. */
bool sc_check_parts(sc_checker *c, uint32_t part_count, const sc_dtype *dtypes,
                    const int64_t *counts, int64_t divisor);
bool sc_check_instrs(sc_checker *c, const sc_image_func *func);

#endif
