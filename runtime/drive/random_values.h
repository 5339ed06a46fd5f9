/* Random values: floats distributed as in a trained model, integers in the range that their
 * consumers accept. */
#ifndef SHARDC_RUNTIME_DRIVE_RANDOM_VALUES_H
#define SHARDC_RUNTIME_DRIVE_RANDOM_VALUES_H

#include <stdbool.h>
#include <stdint.h>

typedef enum sc_distribution_form {
    SC_RANDOM_FLOAT,  /* mean + spread * normal */
    SC_RANDOM_INT,    /* uniform in [low, high), sometimes `ignore` */
    SC_RANDOM_LENGTH, /* mostly high - 1 (always the first), sometimes 0, sometimes between */
    SC_RANDOM_BOOL
} sc_distribution_form;

/* Distribution of one input or state. */
typedef struct sc_distribution {
    sc_distribution_form form;
    uint64_t stream; /* hash of its path; selects the random stream */
    double mean, spread;
    bool is_positive; /* positive floats: divisors, or operands of a root */
    int64_t low, high;
    bool may_ignore;
    double ignore; /* xent: the id that means "no target" */
} sc_distribution;

typedef struct sc_random_options {
    uint64_t seed;
    bool integers;    /* floats are integers from -SC_RANDOM_LARGEST to SC_RANDOM_LARGEST */
    uint32_t attempt; /* reduces the range of integers: 0 full, 1 two of them, 2 one */
} sc_random_options;

enum { SC_RANDOM_LARGEST = 3, SC_RANDOM_ATTEMPTS = 3 };

void sc_random_fill(const sc_distribution *distribution, const sc_random_options *options,
                    double *data, int64_t count);
/* Returns the largest magnitude of the generated integers. */
double sc_random_bound(const sc_distribution *distribution);

#endif
