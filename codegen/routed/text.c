#include "codegen/routed/text.h"

#include <string.h>

sc_routed_text sc_routed_text_of(sc_arena *arena, const sc_routed_desc *desc, const char *name,
                                 sc_writer *out)
{
    return (sc_routed_text){.arena = arena,
                            .desc = desc,
                            .name = name,
                            .is_wide = desc->dtypes[SC_ROUTED_X] == SC_DTYPE_f64,
                            .out = out};
}

int64_t sc_routed_rows(const sc_routed_desc *desc)
{
    int64_t rows = 1;
    for (uint32_t i = 0; i < desc->row_dim_count; i++)
        rows *= desc->row_dims[i].size;
    return rows;
}

const char *sc_routed_real(const sc_routed_text *text)
{
    return text->is_wide ? "double" : "float";
}

sc_routed_array sc_routed_second(const sc_routed_desc *desc)
{
    return desc->is_grad ? SC_ROUTED_Y : SC_ROUTED_OUT;
}

const char *sc_routed_number(const sc_routed_text *text, int64_t value)
{
    return sc_arena_printf(text->arena, "((int64_t)%lld)", (long long)value);
}

bool sc_routed_is_half(sc_dtype dtype)
{
    return dtype == SC_DTYPE_bf16 || dtype == SC_DTYPE_f16;
}

/* The function or cast that reads an element, and the one that makes an element of a sum. */
static const char *from(const sc_routed_text *text, sc_dtype dtype)
{
    return sc_routed_is_half(dtype)
               ? sc_arena_printf(text->arena, "sc_%s_to_f32", sc_dtypes[dtype].name)
           : text->is_wide ? "(double)"
                           : "(float)";
}

static const char *stored(const sc_routed_text *text, sc_dtype dtype)
{
    if (!sc_routed_is_half(dtype))
        return sc_arena_printf(text->arena, "(%s)", sc_printer_stored(dtype));
    return sc_arena_printf(text->arena, "sc_%s_to_%s", text->is_wide ? "f64" : "f32",
                           sc_dtypes[dtype].name);
}

/* The offset in an array along the dims of rows: r0 * 64 + r1 * 8. */
const char *sc_routed_row_at(const sc_routed_text *text, sc_routed_array array)
{
    sc_strbuf at;
    sc_strbuf_init(&at, text->arena);
    sc_strbuf_add(&at, "0");
    for (uint32_t i = 0; i < text->desc->row_dim_count; i++) {
        if (text->desc->row_dims[i].strides[array] != 0)
            sc_strbuf_printf(&at, " + r%u * %lld", i,
                             (long long)text->desc->row_dims[i].strides[array]);
    }
    return at.data;
}

void sc_routed_words(const sc_routed_text *text, sc_write_word words[SC_ROUTED_WORDS])
{
    const sc_routed_desc *desc = text->desc;
    const sc_write_word all[SC_ROUTED_WORDS] = {
        {"NAME", text->name},
        {"REAL", sc_routed_real(text)},
        {"X_TYPE", sc_printer_stored(desc->dtypes[SC_ROUTED_X])},
        {"Y_TYPE", sc_printer_stored(desc->dtypes[SC_ROUTED_Y])},
        {"OUT_TYPE", sc_printer_stored(desc->dtypes[SC_ROUTED_OUT])},
        {"FROM_X", from(text, desc->dtypes[SC_ROUTED_X])},
        {"FROM_Y", from(text, desc->dtypes[SC_ROUTED_Y])},
        {"STORED", stored(text, desc->dtypes[SC_ROUTED_OUT])},
        {"COUNT_EXPERTS", sc_routed_number(text, desc->experts.size)},
        {"COUNT_ROWS", sc_routed_number(text, sc_routed_rows(desc))},
        {"COUNT_K", sc_routed_number(text, desc->own.size)},
        {"COUNT_M", sc_routed_number(text, desc->own.size)},
        {"COUNT_N", sc_routed_number(text, desc->columns.size)},
        {"STEP_A", sc_routed_number(text, desc->own.strides[SC_ROUTED_X])},
        {"STEP_B_K", sc_routed_number(text, desc->own.strides[SC_ROUTED_Y])},
        {"STEP_B_N", sc_routed_number(text, desc->columns.strides[SC_ROUTED_Y])},
        {"STEP_C_M", sc_routed_number(text, desc->own.strides[SC_ROUTED_OUT])},
        {"STEP_C_N", sc_routed_number(text, desc->columns.strides[SC_ROUTED_OUT])},
        {"STEP_EXPERT",
         sc_routed_number(text,
                          desc->experts.strides[desc->is_grad ? SC_ROUTED_OUT : SC_ROUTED_Y])},
    };
    memcpy(words, all, sizeof all);
}
