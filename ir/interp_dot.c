/* dot: both operands are brought to [batch][m][k] and [batch][k][n], multiplied in blocks, and the products put where the result's dim
 * order has them. The terms of an element are added in order of k, whatever the blocks: so it is the plain triple loop, bit for bit. */
#include <stdlib.h>
#include <string.h>

#include "ir/eval_walk.h"

enum { TILE_M = 4, TILE_N = 4, BLOCK_K = 256, BLOCK_N = 128, SMALL = 1024 };

/* Arrays of the walk. */
enum { OUT, A, B };

typedef struct sc_dims {
    uint32_t count;
    int64_t size; /* product */
    sc_walk_dim list[SC_WALK_DIMS];
} sc_dims;

typedef struct sc_product {
    sc_dims batch, m, n, k;
    double *memory;             /* everything below that is not an operand's own data */
    const double *a, *b;        /* [batch][m][k], [batch][k][n] */
    double *c;                  /* [batch][m][n] */
    double *panel_a, *panel_b;  /* one tile of rows, one block of columns, in the order in which the kernel reads them */
} sc_product;

static void append_dim(sc_dims *dims, const sc_walk_dim *dim)
{
    dims->list[dims->count++] = *dim;
    dims->size *= dim->size;
}

static bool is_contracted(const sc_attr *dims, sc_dim dim)
{
    for (uint32_t i = 0; i < dims->count; i++) {
        if (dims->dims[i] == dim)
            return true;
    }
    return false;
}

static bool sort_dims(sc_eval *eval, sc_product *p)
{
    const sc_attr *dims = sc_op_attr(eval->op, SC_ATTR_dims);
    sc_walk walk;
    sc_walk_init(&walk);
    if (!sc_walk_add_result(eval, &walk, 0) || !sc_walk_add_operand(eval, &walk, 0) || !sc_walk_add_operand(eval, &walk, 1))
        return false;
    p->batch.count = p->m.count = p->n.count = p->k.count = 0;
    p->batch.size = p->m.size = p->n.size = p->k.size = 1;
    for (uint32_t i = 0; i < walk.rank; i++) {
        const sc_walk_dim *dim = &walk.dims[i];
        bool in_a = sc_type_find_dim(eval->operand_types[0], dim->dim) >= 0, in_b = sc_type_find_dim(eval->operand_types[1], dim->dim) >= 0;
        bool in_result = sc_type_find_dim(eval->result_types[0], dim->dim) >= 0, is_k = dims != NULL && is_contracted(dims, dim->dim);
        if (in_result == is_k || (is_k && !(in_a && in_b)))
            return sc_eval_fail(eval, "dim %s is neither contracted nor in the result, or both", sc_eval_dim_name(eval, dim->dim));
        append_dim(is_k ? &p->k : in_a && in_b ? &p->batch : in_a ? &p->m : &p->n, dim);
    }
    return true;
}

/* The dims of three lists as a walk over one dense array (0, in that order of dims) and array `side` (1). */
static void order(sc_walk *walk, const sc_dims *const lists[3], int side)
{
    sc_walk_init(walk);
    walk->arrays = 2;
    for (uint32_t l = 0; l < 3; l++) {
        for (uint32_t i = 0; i < lists[l]->count; i++) {
            sc_walk_dim dim = {.dim = lists[l]->list[i].dim, .size = lists[l]->list[i].size};
            dim.strides[1] = lists[l]->list[i].strides[side];
            walk->dims[walk->rank++] = dim;
        }
    }
    int64_t stride = 1;
    for (uint32_t i = walk->rank; i-- > 0; stride *= walk->dims[i].size)
        walk->dims[i].strides[0] = stride;
    sc_walk_collapse(walk);
}

static bool is_dense(const sc_walk *walk)
{
    return walk->rank == 0 || (walk->rank == 1 && walk->dims[0].strides[0] == 1 && walk->dims[0].strides[1] == 1);
}

/* Copies array 1 of the walk to array 0, or the other way. */
static void copy(sc_walk *walk, double *to, const double *from, int to_array)
{
    sc_walk_dim row = sc_walk_take_row(walk);
    int64_t to_stride = row.strides[to_array], from_stride = row.strides[1 - to_array];
    sc_walk_start(walk);
    do {
        double *out = to + walk->at[to_array];
        const double *in = from + walk->at[1 - to_array];
        for (int64_t i = 0; i < row.size; i++)
            out[i * to_stride] = in[i * from_stride];
    } while (sc_walk_next(walk));
}

/* out += a b over depth terms; a is [depth][TILE_M], b is [depth][TILE_N], both padded. */
static void multiply_tile(double *restrict out, int64_t out_stride, int64_t rows, int64_t columns, const double *restrict a,
                          const double *restrict b, int64_t depth)
{
    double sum[TILE_M][TILE_N] = {{0}};
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < columns; j++)
            sum[i][j] = out[i * out_stride + j];
    }
    for (int64_t p = 0; p < depth; p++) {
        for (int i = 0; i < TILE_M; i++) {
            for (int j = 0; j < TILE_N; j++)
                sum[i][j] += a[p * TILE_M + i] * b[p * TILE_N + j];
        }
    }
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < columns; j++)
            out[i * out_stride + j] = sum[i][j];
    }
}

static int64_t least(int64_t x, int64_t y)
{
    return x < y ? x : y;
}

/* A block of `depth` rows and `width` columns of b, as tiles of TILE_N columns. */
static void pack_columns(double *panel, const double *b, int64_t n, int64_t depth, int64_t width)
{
    for (int64_t j = 0; j < width; j += TILE_N) {
        for (int64_t p = 0; p < depth; p++) {
            for (int64_t i = 0; i < TILE_N; i++)
                *panel++ = j + i < width ? b[p * n + j + i] : 0;
        }
    }
}

static void pack_rows(double *panel, const double *a, int64_t k, int64_t depth, int64_t rows)
{
    for (int64_t p = 0; p < depth; p++) {
        for (int64_t i = 0; i < TILE_M; i++)
            *panel++ = i < rows ? a[i * k + p] : 0;
    }
}

static void multiply(const sc_product *product, const double *a, const double *b, double *c)
{
    int64_t m = product->m.size, n = product->n.size, k = product->k.size;
    for (int64_t p = 0; p < k; p += BLOCK_K) {
        int64_t depth = least(BLOCK_K, k - p);
        for (int64_t j = 0; j < n; j += BLOCK_N) {
            int64_t width = least(BLOCK_N, n - j);
            pack_columns(product->panel_b, b + p * n + j, n, depth, width);
            for (int64_t i = 0; i < m; i += TILE_M) {
                int64_t rows = least(TILE_M, m - i);
                pack_rows(product->panel_a, a + i * k + p, k, depth, rows);
                for (int64_t t = 0; t < width; t += TILE_N)
                    multiply_tile(c + i * n + j + t, n, rows, least(TILE_N, width - t), product->panel_a, product->panel_b + t * depth, depth);
            }
        }
    }
}

/* The same without packing, where that would cost more than it saves. */
static void multiply_small(const sc_product *product, const double *a, const double *b, double *c)
{
    int64_t m = product->m.size, n = product->n.size, k = product->k.size;
    for (int64_t i = 0; i < m; i++) {
        for (int64_t p = 0; p < k; p++) {
            for (int64_t j = 0; j < n; j++)
                c[i * n + j] += a[i * k + p] * b[p * n + j];
        }
    }
}

/* One block of memory for what has to be permuted and packed; operands that are in order already are used as they are. */
static bool arrange(sc_eval *eval, sc_product *p)
{
    sc_walk a, b;
    order(&a, (const sc_dims *const[]){&p->batch, &p->m, &p->k}, A);
    order(&b, (const sc_dims *const[]){&p->batch, &p->k, &p->n}, B);
    size_t size_a = is_dense(&a) ? 0 : (size_t)eval->operands[0]->count, size_b = is_dense(&b) ? 0 : (size_t)eval->operands[1]->count;
    size_t size_c = (size_t)eval->results[0].count, depth = (size_t)least(BLOCK_K, p->k.size);
    p->memory = calloc(size_c + size_a + size_b + depth * (TILE_M + BLOCK_N), sizeof *p->memory);
    if (p->memory == NULL)
        return sc_eval_fail(eval, "out of memory");
    p->c = p->memory;
    p->a = size_a == 0 ? eval->operands[0]->data : p->c + size_c;
    p->b = size_b == 0 ? eval->operands[1]->data : p->c + size_c + size_a;
    p->panel_a = p->c + size_c + size_a + size_b;
    p->panel_b = p->panel_a + depth * TILE_M;
    if (size_a != 0)
        copy(&a, p->c + size_c, eval->operands[0]->data, 0);
    if (size_b != 0)
        copy(&b, p->c + size_c + size_a, eval->operands[1]->data, 0);
    return true;
}

bool eval_dot(sc_eval *eval)
{
    sc_product p;
    if (!sort_dims(eval, &p) || !arrange(eval, &p))
        return false;
    int64_t m = p.m.size, n = p.n.size, k = p.k.size;
    for (int64_t i = 0; i < p.batch.size; i++) {
        if (m * n * k < SMALL)
            multiply_small(&p, p.a + i * m * k, p.b + i * k * n, p.c + i * m * n);
        else
            multiply(&p, p.a + i * m * k, p.b + i * k * n, p.c + i * m * n);
    }
    sc_walk c;
    order(&c, (const sc_dims *const[]){&p.batch, &p.m, &p.n}, OUT);
    copy(&c, eval->results[0].data, p.c, 1);
    free(p.memory);
    return true;
}
