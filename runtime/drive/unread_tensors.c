/* Finds unread tensors of a weights file and reports them in few lines. */
#include "runtime/drive/unread_tensors.h"

#include <assert.h>
#include <string.h>

#include "runtime/drive/name_pattern.h"
#include "support/hash.h"
#include "support/strbuf.h"

/* ---- finding them ---- */

static void find_read(sc_context *context, const sc_fact_weights *weights, sc_map *out)
{
    bool is_new;
    for (uint32_t i = 0; i < weights->count; i++) {
        const sc_fact_param *param = &weights->params[i];
        for (uint32_t t = 0; t < param->tensor_count; t++)
            sc_map_insert(out, sc_intern_text(&context->names, param->tensors[t]), 0, &is_new);
    }
}

/* Tries every pattern, because each must match something. */
static bool may_stay_unread(const sc_fact_weights *weights, const char *name, bool *used)
{
    bool may = false;
    for (uint32_t i = 0; i < weights->patterns.count; i++) {
        const sc_fact_pattern *pattern = &weights->patterns.data[i];
        bool matches = pattern->is_ignore ? sc_name_ends_like(pattern->text, name)
                                          : sc_name_is_like(pattern->text, name);
        used[i] = used[i] || matches;
        may = may || matches;
    }
    return may;
}

/* True for a line of the file that was given, rather than of one that it imports: the map of a
 * library serves checkpoints with and without such tensors. */
static bool is_own_line(sc_context *context, sc_loc loc)
{
    const sc_source *source = sc_sources_line(&context->sources, loc.begin).source;
    return source == NULL || source == &context->sources.files.data[0];
}

static void note_idle_patterns(sc_context *context, const sc_fact_weights *weights,
                               const char *path, const bool *used)
{
    for (uint32_t i = 0; i < weights->patterns.count; i++) {
        if (weights->patterns.data[i].is_ignore && !used[i] &&
            is_own_line(context, weights->patterns.data[i].loc))
            sc_report(&context->diag, SC_D_ignores_nothing, weights->patterns.data[i].loc,
                      weights->patterns.data[i].text, path, NULL);
    }
}

/* ---- names that differ only in numbers ---- */

enum { MAX_NUMBERS = 8, MAX_DIGITS = 9, MAX_SHOWN = 160 };

typedef struct name_group {
    const char *first;
    uint32_t count;
    uint32_t low[MAX_NUMBERS], high[MAX_NUMBERS];
} name_group;

typedef SC_VEC(name_group) name_group_list;

/* Returns the name with every number replaced by '0'; the numbers are stored in `numbers`. */
static const char *without_numbers(sc_arena *arena, const char *name, uint32_t *numbers,
                                   uint32_t *count)
{
    sc_strbuf text;
    sc_strbuf_init(&text, arena);
    *count = 0;
    while (*name != 0) {
        size_t digits = strspn(name, "0123456789"), others = strcspn(name, "0123456789");
        if (digits > 0 && digits <= MAX_DIGITS && *count < MAX_NUMBERS) {
            uint32_t number = 0;
            for (size_t i = 0; i < digits; i++)
                number = 10 * number + (uint32_t)(name[i] - '0');
            numbers[(*count)++] = number;
            sc_strbuf_add_char(&text, '0');
        } else {
            sc_strbuf_add_bytes(&text, name, digits > 0 ? digits : others);
        }
        name += digits > 0 ? digits : others;
    }
    return text.data == NULL ? "" : text.data;
}

static void add_to_group(sc_context *context, const char *name, sc_map *by_text,
                         name_group_list *groups)
{
    uint32_t numbers[MAX_NUMBERS], count;
    bool is_new;
    const char *text = without_numbers(&context->arena, name, numbers, &count);
    uint32_t at =
        *sc_map_insert(by_text, sc_intern_text(&context->names, text), groups->count, &is_new);
    if (is_new)
        *sc_vec_push(&context->arena, groups) = (name_group){.first = name};
    assert(at < groups->count);
    name_group *group = &groups->data[at];
    group->count++;
    for (uint32_t i = 0; i < count; i++) {
        group->low[i] = is_new || numbers[i] < group->low[i] ? numbers[i] : group->low[i];
        group->high[i] = is_new || numbers[i] > group->high[i] ? numbers[i] : group->high[i];
    }
}

static const char *group_text(sc_arena *arena, const name_group *group)
{
    sc_strbuf text;
    uint32_t number = 0;
    if (group->count == 1)
        return sc_arena_printf(arena, "%.*s", MAX_SHOWN, group->first);
    sc_strbuf_init(&text, arena);
    for (const char *name = group->first; *name != 0;) {
        size_t digits = strspn(name, "0123456789"), others = strcspn(name, "0123456789");
        if (digits > 0 && digits <= MAX_DIGITS && number < MAX_NUMBERS &&
            group->low[number] < group->high[number])
            sc_strbuf_printf(&text, "%u..%u", group->low[number], group->high[number]);
        else
            sc_strbuf_add_bytes(&text, name, digits > 0 ? digits : others);
        number += digits > 0 && digits <= MAX_DIGITS;
        name += digits > 0 ? digits : others;
    }
    return sc_arena_printf(arena, "%.*s (%u tensors)", MAX_SHOWN, text.data, group->count);
}

void sc_unread_find(sc_context *context, const sc_fact_weights *weights, const sc_safetensors *file,
                    const char *path, sc_unread_tensors *out)
{
    sc_map read = {.arena = &context->arena}, by_text = {.arena = &context->arena};
    name_group_list groups = {0};
    bool *used = sc_arena_array(&context->arena, weights->patterns.count + 1u, sizeof *used);
    *out = (sc_unread_tensors){0};
    find_read(context, weights, &read);
    for (size_t i = 0; i < sc_safetensors_count(file); i++) {
        const char *name = sc_safetensors_at(file, i)->name;
        if (sc_map_find(&read, sc_intern_text(&context->names, name)) != NULL ||
            may_stay_unread(weights, name, used))
            continue;
        out->count++;
        add_to_group(context, name, &by_text, &groups);
    }
    for (uint32_t i = 0; i < groups.count; i++)
        *sc_vec_push(&context->arena, &out->lines) = group_text(&context->arena, &groups.data[i]);
    note_idle_patterns(context, weights, path, used);
}

/* ---- the report ---- */

enum { REMEDY_LINES = 1 };

uint32_t sc_unread_lines(const sc_unread_tensors *unread)
{
    return unread->count == 0 ? 0 : unread->lines.count + REMEDY_LINES;
}

void sc_unread_report(sc_context *context, const sc_fact_weights *weights, const char *path,
                      const sc_unread_tensors *unread, uint32_t most_lines)
{
    uint32_t most = most_lines > REMEDY_LINES ? most_lines - REMEDY_LINES : 1,
             shown = unread->lines.count;
    if (unread->count == 0)
        return;
    if (shown > most + 1) /* listing the last one takes no more space than counting it */
        shown = most;
    sc_report(&context->diag, SC_D_unread_tensors, (sc_loc){0}, path,
              unread->count == 1 ? "a tensor"
                                 : sc_arena_printf(&context->arena, "%zu tensors", unread->count),
              weights->has_block ? "no line of the 'weights' block reads"
                                 : "no parameter is called like",
              unread->lines.data[0], NULL);
    for (uint32_t i = 1; i < shown; i++)
        sc_report_note(&context->diag, (sc_loc){0}, "and %s", unread->lines.data[i]);
    if (shown < unread->lines.count)
        sc_report_note(&context->diag, (sc_loc){0}, "and %u more such names",
                       unread->lines.count - shown);
    sc_report_note(&context->diag, (sc_loc){0},
                   "the file may be of another model; a line 'ignore \"PATTERN\";' in a 'weights' "
                   "block says what may stay unread");
}
