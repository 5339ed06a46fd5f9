/* Queries of `explain`: a path of the plan language, or a place in a source file. */
#ifndef SHARDC_TOOLS_EXPLAIN_QUERY_H
#define SHARDC_TOOLS_EXPLAIN_QUERY_H

#include "passes/comm_report.h"
#include "tools/driver/driver.h"

typedef struct sc_query {
    const char *text;
    const sc_path *path;   /* NULL: a place, or everything */
    const char *file;      /* NULL: a path, or everything */
    uint32_t line, column; /* column 0: the whole line */
} sc_query;

/* Parses PATH or FILE:LINE[:COL]; NULL matches everything. Returns false after reporting an
 * error. */
bool sc_query_parse(sc_context *context, const char *text, sc_query *out);

/* True if the query matches an item with this path, declared or created at `loc`. A path matches
 * its subtree, and without indices every instance. */
bool sc_query_matches(sc_context *context, const sc_query *query, sc_sym entry, sc_sym path,
                      sc_loc loc);
/* True if the query matches a collective by its scope, the values it moves, its op's location or
 * the plan line that caused it. */
bool sc_query_matches_row(const sc_query *query, const sc_compiled *c, const sc_comm_row *row);

/* Reports that nothing matched, with the nearest path. */
void sc_query_report_no_match(sc_context *context, const sc_query *query, const sc_sym *paths,
                              uint32_t count);

#endif
