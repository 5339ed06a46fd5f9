/* What executes instructions and holds the ranks' memory. A session asks its device for everything that differs between a CPU and a
 * GPU; what does not - functions, values, who waits for whom - is in session.c, bind.c, exec.c and values.c.
 *
 * A rank's arena is device memory of image->arena_bytes, which begins as zeros; a buffer's address is the arena's plus its offset, and is
 * only ever used by the device. All calls of a rank come from the rank's thread, except `read` and `write`: from any one thread while the
 * rank runs nothing. */
#ifndef SHARDC_RUNTIME_SESSION_DEVICE_H
#define SHARDC_RUNTIME_SESSION_DEVICE_H

#include "runtime/session/rank.h"

struct sc_device {
    const char *name; /* of the images' target, up to ':' */

    /* Whether this machine can run the image with so many ranks in this process: before anything is allocated. */
    shardc_status (*check)(const sc_image *image, uint32_t ranks, shardc_error *error);
    /* What the ranks of a session share: code, libraries. Sets session->device_state. */
    shardc_status (*open)(shardc_session *session, shardc_error *error);
    void (*close)(shardc_session *session); /* after an `open` that failed, too */

    /* Sets rank->arena and rank->device_state, with all that the rank's instructions need (their addresses are bound by then: see
     * sc_rank_bind). */
    shardc_status (*open_rank)(sc_rank *rank, shardc_error *error);
    shardc_status (*prepare_rank)(sc_rank *rank, shardc_error *error);
    void (*close_rank)(sc_rank *rank); /* after one that failed, too */
    /* The ends of the groups that collectives run in; again after the world was lost. */
    shardc_status (*open_groups)(sc_rank *rank, shardc_error *error);

    /* A call of a function: `begin`, then each instruction in order, then `end`, which returns when all is done and its outputs can be
     * read. `failed`: the call is given up after an error; nothing may stay in flight. An error of a check is remembered in *error and
     * SHARDC_OK returned: other ranks count on this one. `begin` may do the whole call itself, and says so. */
    shardc_status (*begin)(sc_rank *rank, uint32_t func, uint32_t micro_batch, bool *out_done, shardc_error *error);
    shardc_status (*kernel)(sc_rank *rank, sc_bound *bound, uint32_t micro_batch, shardc_error *error);
    shardc_status (*gemm)(sc_rank *rank, sc_bound *bound, shardc_error *error);
    shardc_status (*copy)(sc_rank *rank, sc_bound *bound, shardc_error *error);
    shardc_status (*start)(sc_rank *rank, sc_bound *bound, shardc_error *error);
    shardc_status (*finish)(sc_rank *rank, sc_bound *started, shardc_error *error);
    shardc_status (*end)(sc_rank *rank, uint32_t func, bool failed, shardc_error *error);
    /* After a call that was measured (options.profile, or a trace): when an instruction of it ran, in seconds of the host's monotonic
     * clock, and whether it did. NULL: instructions run while they are called. */
    shardc_status (*time)(sc_rank *rank, uint32_t func, uint32_t instr, bool *out_ran, double *out_begin, double *out_end,
                          shardc_error *error);

    /* Between a buffer and memory of the host. */
    shardc_status (*read)(sc_rank *rank, uint32_t buffer, void *to, int64_t bytes, shardc_error *error);
    shardc_status (*write)(sc_rank *rank, uint32_t buffer, const void *from, int64_t bytes, shardc_error *error);
    /* NULL: there is nothing to say. */
    void (*products)(const shardc_session *session, shardc_gemm_tuning *out);
    bool is_host; /* buffers' addresses are the host's, too */
};

#endif
