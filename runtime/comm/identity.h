/* Compares what the processes of a job must have in common: lines "NAME VALUE", in the same order
 * on all ranks. Ranks started with different options would compute a mixture of both. */
#ifndef SHARDC_RUNTIME_COMM_IDENTITY_H
#define SHARDC_RUNTIME_COMM_IDENTITY_H

#include "runtime/comm/comm.h"

enum { SC_IDENTITY_ROOM = 8192 /* including the terminating zero */ };

/* True if two ranks' lines differ; `out` then names the first difference: "rank 2 has --seed 7,
 * rank 0 has --seed 5". */
bool sc_identity_differs(const char *a, uint32_t rank_a, const char *b, uint32_t rank_b, char *out,
                         size_t size);

/* Compares the lines of all ranks. Every rank must call it; if any differ, all get
 * SHARDC_ERROR_ARGUMENT. */
shardc_status sc_identity_compare(sc_comm *comm, const char *text, shardc_error *error);

#endif
