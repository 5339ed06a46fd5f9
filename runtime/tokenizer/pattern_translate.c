/* Oniguruma's Ruby syntax to PCRE2's:
 *
 *     \p{L}      [\p{L}\x{1c89}-\x{1c8a}..]        with the letters since PCRE2's version of
 * Unicode \w \s \b   the same sets by their definition, since PCRE2's are others a{1,2}+
 * (?:a{1,2})+                        Ruby has no possessive intervals
 *     (?m:.)     (?s:.)
 *
 * What is not known to mean the same is refused. The result ends, since each step consumes text. */
#include "runtime/tokenizer/pattern.h"

#include <string.h>

#include "runtime/tokenizer/characters.h"
#include "support/vec.h"

enum { GROUPS = 64 }; /* how deep groups may be nested */

typedef struct translating {
    sc_arena *arena;
    const char *start, *at, *end;
    sc_strbuf out;
    size_t item; /* where the last item begins in `out`; SIZE_MAX: none */
    size_t groups[GROUPS];
    bool has_begun[GROUPS + 1]; /* a part of the group, or of the whole, is behind us */
    unsigned depth;
    const char *why;
} translating;

/* An element of a class: a character, or a set of them by the inside of a PCRE2 class. */
typedef struct element {
    bool is_set, is_negated;
    uint32_t c;
    const char *inside;
} element;

static bool refuse(translating *t, const char *what)
{
    if (t->why == NULL)
        t->why = sc_arena_printf(t->arena, "%s at byte %zu", what, (size_t)(t->at - t->start));
    return false;
}

static bool looking_at(const translating *t, const char *text)
{
    size_t length = strlen(text);
    return (size_t)(t->end - t->at) >= length && memcmp(t->at, text, length) == 0;
}

/* ---- sets ---- */

static void add_new_ranges(sc_strbuf *out, const char *category)
{
    size_t count, length = strlen(category);
    const sc_char_range *ranges = sc_char_new_ranges(&count);
    for (size_t i = 0; i < count; i++) {
        if (strncmp(ranges[i].category, category, length) == 0)
            sc_strbuf_printf(out, "\\x{%x}-\\x{%x}", ranges[i].first, ranges[i].last);
    }
}

static void add_category(sc_strbuf *out, const char *category)
{
    sc_strbuf_printf(out, "\\p{%s}", category);
    add_new_ranges(out, category);
}

static void add_categories(sc_strbuf *out, const char *const *categories, size_t count)
{
    for (size_t i = 0; i < count; i++)
        add_category(out, categories[i]);
}

/* Oniguruma's \w: alphabetic, M, Nd, Pc; its tables of Latin-1 also have the numbers there. */
static const char *word_inside(sc_arena *arena)
{
    static const char *const categories[] = {"L", "M", "Nd", "Nl", "Pc"};
    sc_strbuf out;
    sc_strbuf_init(&out, arena);
    add_categories(&out, categories, sizeof categories / sizeof *categories);
    sc_strbuf_add(&out, "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}\\x{24b6}-\\x{24e9}"
                        "\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}");
    return out.data;
}

static const char white_inside[] = "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}"
                                   "\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}";

static const char *digit_inside(sc_arena *arena)
{
    sc_strbuf out;
    sc_strbuf_init(&out, arena);
    add_category(&out, "Nd");
    return out.data;
}

static bool is_category(const char *name)
{
    static const char *const subs[] = {"L",       "lmotu", "M",    "cen", "N",   "dlo", "P",
                                       "cdefios", "S",     "ckmo", "Z",   "lps", "C",   "cfo"};
    for (size_t i = 0; i < sizeof subs / sizeof *subs; i += 2) {
        if (name[0] == subs[i][0])
            return name[1] == 0 || (strchr(subs[i + 1], name[1]) != NULL && name[2] == 0);
    }
    return false;
}

/* Sets the element to a general category or a script. */
static bool name_set(translating *t, const char *name, element *out)
{
    static const char *const assigned[] = {"L", "M", "N", "P", "S", "Z"};
    sc_strbuf inside;
    sc_strbuf_init(&inside, t->arena);
    out->is_set = true;
    if (strcmp(name, "C") == 0) { /* new characters are in it no longer */
        add_categories(&inside, assigned, sizeof assigned / sizeof *assigned);
        out->is_negated = !out->is_negated;
    } else if (is_category(name)) {
        add_category(&inside, name);
    } else if (strlen(name) > 2 && name[0] >= 'A' && name[0] <= 'Z') {
        sc_strbuf_printf(&inside, "\\p{sc:%s}", name);
        if (strcmp(name, "Han") == 0)
            sc_strbuf_add(&inside, "\\x{2b739}\\x{2ebf0}-\\x{2ee5d}\\x{31350}-\\x{323af}");
    } else {
        return refuse(t, sc_arena_printf(t->arena, "property '%s'", name));
    }
    out->inside = inside.data;
    return true;
}

static bool property(translating *t, bool is_negated, element *out)
{
    const char *close =
        t->at < t->end && *t->at == '{' ? memchr(t->at, '}', (size_t)(t->end - t->at)) : NULL;
    char name[40];
    if (close == NULL)
        return refuse(t, "\\p without a name in braces");
    const char *from = t->at + 1;
    out->is_negated = is_negated;
    if (*from == '^') {
        out->is_negated = !is_negated;
        from++;
    }
    size_t length = (size_t)(close - from);
    if (length == 0 || length >= sizeof name)
        return refuse(t, "property");
    memcpy(name, from, length);
    name[length] = 0;
    for (size_t i = 0; i < length; i++) {
        if (!((name[i] >= 'A' && name[i] <= 'Z') || (name[i] >= 'a' && name[i] <= 'z') ||
              name[i] == '_'))
            return refuse(t, "property");
    }
    t->at = close + 1;
    return name_set(t, name, out);
}

/* ---- escapes ---- */

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static bool hex(translating *t, unsigned least, unsigned most, uint32_t *out)
{
    unsigned count = 0;
    *out = 0;
    while (count < most && t->at < t->end && hex_digit(*t->at) >= 0) {
        *out = *out * 16 + (uint32_t)hex_digit(*t->at);
        t->at++;
        count++;
    }
    return (count >= least && *out <= 0x10ffff && !(*out >= 0xd800 && *out < 0xe000)) ||
           refuse(t, "code point");
}

static bool code_point(translating *t, char kind, uint32_t *out)
{
    if (kind == 'u')
        return hex(t, 4, 4, out);
    if (t->at < t->end && *t->at == '{') {
        t->at++;
        if (!hex(t, 1, 6, out) || t->at >= t->end || *t->at != '}')
            return refuse(t, "code point");
        t->at++;
        return true;
    }
    return hex(t, 1, 2, out) && (*out < 0x80 || refuse(t, "\\x of a byte"));
}

static bool is_set_escape(translating *t, char c, element *out)
{
    static const char letters[] = "sdwhSDWH";
    const char *found = strchr(letters, c);
    if (found == NULL || c == 0)
        return false;
    out->is_set = true;
    out->is_negated = found - letters >= 4;
    switch (letters[(found - letters) % 4]) {
    case 's':
        out->inside = white_inside;
        break;
    case 'd':
        out->inside = digit_inside(t->arena);
        break;
    case 'w':
        out->inside = word_inside(t->arena);
        break;
    default:
        out->inside = "0-9A-Fa-f"; /* Ruby's \h */
        break;
    }
    return true;
}

/* Reads an escape behind its backslash that stands for characters. */
static bool escape(translating *t, bool is_in_class, element *out)
{
    static const char letters[] = "tnrfvae", values[] = "\t\n\r\f\v\a\033";
    *out = (element){0};
    if (t->at >= t->end)
        return refuse(t, "backslash at the end");
    char c = *t->at;
    const char *known = strchr(letters, c);
    if ((unsigned char)c >= 0x80) {
        unsigned length;
        out->c = sc_utf8_decode(t->at, &length);
        t->at += length;
        return true;
    }
    if (c == 0)
        return refuse(t, "escape");
    t->at++;
    if (is_set_escape(t, c, out))
        return true;
    if (c == 'p' || c == 'P')
        return property(t, c == 'P', out);
    if (c == 'x' || c == 'u')
        return code_point(t, c, &out->c);
    out->c = known != NULL ? (uint32_t)values[known - letters] : (uint32_t)c;
    if (known != NULL)
        return true;
    if (is_in_class && c == 'b') {
        out->c = '\b';
        return true;
    }
    t->at--;
    if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
        return refuse(t, sc_arena_printf(t->arena, "escape \\%c", c));
    t->at++;
    return true;
}

static void add_element(sc_strbuf *out, const element *e)
{
    if (e->is_set)
        sc_strbuf_printf(out, e->is_negated ? "[^%s]" : "[%s]", e->inside);
    else
        sc_strbuf_printf(out, "\\x{%x}", e->c);
}

/* ---- classes ---- */

static bool class_element(translating *t, element *out)
{
    unsigned length;
    if (*t->at == '\\') {
        t->at++;
        return escape(t, true, out);
    }
    if (*t->at == '[')
        return refuse(t, "class in a class");
    if (looking_at(t, "&&"))
        return refuse(t, "intersection of classes");
    *out = (element){.c = sc_utf8_decode(t->at, &length)};
    t->at += length;
    return true;
}

/* Reads elements up to the bracket: those that are not negated into `inside`, the others as classes
 * of their own, with | between, into `others`. */
static bool class_elements(translating *t, sc_strbuf *inside, sc_strbuf *others)
{
    while (t->at < t->end && *t->at != ']') {
        element first, last;
        if (!class_element(t, &first))
            return false;
        if (first.is_set && first.is_negated) {
            sc_strbuf_printf(others, "%s[^%s]", others->length == 0 ? "" : "|", first.inside);
            continue;
        }
        if (first.is_set) {
            sc_strbuf_add(inside, first.inside);
            continue;
        }
        sc_strbuf_printf(inside, "\\x{%x}", first.c);
        if (!looking_at(t, "-") || t->at + 1 >= t->end || t->at[1] == ']')
            continue;
        t->at++;
        if (!class_element(t, &last))
            return false;
        if (last.is_set || last.c < first.c)
            return refuse(t, "range");
        sc_strbuf_printf(inside, "-\\x{%x}", last.c);
    }
    return t->at < t->end || refuse(t, "class without ]");
}

static bool class(translating *t)
{
    sc_strbuf inside, others;
    bool is_negated = looking_at(t, "^");
    sc_strbuf_init(&inside, t->arena);
    sc_strbuf_init(&others, t->arena);
    t->at += is_negated;
    if (looking_at(t, "]"))
        return refuse(t, "] at the beginning of a class");
    if (!class_elements(t, &inside, &others))
        return false;
    t->at++;
    if (others.length == 0) {
        sc_strbuf_printf(&t->out, is_negated ? "[^%s]" : "[%s]", inside.data);
        return true;
    }
    sc_strbuf_add(&t->out, is_negated ? "(?:(?!" : "(?:");
    if (inside.length > 0)
        sc_strbuf_printf(&t->out, "[%s]|", inside.data);
    sc_strbuf_add(&t->out, others.data);
    sc_strbuf_add(&t->out, is_negated ? ")(?s:.))" : ")");
    return true;
}

/* ---- groups ---- */

static bool open_group(translating *t, const char *text, size_t consumed)
{
    if (t->depth == GROUPS)
        return refuse(t, "group nested too deep");
    t->groups[t->depth] = t->out.length;
    t->depth++;
    t->has_begun[t->depth] = false;
    sc_strbuf_add(&t->out, text);
    t->at += consumed;
    t->item = SIZE_MAX;
    return true;
}

/* (?i), (?m:..): options of Ruby. Without a colon they hold to the end of the group, and take
 * alternatives with them, which is the same in PCRE2 only at the group's beginning. */
static bool options(translating *t)
{
    sc_strbuf text;
    const char *from = t->at;
    sc_strbuf_init(&text, t->arena);
    sc_strbuf_add(&text, "(?");
    for (t->at += 2; t->at < t->end && *t->at != ')' && *t->at != ':'; t->at++) {
        if (strchr("im-", *t->at) == NULL || *t->at == 0)
            return refuse(t, "group");
        sc_strbuf_add_char(&text, (char)(*t->at == 'm' ? 's' : *t->at));
    }
    if (t->at >= t->end || t->at == from + 2)
        return refuse(t, "group");
    sc_strbuf_add_char(&text, *t->at);
    if (*t->at == ':') {
        t->at++;
        return open_group(t, text.data, 0);
    }
    if (t->has_begun[t->depth])
        return refuse(t, "option in the middle of a group");
    t->at++;
    sc_strbuf_add(&t->out, text.data);
    return true;
}

static bool named_group(translating *t)
{
    const char *close = memchr(t->at, '>', (size_t)(t->end - t->at));
    if (close == NULL || close - t->at < 4 || close - t->at > 32)
        return refuse(t, "group");
    for (const char *c = t->at + 3; c < close; c++) {
        if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || *c == '_'))
            return refuse(t, "name of a group");
    }
    size_t length = (size_t)(close + 1 - t->at);
    return open_group(t, sc_arena_copy_text(t->arena, t->at, length), length);
}

static bool group(translating *t)
{
    static const char *const known[] = {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>"};
    if (!looking_at(t, "(?"))
        return open_group(t, "(", 1);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (looking_at(t, known[i]))
            return open_group(t, known[i], strlen(known[i]));
    }
    return looking_at(t, "(?<") ? named_group(t) : options(t);
}

static bool close_group(translating *t)
{
    if (t->depth == 0)
        return refuse(t, ") without (");
    t->depth--;
    sc_strbuf_add_char(&t->out, ')');
    t->item = t->groups[t->depth];
    t->at++;
    return true;
}

/* ---- quantifiers ---- */

/* Wraps the last item, with what follows it, in a group. */
static void wrap_item(translating *t)
{
    char *tail = sc_arena_copy_text(t->arena, t->out.data + t->item, t->out.length - t->item);
    t->out.length = t->item;
    sc_strbuf_printf(&t->out, "(?:%s)", tail);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool number(const char **at, const char *end, unsigned *out)
{
    const char *from = *at;
    *out = 0;
    const char *p = from;
    for (; p < end && is_digit(*p); p++)
        *out = *out < 100000 ? *out * 10 + (unsigned)(*p - '0') : *out;
    *at = p;
    return p > from;
}

/* {n}, {n,}, {n,m}, {,m}; false if the brace is an ordinary character. */
static bool interval(translating *t)
{
    const char *at = t->at + 1;
    unsigned low = 0, high = 0;
    bool has_low = number(&at, t->end, &low), has_comma = at < t->end && *at == ',', has_high;
    at += has_comma;
    has_high = has_comma && number(&at, t->end, &high);
    if (at >= t->end || *at != '}' || (!has_low && !has_high))
        return false;
    t->at = at + 1;
    sc_strbuf_printf(&t->out, "{%u", low);
    if (has_comma)
        sc_strbuf_add_char(&t->out, ',');
    if (has_high)
        sc_strbuf_printf(&t->out, "%u", high);
    sc_strbuf_add_char(&t->out, '}');
    if (looking_at(t, "+") || looking_at(t, "*") || (looking_at(t, "?") && !has_comma)) {
        wrap_item(t);
        sc_strbuf_add_char(&t->out, *t->at++);
    } else if (looking_at(t, "?")) {
        sc_strbuf_add_char(&t->out, *t->at++);
    }
    return true;
}

static bool quantifier(translating *t)
{
    if (t->item == SIZE_MAX)
        return refuse(t, "repetition of nothing");
    if (*t->at == '{')
        return interval(t);
    sc_strbuf_add_char(&t->out, *t->at++);
    if (t->at < t->end && (*t->at == '?' || *t->at == '+'))
        sc_strbuf_add_char(&t->out, *t->at++);
    return true;
}

/* ---- all ---- */

static void add_boundary(translating *t, bool is_boundary)
{
    const char *w = word_inside(t->arena);
    sc_strbuf_printf(&t->out,
                     is_boundary ? "(?:(?<=[%s])(?![%s])|(?<![%s])(?=[%s]))"
                                 : "(?:(?<=[%s])(?=[%s])|(?<![%s])(?![%s]))",
                     w, w, w, w);
}

static bool backslash(translating *t)
{
    element e;
    t->at++;
    char c = (char)(t->at < t->end ? *t->at : 0);
    if (c == 'b' || c == 'B') {
        add_boundary(t, c == 'b');
        t->at++;
    } else if (c == 'A' || c == 'z' || c == 'Z' || c == 'G') {
        sc_strbuf_printf(&t->out, "\\%c", c);
        t->at++;
    } else if (c >= '1' && c <= '9' && !(t->at + 1 < t->end && hex_digit(t->at[1]) >= 0)) {
        sc_strbuf_printf(&t->out, "\\g{%c}", c);
        t->at++;
    } else {
        if (!escape(t, false, &e))
            return false;
        add_element(&t->out, &e);
    }
    return true;
}

static bool item(translating *t)
{
    size_t begin = t->out.length;
    unsigned length;
    if (*t->at == '(')
        return group(t);
    if (*t->at == ')')
        return close_group(t);
    if (*t->at == '[') {
        t->at++;
        if (!class(t))
            return false;
    } else if (*t->at == '\\') {
        if (!backslash(t))
            return false;
    } else if (strchr(".^$", *t->at) != NULL && *t->at != 0) {
        sc_strbuf_add_char(&t->out, *t->at++);
    } else {
        sc_strbuf_printf(&t->out, "\\x{%x}", sc_utf8_decode(t->at, &length));
        t->at += length;
    }
    t->item = begin;
    return true;
}

static bool is_one_of(char c, const char *characters)
{
    return c != 0 && strchr(characters, c) != NULL;
}

static bool translate(translating *t)
{
    while (t->at < t->end) {
        unsigned depth = t->depth;
        size_t length = t->out.length;
        bool is_option = looking_at(t, "(?"), is_read;
        if (*t->at == '|') {
            sc_strbuf_add_char(&t->out, *t->at++);
            t->item = SIZE_MAX;
            is_read = true;
        } else if (is_one_of(*t->at, "*+?") || (*t->at == '{' && t->item != SIZE_MAX)) {
            is_read = quantifier(t) || (t->why == NULL && item(t));
        } else {
            is_read = item(t);
        }
        if (!is_read)
            return false;
        /* (?i) alone leaves its group at the beginning */
        is_option = is_option && t->depth == depth && t->out.length > length;
        if (!is_option)
            t->has_begun[depth] = true;
    }
    return t->depth == 0 || refuse(t, "( without )");
}

const char *sc_pattern_translate(sc_arena *arena, const char *regex, size_t length,
                                 const char **why)
{
    translating t = {
        .arena = arena, .start = regex, .at = regex, .end = regex + length, .item = SIZE_MAX};
    sc_strbuf_init(&t.out, arena);
    if (!translate(&t)) {
        *why = t.why;
        return NULL;
    }
    return t.out.data;
}
