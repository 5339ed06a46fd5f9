/* From text to syntax tree: checks the bytes, then runs the parser. */
#include <stdlib.h>
#include <string.h>

#include "frontend/syntax/parser_state.h"
#include "parser.h"

/* ---- the bytes ---- */

/* Returns the length of the well-formed UTF-8 sequence at `text` (Unicode 15, table 3-7), or 0. */
static size_t utf8_sequence(const unsigned char *text, size_t length)
{
    unsigned char first = text[0];
    if (first < 0x80)
        return 1;
    size_t size = first >= 0xc2 && first <= 0xdf   ? 2
                  : first >= 0xe0 && first <= 0xef ? 3
                  : first >= 0xf0 && first <= 0xf4 ? 4
                                                   : 0;
    if (size == 0 || size > length)
        return 0;
    unsigned char low = first == 0xe0   ? 0xa0
                        : first == 0xf0 ? 0x90
                                        : 0x80,
                  high = first == 0xed   ? 0x9f
                         : first == 0xf4 ? 0x8f
                                         : 0xbf;
    if (text[1] < low || text[1] > high)
        return 0;
    for (size_t i = 2; i < size; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    }
    return size;
}

/* Checks that the text is UTF-8 without zero bytes (which would truncate strings, and slow the
 * scanner). */
static bool check_bytes(sc_parser *parser)
{
    const unsigned char *text = (const unsigned char *)parser->source->text;
    size_t length = parser->source->length;
    sc_diag *diag = &parser->context->diag;
    for (size_t i = 0, size; i < length; i += size) {
        size = text[i] == 0 ? 0 : utf8_sequence(text + i, length - i);
        if (size != 0)
            continue;
        sc_loc loc = {parser->source->base + (uint32_t)i, parser->source->base + (uint32_t)i + 1};
        if (text[i] == 0)
            sc_report(diag, SC_D_bad_character, loc, "with code 0", NULL);
        else
            sc_report(diag, SC_D_bad_utf8, loc,
                      sc_arena_printf(&parser->context->arena, "0x%02x", text[i]),
                      sc_arena_printf(&parser->context->arena, "%zu", i), NULL);
        return false;
    }
    return true;
}

static const sc_source *add_source(sc_context *context, const char *name, const char *text,
                                   size_t length)
{
    const sc_source *source =
        length <= SC_MAX_FILE_SIZE ? sc_sources_add(&context->sources, name, text, length) : NULL;
    if (source != NULL)
        return source;
    source = sc_sources_add(&context->sources, name, "", 0);
    sc_loc loc = {0};
    if (source != NULL)
        loc = (sc_loc){source->base, source->base};
    sc_report(&context->diag, SC_D_file_too_large, loc, name,
              sc_arena_printf(&context->arena, "%zu", length),
              sc_arena_printf(&context->arena, "%d", SC_MAX_FILE_SIZE), NULL);
    return NULL;
}

static void parse(sc_parser *parser)
{
    static const char byte_order_mark[] = "\xef\xbb\xbf";
    const sc_source *source = parser->source;
    uint32_t skipped = source->length >= 3 && memcmp(source->text, byte_order_mark, 3) == 0 ? 3 : 0;
    /* The scanner writes into its text and needs two zero bytes after it. */
    char *text = sc_arena_alloc(&parser->context->arena, (size_t)source->length + 2);
    memcpy(text, source->text + skipped, source->length - skipped);
    parser->scanner = sc_scanner_make(parser, text, source->length - skipped);
    parser->scanned = source->base + skipped;
    sc_yyparse(parser);
}

sc_file *sc_parse_text(sc_context *context, const char *name, const char *text, size_t length)
{
    sc_parser parser = {.context = context,
                        .file = sc_arena_alloc(&context->arena, sizeof(sc_file))};
    parser.source = add_source(context, name, text, length);
    if (parser.source == NULL)
        return parser.file;
    parser.file->source = parser.source;
    if (check_bytes(&parser))
        parse(&parser);
    return parser.file;
}
