/* The table of sharded forms of ops (forms.def), queries of it, and which form sends least. */
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
    /* for what buffers have room and even routing does not send, all in all: a choice counts it, as
     * memory and elementwise work are for all of a buffer */
    double spare;
} sc_form_sent;

/* An op that an axis splits as the op's first form does. */
typedef struct sc_form_site {
    const sc_module *m;
    const sc_op *op;
    uint32_t axis;
    /* as values are placed, whatever the op needs; the result is the first one */
    const sc_type_info *operands, *result;
} sc_form_site;

/* Returns NULL, or why the op cannot have the form over the axis, in the arena. */
typedef const char *sc_form_sent_fn(const sc_form_site *site, const sc_form_dims *dims,
                                    sc_form_sent *out);

typedef struct sc_form {
    sc_op_kind op, gradient;
    const char *name, *summary;
    uint32_t operand; /* the one with the dims */
    int together;     /* an operand, or negative */
    /* the dims of the op that the form's axes may split; `of_inputs`: by dim, whether an input has
     * it. NULL: the form splits nothing, and takes effect where others have split the op */
    void (*dims)(const sc_module *m, const sc_op *op, const bool *of_inputs, sc_form_dims *out);
    sc_form_sent_fn *sent; /* NULL: as much as without the form */
    int mark;              /* sc_attr_key; negative: none */
    /* like those of ops.def; NULL: the op stays what it is */
    void (*expand)(sc_expand *expand);
    void (*expand_gradient)(sc_expand *expand);
} sc_form;

extern const sc_form sc_forms[SC_FORM_COUNT];

/* Returns the forms of ops of this kind, one bit per sc_form_id. */
uint32_t sc_forms_of(sc_op_kind kind);
/* Returns the first form of ops of this kind that splits something; SC_FORM_COUNT: there is none.
 */
sc_form_id sc_first_form(sc_op_kind kind);
/* True if the dims of the form of the op have this one. */
bool sc_form_splits(const sc_module *m, const sc_op *op, sc_form_id form, const bool *of_inputs,
                    sc_dim dim);
/* Returns for each dim of the module whether a tensor passed by the caller has it. In the arena. */
const bool *sc_dims_of_inputs(const sc_module *m);
/* Returns the function that replaces the op by its form, of which it has the mark; NULL: none. */
void (*sc_form_expansion(const sc_op *op))(sc_expand *expand);
/* Gives the op the marks of its origin, if it is the derivative or a copy of an op with forms. */
void sc_form_follow(sc_module *m, sc_op_id op, sc_op_id origin);

/* ---- which sends least ---- */
typedef struct sc_form_prices {
    uint32_t forms;    /* of the op, that split something; one bit per sc_form_id */
    uint32_t possible; /* those that the op can have over the axis; `sent` is of these */
    sc_form_sent sent[SC_FORM_COUNT];
    /* why an op does not have a form by cost: it cannot, or only a line asks for it; NULL: it may.
     * In the arena */
    const char *barred[SC_FORM_COUNT];
} sc_form_prices;

/* True if the axis splits dims of the op's first form, in their operand or in its result. */
bool sc_form_is_over(const sc_form_site *site, uint32_t axis, const bool *of_inputs);
/* Prices the forms of the op over the site's axis. */
void sc_form_price(const sc_form_site *site, const bool *of_inputs, sc_form_prices *out);
/* Returns the form that sends least of those that an op may have by cost, or of all that it can
 * have (`any`); the first of equals; SC_FORM_COUNT: there is none. */
sc_form_id sc_form_cheapest(const sc_form_prices *prices, bool trains, bool any);
/* Fills in which dims of the op the sub-axes of the site's axis split in the form, dims major
 * first. Returns false if none of the splits that the mesh has does. */
bool sc_form_place(const sc_form_site *site, sc_form_id form, const bool *of_inputs,
                   sc_split *splits, uint32_t *count);

#endif
