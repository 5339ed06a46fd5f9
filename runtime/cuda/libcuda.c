/* Opens the CUDA driver and looks up its functions. */
#include "runtime/cuda/libcuda.h"

#include "support/dynlib.h"
#include "support/error.h"

static const sc_dynlib_symbol symbols[] = {
#define SYMBOL(result, name, ...) {#name, offsetof(sc_cuda, name)},
#include "runtime/cuda/libcuda.def"
#undef SYMBOL
};
/* The driver's library. The toolkit's folder contains a stub of the same name that does nothing. */
static const char *const names[] = {"libcuda.so.1", NULL};
/* Where container runtimes mount the driver, which the loader's configuration need not include. */
static const char *const folders[] = {"/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", NULL};
static const sc_dynlib library = {.title = "the driver of NVIDIA's GPUs",
                                  .variable = "SHARDC_LIBCUDA",
                                  .remedy = "install NVIDIA's driver (CUDA 11.4 or later)",
                                  .names = names,
                                  .folders = folders,
                                  .symbols = symbols,
                                  .symbol_count = sizeof symbols / sizeof *symbols};

bool sc_cuda_open(sc_cuda *out, shardc_error *error)
{
    return sc_dynlib_open(&library, out, error);
}

void sc_cuda_close(sc_cuda *cuda)
{
    sc_dynlib_close(&library, cuda);
}

shardc_status sc_cuda_check(const sc_cuda *api, sc_cu_result result, const char *call,
                            const char *what, shardc_error *error)
{
    const char *name = NULL, *text = NULL;
    if (result == SC_CU_SUCCESS)
        return SHARDC_OK;
    if (api->cuGetErrorName(result, &name) != SC_CU_SUCCESS || name == NULL)
        name = "an unknown error";
    if (api->cuGetErrorString(result, &text) != SC_CU_SUCCESS || text == NULL)
        text = "the driver does not say more";
    shardc_status status =
        result == SC_CU_OUT_OF_MEMORY ? SHARDC_ERROR_MEMORY : SHARDC_ERROR_DEVICE;
    return sc_fail(error, status, "%s%s%s: %s (%s, %u)", what, *what == 0 ? "" : ": ", call, text,
                   name, result);
}

shardc_status sc_cuda_is_done(const sc_cuda *api, sc_cu_event event, bool *out_done,
                              shardc_error *error)
{
    sc_cu_result result = api->cuEventQuery(event);
    *out_done = result == SC_CU_SUCCESS;
    return result == SC_CU_NOT_READY
               ? SHARDC_OK
               : sc_cuda_check(api, result, "cuEventQuery", "a kernel before it failed", error);
}
