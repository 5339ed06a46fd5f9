#include "passes/uses.h"

#include "ir/ops/ops.h"

#include <string.h>

sc_readers sc_find_readers(sc_module *m)
{
    sc_arena *arena = &m->context->arena;
    const uint32_t *uses = sc_count_uses(m);
    sc_readers readers = {.first =
                              sc_arena_array(arena, m->values.count + 1, sizeof *readers.first)};
    for (uint32_t v = 0; v < m->values.count; v++)
        readers.first[v + 1] = readers.first[v] + uses[v];
    readers.list = sc_arena_array(arena, readers.first[m->values.count] + 1, sizeof *readers.list);
    uint32_t *next = sc_arena_array(arena, m->values.count + 1, sizeof *next);
    for (sc_func_id f = 0; f < m->funcs.count; f++) {
        sc_for_each_op (m, f, op) {
            for (uint32_t i = 0; i < m->ops.data[op].operand_count; i++) {
                sc_value v = m->ops.data[op].operands[i];
                readers.list[readers.first[v] + next[v]++] = op;
            }
        }
    }
    return readers;
}

sc_value *sc_new_value_map(sc_module *m, uint32_t *count)
{
    *count = m->values.count;
    sc_value *map = sc_arena_array(&m->context->arena, *count, sizeof *map);
    memset(map, 0xff, *count * sizeof *map);
    return map;
}

uint32_t *sc_number_ops(sc_module *m)
{
    uint32_t *position = sc_arena_array(&m->context->arena, m->ops.count, sizeof *position);
    memset(position, 0xff, m->ops.count * sizeof *position);
    for (sc_func_id f = 0; f < m->funcs.count; f++) {
        uint32_t next = 0;
        sc_for_each_op (m, f, op)
            position[op] = next++;
    }
    return position;
}

bool sc_is_stored_copy(const sc_module *m, sc_op_id op)
{
    const sc_op *o = sc_op_at(m, op);
    bool is_view = sc_op_has(o, SC_VIEW), is_cast = sc_op_has(o, SC_CONVERTS);
    if (!is_view && !is_cast)
        return false;
    sc_op_id source = sc_def(m, o->operands[0]);
    const sc_op *from = sc_op_at(m, source);
    bool is_read = sc_op_has(from, SC_STATE_READ);
    if (is_view)
        return is_read && o->chunk != from->chunk;
    return is_read || (sc_op_has(from, SC_VIEW) && sc_is_stored_copy(m, source));
}

void sc_drop_dead(sc_module *m)
{
    uint32_t *uses = sc_count_uses(m);
    for (sc_func_id f = 0; f < m->funcs.count; f++) {
        sc_for_each_op_reverse (m, f, op) {
            const sc_op *o = sc_op_at(m, op);
            bool is_read = (sc_op_traits(o) & SC_EFFECT) != 0;
            for (uint32_t r = 0; r < o->result_count; r++)
                is_read = is_read || uses[o->first_result + r] > 0;
            if (is_read)
                continue;
            for (uint32_t i = 0; i < o->operand_count; i++)
                uses[o->operands[i]]--;
            sc_op_unlink(m, op);
        }
    }
}
