/* Reads an entry's inputs from files: tensors by name, tokens in windows. */
#ifndef SHARDC_RUNTIME_DRIVE_FEED_H
#define SHARDC_RUNTIME_DRIVE_FEED_H

#include "runtime/data/order.h"
#include "runtime/drive/executor.h"
#include "runtime/drive/facts.h"
#include "runtime/drive/options.h"
#include "runtime/files/safetensors.h"
#include "support/context.h"

/* The order of tokens, and the shape of --input tensors. */
typedef enum sc_feed_order {
    SC_FEED_AS_STORED, /* rows in file order; tensors have the inputs' shapes */
    /* rows in the order of runtime/data/order.h; a tensor with an extra leading dim has one index
       per step */
    SC_FEED_TRAINING,
    SC_FEED_HELD_OUT /* the rows that --hold-out keeps from training; tensors as stored */
} sc_feed_order;

/* A tensor with one index per step. */
typedef struct sc_feed_steps {
    sc_safetensors *file;        /* NULL: the input is the same in every step, or is tokens */
    const sc_safetensor *tensor; /* in `file` */
} sc_feed_steps;

/* Limits of an input's integers, from the program. */
typedef struct sc_feed_limit {
    int64_t below; /* 0: no limit */
    bool may_ignore;
    int64_t ignore;
} sc_feed_limit;

/* Names of the inputs that --documents fills. */
#define SC_FEED_SEGMENTS  "segments"
#define SC_FEED_POSITIONS "positions"

typedef struct sc_feed_ahead sc_feed_ahead; /* a thread that reads the next batch */

typedef struct sc_feed {
    uint32_t count;
    const char **names;    /* by input */
    sc_array *arrays;      /* by input, in function order: values of the next run; malloc'd */
    sc_feed_steps *steps;  /* by input */
    sc_feed_limit *limits; /* by input */
    sc_feed_order order;
    sc_data *data;     /* NULL: no tokens */
    const char *label; /* what gave them, for messages */
    bool shares_data;  /* it is another feed's */
    sc_order windows;  /* of the tokens */
    uint32_t token_inputs[2], token_input_count;
    uint32_t segments, positions; /* inputs of --documents; SC_NONE: there is none */
    /* rows per batch, tokens per row, complete batches (in training: of an epoch) */
    uint64_t rows, row_length, batches;
    uint64_t wanted; /* batches that will be read: nothing is read ahead beyond them */
    bool *reads;     /* by row: whether ranks of this process read it; NULL: they read all */
    double *room;    /* for the tokens of a row */
    sc_feed_ahead *ahead;
    double waited;  /* seconds that the last sc_feed_batch took */
    uint64_t bytes; /* of files of tokens that its batch took in this process */
} sc_feed;

/* A feed to open. */
typedef struct sc_feed_request {
    const sc_fact_entry *entry;
    const sc_run_options *options;
    sc_feed_order order;
    const sc_feed *from; /* whose data SC_FEED_HELD_OUT shares */
    const char *option;  /* that names the data, for messages */
} sc_feed_request;

/* Opens and checks all files that the options name for the entry's inputs, for the global batch.
 * `steps`, if given, must be in them. False after messages. Close it in any case. */
bool sc_feed_open(sc_context *context, const sc_feed_request *request, sc_feed *feed);
/* Fills every input with random values that its consumers accept, for benchmarks. */
bool sc_feed_draw(sc_context *context, const sc_fact_entry *entry, uint64_t seed, sc_feed *feed);
/* Prepares reading for a function of the executor (SC_NONE: a step). Takes the limits of its inputs
 * and checks the files against them, as far as that is quick: an id without a row in the model must
 * not end a run after hours. Rows that no rank of this process reads are left out: they stay 0.
 * False after messages that name file and position. */
bool sc_feed_bind(sc_context *context, const sc_executor *executor, uint32_t func, sc_feed *feed);
/* Fills the arrays with batch or step `batch`, counted from 0: its tokens, and tensors with one
 * index per step; then lets a thread read the next one. False after messages, with the step: the
 * file changed, or an id is out of range. */
bool sc_feed_batch(sc_context *context, sc_feed *feed, uint64_t batch);
void sc_feed_close(sc_feed *feed);

#endif
