/* Inputs of an entry from files: tensors by name, tokens in windows. */
#ifndef SHARDC_RUNTIME_DRIVE_FEED_H
#define SHARDC_RUNTIME_DRIVE_FEED_H

#include "runtime/drive/executor.h"
#include "runtime/drive/facts.h"
#include "runtime/drive/options.h"
#include "runtime/files/safetensors.h"
#include "runtime/files/tokens.h"
#include "runtime/files/windows.h"
#include "support/context.h"

/* In which order tokens come, and what --input may hold. */
typedef enum sc_feed_order {
    SC_FEED_AS_STORED, /* rows one after the other; tensors have the inputs' shapes */
    SC_FEED_TRAINING   /* rows in the order of runtime/files/windows.h; a tensor with one dim more holds a step per index */
} sc_feed_order;

/* A tensor that holds a step per index. */
typedef struct sc_feed_steps {
    sc_safetensors *file;        /* NULL: the input is the same in every step, or is tokens */
    const sc_safetensor *tensor; /* of it */
} sc_feed_steps;

/* What an input may hold, once the program says it. */
typedef struct sc_feed_limit {
    int64_t below; /* 0: anything */
    bool may_ignore;
    int64_t ignore;
} sc_feed_limit;

typedef struct sc_feed {
    uint32_t count;
    const char **names;    /* of the inputs */
    sc_array *arrays;      /* by input, in function order: what the next run gets; malloc'd */
    sc_feed_steps *steps;  /* by input */
    sc_feed_limit *limits; /* by input */
    const char *data;      /* the path of the tokens */
    sc_feed_order order;
    sc_tokens *tokens;  /* NULL: none */
    sc_windows windows; /* of the tokens, in training */
    uint32_t token_inputs[2], token_input_count;
    uint64_t rows, row_length, batches; /* of tokens: of one batch, of one row; batches that the file holds */
} sc_feed;

/* Opens and checks everything that the options name for the inputs of the entry, whose batch is whole: `steps`, if given, are there. False
 * after messages. Close it in any case. */
bool sc_feed_open(sc_context *context, const sc_fact_entry *entry, const sc_run_options *options, sc_feed_order order, sc_feed *feed);
/* Random values for every input, as its readers accept them: for measuring. */
bool sc_feed_draw(sc_context *context, const sc_fact_entry *entry, uint64_t seed, sc_feed *feed);
/* Takes over what the function of the program says of its inputs' values, and checks the files by it, as far as that is quick: an id that
 * the model has no row for must not end a run after hours. False after messages that name file and position. */
bool sc_feed_limit_to(sc_context *context, const sc_machine_func *func, sc_feed *feed);
/* Puts batch or step `batch`, counted from 0, into the arrays: its tokens and what holds a step per index. False after messages: a file
 * that has changed, or an id out of range, with the step. */
bool sc_feed_batch(sc_context *context, sc_feed *feed, uint64_t batch);
void sc_feed_close(sc_feed *feed);

#endif
