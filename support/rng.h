/* Random numbers by index: a value depends only on (seed, path, global element index), so a seed
 * yields the same bits on every mesh, in every order and on every backend. The generator is Philox
 * 4x32-10: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011,
 * section 3.3. Stateless; thread-safe. */
#ifndef SHARDC_SUPPORT_RNG_H
#define SHARDC_SUPPORT_RNG_H

#include <stdint.h>

/* Computes four words from a counter and a key; word 0 first, as in the authors' library. */
void sc_rng_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* Computes the key of a stream. path_hash is sc_fnv1a64 of the path with its instance:
 * layers[3].attn.wq. */
void sc_rng_key(uint64_t seed, uint64_t path_hash, uint32_t key[2]);

/* Returns a multiple of 2^-53 in [0, 1), from words 0 and 1 of counter (index, 0, 0). Rounding it
 * to a narrower dtype may yield 1. */
double sc_rng_uniform(uint64_t seed, uint64_t path_hash, uint64_t index);

/* As sc_rng_uniform, for any counter and key. Values that depend on more than an element's index (a
 * step, a micro-batch) use words 2 and 3 of the counter, which are 0 in the other functions. */
double sc_rng_uniform_at(const uint32_t counter[4], const uint32_t key[2]);

/* Returns a normal of mean 0 and variance 1, an f32 value with |x| < 8.6. Box and Muller, "A note
 * on the generation of random normal deviates", 1958: the cosine branch, from words 0 and 1 and
 * words 2 and 3 of the same counter. Logarithm and cosine use only + - * / and sqrt, which are
 * correctly rounded everywhere, so no bit depends on libm. */
double sc_rng_normal(uint64_t seed, uint64_t path_hash, uint64_t index);

/* Computes sc_rng_normal of the indices first, first + 1, ..; the same values, vectorized. */
void sc_rng_normals(uint64_t seed, uint64_t path_hash, uint64_t first, uint64_t count, double *out);

#endif
