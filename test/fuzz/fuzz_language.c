/* Any bytes parse without a crash. What parses without an error is formatted; the result parses to
 * the same tree and the same comments, and formatting it again changes nothing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/syntax/ast.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct input {
    const char *text;
    size_t length;
} input;

static void check(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "%s\n", what);
    abort();
}

static sc_strbuf format(sc_context *context, const sc_file *file)
{
    sc_strbuf out;
    sc_strbuf_init(&out, &context->arena);
    sc_format_file(context, file, &out);
    return out;
}

/* The file's tokens: its format without comments and blanks. */
static sc_strbuf tokens(sc_context *context, const sc_file *file)
{
    sc_file bare = *file;
    memset(&bare.comments, 0, sizeof bare.comments);
    sc_strbuf text = format(context, &bare);
    size_t kept = 0;
    for (size_t i = 0; i < text.length; i++) {
        if (text.data[i] != ' ' && text.data[i] != '\n')
            text.data[kept++] = text.data[i];
    }
    text.length = kept;
    return text;
}

static bool equal(const sc_strbuf *a, const sc_strbuf *b)
{
    return a->length == b->length && memcmp(a->data, b->data, a->length) == 0;
}

static bool same_comment(const sc_file *a, const sc_comment *x, const sc_file *b,
                         const sc_comment *y)
{
    uint32_t length = x->loc.end - x->loc.begin;
    return length == y->loc.end - y->loc.begin &&
           memcmp(a->source->text + (x->loc.begin - a->source->base),
                  b->source->text + (y->loc.begin - b->source->base), length) == 0;
}

static void compare_comments(const sc_file *a, const sc_file *b)
{
    check(a->comments.count == b->comments.count, "formatting changed the number of comments");
    for (uint32_t i = 0; i < a->comments.count; i++)
        check(same_comment(a, &a->comments.data[i], b, &b->comments.data[i]),
              "formatting changed a comment");
}

static void work(sc_context *context, void *user)
{
    const input *in = user;
    sc_file *file = sc_parse_text(context, "fuzz", in->text, in->length);
    sc_strbuf messages;
    sc_strbuf_init(&messages, &context->arena);
    sc_diag_render_text(&context->diag, &context->sources, &messages);
    if (context->diag.errors > 0)
        return;
    sc_strbuf once = format(context, file);
    sc_file *again = sc_parse_text(context, "again", once.data, once.length);
    check(context->diag.errors == 0, "formatting made a syntax error");
    sc_strbuf twice = format(context, again);
    check(equal(&once, &twice), "formatting twice differs from once");
    sc_strbuf before = tokens(context, file), after = tokens(context, again);
    check(equal(&before, &after), "formatting changed the tree");
    compare_comments(file, again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sc_context context;
    input in = {(const char *)data, size};
    sc_context_run(&context, 0, work, &in);
    sc_context_free(&context);
    return 0;
}
