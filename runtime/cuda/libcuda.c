#include "runtime/cuda/libcuda.h"

#include "support/dynlib.h"

static const sc_dynlib_symbol symbols[] = {
#define SYMBOL(result, name, ...) {#name, offsetof(sc_cuda, name)},
#include "runtime/cuda/libcuda.def"
#undef SYMBOL
};
/* Comes with the driver, not with the toolkit, whose folder has a stub of that name that does nothing. */
static const char *const names[] = {"libcuda.so.1", NULL};
/* Where containers are given it, whose loader need not know. */
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
