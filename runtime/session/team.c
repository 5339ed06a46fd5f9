/* Bounds for OpenMP thread teams. */
#define _GNU_SOURCE /* sched_getaffinity */
#include "runtime/session/team.h"

#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#ifdef _OPENMP
#include <omp.h>
#endif

enum { A_CORE = 8, LEAST = 64 };

static uint32_t core_count(void)
{
    cpu_set_t set;
    long online;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
        return (uint32_t)CPU_COUNT(&set);
    online = sysconf(_SC_NPROCESSORS_ONLN); /* more cores than a cpu_set_t holds */
    return online > 0 ? (uint32_t)online : 1;
}

uint32_t sc_team_most(void)
{
    uint32_t cores = core_count();
    return cores * A_CORE > LEAST ? cores * A_CORE : LEAST;
}

/* Returns the number of threads that OpenMP would use. */
static uint32_t wanted(void)
{
#ifdef _OPENMP
    int threads = omp_get_max_threads();
    return threads > 1 ? (uint32_t)threads : 1;
#else
    return core_count();
#endif
}

uint32_t sc_team_size(void)
{
    uint32_t threads = wanted(), most = sc_team_most();
    return threads < most ? threads : most;
}

bool sc_team_bound(char *warning, size_t size)
{
    uint32_t threads = wanted(), most = sc_team_most();
    if (threads <= most)
        return false;
    snprintf(warning, size,
             "OMP_NUM_THREADS asks for %u threads, but %u cores allow at most %u: %u are used",
             threads, core_count(), most, most);
#ifdef _OPENMP
    omp_set_num_threads((int)most);
#endif
    return true;
}
