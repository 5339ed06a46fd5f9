/* The start of every kernel's text: names of dims and arguments, and the comment before the
 * function. */
#include <assert.h>
#include <string.h>

#include "codegen/printer/printer.h"

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* Macros of C's headers, such as M_E, which dims M and E that are one loop would be called. */
static bool may_be_macro(const char *name)
{
    static const char *const beginnings[] = {
        "M_",    "FP_",      "INT",      "UINT",      "SIZE_",  "SIG_", "PTRDIFF_", "HUGE",
        "MATH_", "MAXFLOAT", "OVERFLOW", "UNDERFLOW", "DOMAIN", "SING", "PLOSS",    "TLOSS"};
    for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++) {
        if (strncmp(name, beginnings[i], strlen(beginnings[i])) == 0)
            return true;
    }
    return false;
}

/* C keywords, names always in scope, and names of nodes and items: a letter and digits. */
static bool is_taken(const sc_kernel_printer *e, const char *name)
{
    static const char *const words[] = {
        "args",   "lane",     "cut",      "r",        "auto",     "break",  "case",
        "char",   "const",    "continue", "default",  "do",       "double", "else",
        "enum",   "extern",   "failed",   "failure",  "float",    "for",    "goto",
        "i",      "if",       "inline",   "int",      "long",     "next",   "params",
        "return", "register", "short",    "restrict", "signed",   "sizeof", "static",
        "struct", "switch",   "typedef",  "union",    "unsigned", "void",   "volatile",
        "while",  "asm",      "unix",     "linux",    "INFINITY", "NAN",    "NULL",
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(name, words[i]) == 0)
            return true;
    }
    for (const char *const *word = e->target->words; word != NULL && *word != NULL; word++) {
        if (strcmp(name, *word) == 0)
            return true;
    }
    const sc_helper_set any = sc_helpers_named_in(name);
    if (any != 0 || may_be_macro(name) || strncmp(name, "sc_", 3) == 0 || name[0] == '_')
        return true;
    return strchr(e->target->letters, name[0]) != NULL &&
           name[1 + strspn(name + 1, "0123456789")] == 0 && name[1] != 0;
}

typedef struct sc_names {
    sc_kernel_printer *e;
    SC_VEC(const char *) all;
} sc_names;

static bool is_bound(const char *ending)
{
    static const char *const endings[] = {"_from", "_to",   "_first", "_end",
                                          "_at",   "_main", "_next"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        if (strcmp(ending, endings[i]) == 0)
            return true;
    }
    return false;
}

static bool is_used(const sc_names *names, const char *name)
{
    for (uint32_t i = 0; i < names->all.count; i++) {
        const char *other = names->all.data[i];
        size_t length = strlen(other), mine = strlen(name);
        if (strcmp(other, name) == 0)
            return true;
        if (mine > length && memcmp(name, other, length) == 0 && (is_bound(name + length)))
            return true;
        if (length > mine && memcmp(other, name, mine) == 0 && (is_bound(other + mine)))
            return true;
    }
    return false;
}

static const char *new_name(sc_names *names, sc_sym sym)
{
    sc_arena *arena = names->e->arena;
    const char *text = sc_text(names->e->context, sym);
    char *name = sc_arena_printf(
        arena, "%s%s", text[0] == 0 || (text[0] >= '0' && text[0] <= '9') ? "x" : "", text);
    for (char *c = name; *c != 0; c++)
        *c = (char)(is_word(*c) ? *c : '_');
    const char *base = name;
    if (is_taken(names->e, name))
        base = name = sc_arena_printf(arena, "%s_",
                                      name[0] == '_' || strncmp(name, "sc_", 3) == 0
                                          ? sc_arena_printf(arena, "x%s", name)
                                          : name);
    for (int i = 2; is_used(names, name); i++)
        name = sc_arena_printf(arena, "%s_%d", base, i);
    *sc_vec_push(arena, &names->all) = name;
    return name;
}

static void choose_names(sc_kernel_printer *e)
{
    const sc_kernel *k = e->k;
    sc_names names = {.e = e};
    for (uint32_t i = 0; i < k->dims.count; i++)
        e->dim_names[i] = new_name(&names, k->dims.data[i].name);
    for (uint32_t i = 0; i < k->args.count; i++)
        e->arg_names[i] = new_name(&names, k->args.data[i].name);
}

/* Emits a line of a comment, with comment ends in the text made harmless. */
static void comment_line(sc_kernel_printer *e, const char *before, const char *text)
{
    sc_strbuf_add(e->out->text, before);
    for (const char *c = text; *c != 0; c++) {
        sc_strbuf_add_char(e->out->text, (char)(*c == '\n' ? ' ' : *c));
        if (c[0] == '*' && c[1] == '/')
            sc_strbuf_add_char(e->out->text, ' ');
    }
}

void sc_printer_comment(sc_kernel_printer *e)
{
    const sc_kernel *k = e->k;
    if (!e->comments || (k->title == NULL && k->comments.count == 0))
        return;
    const char *before = "/* ";
    if (k->title != NULL) {
        comment_line(e, before, k->title);
        before = "\n * ";
    }
    for (uint32_t i = 0; i < k->comments.count; i++) {
        comment_line(e, before, k->comments.data[i]);
        before = "\n * ";
    }
    sc_strbuf_add(e->out->text, " */\n");
}

void sc_printer_begin(sc_kernel_printer *e, const sc_kernel *k, bool comments, sc_strbuf *out)
{
    sc_arena *arena = k->arena;
    assert(k->dims.count <= SC_KERNEL_MAX_DIMS && SC_KERNEL_MAX_DIMS <= 64);
    e->k = k;
    e->context = k->context;
    e->arena = arena;
    e->out = sc_arena_array(arena, 1, sizeof *e->out);
    e->out->text = out;
    e->comments = comments;
    e->phase.cut = SC_NONE;
    e->dim_names = sc_arena_array(arena, k->dims.count + 1, sizeof *e->dim_names);
    e->arg_names = sc_arena_array(arena, k->args.count + 1, sizeof *e->arg_names);
    e->arg_used = sc_arena_array(arena, k->args.count + 1, sizeof *e->arg_used);
    e->arg_shared = sc_arena_array(arena, k->args.count + 1, sizeof *e->arg_shared);
    e->param_used = sc_arena_array(arena, k->params.count + 1, sizeof *e->param_used);
    e->nodes = sc_arena_array(arena, k->nodes.count + 1, sizeof *e->nodes);
    e->items = sc_arena_array(arena, k->items.count + 1, sizeof *e->items);
    choose_names(e);
    sc_printer_analyse(e);
}
