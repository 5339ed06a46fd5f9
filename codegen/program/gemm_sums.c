/* Sums fused into matmuls. The gradient of a bias sums a cotangent over the same dims that the
 * gradient of the weights contracts, and that matmul reads the cotangent anyway.
 *
 *     %3 = cast %2                                (a kernel of its own: %2 is widened and summed)
 *     %4 "b.grad" = sum[B, S] %3
 *     %5 "w.grad" = dot[B, S] %1, %2              ->  gemm .. sum_b
 *
 * Such a sum is not emitted as a unit: it waits for the matmul, if nothing reads it before, and
 * becomes a step of it (SC_GEMM_SUM_B) if the target's GEMM library supports that, else a kernel
 * after it. The rest of its unit, such as adding it to other sums, follows. On CPUs sums do not
 * wait: a kernel is as fast as packing would be. */
#include <string.h>

#include "codegen/lower/internal.h"
#include "codegen/program/internal.h"

/* A contraction that reads a value; `next` links those of the same value. */
typedef struct reading {
    sc_op_id dot;
    uint32_t operand, next;
} reading;

typedef struct search {
    sc_generator *g;
    uint32_t *first_matmul; /* by root: 1 + index into matmuls */
    SC_VEC(reading) matmuls;
    uint32_t *first_read; /* by root: the first unit other than the sum that reads it */
} search;

/* True if the types have equal local sizes position by position, whatever their dims' names. */
static bool same_places(const sc_module *m, const sc_type_info *a, const sc_type_info *b)
{
    bool same = a->rank == b->rank;
    for (uint32_t i = 0; same && i < a->rank; i++)
        same = sc_type_local_size(m, a, i) == sc_type_local_size(m, b, i);
    return same;
}

static bool is_sum(const sc_op *op)
{
    const sc_lower_row *row = &sc_lower_rows[op->kind];
    return (sc_ops[op->kind].fuse & SC_FUSE_REDUCE) != 0 && row->node == SC_NODE_add;
}

/* True for ops that pass on every element exactly, at the same position. */
static bool passes_on(const sc_module *m, const sc_op *op)
{
    sc_dtype from = sc_type_of(m, op->operands[0])->dtype,
             to = sc_type_of(m, op->first_result)->dtype;
    bool widens = (sc_op_traits(op) & SC_CONVERTS) != 0 && sc_dtype_is_float(from) &&
                  (from == to || sc_dtype_widens(from, to));
    return ((sc_op_traits(op) & SC_VIEW) != 0 || widens) &&
           same_places(m, sc_type_of(m, op->operands[0]), sc_type_of(m, op->first_result));
}

/* True if the ops after the sum handle no more elements than the sum has, and none that the unit
 * computed before the sum. */
static bool only_finishes(const sc_module *m, const sc_op_id *ops, uint32_t count, uint32_t sum)
{
    int64_t elements =
        sc_type_local_elements(m, sc_type_of(m, sc_op_at(m, ops[sum])->first_result));
    for (uint32_t i = sum + 1; i < count; i++) {
        const sc_op *op = sc_op_at(m, ops[i]);
        for (uint32_t o = 0; o < op->operand_count; o++) {
            bool is_apart = sc_type_local_elements(m, sc_type_of(m, op->operands[o])) <= elements;
            for (uint32_t j = 0; is_apart && j < sum; j++)
                is_apart = sc_def(m, op->operands[o]) != ops[j];
            if (!is_apart)
                return false;
        }
    }
    return true;
}

/* The root of what a unit sums before it does anything else, and the index of the sum; SC_NONE for
 * other units. */
static sc_value summed_root(const sc_module *m, const sc_generator_func *f, const sc_op_id *ops,
                            uint32_t count, uint32_t *out_sum)
{
    uint32_t at = 0;
    while (at < count && !is_sum(sc_op_at(m, ops[at])))
        at++;
    *out_sum = at;
    if (at == count || !only_finishes(m, ops, count, at))
        return SC_NONE;
    const sc_op *sum = sc_op_at(m, ops[at]);
    sc_value value = sum->operands[0];
    for (uint32_t i = at; i-- > 0;) {
        const sc_op *op = sc_op_at(m, ops[i]);
        if (op->result_count != 1 || op->first_result != value || f->escapes[value] ||
            !passes_on(m, op))
            return SC_NONE;
        value = op->operands[0];
    }
    sc_value root = f->root[value];
    return same_places(m, sc_type_of(m, root), sc_type_of(m, sum->operands[0])) ? root : SC_NONE;
}

/* True if the dot contracts exactly the dims of its operand that the sum reduces. */
static bool reduces_alike(const sc_module *m, const sc_op *dot, uint32_t operand, const sc_op *sum)
{
    const sc_type_info *of_dot = sc_type_of(m, dot->operands[operand]),
                       *of_sum = sc_type_of(m, sum->operands[0]);
    const sc_type_info *matmul = sc_type_of(m, dot->first_result),
                       *total = sc_type_of(m, sum->first_result);
    bool alike = same_places(m, of_dot, of_sum);
    for (uint32_t i = 0; alike && i < of_sum->rank; i++)
        alike = (sc_type_find_dim(matmul, of_dot->dims[i].dim) < 0) ==
                (sc_type_find_dim(total, of_sum->dims[i].dim) < 0);
    return alike;
}

static void find_matmuls(search *s)
{
    sc_generator *g = s->g;
    sc_for_each_op (g->m, g->func.id, op) {
        const sc_op *o = sc_op_at(g->m, op);
        for (uint32_t i = 0; i < o->operand_count; i++) {
            sc_value root = g->func.root[o->operands[i]];
            uint32_t *first = &s->first_read[root], own = g->func.unit_of[sc_def(g->m, root)];
            *first = g->func.unit_of[op] < *first && g->func.unit_of[op] != own
                         ? g->func.unit_of[op]
                         : *first;
            if ((sc_ops[o->kind].fuse & SC_FUSE_CONTRACT) == 0)
                continue;
            *sc_vec_push(g->arena, &s->matmuls) = (reading){op, i, s->first_matmul[root]};
            s->first_matmul[root] = s->matmuls.count;
        }
    }
}

/* The first other unit that reads any of the unit's results. */
static uint32_t first_wanted(const search *s, const sc_op_id *ops, uint32_t count)
{
    uint32_t first = UINT32_MAX;
    for (uint32_t i = 0; i < count; i++) {
        const sc_op *op = sc_op_at(s->g->m, ops[i]);
        for (uint32_t r = 0; r < op->result_count; r++) {
            uint32_t read = s->first_read[op->first_result + r];
            first = read < first ? read : first;
        }
    }
    return first;
}

static void look_at(search *s, const sc_op_id *ops, uint32_t count)
{
    sc_generator *g = s->g;
    uint32_t sum_at, unit = g->func.unit_of[ops[0]];
    sc_value root = summed_root(g->m, &g->func, ops, count, &sum_at);
    if (root == SC_NONE || sc_op_attr(sc_op_at(g->m, ops[0]), SC_ATTR_kernel) == NULL)
        return;
    const sc_op *sum = sc_op_at(g->m, ops[sum_at]);
    for (uint32_t p = s->first_matmul[root]; p != 0; p = s->matmuls.data[p - 1].next) {
        const reading *by = &s->matmuls.data[p - 1];
        if (g->func.fused_sum_of[by->dot] != 0 ||
            first_wanted(s, ops, count) <= g->func.unit_of[by->dot] ||
            !reduces_alike(g->m, sc_op_at(g->m, by->dot), by->operand, sum))
            continue;
        sc_op_id *own = sc_arena_array(g->arena, count, sizeof *own);
        memcpy(own, ops, count * sizeof *own);
        *sc_vec_push(g->arena, &g->func.fused_sums) =
            (sc_fused_sum){.ops = own, .count = count, .sum = sum_at, .operand = by->operand};
        g->func.fused_sum_of[by->dot] = g->func.fused_sums.count;
        g->func.is_fused_sum[unit] = true;
        return;
    }
}

void sc_generator_find_fused_sums(sc_generator *g)
{
    const sc_module *m = g->m;
    if (!sc_generator_is_cuda(g))
        return;
    search s = {.g = g,
                .first_matmul = sc_arena_array(g->arena, m->values.count, sizeof *s.first_matmul)};
    s.first_read = sc_arena_array(g->arena, m->values.count, sizeof *s.first_read);
    memset(s.first_read, 0xff, m->values.count * sizeof *s.first_read);
    find_matmuls(&s);
    if (s.matmuls.count == 0)
        return;
    sc_op_id *ops = sc_arena_array(g->arena, m->ops.count, sizeof *ops);
    uint32_t count = 0;
    sc_for_each_op (m, g->func.id, op) {
        if (count > 0 && g->func.unit_of[op] != g->func.unit_of[ops[0]]) {
            look_at(&s, ops, count);
            count = 0;
        }
        ops[count++] = op;
    }
    if (count > 0)
        look_at(&s, ops, count);
}

bool sc_generator_add_fused_sum(sc_generator *g, sc_op_id dot, sc_contraction *c,
                                sc_value *out_value)
{
    if (g->func.fused_sum_of[dot] == 0)
        return false;
    const sc_fused_sum *fused_sum = &g->func.fused_sums.data[g->func.fused_sum_of[dot] - 1];
    const sc_op *sum = sc_op_at(g->m, fused_sum->ops[fused_sum->sum]);
    *out_value = sum->first_result;
    return sc_contract_add_sum(g->m, c, (sc_gemm_operand)fused_sum->operand,
                               sc_type_of(g->m, sc_op_at(g->m, dot)->operands[fused_sum->operand]),
                               sc_type_of(g->m, sum->operands[0]),
                               sc_type_of(g->m, sum->first_result));
}

bool sc_generator_leave_fused_sum(sc_generator *g, sc_op_id dot)
{
    sc_fused_sum *fused_sum = g->func.fused_sum_of[dot] == 0
                                  ? NULL
                                  : &g->func.fused_sums.data[g->func.fused_sum_of[dot] - 1];
    if (fused_sum == NULL || fused_sum->is_done)
        return true;
    fused_sum->is_done = true;
    if (!fused_sum->is_added)
        return sc_generate_kernel(g, fused_sum->ops, fused_sum->count);
    for (uint32_t i = 0; i <= fused_sum->sum; i++)
        sc_op_drop_attr(g->m, fused_sum->ops[i], SC_ATTR_kernel);
    g->func.escapes[sc_op_at(g->m, fused_sum->ops[fused_sum->sum])->first_result] = true;
    uint32_t left = fused_sum->count - fused_sum->sum - 1;
    return left == 0 || sc_generate_kernel(g, fused_sum->ops + fused_sum->sum + 1, left);
}
