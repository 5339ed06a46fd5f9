/* Options common to worlds of processes, and loading of shardc_mpi.so. MPI is not linked, so
 * programs run without it as long as they do not use it. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/comm/backend.h"
#include "runtime/comm/identity.h"
#include "support/environment.h"

enum { PATH_ROOM = 4096 };

static const char module_name[] = "shardc_mpi.so";

/* Gets the executable's folder without a trailing slash; "" if unknown. */
static void executable_folder(char *out, size_t size)
{
    ssize_t length = readlink("/proc/self/exe", out, size - 1);
    out[length < 0 ? 0 : length] = 0;
    char *slash = strrchr(out, '/');
    if (slash != NULL)
        *slash = 0;
}

/* Writes DIRECTORY/BELOW/shardc_mpi.so to `out`; true if it exists. */
static bool is_module_in(const char *folder, size_t folder_length, const char *below, char *out,
                         size_t size)
{
    int length = snprintf(out, size, "%.*s%s/%s", (int)folder_length, folder, below, module_name);
    return folder_length > 0 && length > 0 && (size_t)length < size && access(out, R_OK) == 0;
}

static bool find_module(char *out, size_t size)
{
    static const char *const below[] = {"", "/lib/shardc", "/../lib/shardc"};
    char folder[PATH_ROOM];
    const char *listed = getenv("SHARDC_MODULES");
    while (listed != NULL && *listed != 0) {
        size_t length = strcspn(listed, ":");
        if (is_module_in(listed, length, "", out, size))
            return true;
        listed += length + (listed[length] == ':');
    }
    executable_folder(folder, sizeof folder);
    for (size_t i = 0; i < sizeof below / sizeof *below; i++) {
        if (is_module_in(folder, strlen(folder), below[i], out, size))
            return true;
    }
    return false;
}

static shardc_status settle(const char *name, uint32_t otherwise, uint32_t *value,
                            shardc_error *error)
{
    char why[SC_ENVIRONMENT_WHY];
    int64_t said = otherwise;
    if (*value != 0)
        return SHARDC_OK;
    if (!sc_environment_i64(name, 1, INT32_MAX, &said, why))
        return sc_fail(error, SHARDC_ERROR_ARGUMENT, "%s", why);
    *value = (uint32_t)said;
    return SHARDC_OK;
}

shardc_status sc_comm_settle_options(const sc_comm_options *options, sc_comm_options *out,
                                     shardc_error *error)
{
    *out = options == NULL ? (sc_comm_options){.deadline_ms = 0} : *options;
    shardc_status status = settle("SHARDC_SILENCE_MS", SC_COMM_SILENCE_MS, &out->silence_ms, error);
    return status == SHARDC_OK ? settle("SHARDC_JOIN_MS", SC_COMM_JOIN_MS, &out->join_ms, error)
                               : status;
}

shardc_status sc_comm_open_mpi(const sc_comm_options *options, sc_comm **out, shardc_error *error)
{
    char path[2 * PATH_ROOM];
    sc_comm_options settled;
    shardc_status status = sc_comm_settle_options(options, &settled, error);
    if (status != SHARDC_OK)
        return status;
    if (!find_module(path, sizeof path))
        return sc_fail(error, SHARDC_ERROR_UNAVAILABLE,
                       "ranks in several processes need %s, which is neither beside the "
                       "executable nor in lib/shardc or "
                       "../lib/shardc from there: build shardc where CMake finds MPI (Debian: "
                       "libopenmpi-dev), or name the module's "
                       "folder in SHARDC_MODULES",
                       module_name);
    /* RTLD_GLOBAL: MPI libraries look up their own symbols globally. Never closed: MPI does not
     * support unloading. */
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (library == NULL)
        return sc_fail(
            error, SHARDC_ERROR_UNAVAILABLE,
            "%s does not load: %s (is the MPI library that it was built with installed?)", path,
            dlerror());
    const sc_comm_module *module = dlsym(library, "shardc_mpi_module");
    if (module == NULL || module->abi != SC_COMM_ABI)
        return sc_fail(error, SHARDC_ERROR_UNAVAILABLE,
                       "%s is from another version of shardc: build and install both together",
                       path);
    status = module->open(&settled, out, error);
    if (status != SHARDC_OK || settled.started_with == NULL)
        return status;
    status = sc_identity_compare(*out, settled.started_with, error);
    sc_comm_reset_counters(*out);
    if (status != SHARDC_OK) {
        sc_comm_close(*out);
        *out = NULL;
    }
    return status;
}
