/* Emits CUDA for a routed product: a stage that sorts the rows, and one of tiles. */
#include "codegen/cuda/emit.h"
#include "codegen/routed/text.h"
#include "program/failure.h"

extern const char sc_routed_cuda_sort_text[], sc_routed_cuda_tile_text[],
    sc_routed_cuda_product_text[], sc_routed_cuda_product_main_text[],
    sc_routed_cuda_gradient_text[], sc_routed_cuda_gradient_main_text[];

enum { TILE = 64, THREADS = 256, DEPTH = 16 };

/* The offset of row i in an array. */
static void emit_row_at(const sc_routed_text *text, const char *what, sc_routed_array array)
{
    const sc_routed_desc *desc = text->desc;
    sc_write_line(text->out, "SC_DEVICE int64_t %s_%s_at(int64_t i)", text->name, what);
    sc_write_open_block(text->out);
    for (uint32_t d = desc->row_dim_count; d-- > 0;) {
        sc_write_line(text->out, "const int64_t r%u = i %% %lld;", d,
                      (long long)desc->row_dims[d].size);
        sc_write_line(text->out, "i /= %lld;", (long long)desc->row_dims[d].size);
    }
    sc_write_line(text->out, "return %s;", sc_routed_row_at(text, array));
    sc_write_close(text->out);
    sc_strbuf_add_char(text->out->text, '\n');
}

static const char *parameters(const sc_routed_text *text)
{
    const sc_routed_desc *desc = text->desc;
    return sc_arena_printf(
        text->arena,
        "const %s *x, const %s *y, const %s *ids, %s *out, unsigned char "
        "*scratch, %sconst int64_t *sc_call, uint64_t *sc_failure",
        sc_printer_stored(desc->dtypes[SC_ROUTED_X]), sc_printer_stored(desc->dtypes[SC_ROUTED_Y]),
        sc_printer_stored(desc->dtypes[SC_ROUTED_IDS]),
        sc_printer_stored(desc->dtypes[SC_ROUTED_OUT]), desc->has_offset ? "int64_t offset, " : "");
}

static int64_t tiles(int64_t size)
{
    return (size + TILE - 1) / TILE;
}

/* Neighbouring threads take neighbouring elements of a and b. */
static void add_words(const sc_routed_text *text, sc_write_word *words)
{
    const sc_routed_desc *desc = text->desc;
    bool by_term = desc->own.strides[SC_ROUTED_Y] == 1 && !desc->is_grad;
    const sc_write_word own[] = {
        {"PARAMETERS", parameters(text)},
        {"OFFSET", desc->has_offset ? "offset" : "0"},
        {"COUNT_BELOW", sc_routed_number(text, desc->below)},
        {"LEAST_ID", sc_routed_number(text, desc->least)},
        {"COUNT_CHUNKS", sc_routed_number(text, tiles(desc->columns.size))},
        {"COUNT_PIECES", sc_routed_number(text, tiles(desc->own.size))},
        {"FAILURE_LEAST",
         sc_arena_printf(text->arena, "-0x%llxll", 1ull << (SC_IMAGE_VALUE_BITS - 1))},
        {"FAILURE_CHECK",
         sc_arena_printf(text->arena, "0x%llxull", (unsigned long long)sc_image_failure(0, 0))},
        {"FAILURE_MASK", sc_arena_printf(text->arena, "0x%llxull",
                                         (unsigned long long)sc_image_failure(0, -1) ^
                                             (unsigned long long)sc_image_failure(0, 0))},
        {"ROW_OF_A", desc->is_grad ? "i % 64" : "i / 16"},
        {"TERM_OF_A", desc->is_grad ? "i / 64" : "i % 16"},
        {"COLUMN_OF_B", by_term ? "i / 16" : "i % 64"},
        {"TERM_OF_B", by_term ? "i % 16" : "i / 64"},
    };
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        words[i] = own[i];
}

static void emit_texts(const sc_routed_text *text)
{
    enum { OWN = 13 };
    sc_write_word words[SC_ROUTED_WORDS + OWN];
    sc_routed_words(text, words);
    add_words(text, words + SC_ROUTED_WORDS);
    const char *const texts[] = {
        sc_routed_cuda_sort_text,
        text->desc->is_grad ? sc_routed_cuda_gradient_text : sc_routed_cuda_product_text,
        sc_routed_cuda_tile_text,
        text->desc->is_grad ? sc_routed_cuda_gradient_main_text : sc_routed_cuda_product_main_text};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        sc_write_fixed(text->out, texts[i], words, sizeof words / sizeof *words);
}

static void add_stages(const sc_routed_text *text, sc_cuda_code *code)
{
    const sc_routed_desc *desc = text->desc;
    const uint32_t real = text->is_wide ? 8 : 4;
    const int64_t columns = tiles(desc->columns.size),
                  blocks = desc->is_grad ? desc->experts.size * tiles(desc->own.size)
                                         : sc_routed_rows(desc) / TILE + desc->experts.size + 1;
    code->stage_count = 2;
    code->stages[0] =
        (sc_cuda_stage){.blocks = desc->experts.size + 1, .threads = THREADS, .shared_bytes = 64};
    code->stages[1] = (sc_cuda_stage){.blocks = blocks * columns,
                                      .threads = THREADS,
                                      .shared_bytes = 2 * DEPTH * (TILE + 1) * real};
    code->scratch_bytes = desc->scratch_bytes;
}

void sc_routed_emit_cuda(sc_context *context, const sc_routed_desc *desc, const char *name,
                         sc_strbuf *out, sc_helper_set *helpers, sc_cuda_code *code)
{
    sc_strbuf body;
    sc_strbuf_init(&body, &context->scratch);
    sc_writer writer = {.text = &body};
    const sc_routed_text text = sc_routed_text_of(&context->scratch, desc, name, &writer);
    emit_row_at(&text, "ids", SC_ROUTED_IDS);
    emit_row_at(&text, "first", SC_ROUTED_X);
    emit_row_at(&text, "second", sc_routed_second(desc));
    emit_texts(&text);
    add_stages(&text, code);
    if (helpers != NULL)
        *helpers |= sc_helpers_named_in(body.data) & ~SC_CUDA_MACHINE_HELPERS;
    sc_strbuf_add(out, body.data);
}
