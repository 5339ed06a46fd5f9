/* Shared by the commands that print tables: amounts as text, collectives as JSON. */
#ifndef SHARDC_TOOLS_EXPLAIN_REPORT_H
#define SHARDC_TOOLS_EXPLAIN_REPORT_H

#include "passes/comm_report.h"
#include "passes/memory_report.h"
#include "runtime/drive/json.h"
#include "support/units.h"
#include "tools/driver/driver.h"

/* Returns the names of the axes of a row's group. */
json_t *sc_axes_json(const sc_module *m, const sc_comm_row *row);
/* Returns the stage's number, or null without stages. */
json_t *sc_stage_json(uint32_t stage);
/* Returns a row as `comm` prints it. */
json_t *sc_comm_row_json(const sc_module *m, const sc_comm_row *row);
/* Returns the plan's name, or null. */
json_t *sc_plan_json(const sc_context *context, const sc_plan *plan);

/* The rows of a report, with instances of a stack grouped. */
typedef struct sc_comm_group {
    const sc_comm_row *row; /* of the first instance */
    uint32_t calls;         /* of all instances */
} sc_comm_group;

typedef struct sc_comm_groups {
    SC_VEC(sc_comm_group) list; /* in the order of the rows */
    uint32_t *of_row;           /* by row: index of its group */
} sc_comm_groups;

void sc_comm_group_rows(sc_context *context, const sc_comm_rows *rows, sc_comm_groups *out);
/* Describes what moves, by scope and values: "layers.attn: wq, wk"; for many values "update:
 * norm.g.grad and 250 more". */
const char *sc_comm_values_text(sc_arena *arena, const sc_comm_row *row);

/* Totals over calls with the same op, axes, phase and stage. */
typedef struct sc_comm_total {
    const sc_comm_row *first;
    uint32_t count;
    double bytes, sent, cost;
} sc_comm_total;
typedef SC_VEC(sc_comm_total) sc_comm_totals;

void sc_comm_add_up(const sc_module *m, const sc_comm_rows *rows, sc_comm_totals *totals);

#endif
