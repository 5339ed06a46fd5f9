/* How to do without a collective: the one edit of the plan after which it is gone, found by trying edits and compiling each. */
#ifndef SHARDC_TOOLS_EXPLAIN_ADVICE_H
#define SHARDC_TOOLS_EXPLAIN_ADVICE_H

#include "passes/comm_report.h"
#include "tools/driver/driver.h"

typedef enum sc_edit_kind { SC_EDIT_REMOVE, SC_EDIT_REPLACE, SC_EDIT_ADD } sc_edit_kind;

/* A change of one statement of the plan. */
typedef struct sc_edit {
    sc_edit_kind kind;
    uint32_t statement; /* REMOVE, REPLACE: index in the plan's body */
    sc_loc loc;         /* of that statement; ADD: of the plan's end, before which it goes */
    const char *old;    /* REMOVE, REPLACE: the statement as it stands in the file */
    const char *line;   /* REPLACE, ADD: the new statement, with its semicolon */
} sc_edit;

/* What a plan costs a rank: one function gives it for the plan as it is and as edited. */
typedef struct sc_plan_cost {
    double sent;  /* bytes, in the whole program */
    double flops; /* of matmuls and attention */
    int64_t peak; /* of memory, as `shardc memory` has it; -1: the program is not compiled to the end */
} sc_plan_cost;

typedef struct sc_advice {
    sc_edit edit;
    sc_plan_cost before, after;
    const struct sc_advice *leaner; /* the edit with the lowest peak, if lower than this one's and nothing more is sent than now; or NULL */
} sc_advice;

typedef struct sc_answer {
    const sc_advice *advice; /* NULL: none of the edits that were tried removes it and saves something */
    bool complete;           /* all edits were tried; a command tries only so many */
} sc_answer;

typedef struct sc_adviser sc_adviser;

/* For one compiled entry. */
sc_adviser *sc_adviser_new(sc_context *context, const sc_options *options, const sc_compiled *c);

/* The edit after which the collective is gone and the fewest bytes are sent, fewer than now, then with the lowest peak; else, if one sends
 * no more and needs less memory, that one. A collective is gone when none of its op and scope, indices aside, moves any of its values. Each
 * edit is compiled once, and no more than some hundred of them: a caller asks once for all instances of a stack. */
sc_answer sc_adviser_ask(sc_adviser *adviser, const sc_comm_row *row);

#endif
