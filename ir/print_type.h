/* Text of types, dims and sub-axes in dumps and messages, and the pieces that the module printer
 * uses. */
#ifndef SHARDC_IR_PRINT_TYPE_H
#define SHARDC_IR_PRINT_TYPE_H

#include "ir/graph.h"
#include "support/strbuf.h"

/* Prints bf16[B=16@fsdp, S=8192, H=32@tp, E=128]{sum:tp}, or local/global sizes (B=4/16@fsdp) if
 * the module is LOCAL. */
void sc_print_type(const sc_module *m, sc_type type, sc_strbuf *out);
/* Prints the sub-axes of one dim: "tp", "tp.0", "(x, y)". A whole axis is printed by its name. */
void sc_print_sub_axes(const sc_module *m, const sc_sub_axis_list *sub_axes, sc_strbuf *out);
/* Like sc_print_type, but returns text in the context's arena. */
const char *sc_type_text(const sc_module *m, sc_type type);
/* Prints dims as written: [D], [H, E]. The leaves of one composite are printed as the composite. */
void sc_print_dims(const sc_module *m, const sc_dim *dims, uint32_t count, sc_strbuf *out);

/* ---- names and sizes ---- */
enum { SC_TEXT_STATES = 5 };
extern const char *const sc_text_state_names[SC_TEXT_STATES]; /* indexed by bit */

/* True if the text can be printed unquoted: [A-Za-z_][A-Za-z0-9_]*, and with `dots`, further
 * [A-Za-z0-9_]+ separated by single dots. */
bool sc_text_is_word(const char *text, bool dots);

/* Distributes the sub-axes of a composite over its leaves: major first, moving to the next leaf
 * only once the previous one is split down to single elements. Hence `H=8@tp` means contiguous
 * parts of H; the printer uses that form only if it yields the same lists. False if a sub-axis does
 * not divide what is left of the current leaf. */
bool sc_text_distribute(const sc_mesh *mesh, const int64_t *sizes, uint32_t leaf_count,
                        const sc_sub_axis_list *sub_axes, sc_sub_axis_list *leaves);

/* Upper limit of sizes, so that adding two or rounding up to a multiple of shards cannot
 * overflow. */
#define SC_TEXT_MAX_SIZE ((int64_t)1 << 60)

/* Returns the product of sizes, or -1 if it exceeds SC_TEXT_MAX_SIZE. */
int64_t sc_text_product(const int64_t *sizes, uint32_t count);

/* ---- printing ---- */

typedef struct sc_printer {
    const sc_module *m;
    sc_strbuf *out;
    /* Per dim, the leaf sizes that its `dim` line declares, or NULL. The table itself is NULL when
     * a type is printed on its own; the short form is then used whenever the placement allows
     * it. */
    const int64_t **leaf_sizes;
    bool fold;
} sc_printer;

void sc_print_name(sc_printer *p, sc_sym name); /* unquoted if it is a word */
void sc_print_quoted(sc_printer *p, sc_sym name);
void sc_print_dim_name(sc_printer *p, sc_dim dim);
void sc_print_axis_name(sc_printer *p, uint32_t axis);
void sc_print_sub_axis_items(sc_printer *p, const uint8_t *sub_axes, uint32_t count); /* tp, dp.0 */
/* tp or (tp, dp.0) */
void sc_print_sub_axis_list(sc_printer *p, const sc_sub_axis_list *list);
void sc_print_type_handle(sc_printer *p, sc_type handle);
void sc_print_dim_list(sc_printer *p, const sc_dim *dims, uint32_t count);
/* Sets leaf_sizes for the composites of a type that have none yet. `seen` has one flag per type. */
void sc_print_note_type(sc_printer *p, sc_type handle, bool *seen);

#endif
