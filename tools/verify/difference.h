/* The first difference that a validation finds; later ones mostly follow from it. */
#ifndef SHARDC_TOOLS_VERIFY_DIFFERENCE_H
#define SHARDC_TOOLS_VERIFY_DIFFERENCE_H

#include "ir/interp/interp.h"

/* The first error, in the order of the per-rank program. */
typedef struct sc_difference {
    /* the inputs: "random", "integers", "dtypes"; for an update alone "unclipped", "empty batch",
     * "overflow"; NULL: none */
    const char *run;
    sc_sym path;    /* of the value or cache; 0 for an output or when a run failed */
    int32_t output; /* index of the output, or -1 */
    /* index, expected and found are set; otherwise `message` describes the error */
    bool has_element;
    uint32_t rank;
    int64_t index[SC_MAX_RANK];
    double expected, found;
    bool is_memory; /* no difference: memory ran out before the comparison */
    char message[640];
    sc_loc loc;
} sc_difference;

/* The subject of a comparison. */
typedef struct sc_compared {
    sc_sym path;    /* 0 if it has none */
    int32_t output; /* index of the output, or -1 */
    sc_loc loc;
} sc_compared;

/* Receives differences. Once there is one, the functions below do nothing. */
typedef struct sc_differences {
    const char *run;      /* the comparison in progress */
    bool *equal;          /* set to false by the first difference */
    sc_difference *first; /* its `run` is NULL until there is a difference */
} sc_differences;

void sc_differ_because(const sc_differences *to, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void sc_differ_whole(const sc_differences *to, const sc_compared *what, const char *message);
/* Records a difference in one element of two arrays of the same shape. */
void sc_differ_at(const sc_differences *to, const sc_compared *what, const sc_array *expected,
                  const sc_array *found, int64_t element);

#endif
