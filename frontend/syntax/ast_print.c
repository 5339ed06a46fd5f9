/* The formatter: the canonical form of a file. One statement per line. A body stays on the line of
 * its head if it was written there, has at most one statement and fits. This file, ast_print_code.c
 * and ast_print_plan.c produce the text; layout.c places line breaks and comments. */
#include "frontend/syntax/ast_print.h"

#include <string.h>

/* ---- items ---- */

static void put_dim_def(sc_layout *l, const sc_dim_def *dim)
{
    sc_put_name(l, dim->name);
    if (dim->size == NULL && dim->alias.text == 0 && dim->parts.count == 0)
        return;
    sc_put_between(l, "=");
    l->depth++;
    if (dim->size != NULL) {
        sc_print_expr(l, dim->size);
    } else if (dim->alias.text != 0) {
        sc_put_word(l, "alias");
        sc_put_name(l, dim->alias);
    } else {
        sc_put(l, "(");
        sc_put_names(l, &dim->parts);
        sc_put(l, ")");
    }
    l->depth--;
}

static void put_named_for(sc_layout *l, const char *word, sc_name name, sc_name model)
{
    sc_put_word(l, word);
    sc_put_name(l, name);
    sc_put_between(l, "for");
    sc_put_name(l, model);
}

static void put_item_head(sc_layout *l, const sc_item *item)
{
    switch (item->kind) {
    case SC_ITEM_IMPORT:
        sc_put(l, "import");
        sc_put_spaced(l, sc_layout_text_of(l, item->import.spelling));
        break;
    case SC_ITEM_DIM:
        sc_put_word(l, "dim");
        for (uint32_t i = 0; i < item->dims.count; i++) {
            sc_put_comma(l, i);
            put_dim_def(l, &item->dims.data[i]);
        }
        break;
    case SC_ITEM_FN:
    case SC_ITEM_BLOCK:
        sc_put_word(l, item->kind == SC_ITEM_FN ? "fn" : "block");
        sc_print_callable_head(l, item->callable);
        break;
    case SC_ITEM_MODEL:
        sc_put_word(l, "model");
        sc_put_name(l, item->model->name);
        if (item->model->has_statics)
            sc_print_arguments(l, &item->model->statics);
        break;
    case SC_ITEM_MINIMIZE:
        sc_print_minimize(l, item->minimize);
        break;
    case SC_ITEM_PLAN:
        put_named_for(l, "plan", item->plan->name, item->plan->model);
        break;
    case SC_ITEM_WEIGHTS:
        put_named_for(l, "weights", item->weights->name, item->weights->model);
        break;
    }
}

/* ---- bodies ---- */

typedef enum body_kind { BODY_ITEMS, BODY_STMTS, BODY_PLAN, BODY_WEIGHTS } body_kind;

/* A sequence of nodes, each on lines of its own. */
typedef struct body {
    body_kind kind;
    union {
        sc_item *const *items;
        sc_stmt *const *stmts;
        sc_plan_stmt *const *plan;
        const sc_wmap *maps;
    };
    uint32_t count;
    uint32_t end; /* position of the closing brace */
} body;

static sc_loc place_in(const body *b, uint32_t i)
{
    switch (b->kind) {
    case BODY_ITEMS:
        return b->items[i]->loc;
    case BODY_STMTS:
        return b->stmts[i]->loc;
    case BODY_PLAN:
        return b->plan[i]->loc;
    case BODY_WEIGHTS:
        break;
    }
    return b->maps[i].loc;
}

static body stmts_body(const sc_stmt_list *list, sc_loc end)
{
    return (body){.kind = BODY_STMTS, .stmts = list->data, .count = list->count, .end = end.begin};
}

static bool body_of_stmt(const sc_stmt *stmt, body *out)
{
    if (stmt->kind == SC_STMT_REPEAT)
        *out = stmts_body(&stmt->repeat.body, stmt->repeat.end);
    else if (stmt->kind == SC_STMT_IF)
        *out = stmts_body(&stmt->when.body, stmt->when.end);
    else if (stmt->kind == SC_STMT_FN || stmt->kind == SC_STMT_ENTRY)
        *out = stmts_body(&stmt->callable->body, stmt->callable->end);
    else
        return false;
    return true;
}

static bool body_of_item(const sc_item *item, body *out)
{
    switch (item->kind) {
    case SC_ITEM_FN:
    case SC_ITEM_BLOCK:
        *out = stmts_body(&item->callable->body, item->callable->end);
        return true;
    case SC_ITEM_MODEL:
        if (!item->model->has_body)
            return false;
        *out = stmts_body(&item->model->body, item->model->end);
        return true;
    case SC_ITEM_PLAN:
        *out = (body){.kind = BODY_PLAN,
                      .plan = item->plan->body.data,
                      .count = item->plan->body.count,
                      .end = item->plan->end.begin};
        return true;
    case SC_ITEM_WEIGHTS:
        *out = (body){.kind = BODY_WEIGHTS,
                      .maps = item->weights->maps.data,
                      .count = item->weights->maps.count,
                      .end = item->weights->end.begin};
        return true;
    case SC_ITEM_IMPORT:
    case SC_ITEM_DIM:
    case SC_ITEM_MINIMIZE:
        break;
    }
    return false;
}

/* Sets *out to the body of the i-th node of b. Returns false if it has none. */
static bool inner_body(const body *b, uint32_t i, body *out)
{
    if (b->kind == BODY_ITEMS)
        return body_of_item(b->items[i], out);
    return b->kind == BODY_STMTS && body_of_stmt(b->stmts[i], out);
}

static void put_head(sc_layout *l, const body *b, uint32_t i)
{
    switch (b->kind) {
    case BODY_ITEMS:
        put_item_head(l, b->items[i]);
        break;
    case BODY_STMTS:
        sc_print_stmt_head(l, b->stmts[i]);
        break;
    case BODY_PLAN:
        sc_print_plan_stmt(l, b->plan[i]);
        break;
    case BODY_WEIGHTS:
        sc_print_wmap(l, &b->maps[i]);
        break;
    }
}

/* True if a body was written on one line with at most one node in it, whose own body is short
 * too. */
static bool is_short(const sc_layout *l, const body *b)
{
    enum { LONGEST = 4 * SC_LINE_WIDTH };
    if (b->count == 0)
        return true;
    body inner;
    uint32_t begin = place_in(b, 0).begin;
    if (b->count > 1 || b->end - begin > LONGEST ||
        (inner_body(b, 0, &inner) && !is_short(l, &inner)))
        return false;
    const char *text = l->file->source->text + (begin - l->file->source->base);
    if (memchr(text, '\n', b->end - begin) != NULL)
        return false;
    do
        text--;
    while (*text == ' ' || *text == '\t');
    return *text == '{';
}

static void put_inline(sc_layout *l, const body *b)
{
    sc_put_spaced(l, "{");
    if (b->count > 0) {
        sc_layout_space(l);
        put_head(l, b, 0);
        body inner;
        if (inner_body(b, 0, &inner))
            put_inline(l, &inner);
        else
            sc_put(l, ";");
        sc_layout_space(l);
    }
    sc_put(l, "}");
}

/* Tries `head { body }` on one line. If it does not fit, the statement is reset to the head. */
static bool put_on_one_line(sc_layout *l, const body *b)
{
    if (sc_layout_has_comment(l, b->end) || !is_short(l, b))
        return false;
    uint32_t pieces = l->pieces.count;
    sc_piece last = l->pieces.data[pieces - 1];
    size_t length = l->text.length;
    put_inline(l, b);
    if (sc_layout_fits(l))
        return true;
    l->pieces.count = pieces;
    l->pieces.data[pieces - 1] = last;
    l->text.length = length;
    return false;
}

static void print_body(sc_layout *l, const body *b);

static void print_thing(sc_layout *l, const body *b, uint32_t i)
{
    sc_loc place = place_in(b, i);
    sc_layout_begin(l, place.begin);
    put_head(l, b, i);
    body inner;
    if (!inner_body(b, i, &inner)) {
        sc_put(l, ";");
    } else if (!put_on_one_line(l, &inner)) {
        sc_put_spaced(l, "{");
        sc_layout_end_head(l, inner.count > 0 ? place_in(&inner, 0).begin : inner.end);
        l->indent += SC_INDENT;
        print_body(l, &inner);
        l->indent -= SC_INDENT;
        sc_put(l, "}");
    }
    sc_layout_end_statement(l, place.end);
}

static void print_body(sc_layout *l, const body *b)
{
    for (uint32_t i = 0; i < b->count; i++)
        print_thing(l, b, i);
    sc_layout_close(l, b->end);
}

void sc_format_file(sc_context *context, const sc_file *file, sc_strbuf *out)
{
    sc_layout layout;
    sc_layout_init(&layout, context, file);
    sc_layout_begin(&layout, file->lang_loc.begin);
    sc_put(&layout, sc_arena_printf(&context->arena, "lang %lld;", (long long)file->lang));
    sc_layout_end_statement(&layout, file->lang_loc.end);
    body items = {.kind = BODY_ITEMS,
                  .items = file->items.data,
                  .count = file->items.count,
                  .end = file->source->base + file->source->length + 1};
    print_body(&layout, &items);
    sc_layout_write(&layout, out);
}
