/* What the commands that print tables share: numbers for people, collectives for programs. */
#ifndef SHARDC_TOOLS_REPORT_H
#define SHARDC_TOOLS_REPORT_H

#include "passes/comm_report.h"
#include "passes/memory_report.h"
#include "runtime/drive/json.h"
#include "tools/driver.h"

/* 1536 -> 1.5 KiB, in the arena. */
const char *sc_bytes_text(sc_arena *arena, double bytes);

/* The names of the axes of a row's group. */
json_t *sc_axes_json(const sc_module *m, const sc_comm_row *row);
/* A row as `comm` prints it. */
json_t *sc_comm_row_json(const sc_module *m, const sc_comm_row *row);
/* The plan's name, or null. */
json_t *sc_plan_json(const sc_context *context, const sc_plan *plan);

/* Whether two rows differ in nothing but the instance of a stack they stand in. */
bool sc_comm_same_call(const sc_comm_row *a, const sc_comm_row *b);

/* Calls that share op, axes and phase, added up. */
typedef struct sc_comm_total {
    const sc_comm_row *first;
    uint32_t count;
    double bytes, sent;
} sc_comm_total;
typedef SC_VEC(sc_comm_total) sc_comm_totals;

void sc_comm_add_up(const sc_module *m, const sc_comm_rows *rows, sc_comm_totals *totals);

#endif
