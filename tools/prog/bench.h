/* Shared by bench.c and its --profile. */
#ifndef SHARDC_TOOLS_PROG_BENCH_H
#define SHARDC_TOOLS_PROG_BENCH_H

#include <jansson.h>

#include "runtime/drive/feed.h"
#include "runtime/drive/trainer.h"
#include "tools/prog/prog.h"

typedef struct sc_bench_spent sc_bench_spent;

typedef struct sc_bench {
    sc_prog *prog;
    sc_feed feed;
    sc_trainer *trainer; /* NULL: a function is called instead of a train step */
    uint32_t func;       /* the function called */
    sc_array *inputs;
    uint32_t input_count;
    uint32_t first_rank;    /* of this process */
    const sc_image *image;  /* that it runs; set with `spent` */
    sc_bench_spent **spent; /* by function and instruction; NULL without --profile */
} sc_bench;

/* Starts profiling; discards earlier measurements. */
void sc_bench_begin_profile(sc_bench *b);
void sc_bench_print_profile(sc_bench *b, sc_strbuf *out);
json_t *sc_bench_profile_json(sc_bench *b);

#endif
