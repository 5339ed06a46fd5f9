/* A call of ranks in one process as a list of units: pieces of its buffers that depend on nothing else, so that any thread may take any of
 * them. Numbered from 0 to count - 1, part by part. */
#ifndef SHARDC_RUNTIME_COMM_UNITS_H
#define SHARDC_RUNTIME_COMM_UNITS_H

#include "runtime/comm/backend.h"

enum { SC_COMM_MAX_LOCAL_RANKS = 1024 };

typedef struct sc_comm_units {
    sc_comm_request *const *members; /* by group rank; send and recv: only these two */
    uint32_t group_size;
    int64_t count;
    int64_t unit_bytes;
    bool streams; /* past the caches: what is written is not read again soon */
} sc_comm_units;

/* Where a thread is in the list: zero before its first unit. */
typedef struct sc_comm_cursor {
    uint32_t part;
    int64_t before; /* units of the parts before it */
} sc_comm_cursor;

/* `call` is that of any member. */
void sc_comm_units_init(sc_comm_units *units, const sc_comm_request *request, sc_comm_request *const *members);

/* Runs one unit, which comes after all that the cursor has seen. Reads all its sources before it writes any of its destinations. */
void sc_comm_units_run(const sc_comm_units *units, const sc_comm_request *request, sc_comm_cursor *cursor, int64_t unit);

#endif
