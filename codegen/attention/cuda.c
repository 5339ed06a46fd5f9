/* Chooses the form and the tiles of attention on GPUs. */
#include "codegen/attention/cuda.h"

#include <string.h>

#include "codegen/attention/cuda_internal.h"

/* Few queries per head, as in generation: keys and values are streamed past them, one warp per
 * block, many blocks. */
enum {
    FEW = 16,
    MANY_BLOCKS = 1024 /* with one warp; a quarter of it with more: enough to fill a GPU */,
    LEAST_PART = 128 /* keys */,
    MOST_PARTS = 32
};

/* Splits keys into enough parts to fill a GPU, but not so short that combining them costs more than
 * it gains. */
static int parts_of(const sc_attention_desc *desc, const sc_attention_cuda_tile *tile)
{
    bool is_small = tile->warps == 1;
    int64_t rows = 16 * tile->warps * tile->strips, wanted = is_small ? 1024 : 256,
            least = is_small ? 128 : 1024;
    int64_t blocks = sc_attention_units(desc) * ((sc_attention_rows(desc) + rows - 1) / rows),
            parts = wanted / blocks;
    parts = parts < desc->t.size / least ? parts : desc->t.size / least;
    return parts < 1 ? 1 : parts > MOST_PARTS ? MOST_PARTS : (int)parts;
}

typedef enum stage_kind { FORWARD_FEW, FORWARD, D_Q, D_K_D_V } stage_kind;

/* An upper bound of the shared memory that a block of the stage uses. */
static int64_t block_bytes(const sc_attention_desc *desc, stage_kind kind,
                           const sc_attention_cuda_tile *tile)
{
    enum { PLACES = 10, PLACE = 8, ALIGNMENT = 16 * 16 };
    int64_t e = sc_attention_head_of(desc->e.size).step,
            own = sc_attention_head_of(desc->own[0].size).step, both = 2 * (e + own);
    int64_t rows = 16 * tile->warps * tile->strips, columns = (int64_t)tile->stages * tile->tile;
    sc_attention_places places = sc_attention_places_of(desc, NULL, 0);
    int64_t of_masks = PLACE * (places.count + places.has_weight_row),
            of_rows = PLACE * 4 /* the offsets of three arrays, an interval */;
    if (kind == D_K_D_V)
        return rows * both + columns * (both + 16 + of_masks) + ALIGNMENT;
    int64_t queries = kind == D_Q ? (e > own ? e : own) + own : e > own ? e : own;
    return rows * (2 * queries + of_rows + of_masks) + columns * both + ALIGNMENT;
}

/* In order of preference, the last for GPUs with the least memory. All choices keep sums, weights
 * and fragments in registers (255 per thread, so eight warps per multiprocessor), according to
 * NVRTC for sm_80, sm_90a and sm_100a. Preferred are, in this order: eight warps in two blocks,
 * which do not wait for each other; two strips per warp, which share loads of the other side; long
 * tiles, as a warp's loads of its own rows serve a whole tile; more tiles in flight. */
static const struct {
    stage_kind kind;
    int64_t head; /* upper bound */
    bool is_plain /* scores need only a factor and an interval, which leaves more registers */;
    sc_attention_cuda_tile tile;
} choices[] = {
    {FORWARD_FEW, 64, false, {1, 1, 64, 3, 4}},  {FORWARD_FEW, 128, false, {1, 1, 32, 3, 4}},
    {FORWARD_FEW, 192, false, {1, 1, 16, 4, 4}}, {FORWARD_FEW, 256, false, {1, 1, 16, 3, 4}},
    {FORWARD, 64, false, {4, 2, 64, 4, 2}},      {FORWARD, 64, false, {4, 2, 64, 3, 2}},
    {FORWARD, 64, false, {4, 2, 64, 2, 2}},      {FORWARD, 128, true, {4, 2, 64, 2, 2}},
    {FORWARD, 128, false, {4, 2, 32, 3, 2}},     {FORWARD, 128, false, {4, 2, 32, 2, 2}},
    {FORWARD, 192, false, {4, 1, 48, 2, 2}},     {FORWARD, 192, false, {4, 1, 32, 2, 2}},
    {FORWARD, 256, false, {4, 1, 32, 2, 2}},     {FORWARD, 256, false, {8, 1, 32, 2, 1}},
    {FORWARD, 256, false, {4, 1, 16, 3, 1}},     {D_Q, 64, true, {4, 2, 32, 3, 2}},
    {D_Q, 64, false, {4, 1, 64, 3, 2}},          {D_Q, 64, false, {4, 1, 64, 2, 2}},
    {D_Q, 128, true, {4, 2, 32, 2, 2}},          {D_Q, 128, false, {4, 1, 64, 2, 2}},
    {D_Q, 128, false, {4, 1, 32, 2, 2}},         {D_Q, 192, false, {4, 1, 32, 2, 2}},
    {D_Q, 192, false, {4, 1, 16, 2, 2}},         {D_Q, 192, false, {3, 1, 16, 2, 1}},
    {D_Q, 256, false, {4, 1, 16, 2, 2}},         {D_Q, 256, false, {7, 1, 16, 2, 1}},
    {D_Q, 256, false, {3, 1, 16, 2, 1}},         {D_K_D_V, 64, true, {4, 2, 32, 2, 2}},
    {D_K_D_V, 64, false, {4, 1, 64, 2, 2}},      {D_K_D_V, 128, false, {4, 1, 32, 2, 2}},
    {D_K_D_V, 192, false, {4, 1, 32, 2, 2}},     {D_K_D_V, 192, false, {4, 1, 16, 2, 2}},
    {D_K_D_V, 192, false, {3, 1, 16, 2, 1}},     {D_K_D_V, 256, false, {4, 1, 16, 2, 2}},
    {D_K_D_V, 256, false, {7, 1, 16, 2, 1}},     {D_K_D_V, 256, false, {3, 1, 16, 2, 1}},
};

static bool is_plain(const sc_attention_desc *desc)
{
    return !desc->arrays[SC_ATTENTION_BIAS].is_there && !sc_attention_has_visible(desc) &&
           desc->softcap == 0 && desc->p == 0 && desc->scale > 0;
}

/* Returns the first choice with the smallest head that fits and enough shared memory for its
 * resident blocks. */
static sc_attention_cuda_tile choose(const sc_attention_desc *desc, stage_kind kind,
                                     uint32_t shared_bytes)
{
    int64_t own = sc_attention_own_size(desc), size = desc->e.size > own ? desc->e.size : own,
            head = 0;
    size_t last = 0;
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        if (choices[i].kind != kind || choices[i].head < size ||
            (head != 0 && choices[i].head != head) || (choices[i].is_plain && !is_plain(desc)))
            continue;
        const sc_attention_cuda_tile *tile = &choices[i].tile;
        head = choices[i].head;
        last = i;
        if (tile->resident * (block_bytes(desc, kind, tile) + SC_ATTENTION_CUDA_RESERVED) <=
            (int64_t)shared_bytes + SC_ATTENTION_CUDA_RESERVED)
            break;
    }
    return choices[last].tile;
}

sc_attention_cuda_tiles sc_attention_cuda_default_tiles(const sc_attention_desc *desc,
                                                        uint32_t shared_bytes)
{
    sc_attention_cuda_tiles tiles = {
        .forward =
            choose(desc, sc_attention_rows(desc) <= FEW ? FORWARD_FEW : FORWARD, shared_bytes),
        .d_q = choose(desc, D_Q, shared_bytes),
        .d_k_d_v = choose(desc, D_K_D_V, shared_bytes)};
    tiles.parts = parts_of(desc, &tiles.forward);
    return tiles;
}

static const char *reason_for_simple(const sc_attention_desc *desc)
{
    static const sc_attention_role heads[] = {SC_ATTENTION_Q, SC_ATTENTION_K, SC_ATTENTION_D_Q,
                                              SC_ATTENTION_D_K},
                                   owns[] = {SC_ATTENTION_V, SC_ATTENTION_OUT, SC_ATTENTION_D_OUT,
                                             SC_ATTENTION_D_V};
    sc_dtype dtype = desc->arrays[SC_ATTENTION_Q].dtype;
    if (dtype != SC_DTYPE_bf16 && dtype != SC_DTYPE_f16)
        return "matmuls of tiles take elements of 16 bits";
    for (int role = 0; role < SC_ATTENTION_ROLES; role++) {
        bool is_mask =
            role == SC_ATTENTION_LSE || (role >= SC_ATTENTION_KEEP && role <= SC_ATTENTION_LEN);
        if (desc->arrays[role].is_there && !is_mask && desc->arrays[role].dtype != dtype)
            return "arrays have different dtypes";
    }
    if (desc->arrays[SC_ATTENTION_D_BIAS].is_there)
        return "the bias has a gradient";
    if (desc->own_count != 1)
        return "values have several dims, or none, besides those of keys";
    if (desc->e.size % 8 != 0 || desc->own[0].size % 8 != 0)
        return "the elements of a head are not a multiple of 8";
    if (desc->e.size > SC_ATTENTION_CUDA_MAX_HEAD || desc->own[0].size > SC_ATTENTION_CUDA_MAX_HEAD)
        return "a head has more than 256 elements";
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        if ((desc->arrays[heads[i]].is_there && desc->e.strides[heads[i]] != 1) ||
            (desc->arrays[owns[i]].is_there && desc->own[0].strides[owns[i]] != 1))
            return "the elements of a head are not contiguous";
    }
    if (desc->t.size > INT32_MAX / 2 || sc_attention_rows(desc) > INT32_MAX / 2)
        return "positions do not fit 32 bits";
    if (desc->is_grad && sc_attention_shares_keys(desc))
        return "keys and values are shared by different queries";
    return NULL;
}

static void emit(sc_attention_cuda *cuda)
{
    memset(cuda->code, 0, sizeof *cuda->code);
    cuda->code->why_simple = reason_for_simple(cuda->text.desc);
    if (cuda->code->why_simple != NULL) {
        sc_attention_cuda_simple(cuda);
        return;
    }
    sc_attention_cuda_emit_tools(cuda);
    if (cuda->text.desc->is_grad)
        sc_attention_cuda_grad(cuda);
    else
        sc_attention_cuda_forward(cuda);
}

void sc_attention_emit_cuda_tiled(sc_context *context, const sc_attention_desc *desc,
                                  const sc_attention_cuda_tiles *tiles, const char *name,
                                  sc_strbuf *out, sc_helper_set *helpers, sc_cuda_code *code)
{
    sc_strbuf body;
    sc_strbuf_init(&body, &context->scratch);
    bool is_wide = desc->arrays[SC_ATTENTION_Q].dtype == SC_DTYPE_f64;
    sc_writer writer = {.text = &body};
    sc_attention_cuda cuda = {
        .text = {&context->scratch, desc, name, is_wide ? "double" : "float", &writer},
        .code = code,
        .tiles = tiles};
    emit(&cuda);
    if (helpers != NULL)
        *helpers |= sc_helpers_named_in(body.data) & ~SC_CUDA_MACHINE_HELPERS;
    sc_strbuf_add(out, body.data);
}

void sc_attention_emit_cuda(sc_context *context, const sc_attention_desc *desc,
                            uint32_t shared_bytes, const char *name, sc_strbuf *out,
                            sc_helper_set *helpers, sc_cuda_code *code)
{
    sc_attention_cuda_tiles tiles = {0};
    if (reason_for_simple(desc) == NULL)
        tiles = sc_attention_cuda_default_tiles(desc, shared_bytes);
    sc_attention_emit_cuda_tiled(context, desc, &tiles, name, out, helpers, code);
}
