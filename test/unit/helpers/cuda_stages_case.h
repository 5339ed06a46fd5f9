/* The programs of stages_case.h for GPUs: kernels that the driver's stub runs. */
#ifndef SHARDC_TEST_CUDA_STAGES_CASE_H
#define SHARDC_TEST_CUDA_STAGES_CASE_H

#include "test/unit/helpers/cuda_case.h"
#include "test/unit/helpers/stages_case.h"

static const char cuda_stages_kernels[] =
    "SC_KERNEL(32, 1) void k_f_0(const int64_t *in, const int64_t *w, int64_t *out, int64_t stage, "
    "const int64_t *sc_call, uint64_t *sc_failure)\n"
    "{\n    int64_t i = sc_thread();\n"
    "    if (i < 3 && in[i] < 0)\n        sc_fail(sc_failure, 1ull << 48 | ((uint64_t)in[i] & "
    "0xffffffffffffull));\n"
    "    if (i < 3)\n        out[i] = in[i] * *w + stage;\n}\n"
    "SC_KERNEL(32, 1) void k_b_0(const int64_t *in, const int64_t *w, int64_t *acc, int64_t *out, "
    "const int64_t *sc_call, uint64_t *sc_failure)\n"
    "{\n    int64_t i = sc_thread();\n    if (i < 3) {\n        acc[i] += in[i];\n"
    "        out[i] = in[i] * *w;\n    }\n}\n"
    "SC_KERNEL(32, 1) void k_update_0(int64_t *w, int64_t *acc, int64_t *out, const int64_t "
    "*sc_call, uint64_t *sc_failure)\n"
    "{\n    int64_t i = sc_thread();\n    if (i == 0)\n        ++*w;\n"
    "    if (i < 3) {\n        out[i] = acc[i];\n        acc[i] = 0;\n    }\n}\n"
    "SC_KERNEL(32, 1) void k_add_0(const int64_t *in, int64_t *out, int64_t stage, const int64_t "
    "*sc_call, uint64_t *sc_failure)\n"
    "{\n    int64_t i = sc_thread();\n    if (i < 3)\n        out[i] = in[i] + stage;\n}\n";

/* The images are there, and what the test has added. */
static inline shardc_executable *cuda_stages_read(stages_case *s)
{
    for (uint32_t k = 0; k < s->count; k++) {
        s->stages[k].image.target = "cuda:sm_80";
        cuda_object(&s->stages[k], cuda_stages_kernels, "cubin", 80);
    }
    return stages_read(s);
}

static inline shardc_executable *cuda_stages_program(stages_case *s, uint32_t count,
                                                     uint64_t others, uint32_t axis,
                                                     uint32_t batches)
{
    stages_images(s, count, others, axis, batches);
    return cuda_stages_read(s);
}

#endif
