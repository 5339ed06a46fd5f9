/* Of the tiled forms on GPUs: sizes of heads, which masks there are, and the functions of
 * cuda_tiles.cu.h. */
#include "codegen/attention/cuda_internal.h"

sc_attention_head sc_attention_head_of(int64_t size)
{
    int width = ((int)size + 15) / 16 * 16;
    return (sc_attention_head){(int)size, width, width + 8};
}

bool sc_attention_has_interval(const sc_attention_desc *desc)
{
    return desc->is_causal || desc->arrays[SC_ATTENTION_LEN].is_there;
}

bool sc_attention_has_visible(const sc_attention_desc *desc)
{
    return desc->arrays[SC_ATTENTION_KEEP].is_there || desc->arrays[SC_ATTENTION_SEGMENTS].is_there;
}

void sc_attention_cuda_emit_tools(sc_attention_cuda *cuda)
{
    const sc_attention_text *text = &cuda->text;
    bool is_bf16 = text->desc->arrays[SC_ATTENTION_Q].dtype == SC_DTYPE_bf16;
    const sc_write_word words[] = {{"NAME", text->name},
                                   {"MMA", is_bf16 ? "sc_mma_bf16" : "sc_mma_f16"},
                                   {"PACK", is_bf16 ? "sc_pack_bf16" : "sc_pack_f16"}};
    sc_write_fixed(text->out, sc_attention_cuda_tiles_text, words, sizeof words / sizeof *words);
}
