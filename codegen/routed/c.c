/* Emits C for a routed product: declarations, the sort of its rows, then the fixed texts. */
#include "codegen/routed/text.h"
#include "program/failure.h"

#include <string.h>

extern const char sc_routed_c_row_vectors_text[], sc_routed_c_row_elements_text[],
    sc_routed_c_copied_text[], sc_routed_c_turned_text[], sc_routed_c_square_text[],
    sc_routed_c_turned_f32_text[], sc_routed_c_block_text[], sc_routed_c_product_text[],
    sc_routed_c_product_main_text[], sc_routed_c_gradient_text[], sc_routed_c_stored_text[],
    sc_routed_c_streamed_text[], sc_routed_c_gradient_main_text[], sc_routed_c_tiles_pairs_text[],
    sc_routed_c_tiles_product_text[], sc_routed_c_tiles_gradient_text[], sc_routed_c_tiles_text[],
    sc_routed_c_tiles_turned_text[];

static void open_rows(const sc_routed_text *text)
{
    for (uint32_t i = 0; i < text->desc->row_dim_count; i++)
        sc_write_open(text->out, "for (int64_t r%u = 0; r%u < %lld; r%u++)", i, i,
                      (long long)text->desc->row_dims[i].size, i);
    sc_write_line(text->out, "const int64_t id = ids[%s];", sc_routed_row_at(text, SC_ROUTED_IDS));
}

/* Counts the rows of each id and checks it, then lists them; the group behind the last one of this
 * rank has the rows of other ranks' ids. */
static void emit_sort(const sc_routed_text *text)
{
    const sc_routed_desc *desc = text->desc;
    const long long experts = (long long)desc->experts.size;
    sc_writer *out = text->out;
    sc_write_line(out,
                  "static int64_t %s_sort(const %s *ids, const int64_t *params, int64_t *starts, "
                  "int64_t *first, int64_t *second)",
                  text->name, sc_printer_stored(desc->dtypes[SC_ROUTED_IDS]));
    sc_write_open_block(out);
    sc_write_line(out, "const int64_t offset = %s;", desc->has_offset ? "params[0]" : "0");
    sc_write_line(out, "int64_t failed = INT64_MAX;");
    sc_write_line(out, "(void)params;");
    sc_write_line(out, "__builtin_memset(starts, 0, %lld * sizeof *starts);", experts + 2);
    uint32_t depth = out->depth;
    open_rows(text);
    sc_write_open(out, "if (id < %lld || id >= %lld)", (long long)desc->least,
                  (long long)desc->below);
    sc_write_line(
        out,
        "const int64_t least = -0x%llx, shown = id < least ? least : id > ~least ? ~least : id;",
        1ull << (SC_IMAGE_VALUE_BITS - 1));
    sc_write_line(out, "const int64_t failure = 0x%llx | (shown & 0x%llx);",
                  (unsigned long long)sc_image_failure(0, 0),
                  (unsigned long long)sc_image_failure(0, -1) ^
                      (unsigned long long)sc_image_failure(0, 0));
    sc_write_line(out, "failed = failed < failure ? failed : failure;");
    sc_write_line(out, "continue;");
    sc_write_close(out);
    sc_write_line(out, "const int64_t group = id - offset;");
    sc_write_line(out, "starts[1 + (group >= 0 && group < %lld ? group : %lld)]++;", experts,
                  experts);
    sc_write_close_to(out, depth);
    sc_write_line(out, "if (failed != INT64_MAX)");
    sc_write_line(out, "    return failed;");
    sc_write_line(out, "for (int64_t e = 1; e <= %lld; e++)", experts + 1);
    sc_write_line(out, "    starts[e] += starts[e - 1];");
    open_rows(text);
    sc_write_line(out, "const int64_t group = id - offset;");
    sc_write_line(out, "const int64_t place = starts[group >= 0 && group < %lld ? group : %lld]++;",
                  experts, experts);
    sc_write_line(out, "first[place] = %s;", sc_routed_row_at(text, SC_ROUTED_X));
    sc_write_line(out, "second[place] = %s;", sc_routed_row_at(text, sc_routed_second(desc)));
    sc_write_close_to(out, depth);
    sc_write_line(out, "for (int64_t e = %lld; e > 0; e--)", experts + 1);
    sc_write_line(out, "    starts[e] = starts[e - 1];");
    sc_write_line(out, "starts[0] = 0;");
    sc_write_line(out, "return 0;");
    sc_write_close(out);
    sc_strbuf_add_char(out->text, '\n');
}

/* Both operands are bf16: sums of products as the CPU's tiles make them. */
static bool has_tiles(const sc_routed_desc *desc)
{
    return desc->dtypes[SC_ROUTED_X] == SC_DTYPE_bf16 && desc->dtypes[SC_ROUTED_Y] == SC_DTYPE_bf16;
}

/* Weights are contiguous along the contracted dims. */
static bool is_turned(const sc_routed_desc *desc)
{
    bool runs = desc->columns.strides[SC_ROUTED_Y] == 1 || desc->columns.size == 1;
    return !runs && desc->own.strides[SC_ROUTED_Y] == 1;
}

static bool has_turned_tiles(const sc_routed_desc *desc)
{
    return has_tiles(desc) && is_turned(desc) && !desc->is_grad;
}

/* Wider vectors have more registers. */
static void emit_sizes(const sc_routed_text *text)
{
    const char *name = text->name, *real = sc_routed_real(text);
    sc_write_line(text->out, "#ifdef __AVX512F__");
    sc_write_line(text->out, "enum { %s_bytes = 64, %s_tile = 8, %s_pace = 2 };", name, name, name);
    sc_write_line(text->out, "#else");
    sc_write_line(text->out, "enum { %s_bytes = 32, %s_tile = 4, %s_pace = 4 };", name, name, name);
    sc_write_line(text->out, "#endif");
    sc_write_line(text->out,
                  "enum { %s_lanes = 3 * %s_bytes / (int)sizeof(%s), %s_rows = 128, "
                  "%s_columns = 384, %s_depth = 128 };",
                  name, name, real, name, name, name);
    sc_write_line(text->out, "typedef %s %s_vector __attribute__((vector_size(%s_bytes)));", real,
                  name, name);
    sc_write_line(text->out,
                  "typedef %s %s_loose __attribute__((vector_size(%s_bytes), aligned(%d), "
                  "may_alias));",
                  real, name, name, text->is_wide ? 8 : 4);
    sc_write_line(text->out,
                  "typedef struct { const char *data; int64_t step, rows, lines; } %s_ahead;\n",
                  name);
}

enum { TEXTS = 10 /* at most */, STREAMED = 1 << 23 /* bytes that no cache keeps */ };

static bool is_large(const sc_routed_desc *desc)
{
    return desc->is_grad && desc->columns.strides[SC_ROUTED_OUT] == 1 &&
           desc->experts.size * desc->own.size * desc->columns.size *
                   sc_dtypes[desc->dtypes[SC_ROUTED_OUT]].bytes >=
               STREAMED;
}

static bool is_streamed(const sc_routed_text *text)
{
    return is_large(text->desc) &&
           text->desc->dtypes[SC_ROUTED_OUT] == (text->is_wide ? SC_DTYPE_f64 : SC_DTYPE_f32);
}

static int list_texts(const sc_routed_text *text, const char *texts[TEXTS])
{
    const sc_routed_desc *desc = text->desc;
    bool has_type = !sc_routed_is_half(desc->dtypes[SC_ROUTED_Y]),
         runs = desc->columns.strides[SC_ROUTED_Y] == 1 || desc->columns.size == 1,
         is_f32 = desc->dtypes[SC_ROUTED_Y] == SC_DTYPE_f32;
    int count = 0;
    texts[count++] =
        has_type && runs ? sc_routed_c_row_vectors_text : sc_routed_c_row_elements_text;
    if (!desc->is_grad && (is_turned(desc) || has_tiles(desc)))
        texts[count++] = sc_routed_c_square_text;
    if (!desc->is_grad)
        texts[count++] = !is_turned(desc) ? sc_routed_c_copied_text
                         : is_f32         ? sc_routed_c_turned_f32_text
                                          : sc_routed_c_turned_text;
    else
        texts[count++] = is_streamed(text) ? sc_routed_c_streamed_text : sc_routed_c_stored_text;
    texts[count++] = desc->is_grad ? sc_routed_c_gradient_text : sc_routed_c_product_text;
    if (has_tiles(desc)) {
        texts[count++] = sc_routed_c_tiles_pairs_text;
        texts[count++] =
            desc->is_grad ? sc_routed_c_tiles_gradient_text : sc_routed_c_tiles_product_text;
        texts[count++] = sc_routed_c_tiles_text;
        if (has_turned_tiles(desc))
            texts[count++] = sc_routed_c_tiles_turned_text;
    }
    texts[count++] = sc_routed_c_block_text;
    texts[count++] = desc->is_grad ? sc_routed_c_gradient_main_text : sc_routed_c_product_main_text;
    return count;
}

static void emit_fixed(const sc_routed_text *text)
{
    bool is_grad = text->desc->is_grad;
    sc_write_word words[SC_ROUTED_WORDS + 4];
    sc_routed_words(text, words);
    words[SC_ROUTED_WORDS] = (sc_write_word){
        "STEP_ROW", is_grad ? "1" : sc_arena_printf(text->arena, "%s_depth", text->name)};
    words[SC_ROUTED_WORDS + 1] = (sc_write_word){
        "STEP_TERM", is_grad ? sc_arena_printf(text->arena, "%s_rows", text->name) : "1"};
    words[SC_ROUTED_WORDS + 2] = (sc_write_word){
        "OUT_IS_BF16", text->desc->dtypes[SC_ROUTED_OUT] == SC_DTYPE_bf16 ? "1" : "0"};
    words[SC_ROUTED_WORDS + 3] = (sc_write_word){"IS_STREAMED", is_large(text->desc) ? "1" : "0"};
    const char *texts[TEXTS];
    const int count = list_texts(text, texts);
    for (int i = 0; i < count; i++)
        sc_write_fixed(text->out, texts[i], words, sizeof words / sizeof *words);
}

void sc_routed_emit(sc_context *context, const sc_routed_desc *desc, const char *name,
                    sc_strbuf *out, sc_helper_set *helpers)
{
    sc_strbuf body;
    sc_strbuf_init(&body, &context->scratch);
    sc_writer writer = {.text = &body};
    const sc_routed_text text = sc_routed_text_of(&context->scratch, desc, name, &writer);
    emit_sizes(&text);
    emit_sort(&text);
    emit_fixed(&text);
    if (helpers != NULL)
        *helpers |= SC_HELPER(headers) | sc_helpers_named_in(body.data);
    sc_strbuf_add(out, body.data);
}
