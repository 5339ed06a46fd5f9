/* Cuts functions into segments: functions that different stages run, in an order that is known.
 * The caller says which segment runs which op; values are passed between segments here. */
#ifndef SHARDC_PASSES_SEGMENTS_H
#define SHARDC_PASSES_SEGMENTS_H

#include "ir/train.h"

typedef uint32_t sc_segment_id;

typedef struct sc_segment {
    sc_func_id func;
    uint32_t stage;
    sc_op_id head; /* the last of the repeated gathers at its start; SC_NONE: there are none */
} sc_segment;

/* A value that one segment sends to one of another stage. */
typedef struct sc_segment_transfer {
    sc_segment_id from, to;
    sc_value value; /* of the function that was cut */
    sc_value sent;  /* in `from` */
    sc_op_id recv;  /* in `to` */
} sc_segment_transfer;

/* A value that a segment leaves to later segments of its stage. */
typedef struct sc_segment_slot {
    sc_segment_id from;
    sc_value value; /* in `from` */
    sc_sym name;
} sc_segment_slot;

typedef struct sc_segments {
    sc_module *m;
    const sc_train_step *step; /* for names; NULL: none */
    SC_VEC(sc_segment) list;
    SC_VEC(sc_segment_transfer) transfers;
    SC_VEC(sc_segment_slot) slots;
    /* by op: each segment that reads a result has the op itself, because that is cheaper than to
     * keep or send the result: reads of state, constants, views and gathers of parameters */
    bool *repeats;
    /* by op, for ops that repeat: the stages that can run it, a bit each; NULL: all */
    const uint64_t *stages;
    sc_value **operands; /* by op: its operands in the function that was cut */
    sc_map local;        /* value << 32 | segment -> the value there */
    sc_map home;         /* value << 32 | stage -> the segment that has it first */
    sc_map made;         /* value -> the segment that computes it */
    sc_map slot;         /* value << 32 | stage -> in `slots` */
    sc_map receiver;     /* segment << 32 | stage -> the segment that receives from it there */
    sc_map is_placed;    /* op -> it is in a segment; others run copies */
    sc_map in_head;      /* ops at the start of their segment */
    sc_map named;        /* name of a slot -> slots of that name */
} sc_segments;

/* Unlinks all ops of a function and returns them in order. */
sc_op_id *sc_take_ops(sc_module *m, sc_func_id func, uint32_t *count);

void sc_segments_begin(sc_segments *s, sc_module *m, const sc_train_step *step);
/* The table `repeats` for a function: ops without operands that read state, inputs and constants,
 * and what is cheap to derive from these alone, but no number that depends on a parameter: another
 * stage does not have that. `gathers`: gathers of parameters, too. */
void sc_segments_find_repeats(sc_segments *s, sc_func_id func, bool gathers);
/* Adds a segment. Its function is `reuse`, which must be empty by now, or a new one if that is
 * SC_NONE. */
sc_segment_id sc_segments_add(sc_segments *s, uint32_t stage, sc_sym name, sc_func_id reuse);
/* Fixes which segment receives what `from` sends to its stage; it must come before all others of
 * that stage that need it. */
void sc_segments_set_receiver(sc_segments *s, sc_segment_id from, sc_segment_id to);
/* Moves an op (or a copy, from the second time on) to the end of a segment. Its operands have been
 * placed, or repeat. */
void sc_segments_place(sc_segments *s, sc_op_id op, sc_segment_id segment);
/* Returns the name of a value in reports: layers[3].h, or layers[3].h.grad for its cotangent; 0:
 * none. */
sc_sym sc_segments_path_of(const sc_segments *s, sc_value value);
/* Adds sends, slots and the missing `return`s. A segment receives in the order in which the others
 * send. */
void sc_segments_finish(sc_segments *s);

#endif
