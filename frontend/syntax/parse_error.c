/* Messages of the parser. A syntax error names the token found and what is allowed there. The
 * grammar's list of tokens is condensed to a few groups ("an expression", "a statement"). Notes
 * name a likely cause: a missing ';', an open bracket, a misspelt word. */
#include <string.h>

#include "frontend/syntax/parser_state.h"
#include "frontend/syntax/words.h"
#include "parser.h"

/* A group of tokens with a common name: the words with a trait, and the tokens of the grammar. A
 * group is used if all of them are expected. */
typedef struct token_group {
    const char *name; /* NULL: drop the tokens, because the expected `identifier` covers them */
    uint32_t trait;   /* 0: no words */
    const char *tokens[8];
} token_group;

static const token_group groups[] = {
    {NULL, SC_WORD_IN_PLAN, {NULL}},
    {"a plan statement", SC_WORD_PLAN_LINE, {NULL}},
    {"a declaration", SC_WORD_DECLARES, {NULL}},
    {"a statement", SC_WORD_STATES, {"identifier"}},
    {"a kind of tensor (param, act, ..)", SC_WORD_KIND, {NULL}},
    {"an expression", 0, {"identifier", "integer", "number", "string", "'('", "'['", "'-'"}},
    {"a number", 0, {"integer", "number"}},
    {"an operator", 0, {"'+'", "'-'", "'*'", "'/'"}},
};

/* Tokens that end a list or a statement are the most useful and named first. */
static const char *const first_named[] = {"';'", "','", "')'",   "']'",   "'}'",        "'='",
                                          "<=",  "==",  "intra", "inter", "an operator"};

enum { MAX_TOKENS = 128 }; /* more than the grammar has */

const char *sc_source_text(const sc_parser *parser, uint32_t position)
{
    return parser->source->text + (position - parser->source->base);
}

typedef struct token_set {
    const char **names;
    int count;
} token_set;

static int position(const token_set *set, const char *name)
{
    for (int i = 0; i < set->count; i++) {
        if (strcmp(set->names[i], name) == 0)
            return i;
    }
    return -1;
}

static bool has(const token_set *set, const char *name)
{
    return position(set, name) >= 0;
}

static void drop(token_set *set, const char *name)
{
    int at = position(set, name);
    if (at < 0)
        return;
    set->count--;
    memmove(set->names + at, set->names + at + 1, (size_t)(set->count - at) * sizeof *set->names);
}

/* Lists the tokens of a group and returns their number. */
static size_t tokens_of(const token_group *group, const char *out[MAX_TOKENS])
{
    size_t count = sc_words_with(group->trait, out);
    for (const char *const *token = group->tokens; *token != NULL; token++)
        out[count++] = *token;
    return count;
}

static void fold_group(token_set *set, const token_group *group)
{
    const char *tokens[MAX_TOKENS];
    size_t count = tokens_of(group, tokens);
    for (size_t i = 0; i < count; i++) {
        if (!has(set, tokens[i]))
            return;
    }
    for (size_t i = 0; i < count; i++)
        drop(set, tokens[i]);
    if (group->name != NULL)
        set->names[set->count++] = group->name;
}

static void move_to(token_set *set, int from, int to)
{
    const char *name = set->names[from];
    memmove(set->names + to + 1, set->names + to, (size_t)(from - to) * sizeof *set->names);
    set->names[to] = name;
}

static void put_first_named_first(token_set *set)
{
    int next = 0;
    for (size_t i = 0; i < sizeof first_named / sizeof *first_named; i++) {
        int at = position(set, first_named[i]);
        if (at >= 0)
            move_to(set, at, next++);
    }
}

static void put_end_of_file_last(token_set *set)
{
    if (!has(set, "end of file"))
        return;
    drop(set, "end of file");
    set->names[set->count++] = "end of file";
}

/* Appends a token as shown to users: words and signs in quotes, token classes with their
 * article. */
static void add_wanted(sc_strbuf *out, const char *name)
{
    static const char *const spoken[][2] = {{"identifier", "a name"},
                                            {"integer", "an integer"},
                                            {"number", "a number"},
                                            {"string", "a string"},
                                            {"end of file", "the end of the file"}};
    for (size_t i = 0; i < sizeof spoken / sizeof *spoken; i++) {
        if (strcmp(name, spoken[i][0]) == 0) {
            sc_strbuf_add(out, spoken[i][1]);
            return;
        }
    }
    bool quoted = name[0] == '\'' || strchr(name, ' ') != NULL;
    sc_strbuf_printf(out, quoted ? "%s" : "'%s'", name);
}

static void add_found(sc_strbuf *out, const sc_parser *parser, const char *found, sc_loc loc)
{
    enum { SHOWN = 40 };
    if (strcmp(found, "end of file") == 0) {
        sc_strbuf_add(out, "found the end of the file");
        return;
    }
    if (loc.begin == loc.end) { /* a token that the token stream inserted */
        sc_strbuf_printf(out, "found %s", found);
        return;
    }
    const char *text = sc_source_text(parser, loc.begin);
    uint32_t length = loc.end - loc.begin, shown = length;
    if (length > SHOWN) {
        shown = SHOWN;
        while (((unsigned char)text[shown] & 0xc0) == 0x80)
            shown--;
    }
    const char *quote = text[0] == '"' ? "" : "'";
    sc_strbuf_printf(out, "found %s%.*s%s%s", quote, (int)shown, text, shown < length ? ".." : "",
                     quote);
}

static const char *compose(sc_parser *parser, const char *found, sc_loc loc, token_set *expected)
{
    enum { NAMED = 4 };
    sc_strbuf out;
    sc_strbuf_init(&out, &parser->context->arena);
    add_found(&out, parser, found, loc);
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        fold_group(expected, &groups[i]);
    put_first_named_first(expected);
    put_end_of_file_last(expected);
    int named = expected->count < NAMED ? expected->count : NAMED;
    for (int i = 0; i < named; i++) {
        sc_strbuf_add(&out, i == 0 ? ", expected " : i < named - 1 ? ", " : " or ");
        add_wanted(&out, expected->names[i]);
    }
    return out.data;
}

/* ---- likely causes ---- */

static bool on_one_line(const sc_parser *parser, uint32_t from, uint32_t to)
{
    return memchr(sc_source_text(parser, from), '\n', to - from) == NULL;
}

/* True if a semicolon is missing. The parser has already requested the unexpected token, so the
 * token before it is before_last. */
static bool misses_semicolon(const sc_parser *parser, const token_set *expected, int found,
                             sc_loc loc)
{
    const sc_past_token *before = &parser->before_last;
    return has(expected, "';'") && before->loc.end != 0 && before->loc.end <= loc.begin &&
           loc.begin < loc.end &&
           (found == '}' || !on_one_line(parser, before->loc.end, loc.begin));
}

/* Returns the bracket that must be closed before the unexpected token, or 0. */
static char wanted_bracket(const token_set *expected, int found)
{
    bool ends = found == ';' || found == '{' || found == '}' || found == SC_T_ARROW || found == 0;
    if ((ends || found == ']') && has(expected, "')'"))
        return '(';
    if ((ends || found == ')') && has(expected, "']'"))
        return '[';
    return found == 0 && has(expected, "'}'") ? '{' : 0;
}

static sc_loc find_open(const sc_parser *parser, char kind)
{
    if (parser->unclosed.kind == kind)
        return parser->unclosed.loc;
    for (uint32_t i = parser->open.count; i-- > 0;) {
        if (parser->open.data[i].kind == kind)
            return parser->open.data[i].loc;
    }
    return (sc_loc){0};
}

static void note_open_bracket(sc_parser *parser, const token_set *expected, int found)
{
    char kind = wanted_bracket(expected, found);
    sc_loc open = kind != 0 ? find_open(parser, kind) : (sc_loc){0};
    if (open.begin != 0)
        sc_report_note(&parser->context->diag, open, "this '%c' is not closed", kind);
}

static const char *nearest_statement(const sc_parser *parser, sc_sym name)
{
    const char *words[SC_WORD_COUNT];
    if (!parser->in_plan && parser->brace_depth == 0)
        return NULL;
    size_t count = sc_words_with(parser->in_plan ? SC_WORD_PLAN_LINE : SC_WORD_STATES, words);
    return sc_nearest(sc_text(parser->context, name), words, count);
}

/* True if the text is a word with the trait. */
static bool is_word(const char *text, size_t length, uint32_t trait)
{
    const sc_word_row *word = sc_word_find(text, length, true);
    return word != NULL && (word->traits & trait) != 0;
}

bool sc_starts_plan_statement(const sc_parser *parser, sc_loc loc)
{
    return is_word(sc_source_text(parser, loc.begin), loc.end - loc.begin, SC_WORD_PLAN_LINE);
}

/* Handles `shard params, opt D over dp;`, where parsing fails after the wrong word, which was meant
 * as a kind. Returns true after reporting an error. */
static bool report_misspelt_kind(sc_parser *parser, sc_loc found)
{
    enum { SHORTEST = 3 };
    const char *words[SC_WORD_COUNT + 2];
    size_t count = sc_words_with(SC_WORD_KIND, words);
    words[count++] = "over";
    words[count++] = "free";
    if (parser->statement.kind != SC_T_SHARD || found.begin <= parser->statement.loc.end)
        return false;
    const char *text = sc_source_text(parser, parser->statement.loc.end),
               *end = sc_source_text(parser, found.begin);
    while (text < end) {
        size_t blank = strspn(text, " \t\n,"), length = strcspn(text + blank, " \t\n,");
        const char *word = sc_arena_copy_text(&parser->context->arena, text + blank, length);
        const char *near = length < SHORTEST ? NULL : sc_nearest(word, words, count);
        if (text + blank >= end)
            return false;
        uint32_t begin = found.begin - (uint32_t)(end - text) + (uint32_t)blank;
        if (near != NULL && strcmp(near, word) != 0 && is_word(near, strlen(near), SC_WORD_KIND)) {
            const char *message =
                sc_arena_printf(&parser->context->arena,
                                "'%s' is not a kind of tensor; did you mean '%s'?", word, near);
            sc_report(&parser->context->diag, SC_D_syntax,
                      (sc_loc){begin, begin + (uint32_t)length}, message, NULL);
            sc_report_note(&parser->context->diag, (sc_loc){0}, "the kinds are %s; then come dims",
                           sc_kinds_text(parser->context));
            return true;
        }
        text += blank + length;
    }
    return false;
}

/* Adds a note about a statement where only declarations are allowed. */
static void note_missing_braces(sc_parser *parser, const token_set *expected, sc_loc loc)
{
    if (parser->brace_depth > 0 || !has(expected, "import"))
        return;
    const char *text = sc_source_text(parser, loc.begin), *place = NULL;
    size_t length = loc.end - loc.begin;
    if (is_word(text, length, SC_WORD_STATES))
        place = "function, block or model";
    else if (sc_starts_plan_statement(parser, loc))
        place = "plan";
    if (place != NULL)
        sc_report_note(&parser->context->diag, (sc_loc){0},
                       "'%.*s' belongs inside the braces of a %s", (int)length, text, place);
}

/* Adds a note about a misspelt statement: `parm w[D];` fails at w, `shrad H over tp;` at its first
 * token. */
static void note_misspelt_statement(sc_parser *parser, sc_loc loc)
{
    const sc_past_token *first = &parser->statement;
    bool near = first->loc.begin == loc.begin || first->loc.begin == parser->before_last.loc.begin;
    const char *nearest =
        near && first->kind == SC_T_IDENT ? nearest_statement(parser, first->name) : NULL;
    if (nearest != NULL)
        sc_report_note(&parser->context->diag, first->loc, "did you mean '%s'?", nearest);
}

static void note_reserved_for_later(sc_parser *parser, const char *found)
{
    if (is_word(found, strlen(found), SC_WORD_LATER))
        sc_report_note(&parser->context->diag, (sc_loc){0},
                       "'%s' is reserved for a later version of the language", found);
}

static void note_lonely_point(sc_parser *parser, int found)
{
    int before = parser->before_last.kind;
    if (found == '.' &&
        (before == SC_T_INT || before == '=' || before == '(' || before == ',' || before == '*'))
        sc_report_note(&parser->context->diag, (sc_loc){0},
                       "a number has a digit on both sides of its point: 1.0, 0.5");
}

static void note_causes(sc_parser *parser, const token_set *expected, const char *found_name,
                        int found, sc_loc loc)
{
    sc_diag *diag = &parser->context->diag;
    if (misses_semicolon(parser, expected, found, loc))
        sc_report_note(diag, (sc_loc){parser->before_last.loc.end, parser->before_last.loc.end},
                       "is a ';' missing here?");
    else
        note_open_bracket(parser, expected, found);
    if (found == '}' && parser->brace_depth == 0 && has(expected, "import"))
        sc_report_note(diag, (sc_loc){0}, "no '{' is open here");
    note_missing_braces(parser, expected, loc);
    note_misspelt_statement(parser, loc);
    note_reserved_for_later(parser, found_name);
    note_lonely_point(parser, found);
}

/* ---- reserved words ---- */

/* True if a keyword at the start of a statement continues like a name: `state = 3;`. */
static bool goes_on_as_name(const sc_parser *parser, sc_loc loc)
{
    const char *next = sc_source_text(parser, loc.end);
    while (*next == ' ' || *next == '\t')
        next++;
    return *next != 0 && strchr("=:,.[", *next) != NULL;
}

/* True for `over tp` where a dim is expected: the name is missing, and `over` is not meant as
 * one. */
static bool is_clause(const sc_parser *parser, int kind, sc_loc loc)
{
    static const int clauses[] = {SC_T_AT, SC_T_ALONG, SC_T_WITH, SC_T_IN, SC_T_OVER, SC_T_FOR};
    static const int named[] = {SC_T_PLAN,  SC_T_MODEL, SC_T_WEIGHTS,
                                SC_T_BLOCK, SC_T_FN,    SC_T_ENTRY};
    const char *next = sc_source_text(parser, loc.end);
    for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
        /* a name must follow these; before `for` it is missing */
        if (kind != SC_T_FOR && parser->before_last.kind == named[i])
            return false;
    }
    if (*next != ' ' || !((next[1] >= 'a' && next[1] <= 'z') || (next[1] >= 'A' && next[1] <= 'Z')))
        return false;
    for (size_t i = 0; i < sizeof clauses / sizeof *clauses; i++) {
        if (clauses[i] == kind)
            return true;
    }
    return false;
}

static bool is_reserved_word_as_name(const sc_parser *parser, int found, sc_loc loc,
                                     const token_set *expected)
{
    if (sc_word_of_token(found) == NULL || !has(expected, "identifier") ||
        is_clause(parser, found, loc))
        return false;
    bool statement_starts = has(expected, "repeat") || has(expected, "dim") ||
                            (has(expected, "remat") && !has(expected, "to"));
    return !statement_starts || goes_on_as_name(parser, loc);
}

static void report_reserved_word(sc_parser *parser, sc_loc loc)
{
    const char *word = sc_arena_copy_text(&parser->context->arena,
                                          sc_source_text(parser, loc.begin), loc.end - loc.begin);
    sc_report(&parser->context->diag, SC_D_reserved_word, loc, word, NULL);
}

/* Handles `cache = 3;`, which fails at '=': the word before it was meant as a name. */
static bool follows_reserved_word(const sc_parser *parser, int found, const token_set *expected)
{
    const sc_past_token *before = &parser->before_last;
    return found == '=' && sc_word_of_token(before->kind) != NULL &&
           before->loc.begin == parser->statement.loc.begin && has(expected, "identifier");
}

void sc_report_syntax(sc_parser *parser, const char *found, sc_loc loc, const char **expected,
                      int expected_count)
{
    sc_diag *diag = &parser->context->diag;
    token_set wanted = {expected, expected_count};
    int kind = parser->last.kind;
    if (diag->list.count >= SC_DIAG_LIMIT) { /* only counted: skip the work */
        sc_report(diag, SC_D_syntax, loc, "", NULL);
        return;
    }
    /* these have their own messages */
    if (kind == SC_T_BADCHAR || parser->before_last.loc.end == parser->broken_end)
        return;
    if (report_misspelt_kind(parser, loc))
        return;
    if (is_reserved_word_as_name(parser, kind, loc, &wanted)) {
        report_reserved_word(parser, loc);
        return;
    }
    if (follows_reserved_word(parser, kind, &wanted)) {
        report_reserved_word(parser, parser->before_last.loc);
        return;
    }
    const char *all[MAX_TOKENS];
    token_set unfolded = {all, expected_count < MAX_TOKENS ? expected_count : MAX_TOKENS};
    memcpy(all, expected, (size_t)unfolded.count * sizeof *all);
    sc_report(diag, SC_D_syntax, loc, compose(parser, found, loc, &wanted), NULL);
    note_causes(parser, &unfolded, found, kind, loc);
}

/* ---- other messages ---- */

void sc_report_too_deep(sc_parser *parser, sc_loc loc)
{
    if (!parser->stopped)
        sc_report(&parser->context->diag, SC_D_too_deep, (sc_loc){loc.begin, loc.begin + 1},
                  sc_arena_printf(&parser->context->arena, "%d", SC_MAX_DEPTH), NULL);
    parser->stopped = true;
}

void sc_report_misplaced_declaration(sc_parser *parser, sc_loc loc)
{
    sc_diag *diag = &parser->context->diag;
    const char *text = sc_arena_printf(
        &parser->context->arena,
        "found '%.*s' inside braces, but it is allowed only at the top level of a file",
        (int)(loc.end - loc.begin), sc_source_text(parser, loc.begin));
    sc_report(diag, SC_D_syntax, loc, text, NULL);
    for (uint32_t i = parser->open.count; i-- > 0;) {
        if (parser->open.data[i].kind == '{') {
            sc_report_note(diag, parser->open.data[i].loc, "is a '}' missing for this '{'?");
            return;
        }
    }
}

void sc_report_missing_brace(sc_parser *parser, sc_loc loc)
{
    sc_diag *diag = &parser->context->diag;
    const char *text =
        sc_arena_printf(&parser->context->arena, "found '%.*s', expected '{'",
                        (int)(loc.end - loc.begin), sc_source_text(parser, loc.begin));
    sc_report(diag, SC_D_syntax, loc, text, NULL);
    sc_report_note(diag, (sc_loc){parser->last.loc.end, parser->last.loc.end},
                   "is a '{' missing here?");
}

void sc_report_block_comment(sc_parser *parser, sc_loc loc)
{
    sc_report(&parser->context->diag, SC_D_syntax, (sc_loc){loc.begin, loc.begin + 2},
              "'/*' does not start a comment", NULL);
    sc_report_note(&parser->context->diag, (sc_loc){0},
                   "comments start with '//' or '#' and end with their line");
}

static uint32_t first_code_point(const char *text, uint32_t length)
{
    const unsigned char *bytes = (const unsigned char *)text;
    uint32_t size = bytes[0] < 0x80 ? 1 : bytes[0] < 0xe0 ? 2 : bytes[0] < 0xf0 ? 3 : 4;
    uint32_t code = size == 1 ? bytes[0] : bytes[0] & (0x7fu >> size);
    for (uint32_t i = 1; i < size && i < length; i++)
        code = code << 6 | (bytes[i] & 0x3fu);
    return code;
}

void sc_report_bad_characters(sc_parser *parser, sc_loc loc)
{
    static const struct {
        uint32_t code;
        const char *remedy;
    } remedies[] = {
        {'<', "comparisons are functions: lt(a, b), le(a, b)"},
        {'>', "comparisons are functions: gt(a, b), ge(a, b)"},
        {'!', "write not(a), or ne(a, b) for a comparison"},
        {'&', "write and(a, b)"},
        {'|', "write or(a, b)"},
        {'^', "write pow(a, c)"},
        {'%', "write mod(a, b)"},
        {'\'', "strings are in double quotes"},
        {0x2018, "strings are in double quotes"},
        {0x2019, "strings are in double quotes"},
        {0x201c, "strings are in straight double quotes"},
        {0x201d, "strings are in straight double quotes"},
        {0xa0, "this is a no-break space; write an ordinary one"},
        {0x2192, "an arrow is written '->'"},
    };
    const char *text = sc_source_text(parser, loc.begin);
    uint32_t code = first_code_point(text, loc.end - loc.begin);
    sc_arena *arena = &parser->context->arena;
    const char *shown = code > 0x20 && code < 0x7f ? sc_arena_printf(arena, "'%c'", (char)code)
                                                   : sc_arena_printf(arena, "U+%04X", code);
    sc_report(&parser->context->diag, SC_D_bad_character, loc, shown, NULL);
    if (code == '<' && parser->in_plan) {
        sc_report_note(&parser->context->diag, (sc_loc){0}, "an expectation is '<=' or '=='");
        return;
    }
    for (size_t i = 0; i < sizeof remedies / sizeof *remedies; i++) {
        if (remedies[i].code == code)
            sc_report_note(&parser->context->diag, (sc_loc){0}, "%s", remedies[i].remedy);
    }
}
