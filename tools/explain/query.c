#include "tools/explain/query.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "passes/reason.h"

/* Parses and removes a trailing ":DIGITS" of text[0..*length). Returns 0 if there is none. */
static uint32_t take_number(const char *text, size_t *length)
{
    size_t begin = *length;
    while (begin > 0 && text[begin - 1] >= '0' && text[begin - 1] <= '9')
        begin--;
    if (begin == *length || begin < 2 || text[begin - 1] != ':' || *length - begin > 9)
        return 0;
    *length = begin - 1;
    return (uint32_t)strtoul(text + begin, NULL, 10);
}

/* Parses a path of the language, as in `remat PATH;`. */
static const sc_path *parse_path(sc_context *context, const char *text)
{
    const char *source =
        sc_arena_printf(&context->arena, "lang 1; plan p for m {\nremat %s;\n}", text);
    const sc_file *file = sc_parse_text(context, "PATH", source, strlen(source));
    if (context->diag.errors > 0)
        return NULL;
    const sc_plan *plan = file->items.data[0]->plan;
    if (file->items.count == 1 && plan->body.count == 1 && plan->body.data[0]->in.count == 1 &&
        plan->body.data[0]->remat.save.count == 0)
        return &plan->body.data[0]->in.data[0];
    sc_report(&context->diag, SC_D_usage, (sc_loc){0},
              sc_arena_printf(&context->arena, "'%s' is neither a path nor FILE:LINE", text), NULL);
    return NULL;
}

bool sc_query_parse(sc_context *context, const char *text, sc_query *out)
{
    *out = (sc_query){.text = text};
    if (text == NULL)
        return true;
    size_t length = strlen(text);
    out->line = take_number(text, &length);
    if (out->line == 0) {
        out->path = parse_path(context, text);
        return out->path != NULL;
    }
    uint32_t before = take_number(text, &length);
    if (before != 0) {
        out->column = out->line;
        out->line = before;
    }
    out->file = sc_arena_copy_text(&context->arena, text, length);
    return true;
}

/* True if one name is a suffix of the other in whole segments: model.shard matches
 * ../x/model.shard. */
static bool same_file(const char *a, const char *b)
{
    size_t x = strlen(a), y = strlen(b);
    const char *longer = x > y ? a : b, *shorter = x > y ? b : a;
    size_t more = x > y ? x - y : y - x;
    return strcmp(longer + more, shorter) == 0 &&
           (more == 0 || longer[more - 1] == '/' || *shorter == '/');
}

static bool stands_at(sc_context *context, const sc_query *query, sc_loc loc)
{
    assert(query->file != NULL);
    if (loc.begin == 0)
        return false;
    sc_line begin = sc_sources_line(&context->sources, loc.begin),
            end = sc_sources_line(&context->sources, loc.end > loc.begin ? loc.end - 1 : loc.begin);
    if (begin.source == NULL || !same_file(begin.source->name, query->file) ||
        query->line < begin.line || query->line > end.line)
        return false;
    if (query->column == 0)
        return true;
    return (query->line > begin.line || query->column >= begin.column) &&
           (query->line < end.line || query->column <= end.column);
}

bool sc_query_matches(sc_context *context, const sc_query *query, sc_sym entry, sc_sym path,
                      sc_loc loc)
{
    if (query->text == NULL)
        return true;
    if (query->path != NULL)
        return path != 0 && sc_path_matches(context, query->path, entry, path) != SC_PATH_NO;
    return stands_at(context, query, loc);
}

bool sc_query_matches_row(const sc_query *query, const sc_compiled *c, const sc_comm_row *row)
{
    const sc_module *m = c->local;
    sc_context *context = m->context;
    const sc_op *op = sc_op_at(m, row->op);
    bool means = sc_query_matches(context, query, c->entry, op->scope, op->loc);
    if (query->file != NULL)
        return means ||
               (row->rule != SC_NONE && stands_at(context, query, m->rules.data[row->rule].loc));
    means =
        means || sc_query_matches(context, query, c->entry, sc_op_word(op, SC_ATTR_moves), op->loc);
    for (uint32_t i = 0; i < op->operand_count && !means; i++) {
        means = sc_query_matches(context, query, c->entry, sc_value_path(m, op->operands[i]),
                                 op->loc) ||
                (i < op->result_count &&
                 sc_query_matches(context, query, c->entry,
                                  m->values.data[op->first_result + i].path, op->loc));
    }
    return means;
}

static const char *last_segment(const char *path)
{
    const char *point = strrchr(path, '.');
    return point == NULL ? path : point + 1;
}

/* Returns the nearest whole path, else the nearest by last segment, for a path whose front is
 * missing. */
static const char *nearest(sc_context *context, const char *text, const sc_sym *paths,
                           uint32_t count)
{
    const char **names = sc_arena_array(&context->arena, count + 1, sizeof *names),
               **lasts = sc_arena_array(&context->arena, count + 1, sizeof *lasts);
    for (uint32_t i = 0; i < count; i++) {
        names[i] = sc_path_without_indices(context, sc_text(context, paths[i]));
        lasts[i] = last_segment(names[i]);
    }
    text = sc_path_without_indices(context, text);
    const char *near = sc_nearest(text, names, count);
    if (near != NULL)
        return near;
    near = sc_nearest(last_segment(text), lasts, count);
    if (near != NULL) {
        for (uint32_t i = 0; i < count; i++) {
            if (lasts[i] == near)
                return names[i];
        }
    }
    return NULL;
}

void sc_query_report_no_match(sc_context *context, const sc_query *query, const sc_sym *paths,
                              uint32_t count)
{
    const char *near = query->path == NULL ? NULL : nearest(context, query->text, paths, count);
    sc_report(&context->diag, SC_D_matches_nothing, (sc_loc){0}, query->text,
              near == NULL ? "" : sc_arena_printf(&context->arena, "; did you mean '%s'?", near),
              NULL);
    if (query->file != NULL)
        sc_report_note(
            &context->diag, (sc_loc){0},
            "there is no named value or collective at that place; a place is FILE:LINE or "
            "FILE:LINE:COLUMN");
}
