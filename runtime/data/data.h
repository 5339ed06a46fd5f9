/* The tokens that --data names, as one sequence a part. Without weights there is one part: the
 * files of all items, one behind the other; in a mixture each item is a part. Files of ids and
 * plain bytes are read where they are; the ids of other text are first written to a file without a
 * name (text.h). Opening reports messages; reading may be done by many threads and returns
 * texts. */
#ifndef SHARDC_RUNTIME_DATA_DATA_H
#define SHARDC_RUNTIME_DATA_DATA_H

#include <pthread.h>

#include "runtime/data/text.h"
#include "runtime/files/tokens.h"
#include "support/arguments.h"

typedef struct sc_data_file {
    const char *path;
    sc_tokens *tokens;
    uint64_t first, count; /* place in the part; tokens */
} sc_data_file;

typedef struct sc_data_part {
    const char *text;
    double weight; /* 0: there is one part */
    uint64_t count;
    SC_VEC(sc_data_file) files;
} sc_data_part;

typedef struct sc_data {
    SC_VEC(sc_data_part) parts;
    uint64_t count; /* of tokens */
    uint32_t bits;  /* of the widest id in a file */
    bool has_eos;
    uint32_t eos; /* ends a document */
    /* A hash of weights, sizes and the first and last tokens of every file: not of names, so that
     * files may be moved. */
    uint64_t identity;
    int spool;             /* the file without a name; -1: none */
    pthread_mutex_t mutex; /* of what follows, and of files that rest */
    sc_tokens **awake;     /* ring of the files that are open */
    uint32_t next_awake;
} sc_data;

typedef struct sc_data_request {
    const sc_text_list *texts; /* at least one */
    const char *option;        /* that gave them, for messages */
    bool is_wide;              /* the model's vocabulary needs ids of 32 bits */
    bool may_mix;              /* items may have weights */
    bool wants_documents;      /* the id that ends them must be known */
    sc_text_options text;
} sc_data_request;

typedef struct sc_data_error {
    const char *path; /* of the file */
    char reason[256];
} sc_data_error;

/* The result is in the context's arena; close it in any case. False after messages. */
bool sc_data_open(sc_context *context, const sc_data_request *request, sc_data *out);
void sc_data_close(sc_data *data);

/* Reads tokens [first, first + count) of a part, within its count. Adds what that read of files to
 * *bytes. */
bool sc_data_read(sc_data *data, uint32_t part, uint64_t first, uint64_t count, double *out,
                  uint64_t *bytes, sc_data_error *error);
/* Finds the first of these tokens that is not below `below`; *out_at is UINT64_MAX if there is
 * none. */
bool sc_data_find_beyond(sc_data *data, uint32_t part, uint64_t first, uint64_t count,
                         uint64_t below, uint64_t *out_at, double *out_id, sc_data_error *error);
/* Returns the file that has the token, and its place there. */
const sc_data_file *sc_data_find_file(const sc_data *data, uint32_t part, uint64_t at,
                                      uint64_t *out_at);
/* Returns where the next file of the part begins, after token `at`; UINT64_MAX: it is in the
 * last. */
uint64_t sc_data_next_file(const sc_data *data, uint32_t part, uint64_t at);

#endif
