/* Emits the kernels that reduce between ranks sharing a GPU. */
#include "codegen/cuda/reduce_ranks.h"

#include "codegen/printer/writer.h"

typedef struct element {
    const char *type, *wide;
    const char *load, *store; /* conversion functions; "": none */
} element;

/* Integer sums wrap, which is defined only for unsigned types. */
static element element_of(sc_dtype dtype, sc_image_reduce reduce, sc_helper_set *helpers)
{
    bool sum = reduce == SC_IMAGE_SUM;
    switch (dtype) {
    case SC_DTYPE_f32:
        return (element){"float", "float", "", ""};
    case SC_DTYPE_f64:
        return (element){"double", "double", "", ""};
    case SC_DTYPE_bf16:
        *helpers |= SC_HELPER(bf16_to_f32) | SC_HELPER(f32_to_bf16);
        return (element){"uint16_t", "float", "sc_bf16_to_f32", "sc_f32_to_bf16"};
    case SC_DTYPE_f16:
        *helpers |= SC_HELPER(f16_to_f32) | SC_HELPER(f32_to_f16);
        return (element){"uint16_t", "float", "sc_f16_to_f32", "sc_f32_to_f16"};
    case SC_DTYPE_i32:
        return sum ? (element){"uint32_t", "uint32_t", "", ""}
                   : (element){"int32_t", "int32_t", "", ""};
    case SC_DTYPE_i64:
        return sum ? (element){"uint64_t", "uint64_t", "", ""}
                   : (element){"int64_t", "int64_t", "", ""};
    default:
        return (element){"uint8_t", "uint8_t", "", ""};
    }
}

static const char *combine_of(sc_dtype dtype, sc_image_reduce reduce)
{
    bool is_float = dtype == SC_DTYPE_f32 || dtype == SC_DTYPE_f64 || dtype == SC_DTYPE_bf16 ||
                    dtype == SC_DTYPE_f16;
    if (dtype == SC_DTYPE_bool)
        return reduce == SC_IMAGE_MIN ? "x & y" : "x | y";
    if (reduce == SC_IMAGE_SUM)
        return "x + y";
    if (reduce == SC_IMAGE_MAX)
        return is_float ? "y != y ? y : x != x ? x : y > x ? y : x" : "y > x ? y : x";
    return is_float ? "y != y ? y : x != x ? x : y < x ? y : x" : "y < x ? y : x";
}

void sc_cuda_reduce_emit(sc_dtype dtype, sc_image_reduce reduce, sc_strbuf *out,
                         sc_helper_set *helpers)
{
    element e = element_of(dtype, reduce, helpers);
    sc_writer lines = {.text = out};
    sc_strbuf_printf(out, "\nSC_KERNEL(%d, 1) void sc_reduce_%s_%s(", SC_CUDA_REDUCE_THREADS,
                     sc_image_reduce_names[reduce], sc_dtypes[dtype].name);
    for (int s = 0; s < SC_CUDA_REDUCE_SOURCES; s++)
        sc_strbuf_printf(out, "const %s *s%d, ", e.type, s);
    sc_strbuf_printf(out, "int64_t members, %s *to, int64_t first, int64_t count)\n", e.type);
    sc_write_open_block(&lines);
    sc_write_line(&lines, "int64_t i = sc_block() * %d + sc_thread();", SC_CUDA_REDUCE_THREADS);
    sc_write_line(&lines, "if (i >= count)");
    sc_write_line(&lines, "    return;");
    sc_write_line(&lines, "%s x = %s(s0[first + i]);", e.wide, e.load);
    for (int s = 1; s < SC_CUDA_REDUCE_SOURCES; s++) {
        sc_write_open(&lines, "if (members > %d)", s);
        sc_write_line(&lines, "%s y = %s(s%d[first + i]);", e.wide, e.load, s);
        sc_write_line(&lines, "x = %s;", combine_of(dtype, reduce));
        sc_write_close(&lines);
    }
    sc_write_line(&lines, "to[i] = %s(x);", e.store);
    sc_write_close(&lines);
}

bool sc_cuda_reduce_text(const sc_image *image, sc_strbuf *out, sc_helper_set *helpers)
{
    bool written[SC_DTYPE_COUNT][SC_IMAGE_REDUCES] = {{false}}, any = false;
    for (uint32_t c = 0; c < image->collective_count; c++) {
        const sc_image_collective *collective = &image->collectives[c];
        if (collective->reduce == SC_IMAGE_WHOLE)
            continue;
        for (uint32_t p = 0; p < collective->part_count; p++) {
            bool *is_there = &written[collective->dtypes[p]][collective->reduce];
            if (!*is_there)
                sc_cuda_reduce_emit(collective->dtypes[p], collective->reduce, out, helpers);
            *is_there = any = true;
        }
    }
    return any;
}
