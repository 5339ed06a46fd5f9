/* Shared by the files that open and read a feed: feed.c (which input is fed how), feeding.c (what
 * the next two share), feed_tensors.c
 * (--input), feed_tokens.c (--data), feed_read.c (batches, read ahead by a thread). */
#ifndef SHARDC_RUNTIME_DRIVE_FEED_INTERNAL_H
#define SHARDC_RUNTIME_DRIVE_FEED_INTERNAL_H

#include "runtime/drive/feed.h"

typedef struct sc_feeding {
    sc_context *context;
    const sc_fact_entry *entry;
    const sc_run_options *options;
    sc_feed *feed;
} sc_feeding;

static inline const sc_fact_input *sc_feeding_input(const sc_feeding *f, uint32_t input)
{
    return &f->entry->inputs.data[input];
}

/* ---- feeding.c ---- */
void sc_feeding_report(sc_feeding *f, const char *text);
/* Makes room for an input's values, and returns it. NULL after a message. */
double *sc_feeding_reserve(sc_feeding *f, uint32_t input);

/* ---- feed_tensors.c ---- */
void sc_feed_tensor(sc_feeding *f, const sc_named_text *given);

/* ---- feed_tokens.c ---- */
void sc_feed_tokens(sc_feeding *f, const sc_feed_request *request);

/* ---- feed_read.c ---- */
typedef struct sc_feed_error {
    char text[1024];
} sc_feed_error;

/* True if a batch has something to read. */
bool sc_feed_reads(const sc_feed *feed);
/* True if batches differ in the input: it is read for each. */
bool sc_feed_is_read(const sc_feed *feed, uint32_t input);
/* A batch to read. */
typedef struct sc_feed_slot {
    uint64_t batch;
    sc_array *arrays; /* by input */
    uint64_t bytes;   /* that it took of files of tokens */
    sc_feed_error error;
} sc_feed_slot;

/* Reads and checks a batch. Called by one thread at a time. */
bool sc_feed_read(sc_feed *feed, sc_feed_slot *slot);
/* Writes which value of an input is wrong. Returns false. */
bool sc_feed_bad_id(const sc_feed *feed, uint32_t input, double id, const char *where,
                    sc_feed_error *error);

/* ---- feed_ahead.c ---- */
void sc_feed_stop(sc_feed *feed);

#endif
