/* The thread of a rank that copies between its arenas while the rank computes. Copies run one after
 * the other, in the order in which they are started. All calls come from the rank's thread. */
#ifndef SHARDC_RUNTIME_CPU_COPIER_H
#define SHARDC_RUNTIME_CPU_COPIER_H

#include "runtime/session/rank.h"

typedef struct sc_copier sc_copier;

/* Starts the thread, of a rank whose instructions are bound. *out is NULL if it has no transfers.
 * Takes `device` of bound transfers. */
shardc_status sc_copier_new(sc_rank *rank, sc_copier **out, shardc_error *error);
/* NULL is allowed; nothing may be in flight. */
void sc_copier_free(sc_copier *copier);

void sc_copier_start(sc_copier *copier, const sc_bound *transfer);
/* Waits for a started transfer, and so for all before it. Returns the error of the first copy that
 * failed; those after it are not made. */
shardc_status sc_copier_finish(sc_copier *copier, const sc_bound *transfer, shardc_error *error);
/* Waits for all that were started and forgets an error. NULL is allowed. */
void sc_copier_drain(sc_copier *copier);

#endif
