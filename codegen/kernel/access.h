/* Where a kernel reads and writes, and what is known of the indices there: what verifying, sharing and simplifying rest on. */
#ifndef SHARDC_CODEGEN_KERNEL_ACCESS_H
#define SHARDC_CODEGEN_KERNEL_ACCESS_H

#include "codegen/kernel/kernel.h"

enum { SC_KERNEL_MAX_DIMS = 64 };

typedef struct sc_interval {
    int64_t low, high;
} sc_interval;

/* Intervals of all nodes, as far as integers go, where the facts (conditions) hold; in the arena. *never (may be NULL): they hold nowhere,
 * and the intervals mean nothing. */
sc_interval *sc_kernel_intervals(const sc_kernel *k, const sc_knode *facts, uint32_t fact_count, bool *never);
/* Whether the node is what exact arithmetic makes of its operands: no wrapping. */
bool sc_kernel_stays(const sc_kernel *k, sc_knode node, const sc_interval *intervals);

/* An i64 node as a constant and a sum of factors times sub-axes: nodes that are no sums. */
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

/* Of all i64 nodes, where these intervals hold. */
sc_form *sc_kernel_forms(const sc_kernel *k, const sc_interval *intervals);
/* out += factor * x; false when there is no room, or numbers grow too large. */
bool sc_form_add(sc_form *out, const sc_form *x, int64_t factor);
int64_t sc_form_factor(const sc_form *form, sc_knode sub_axis); /* or 0 */

/* What follows from a condition that holds, for it and what it is made of: bits per node. */
enum { SC_TRUTH_HOLDS = 1, SC_TRUTH_FAILS = 2 };
void sc_kernel_mark_true(const sc_kernel *k, sc_knode fact, uint8_t *truth);

/* A load where an item of a phase needs it, or an item that writes. */
typedef struct sc_access {
    bool writes;
    sc_item_kind kind;    /* of the item, when it writes */
    sc_knode node;        /* the load, else SC_IMAGE_NONE */
    uint32_t phase, item; /* a load: the phase's first item that needs it */
    uint32_t arg;
    const sc_knode *indices;
    sc_knode guard;               /* or SC_IMAGE_NONE */
    const sc_interval *intervals; /* of all nodes, where this happens */
} sc_access;

typedef struct sc_access_forms {
    const sc_interval *intervals;
    const sc_form *forms;
} sc_access_forms;

typedef struct sc_access_list {
    const sc_kernel *k;
    SC_VEC(sc_access) list;
    uint64_t *depends;             /* per node: bit d: on dim d */
    bool *changes;                 /* per node: it loads what the kernel writes, so its value may not stay */
    bool *written;                 /* per argument */
    SC_VEC(sc_access_forms) forms; /* made while asking */
} sc_access_list;

/* All of them, in order of phases and items. `also_written`: an argument that counts as written, or SC_IMAGE_NONE. The kernel is in order
 * as far as sc_kernel_verify looks before it looks at accesses. */
void sc_kernel_accesses(const sc_kernel *k, uint32_t also_written, sc_access_list *out);

/* Whether the two can only touch one element at points that agree in all the dims of the set (or never, when `never`). */
bool sc_access_apart(sc_access_list *list, const sc_access *a, const sc_access *b, uint64_t dims, bool never);

/* Dims as bits. */
uint64_t sc_kernel_outer_dims(const sc_kernel *k);
uint64_t sc_kernel_phase_dims(const sc_kernel *k, uint32_t phase);
/* Marks the nodes that the item needs. `needed` has one per node. */
void sc_kernel_mark_needed(const sc_kernel *k, const sc_kernel_item *item, bool *needed);
/* The phase of an item; the kernel's phases have all items. */
uint32_t sc_kernel_phase_of(const sc_kernel *k, uint32_t item);

#endif
