/* Reads this process's rank and the number of ranks from the launcher's environment variables. */
#ifndef SHARDC_RUNTIME_COMM_LAUNCH_H
#define SHARDC_RUNTIME_COMM_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

#include "shardc/status.h"

typedef enum sc_launcher {
    SC_LAUNCH_ALONE, /* no launcher: one rank */
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
    const char *how; /* for messages: "mpirun (OMPI_COMM_WORLD_RANK)" */
    uint32_t rank, size;
    int32_t local_rank, local_size; /* on this node; -1: unknown */
    char address[SC_LAUNCH_TEXT];   /* MASTER_ADDR; "": not set */
    uint32_t port;                  /* MASTER_PORT; 0: not set */
    char job[SC_LAUNCH_TEXT];       /* the launcher's name of the job, or SHARDC_JOB; "": none */
} sc_launch;

/* Returns the value of a variable, or NULL. */
typedef const char *sc_launch_lookup(void *user, const char *name);

/* Reads the environment through `lookup` (NULL: getenv). The innermost launcher wins, in this
 * order: torchrun, which any of the others may have started; mpirun, which may run in a Slurm step;
 * RANK and WORLD_SIZE set by hand; a Slurm step (not a batch script, which has Slurm's variables
 * but is one process). SHARDC_ERROR_ARGUMENT names a variable that is not a number, is missing
 * beside others, or contradicts another one, as RANK and WORLD_SIZE set by hand may contradict
 * mpirun or srun. */
shardc_status sc_launch_read(sc_launch_lookup *lookup, void *user, sc_launch *out,
                             shardc_error *error);

/* True if the ranks connect through MPI: mpirun started them, or Slurm did and MASTER_PORT is not
 * set. */
bool sc_launch_is_by_mpi(const sc_launch *launch);

#endif
