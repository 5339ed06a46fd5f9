/* What crosses the cuts of a pipeline, and edits that move a cut. */
#ifndef SHARDC_TOOLS_EXPLAIN_CUTS_H
#define SHARDC_TOOLS_EXPLAIN_CUTS_H

#include "tools/explain/advice.h"
#include "tools/explain/report.h"

/* The sends of a compiled program, by the value that they carry. */
typedef struct sc_crossings {
    const sc_module *m;
    SC_VEC(sc_comm_row) list; /* in the order of the rows */
    uint32_t *next;           /* by index in `list`: the next of the same value; SC_NONE */
    sc_map first;             /* path, or path of a gradient -> index in `list` */
} sc_crossings;

void sc_find_crossings(const sc_module *m, const sc_comm_rows *rows, sc_crossings *out);
/* Appends lines that say where a value and its gradient cross a cut: which stage computes it, which
 * reads it, bytes a micro-batch and a step. None if it does not. */
void sc_print_crossings(const sc_crossings *crossings, sc_sym path, sc_strbuf *out);
/* The same as a list of objects. */
json_t *sc_crossings_json(const sc_crossings *crossings, sc_sym path);

/* True for a send or receive. */
bool sc_row_transfers(const sc_module *m, const sc_comm_row *row);
/* Edits of the `stage` line that move a cut that a send crosses by one instance, with the lengths
 * of all chunks; none for sends of the update, which depend on no single cut. */
void sc_list_cut_edits(const sc_compiled *c, const sc_comm_row *send, sc_edits *out);

#endif
