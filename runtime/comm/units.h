/* Splits a call between ranks of one process into units of work: independent pieces of its buffers,
 * so that any thread may run any of them. Units are numbered from 0 to count - 1, part by part. */
#ifndef SHARDC_RUNTIME_COMM_UNITS_H
#define SHARDC_RUNTIME_COMM_UNITS_H

#include "runtime/comm/backend.h"

enum { SC_COMM_MAX_LOCAL_RANKS = 1024 };

typedef struct sc_comm_units {
    sc_comm_request *const *members; /* by group rank; send and recv: the two peers */
    uint32_t group_size;
    int64_t count;
    int64_t unit_bytes;
    bool streams; /* use non-temporal stores: results are not read again soon */
} sc_comm_units;

/* A thread's position in the list; zero before its first unit. */
typedef struct sc_comm_cursor {
    uint32_t part;
    int64_t before; /* units of earlier parts */
} sc_comm_cursor;

/* `request` is any member's. */
void sc_comm_units_init(sc_comm_units *units, const sc_comm_request *request,
                        sc_comm_request *const *members);

/* Runs one unit, whose number must be above all that the cursor has seen. Reads all its sources
 * before it writes any destination. */
void sc_comm_units_run(const sc_comm_units *units, const sc_comm_request *request,
                       sc_comm_cursor *cursor, int64_t unit);

#endif
