/* Inputs of an entry from files: tensors by name, tokens in windows. */
#ifndef SHARDC_TOOLS_FEED_H
#define SHARDC_TOOLS_FEED_H

#include "ir/interp.h"
#include "runtime/data.h"
#include "tools/driver.h"

typedef struct sc_feed {
    uint32_t count;
    sc_array *arrays;  /* by input, in function order: what the next run gets; malloc'd */
    sc_tokens *tokens; /* NULL: none */
    uint32_t token_inputs[2], token_input_count;
    uint64_t rows, row_length, batches; /* of tokens: of one batch, of one row; batches that the file holds */
} sc_feed;

/* Opens and checks everything that the options name for the entry's inputs; false after messages. Close it in any case. */
bool sc_feed_open(sc_context *context, const sc_compiled *c, const sc_options *options, sc_feed *feed);
/* Puts batch `batch` of the tokens into the arrays; nothing to do without tokens. */
void sc_feed_batch(sc_feed *feed, uint64_t batch);
void sc_feed_close(sc_feed *feed);

#endif
