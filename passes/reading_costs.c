/* The sources of a value are what it is computed from by elementwise ops, as far as those are
 * cheap:
 *
 *   %1 = dot ..          : bf16[A, B]     2 bytes an element
 *   %2 = cast %1         : f32[A, B]      2, those of %1, instead of 4
 *   %3 = silu %2         : f32[A, B]      2 where functions are cheap, else 4: it is stored
 *   %4 = mul %3, %5      : f32[A, B]      4: 2 of %1, 2 of what %5 was cast from
 *
 * Operands of at most an eighth of the result's elements cost nothing: caches hold them. A source
 * that two operands share counts twice. */
#include "passes/reading_costs.h"

#include "ir/ops/ops.h"

static int64_t elements_of(const sc_module *m, sc_value value)
{
    return sc_type_local_elements(m, sc_type_of(m, value));
}

static int64_t own_bytes(const sc_module *m, sc_value value)
{
    return elements_of(m, value) * sc_dtypes[sc_type_of(m, value)->dtype].bytes;
}

enum { MOST_FUNCTIONS = 4 }; /* of a value that is recomputed: a chain of them ends somewhere */

/* True for an operand that is no small one beside the result, and no repetition of another. */
static bool counts(const sc_module *m, const sc_op *op, uint32_t operand)
{
    for (uint32_t j = 0; j < operand; j++) {
        if (op->operands[j] == op->operands[operand])
            return false;
    }
    return elements_of(m, op->operands[operand]) > elements_of(m, op->first_result) / 8;
}

/* The functions to compute for the op's result. */
static uint32_t count_functions(const sc_reading_costs *costs, const sc_op *op)
{
    uint32_t count = (sc_ops[op->kind].fuse & SC_FUSE_EXPENSIVE) != 0 ? 1 : 0;
    for (uint32_t i = 0; i < op->operand_count; i++)
        count += counts(costs->m, op, i) ? costs->functions[op->operands[i]] : 0;
    return count;
}

bool sc_is_expensive(const sc_reading_costs *costs, const sc_op *op)
{
    bool is_function = (sc_ops[op->kind].fuse & SC_FUSE_EXPENSIVE) != 0;
    if (!costs->cheap_functions || (sc_op_traits(op) & SC_RANDOM) != 0)
        return is_function;
    return count_functions(costs, op) > MOST_FUNCTIONS;
}

/* The bytes that the op reads to compute its first result. */
static int64_t read_bytes(const sc_reading_costs *costs, const sc_op *op)
{
    int64_t size = elements_of(costs->m, op->first_result), sum = 0;
    for (uint32_t i = 0; i < op->operand_count; i++) {
        if (!counts(costs->m, op, i))
            continue;
        int64_t all = costs->bytes[op->operands[i]],
                elements = elements_of(costs->m, op->operands[i]);
        /* of a larger operand, as that of a gather, only as many elements as the result has */
        sum += elements <= size ? all : (int64_t)((double)all / (double)elements * (double)size);
    }
    return sum;
}

bool sc_reads_one(const sc_module *m, const sc_op *op)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < op->operand_count; i++)
        count += counts(m, op, i) ? 1 : 0;
    return count <= 1;
}

bool sc_reads_little(const sc_reading_costs *costs, const sc_op *op)
{
    return read_bytes(costs, op) <= own_bytes(costs->m, op->first_result);
}

static bool is_recomputed(const sc_reading_costs *costs, const sc_op *op)
{
    uint32_t fuse = sc_ops[op->kind].fuse;
    return op->result_count == 1 && (fuse & (SC_FUSE_MAP | SC_FUSE_FREE | SC_FUSE_VIEW)) != 0 &&
           !sc_is_expensive(costs, op);
}

sc_reading_costs sc_find_reading_costs(sc_module *m, sc_func_id func, bool cheap_functions)
{
    sc_reading_costs costs = {.m = m, .cheap_functions = cheap_functions};
    sc_arena *scratch = &m->context->scratch;
    costs.bytes = sc_arena_array(scratch, m->values.count + 1, sizeof *costs.bytes);
    costs.functions = sc_arena_array(scratch, m->values.count + 1, sizeof *costs.functions);
    sc_for_each_op (m, func, id) {
        const sc_op *op = sc_op_at(m, id);
        for (uint32_t r = 0; r < op->result_count; r++) {
            costs.bytes[op->first_result + r] = own_bytes(m, op->first_result + r);
            costs.functions[op->first_result + r] = 0;
        }
        if (!is_recomputed(&costs, op))
            continue;
        int64_t *bytes = &costs.bytes[op->first_result], read = read_bytes(&costs, op);
        *bytes = read < *bytes ? read : *bytes;
        costs.functions[op->first_result] = count_functions(&costs, op);
    }
    return costs;
}
