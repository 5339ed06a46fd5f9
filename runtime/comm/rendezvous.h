/* How ranks that are processes find each other without MPI: rank 0 listens where MASTER_ADDR and MASTER_PORT say, the others come, and then
 * every two have a connection.
 *
 * Where: without MASTER_ADDR on the loopback, 127.0.0.1; else on that address and no other. torchrun listens on MASTER_PORT itself, so that
 * its ranks meet on the next one; SHARDC_PORT names another. The other ranks listen, on ports that the system chooses, on the address from
 * which they reach rank 0.
 *
 * Who: both sides of a connection show that they know the secret (secret.h) without saying it, each for a number that the other has just
 * drawn; who does not is refused, and holds up nobody, however many come. A rank of another job, as the launcher names it, is refused, too,
 * and so is one that was started differently than rank 0: `started_with` are the lines of runtime/comm/identity.h that must be the same.
 * Who is refused, or dropped in a flood of strangers, comes again. What follows is neither encrypted nor signed: it needs a network that
 * others do not write to.
 *
 * Messages have fixed sizes, a magic number (of the byte order, too) and a version. Everything ends by a deadline. */
#ifndef SHARDC_RUNTIME_COMM_RENDEZVOUS_H
#define SHARDC_RUNTIME_COMM_RENDEZVOUS_H

#include "runtime/comm/launch.h"

enum { SC_RENDEZVOUS_MAX_RANKS = 1024 };

/* `started_with`: less than SC_IDENTITY_ROOM characters; NULL: "". Sets sockets[r] to a non-blocking connection with rank r, for all
 * `launch->size` ranks; -1 for this one. The caller closes them. Every rank calls this as often as the others, in the same order of worlds.
 * SHARDC_ERROR_TIMEOUT names the ranks that did not come within `join_ms`; SHARDC_ERROR_ARGUMENT: the environment does not say where, the
 * secret is not readable, or ranks were started differently; SHARDC_ERROR_COMM: refused, or a rank left. Then no socket is open. */
shardc_status sc_rendezvous_meet(const sc_launch *launch, const char *started_with, uint32_t join_ms, int *sockets, shardc_error *error);

#endif
