/* What `explain` is asked about: a path of the plan language, or a place in a source file. */
#ifndef SHARDC_TOOLS_EXPLAIN_QUERY_H
#define SHARDC_TOOLS_EXPLAIN_QUERY_H

#include "passes/comm_report.h"
#include "tools/driver/driver.h"

typedef struct sc_asked {
    const char *text;
    const sc_path *path;   /* NULL: a place, or everything */
    const char *file;      /* NULL: a path, or everything */
    uint32_t line, column; /* column 0: the whole line */
} sc_asked;

/* PATH or FILE:LINE[:COL]; NULL asks for everything. False after a message. */
bool sc_asked_parse(sc_context *context, const char *text, sc_asked *out);

/* Whether a thing with this path, declared or made at `loc`, is meant: a path covers its subtree, without indices every instance. */
bool sc_asked_means(sc_context *context, const sc_asked *asked, sc_sym entry, sc_sym path, sc_loc loc);
/* A collective is meant by its scope, by what it moves, by the op it stands at and by the line of the plan at its root. */
bool sc_asked_means_row(const sc_asked *asked, const sc_compiled *c, const sc_comm_row *row);

/* Reports that nothing was meant, with the nearest of the paths. */
void sc_asked_report_nothing(sc_context *context, const sc_asked *asked, const sc_sym *paths, uint32_t count);

#endif
