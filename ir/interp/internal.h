/* Internals of the interpreter, shared by its files only. */
#ifndef SHARDC_IR_INTERP_INTERNAL_H
#define SHARDC_IR_INTERP_INTERNAL_H

#include "ir/interp/interp.h"

enum { SC_INTERP_MAX_RANKS = 1 << 16 };

/* Sizes of the arrays of a type: local, or global for an interpreter of one device. */
typedef struct sc_layout {
    uint32_t rank;
    int64_t sizes[SC_MAX_RANK];
    int64_t count; /* product of sizes; 0: not computed yet */
} sc_layout;

/* A value or state on all ranks of a stage. */
typedef struct sc_held {
    double *data; /* [rank of the stage][count]; NULL: none */
    sc_type type;
    uint32_t uses; /* remaining uses in this run */
    bool keep;
    bool displaced; /* a block of another member of a ring: its padding is where that one has it */
} sc_held;

/* What a slot holds, by micro-batch: copies[0] is that of micro-batch -1. */
typedef struct sc_slot_copies {
    sc_held *copies;
    uint32_t count;
} sc_slot_copies;

/* A value that has been sent and not received yet. */
typedef struct sc_sent {
    sc_sym name;
    int32_t micro_batch;
    sc_held value;
} sc_sent;

struct sc_interp {
    const sc_module *m;
    sc_interp_options options;
    sc_random random;
    uint64_t ranks;  /* of a stage; 1 for one device */
    uint32_t stages; /* 1 without a pipeline */
    /* distance between ranks adjacent on the sub-axis */
    uint64_t sub_axis_strides[SC_MAX_SUB_AXES];
    uint32_t *coordinates; /* [rank][SC_MAX_SUB_AXES] */
    sc_layout *layouts;    /* by type */
    sc_held *values;
    /* [stage][state]; no data where no function of the stage uses it, and in slots */
    sc_held *state;
    sc_slot_copies *slots; /* by state */
    sc_sent *sent;
    uint32_t layout_count, value_count, state_count, sent_count, sent_room;
    bool (*keep)(const sc_module *m, sc_value value, void *user);
    void *keep_user;
    /* the run in progress */
    uint32_t stage;
    int32_t micro_batch;       /* whose slots, sends and receives it uses */
    const sc_sym *input_names; /* NULL: the inputs are in the order of the `input` ops */
    const sc_array *inputs;
    sc_array *outputs;
    uint32_t input_count, next_input, output_count;
    char *error;
    size_t error_size;
};

static inline uint32_t sc_interp_coordinate(const sc_interp *interp, uint64_t rank,
                                            uint32_t sub_axis)
{
    return interp->coordinates[rank * SC_MAX_SUB_AXES + sub_axis];
}

/* The stage whose ranks run a function. */
static inline uint32_t sc_interp_stage_of(const sc_module *m, sc_func_id func)
{
    uint32_t stage = m->funcs.data[func].stage;
    return stage == SC_ALL_STAGES_RUN ? 0 : stage;
}

enum { SC_NO_RANK = -1 };

/* ---- layout.c ---- */
/* Formats the error of a failed run with the op, the rank (or SC_NO_RANK) and the reason. Returns
 * false. */
bool sc_interp_fail(sc_interp *interp, sc_op_id op, int64_t rank, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* False if a size is unknown or the arrays of all ranks together would overflow. */
bool sc_interp_find_layout(const sc_interp *interp, sc_type type, sc_layout *layout);
/* The same, from the table of a run; NULL if there is none. */
const sc_layout *sc_interp_layout(sc_interp *interp, sc_type type);

/* ---- held arrays ---- */
/* Zeroed arrays of all ranks of a stage; NULL if out of memory. */
double *sc_interp_new_data(const sc_interp *interp, const sc_layout *layout);
/* Rounds to the type's dtype: floats if the options say so, integers and bools always. */
void sc_interp_round(const sc_interp *interp, const sc_held *held, const sc_layout *layout);
/* True if two types distribute the same elements to every rank. */
bool sc_interp_same_shards(const sc_interp *interp, sc_type a, sc_type b);
/* Grows a table to `wanted` entries, zeroing the new ones; NULL if out of memory (the old one stays
 * valid). */
void *sc_interp_grown(void *table, uint32_t count, uint32_t wanted, size_t size);

/* ---- state.c ---- */
/* Returns the global value of a value or state, which the caller frees; no data if it has none. If
 * replicas differ in any bit, *agree (may be NULL) is set to false, else to true. */
sc_array sc_interp_fetch(const sc_interp *interp, const sc_held *held, bool *agree);
bool sc_interp_make_state(sc_interp *interp);
void sc_interp_drop_state(sc_interp *interp);
/* Makes the function's writes take effect; false: out of memory. */
bool sc_interp_commit(sc_interp *interp, sc_func_id func);

/* ---- boxes: a block of one array mapped to a block of another ---- */
typedef struct sc_box {
    uint32_t rank;
    int64_t sizes[SC_MAX_RANK];
    int64_t to_strides[SC_MAX_RANK], from_strides[SC_MAX_RANK];
    int64_t to_at, from_at;
} sc_box;

typedef bool sc_box_row(double *to, const double *from, int64_t count);

sc_box_row sc_row_copy, sc_row_sum, sc_row_max, sc_row_min;
/* Compares; false at the first pair with different bits; NaN equals NaN. */
sc_box_row sc_row_agrees;

/* A box over both arrays, as far as both extend. */
sc_box sc_box_of(uint32_t rank, const int64_t *to_sizes, const int64_t *from_sizes);
/* Applies `row` to each row; false as soon as a row returns false. An empty box gives true. */
bool sc_box_apply(const sc_box *box, double *to, const double *from, sc_box_row *row);

/* Returns the row function of a partial reduction: sum, max, min; NULL for anything else. */
sc_box_row *sc_row_of_partial(uint8_t kind);

/* ---- placements ---- */
/* Returns the index of a rank's shard of dim i. */
int64_t sc_interp_shard(const sc_interp *interp, const sc_type_info *type, uint32_t i,
                        uint64_t rank);
/* Copies a global array to the local arrays of all ranks, which must be zero. For a partial
 * reduction one rank gets the value, the others get the neutral element. */
void sc_interp_split(const sc_interp *interp, sc_type type, const double *global, double *local);
/* Sets every rank's padding to NaN (integers: 2^30). */
void sc_interp_poison(const sc_interp *interp, sc_type type, double *local);
/* The reverse of sc_interp_split; local is only read. Reduces partial reductions. If two replicas
 * disagree, returns false with their ranks in *first and *second. */
bool sc_interp_assemble(const sc_interp *interp, sc_type type, double *local, double *global,
                        int64_t *first, int64_t *second);

/* ---- collectives: ops without an eval function; results are already allocated ---- */
typedef bool sc_interp_handler(sc_interp *interp, sc_op_id op);
sc_interp_handler sc_interp_read_state, sc_interp_write_state;
sc_interp_handler sc_interp_all_slice, sc_interp_to_partial, sc_interp_reshard;
sc_interp_handler sc_interp_piece, sc_interp_take_piece, sc_interp_join_pieces,
    sc_interp_add_pieces;
#define COLLECTIVE(...)
#define COLLECTIVE_OP(op, ...) sc_interp_handler sc_interp_##op;
#define TRANSFER_OP(op, ...)   sc_interp_handler sc_interp_##op;
#define FURTHER_OP(op, NAME)   sc_interp_handler sc_interp_##op;
#include "program/collectives.def"

#endif
