/* The sharded forms of the ops of a compiled program (ir/ops/forms.def), for `explain`: which form
 * an op has over each axis, which line of the plan says so, and what its other forms would send. */
#ifndef SHARDC_TOOLS_EXPLAIN_FORMS_H
#define SHARDC_TOOLS_EXPLAIN_FORMS_H

#include "ir/ops/forms.h"
#include "runtime/drive/json.h"
#include "tools/driver/driver.h"

typedef struct sc_form_choice {
    uint32_t axis;   /* of the mesh */
    sc_form_id form; /* SC_FORM_COUNT: none, the op gathers what the axis splits */
    uint32_t rule;   /* the line that asks for it; SC_NONE: none does, cost has chosen */
    sc_form_prices prices;
} sc_form_choice;
typedef SC_VEC(sc_form_choice) sc_form_choices;

/* Adds the forms of an op of the forward pass that is placed and has its split (after propagation).
 * An op has a form over an axis that splits dims of its first form, in their operand or in its
 * result. */
void sc_find_forms(const sc_module *m, const sc_placing *placing, sc_op_id op,
                   const bool *of_inputs, sc_form_choices *out);

/* The FLOPs of the products of pieces between a call and the next rotation, behind which a rotated
 * piece is on its way; 0 for what is no ring of dots. */
double sc_flops_behind(const sc_module *m, sc_op_id call);

/* `trains`: the program has a backward pass. */
void sc_print_forms(const sc_module *m, const sc_form_choices *forms, bool trains, sc_strbuf *out);
json_t *sc_forms_json(const sc_module *m, const sc_form_choices *forms, bool trains);

#endif
