/* Diagnostics: every message of the compiler is a row of diag.def. A message has a place, says what was found and what was wanted,
 * and carries notes for the other places involved and for the remedy. Nothing is printed here: a driver renders the list. */
#ifndef SHARDC_SUPPORT_DIAG_H
#define SHARDC_SUPPORT_DIAG_H

#include <stdbool.h>

#include "support/source.h"
#include "support/strbuf.h"
#include "support/vec.h"

typedef enum sc_diag_id {
#define DIAG(id, severity, exit, message, note) SC_D_##id,
#include "support/diag.def"
#undef DIAG
    SC_D_COUNT
} sc_diag_id;

typedef enum sc_severity { SC_ERROR, SC_WARNING, SC_NOTE } sc_severity;

typedef struct sc_diag_row {
    const char *name;
    sc_severity severity;
    int exit_code; /* of the command when this is the worst that happened: 1, 2, 3, 4, 6, 7; 0 for warnings */
    const char *message, *note;
} sc_diag_row;

typedef struct sc_diag_note {
    sc_loc loc;
    const char *text;
} sc_diag_note;

typedef struct sc_diagnostic {
    sc_diag_id id;
    sc_loc loc;
    const char *text;
    SC_VEC(sc_diag_note) notes;
} sc_diagnostic;

typedef struct sc_diag {
    sc_arena *arena;
    SC_VEC(sc_diagnostic) list;
    uint32_t errors, suppressed;
    bool dropped; /* the newest report was, so its notes are too */
} sc_diag;

enum { SC_DIAG_LIMIT = 100 }; /* errors kept; the rest are counted */

extern const sc_diag_row sc_diag_rows[SC_D_COUNT];

void sc_diag_init(sc_diag *diag, sc_arena *arena);

/* Adds a diagnostic. The arguments are texts for {0}, {1}, ... of the row's message and note, ended by NULL. A row's note, if it has
 * one, becomes the first note, without a place. An exact repetition (id, place, text) is dropped. */
void sc_report(sc_diag *diag, sc_diag_id id, sc_loc loc, ...) __attribute__((sentinel));
/* Adds a note to the newest diagnostic (ignored when that was dropped). */
void sc_report_note(sc_diag *diag, sc_loc loc, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Adds what another list has, which may go then. */
void sc_diag_append(sc_diag *diag, const sc_diag *from);

/* What a command should exit with: 0, or of several 1 before 4 before 6 before 3, then the others. */
int sc_diag_exit_code(const sc_diag *diag);

/* file:line:col: error: message [id], the line with a caret, notes. */
void sc_diag_render_text(const sc_diag *diag, sc_sources *sources, sc_strbuf *out);
/* One JSON object: {"version":1,"diagnostics":[{"id","severity","message","file","line","column","end_line","end_column","notes":[..]}]}.
 */
void sc_diag_render_json(const sc_diag *diag, sc_sources *sources, sc_strbuf *out);

/* Of `count` candidates the one that was probably meant, or NULL: `name` in other letters, else what other frameworks call so
 * (familiar.def), else the nearest by edit distance (at most 1 + length / 3); of several, one that begins most alike. */
const char *sc_nearest(const char *name, const char *const *candidates, size_t count);

#endif
