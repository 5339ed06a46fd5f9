/* The inside of a session. What one rank executes is bound once, when the session starts: every instruction of every function with its
 * pointers; exec.c then only walks along. */
#ifndef SHARDC_RUNTIME_SESSION_SESSION_H
#define SHARDC_RUNTIME_SESSION_SESSION_H

#include "runtime/session/rank.h"

/* On a device: all ranks of the program in this process, or, with `comm`, the one rank that is its end of the world; `comm` stays the
 * caller's and outlives the session. */
shardc_status sc_session_new_on(const sc_device *device, const shardc_executable *program, const shardc_session_options *options,
                                sc_comm *comm, shardc_session **out, shardc_error *error);

/* ---- same_program.c ---- */
/* Whether all ranks have this program: SHARDC_ERROR_ARGUMENT names one that has not, and whether its collectives differ. Every rank calls
 * it. */
shardc_status sc_session_same_program(sc_comm *comm, const sc_image *image, shardc_error *error);

/* ---- bind.c ---- */
/* Sets rank->funcs and what they point to; on the rank's thread. */
shardc_status sc_rank_bind(sc_rank *rank, shardc_error *error);
/* Gives the bound collectives their groups, which `comm` makes. */
shardc_status sc_rank_bind_groups(sc_rank *rank, sc_comm *comm, shardc_error *error);
void sc_rank_unbind(sc_rank *rank);

/* ---- exec.c ---- */
/* Runs a function's instructions on the rank's thread. A check that fails is remembered, and the rest is run all the same, since other
 * ranks count on this one; an error of a collective ends it. */
shardc_status sc_rank_run(sc_rank *rank, uint32_t func, uint32_t micro_batch, shardc_error *error);
/* rank->params of an instruction that calls a kernel. */
void sc_rank_set_params(sc_rank *rank, const sc_image_instr *instr, uint32_t micro_batch);
/* What a failed kernel gave back, in words: the check's message with the place and the value in it. */
void sc_rank_fail_check(const sc_rank *rank, const sc_image_instr *instr, int64_t failure, shardc_error *error);

/* ---- session.c ---- */
/* work(rank, user, &rank->error) on every rank's thread; its status becomes rank->status. */
void sc_session_each_rank(shardc_session *session, shardc_status (*work)(sc_rank *rank, void *user, shardc_error *error), void *user);
/* Among processes all ranks must come to the same conclusion: what failed on one fails on all, and those without an error of their own get
 * SHARDC_ERROR_COMM, naming the last of those that failed. Every rank calls this. */
shardc_status sc_session_agree(shardc_session *session, shardc_status status, shardc_error *error);
/* The first error of the ranks' last job, in their order; agreed upon. */
shardc_status sc_session_outcome(shardc_session *session, shardc_error *error);
/* Makes a new world where the old one was lost, as far as that is possible. */
shardc_status sc_session_recover(shardc_session *session, shardc_error *error);

/* ---- values.c ---- */
/* From and to whole values, on the calling thread, while nothing runs. `name` for messages. */
shardc_status sc_session_scatter(shardc_session *session, const sc_image_tensor *tensor, uint32_t buffer, const sc_whole *whole,
                                 const char *name, shardc_error *error);
shardc_status sc_session_gather(shardc_session *session, const sc_image_tensor *tensor, uint32_t buffer, const sc_whole *whole,
                                const char *name, shardc_error *error);
/* The shard of a rank of this process, in the state's dtype: where it lies, or brought to `room`, of sc_image_tensor_bytes. */
shardc_status sc_session_read_shard(shardc_session *session, uint32_t state, uint32_t rank, void *room, const void **out,
                                    shardc_error *error);
/* The other way: the caller fills what sc_session_shard_room gives, then says so. A master copy is set by itself. */
void *sc_session_shard_room(shardc_session *session, uint32_t state, uint32_t rank, void *room);
shardc_status sc_session_write_shard(shardc_session *session, uint32_t state, uint32_t rank, const void *filled, shardc_error *error);
/* Adds up the values over the processes that have the session's ranks; all of them call it. */
shardc_status sc_session_sum(shardc_session *session, int64_t *values, uint32_t count, const char *what, shardc_error *error);
/* Sets a state, and its master, from whole values of any element. */
shardc_status sc_session_set_elements(shardc_session *session, uint32_t state, const void *data, sc_element element, shardc_error *error);
/* Whether the caller's memory is of the value's size, as elements of whole->element and as many micro-batches as `whole` says: exactly,
 * or, as room for a result, at least. SHARDC_ERROR_ARGUMENT names it, its shape and both sizes. */
shardc_status sc_check_bytes(const sc_image_tensor *tensor, const sc_whole *whole, const char *kind, const char *name, size_t bytes,
                             bool is_room, shardc_error *error);
/* The element of a dtype's name; of `stored` when it is NULL. */
shardc_status sc_element_named(const char *dtype, sc_dtype stored, sc_element *out, shardc_error *error);

#endif
