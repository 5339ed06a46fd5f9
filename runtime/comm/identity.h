/* What the processes of a job must have in common: lines of text, "NAME VALUE", in the same order on all of them. Ranks that were started
 * differently would compute a mixture of what was asked for. */
#ifndef SHARDC_RUNTIME_COMM_IDENTITY_H
#define SHARDC_RUNTIME_COMM_IDENTITY_H

#include "runtime/comm/comm.h"

enum { SC_IDENTITY_ROOM = 8192 /* with the zero at its end */ };

/* Whether two ranks were started differently; `out` then names the first difference: "rank 2 has --seed 7, rank 0 has --seed 5". */
bool sc_identity_differs(const char *a, uint32_t rank_a, const char *b, uint32_t rank_b, char *out, size_t size);

/* The same among all ranks of a world, which all call it: SHARDC_ERROR_ARGUMENT on all of them. */
shardc_status sc_identity_compare(sc_comm *comm, const char *text, shardc_error *error);

#endif
