/* Environments of launchers as they are found, and as they go wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/comm/launch.h"

/* Variables as "NAME=VALUE NAME=VALUE .."; the value returned is valid until the next lookup. */
static const char *look_up(void *user, const char *name)
{
    static char value[512];
    size_t length = strlen(name);
    for (const char *at = user; *at != 0; at += strcspn(at, " "), at += *at == ' ') {
        if (strncmp(at, name, length) != 0 || at[length] != '=')
            continue;
        size_t size = strcspn(at + length + 1, " ");
        memcpy(value, at + length + 1, size);
        value[size] = 0;
        return value;
    }
    return NULL;
}

typedef struct found {
    const char *variables;
    sc_launcher launcher;
    uint32_t rank, size;
    int32_t local_rank, local_size;
} found;

static const found founds[] = {
    {"HOME=/root", SC_LAUNCH_ALONE, 0, 1, 0, 1},
    {"OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=8 OMPI_COMM_WORLD_LOCAL_RANK=1 "
     "OMPI_COMM_WORLD_LOCAL_SIZE=2",
     SC_LAUNCH_OPEN_MPI, 3, 8, 1, 2},
    {"MV2_COMM_WORLD_RANK=1 MV2_COMM_WORLD_SIZE=2 MV2_COMM_WORLD_LOCAL_RANK=0 "
     "MV2_COMM_WORLD_LOCAL_SIZE=1",
     SC_LAUNCH_MVAPICH, 1, 2, 0, 1},
    {"PMI_RANK=0 PMI_SIZE=4", SC_LAUNCH_PMI, 0, 4, -1, -1},
    {"PMI_RANK=2 PMI_SIZE=4 MPI_LOCALRANKID=0 MPI_LOCALNRANKS=2", SC_LAUNCH_PMI, 2, 4, 0, 2},
    {"SLURM_PROCID=5 SLURM_STEP_NUM_TASKS=6 SLURM_LOCALID=2 SLURM_NTASKS=6", SC_LAUNCH_SLURM, 5, 6,
     2, -1},
    /* a batch script is one process, however many tasks its job will have */
    {"SLURM_PROCID=0 SLURM_NTASKS=6 SLURM_LOCALID=0", SC_LAUNCH_ALONE, 0, 1, 0, 1},
    {"RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=node-7 MASTER_PORT=29500 "
     "TORCHELASTIC_RUN_ID=none",
     SC_LAUNCH_TORCHRUN, 1, 2, 1, 2},
    {"RANK=1 WORLD_SIZE=2", SC_LAUNCH_BY_HAND, 1, 2, -1, -1},
    /* one started by another: the inner one counts */
    {"SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=8",
     SC_LAUNCH_OPEN_MPI, 3, 8, -1, -1},
    {"SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 RANK=5 WORLD_SIZE=8 TORCHELASTIC_RUN_ID=9",
     SC_LAUNCH_TORCHRUN, 5, 8, -1, -1},
    {"OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 RANK=5 WORLD_SIZE=8 TORCHELASTIC_RUN_ID=9",
     SC_LAUNCH_TORCHRUN, 5, 8, -1, -1},
    /* set by hand, and the same */
    {"OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 RANK=1 WORLD_SIZE=2", SC_LAUNCH_OPEN_MPI, 1, 2,
     -1, -1},
    {"SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 RANK=1 WORLD_SIZE=2 LOCAL_RANK=0", SC_LAUNCH_BY_HAND, 1,
     2, 0, -1},
    /* set to nothing is not set */
    {"RANK= WORLD_SIZE=", SC_LAUNCH_ALONE, 0, 1, 0, 1},
};

static void launchers_are_recognised(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof founds / sizeof *founds; i++) {
        sc_launch launch;
        shardc_error error;
        if (sc_launch_read(look_up, (void *)founds[i].variables, &launch, &error) != SHARDC_OK)
            fail_msg("%s\n  %s", founds[i].variables, error.text);
        if (launch.launcher != founds[i].launcher || launch.rank != founds[i].rank ||
            launch.size != founds[i].size || launch.local_rank != founds[i].local_rank ||
            launch.local_size != founds[i].local_size)
            fail_msg("%s\n  is %s, rank %u of %u, %d of %d here", founds[i].variables, launch.how,
                     launch.rank, launch.size, launch.local_rank, launch.local_size);
        bool has_address = strstr(founds[i].variables, "MASTER_ADDR") != NULL;
        assert_string_equal(launch.address, has_address ? "node-7" : "");
        assert_int_equal(launch.port, has_address ? 29500 : 0);
    }
}

static const char *const wrongs[][2] = {
    {"OMPI_COMM_WORLD_RANK=3", "OMPI_COMM_WORLD_RANK is set, but OMPI_COMM_WORLD_SIZE is not"},
    {"OMPI_COMM_WORLD_SIZE=3", "OMPI_COMM_WORLD_SIZE is set, but OMPI_COMM_WORLD_RANK is not"},
    {"RANK=1", "RANK is set, but WORLD_SIZE is not"},
    {"TORCHELASTIC_RUN_ID=1 RANK=1", "RANK is set, but WORLD_SIZE is not"},
    {"SLURM_STEP_NUM_TASKS=4", "SLURM_STEP_NUM_TASKS is set, but SLURM_PROCID is not"},
    {"RANK=2 WORLD_SIZE=2", "RANK is 2, but WORLD_SIZE is 2"},
    {"RANK=0 WORLD_SIZE=0", "RANK is 0, but WORLD_SIZE is 0"},
    {"RANK=-1 WORLD_SIZE=2", "RANK is '-1'"},
    {"RANK=1x WORLD_SIZE=2", "RANK is '1x'"},
    {"RANK=1 WORLD_SIZE=99999999999999999999", "WORLD_SIZE is '99999999999999999999'"},
    {"RANK=1 WORLD_SIZE=2 LOCAL_RANK=2", "LOCAL_RANK is 2, but WORLD_SIZE is 2"},
    {"RANK=1 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=1", "they contradict each other"},
    {"RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=3", "they contradict each other"},
    {"RANK=1 WORLD_SIZE=2 MASTER_PORT=70000", "MASTER_PORT is '70000'"},
    {"OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 RANK=0 WORLD_SIZE=2",
     "mpirun (OMPI_COMM_WORLD_RANK) says rank 1 of 2, RANK and WORLD_SIZE say rank 0 of 2"},
    {"PMI_RANK=1 PMI_SIZE=2 RANK=1 WORLD_SIZE=4",
     "mpirun (PMI_RANK) says rank 1 of 2, RANK and WORLD_SIZE say rank 1 of 4"},
    {"SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 RANK=0 WORLD_SIZE=1",
     "srun (SLURM_PROCID) says rank 1 of 2, RANK and WORLD_SIZE say rank 0 of 1"},
    {"OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 RANK=0", "RANK is set, but WORLD_SIZE is not"},
};

static void contradictions_are_errors(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++) {
        sc_launch launch;
        shardc_error error = {SHARDC_OK, ""};
        shardc_status status = sc_launch_read(look_up, (void *)wrongs[i][0], &launch, &error);
        if (status != SHARDC_ERROR_ARGUMENT || error.status != status ||
            strstr(error.text, wrongs[i][1]) == NULL)
            fail_msg("%s\n  wanted: %s\n  got %d: %s", wrongs[i][0], wrongs[i][1], (int)status,
                     error.text);
    }
}

static void the_environment_is_read(void **state)
{
    (void)state;
    static const char *const names[] = {"TORCHELASTIC_RUN_ID",
                                        "OMPI_COMM_WORLD_RANK",
                                        "OMPI_COMM_WORLD_SIZE",
                                        "MV2_COMM_WORLD_RANK",
                                        "MV2_COMM_WORLD_SIZE",
                                        "PMI_RANK",
                                        "PMI_SIZE",
                                        "SLURM_STEP_NUM_TASKS"};
    sc_launch launch;
    shardc_error error;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
    setenv("RANK", "6", 1);
    setenv("WORLD_SIZE", "7", 1);
    assert_int_equal(sc_launch_read(NULL, NULL, &launch, &error), SHARDC_OK);
    assert_int_equal(launch.rank, 6);
    assert_int_equal(launch.size, 7);
    assert_string_equal(launch.how, "RANK and WORLD_SIZE");
}

/* How ranks find each other: by MPI where that started them. */
static void mpi_is_for_those_that_it_started(void **state)
{
    (void)state;
    static const struct {
        sc_launcher launcher;
        uint32_t port;
        bool is_by_mpi;
    } cases[] = {
        {SC_LAUNCH_TORCHRUN, 29500, false}, {SC_LAUNCH_OPEN_MPI, 0, true},
        {SC_LAUNCH_OPEN_MPI, 29500, true},  {SC_LAUNCH_MVAPICH, 0, true},
        {SC_LAUNCH_PMI, 0, true},           {SC_LAUNCH_BY_HAND, 0, false},
        {SC_LAUNCH_SLURM, 0, true},         {SC_LAUNCH_SLURM, 29500, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sc_launch launch = {.launcher = cases[i].launcher, .port = cases[i].port};
        assert_int_equal(sc_launch_is_by_mpi(&launch), cases[i].is_by_mpi);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mpi_is_for_those_that_it_started),
        cmocka_unit_test(launchers_are_recognised),
        cmocka_unit_test(contradictions_are_errors),
        cmocka_unit_test(the_environment_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
