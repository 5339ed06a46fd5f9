/* The CUDA driver, opened at run time ($SHARDC_LIBCUDA overrides the file). The declarations of
 * what is used are our own, so building needs no CUDA headers; test/cuda/signatures.c compares them
 * with the real headers if available. */
#ifndef SHARDC_RUNTIME_CUDA_LIBCUDA_H
#define SHARDC_RUNTIME_CUDA_LIBCUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shardc/status.h"

/* The header's enumerations are unsigned: none has negative values. */
typedef unsigned sc_cu_result, sc_cu_device_attribute, sc_cu_function_attribute, sc_cu_jit_option,
    sc_cu_capture_mode;
typedef int sc_cu_device;
typedef unsigned long long sc_cu_address; /* device memory; 0: none */
typedef struct CUctx_st *sc_cu_context;
typedef struct CUmod_st *sc_cu_module;
typedef struct CUfunc_st *sc_cu_function;
typedef struct CUstream_st *sc_cu_stream;
typedef struct CUevent_st *sc_cu_event;
typedef struct CUgraph_st *sc_cu_graph;
typedef struct CUgraphExec_st *sc_cu_graph_exec;
typedef void (*sc_cu_host_function)(void *data);

/* Results that are handled specially. */
enum {
    SC_CU_SUCCESS = 0,
    SC_CU_OUT_OF_MEMORY = 2,
    SC_CU_STUB_LIBRARY = 34,
    SC_CU_NEEDS_NEWER_DRIVER = 36,
    SC_CU_NO_DEVICE = 100,
    SC_CU_NO_BINARY_FOR_GPU = 209,
    SC_CU_UNSUPPORTED_PTX = 222,
    SC_CU_NOT_FOUND = 500,
    SC_CU_NOT_READY = 600
};
/* sc_cu_device_attribute */
enum {
    SC_CU_MULTIPROCESSORS = 16,
    SC_CU_COMPUTE_MODE = 20,
    SC_CU_CAPABILITY_MAJOR = 75,
    SC_CU_CAPABILITY_MINOR = 76,
    /* of a block, if the function requests more than SC_CU_SHARED_BYTES */
    SC_CU_MAX_SHARED_BYTES = 97
};
enum { SC_CU_PROHIBITED = 2 }; /* a compute mode that allows no contexts */
/* sc_cu_function_attribute, and the shared memory that a block may use without opting in */
enum { SC_CU_MAX_DYNAMIC_SHARED_BYTES = 8, SC_CU_SHARED_BYTES = 48 * 1024 };
/* sc_cu_jit_option: the buffer for errors of the driver's PTX compiler, and its size, cast to a
 * pointer */
enum { SC_CU_JIT_ERROR_LOG = 5, SC_CU_JIT_ERROR_LOG_BYTES = 6 };
/* flags */
enum {
    SC_CU_STREAM_NON_BLOCKING = 1,
    SC_CU_EVENT_BLOCKING_SYNC = 1,
    SC_CU_EVENT_NO_TIMING = 2,
    SC_CU_HOST_PORTABLE = 1
};
/* sc_cu_capture_mode */
enum { SC_CU_CAPTURE_GLOBAL = 0, SC_CU_CAPTURE_THREAD = 1, SC_CU_CAPTURE_RELAXED = 2 };

typedef struct sc_cuda {
    void *library;
#define SYMBOL(result, name, ...) result (*(name))(__VA_ARGS__);
#include "runtime/cuda/libcuda.def"
#undef SYMBOL
} sc_cuda;

/* Opens the driver; does not call cuInit. False with SHARDC_ERROR_UNAVAILABLE: what is missing, and
 * the remedy. */
bool sc_cuda_open(sc_cuda *out, shardc_error *error);
void sc_cuda_close(sc_cuda *cuda);

/* Turns a driver result into a status; *error names the call, the driver's reason and `what` (may
 * be ""). */
shardc_status sc_cuda_check(const sc_cuda *api, sc_cu_result result, const char *call,
                            const char *what, shardc_error *error);
#define SC_CUDA(api, error, what, name, ...)                                                       \
    sc_cuda_check(api, (api)->name(__VA_ARGS__), #name, what, error)

/* Whether all work before an event is done. */
shardc_status sc_cuda_is_done(const sc_cuda *api, sc_cu_event event, bool *out_done,
                              shardc_error *error);

#endif
