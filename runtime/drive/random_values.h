/* Random values: floats distributed as in a trained model, integers in the range that their
 * consumers accept. */
#ifndef SHARDC_RUNTIME_DRIVE_RANDOM_VALUES_H
#define SHARDC_RUNTIME_DRIVE_RANDOM_VALUES_H

#include <stdbool.h>
#include <stdint.h>

typedef enum sc_draw_form {
    SC_DRAW_FLOAT,  /* mean + spread * normal */
    SC_DRAW_INT,    /* uniform in [low, high), sometimes `ignore` */
    SC_DRAW_LENGTH, /* mostly high - 1 (always the first), sometimes 0, sometimes between */
    SC_DRAW_BOOL
} sc_draw_form;

/* Distribution of one input or state. */
typedef struct sc_draw {
    sc_draw_form form;
    uint64_t stream; /* hash of its path; selects the random stream */
    double mean, spread;
    bool is_positive; /* positive floats: divisors, or operands of a root */
    int64_t low, high;
    bool may_ignore;
    double ignore; /* xent: the id that means "no target" */
} sc_draw;

typedef struct sc_draw_options {
    uint64_t seed;
    bool integers;    /* floats are integers from -SC_DRAW_LARGEST to SC_DRAW_LARGEST */
    uint32_t attempt; /* reduces the range of integers: 0 full, 1 two of them, 2 one */
} sc_draw_options;

enum { SC_DRAW_LARGEST = 3, SC_DRAW_ATTEMPTS = 3 };

void sc_draw_fill(const sc_draw *draw, const sc_draw_options *options, double *data, int64_t count);
/* Returns the largest magnitude of the generated integers. */
double sc_draw_bound(const sc_draw *draw);

#endif
