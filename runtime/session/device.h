/* The device interface: what differs between CPU and GPU. It executes instructions and holds the
 * ranks' memory. What is common to all devices (functions, values, synchronization between ranks)
 * is in session.c, bind.c, exec.c and values.c.
 *
 * A rank's arena is image->arena_bytes of zeroed device memory, rank->host image->host_bytes of
 * host memory. A buffer's address is its arena's plus the buffer's offset; only the device
 * dereferences it. All calls for a rank come from that
 * rank's thread, except `read` and `write`, which may come from any one thread while the rank runs
 * nothing. */
#ifndef SHARDC_RUNTIME_SESSION_DEVICE_H
#define SHARDC_RUNTIME_SESSION_DEVICE_H

#include "runtime/session/rank.h"

struct sc_device {
    const char *name; /* the part of a program's target before ':' */

    /* Checks whether this machine can run the session's ranks, whose images are set. Called before
     * anything is allocated. */
    shardc_status (*check)(const shardc_session *session, shardc_error *error);
    /* Creates what a session's ranks share: code and libraries. Sets session->device_state. */
    shardc_status (*open)(shardc_session *session, shardc_error *error);
    void (*close)(shardc_session *session); /* called after a failed `open` as well */

    /* Sets rank->arena, rank->host and rank->device_state, and creates everything that the rank's
     * instructions need. Their addresses are already bound (sc_rank_bind). */
    shardc_status (*open_rank)(sc_rank *rank, shardc_error *error);
    shardc_status (*prepare_rank)(sc_rank *rank, shardc_error *error);
    void (*close_rank)(sc_rank *rank); /* called after a failed `open_rank` as well */
    /* Opens this rank's end of the groups that collectives run in. Called again after the world was
     * lost. */
    shardc_status (*open_groups)(sc_rank *rank, shardc_error *error);

    /* Calling a function: `begin`, then every instruction in order, then `end`, which returns when
     * everything is done and outputs can be read. `failed`: the call was abandoned after an error;
     * nothing may stay in flight. If a check in the model fails, the error is kept in *error and
     * the call returns SHARDC_OK, because other ranks wait for this one. `begin` may execute the
     * whole call itself; it then sets *out_done. */
    shardc_status (*begin)(sc_rank *rank, uint32_t func, uint32_t micro_batch, bool *out_done,
                           shardc_error *error);
    shardc_status (*kernel)(sc_rank *rank, sc_bound *bound, uint32_t micro_batch,
                            shardc_error *error);
    shardc_status (*gemm)(sc_rank *rank, sc_bound *bound, shardc_error *error);
    shardc_status (*copy)(sc_rank *rank, sc_bound *bound, shardc_error *error);
    /* Start a collective or a message, and make the rank's computation wait for it. A message may
     * be started in one call and finished in a later one. */
    shardc_status (*start)(sc_rank *rank, sc_bound *bound, shardc_error *error);
    /* Starts the copies between the arenas. */
    shardc_status (*transfer)(sc_rank *rank, sc_bound *bound, shardc_error *error);
    /* Waits for a collective or transfer. */
    shardc_status (*finish)(sc_rank *rank, sc_bound *started, shardc_error *error);
    shardc_status (*end)(sc_rank *rank, uint32_t func, bool failed, shardc_error *error);
    /* Called after the instructions of a call that `begin` did not execute, with their status;
     * returns the call's. *out_again: none was executed, because the device recorded them to
     * execute all at once and could not; they are run again, without it. NULL: not needed. */
    shardc_status (*settle)(sc_rank *rank, uint32_t func, shardc_status status, bool *out_again,
                            shardc_error *error);
    /* After a measured call (options.profile, or a trace): reports whether an instruction ran, and
     * when, in seconds of the host's monotonic clock. NULL if instructions complete before their
     * call returns. */
    shardc_status (*time)(sc_rank *rank, uint32_t func, uint32_t instr, bool *out_ran,
                          double *out_begin, double *out_end, shardc_error *error);

    /* Copy between a buffer of either arena and the caller's memory; `at`: from which byte of the
     * buffer and its copies on. */
    shardc_status (*read)(sc_rank *rank, uint32_t buffer, int64_t at, void *to, int64_t bytes,
                          shardc_error *error);
    shardc_status (*write)(sc_rank *rank, uint32_t buffer, const void *from, int64_t bytes,
                           shardc_error *error);
    /* Makes the first `bytes` of a buffer of the arena zeros. NULL: they are written. */
    shardc_status (*clear)(sc_rank *rank, uint32_t buffer, int64_t bytes, shardc_error *error);
    /* Fills the GEMM tuning report; NULL: the device has none. */
    void (*gemm_tuning)(const shardc_session *session, shardc_gemm_tuning *out);
    void (*graphs)(const shardc_session *session, shardc_graph_report *out); /* as above */
    bool is_host; /* buffers of the device arena are in host memory */
};

#endif
