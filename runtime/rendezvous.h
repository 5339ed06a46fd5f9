/* How ranks that are processes find each other without MPI: rank 0 listens where MASTER_ADDR and MASTER_PORT say, the others come, and then
 * every two have a connection.
 *
 * Where: without MASTER_ADDR on the loopback, 127.0.0.1; else on that address and no other. torchrun listens on MASTER_PORT itself, so that
 * its ranks meet on the next one; SHARDC_PORT names another. The other ranks listen, on ports that the system chooses, on the address from
 * which they reach rank 0.
 *
 * Who: both sides of a connection show that they know the secret (secret.h) without saying it, each for a number that the other has just
 * drawn; who does not is refused, and holds up nobody. What follows is neither encrypted nor signed: it needs a network that others do not
 * write to.
 *
 * Messages have fixed sizes, a magic number (of the byte order, too) and a version. Everything ends by a deadline. */
#ifndef SHARDC_RUNTIME_RENDEZVOUS_H
#define SHARDC_RUNTIME_RENDEZVOUS_H

#include "runtime/launch.h"

enum { SC_RENDEZVOUS_MAX_RANKS = 1024 };

/* Sets sockets[r] to a non-blocking connection with rank r, for all `launch->size` ranks; -1 for this one. The caller closes them. Every
 * rank calls this as often as the others, in the same order of worlds. SHARDC_ERROR_TIMEOUT names the ranks that did not come within
 * `join_ms`; SHARDC_ERROR_ARGUMENT: the environment does not say where, or the secret is not readable; SHARDC_ERROR_COMM: refused, or a
 * rank left. Then no socket is open. */
shardc_status sc_rendezvous_meet(const sc_launch *launch, uint32_t join_ms, int *sockets, shardc_error *error);

#endif
