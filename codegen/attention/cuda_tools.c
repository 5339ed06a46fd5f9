/* Building blocks of the tiled forms on GPUs: copies of rows to shared memory, matmuls of tiles by
 * a warp, results through shared memory.
 *
 * Fragments (codegen/cuda/machine.cu.h): lane l holds, of the sums c, rows l / 4 and l / 4 + 8 of a
 * strip of 16, and columns 2 (l % 4) + {0, 1} of each group of 8. Two adjacent groups of columns,
 * rounded, form a 16 x 16 A fragment, so weights pass from one matmul to the next in registers.
 * Rows of shared memory load as an A, or as a B of which they are the columns; loaded transposed
 * they are the rows of a B. */
#include "codegen/attention/cuda_internal.h"

#include <string.h>

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

static const char copies[] =
    "/* Rows low .. high of `rows` rows to shared memory, `from` being row 0; the others, and "
    "elements beyond `size`, become 0. */\n"
    "template <int rows, int size, int width, int threads>\n"
    "SC_DEVICE void NAME_copy(sc_shared_ptr<uint16_t> to, const uint16_t *from, int64_t stride, "
    "int low, int high)\n"
    "{\n"
    "    constexpr int chunks = width / 8, each = threads % chunks == 0 ? threads / chunks : 0, "
    "step = width + 8;\n"
    "#pragma unroll\n"
    "    for (int i = 0; i < rows * chunks; i += threads) {\n"
    "        const int number = i + sc_thread(), row = each > 0 ? sc_thread() / chunks + i / "
    "chunks : number / chunks;\n"
    "        const int at = (each > 0 ? sc_thread() % chunks : number % chunks) * 8;\n"
    "        if (rows * chunks % threads != 0 && number >= rows * chunks)\n"
    "            break;\n"
    "        const bool is_there = row >= low && row < high && (size == width || at < size);\n"
    "        sc_copy_async(to + (row * step + at), from + row * stride + at, is_there ? 16 : 0); "
    "/* of nothing, from anywhere */\n"
    "    }\n"
    "}\n"
    "\n"
    "/* The same of rows that begin at places[row]; those below 0 become 0. */\n"
    "template <int rows, int size, int width, int threads>\n"
    "SC_DEVICE void NAME_gather(sc_shared_ptr<uint16_t> to, const uint16_t *from, "
    "sc_shared_ptr<int64_t> places)\n"
    "{\n"
    "    constexpr int chunks = width / 8, each = threads % chunks == 0 ? threads / chunks : 0, "
    "step = width + 8;\n"
    "#pragma unroll\n"
    "    for (int i = 0; i < rows * chunks; i += threads) {\n"
    "        const int number = i + sc_thread(), row = each > 0 ? sc_thread() / chunks + i / "
    "chunks : number / chunks;\n"
    "        const int at = (each > 0 ? sc_thread() % chunks : number % chunks) * 8;\n"
    "        if (rows * chunks % threads != 0 && number >= rows * chunks)\n"
    "            break;\n"
    "        const int64_t place = places[row];\n"
    "        const bool is_there = place >= 0 && (size == width || at < size);\n"
    "        sc_copy_async(to + (row * step + at), is_there ? from + place + at : from, is_there ? "
    "16 : 0);\n"
    "    }\n"
    "}\n"
    "\n";

static const char matmuls[] =
    "/* c[row][column] += the product of row of a, of `strips` strips, and row `column` of b, over "
    "`width` elements. */\n"
    "template <int strips, int columns, int width>\n"
    "SC_DEVICE void NAME_matmul(float (&c)[strips][columns / 8][4], sc_shared_ptr<uint16_t> a, "
    "sc_shared_ptr<uint16_t> b)\n"
    "{\n"
    "    constexpr int step = width + 8;\n"
    "    const int lane = sc_lane();\n"
    "    const sc_shared_ptr<uint16_t> a_of_lane = a + ((lane & 15) * step + (lane >> 4) * 8);\n"
    "    const sc_shared_ptr<uint16_t> b_of_lane = b + (((lane & 7) + (lane >> 4) * 8) * step + "
    "(lane >> 3 & 1) * 8);\n"
    "#pragma unroll\n"
    "    for (int x = 0; x < width; x += 16) {\n"
    "        uint32_t left[strips][4], right[4];\n"
    "#pragma unroll\n"
    "        for (int i = 0; i < strips; i++)\n"
    "            sc_load_matrices(left[i], a_of_lane + (16 * i * step + x));\n"
    "#pragma unroll\n"
    "        for (int j = 0; j < columns / 8; j += 2) {\n"
    "            sc_load_matrices(right, b_of_lane + (8 * j * step + x));\n"
    "#pragma unroll\n"
    "            for (int i = 0; i < strips; i++) {\n"
    "                MMA(c[i][j], left[i], right[0], right[1]);\n"
    "                MMA(c[i][j + 1], left[i], right[2], right[3]);\n"
    "            }\n"
    "        }\n"
    "    }\n"
    "}\n"
    "\n"
    "/* c[row][x] += the sum over i of a[row][i], rounded, and element x of row i of b. */\n"
    "template <int strips, int count, int width>\n"
    "SC_DEVICE void NAME_add_weighted(float (&c)[strips][width / 8][4], const float "
    "(&a)[strips][count / 8][4], sc_shared_ptr<uint16_t> "
    "b)\n"
    "{\n"
    "    constexpr int step = width + 8;\n"
    "    const int lane = sc_lane();\n"
    "    const sc_shared_ptr<uint16_t> b_of_lane = b + (((lane & 7) + (lane >> 3 & 1) * 8) * step "
    "+ (lane >> 4) * 8);\n"
    "#pragma unroll\n"
    "    for (int j = 0; j < count / 8; j += 2) {\n"
    "        uint32_t left[strips][4], right[4];\n"
    "#pragma unroll\n"
    "        for (int i = 0; i < strips; i++) {\n"
    "            left[i][0] = PACK(a[i][j][0], a[i][j][1]);\n"
    "            left[i][1] = PACK(a[i][j][2], a[i][j][3]);\n"
    "            left[i][2] = PACK(a[i][j + 1][0], a[i][j + 1][1]);\n"
    "            left[i][3] = PACK(a[i][j + 1][2], a[i][j + 1][3]);\n"
    "        }\n"
    "#pragma unroll\n"
    "        for (int x = 0; x < width / 8; x += 2) {\n"
    "            sc_load_matrices_transposed(right, b_of_lane + (8 * j * step + 8 * x));\n"
    "#pragma unroll\n"
    "            for (int i = 0; i < strips; i++) {\n"
    "                MMA(c[i][x], left[i], right[0], right[1]);\n"
    "                MMA(c[i][x + 1], left[i], right[2], right[3]);\n"
    "            }\n"
    "        }\n"
    "    }\n"
    "}\n"
    "\n"
    "/* The warp's strips, each row times its factor, rounded, to shared memory, where row 0 "
    "begins at byte `at`. */\n"
    "template <int strips, int width>\n"
    "SC_DEVICE void NAME_round(int at, const float (&c)[strips][width / 8][4], const float "
    "(&factors)[2 * strips])\n"
    "{\n"
    "    constexpr int step = (width + 8) / 2;\n"
    "    const sc_shared_ptr<uint32_t> to = sc_shared<uint32_t>(at) + ((sc_lane() >> 2) * step + "
    "(sc_lane() & 3));\n"
    "#pragma unroll\n"
    "    for (int i = 0; i < strips; i++) {\n"
    "#pragma unroll\n"
    "        for (int x = 0; x < width / 8; x++) {\n"
    "            to[16 * i * step + 4 * x] = PACK(c[i][x][0] * factors[2 * i], c[i][x][1] * "
    "factors[2 * i]);\n"
    "            to[(16 * i + 8) * step + 4 * x] = PACK(c[i][x][2] * factors[2 * i + 1], "
    "c[i][x][3] * factors[2 * i + 1]);\n"
    "        }\n"
    "    }\n"
    "}\n"
    "\n";

static void add_named(sc_attention_text *text, const char *tools)
{
    bool is_bf16 = text->desc->arrays[SC_ATTENTION_Q].dtype == SC_DTYPE_bf16;
    const struct {
        const char *word, *with;
    } words[] = {{"NAME", text->name},
                 {"MMA", is_bf16 ? "sc_mma_bf16" : "sc_mma_f16"},
                 {"PACK", is_bf16 ? "sc_pack_bf16" : "sc_pack_f16"}};
    for (const char *at = tools; *at != 0;) {
        size_t i = 0, count = sizeof words / sizeof *words;
        while (i < count && strncmp(at, words[i].word, strlen(words[i].word)) != 0)
            i++;
        if (i < count)
            sc_strbuf_add(text->out, words[i].with);
        else
            sc_strbuf_add_char(text->out, *at);
        at += i < count ? strlen(words[i].word) : 1;
    }
}

void sc_attention_cuda_emit_tools(sc_attention_cuda *cuda)
{
    add_named(&cuda->text, copies);
    add_named(&cuda->text, matmuls);
}
