/* Bytes per rank of a per-rank program: what is stored, and what lives at the moment when most does. What is made here, before there are
 * kernels, counts every value that an op gives, and no workspace: an estimate that compares plans. tools/explain/measure_memory.h has the
 * bytes of the generated program. */
#ifndef SHARDC_PASSES_MEMORY_REPORT_H
#define SHARDC_PASSES_MEMORY_REPORT_H

#include "ir/ops/ops.h"

typedef enum sc_memory_kind {
    SC_MEMORY_PARAM, /* as stored */
    SC_MEMORY_GRAD,
    SC_MEMORY_OPT,
    SC_MEMORY_ACT,   /* values of the program that live at the peak */
    SC_MEMORY_CACHE, /* as stored */
    SC_MEMORY_WORKSPACE,
    SC_MEMORY_COMM, /* what collectives have made and that lives at the peak: gathered copies, reduced buffers */
    SC_MEMORY_HOST,
    SC_MEMORY_KINDS
} sc_memory_kind;

extern const char *const sc_memory_kind_names[SC_MEMORY_KINDS];

/* A buffer that lives at the peak. */
typedef struct sc_memory_live {
    const char *name;
    sc_memory_kind kind; /* ACT, COMM or WORKSPACE */
    int64_t bytes;
    sc_loc loc;     /* of the op that makes it */
    sc_value value; /* likewise; SC_NONE: not known */
} sc_memory_live;

/* A parameter that is not split over some sub-axes of the mesh. */
typedef struct sc_memory_whole {
    uint32_t state;
    sc_sub_axis_set on; /* these, of more than one rank */
    int64_t bytes;      /* on one rank */
} sc_memory_whole;

/* A parameter or cache whose shards hold padding. */
typedef struct sc_memory_padding {
    uint32_t state;
    int64_t bytes; /* of all shards together */
} sc_memory_padding;

typedef struct sc_memory_report {
    int64_t bytes[SC_MEMORY_KINDS]; /* add up to `peak` but for HOST */
    int64_t peak;
    int64_t stored_comm;         /* of COMM: state, whatever runs */
    int64_t largest_saved;       /* of parameters and optimizer state the largest shard; 0: no training state is written of the program */
    const char *saved_name;      /* its path */
    const char *at;              /* what runs at the peak: "relu in f"; NULL: nothing does */
    SC_VEC(sc_memory_live) live; /* at the peak, the largest first */
    SC_VEC(sc_memory_padding) padding;
    SC_VEC(sc_memory_whole) whole; /* in the order of the state */
} sc_memory_report;

/* Of a LOCAL module's schedule: the call that needs most, in program order: a value lives from its op to its last reader, what is returned
 * to the end. Memory is the context's. */
void sc_memory_report_make(const sc_module *m, sc_memory_report *out);

/* tp, fsdp: the axes of a set of sub-axes; an axis of which only a part is meant as tp.1. */
const char *sc_sub_axis_set_text(const sc_module *m, sc_sub_axis_set set);

/* Bytes of all parameters, whole, and of those that stand whole on an axis: its sub-axes all without a split. */
int64_t sc_memory_parameter_bytes(const sc_module *m);
int64_t sc_memory_bytes_whole_on(const sc_module *m, uint32_t axis);

#endif
