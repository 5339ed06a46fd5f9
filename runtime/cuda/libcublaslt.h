/* cuBLASLt, opened at run time ($SHARDC_CUBLASLT overrides the file). As in libcuda.h the
 * declarations are our own; test/cuda/signatures.c compares them with the real headers. */
#ifndef SHARDC_RUNTIME_CUDA_LIBCUBLASLT_H
#define SHARDC_RUNTIME_CUDA_LIBCUBLASLT_H

#include "runtime/cuda/libcuda.h"

typedef unsigned sc_lt_status, sc_lt_compute, sc_lt_dtype, sc_lt_desc_attribute,
    sc_lt_layout_attribute, sc_lt_preference_attribute;
typedef struct cublasLtContext *sc_lt_handle;
typedef struct sc_lt_desc_object *sc_lt_desc;
typedef struct sc_lt_layout_object *sc_lt_layout;
typedef struct sc_lt_preference_object *sc_lt_preference;

/* Plain data: may be stored in a file and used with the same library version. */
typedef struct sc_lt_algo {
    uint64_t data[8];
} sc_lt_algo;

typedef struct sc_lt_heuristic {
    sc_lt_algo algo;
    size_t workspace_bytes;
    sc_lt_status status; /* of this result; the array may contain failed ones */
    float waves;
    int reserved[4];
} sc_lt_heuristic;

enum {
    SC_LT_SUCCESS = 0,
    SC_LT_ALLOC_FAILED = 3,
    SC_LT_INVALID_VALUE = 7,
    SC_LT_NOT_SUPPORTED = 15
};
/* sc_lt_compute: accumulation type; TF32 reads f32 with a mantissa of 10 bits */
enum { SC_LT_COMPUTE_32F = 68, SC_LT_COMPUTE_64F = 70, SC_LT_COMPUTE_32F_FAST_TF32 = 77 };
/* sc_lt_dtype */
enum { SC_LT_F32 = 0, SC_LT_F64 = 1, SC_LT_F16 = 2, SC_LT_BF16 = 14 };
/* Values of TRANSPOSE_A and TRANSPOSE_B (int32_t) */
enum { SC_LT_AS_IS = 0, SC_LT_TRANSPOSED = 1 };
/* sc_lt_desc_attribute, with the type of each value */
enum {
    SC_LT_DESC_TRANSPOSE_A = 3,
    SC_LT_DESC_TRANSPOSE_B = 4,
    SC_LT_DESC_EPILOGUE = 7,           /* uint32_t */
    SC_LT_DESC_BIAS = 8,               /* address of a vector over the rows of D */
    SC_LT_DESC_BIAS_BATCH_STRIDE = 10, /* int64_t, elements */
    /* address of the auxiliary tensor: written for a gelu or relu derivative, or read by it */
    SC_LT_DESC_AUX = 11,
    SC_LT_DESC_AUX_STRIDE = 12, /* int64_t, elements */
    SC_LT_DESC_AUX_BATCH_STRIDE = 13,
    SC_LT_DESC_BIAS_DTYPE = 26 /* sc_lt_dtype, as int32_t */
};
/* Epilogues */
enum {
    SC_LT_EPILOGUE_NONE = 1,
    SC_LT_EPILOGUE_RELU = 2,
    SC_LT_EPILOGUE_BIAS = 4,
    SC_LT_EPILOGUE_RELU_BIAS = 6,
    SC_LT_EPILOGUE_GELU = 32, /* the tanh approximation */
    SC_LT_EPILOGUE_GELU_BIAS = 36,
    SC_LT_EPILOGUE_RELU_AUX = 130,
    SC_LT_EPILOGUE_RELU_AUX_BIAS = 134,
    SC_LT_EPILOGUE_DRELU = 136,
    SC_LT_EPILOGUE_DRELU_BGRAD = 152,
    SC_LT_EPILOGUE_GELU_AUX = 160,
    SC_LT_EPILOGUE_GELU_AUX_BIAS = 164,
    SC_LT_EPILOGUE_DGELU = 192,
    SC_LT_EPILOGUE_DGELU_BGRAD = 208,
    SC_LT_EPILOGUE_BGRAD_A = 256,
    SC_LT_EPILOGUE_BGRAD_B = 512
};
/* sc_lt_layout_attribute */
enum {
    SC_LT_LAYOUT_ORDER = 1,       /* int32_t */
    SC_LT_LAYOUT_BATCH_COUNT = 5, /* int32_t */
    SC_LT_LAYOUT_BATCH_STRIDE = 6 /* int64_t, elements */
};
enum { SC_LT_ORDER_COLUMN = 0, SC_LT_ORDER_ROW = 1 };
/* sc_lt_preference_attribute */
enum {
    SC_LT_PREFER_WORKSPACE_BYTES = 1, /* uint64_t: upper limit */
    SC_LT_PREFER_REDUCTIONS = 3,      /* uint32_t: permitted split-k reductions; default: all */
    SC_LT_PREFER_ALIGN_A = 5,         /* uint32_t: guaranteed alignment of addresses in bytes */
    SC_LT_PREFER_ALIGN_B = 6,
    SC_LT_PREFER_ALIGN_C = 7,
    SC_LT_PREFER_ALIGN_D = 8
};

/* How split-k parts are combined: in the result in its dtype, in the compute type, or in the
 * result's dtype elsewhere. */
enum {
    SC_LT_REDUCE_IN_PLACE = 1,
    SC_LT_REDUCE_AS_COMPUTED = 2,
    SC_LT_REDUCE_AS_RESULT = 4,
    SC_LT_REDUCE_ANY = 7
};

typedef struct sc_cublaslt {
    void *library;
#define SYMBOL(result, name, ...) result (*(name))(__VA_ARGS__);
#include "runtime/cuda/libcublaslt.def"
#undef SYMBOL
} sc_cublaslt;

/* Opens the library. False with SHARDC_ERROR_UNAVAILABLE: what is missing, and the remedy. */
bool sc_cublaslt_open(sc_cublaslt *out, shardc_error *error);
void sc_cublaslt_close(sc_cublaslt *cublaslt);

#endif
