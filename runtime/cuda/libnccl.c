/* Opens NCCL and looks up its functions. */
#include "runtime/cuda/libnccl.h"

#include "support/dynlib.h"

static const sc_dynlib_symbol symbols[] = {
#define SYMBOL(result, name, ...) {#name, offsetof(sc_nccl, name)},
#include "runtime/cuda/libnccl.def"
#undef SYMBOL
};
static const char *const names[] = {"libnccl.so.2", "libnccl.so", NULL};
static const sc_dynlib library = {.title = "NCCL",
                                  .variable = "SHARDC_NCCL",
                                  .remedy = "install NCCL 2.18 or later",
                                  .names = names,
                                  .folders = sc_dynlib_cuda_folders,
                                  .symbols = symbols,
                                  .symbol_count = sizeof symbols / sizeof *symbols};

bool sc_nccl_open(sc_nccl *out, shardc_error *error)
{
    return sc_dynlib_open(&library, out, error);
}

void sc_nccl_close(sc_nccl *nccl)
{
    sc_dynlib_close(&library, nccl);
}
