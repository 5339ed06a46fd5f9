/* Shared by the parts of sc_image_check: check.c (entry point and tables), check_instr.c
 * (instructions), checker.c (helpers). */
#ifndef SHARDC_PROGRAM_CHECK_H
#define SHARDC_PROGRAM_CHECK_H

#include "program/format.h"

typedef struct sc_checker {
    const sc_image *image;
    sc_arena *arena;
    const char *what, *name; /* the item being checked: "buffer", its index and its name */
    uint32_t index;
    const char *fault;
} sc_checker;

/* ---- checker.c ---- */
void sc_checker_at(sc_checker *c, const char *what, uint32_t index, const char *name);
/* Records the first fault; returns false. */
bool sc_checker_fail(sc_checker *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

bool sc_check_digit(sc_checker *c, uint64_t divide, uint64_t modulo);
/* Checks the terms' digits and computes the range of the sum over all ranks. */
bool sc_check_terms(sc_checker *c, const sc_image_terms *terms, int64_t *out_least,
                    int64_t *out_most);
/* ---- check_instr.c ---- */
bool sc_check_collectives(sc_checker *c);
bool sc_check_instrs(sc_checker *c, const sc_image_func *func);

#endif
