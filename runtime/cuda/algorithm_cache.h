/* Which algorithm of cuBLASLt computes each product of a program: what the library (or a clock) said, once for all ranks of a process that
 * have the same GPU, and kept in a file from one start to the next. The file is text, of one program; an answer also depends on the GPU
 * and on the library, so it stands below their names:
 *
 *     shardc products 1
 *     program 0123456789abcdef                                              sc_image.hash
 *     GPU NVIDIA H100 SXM, capability 9.0, 132 multiprocessors, cuBLASLt 130000
 *     product 0 aligned 256 256 256 0 0 ns 0 0 algo 00..                    the algorithm's 64 bytes, as they lie in memory
 *     end 0123456789abcdef                                                  sc_fnv1a64 of all before it
 *
 * What is in a file is not believed: it must be whole, and of this program; who takes an answer from it has the library check it. */
#ifndef SHARDC_RUNTIME_CUDA_ALGORITHM_CACHE_H
#define SHARDC_RUNTIME_CUDA_ALGORITHM_CACHE_H

#include <pthread.h>

#include "runtime/cuda/libcublaslt.h"
#include "shardc/runtime.h"

enum { SC_CUDA_GPU_NAME = 192, SC_CUDA_ALIGNED = 5 };

/* For a product of the image on a GPU: its operands' alignment in bytes - a, b, d, the bias and what an epilogue keeps or reads (0: none)
 * - as it was told. */
typedef struct sc_cuda_choice {
    uint32_t gpu, product; /* GPU: index in the choices' GPUs */
    uint32_t aligned[SC_CUDA_ALIGNED];
    double first, least; /* seconds of a call, by the library's first choice and by this one; 0: not measured */
    sc_lt_algo algo;
    bool is_sure; /* said, or checked, in this process */
} sc_cuda_choice;

typedef struct sc_cuda_choices {
    pthread_mutex_t lock; /* of everything, while ranks start */
    uint64_t program;
    uint32_t product_count, gpu_count, gpu_room, count, room;
    char (*gpus)[SC_CUDA_GPU_NAME];
    sc_cuda_choice *list;
    uint32_t ready; /* ranks that have all they need */
    shardc_gemm_tuning info;
} sc_cuda_choices;

void sc_cuda_choices_init(sc_cuda_choices *choices, uint64_t program, uint32_t product_count);
void sc_cuda_choices_free(sc_cuda_choices *choices); /* one that was not initialised is allowed */

/* The index of a GPU by its name, which is cut and made one line. False: no memory. */
bool sc_cuda_choices_gpu(sc_cuda_choices *choices, const char *name, uint32_t *out);
/* The one of that GPU, product and alignment, or NULL. Valid until the next one is added. */
sc_cuda_choice *sc_cuda_choices_find(const sc_cuda_choices *choices, const sc_cuda_choice *wanted);
/* Instead of the one that there may be for the same. False: no memory. */
bool sc_cuda_choices_set(sc_cuda_choices *choices, const sc_cuda_choice *choice);

/* Adds what a file's text says: all of it, or nothing and in `why` what is wrong. */
bool sc_cuda_choices_parse(sc_cuda_choices *choices, const char *text, size_t size, char *why, size_t room);
/* Malloc'd; NULL: no memory. */
char *sc_cuda_choices_print(const sc_cuda_choices *choices, size_t *out_size);

/* The file. One that is not there is no problem; others go to info.read_error and info.write_error. It is written under another name and
 * renamed, over nothing but a file of choices. */
void sc_cuda_choices_read(sc_cuda_choices *choices, const char *path);
void sc_cuda_choices_write(sc_cuda_choices *choices, const char *path);

#endif
