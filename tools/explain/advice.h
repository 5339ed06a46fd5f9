/* Advice on removing a collective: the one edit of the plan after which it is gone, found by
 * compiling candidate edits. */
#ifndef SHARDC_TOOLS_EXPLAIN_ADVICE_H
#define SHARDC_TOOLS_EXPLAIN_ADVICE_H

#include "passes/comm_report.h"
#include "tools/driver/driver.h"

typedef enum sc_edit_kind { SC_EDIT_REMOVE, SC_EDIT_REPLACE, SC_EDIT_ADD } sc_edit_kind;

/* An edit of one statement of the plan. */
typedef struct sc_edit {
    sc_edit_kind kind;
    uint32_t statement; /* REMOVE, REPLACE: index into the plan's body */
    /* of that statement; ADD: the end of the plan, where the line is inserted */
    sc_loc loc;
    const char *old;  /* REMOVE, REPLACE: the statement's text in the file */
    const char *line; /* REPLACE, ADD: the new statement, with its semicolon */
} sc_edit;

typedef SC_VEC(sc_edit) sc_edits;

/* The cost of a plan per rank, computed by the same function with and without an edit. */
typedef struct sc_plan_cost {
    double sent;  /* bytes, in the whole program */
    double flops; /* of matmuls and attention */
    int64_t peak; /* of memory, as reported by `shardc memory`; -1: not compiled to the end */
    /* of a pipeline with the work of its chunks, as reported by `shardc schedule`; 0: no stages */
    double makespan, imbalance;
} sc_plan_cost;

typedef struct sc_advice {
    sc_edit edit;
    sc_plan_cost before, after;
    /* the edit with the lowest peak, if that is lower than this one's and no more is sent than now;
     * else NULL */
    const struct sc_advice *leaner;
} sc_advice;

typedef struct sc_answer {
    const sc_advice *advice; /* NULL: no edit tried removes the collective and saves something */
    bool complete;           /* all edits were tried; their number per command is limited */
} sc_answer;

typedef struct sc_adviser sc_adviser;

/* Returns an adviser for one compiled entry. */
sc_adviser *sc_adviser_new(sc_context *context, const sc_options *options, const sc_compiled *c);

/* Finds the edit that removes the collective and sends the fewest bytes, fewer than now; ties go to
 * the lowest peak. If there is none, an edit that sends no more and needs less memory. A collective
 * is gone if no collective with its op and scope (ignoring indices) moves any of its values. For a
 * send: the cut one instance further on with which the same schedule sends the fewest bytes, fewer
 * than now; a receive is left to its send. Each edit is compiled once, and at most about a hundred
 * are, so call this once for all instances of a stack. */
sc_answer sc_adviser_ask(sc_adviser *adviser, const sc_comm_row *row);

#endif
