/* How to do without a collective: the one edit of the plan after which it is gone, found by trying edits and compiling each. */
#ifndef SHARDC_TOOLS_ADVICE_H
#define SHARDC_TOOLS_ADVICE_H

#include "passes/comm_report.h"
#include "tools/driver.h"

typedef enum sc_edit_kind { SC_EDIT_REMOVE, SC_EDIT_REPLACE, SC_EDIT_ADD } sc_edit_kind;

/* A change of one statement of the plan. */
typedef struct sc_edit {
    sc_edit_kind kind;
    uint32_t statement; /* REMOVE, REPLACE: index in the plan's body */
    sc_loc loc;         /* of that statement; ADD: of the plan's end, before which it goes */
    const char *old;    /* REMOVE, REPLACE: the statement as it stands in the file */
    const char *line;   /* REPLACE, ADD: the new statement, with its semicolon */
} sc_edit;

typedef struct sc_advice {
    sc_edit edit;
    double sent_before, sent_after;  /* by a rank, in the whole program */
    int64_t peak_before, peak_after; /* memory of a rank */
    const struct sc_advice *leaner; /* the edit with the lowest peak, if lower than this one's and nothing more is sent than now; or NULL */
} sc_advice;

typedef struct sc_adviser sc_adviser;

/* For one compiled entry with its collectives. */
sc_adviser *sc_adviser_new(sc_context *context, const sc_options *options, const sc_compiled *c, const sc_comm_rows *rows);

/* The edit with the fewest bytes sent afterwards, then the lowest peak; NULL when no single edit does. A collective is gone when none of
 * its op and scope, indices aside, moves any of its values. Instances of a stack share the answer, and each edit is compiled once. */
const sc_advice *sc_adviser_ask(sc_adviser *adviser, const sc_comm_row *row);

#endif
