/* NCCL's communicators of a rank: of the world, its stage, its groups and its boundaries. */
#ifndef SHARDC_RUNTIME_CUDA_NCCL_H
#define SHARDC_RUNTIME_CUDA_NCCL_H

#include "runtime/cuda/rank.h"

typedef struct sc_nccl_abortion sc_nccl_abortion; /* runtime/cuda/nccl_comms.c */

typedef struct sc_nccl_rank {
    /* All of them: those of the groups, those of the boundaries, the stage's, the world's. A group
     * may have the stage's, and the stage has the world's if there is only one. NULL: not open */
    sc_nccl_comm *all;
    uint32_t count;
    sc_nccl_comm *groups, *boundaries, *stage, *world; /* in `all` */
    bool is_open;                                      /* all are created, and none has failed */
    sc_nccl_abortion *aborts;                          /* scratch for aborting all of them */
} sc_nccl_rank;

/* ---- nccl.c ---- */
const sc_nccl *sc_nccl_of(const sc_rank *rank);
sc_nccl_rank *sc_nccl_rank_of(const sc_rank *rank);

/* Turns a result of NCCL into a status; *error names the call, the library's reason and `what` (may
 * be ""). */
shardc_status sc_nccl_check(const sc_nccl *nccl, sc_nccl_comm comm, sc_nccl_result result,
                            const char *call, const char *what, shardc_error *error);
#define SC_NCCL(nccl, comm, error, what, name, ...)                                                \
    sc_nccl_check(nccl, comm, (nccl)->name(__VA_ARGS__), #name, what, error)
/* Waits until a non-blocking operation on the communicator is complete. */
shardc_status sc_nccl_settle(const sc_rank *rank, sc_nccl_comm comm, const char *what,
                             shardc_error *error);

sc_nccl_dtype sc_nccl_dtype_of(sc_dtype dtype);

/* ---- nccl_comms.c: as sc_cuda_comm has them ---- */
shardc_status sc_nccl_open_comms(sc_rank *rank, shardc_error *error);
void sc_nccl_close_comms(sc_rank *rank);
shardc_status sc_nccl_poll(sc_rank *rank, shardc_error *error);
void sc_nccl_abort(sc_rank *rank, const char *why);

/* ---- messages_nccl.c ---- */
/* Lets both ends of a boundary that has just been opened connect. */
shardc_status sc_nccl_connect(sc_rank *rank, uint32_t boundary, shardc_error *error);
shardc_status sc_nccl_transmit(sc_rank *rank, uint32_t boundary, sc_cuda_message *message,
                               shardc_error *error);

#endif
