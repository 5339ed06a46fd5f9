/* The table of sharded forms that a plan may ask for (forms.def), and queries of it. */
#ifndef SHARDC_IR_OPS_FORMS_H
#define SHARDC_IR_OPS_FORMS_H

#include "ir/ops/ops.h"

typedef enum sc_form_id {
#define FORM(op, gradient, name, ...) SC_FORM_##op##_##name,
#include "ir/ops/forms.def"
    SC_FORM_COUNT
} sc_form_id;

typedef struct sc_form_dims {
    uint32_t count;
    sc_dim list[SC_MAX_RANK]; /* leaves, in the order of the operand's type */
} sc_form_dims;

/* What a rank sends because of a form over one axis, in bytes. */
typedef struct sc_form_sent {
    double forward, backward;
} sc_form_sent;

typedef struct sc_form {
    sc_op_kind op, gradient;
    const char *name, *summary;
    uint32_t operand; /* the one with the dims */
    /* the dims of the op that the form's axes may split; `of_inputs`: by dim, whether an input has
     * it. NULL: the form splits nothing, and takes effect where others have split the op */
    void (*dims)(const sc_module *m, const sc_op *op, const bool *of_inputs, sc_form_dims *out);
    /* for an op whose operands are split by position over the axis, and are placed; false if the
     * ranks do not divide the dims. NULL: as much as without the form */
    bool (*sent)(const sc_module *m, const sc_op *op, const sc_form_dims *dims, uint32_t ranks,
                 sc_form_sent *out);
    int mark; /* sc_attr_key; negative: none */
    /* like those of ops.def; NULL: the op stays what it is */
    void (*expand)(sc_expand *expand);
    void (*expand_gradient)(sc_expand *expand);
} sc_form;

extern const sc_form sc_forms[SC_FORM_COUNT];

/* Returns the forms of ops of this kind, one bit per sc_form_id. */
uint32_t sc_forms_of(sc_op_kind kind);
/* False for one that the language has and this version does not. */
bool sc_form_is_compiled(sc_form_id form);
/* Returns for each dim of the module whether a tensor passed by the caller has it. In the arena. */
const bool *sc_dims_of_inputs(const sc_module *m);
/* Returns the function that replaces the op by its form, of which it has the mark; NULL: none. */
void (*sc_form_expansion(const sc_op *op))(sc_expand *expand);
/* Gives the op the marks of its origin, if it is the derivative or a copy of an op with forms. */
void sc_form_follow(sc_module *m, sc_op_id op, sc_op_id origin);

#endif
