/* Connects ranks that are processes, without MPI: rank 0 listens at MASTER_ADDR and MASTER_PORT,
 * the others join, and in the end every two ranks have a connection.
 *
 * Addresses. Without MASTER_ADDR rank 0 listens on the loopback, 127.0.0.1; otherwise on that
 * address only. torchrun itself listens on MASTER_PORT, so its ranks meet on the next port;
 * SHARDC_PORT overrides it. The other ranks listen on system-chosen ports of the address from which
 * they reach rank 0.
 *
 * Authentication. Both ends of a connection prove that they know the secret (secret.h), by a
 * challenge with a fresh nonce, without sending it. A peer that cannot is refused and does not
 * delay the others, however many there are. Also refused: a rank of another job, by the launcher's
 * job name, and a rank started with other options than rank 0; `started_with` are the lines of
 * runtime/comm/identity.h that must be equal. A rank that is refused, or dropped among a flood of
 * strangers, tries again. After authentication data are neither encrypted nor signed: use a network
 * to which nobody else can write.
 *
 * Messages have fixed sizes, a magic number (which also checks the byte order) and a version. Every
 * step has a deadline. */
#ifndef SHARDC_RUNTIME_COMM_RENDEZVOUS_H
#define SHARDC_RUNTIME_COMM_RENDEZVOUS_H

#include "runtime/comm/launch.h"

enum { SC_RENDEZVOUS_MAX_RANKS = 1024 };

/* `started_with`: fewer than SC_IDENTITY_ROOM characters; NULL: "". Sets sockets[r] to a
 * non-blocking connection with rank r, for all `launch->size` ranks; -1 for this rank. The caller
 * closes them. Every rank calls it the same number of times, for worlds in the same order. Errors:
 * SHARDC_ERROR_TIMEOUT names the ranks that did not join within `join_ms`; SHARDC_ERROR_ARGUMENT:
 * no address in the environment, an unreadable secret, or ranks started differently;
 * SHARDC_ERROR_COMM: refused, or a rank left. After an error no socket is open. */
shardc_status sc_rendezvous_meet(const sc_launch *launch, const char *started_with,
                                 uint32_t join_ms, int *sockets, shardc_error *error);

#endif
