/* The text of types, dims and sub-axes, as dumps and messages have it; below, its pieces, which the printer of modules uses. */
#ifndef SHARDC_IR_PRINT_TYPE_H
#define SHARDC_IR_PRINT_TYPE_H

#include "ir/graph.h"
#include "support/strbuf.h"

/* bf16[B=16@fsdp, S=8192, H=32@tp, E=128]{sum:tp}; local over global (B=4/16@fsdp) when the module is LOCAL. */
void sc_print_type(const sc_module *m, sc_type type, sc_strbuf *out);
/* "tp", "tp.0", "(x, y)": sub-axes of one dim, whole axes by their name. */
void sc_print_sub_axes(const sc_module *m, const sc_sub_axis_list *sub_axes, sc_strbuf *out);
/* The same in the context's arena. */
const char *sc_type_text(const sc_module *m, sc_type type);
/* Dims as written: [D], [H, E]; leaves of one composite under its name. */
void sc_print_dims(const sc_module *m, const sc_dim *dims, uint32_t count, sc_strbuf *out);

/* ---- names and sizes ---- */
enum { SC_TEXT_STATES = 5 };
extern const char *const sc_text_state_names[SC_TEXT_STATES]; /* by bit */

/* A word stands unquoted: [A-Za-z_][A-Za-z0-9_]*, and where dots are allowed, more of [A-Za-z0-9_]+ after single dots. */
bool sc_text_is_word(const char *text, bool dots);

/* Which leaf of a composite gets which of its sub-axes: major first, the next leaf only when the one before is split to the last element.
 * So `H=8@tp` means contiguous parts of H, and the printer writes that form only where it gives back the same lists. False when a sub-axis
 * does not divide the rest of the leaf whose turn it is. */
bool sc_text_distribute(const sc_mesh *mesh, const int64_t *sizes, uint32_t leaf_count, const sc_sub_axis_list *sub_axes,
                        sc_sub_axis_list *leaves);

/* Sizes end here, so that sums of two and rounding up to a multiple of shards cannot overflow. */
#define SC_TEXT_MAX_SIZE ((int64_t)1 << 60)

/* Product of sizes; -1 when it is larger than a size may be. */
int64_t sc_text_product(const int64_t *sizes, uint32_t count);

/* ---- printing ---- */

typedef struct sc_printer {
    const sc_module *m;
    sc_strbuf *out;
    /* Per dim, the leaf sizes its line declares, or NULL. The table itself is NULL for a type printed alone, where the short form is wanted
     * whenever the placement allows it. */
    const int64_t **leaf_sizes;
    bool fold;
} sc_printer;

void sc_print_name(sc_printer *p, sc_sym name); /* a word where it is one, else quoted */
void sc_print_quoted(sc_printer *p, sc_sym name);
void sc_print_dim_name(sc_printer *p, sc_dim dim);
void sc_print_axis_name(sc_printer *p, uint32_t axis);
void sc_print_sub_axis_items(sc_printer *p, const uint8_t *sub_axes, uint32_t count); /* tp, dp.0 */
void sc_print_sub_axis_list(sc_printer *p, const sc_sub_axis_list *list);             /* tp or (tp, dp.0) */
void sc_print_type_handle(sc_printer *p, sc_type handle);
void sc_print_dim_list(sc_printer *p, const sc_dim *dims, uint32_t count);
/* Fills in leaf_sizes of the composites of a type that have none yet. `seen` has a flag for each type. */
void sc_print_note_type(sc_printer *p, sc_type handle, bool *seen);

#endif
