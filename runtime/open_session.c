/* Opens a session: chooses the device for the program's target, and connects the ranks. This layer
 * is above sessions and devices, which do not depend on particular devices or backends. */
#include "runtime/open_session.h"

#include <stdio.h>
#include <string.h>

#include "runtime/comm/identity.h"
#include "runtime/comm/launch.h"
#include "runtime/cpu/device.h"
#include "runtime/cuda/device.h"
#include "runtime/session/session.h"
#include "support/hash.h"

static const sc_device *const devices[] = {&sc_device_cpu, &sc_device_cuda};

/* Returns the device of a program's target; NULL with an error if there is none. */
static const sc_device *find_device(const char *target, shardc_error *error)
{
    size_t length = strcspn(target, ":");
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        if (strlen(devices[i]->name) == length && strncmp(devices[i]->name, target, length) == 0)
            return devices[i];
    }
    sc_fail(error, SHARDC_ERROR_UNAVAILABLE,
            "the program is for target '%s', this library runs 'cpu' and 'cuda'", target);
    return NULL;
}

shardc_status sc_session_new_with_comm(const shardc_executable *program,
                                       const shardc_session_options *options, sc_comm *comm,
                                       shardc_session **out, shardc_error *error)
{
    *out = NULL;
    const sc_device *device = find_device(program->image->target, error);
    shardc_status status = device == NULL ? SHARDC_ERROR_UNAVAILABLE : SHARDC_OK;
    if (status == SHARDC_OK && sc_comm_size(comm) != program->image->ranks)
        status =
            sc_fail(error, SHARDC_ERROR_ARGUMENT, "the program is for %llu ranks, the job has %u",
                    (unsigned long long)program->image->ranks, sc_comm_size(comm));
    if (status == SHARDC_OK)
        status = sc_session_same_program(comm, program, error);
    return status == SHARDC_OK ? sc_session_new_on(device, program, options, comm, out, error)
                               : status;
}

/* What all ranks of a job must have in common: the program, and the caller's lines. */
static void describe_start(const shardc_executable *program, const shardc_session_options *options,
                           char out[SC_IDENTITY_ROOM])
{
    const char *said = options->started_with == NULL ? "" : options->started_with;
    int length = snprintf(out, SC_IDENTITY_ROOM, "program %016llx\n",
                          (unsigned long long)program->image->hash);
    size_t room = SC_IDENTITY_ROOM - (size_t)length;
    if ((size_t)snprintf(out + length, room, "%s", said) >= room)
        snprintf(out + length, room, "options of %zu characters, hash %016llx\n", strlen(said),
                 (unsigned long long)sc_fnv1a64(said, strlen(said)));
}

/* Opens this process's rank, with MPI or over TCP. */
static shardc_status open_process_world(const shardc_executable *program,
                                        const shardc_session_options *options, sc_comm **out,
                                        shardc_error *error)
{
    char start[SC_IDENTITY_ROOM];
    sc_comm_options comm_options = {.deadline_ms = options->deadline_ms, .started_with = start};
    describe_start(program, options, start);
    sc_launch launch = {.size = 0};
    shardc_world world = options->world;
    shardc_status status =
        world == SHARDC_WORLD_MPI ? SHARDC_OK : sc_launch_read(NULL, NULL, &launch, error);
    if (status == SHARDC_OK && world == SHARDC_WORLD_PROCESSES)
        world = sc_launch_is_by_mpi(&launch) ? SHARDC_WORLD_MPI : SHARDC_WORLD_TCP;
    if (status != SHARDC_OK)
        return status;
    return world == SHARDC_WORLD_MPI ? sc_comm_open_mpi(&comm_options, out, error)
                                     : sc_comm_open_tcp(&launch, &comm_options, out, error);
}

static shardc_status new_process_session(const shardc_executable *program,
                                         const shardc_session_options *options,
                                         shardc_session **out, shardc_error *error)
{
    shardc_error reason = {.status = SHARDC_OK};
    sc_comm *comm = NULL;
    shardc_status status = open_process_world(program, options, &comm, &reason);
    if (status != SHARDC_OK)
        return sc_fail(error, status, "%s", reason.text);
    status = sc_session_new_with_comm(program, options, comm, out, error);
    if (status == SHARDC_OK)
        (*out)->owns_world = true;
    else
        sc_comm_close(comm);
    return status;
}

shardc_status shardc_session_new(const shardc_executable *program,
                                 const shardc_session_options *options, shardc_session **out,
                                 shardc_error *error)
{
    *out = NULL;
    if (options != NULL && options->world != SHARDC_WORLD_LOCAL)
        return new_process_session(program, options, out, error);
    const sc_device *device = find_device(program->image->target, error);
    return device == NULL ? SHARDC_ERROR_UNAVAILABLE
                          : sc_session_new_on(device, program, options, NULL, out, error);
}
