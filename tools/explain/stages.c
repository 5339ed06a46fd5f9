#include "tools/explain/stages.h"

#include "ir/ops/ops.h"

static void add_stage(sc_arena *arena, sc_stage_list *list, uint32_t stage)
{
    uint32_t at = list->count;
    while (at > 0 && list->data[at - 1] > stage)
        at--;
    if (at > 0 && list->data[at - 1] == stage)
        return;
    sc_vec_push(arena, list);
    for (uint32_t i = list->count - 1; i > at; i--)
        list->data[i] = list->data[i - 1];
    list->data[at] = stage;
}

sc_stage_list *sc_find_stages(const sc_module *m)
{
    sc_arena *arena = &m->context->arena;
    if (!sc_module_is_cut(m))
        return NULL;
    sc_stage_list *by_state = sc_arena_array(arena, m->state.count + 1u, sizeof *by_state);
    for (sc_func_id f = 0; f < m->funcs.count; f++) {
        uint32_t stage = m->funcs.data[f].stage;
        if (stage == SC_ALL_STAGES_RUN)
            continue;
        sc_for_each_op (m, f, id) {
            const sc_op *op = sc_op_at(m, id);
            if ((sc_op_traits(op) & (SC_STATE_READ | SC_STATE_WRITE)) == 0)
                continue;
            uint32_t state = sc_module_find_state(m, sc_op_word(op, SC_ATTR_name));
            if (state != SC_NONE)
                add_stage(arena, &by_state[state], stage);
        }
    }
    return by_state;
}

void sc_print_stages(const sc_stage_list *list, sc_strbuf *out)
{
    for (uint32_t i = 0; i < list->count; i++)
        sc_strbuf_printf(out, "%s%u",
                         i > 0              ? ", "
                         : list->count == 1 ? ", stage "
                                            : ", stages ",
                         list->data[i]);
}

json_t *sc_stages_json(const sc_stage_list *list)
{
    json_t *array = json_array();
    for (uint32_t i = 0; i < list->count; i++)
        json_array_append_new(array, json_integer(list->data[i]));
    return array;
}
