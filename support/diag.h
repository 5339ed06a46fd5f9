/* Diagnostics. Every message of the compiler is a row of diag.def. A message has a source location,
 * states what was found and what was expected, and has notes for other locations and for the
 * remedy. Nothing is printed here; a driver renders the list. */
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
    int exit_code; /* exit code of a command if this is its worst message: 1 to 7; 0 for warnings */
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
    uint32_t errors, suppressed; /* repetitions count as errors, too: their cause failed again */
    bool dropped;                /* the newest report was dropped, so its notes are dropped too */
} sc_diag;

enum { SC_DIAG_LIMIT = 100 }; /* number of errors kept; further ones are only counted */

extern const sc_diag_row sc_diag_rows[SC_D_COUNT];

void sc_diag_init(sc_diag *diag, sc_arena *arena);

/* Adds a diagnostic. The arguments are texts for {0}, {1}, ... of the row's message and note,
 * terminated by NULL. The row's note, if any, becomes the first note, without a location. An exact
 * repetition (id, location, text) is dropped. */
void sc_report(sc_diag *diag, sc_diag_id id, sc_loc loc, ...) __attribute__((sentinel));
/* Adds a note to the newest diagnostic; ignored if that was dropped. */
void sc_report_note(sc_diag *diag, sc_loc loc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Copies the diagnostics of another list, which may be freed afterwards. */
void sc_diag_append(sc_diag *diag, const sc_diag *from);

/* Returns the exit code of a command: 0 without errors; of several codes, the first of 1, 2, 4, 7,
 * 5, 6, 3. */
int sc_diag_exit_code(const sc_diag *diag);

/* Renders "file:line:col: error: message [id]", the source line with a caret, and notes. */
void sc_diag_render_text(const sc_diag *diag, sc_sources *sources, sc_strbuf *out);
/* Renders one JSON object:
 * {"version":1,"diagnostics":[{"id","severity","message","file","line","column","end_line","end_column","notes":[..]}]}.
 */
void sc_diag_render_json(const sc_diag *diag, sc_sources *sources, sc_strbuf *out);

/* Returns the candidate that was probably meant, or NULL: the same name in other case, else the
 * name for another framework's term (familiar.def), else the nearest by edit distance (at most 1 +
 * length / 3). Ties go to the longest common prefix. */
const char *sc_nearest(const char *name, const char *const *candidates, size_t count);

#endif
