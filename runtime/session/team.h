/* How many threads a team of OpenMP may have. A runtime of OpenMP that cannot start a thread ends the process, so what the environment or
 * an option asks for is bounded before a team is made. */
#ifndef SHARDC_RUNTIME_SESSION_TEAM_H
#define SHARDC_RUNTIME_SESSION_TEAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Eight a core that this process may use, and at least 64: more threads only wait for each other. */
uint32_t sc_team_most(void);
/* As OMP_NUM_THREADS says, else a thread a core; within sc_team_most(). */
uint32_t sc_team_size(void);
/* Makes this thread's own teams no larger than sc_team_most(). True: they would have been, and `warning` says so. */
bool sc_team_bound(char *warning, size_t size);

#endif
