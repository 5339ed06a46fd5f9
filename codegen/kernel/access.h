/* The accesses of a kernel and the known ranges of their indices: the basis of verification,
 * sharing and simplification. */
#ifndef SHARDC_CODEGEN_KERNEL_ACCESS_H
#define SHARDC_CODEGEN_KERNEL_ACCESS_H

#include "codegen/kernel/kernel.h"

enum { SC_KERNEL_MAX_DIMS = 64 };

typedef struct sc_interval {
    int64_t low, high;
} sc_interval;

/* Intervals of all integer nodes under the facts (conditions that hold); allocated in the arena.
 * *never (may be NULL): the facts contradict each other and the intervals are meaningless. */
sc_interval *sc_kernel_intervals(const sc_kernel *k, const sc_knode *facts, uint32_t fact_count,
                                 bool *never);
/* True if the node equals its operation in exact arithmetic: no wrapping. */
bool sc_kernel_stays(const sc_kernel *k, sc_knode node, const sc_interval *intervals);

/* An i64 node as a linear form: a constant plus factors times nodes that are not sums. */
enum { SC_FORM_TERMS = 12 };

typedef struct sc_form_term {
    sc_knode sub_axis;
    int64_t factor;
} sc_form_term;

typedef struct sc_form {
    int64_t constant;
    uint32_t count;
    sc_form_term terms[SC_FORM_TERMS];
} sc_form;

/* The forms of all i64 nodes, valid under these intervals. */
sc_form *sc_kernel_forms(const sc_kernel *k, const sc_interval *intervals);
/* out += factor * x; false if out has no room or a number overflows. */
bool sc_form_add(sc_form *out, const sc_form *x, int64_t factor);
int64_t sc_form_factor(const sc_form *form, sc_knode sub_axis); /* 0 if absent */

/* Marks what a true condition implies for it and its operands: bits per node. */
enum { SC_TRUTH_HOLDS = 1, SC_TRUTH_FAILS = 2 };
void sc_kernel_mark_true(const sc_kernel *k, sc_knode fact, uint8_t *truth);

/* A load where an item of a phase needs it, or an item that writes. */
typedef struct sc_access {
    bool writes;
    sc_item_kind kind;    /* of the item, for a write */
    sc_knode node;        /* the load; SC_NONE for a write */
    uint32_t phase, item; /* for a load: the phase's first item that needs it */
    uint32_t arg;
    const sc_knode *indices;
    sc_knode guard;               /* SC_NONE if none */
    const sc_interval *intervals; /* of all nodes, at this access */
} sc_access;

typedef struct sc_access_forms {
    const sc_interval *intervals;
    const sc_form *forms;
} sc_access_forms;

typedef struct sc_access_list {
    const sc_kernel *k;
    SC_VEC(sc_access) list;
    uint64_t *depends;             /* per node: bit d if it depends on dim d */
    bool *changes;                 /* per node: it loads what the kernel writes */
    bool *written;                 /* per argument */
    SC_VEC(sc_access_forms) forms; /* computed on demand */
} sc_access_list;

/* Collects all accesses, in order of phases and items. `also_written`: an argument to treat as
 * written, or SC_NONE. The kernel must have passed the checks of sc_kernel_verify that
 * precede those of accesses. */
void sc_kernel_accesses(const sc_kernel *k, uint32_t also_written, sc_access_list *out);

/* True if the two accesses touch a common element only at points that agree in all `dims` (or
 * never, if `never`). */
bool sc_access_apart(sc_access_list *list, const sc_access *a, const sc_access *b, uint64_t dims,
                     bool never);

/* Sets of dims as bit masks. */
uint64_t sc_kernel_outer_dims(const sc_kernel *k);
uint64_t sc_kernel_phase_dims(const sc_kernel *k, uint32_t phase);
/* Marks the nodes that the item needs in `needed`, an array with one entry per node. */
void sc_kernel_mark_needed(const sc_kernel *k, const sc_kernel_item *item, bool *needed);
/* Per node the dims that it depends on, in an array with one entry per node. */
void sc_kernel_mark_dependence(const sc_kernel *k, uint64_t *depends);
/* The phase of an item; every item belongs to one. */
uint32_t sc_kernel_phase_of(const sc_kernel *k, uint32_t item);

#endif
