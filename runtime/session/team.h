/* Limits of OpenMP thread teams. An OpenMP runtime that cannot start a thread ends the process, so
 * the number requested by the environment or an option is bounded before a team is created. */
#ifndef SHARDC_RUNTIME_SESSION_TEAM_H
#define SHARDC_RUNTIME_SESSION_TEAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns eight threads for each core that this process may use, at least 64. More threads would
 * only wait for each other. */
uint32_t sc_team_most(void);
/* Returns OMP_NUM_THREADS, by default one thread a core, bounded by sc_team_most(). */
uint32_t sc_team_size(void);
/* Bounds the teams that the calling thread creates by sc_team_most(). True if they would have been
 * larger; `warning` then holds the text. */
bool sc_team_bound(char *warning, size_t size);

#endif
