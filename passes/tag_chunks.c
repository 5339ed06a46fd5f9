/* tag-chunks: gives every op of a forward entry its chunk.
 *
 *   %0 = param {name = "tok"}                  %0 = param {name = "tok"}
 *   %2 = gather[V] %0, %1                ->    %3 = use %0                    chunk 0
 *   ..                                         %4 = gather[V] %3, %1          chunk 0
 *   %9 = dot[D] %8, %0                         %9 = use %0                    chunk 3
 *                                              %10 = dot[D] %8, %9            chunk 3
 *
 * An op belongs to the chunk of its place in the model. Inputs, constants and what is computed
 * elementwise from them alone belong to none: each chunk that reads them has them. So do
 * parameters that several chunks read; each of these reads its own view, so that the chunk gets a
 * gradient of its own. Two walks; runs before differentiation, which copies chunks. */
#include "passes/tag_chunks.h"

#include <string.h>

#include "ir/ops/ops.h"

/* What a value is, for its readers in other chunks. */
typedef enum origin {
    COMPUTED, /* by one chunk */
    FREE,     /* of inputs and constants only */
    STORED    /* a parameter, or a view or cast of one */
} origin;

enum { NOT_READ = 0xfffe, BY_SEVERAL = 0xfffd };

typedef struct tagging {
    sc_module *m;
    sc_func_id func;
    const sc_pipeline *pipeline;
    uint8_t *origin;    /* by value: enum origin */
    uint16_t *chunk_of; /* by state: the only chunk that reads the parameter, or as above */
    sc_map own;         /* parameter, view or cast << 32 | chunk -> the chunk's own */
} tagging;

static origin origin_of(const tagging *t, const sc_op *op)
{
    uint32_t traits = sc_op_traits(op);
    if ((traits & SC_PARAMETER) != 0)
        return STORED;
    if ((traits & (SC_EFFECT | SC_STATE_READ | SC_RANDOM)) != 0 && (traits & SC_FROM_OUTSIDE) == 0)
        return COMPUTED;
    if (op->operand_count == 1 && t->origin[op->operands[0]] == STORED &&
        (traits & (SC_VIEW | SC_CONVERTS)) != 0)
        return STORED;
    bool is_free = op->operand_count == 0 || (traits & (SC_ELEMENTWISE | SC_VIEW)) != 0;
    for (uint32_t i = 0; i < op->operand_count; i++)
        is_free = is_free && t->origin[op->operands[i]] == FREE;
    return is_free ? FREE : COMPUTED;
}

/* The parameter behind views and casts. */
static uint32_t state_of(const tagging *t, sc_value value)
{
    const sc_op *op = sc_op_at(t->m, sc_def(t->m, value));
    while ((sc_op_traits(op) & SC_PARAMETER) == 0)
        op = sc_op_at(t->m, sc_def(t->m, op->operands[0]));
    return sc_module_find_state(t->m, sc_op_word(op, SC_ATTR_name));
}

static bool report_order(const tagging *t, const sc_op *op, uint32_t chunk, uint32_t operand_chunk)
{
    sc_arena *arena = &t->m->context->arena;
    sc_report(&t->m->context->diag, SC_D_stage_order, t->pipeline->loc,
              sc_arena_printf(arena, "%u", chunk), sc_arena_printf(arena, "%u", operand_chunk),
              NULL);
    sc_report_note(&t->m->context->diag, op->loc, "this op reads it");
    return false;
}

/* Finds what each value is and the chunk of each op, and which parameters several chunks read. */
static bool find_chunks(tagging *t)
{
    sc_module *m = t->m;
    sc_for_each_op (m, t->func, id) {
        sc_op *op = sc_op_at(m, id);
        origin what = origin_of(t, op);
        for (uint32_t r = 0; r < op->result_count; r++)
            t->origin[op->first_result + r] = (uint8_t)what;
        if (what != COMPUTED)
            continue;
        op->chunk = (uint16_t)t->pipeline->chunk_of[id];
        for (uint32_t i = 0; i < op->operand_count; i++) {
            uint16_t *reader;
            sc_value value = op->operands[i];
            uint16_t chunk = sc_op_at(m, sc_def(m, value))->chunk;
            if (t->origin[value] == COMPUTED && chunk > op->chunk)
                return report_order(t, op, op->chunk, chunk);
            if (t->origin[value] != STORED)
                continue;
            reader = &t->chunk_of[state_of(t, value)];
            *reader = *reader == NOT_READ || *reader == op->chunk ? op->chunk : BY_SEVERAL;
        }
    }
    return true;
}

/* The chunk's own copy of a value that comes from a parameter, before `reader`. */
static sc_value own_copy(tagging *t, sc_value value, sc_op_id reader)
{
    sc_module *m = t->m;
    uint16_t chunk = sc_op_at(m, reader)->chunk;
    bool is_new;
    uint32_t *known = sc_map_insert(&t->own, (uint64_t)value << 32 | chunk, SC_NONE, &is_new);
    if (!is_new)
        return *known;
    const sc_op op = *sc_op_at(m, sc_def(m, value));
    bool is_parameter = (sc_op_traits(&op) & SC_PARAMETER) != 0;
    sc_value operand = is_parameter ? value : own_copy(t, op.operands[0], reader);
    sc_type type = m->values.data[value].type;
    sc_op_id made =
        sc_op_new(m, t->func, reader, is_parameter ? SC_OP_use : (sc_op_kind)op.kind, &operand, 1,
                  op.attrs, is_parameter ? 0 : op.attr_count, &type, 1, sc_def(m, value));
    sc_op_at(m, made)->chunk = chunk;
    sc_value copy = sc_result(m, made, 0);
    m->values.data[copy].path = is_parameter ? 0 : m->values.data[value].path;
    return *sc_map_insert(&t->own, (uint64_t)value << 32 | chunk, copy, NULL) = copy;
}

/* Tags parameters of one chunk, their views and casts; gives the others' readers their own. */
static void share_parameters(tagging *t)
{
    sc_module *m = t->m;
    uint32_t values = m->values.count, ops = m->ops.count;
    sc_for_each_op (m, t->func, id) {
        if (id >= ops)
            continue;
        const sc_op op = *sc_op_at(m, id);
        if (op.result_count == 1 && t->origin[op.first_result] == STORED) {
            uint16_t reader = t->chunk_of[state_of(t, op.first_result)];
            if (reader != BY_SEVERAL && reader != NOT_READ)
                sc_op_at(m, id)->chunk = reader;
            continue;
        }
        for (uint32_t i = 0; i < op.operand_count; i++) {
            sc_value value = op.operands[i];
            if (value < values && op.chunk != SC_NO_CHUNK && t->origin[value] == STORED &&
                t->chunk_of[state_of(t, value)] == BY_SEVERAL)
                op.operands[i] = own_copy(t, value, id);
        }
    }
}

bool sc_tag_chunks(sc_module *m, sc_func_id func, const sc_pipeline *pipeline)
{
    sc_arena *arena = &m->context->arena;
    tagging t = {.m = m, .func = func, .pipeline = pipeline, .own = {.arena = arena}};
    t.origin = sc_arena_array(arena, m->values.count, sizeof *t.origin);
    t.chunk_of = sc_arena_array(arena, m->state.count, sizeof *t.chunk_of);
    for (uint32_t s = 0; s < m->state.count; s++)
        t.chunk_of[s] = NOT_READ;
    if (!find_chunks(&t))
        return false;
    share_parameters(&t);
    return true;
}
