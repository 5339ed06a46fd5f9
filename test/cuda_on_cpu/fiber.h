/* Switching between stacks. A context is where a stack was left; it is resumed once. */
#ifndef SHARDC_TEST_CUDA_ON_CPU_FIBER_H
#define SHARDC_TEST_CUDA_ON_CPU_FIBER_H

#include <stddef.h>

typedef void *sc_fiber;

/* A context that calls run() on the stack whose highest byte is before `top`, a multiple of 16.
 * run() does not return. */
sc_fiber sc_fiber_new(void *top, void (*run)(void));
/* Leaves the present context in *left and goes on at `to`. */
void sc_fiber_switch(sc_fiber *left, sc_fiber to);

#endif
