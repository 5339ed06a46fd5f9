/* NCCL, opened at run time ($SHARDC_NCCL overrides the file). As in libcuda.h the declarations are
 * our own; test/cuda/signatures.c compares them with the real headers. */
#ifndef SHARDC_RUNTIME_CUDA_LIBNCCL_H
#define SHARDC_RUNTIME_CUDA_LIBNCCL_H

#include <limits.h>

#include "runtime/cuda/libcuda.h"

typedef unsigned sc_nccl_result, sc_nccl_dtype, sc_nccl_reduce;
typedef struct ncclComm *sc_nccl_comm;

typedef struct sc_nccl_id {
    char bytes[128];
} sc_nccl_id;

/* ncclConfig_t as of 2.18. It contains its size and version; newer libraries treat missing fields
 * as unset. */
typedef struct sc_nccl_config {
    size_t size;
    unsigned magic, version;
    /* 0: non-blocking: init and finalize return early, with ncclInProgress until done */
    int blocking;
    int cga_cluster_size, min_ctas, max_ctas;
    const char *net_name;
    int split_share;
    int not_ours; /* padding: fields of newer libraries must read as unset */
} sc_nccl_config;

enum { SC_NCCL_UNSET = INT_MIN, SC_NCCL_NO_COLOR = -1, SC_NCCL_LEAST_VERSION = 21800 };
#define SC_NCCL_MAGIC 0xcafebeefu
#define SC_NCCL_CONFIG                                                                             \
    ((sc_nccl_config){sizeof(sc_nccl_config), SC_NCCL_MAGIC, SC_NCCL_LEAST_VERSION, SC_NCCL_UNSET, \
                      SC_NCCL_UNSET, SC_NCCL_UNSET, SC_NCCL_UNSET, NULL, SC_NCCL_UNSET,            \
                      SC_NCCL_UNSET})

/* sc_nccl_result */
enum {
    SC_NCCL_SUCCESS = 0,
    SC_NCCL_UNHANDLED_CUDA = 1,
    SC_NCCL_SYSTEM = 2,
    SC_NCCL_INTERNAL = 3,
    SC_NCCL_INVALID_ARGUMENT = 4,
    SC_NCCL_INVALID_USAGE = 5,
    SC_NCCL_REMOTE = 6,
    SC_NCCL_IN_PROGRESS = 7
};
/* sc_nccl_dtype */
enum {
    SC_NCCL_I8 = 0,
    SC_NCCL_U8 = 1,
    SC_NCCL_I32 = 2,
    SC_NCCL_I64 = 4,
    SC_NCCL_F16 = 6,
    SC_NCCL_F32 = 7,
    SC_NCCL_F64 = 8,
    SC_NCCL_BF16 = 9
};
/* sc_nccl_reduce */
enum { SC_NCCL_SUM = 0, SC_NCCL_MAX = 2, SC_NCCL_MIN = 3 };

typedef struct sc_nccl {
    void *library;
#define SYMBOL(result, name, ...) result (*(name))(__VA_ARGS__);
#include "runtime/cuda/libnccl.def"
#undef SYMBOL
} sc_nccl;

/* Opens the library. False with SHARDC_ERROR_UNAVAILABLE: what is missing, and the remedy. */
bool sc_nccl_open(sc_nccl *out, shardc_error *error);
void sc_nccl_close(sc_nccl *nccl);

#endif
