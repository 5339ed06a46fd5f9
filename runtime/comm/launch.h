/* Which rank of how many this process is, as whoever launched it says in the environment. */
#ifndef SHARDC_RUNTIME_COMM_LAUNCH_H
#define SHARDC_RUNTIME_COMM_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

#include "shardc/status.h"

typedef enum sc_launcher {
    SC_LAUNCH_ALONE, /* nobody says anything: one rank */
    SC_LAUNCH_TORCHRUN,
    SC_LAUNCH_OPEN_MPI,
    SC_LAUNCH_MVAPICH,
    SC_LAUNCH_PMI, /* MPICH, Intel MPI and others */
    SC_LAUNCH_BY_HAND,
    SC_LAUNCH_SLURM,
    SC_LAUNCHERS
} sc_launcher;

enum { SC_LAUNCH_TEXT = 256 };

typedef struct sc_launch {
    sc_launcher launcher;
    const char *how; /* to be shown: "mpirun (OMPI_COMM_WORLD_RANK)" */
    uint32_t rank, size;
    int32_t local_rank, local_size; /* on this node; -1: not known */
    char address[SC_LAUNCH_TEXT];   /* MASTER_ADDR; "": not set */
    uint32_t port;                  /* MASTER_PORT; 0: not set */
    char job[SC_LAUNCH_TEXT];       /* what the launcher calls the job, or SHARDC_JOB; "": it does not */
} sc_launch;

/* The value of a variable, or NULL. */
typedef const char *sc_launch_lookup(void *user, const char *name);

/* Reads the environment through `lookup` (NULL: getenv). The innermost launcher wins: torchrun, which may have been started by any of the
 * others; then mpirun, which may have been started in a step of Slurm; then RANK and WORLD_SIZE set by hand; then a step of Slurm (not a
 * batch script, which has its variables, too, but is one process). SHARDC_ERROR_ARGUMENT, naming the variable, when values are no numbers,
 * missing beside others or contradict each other: also RANK and WORLD_SIZE by hand against those of mpirun or srun. */
shardc_status sc_launch_read(sc_launch_lookup *lookup, void *user, sc_launch *out, shardc_error *error);

/* Whether the ranks find each other by MPI: mpirun started them, or Slurm, and nobody said by MASTER_PORT where to meet over TCP. */
bool sc_launch_is_by_mpi(const sc_launch *launch);

#endif
