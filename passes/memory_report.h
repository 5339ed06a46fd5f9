/* Bytes per rank of a per-rank program: stored state, and the buffers that are live at the peak.
 * The report made here, before kernels exist, counts every op result and no workspace: an estimate
 * for comparing plans. tools/explain/measure_memory.h reports the bytes of the generated
 * program. */
#ifndef SHARDC_PASSES_MEMORY_REPORT_H
#define SHARDC_PASSES_MEMORY_REPORT_H

#include "ir/ops/ops.h"

typedef enum sc_memory_kind {
    SC_MEMORY_PARAM, /* as stored */
    SC_MEMORY_GRAD,
    SC_MEMORY_OPT,
    SC_MEMORY_ACT,   /* values of the program that are live at the peak */
    SC_MEMORY_CACHE, /* as stored */
    SC_MEMORY_WORKSPACE,
    /* results of collectives that are live at the peak: gathered copies, reduced buffers */
    SC_MEMORY_COMM,
    SC_MEMORY_HOST,
    SC_MEMORY_KINDS
} sc_memory_kind;

extern const char *const sc_memory_kind_names[SC_MEMORY_KINDS];

/* A buffer that is live at the peak. */
typedef struct sc_memory_live {
    const char *name;
    sc_memory_kind kind; /* ACT, COMM or WORKSPACE */
    int64_t bytes;
    sc_loc loc;     /* of the op that defines it */
    sc_value value; /* SC_NONE: unknown */
} sc_memory_live;

/* A parameter that is not split over some sub-axes of the mesh. */
typedef struct sc_memory_whole {
    uint32_t state;
    sc_sub_axis_set on; /* the sub-axes with more than one rank over which it is not split */
    int64_t bytes;      /* per rank */
} sc_memory_whole;

/* A parameter or cache whose shards contain padding. */
typedef struct sc_memory_padding {
    uint32_t state;
    int64_t bytes; /* of all shards */
} sc_memory_padding;

/* Bytes of a rank of one stage. */
typedef struct sc_memory_stage {
    int64_t bytes[SC_MEMORY_KINDS];
    int64_t peak;
    int64_t stored_comm; /* as of a report */
} sc_memory_stage;

typedef struct sc_memory_report {
    int64_t bytes[SC_MEMORY_KINDS]; /* their sum without HOST is `peak` */
    int64_t peak;
    int64_t stored_comm; /* part of COMM that is state, live at all times */
    /* largest shard of a parameter or optimizer state; 0: the program saves no training state */
    int64_t largest_saved;
    const char *saved_name;      /* its path */
    const char *at;              /* the op at the peak: "relu in f"; NULL: none */
    SC_VEC(sc_memory_live) live; /* buffers at the peak, largest first */
    SC_VEC(sc_memory_padding) padding;
    SC_VEC(sc_memory_whole) whole; /* in state order */
    /* With stages: each stage's bytes. The rest of the report is that of the fullest, `stage`, but
     * for padding and whole, which are those of all. Without: none. */
    SC_VEC(sc_memory_stage) stages;
    uint32_t stage;
} sc_memory_report;

/* Reports the call of a LOCAL module's schedule that needs most. Values are live from their op to
 * their last reader in program order, results of the function to its end; a slot's copy from the
 * call that writes it to the last call that reads it. Memory is the context's. */
void sc_memory_report_make(const sc_module *m, sc_memory_report *out);

/* Names the axes of a set of sub-axes: tp, fsdp; tp.1 for part of an axis. */
const char *sc_sub_axis_set_text(const sc_module *m, sc_sub_axis_set set);

/* Bytes of all parameters at full size, and of those that are not split over any sub-axis of an
 * axis. */
int64_t sc_memory_parameter_bytes(const sc_module *m);
int64_t sc_memory_bytes_whole_on(const sc_module *m, uint32_t axis);

#endif
