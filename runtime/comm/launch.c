/* Recognizes the launcher by its environment variables. */
#include "runtime/comm/launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/comm/backend.h"
#include "support/environment.h"

typedef struct launcher_row {
    sc_launcher launcher;
    const char *mark; /* variable that identifies the launcher; NULL: use rank or size */
    const char *rank, *size, *local_rank, *local_size;
    const char *how;
    /* variables that together name the job, equal on all its ranks and different from other jobs;
     * NULL: none */
    const char *job[2];
} launcher_row;

/* Innermost launcher first. Sources: Open MPI: its manual, "Environment variables set for MPI
 * applications"; MVAPICH: its user guide, "mpirun_rsh parameters"; PMI: set by Hydra, of MPICH and
 * Intel MPI; torchrun: PyTorch's page "Elastic launch"; Slurm: srun(1), "output environment
 * variables" (batch scripts lack those of steps). */
static const launcher_row rows[] = {
    {SC_LAUNCH_TORCHRUN,
     "TORCHELASTIC_RUN_ID",
     "RANK",
     "WORLD_SIZE",
     "LOCAL_RANK",
     "LOCAL_WORLD_SIZE",
     "torchrun (RANK)",
     {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"}},
    {SC_LAUNCH_OPEN_MPI,
     NULL,
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     "mpirun (OMPI_COMM_WORLD_RANK)",
     {"PMIX_NAMESPACE"}},
    {SC_LAUNCH_MVAPICH,
     NULL,
     "MV2_COMM_WORLD_RANK",
     "MV2_COMM_WORLD_SIZE",
     "MV2_COMM_WORLD_LOCAL_RANK",
     "MV2_COMM_WORLD_LOCAL_SIZE",
     "mpirun (MV2_COMM_WORLD_RANK)",
     {NULL}},
    {SC_LAUNCH_PMI,
     NULL,
     "PMI_RANK",
     "PMI_SIZE",
     "MPI_LOCALRANKID",
     "MPI_LOCALNRANKS",
     "mpirun (PMI_RANK)",
     {NULL}},
    {SC_LAUNCH_BY_HAND,
     NULL,
     "RANK",
     "WORLD_SIZE",
     "LOCAL_RANK",
     "LOCAL_WORLD_SIZE",
     "RANK and WORLD_SIZE",
     {NULL}},
    {SC_LAUNCH_SLURM,
     "SLURM_STEP_NUM_TASKS",
     "SLURM_PROCID",
     "SLURM_STEP_NUM_TASKS",
     "SLURM_LOCALID",
     NULL,
     "srun (SLURM_PROCID)",
     {"SLURM_JOB_ID", "SLURM_STEP_ID"}},
};

enum { TORCHRUN = 0, BY_HAND = 4, SLURM = 5, ROWS = sizeof rows / sizeof *rows };

typedef struct environment {
    sc_launch_lookup *lookup;
    void *user;
} environment;

static const char *text_of(const environment *e, const char *name)
{
    const char *text = name == NULL        ? NULL
                       : e->lookup == NULL ? getenv(name)
                                           : e->lookup(e->user, name);
    return text == NULL || *text == 0 ? NULL : text;
}

/* `*out` is unchanged if the variable is not set. */
static shardc_status read_number(const environment *e, const char *name, int64_t least,
                                 int64_t most, int64_t *out, shardc_error *error)
{
    char why[SC_ENVIRONMENT_WHY];
    return sc_environment_number(name, text_of(e, name), least, most, out, why)
               ? SHARDC_OK
               : sc_fail(error, SHARDC_ERROR_ARGUMENT, "%s", why);
}

static bool is_present(const environment *e, const launcher_row *row)
{
    if (row->mark != NULL)
        return text_of(e, row->mark) != NULL;
    return text_of(e, row->rank) != NULL || text_of(e, row->size) != NULL;
}

static shardc_status read_row(const environment *e, const launcher_row *row, sc_launch *out,
                              shardc_error *error)
{
    int64_t rank = -1, size = -1, local_rank = -1, local_size = -1;
    shardc_status status = read_number(e, row->rank, 0, UINT32_MAX - 1, &rank, error);
    if (status == SHARDC_OK)
        status = read_number(e, row->size, 0, UINT32_MAX, &size, error);
    if (status == SHARDC_OK)
        status = read_number(e, row->local_rank, 0, INT32_MAX, &local_rank, error);
    if (status == SHARDC_OK)
        status = read_number(e, row->local_size, 0, INT32_MAX, &local_size, error);
    if (status != SHARDC_OK)
        return status;
    if (rank < 0 || size < 0)
        return sc_fail(error, SHARDC_ERROR_ARGUMENT, "%s is set, but %s is not: a rank needs both",
                       rank < 0 ? row->size : row->rank, rank < 0 ? row->rank : row->size);
    if (rank >= size)
        return sc_fail(error, SHARDC_ERROR_ARGUMENT,
                       "%s is %lld, but %s is %lld: ranks go from 0 to one less than that",
                       row->rank, (long long)rank, row->size, (long long)size);
    if (local_size >= 0 && (local_rank >= local_size || local_size > size))
        return sc_fail(error, SHARDC_ERROR_ARGUMENT,
                       "%s is %lld, %s is %lld and %s is %lld: they contradict each other",
                       row->local_rank, (long long)local_rank, row->local_size,
                       (long long)local_size, row->size, (long long)size);
    if (local_rank >= size)
        return sc_fail(error, SHARDC_ERROR_ARGUMENT, "%s is %lld, but %s is %lld", row->local_rank,
                       (long long)local_rank, row->size, (long long)size);
    out->launcher = row->launcher;
    out->how = row->how;
    out->rank = (uint32_t)rank;
    out->size = (uint32_t)size;
    out->local_rank = (int32_t)local_rank;
    out->local_size = (int32_t)local_size;
    return SHARDC_OK;
}

static void read_job(const environment *e, const launcher_row *row, sc_launch *out)
{
    const char *said = text_of(e, "SHARDC_JOB");
    size_t length = 0;
    if (said != NULL) {
        snprintf(out->job, sizeof out->job, "%s", said);
        return;
    }
    if (row != NULL) {
        for (int i = 0; i < 2; i++) {
            const char *part = text_of(e, row->job[i]);
            int written = part == NULL ? 0
                                       : snprintf(out->job + length, sizeof out->job - length,
                                                  "%s%s", length > 0 ? "." : "", part);
            length +=
                written > 0 && (size_t)written < sizeof out->job - length ? (size_t)written : 0;
        }
    }
}

static shardc_status read_address(const environment *e, sc_launch *out, shardc_error *error)
{
    const char *address = text_of(e, "MASTER_ADDR");
    int64_t port = 0;
    if (address != NULL && strlen(address) >= sizeof out->address)
        return sc_fail(error, SHARDC_ERROR_ARGUMENT, "MASTER_ADDR has %zu characters",
                       strlen(address));
    if (address != NULL)
        memcpy(out->address, address, strlen(address) + 1);
    shardc_status status = read_number(e, "MASTER_PORT", 1, 65535, &port, error);
    out->port = (uint32_t)port;
    return status;
}

/* Values set by hand must match those of mpirun or srun for the same process. */
static shardc_status check_hand(const sc_launch *by, const sc_launch *hand, shardc_error *error)
{
    if (by->rank == hand->rank && by->size == hand->size)
        return SHARDC_OK;
    return sc_fail(
        error, SHARDC_ERROR_ARGUMENT,
        "%s says rank %u of %u, RANK and WORLD_SIZE say rank %u of %u: unset one of them", by->how,
        by->rank, by->size, hand->rank, hand->size);
}

shardc_status sc_launch_read(sc_launch_lookup *lookup, void *user, sc_launch *out,
                             shardc_error *error)
{
    environment e = {.lookup = lookup, .user = user};
    sc_launch second = {.local_rank = -1, .local_size = -1};
    *out = (sc_launch){.launcher = SC_LAUNCH_ALONE,
                       .how = "no launcher",
                       .size = 1,
                       .local_rank = 0,
                       .local_size = 1};
    int chosen = 0;
    while (chosen < ROWS && !is_present(&e, &rows[chosen]))
        chosen++;
    shardc_status status = chosen == ROWS ? SHARDC_OK : read_row(&e, &rows[chosen], out, error);
    if (status == SHARDC_OK)
        status = read_address(&e, out, error);
    read_job(&e, chosen == ROWS ? NULL : &rows[chosen], out);
    if (status != SHARDC_OK || chosen == TORCHRUN || chosen >= SLURM)
        return status;
    /* RANK beside mpirun's variables, or srun's beside RANK. */
    int other = chosen < BY_HAND ? BY_HAND : SLURM;
    if (!is_present(&e, &rows[other]))
        return SHARDC_OK;
    status = read_row(&e, &rows[other], &second, error);
    if (status != SHARDC_OK)
        return status;
    return chosen == BY_HAND ? check_hand(&second, out, error) : check_hand(out, &second, error);
}

bool sc_launch_is_by_mpi(const sc_launch *launch)
{
    switch (launch->launcher) {
    case SC_LAUNCH_OPEN_MPI:
    case SC_LAUNCH_MVAPICH:
    case SC_LAUNCH_PMI:
        return true;
    case SC_LAUNCH_SLURM:
        return launch->port == 0;
    default:
        return false;
    }
}
