/* What the printer and the parser of `shardc.ir 1` share, and the printer's folding. */
#ifndef SHARDC_IR_TEXT_TEXT_INTERNAL_H
#define SHARDC_IR_TEXT_TEXT_INTERNAL_H

#include "ir/text/text.h"

enum { SC_TEXT_STATES = 5 };
extern const char *const sc_text_state_names[SC_TEXT_STATES]; /* by bit */

/* A word stands unquoted: [A-Za-z_][A-Za-z0-9_]*, and where dots are allowed, more of [A-Za-z0-9_]+ after single dots. */
bool sc_text_is_word(const char *text, bool dots);

/* Which leaf of a composite gets which of its atoms: major first, the next leaf only when the one before is split to the last element. So
 * `H=8@tp` means contiguous parts of H, and the printer writes that form only where it gives back the same lists. False when an atom does
 * not divide the rest of the leaf whose turn it is. */
bool sc_text_distribute(const sc_mesh *mesh, const int64_t *sizes, uint32_t leaf_count, const sc_atom_list *atoms, sc_atom_list *leaves);

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
void sc_print_atom_items(sc_printer *p, const uint8_t *atoms, uint32_t count); /* tp, dp.0 */
void sc_print_atom_list(sc_printer *p, const sc_atom_list *list);              /* tp or (tp, dp.0) */
void sc_print_type_handle(sc_printer *p, sc_type handle);
void sc_print_dim_list(sc_printer *p, const sc_dim *dims, uint32_t count);
/* Fills in leaf_sizes of the composites of a type that have none yet. `seen` has a flag for each type. */
void sc_print_note_type(sc_printer *p, sc_type handle, bool *seen);

/* ---- folding ---- */

typedef enum sc_fold_kind { SC_FOLD_OPS, SC_FOLD_STATES, SC_FOLD_SLOTS } sc_fold_kind;

/* A list of items in which repeats are looked for. */
typedef struct sc_folder {
    const sc_module *m;
    sc_fold_kind kind;
    uint32_t count;
    const sc_op_id *ops;         /* of SC_FOLD_OPS: the ops of a function in order, */
    const uint32_t *place;       /* and per op its index in them */
    uint64_t *hash;              /* per item, without the numbers in its names */
    uint64_t *sums, *named_sums; /* of these, and of hashes of the names, from the front */
    uint64_t *powers;
    uint32_t *next; /* per item: the next one with its hash, or SC_NONE */
} sc_folder;

/* A run of items, printed once for `count` in a row. */
typedef struct sc_fold {
    uint32_t skip;     /* items before the first run */
    uint32_t length;   /* items of one run */
    uint32_t count;    /* runs in a row that are alike; 1: nothing to fold */
    const char *stack; /* its name, stack_length bytes; the first and the last run's index */
    size_t stack_length;
    int64_t from, to;
} sc_fold;

/* With m, kind, count, ops and place set. */
void sc_folder_prepare(sc_folder *folder);
/* The runs that begin at item `first`, or a few items later, and end before `end`. */
sc_fold sc_fold_at(const sc_folder *folder, uint32_t first, uint32_t end);

#endif
