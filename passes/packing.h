/* Choices of rows in slots (pack_choices.c): what of a function is in them, and how an op meets
 * that. */
#ifndef SHARDC_PASSES_PACKING_H
#define SHARDC_PASSES_PACKING_H

#include "passes/choice_groups.h"

enum { SC_PACKING_PHASES = 4 };

typedef struct sc_packing {
    sc_module *m;
    const sc_pass_env *env;
    sc_func_id func;
    uint32_t count; /* number of values at the start */
    sc_choice_groups groups;
    sc_map by_ids;   /* the last group with these ids */
    sc_map packed;   /* value, group and phase -> the value in slots */
    sc_value *sent;  /* by value: what is computed in slots instead, or SC_NONE */
    uint32_t *group; /* by value: of `sent` */
    sc_value *back;  /* by value: `sent` as it was, or SC_NONE */
    sc_sym phases[SC_PACKING_PHASES];
    uint32_t phase_count;
} sc_packing;

bool sc_is_packed(const sc_packing *p, sc_value value);
bool sc_is_packed_in(const sc_packing *p, sc_value value, uint32_t number);
/* True if the op's second operand has an id for each choice. */
bool sc_has_id_of_choices(const sc_packing *p, const sc_choice_group *group, const sc_op *op);

/* How an op with operands in slots is computed. */
typedef enum sc_packing_way {
    SC_PACK_READ_BACK,  /* on rows, as it was */
    SC_PACK_COMPUTE,    /* in slots, too */
    SC_PACK_PASS_ON,    /* not at all: its result is its operand in slots */
    SC_PACK_READ_SLOTS, /* of slots: it sums over all choices */
    SC_PACK_COMBINE     /* on the way back: it sums over choices of rows */
} sc_packing_way;

sc_packing_way sc_way_of_packing(const sc_packing *p, uint32_t number, const sc_op *op);

#endif
