/* Runs a compiled program on a described device: its instructions, streams, waits, messages and
 * schedule, as the runtime runs them. All ranks of a stage do the same, so that one of each stage
 * is simulated. Linear in the instructions that are executed. */
#ifndef SHARDC_TOOLS_TIME_SIMULATE_H
#define SHARDC_TOOLS_TIME_SIMULATE_H

#include "tools/time/cost.h"

typedef enum sc_time_kind {
    SC_TIME_MATMUL,
    SC_TIME_ATTENTION,
    SC_TIME_ROUTED, /* products of routed experts */
    SC_TIME_KERNEL, /* bound by memory */
    SC_TIME_COPY,
    SC_TIME_UPDATE, /* everything of the optimizer */
    SC_TIME_COLLECTIVE,
    SC_TIME_TRANSFER, /* to or from host memory */
    SC_TIME_MESSAGE,  /* between stages */
    SC_TIME_KINDS
} sc_time_kind;

extern const char *const sc_time_kind_names[SC_TIME_KINDS];

/* What instructions of one kind (of a collective: of one op, axes and place) take on a rank. */
typedef struct sc_time_row {
    sc_time_kind kind;
    const char *op, *axes; /* of collectives; else NULL */
    bool within_node;
    uint64_t count;
    double seconds; /* alone */
    double exposed; /* that stream 0 waited */
} sc_time_row;
typedef SC_VEC(sc_time_row) sc_time_rows;

/* An interval of a stream of a stage. */
typedef struct sc_time_slice {
    uint32_t stage;
    const char *stream; /* compute; tp; fsdp; host; to stage 1 */
    const char *name;
    double start, end;
    bool is_wait;
} sc_time_slice;
typedef SC_VEC(sc_time_slice) sc_time_slices;

typedef struct sc_time_stage {
    double end;     /* of its last instruction */
    double busy;    /* of stream 0, without waits */
    double waiting; /* for messages: the pipeline's bubble, with imbalance */
    sc_time_rows rows;
} sc_time_stage;

typedef struct sc_simulated {
    double seconds;             /* of a step, or of a call of the entry */
    uint32_t stage_count, last; /* last: the stage that ends last */
    sc_time_stage *stages;
    sc_time_slices slices; /* if they are asked for */
} sc_simulated;

/* NULL, or why the program does not end (which no compiled program does). In the arena. */
const char *sc_simulate(sc_arena *arena, const sc_device_model *device,
                        const sc_generated_program *program, bool with_slices, sc_simulated *out);

#endif
