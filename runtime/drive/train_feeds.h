/* What a training run reads: the data of its steps and of its held-out losses. */
#ifndef SHARDC_RUNTIME_DRIVE_TRAIN_FEEDS_H
#define SHARDC_RUNTIME_DRIVE_TRAIN_FEEDS_H

#include "runtime/drive/feed.h"
#include "runtime/drive/train_state.h"

typedef struct sc_train_feeds {
    sc_feed trained, held_out; /* held_out: only if the run holds something out */
    bool holds_out;
} sc_train_feeds;

/* True if the options ask for held-out losses. */
bool sc_train_holds_out(const sc_run_options *options);
/* Opens both; the caller closes both in any case. False after messages. */
bool sc_train_feeds_open(sc_context *context, const sc_fact_entry *entry,
                         const sc_run_options *options, sc_train_feeds *out);
/* Binds them to the step and to the forward function. False after messages. */
bool sc_train_feeds_bind(sc_context *context, const sc_executor *executor, uint32_t forward,
                         sc_train_feeds *feeds);

/* Sets which data a state is of: size, identity, rows. */
void sc_train_describe_data(const sc_run_options *options, const sc_feed *feed,
                            sc_train_state *out);
/* Reports other data than the original run's as a warning: it may be intended. The data order
 * continues after as many rows as were read so far. */
void sc_train_compare_data(sc_context *context, const sc_run_options *options, const sc_feed *feed,
                           const sc_train_state *then);

#endif
