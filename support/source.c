#include "support/source.h"

#include <string.h>

void sc_sources_init(sc_sources *sources, sc_arena *arena)
{
    memset(sources, 0, sizeof *sources);
    sources->arena = arena;
    sources->next_base = 1;
}

const sc_source *sc_sources_add(sc_sources *sources, const char *name, const char *text,
                                size_t length)
{
    if (length >= UINT32_MAX - 2 - sources->next_base)
        return NULL;
    sc_source *source = sc_vec_push(sources->arena, &sources->files);
    *source = (sc_source){.name = sc_arena_copy_text(sources->arena, name, strlen(name)),
                          .text = sc_arena_copy_text(sources->arena, text, length),
                          .length = (uint32_t)length,
                          .base = sources->next_base};
    sources->next_base += (uint32_t)length + 1;
    return source;
}

static void find_lines(sc_sources *sources, sc_source *source)
{
    uint32_t lines = 1;
    for (uint32_t i = 0; i < source->length; i++)
        lines += source->text[i] == '\n';
    source->line_starts = sc_arena_array(sources->arena, lines, sizeof *source->line_starts);
    source->line_count = 1;
    for (uint32_t i = 0; i < source->length; i++) {
        if (source->text[i] == '\n')
            source->line_starts[source->line_count++] = i + 1;
    }
}

sc_line sc_sources_line(sc_sources *sources, uint32_t position)
{
    for (uint32_t i = 0; i < sources->files.count; i++) {
        sc_source *source = &sources->files.data[i];
        if (position < source->base || position > source->base + source->length)
            continue;
        if (source->line_starts == NULL)
            find_lines(sources, source);
        uint32_t offset = position - source->base, low = 0, high = source->line_count;
        while (high - low > 1) {
            uint32_t middle = (low + high) / 2;
            if (source->line_starts[middle] <= offset)
                low = middle;
            else
                high = middle;
        }
        /* the next line's start gives the end, so a line of megabytes is not scanned for each
         * message */
        uint32_t start = source->line_starts[low];
        uint32_t end =
            low + 1 < source->line_count ? source->line_starts[low + 1] - 1 : source->length;
        return (sc_line){source, low + 1, offset - start + 1, source->text + start, end - start};
    }
    return (sc_line){0};
}

const char *sc_sources_text(sc_sources *sources, sc_loc loc)
{
    const sc_source *source = sc_sources_line(sources, loc.begin).source;
    if (source == NULL || loc.end < loc.begin || loc.end > source->base + source->length)
        return NULL;
    return sc_arena_copy_text(sources->arena, source->text + (loc.begin - source->base),
                              loc.end - loc.begin);
}
