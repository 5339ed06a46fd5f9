/* Kinds of state of a program and of its initialisation. The compiler and the runtime share these
 * numbers. */
#ifndef SHARDC_SUPPORT_STATE_H
#define SHARDC_SUPPORT_STATE_H

#include <stdint.h>

typedef enum sc_state_kind {
    SC_STATE_PARAM,
    SC_STATE_CACHE,
    SC_STATE_GRAD,     /* the gradient of a parameter, summed over micro-batches */
    SC_STATE_OPT,      /* optimizer state of a parameter */
    SC_STATE_SCALAR,   /* a number passed to every step: optimizer0.lr */
    SC_STATE_GATHERED, /* a gathered copy of a parameter, for a whole step */
    SC_STATE_SUM,      /* a number summed over the micro-batches of a step: total, weight */
    SC_STATE_SLOT,     /* a value passed from one call of a micro-batch to another, in a stage */
    SC_STATE_KINDS
} sc_state_kind;

typedef enum sc_init_kind {
    SC_INIT_ZEROS,
    SC_INIT_ONES,
    SC_INIT_CONSTANT, /* args: v */
    SC_INIT_NORMAL,   /* std */
    SC_INIT_UNIFORM,  /* low, high */
    SC_INIT_XAVIER,   /* fan-in, fan-out (0 until known) */
    SC_INIT_KINDS
} sc_init_kind;

extern const char *const sc_state_kind_names[SC_STATE_KINDS];
extern const char *const sc_init_kind_names[SC_INIT_KINDS];
extern const uint8_t sc_init_kind_args[SC_INIT_KINDS]; /* number of args */

/* Computes initial values of the elements with row-major indices first, first + 1, .. of the whole
 * tensor. `stream` is sc_fnv1a64 of the state's path. The caller rounds them to the dtype it
 * stores. */
void sc_init_values(sc_init_kind kind, const double args[2], uint64_t seed, uint64_t stream,
                    uint64_t first, uint64_t count, double *out);

#endif
