/* Caches the cuBLASLt algorithm of each GEMM of a program, as chosen by the library's heuristic or
 * by measurement, for all ranks of a process that have the same kind of GPU, and in a file for
 * later runs. The file is text and belongs to one program. Algorithms also depend on the GPU and
 * the library's version, so they follow a line that names both:
 *
 *     shardc products 3
 *     program 0123456789abcdef                          sc_image.hash
 *     GPU NVIDIA H100 SXM, capability 9.0, 132 multiprocessors, cuBLASLt 130000
 *     product 0 aligned 256 256 256 0 0 ns 0 0 apart 0 algo 00..   the algorithm's 64 bytes, in
 * order end 0123456789abcdef                              sc_fnv1a64 of everything before
 *
 * The file is not trusted: it must be complete and of this program, and an algorithm from it is
 * used only after the library has checked it. */
#ifndef SHARDC_RUNTIME_CUDA_ALGORITHM_CACHE_H
#define SHARDC_RUNTIME_CUDA_ALGORITHM_CACHE_H

#include <pthread.h>

#include "runtime/cuda/libcublaslt.h"
#include "shardc/runtime.h"

enum { SC_CUDA_GPU_NAME = 192, SC_CUDA_ALIGNED = 5 };

/* The algorithm of a GEMM of the program on a GPU, with the alignment of its operands in bytes (a,
 * b, d, the bias, and the auxiliary tensor of the epilogue; 0: none) for which it was chosen. */
typedef struct sc_algorithm {
    uint32_t gpu, gemm; /* GPU: index in `gpus` */
    uint32_t aligned[SC_CUDA_ALIGNED];
    /* seconds per call, of the library's first choice and of this algorithm; 0: not measured */
    double first, least;
    sc_lt_algo algo;
    bool is_apart;    /* the instructions that stand for the GEMM and its epilogue are faster */
    bool is_compared; /* with them, in this process: other ranks decide alike */
    bool is_sure;     /* queried or checked in this process */
} sc_algorithm;

typedef struct sc_algorithm_cache {
    pthread_mutex_t lock; /* protects everything while ranks start */
    /* held while GEMMs, and what stands for them, are measured: one rank at a time */
    pthread_mutex_t measuring;
    uint64_t program;
    uint32_t gemm_count, gpu_count, gpu_room, count, room;
    char (*gpus)[SC_CUDA_GPU_NAME];
    sc_algorithm *list;
    uint32_t ready; /* ranks that have all their algorithms */
    shardc_gemm_tuning info;
} sc_algorithm_cache;

void sc_algorithm_cache_init(sc_algorithm_cache *cache, uint64_t program, uint32_t gemm_count);
void sc_algorithm_cache_free(sc_algorithm_cache *cache); /* an uninitialized one is allowed */

/* Finds or adds a GPU by name, which is truncated and made a single line. False: out of memory. */
bool sc_algorithm_cache_gpu(sc_algorithm_cache *cache, const char *name, uint32_t *out);
/* Returns the entry with that GPU, GEMM and alignment, or NULL. Valid until the next insertion. */
sc_algorithm *sc_algorithm_cache_find(const sc_algorithm_cache *cache, const sc_algorithm *wanted);
/* Inserts an entry, replacing one with the same key. False: out of memory. */
bool sc_algorithm_cache_set(sc_algorithm_cache *cache, const sc_algorithm *algorithm);

/* Adds the entries of a file's text. On failure adds nothing and describes the problem in `why`. */
bool sc_algorithm_cache_parse(sc_algorithm_cache *cache, const char *text, size_t size, char *why,
                              size_t room);
/* Returns the file's text, malloc'd; NULL: out of memory. */
char *sc_algorithm_cache_print(const sc_algorithm_cache *cache, size_t *out_size);

/* Read and write the file. A missing file is no error; errors go to info.read_error and
 * info.write_error. The file is written under another name, then renamed; it only ever replaces a
 * cache file. */
void sc_algorithm_cache_read(sc_algorithm_cache *cache, const char *path);
void sc_algorithm_cache_write(sc_algorithm_cache *cache, const char *path);
/* True if no file is there, or one that begins as a cache file. Else sets errno. */
bool sc_algorithm_cache_may_replace(const char *path);

#endif
