/* Opens cuBLASLt and looks up its functions. */
#include "runtime/cuda/libcublaslt.h"

#include "support/dynlib.h"

static const sc_dynlib_symbol symbols[] = {
#define SYMBOL(result, name, ...) {#name, offsetof(sc_cublaslt, name)},
#include "runtime/cuda/libcublaslt.def"
#undef SYMBOL
};
static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so",
                                    NULL};
static const sc_dynlib library = {.title = "cuBLASLt",
                                  .variable = "SHARDC_CUBLASLT",
                                  .remedy = "install cuBLAS of CUDA 12 or 13",
                                  .names = names,
                                  .folders = sc_dynlib_cuda_folders,
                                  .symbols = symbols,
                                  .symbol_count = sizeof symbols / sizeof *symbols};

bool sc_cublaslt_open(sc_cublaslt *out, shardc_error *error)
{
    return sc_dynlib_open(&library, out, error);
}

void sc_cublaslt_close(sc_cublaslt *cublaslt)
{
    sc_dynlib_close(&library, cublaslt);
}
