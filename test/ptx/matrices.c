/* ldmatrix, stmatrix and mma: whole warps. */
#include <math.h>

#include "support/float16.h"
#include "test/ptx/internal.h"

/* PTX ISA, "ldmatrix": lane 8 m + j gives the address of row j of matrix m; of each matrix, lane l
 * gets the elements 2 (l % 4) + {0, 1} of row l / 4, with .trans those of column l / 4. */
void sc_ptx_load_matrices(sc_ptx_warp *w, const sc_ptx_inst *i)
{
    uint16_t rows[SC_PTX_LANES][8] = {{0}};
    for (uint32_t l = 0; l < 8u * i->vector; l++) {
        uint64_t at = sc_ptx_in_lane(w, i, 0, l) + (uint64_t)i->offset;
        const unsigned char *from = sc_ptx_read(w, i, l, SC_PTX_SHARED, at, sizeof rows[l]);
        if (from == NULL)
            return;
        memcpy(rows[l], from, sizeof rows[l]);
    }
    for (uint32_t matrix = 0; matrix < i->vector; matrix++) {
        uint16_t(*m)[8] = rows + (size_t)8 * matrix;
        uint32_t r[SC_PTX_LANES];
        for (uint32_t l = 0; l < SC_PTX_LANES; l++) {
            uint32_t row = l / 4, column = l % 4 * 2;
            uint32_t low = i->what == 1 ? m[column][row] : m[row][column],
                     high = i->what == 1 ? m[column + 1][row] : m[row][column + 1];
            r[l] = low | high << 16;
        }
        sc_ptx_out(w, i, matrix, r);
    }
}

/* PTX ISA, "stmatrix": the places of ldmatrix. */
void sc_ptx_store_matrices(sc_ptx_warp *w, const sc_ptx_inst *i)
{
    for (uint32_t l = 0; l < 8u * i->vector; l++) {
        uint16_t row[8];
        for (uint32_t k = 0; k < 8; k++) {
            uint32_t lane = i->what == 1 ? 4 * k + l % 8 / 2 : 4 * (l % 8) + k / 2,
                     half = i->what == 1 ? l % 2 : k % 2;
            row[k] = (uint16_t)(sc_ptx_in_lane(w, i, 1 + l / 8, lane) >> (16 * half));
        }
        uint64_t at = sc_ptx_in_lane(w, i, 0, l) + (uint64_t)i->offset;
        unsigned char *to = sc_ptx_write(w, i, l, SC_PTX_SHARED, at, sizeof row);
        if (to == NULL)
            return;
        memcpy(to, row, sizeof row);
    }
}

static double element(const sc_ptx_inst *i, const uint32_t *lanes, uint32_t lane, uint32_t half)
{
    uint16_t bits = (uint16_t)(lanes[lane] >> (16 * half));
    return (double)(i->type == SC_PTX_bf16 ? sc_f32_of_bf16(bits) : sc_f32_of_f16(bits));
}

/* PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type": with group = lane / 4 and
 * place = lane % 4, a_i is of row group (+ 8 for i = 2, 3, 6, 7) and column 2 place + i % 2 (+ 8
 * from i = 4 on), b_i of row 2 place + i % 2 (+ 8 from i = 2 on) and column group, c_i of row group
 * (+ 8 from i = 2 on) and column 2 place + i % 2. */
static void fragments(const sc_ptx_warp *w, const sc_ptx_inst *i, double a[16][16], double b[16][8],
                      double c[16][8])
{
    enum { A = 0, B = 4, C = 6 };
    for (uint32_t l = 0; l < SC_PTX_LANES; l++) {
        uint32_t group = l / 4, place = l % 4;
        for (uint32_t k = 0; k < 8; k++)
            a[group + (k & 2 ? 8 : 0)][2 * place + (k & 1) + (k >= 4 ? 8 : 0)] =
                element(i, sc_ptx_in(w, i, A + k / 2), l, k & 1);
        for (uint32_t k = 0; k < 4; k++)
            b[2 * place + (k & 1) + (k >= 2 ? 8 : 0)][group] =
                element(i, sc_ptx_in(w, i, B + k / 2), l, k & 1);
        for (uint32_t k = 0; k < 4; k++)
            c[group + (k >= 2 ? 8 : 0)][2 * place + (k & 1)] =
                (double)((const float *)sc_ptx_in(w, i, C + k))[l];
    }
}

/* "Accumulation .. with at least single precision", in an order and a rounding that are left open:
 * exact sums, rounded to nearest, or (SC_PTX_BELOW, SC_PTX_EITHER) towards 0, as tensor cores do.
 */
float sc_ptx_rounded_sum(const sc_ptx_block *b, double sum)
{
    float r = (float)sum;
    bool truncates = b->errors == SC_PTX_BELOW || b->errors == SC_PTX_EITHER;
    if (r != r)
        return sc_f32_of_bits(0x7fffffff);
    if (truncates && !isinf(sum) && fabs((double)r) > fabs(sum))
        r = nextafterf(r, 0);
    return r;
}

void sc_ptx_multiply(sc_ptx_warp *w, const sc_ptx_inst *i)
{
    double a[16][16], b[16][8], c[16][8];
    fragments(w, i, a, b, c);
    for (uint32_t row = 0; row < 16; row++) {
        for (uint32_t k = 0; k < 16; k++) {
            for (uint32_t column = 0; column < 8; column++)
                c[row][column] += a[row][k] * b[k][column];
        }
    }
    for (uint32_t k = 0; k < 4; k++) {
        float r[SC_PTX_LANES];
        for (uint32_t l = 0; l < SC_PTX_LANES; l++)
            r[l] = sc_ptx_rounded_sum(w->b, c[l / 4 + (k >= 2 ? 8 : 0)][2 * (l % 4) + (k & 1)]);
        sc_ptx_out(w, i, k, r);
    }
}
