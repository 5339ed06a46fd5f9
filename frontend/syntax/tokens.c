/* The token stream between scanner and grammar. Tracks brackets, so that the scanner knows when it
 * is inside a plan, and repairs mistakes that would otherwise cause errors on every later line: a
 * file without `lang 1;`, a misspelt declaration keyword, a missing opening brace before the first
 * statement of a body, a missing closing brace before the next declaration. */
#include <string.h>

#include "frontend/syntax/parser_state.h"
#include "frontend/syntax/words.h"
#include "parser.h"

/* True if a token starts a declaration that is not allowed inside braces. */
static bool is_declaration(const sc_parser *parser, int kind)
{
    return sc_word_has(kind, SC_WORD_DECLARES) &&
           (parser->in_plan || !sc_word_has(kind, SC_WORD_STATES));
}

static bool starts_statement(const sc_parser *parser)
{
    return parser->last.kind == ';' || parser->last.kind == '{' || parser->last.kind == '}';
}

/* True if a name follows (for import a string), as in a declaration; in `dim = 3` the keyword is
 * used as a name. */
static bool goes_on_as_declaration(const sc_parser *parser, const sc_token *token)
{
    const char *next = sc_source_text(parser, token->loc.end);
    while (*next == ' ' || *next == '\t')
        next++;
    return (*next >= 'a' && *next <= 'z') || (*next >= 'A' && *next <= 'Z') || *next == '_' ||
           *next == '"';
}

/* Corrects a name at the start of a declaration, where no name is allowed, to a similar keyword. */
static void correct_declaration(sc_parser *parser, sc_token *token)
{
    const char *words[SC_WORD_COUNT];
    const char *name = sc_text(parser->context, token->value.name.text);
    const char *nearest = sc_nearest(name, words, sc_words_with(SC_WORD_DECLARES, words));
    if (nearest == NULL || !goes_on_as_declaration(parser, token))
        return;
    const char *text =
        sc_arena_printf(&parser->context->arena, "found '%s', expected a declaration", name);
    sc_report(&parser->context->diag, SC_D_syntax, token->loc, text, NULL);
    sc_report_note(&parser->context->diag, (sc_loc){0}, "did you mean '%s'?", nearest);
    token->kind = sc_word_find(nearest, strlen(nearest), false)->token;
}

static void close_bracket(sc_parser *parser, char kind)
{
    if (parser->open.count > 0 && parser->open.data[parser->open.count - 1].kind == kind)
        parser->open.count--;
}

/* Drops unclosed parentheses and square brackets up to the brace; keeps the innermost for a
 * message. */
static void close_up_to_brace(sc_parser *parser)
{
    while (parser->open.count > 0 && parser->open.data[parser->open.count - 1].kind != '{') {
        sc_bracket bracket = parser->open.data[--parser->open.count];
        if (parser->unclosed.kind == 0)
            parser->unclosed = bracket;
    }
}

static void close_brace(sc_parser *parser)
{
    close_up_to_brace(parser);
    if (parser->brace_depth == 0)
        return;
    parser->open.count--;
    parser->brace_depth--;
}

static void track_brackets(sc_parser *parser, const sc_token *token)
{
    parser->unclosed = (sc_bracket){0};
    switch (token->kind) {
    case '{':
        parser->in_plan = parser->in_plan || parser->plan_pending;
        parser->plan_pending = false;
        parser->brace_depth++;
        /* fallthrough */
    case '(':
    case '[':
        *sc_vec_push(&parser->context->arena, &parser->open) =
            (sc_bracket){(char)token->kind, token->loc};
        break;
    case ')':
        close_bracket(parser, '(');
        parser->past_formals = true;
        break;
    case ']':
        close_bracket(parser, '[');
        break;
    case '}':
        close_brace(parser);
        break;
    case ';':
        close_up_to_brace(parser);
        parser->plan_pending = false;
        break;
    case SC_T_PLAN:
    case SC_T_WEIGHTS:
        parser->plan_pending = parser->brace_depth == 0;
        break;
    default:
        break;
    }
}

/* Reads the next token of the text, or an inserted one: `lang 1 ;` or a brace. */
static void read_token(sc_parser *parser, sc_token *token)
{
    static const int version[] = {';', SC_T_INT, SC_T_LANG};
    sc_loc nothing = {parser->held.loc.begin, parser->held.loc.begin};
    if (!parser->holds) {
        token->kind = sc_scan(&token->value, &token->loc, parser->scanner);
    } else if (parser->version_tokens > 0) {
        *token = (sc_token){
            .kind = version[--parser->version_tokens], .loc = nothing, .value.integer = {1, 0}};
    } else if (parser->opening) {
        parser->opening = false;
        *token = (sc_token){.kind = '{', .loc = nothing};
    } else if (parser->closing > 0) {
        parser->closing--;
        *token = (sc_token){.kind = '}', .loc = nothing};
    } else {
        parser->holds = false;
        *token = parser->held;
    }
}

/* Holds back a token until others are inserted before it. */
static void hold(sc_parser *parser, sc_token *token)
{
    parser->held = *token;
    parser->holds = true;
    read_token(parser, token);
}

/* True after `plan p for m` (or weights): a brace must follow. */
static bool ends_plan_header(const sc_parser *parser)
{
    return parser->plan_pending && parser->before_last.kind == SC_T_FOR &&
           parser->last.kind == SC_T_IDENT;
}

/* True if a token starts a statement of a model's or function's body and cannot be part of its
 * header. */
static bool starts_body(const sc_parser *parser, const sc_token *token)
{
    if (sc_word_has(token->kind, SC_WORD_STATES))
        return true;
    const char *next = sc_source_text(parser, token->loc.end);
    while (*next == ' ' || *next == '\t')
        next++;
    return token->kind == SC_T_IDENT && (*next == '=' || *next == ',' || *next == ':');
}

/* True if the header of a body is complete and the next token starts a statement of the body. */
static bool lacks_brace(const sc_parser *parser, const sc_token *token)
{
    int last = parser->last.kind, before = parser->before_last.kind;
    if (parser->open.count > 0 && parser->open.data[parser->open.count - 1].kind != '{')
        return false;
    switch (parser->statement.kind) {
    case SC_T_MODEL:
    case SC_T_REPEAT:
        return before == parser->statement.kind && last == SC_T_IDENT && starts_body(parser, token);
    case SC_T_PLAN:
        return ends_plan_header(parser) && sc_starts_plan_statement(parser, token->loc);
    case SC_T_WEIGHTS:
        return ends_plan_header(parser) && token->kind == SC_T_IDENT;
    case SC_T_FN:
    case SC_T_BLOCK:
    case SC_T_ENTRY:
        return parser->past_formals && (last == ')' || last == ']' || before == SC_T_ALONG) &&
               starts_body(parser, token);
    default:
        return false;
    }
}

static void put_brace(sc_parser *parser, sc_token *token)
{
    sc_report_missing_brace(parser, token->loc);
    parser->opening = true;
    hold(parser, token);
}

static void mend(sc_parser *parser, sc_token *token)
{
    if (!parser->started) {
        parser->started = true;
        if (token->kind == SC_T_LANG)
            return;
        sc_report(&parser->context->diag, SC_D_missing_version,
                  (sc_loc){token->loc.begin, token->loc.begin}, NULL);
        parser->version_tokens = 3;
        hold(parser, token);
    } else if (token->kind == SC_T_IDENT && parser->brace_depth == 0 && starts_statement(parser)) {
        correct_declaration(parser, token);
    } else if (parser->brace_depth > 0 && is_declaration(parser, token->kind) &&
               starts_statement(parser) && goes_on_as_declaration(parser, token)) {
        sc_report_misplaced_declaration(parser, token->loc);
        parser->closing = parser->brace_depth;
        hold(parser, token);
    } else if (lacks_brace(parser, token)) {
        put_brace(parser, token);
    }
}

int sc_next_token(sc_value *value, sc_loc *loc, sc_parser *parser)
{
    sc_token token;
    bool from_text = !parser->holds;
    if (parser->brace_depth == 0)
        parser->in_plan = ends_plan_header(parser);
    read_token(parser, &token);
    if (from_text)
        mend(parser, &token);
    track_brackets(parser, &token);
    sc_past_token past = {token.kind, token.loc,
                          token.kind == SC_T_IDENT ? token.value.name.text : 0};
    if (starts_statement(parser)) {
        parser->statement = past;
        parser->past_formals = false;
    }
    parser->before_last = parser->last;
    parser->last = past;
    *value = token.value;
    *loc = token.loc;
    return token.kind;
}
