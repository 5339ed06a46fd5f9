/* Source texts and positions in them. The positions of all files share one 32-bit space, so a
 * location is two integers and identifies its file. Position 0 is "nowhere". */
#ifndef SHARDC_SUPPORT_SOURCE_H
#define SHARDC_SUPPORT_SOURCE_H

#include "support/arena.h"
#include "support/vec.h"

typedef struct sc_loc {
    uint32_t begin, end; /* half-open */
} sc_loc;

typedef struct sc_source {
    const char *name;      /* as the user gave it */
    const char *text;      /* 0-terminated copy */
    uint32_t length, base; /* position of the first byte */
    uint32_t *line_starts; /* offsets; computed on first use */
    uint32_t line_count;
} sc_source;

typedef struct sc_sources {
    sc_arena *arena;
    SC_VEC(sc_source) files;
    uint32_t next_base;
} sc_sources;

typedef struct sc_line {
    const sc_source *source; /* NULL: nowhere */
    uint32_t line, column;   /* counted from 1; columns are in bytes */
    const char *text;        /* the line, not 0-terminated */
    uint32_t text_length;
} sc_line;

void sc_sources_init(sc_sources *sources, sc_arena *arena);
/* Copies the text. Returns NULL if the 32-bit space is exhausted. The returned address is
 * stable. */
const sc_source *sc_sources_add(sc_sources *sources, const char *name, const char *text,
                                size_t length);
sc_line sc_sources_line(sc_sources *sources, uint32_t position);
/* Returns a copy of the text at a location, in the sources' arena; NULL: nowhere. */
const char *sc_sources_text(sc_sources *sources, sc_loc loc);

static inline sc_loc sc_loc_join(sc_loc a, sc_loc b)
{
    return (sc_loc){a.begin == 0 ? b.begin : a.begin, b.end == 0 ? a.end : b.end};
}

#endif
