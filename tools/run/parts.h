/* The modules of a program to run or to build, as parts of what is generated. */
#ifndef SHARDC_TOOLS_RUN_PARTS_H
#define SHARDC_TOOLS_RUN_PARTS_H

#include "codegen/program/generate.h"
#include "tools/driver/driver.h"

/* Sets the parts of a program: of `c`, and of a second one that shares its state (NULL: none),
 * whose function gets the name (NULL: that of its entry). Without stages functions are numbered in
 * the order of the parts. With stages an entry is one function and comes before a train step, so it
 * is function 0; a second one is function 1. Returns the number of parts. */
uint32_t sc_parts_of(const sc_compiled *c, const sc_compiled *second, const char *name,
                     sc_generate_part parts[2]);
/* The number of a function in that program: of the entry `c`; of the second one. */
uint32_t sc_first_func(const sc_compiled *c);
uint32_t sc_second_func(const sc_compiled *c, const sc_compiled *second);

#endif
