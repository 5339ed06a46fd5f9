/* Tables of families: lines of words. */
#include <string.h>

#include "tools/import/import.h"
#include "tools/import/tables.h"

static const struct {
    const char *word;
    bool has_name;
} kinds[] = {
#define ROW(kind, word, has_name, has_value) {word, has_name},
#include "tools/import/rows.def"
#undef ROW
};

static const char *copy(sc_context *context, const char *begin, const char *end)
{
    while (begin < end && *begin == ' ')
        begin++;
    while (begin < end && end[-1] == ' ')
        end--;
    return sc_arena_copy_text(&context->arena, begin, (size_t)(end - begin));
}

/* True if a list of words has one. */
static bool has_word(const char *list, const char *word)
{
    size_t length = strlen(word);
    while (*list != 0) {
        size_t end = strcspn(list, " ");
        if (end == length && memcmp(list, word, length) == 0)
            return true;
        list += end;
        list += strspn(list, " ");
    }
    return false;
}

/* Reads a line of the table; false if there is nothing on it. */
static bool read_line(sc_context *context, const char *begin, const char *end, sc_import_row *row)
{
    const char *comment = memchr(begin, '#', (size_t)(end - begin));
    end = comment == NULL ? end : comment;
    while (begin < end && *begin == ' ')
        begin++;
    const char *rest = begin;
    while (rest < end && *rest != ' ')
        rest++;
    for (int i = 0; i < SC_IMPORT_KINDS; i++) {
        if ((size_t)(rest - begin) != strlen(kinds[i].word) ||
            memcmp(begin, kinds[i].word, (size_t)(rest - begin)) != 0)
            continue;
        const char *equals = kinds[i].has_name ? memchr(rest, '=', (size_t)(end - rest)) : NULL;
        *row = (sc_import_row){.kind = (sc_import_kind)i};
        if (equals != NULL)
            row->name = copy(context, rest, equals);
        row->value = copy(context, equals == NULL ? rest : equals + 1, end);
        return true;
    }
    return false;
}

/* Adds the rows of a table that are for the type; all of them for the table `all`. */
static void add_rows(sc_context *context, const char *text, const char *type, sc_import_rows *out)
{
    bool applies = true;
    for (const char *line = text; *line != 0;) {
        const char *end = line + strcspn(line, "\n");
        sc_import_row row;
        if (read_line(context, line, end, &row)) {
            if (row.kind == SC_IMPORT_FOR)
                applies = has_word(row.value, "all") || has_word(row.value, type);
            else if (applies)
                *sc_vec_push(&context->arena, out) = row;
        }
        line = end + (*end == '\n');
    }
}

static const char *types_of(sc_context *context, const sc_import_table *table)
{
    sc_import_rows rows = {0};
    add_rows(context, table->text, "", &rows);
    for (uint32_t i = 0; i < rows.count; i++) {
        if (rows.data[i].kind == SC_IMPORT_TYPES)
            return rows.data[i].value;
    }
    return "";
}

bool sc_import_find_family(sc_context *context, const char *type, sc_import_family *out)
{
    sc_strbuf known;
    sc_strbuf_init(&known, &context->arena);
    *out = (sc_import_family){.type = type};
    for (const sc_import_table *table = sc_import_tables; table->name != NULL; table++) {
        const char *types = types_of(context, table);
        if (has_word(types, type)) {
            out->name = table->name;
            add_rows(context, table->text, type, &out->rows);
        }
        if (types[0] != 0)
            sc_strbuf_printf(&known, "%s%s", known.length > 0 ? " " : "", types);
    }
    if (out->name == NULL) {
        sc_report(&context->diag, SC_D_bad_config, (sc_loc){0},
                  sc_arena_printf(&context->arena,
                                  "no model of the library has \"model_type\": \"%s\"; there are "
                                  "those of %s",
                                  type, known.data),
                  NULL);
        return false;
    }
    for (const sc_import_table *table = sc_import_tables; table->name != NULL; table++) {
        if (strcmp(table->name, "all") == 0)
            add_rows(context, table->text, type, &out->rows);
    }
    return true;
}
