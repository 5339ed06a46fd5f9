/* CUDA's driver, opened at run time ($SHARDC_LIBCUDA names another file). The declarations are our own, of what is used: no header of CUDA
 * is needed to build. test/cuda/signatures.c compares them with the real headers where these are. */
#ifndef SHARDC_RUNTIME_CUDA_LIBCUDA_H
#define SHARDC_RUNTIME_CUDA_LIBCUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shardc/status.h"

/* Enumerations of the header are unsigned numbers: all their values are positive. */
typedef unsigned sc_cu_result, sc_cu_device_attribute, sc_cu_function_attribute, sc_cu_jit_option, sc_cu_capture_mode;
typedef int sc_cu_device;
typedef unsigned long long sc_cu_address; /* of the device's memory; 0: none */
typedef struct CUctx_st *sc_cu_context;
typedef struct CUmod_st *sc_cu_module;
typedef struct CUfunc_st *sc_cu_function;
typedef struct CUstream_st *sc_cu_stream;
typedef struct CUevent_st *sc_cu_event;
typedef struct CUgraph_st *sc_cu_graph;
typedef struct CUgraphExec_st *sc_cu_graph_exec;
typedef void (*sc_cu_host_function)(void *data);

/* Results that mean more than that a call failed. */
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
    SC_CU_MAX_SHARED_BYTES = 97 /* of a block, when a function asks for more than SC_CU_SHARED_BYTES */
};
enum { SC_CU_PROHIBITED = 2 }; /* a compute mode: no contexts */
/* sc_cu_function_attribute; and the shared memory that a block may have without asking */
enum { SC_CU_MAX_DYNAMIC_SHARED_BYTES = 8, SC_CU_SHARED_BYTES = 48 * 1024 };
/* sc_cu_jit_option: a buffer for what the driver's compiler of PTX has against it, and its size, cast to a pointer */
enum { SC_CU_JIT_ERROR_LOG = 5, SC_CU_JIT_ERROR_LOG_BYTES = 6 };
/* flags */
enum { SC_CU_STREAM_NON_BLOCKING = 1, SC_CU_EVENT_BLOCKING_SYNC = 1, SC_CU_EVENT_NO_TIMING = 2, SC_CU_HOST_PORTABLE = 1 };
/* sc_cu_capture_mode */
enum { SC_CU_CAPTURE_GLOBAL = 0, SC_CU_CAPTURE_THREAD = 1, SC_CU_CAPTURE_RELAXED = 2 };

typedef struct sc_cuda {
    void *library;
#define SYMBOL(result, name, ...) result (*(name))(__VA_ARGS__);
#include "runtime/cuda/libcuda.def"
#undef SYMBOL
} sc_cuda;

/* False after SHARDC_ERROR_UNAVAILABLE with what is missing and the remedy. The driver is not initialised: cuInit. */
bool sc_cuda_open(sc_cuda *out, shardc_error *error);
void sc_cuda_close(sc_cuda *cuda);

/* SHARDC_OK, or *error names the call, the driver's reason and `what` (which may be ""). */
shardc_status sc_cuda_check(const sc_cuda *api, sc_cu_result result, const char *call, const char *what, shardc_error *error);
#define SC_CUDA(api, error, what, name, ...) sc_cuda_check(api, (api)->name(__VA_ARGS__), #name, what, error)

#endif
