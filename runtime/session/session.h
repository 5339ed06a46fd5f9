/* Internals of a session. A rank's instructions are bound to addresses once, when the session
 * starts; exec.c then only walks the bound list. */
#ifndef SHARDC_RUNTIME_SESSION_SESSION_H
#define SHARDC_RUNTIME_SESSION_SESSION_H

#include "runtime/session/rank.h"

/* Creates a session on a device: with all ranks of the program in this process or, given `comm`,
 * with the one rank of that communicator. `comm` stays the caller's and must outlive the
 * session. */
shardc_status sc_session_new_on(const sc_device *device, const shardc_executable *program,
                                const shardc_session_options *options, sc_comm *comm,
                                shardc_session **out, shardc_error *error);

/* ---- same_program.c ---- */
/* Checks that all ranks have the same program. SHARDC_ERROR_ARGUMENT names a rank with another one,
 * and tells whether its collectives differ. Every rank must call it. */
shardc_status sc_session_same_program(sc_comm *comm, const shardc_executable *program,
                                      shardc_error *error);

/* ---- bind.c ---- */
/* Sets rank->funcs and everything that it points to. Called on the rank's thread. */
shardc_status sc_rank_bind(sc_rank *rank, shardc_error *error);
/* Creates the groups with `comm` and assigns them to the bound collectives. */
shardc_status sc_rank_bind_groups(sc_rank *rank, sc_comm *comm, shardc_error *error);
void sc_rank_unbind(sc_rank *rank);
/* Sets the addresses of an instruction that moves to those of a micro-batch. */
void sc_rank_move(const sc_rank *rank, sc_bound *bound, uint32_t micro_batch);

/* ---- exec.c ---- */
/* Runs a function (of the rank's image) on the rank's thread. A failed check is kept as the result,
 * and the remaining instructions still run because other ranks wait for this one; an error of a
 * collective ends the run. */
shardc_status sc_rank_run(sc_rank *rank, uint32_t func, uint32_t micro_batch, shardc_error *error);
/* Tells whether all ranks of the program have got here without an error; every one must call it.
 * Sets rank->has_lost_world if the rank cannot go on. */
shardc_status sc_rank_meet(sc_rank *rank, shardc_status mine, shardc_error *error);
/* Waits for the messages in flight: at the end of a schedule or a function, or before the last call
 * of a schedule that is abandoned there. Both ends of each have started it. Where the world is lost
 * it returns at once. */
shardc_status sc_rank_drain(sc_rank *rank, shardc_error *error);
/* Sets rank->params for a kernel call. */
void sc_rank_set_params(sc_rank *rank, const sc_image_instr *instr, uint32_t micro_batch);
/* Turns the return value of a failed kernel into an error: the check's message with the place and
 * value filled in. */
void sc_rank_fail_check(const sc_rank *rank, const sc_image_instr *instr, int64_t failure,
                        shardc_error *error);

/* ---- session.c ---- */
/* Runs work(rank, user, &rank->error) on every rank's thread; the result becomes rank->status. */
void sc_session_each_rank(shardc_session *session,
                          shardc_status (*work)(sc_rank *rank, void *user, shardc_error *error),
                          void *user);
/* Makes processes agree on a status: if one fails, all fail. Ranks without an error of their own
 * get SHARDC_ERROR_COMM, naming the last rank that failed. Every rank must call it. */
shardc_status sc_session_agree(shardc_session *session, shardc_status status, shardc_error *error);
/* Returns the error of the ranks' last job, after agreement between processes: that of the first
 * rank with an error other than COMM, else of the first that failed. */
shardc_status sc_session_outcome(shardc_session *session, shardc_error *error);
/* Replaces a lost world by a new one, where that is possible. */
shardc_status sc_session_recover(shardc_session *session, shardc_error *error);

/* ---- fetch.c ---- */
/* Checks that the function has the outputs, and that the caller's arrays have room. */
shardc_status sc_session_check_fetches(const sc_image_func *func, const shardc_fetch_value *fetches,
                                       size_t count, shardc_error *error);
/* Gathers outputs of the function's last run. Called on one thread while nothing runs. */
shardc_status sc_session_fetch(shardc_session *session, const sc_image_func *func,
                               const shardc_fetch_value *fetches, size_t count,
                               shardc_error *error);

/* ---- values.c ---- */
/* Fills a rank's shard of a full tensor, if the rank's stage has the tensor. Called on the rank's
 * thread, or on any while nothing runs. */
shardc_status sc_rank_scatter(sc_rank *rank, const sc_image_tensor *tensor, uint32_t buffer,
                              const sc_whole *whole, const char *name, shardc_error *error);
/* Scatter a full tensor to the shards, or gather it: a slot's copy for whole->batch. Called on one
 * thread while nothing runs.
 * `buffer`: as sc_image_buffer_of takes it. `name` is used in messages. */
shardc_status sc_session_scatter(shardc_session *session, const sc_image_tensor *tensor,
                                 uint32_t buffer, const sc_whole *whole, const char *name,
                                 shardc_error *error);
shardc_status sc_session_gather(shardc_session *session, const sc_image_tensor *tensor,
                                uint32_t buffer, const sc_whole *whole, const char *name,
                                shardc_error *error);
/* Gets the shard of a rank of this process, in the state's dtype. *out is the buffer itself if it
 * is in host memory; otherwise the shard is copied to `room`, of sc_image_tensor_bytes. */
shardc_status sc_session_read_shard(shardc_session *session, uint32_t state, uint32_t rank,
                                    void *room, const void **out, shardc_error *error);
/* Writes a shard: the caller fills the memory that sc_session_shard_room returns, then calls
 * sc_session_write_shard. Master copies are not updated; set them separately. */
void *sc_session_shard_room(shardc_session *session, uint32_t state, uint32_t rank, void *room);
shardc_status sc_session_write_shard(shardc_session *session, uint32_t state, uint32_t rank,
                                     const void *filled, shardc_error *error);
/* Sums the values over the session's processes. Every process must call it. */
shardc_status sc_session_sum(shardc_session *session, int64_t *values, uint32_t count,
                             const char *what, shardc_error *error);
/* Sets a state and its master copy from a full tensor of any element type. */
shardc_status sc_session_set_elements(shardc_session *session, uint32_t index, const void *data,
                                      sc_element element, shardc_error *error);
/* Checks the size of the caller's array against the tensor's, in elements of whole->element and for
 * as many micro-batches as `whole` holds: equal, or at least that for a result.
 * SHARDC_ERROR_ARGUMENT names the tensor, its shape and both sizes. */
shardc_status sc_check_bytes(const sc_image_tensor *tensor, const sc_whole *whole, const char *kind,
                             const char *name, size_t bytes, bool is_room, shardc_error *error);
/* Returns the element type of a dtype's name; that of `stored` if the name is NULL. */
shardc_status sc_element_named(const char *dtype, sc_dtype stored, sc_element *out,
                               shardc_error *error);

#endif
