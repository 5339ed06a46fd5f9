/* Our declarations of a library's functions, types and numbers against its real header: compiled by
 * signatures.sh, once a library
 * (-DWITH_cuda, ..), never run. In the first part the types that the tables name are the header's
 * own, so that every signature is compared type by type; in the second our types and numbers stand
 * beside the header's. */
#include <stddef.h>
#include <stdint.h>

#define SAME_FUNCTION(result, name, ...)                                                           \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&name), result (*)(__VA_ARGS__)),       \
                   #name " has another signature");
#define SAME_NUMBER(ours, theirs)                                                                  \
    _Static_assert((long long)(ours) == (long long)(theirs), #ours " is not " #theirs)
#define SAME_SIZE(ours, theirs)                                                                    \
    _Static_assert(sizeof(ours) == sizeof(theirs) && _Alignof(ours) == _Alignof(theirs),           \
                   #ours " is not as large as " #theirs)
/* Of enumerations: numbers without a sign. */
#define SAME_UNSIGNED(ours, theirs)                                                                \
    SAME_SIZE(ours, theirs);                                                                       \
    _Static_assert((theirs)-1 > 0, #theirs " has a sign")
#define SAME_FIELD(ours, field, theirs, their_field)                                               \
    _Static_assert(offsetof(ours, field) == offsetof(theirs, their_field) &&                       \
                       sizeof(((ours *)NULL)->field) == sizeof(((theirs *)NULL)->their_field),     \
                   #ours "." #field " is not where " #their_field " is")

#if defined(WITH_cuda) && defined(SIGNATURES)
#include <cuda.h>
typedef CUresult sc_cu_result;
typedef CUdevice_attribute sc_cu_device_attribute;
typedef CUfunction_attribute sc_cu_function_attribute;
typedef CUjit_option sc_cu_jit_option;
typedef CUstreamCaptureMode sc_cu_capture_mode;
typedef CUdevice sc_cu_device;
typedef CUdeviceptr sc_cu_address;
typedef CUcontext sc_cu_context;
typedef CUmodule sc_cu_module;
typedef CUfunction sc_cu_function;
typedef CUstream sc_cu_stream;
typedef CUevent sc_cu_event;
typedef CUgraph sc_cu_graph;
typedef CUgraphExec sc_cu_graph_exec;
typedef CUhostFn sc_cu_host_function;
#define SYMBOL SAME_FUNCTION
#include "runtime/cuda/libcuda.def"

#elif defined(WITH_cuda)
#include <cuda.h>

#include "runtime/cuda/libcuda.h"
SAME_UNSIGNED(sc_cu_result, CUresult);
SAME_UNSIGNED(sc_cu_device_attribute, CUdevice_attribute);
SAME_UNSIGNED(sc_cu_function_attribute, CUfunction_attribute);
SAME_UNSIGNED(sc_cu_jit_option, CUjit_option);
SAME_UNSIGNED(sc_cu_capture_mode, CUstreamCaptureMode);
SAME_UNSIGNED(sc_cu_address, CUdeviceptr);
SAME_SIZE(sc_cu_device, CUdevice);
SAME_SIZE(sc_cu_context, CUcontext);
SAME_NUMBER(SC_CU_SUCCESS, CUDA_SUCCESS);
SAME_NUMBER(SC_CU_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
SAME_NUMBER(SC_CU_STUB_LIBRARY, CUDA_ERROR_STUB_LIBRARY);
SAME_NUMBER(SC_CU_NEEDS_NEWER_DRIVER, CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER);
SAME_NUMBER(SC_CU_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
SAME_NUMBER(SC_CU_NO_BINARY_FOR_GPU, CUDA_ERROR_NO_BINARY_FOR_GPU);
SAME_NUMBER(SC_CU_UNSUPPORTED_PTX, CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
SAME_NUMBER(SC_CU_NOT_FOUND, CUDA_ERROR_NOT_FOUND);
SAME_NUMBER(SC_CU_NOT_READY, CUDA_ERROR_NOT_READY);
SAME_NUMBER(SC_CU_MULTIPROCESSORS, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME_NUMBER(SC_CU_COMPUTE_MODE, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE);
SAME_NUMBER(SC_CU_CAPABILITY_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME_NUMBER(SC_CU_CAPABILITY_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME_NUMBER(SC_CU_MAX_SHARED_BYTES, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
SAME_NUMBER(SC_CU_PROHIBITED, CU_COMPUTEMODE_PROHIBITED);
SAME_NUMBER(SC_CU_MAX_DYNAMIC_SHARED_BYTES, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME_NUMBER(SC_CU_JIT_ERROR_LOG, CU_JIT_ERROR_LOG_BUFFER);
SAME_NUMBER(SC_CU_JIT_ERROR_LOG_BYTES, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
SAME_NUMBER(SC_CU_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
SAME_NUMBER(SC_CU_EVENT_BLOCKING_SYNC, CU_EVENT_BLOCKING_SYNC);
SAME_NUMBER(SC_CU_EVENT_NO_TIMING, CU_EVENT_DISABLE_TIMING);
SAME_NUMBER(SC_CU_HOST_PORTABLE, CU_MEMHOSTALLOC_PORTABLE);
SAME_NUMBER(SC_CU_CAPTURE_GLOBAL, CU_STREAM_CAPTURE_MODE_GLOBAL);
SAME_NUMBER(SC_CU_CAPTURE_THREAD, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
SAME_NUMBER(SC_CU_CAPTURE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED);

#elif defined(WITH_nvrtc) && defined(SIGNATURES)
#include <nvrtc.h>
typedef nvrtcResult sc_nvrtc_result;
typedef nvrtcProgram sc_nvrtc_program;
#define SYMBOL SAME_FUNCTION
#include "codegen/toolchain/nvrtc.def"

#elif defined(WITH_nvrtc)
#include <nvrtc.h>

#include "codegen/toolchain/nvrtc.h"
SAME_UNSIGNED(sc_nvrtc_result, nvrtcResult);
SAME_SIZE(sc_nvrtc_program, nvrtcProgram);
SAME_NUMBER(SC_NVRTC_SUCCESS, NVRTC_SUCCESS);
SAME_NUMBER(SC_NVRTC_OUT_OF_MEMORY, NVRTC_ERROR_OUT_OF_MEMORY);
SAME_NUMBER(SC_NVRTC_INVALID_OPTION, NVRTC_ERROR_INVALID_OPTION);
SAME_NUMBER(SC_NVRTC_COMPILATION, NVRTC_ERROR_COMPILATION);

#elif defined(WITH_cublaslt) && defined(SIGNATURES)
#include <cublasLt.h>
typedef cublasStatus_t sc_lt_status;
typedef cublasComputeType_t sc_lt_compute;
typedef cudaDataType_t sc_lt_dtype;
typedef cublasLtMatmulDescAttributes_t sc_lt_desc_attribute;
typedef cublasLtMatrixLayoutAttribute_t sc_lt_layout_attribute;
typedef cublasLtMatmulPreferenceAttributes_t sc_lt_preference_attribute;
typedef cublasLtHandle_t sc_lt_handle;
typedef cublasLtMatmulDesc_t sc_lt_desc;
typedef cublasLtMatrixLayout_t sc_lt_layout;
typedef cublasLtMatmulPreference_t sc_lt_preference;
typedef cublasLtMatmulAlgo_t sc_lt_algo;
typedef cublasLtMatmulHeuristicResult_t sc_lt_heuristic;
typedef cudaStream_t sc_cu_stream;
#define SYMBOL SAME_FUNCTION
#include "runtime/cuda/libcublaslt.def"

#elif defined(WITH_cublaslt)
#include <cublasLt.h>

#include "runtime/cuda/libcublaslt.h"
SAME_UNSIGNED(sc_lt_status, cublasStatus_t);
SAME_UNSIGNED(sc_lt_compute, cublasComputeType_t);
SAME_UNSIGNED(sc_lt_dtype, cudaDataType_t);
SAME_UNSIGNED(sc_lt_desc_attribute, cublasLtMatmulDescAttributes_t);
SAME_UNSIGNED(sc_lt_layout_attribute, cublasLtMatrixLayoutAttribute_t);
SAME_UNSIGNED(sc_lt_preference_attribute, cublasLtMatmulPreferenceAttributes_t);
SAME_SIZE(sc_lt_handle, cublasLtHandle_t);
SAME_SIZE(sc_lt_desc, cublasLtMatmulDesc_t);
SAME_SIZE(sc_lt_algo, cublasLtMatmulAlgo_t);
SAME_SIZE(sc_lt_heuristic, cublasLtMatmulHeuristicResult_t);
SAME_FIELD(sc_lt_heuristic, algo, cublasLtMatmulHeuristicResult_t, algo);
SAME_FIELD(sc_lt_heuristic, workspace_bytes, cublasLtMatmulHeuristicResult_t, workspaceSize);
SAME_FIELD(sc_lt_heuristic, status, cublasLtMatmulHeuristicResult_t, state);
SAME_FIELD(sc_lt_heuristic, waves, cublasLtMatmulHeuristicResult_t, wavesCount);
SAME_NUMBER(SC_LT_SUCCESS, CUBLAS_STATUS_SUCCESS);
SAME_NUMBER(SC_LT_ALLOC_FAILED, CUBLAS_STATUS_ALLOC_FAILED);
SAME_NUMBER(SC_LT_INVALID_VALUE, CUBLAS_STATUS_INVALID_VALUE);
SAME_NUMBER(SC_LT_NOT_SUPPORTED, CUBLAS_STATUS_NOT_SUPPORTED);
SAME_NUMBER(SC_LT_COMPUTE_32F, CUBLAS_COMPUTE_32F);
SAME_NUMBER(SC_LT_COMPUTE_64F, CUBLAS_COMPUTE_64F);
SAME_NUMBER(SC_LT_COMPUTE_32F_FAST_TF32, CUBLAS_COMPUTE_32F_FAST_TF32);
SAME_NUMBER(SC_LT_F32, CUDA_R_32F);
SAME_NUMBER(SC_LT_F64, CUDA_R_64F);
SAME_NUMBER(SC_LT_F16, CUDA_R_16F);
SAME_NUMBER(SC_LT_BF16, CUDA_R_16BF);
SAME_NUMBER(SC_LT_AS_IS, CUBLAS_OP_N);
SAME_NUMBER(SC_LT_TRANSPOSED, CUBLAS_OP_T);
SAME_NUMBER(SC_LT_DESC_TRANSPOSE_A, CUBLASLT_MATMUL_DESC_TRANSA);
SAME_NUMBER(SC_LT_DESC_TRANSPOSE_B, CUBLASLT_MATMUL_DESC_TRANSB);
SAME_NUMBER(SC_LT_DESC_EPILOGUE, CUBLASLT_MATMUL_DESC_EPILOGUE);
SAME_NUMBER(SC_LT_DESC_BIAS, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
SAME_NUMBER(SC_LT_DESC_BIAS_BATCH_STRIDE, CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE);
SAME_NUMBER(SC_LT_DESC_AUX, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER);
SAME_NUMBER(SC_LT_DESC_AUX_STRIDE, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD);
SAME_NUMBER(SC_LT_DESC_AUX_BATCH_STRIDE, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE);
SAME_NUMBER(SC_LT_DESC_BIAS_DTYPE, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE);
SAME_NUMBER(SC_LT_EPILOGUE_NONE, CUBLASLT_EPILOGUE_DEFAULT);
SAME_NUMBER(SC_LT_EPILOGUE_RELU, CUBLASLT_EPILOGUE_RELU);
SAME_NUMBER(SC_LT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_BIAS);
SAME_NUMBER(SC_LT_EPILOGUE_RELU_BIAS, CUBLASLT_EPILOGUE_RELU_BIAS);
SAME_NUMBER(SC_LT_EPILOGUE_GELU, CUBLASLT_EPILOGUE_GELU);
SAME_NUMBER(SC_LT_EPILOGUE_GELU_BIAS, CUBLASLT_EPILOGUE_GELU_BIAS);
SAME_NUMBER(SC_LT_EPILOGUE_RELU_AUX, CUBLASLT_EPILOGUE_RELU_AUX);
SAME_NUMBER(SC_LT_EPILOGUE_RELU_AUX_BIAS, CUBLASLT_EPILOGUE_RELU_AUX_BIAS);
SAME_NUMBER(SC_LT_EPILOGUE_DRELU, CUBLASLT_EPILOGUE_DRELU);
SAME_NUMBER(SC_LT_EPILOGUE_DRELU_BGRAD, CUBLASLT_EPILOGUE_DRELU_BGRAD);
SAME_NUMBER(SC_LT_EPILOGUE_GELU_AUX, CUBLASLT_EPILOGUE_GELU_AUX);
SAME_NUMBER(SC_LT_EPILOGUE_GELU_AUX_BIAS, CUBLASLT_EPILOGUE_GELU_AUX_BIAS);
SAME_NUMBER(SC_LT_EPILOGUE_DGELU, CUBLASLT_EPILOGUE_DGELU);
SAME_NUMBER(SC_LT_EPILOGUE_DGELU_BGRAD, CUBLASLT_EPILOGUE_DGELU_BGRAD);
SAME_NUMBER(SC_LT_EPILOGUE_BGRAD_A, CUBLASLT_EPILOGUE_BGRADA);
SAME_NUMBER(SC_LT_EPILOGUE_BGRAD_B, CUBLASLT_EPILOGUE_BGRADB);
SAME_NUMBER(SC_LT_LAYOUT_ORDER, CUBLASLT_MATRIX_LAYOUT_ORDER);
SAME_NUMBER(SC_LT_LAYOUT_BATCH_COUNT, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
SAME_NUMBER(SC_LT_LAYOUT_BATCH_STRIDE, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
SAME_NUMBER(SC_LT_ORDER_COLUMN, CUBLASLT_ORDER_COL);
SAME_NUMBER(SC_LT_ORDER_ROW, CUBLASLT_ORDER_ROW);
SAME_NUMBER(SC_LT_PREFER_WORKSPACE_BYTES, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
SAME_NUMBER(SC_LT_PREFER_REDUCTIONS, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
SAME_NUMBER(SC_LT_REDUCE_IN_PLACE, CUBLASLT_REDUCTION_SCHEME_INPLACE);
SAME_NUMBER(SC_LT_REDUCE_AS_COMPUTED, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
SAME_NUMBER(SC_LT_REDUCE_AS_RESULT, CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE);
SAME_NUMBER(SC_LT_REDUCE_ANY, CUBLASLT_REDUCTION_SCHEME_MASK);
SAME_NUMBER(SC_LT_PREFER_ALIGN_A, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
SAME_NUMBER(SC_LT_PREFER_ALIGN_B, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
SAME_NUMBER(SC_LT_PREFER_ALIGN_C, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
SAME_NUMBER(SC_LT_PREFER_ALIGN_D, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);

#elif defined(WITH_nccl) && defined(SIGNATURES)
#include <nccl.h>
typedef ncclResult_t sc_nccl_result;
typedef ncclDataType_t sc_nccl_dtype;
typedef ncclRedOp_t sc_nccl_reduce;
typedef ncclComm_t sc_nccl_comm;
typedef ncclUniqueId sc_nccl_id;
typedef ncclConfig_t sc_nccl_config;
typedef cudaStream_t sc_cu_stream;
#define SYMBOL SAME_FUNCTION
#include "runtime/cuda/libnccl.def"

#elif defined(WITH_nccl)
#include <nccl.h>

#include "runtime/cuda/libnccl.h"
SAME_UNSIGNED(sc_nccl_result, ncclResult_t);
SAME_UNSIGNED(sc_nccl_dtype, ncclDataType_t);
SAME_UNSIGNED(sc_nccl_reduce, ncclRedOp_t);
SAME_SIZE(sc_nccl_comm, ncclComm_t);
SAME_SIZE(sc_nccl_id, ncclUniqueId);
SAME_FIELD(sc_nccl_config, size, ncclConfig_t, size);
SAME_FIELD(sc_nccl_config, magic, ncclConfig_t, magic);
SAME_FIELD(sc_nccl_config, version, ncclConfig_t, version);
SAME_FIELD(sc_nccl_config, blocking, ncclConfig_t, blocking);
SAME_FIELD(sc_nccl_config, cga_cluster_size, ncclConfig_t, cgaClusterSize);
SAME_FIELD(sc_nccl_config, min_ctas, ncclConfig_t, minCTAs);
SAME_FIELD(sc_nccl_config, max_ctas, ncclConfig_t, maxCTAs);
SAME_FIELD(sc_nccl_config, net_name, ncclConfig_t, netName);
SAME_FIELD(sc_nccl_config, split_share, ncclConfig_t, splitShare);
_Static_assert(sizeof(sc_nccl_config) <= sizeof(ncclConfig_t),
               "the header's configuration is older than ours");
SAME_NUMBER(SC_NCCL_LEAST_VERSION, NCCL_VERSION(2, 18, 0));
SAME_NUMBER(SC_NCCL_UNSET, NCCL_CONFIG_UNDEF_INT);
SAME_NUMBER(SC_NCCL_NO_COLOR, NCCL_SPLIT_NOCOLOR);
SAME_NUMBER(SC_NCCL_SUCCESS, ncclSuccess);
SAME_NUMBER(SC_NCCL_UNHANDLED_CUDA, ncclUnhandledCudaError);
SAME_NUMBER(SC_NCCL_SYSTEM, ncclSystemError);
SAME_NUMBER(SC_NCCL_INTERNAL, ncclInternalError);
SAME_NUMBER(SC_NCCL_INVALID_ARGUMENT, ncclInvalidArgument);
SAME_NUMBER(SC_NCCL_INVALID_USAGE, ncclInvalidUsage);
SAME_NUMBER(SC_NCCL_REMOTE, ncclRemoteError);
SAME_NUMBER(SC_NCCL_IN_PROGRESS, ncclInProgress);
SAME_NUMBER(SC_NCCL_I8, ncclInt8);
SAME_NUMBER(SC_NCCL_U8, ncclUint8);
SAME_NUMBER(SC_NCCL_I32, ncclInt32);
SAME_NUMBER(SC_NCCL_I64, ncclInt64);
SAME_NUMBER(SC_NCCL_F16, ncclFloat16);
SAME_NUMBER(SC_NCCL_F32, ncclFloat32);
SAME_NUMBER(SC_NCCL_F64, ncclFloat64);
SAME_NUMBER(SC_NCCL_BF16, ncclBfloat16);
SAME_NUMBER(SC_NCCL_SUM, ncclSum);
SAME_NUMBER(SC_NCCL_MAX, ncclMax);
SAME_NUMBER(SC_NCCL_MIN, ncclMin);

#else
#error "-DWITH_cuda, WITH_nvrtc, WITH_cublaslt or WITH_nccl"
#endif
