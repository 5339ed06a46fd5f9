/* dot: each dim is a batch dim, a row dim m of one operand, a column dim n of the other, or
 * contracted (k). The offset of an element in an array is a sum of one tabulated offset for each of
 * these. The matmul is blocked as in Goto and van de Geijn, "Anatomy of high-performance matrix
 * multiplication", with packed blocks. The terms of an element are added in the order of k
 * regardless of blocking, so the result is bit for bit that of the plain triple loop. */
#include <stdlib.h>
#include <string.h>

#include "ir/ops/eval_walk.h"
#include "support/min.h"

enum { TILE_M = 4, TILE_N = 4, BLOCK_K = 256, BLOCK_N = 128, SMALL = 1024 };

/* Arrays of the walk. */
enum { OUT, A, B, ARRAYS };

/* The dims of one part (batch, m, n or k), flattened to one index. */
typedef struct sc_part {
    sc_walk dims;
    int64_t size;             /* product */
    int64_t *offsets[ARRAYS]; /* by index; NULL if the array has none of these dims */
} sc_part;

enum { BATCH, M, N, K, PARTS };

typedef struct sc_product {
    sc_part parts[PARTS];
    int64_t *tables;
    /* packed tile of rows and packed block of columns, in the order in which the kernel reads them
     */
    double *panel_a, *panel_b;
} sc_product;

static bool sort_dims(sc_eval *eval, sc_product *product)
{
    const sc_attr *dims = sc_op_attr(eval->op, SC_ATTR_dims);
    sc_walk walk;
    sc_walk_init(&walk);
    if (!sc_walk_add_result(eval, &walk, 0) || !sc_walk_add_operand(eval, &walk, 0) ||
        !sc_walk_add_operand(eval, &walk, 1))
        return false;
    for (int part = 0; part < PARTS; part++) {
        sc_walk_init(&product->parts[part].dims);
        product->parts[part].dims.arrays = ARRAYS;
        product->parts[part].size = 1;
    }
    for (uint32_t i = 0; i < walk.rank; i++) {
        const sc_walk_dim *dim = &walk.dims[i];
        bool in_a = sc_type_find_dim(eval->operand_types[0], dim->dim) >= 0,
             in_b = sc_type_find_dim(eval->operand_types[1], dim->dim) >= 0;
        bool in_result = sc_type_find_dim(eval->result_types[0], dim->dim) >= 0,
             is_k = sc_attr_has_dim(dims, dim->dim);
        if (in_result == is_k || (is_k && !(in_a && in_b)))
            return sc_eval_fail(eval, "dim %s is neither contracted nor in the result, or both",
                                sc_eval_dim_name(eval, dim->dim));
        sc_part *part = &product->parts[is_k ? K : in_a && in_b ? BATCH : in_a ? M : N];
        part->dims.dims[part->dims.rank++] = *dim;
        part->size *= dim->size;
    }
    return true;
}

/* Row-major over the part's dims. */
static void fill_offsets(sc_part *part)
{
    int64_t i = 0;
    sc_walk_start(&part->dims);
    do {
        for (int array = 0; array < ARRAYS; array++) {
            if (part->offsets[array] != NULL)
                part->offsets[array][i] = part->dims.at[array];
        }
        i++;
    } while (sc_walk_next(&part->dims));
}

static bool make_tables(sc_eval *eval, sc_product *product)
{
    static const bool has[PARTS][ARRAYS] = {[BATCH] = {true, true, true},
                                            [M] = {true, true, false},
                                            [N] = {true, false, true},
                                            [K] = {false, true, true}};
    int64_t total = 0, depth = sc_min_i64(BLOCK_K, product->parts[K].size);
    for (int part = 0; part < PARTS; part++)
        total += product->parts[part].size * (part == BATCH ? 3 : 2);
    product->tables = malloc((size_t)total * sizeof *product->tables);
    product->panel_a = malloc((size_t)(depth * (TILE_M + BLOCK_N)) * sizeof *product->panel_a);
    if (product->tables == NULL || product->panel_a == NULL)
        return sc_eval_fail(eval, "out of memory");
    product->panel_b = product->panel_a + depth * TILE_M;
    int64_t *next = product->tables;
    for (int part = 0; part < PARTS; part++) {
        for (int array = 0; array < ARRAYS; array++) {
            product->parts[part].offsets[array] = has[part][array] ? next : NULL;
            next += has[part][array] ? product->parts[part].size : 0;
        }
        fill_offsets(&product->parts[part]);
    }
    return true;
}

/* out += a b over depth terms; a is [depth][TILE_M], b is [depth][TILE_N], both padded. */
static void multiply_tile(double *out, const int64_t *row_offsets, int64_t rows,
                          const int64_t *column_offsets, int64_t columns, const double *restrict a,
                          const double *restrict b, int64_t depth)
{
    double sum[TILE_M][TILE_N] = {{0}};
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < columns; j++)
            sum[i][j] = out[row_offsets[i] + column_offsets[j]];
    }
    for (int64_t p = 0; p < depth; p++) {
        for (int i = 0; i < TILE_M; i++) {
            for (int j = 0; j < TILE_N; j++)
                sum[i][j] += a[p * TILE_M + i] * b[p * TILE_N + j];
        }
    }
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < columns; j++)
            out[row_offsets[i] + column_offsets[j]] = sum[i][j];
    }
}

/* Packs `width` (at most `tile`) rows or columns over `depth` terms and pads with zeros. */
static void pack(double *panel, const double *x, const int64_t *offsets, int64_t width,
                 int64_t tile, const int64_t *terms, int64_t depth)
{
    for (int64_t p = 0; p < depth; p++) {
        const double *term = x + terms[p];
        for (int64_t i = 0; i < tile; i++)
            *panel++ = i < width ? term[offsets[i]] : 0;
    }
}

static void multiply(const sc_product *product, double *out, const double *a, const double *b)
{
    const sc_part *m = &product->parts[M], *n = &product->parts[N], *k = &product->parts[K];
    for (int64_t p = 0; p < k->size; p += BLOCK_K) {
        int64_t depth = sc_min_i64(BLOCK_K, k->size - p);
        for (int64_t j = 0; j < n->size; j += BLOCK_N) {
            int64_t width = sc_min_i64(BLOCK_N, n->size - j);
            for (int64_t t = 0; t < width; t += TILE_N)
                pack(product->panel_b + t * depth, b, n->offsets[B] + j + t,
                     sc_min_i64(TILE_N, width - t), TILE_N, k->offsets[B] + p, depth);
            for (int64_t i = 0; i < m->size; i += TILE_M) {
                int64_t rows = sc_min_i64(TILE_M, m->size - i);
                pack(product->panel_a, a, m->offsets[A] + i, rows, TILE_M, k->offsets[A] + p,
                     depth);
                for (int64_t t = 0; t < width; t += TILE_N)
                    multiply_tile(out, m->offsets[OUT] + i, rows, n->offsets[OUT] + j + t,
                                  sc_min_i64(TILE_N, width - t), product->panel_a,
                                  product->panel_b + t * depth, depth);
            }
        }
    }
}

/* The same without packing, for sizes where packing does not pay off. */
static void multiply_small(const sc_product *product, double *out, const double *a, const double *b)
{
    const sc_part *m = &product->parts[M], *n = &product->parts[N], *k = &product->parts[K];
    for (int64_t i = 0; i < m->size; i++) {
        for (int64_t j = 0; j < n->size; j++) {
            const double *row = a + m->offsets[A][i], *column = b + n->offsets[B][j];
            double sum = 0;
            for (int64_t p = 0; p < k->size; p++)
                sum += row[k->offsets[A][p]] * column[k->offsets[B][p]];
            out[m->offsets[OUT][i] + n->offsets[OUT][j]] = sum;
        }
    }
}

bool eval_dot(sc_eval *eval)
{
    sc_product product;
    product.tables = NULL;
    product.panel_a = NULL;
    bool ok = sort_dims(eval, &product) && make_tables(eval, &product);
    const sc_part *batch = &product.parts[BATCH];
    if (ok) {
        for (int64_t i = 0; i < batch->size; i++) {
            double *out = eval->results[0].data + batch->offsets[OUT][i];
            const double *a = eval->operands[0]->data + batch->offsets[A][i],
                         *b = eval->operands[1]->data + batch->offsets[B][i];
            if (product.parts[M].size * product.parts[N].size * product.parts[K].size < SMALL)
                multiply_small(&product, out, a, b);
            else
                multiply(&product, out, a, b);
        }
    }
    free(product.tables);
    free(product.panel_a);
    return ok;
}
