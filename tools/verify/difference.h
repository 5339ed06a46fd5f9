/* What a validation finds first: later differences mostly follow from it. */
#ifndef SHARDC_TOOLS_VERIFY_DIFFERENCE_H
#define SHARDC_TOOLS_VERIFY_DIFFERENCE_H

#include "ir/interp/interp.h"

/* The first thing, in the order of the per-rank program, that is not as it should be. */
typedef struct sc_difference {
    const char *run;  /* on which inputs: "random", "integers", "dtypes"; of an update by itself "unclipped", "empty batch", "overflow";
                         NULL: none */
    sc_sym path;      /* of the value or cache; 0 for an output or when a run failed */
    int32_t output;   /* which output, or -1 */
    bool has_element; /* index, expected, found are set; else `message` says what happened */
    uint32_t rank;
    int64_t index[SC_MAX_RANK];
    double expected, found;
    bool is_memory; /* nothing differs: there was not enough memory to find out */
    char message[640];
    sc_loc loc;
} sc_difference;

/* What a comparison is about. */
typedef struct sc_compared {
    sc_sym path;    /* 0: it has none */
    int32_t output; /* which output, or -1 */
    sc_loc loc;
} sc_compared;

/* Where differences go. Once there is one, the functions below do nothing. */
typedef struct sc_differences {
    const char *run;      /* what is compared at present */
    bool *equal;          /* false from the first difference on */
    sc_difference *first; /* without `run`: there is none yet */
} sc_differences;

void sc_differ_because(const sc_differences *to, const char *format, ...) __attribute__((format(printf, 2, 3)));
void sc_differ_whole(const sc_differences *to, const sc_compared *what, const char *message);
/* In one element of two arrays of the same shape. */
void sc_differ_at(const sc_differences *to, const sc_compared *what, const sc_array *expected, const sc_array *found, int64_t element);

#endif
