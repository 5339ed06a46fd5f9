/* Mutations of train steps that are cut into pipeline stages: of what stages send and keep, of what
 * they exchange in the update, and of the order of their calls. */
#include <string.h>

#include "edit.h"
#include "mutation.h"

/* ---- finding ---- */
static sc_func_id func_named(const sc_module *m, const char *name)
{
    for (sc_func_id f = 0; f < m->funcs.count; f++) {
        if (strcmp(sc_text(m->context, m->funcs.data[f].name), name) == 0)
            return f;
    }
    return SC_NONE;
}

static bool is_named(const sc_module *m, sc_op_id op, const char *beginning)
{
    sc_sym name = sc_op_word(sc_op_at(m, op), SC_ATTR_name);
    return name != 0 && strncmp(sc_text(m->context, name), beginning, strlen(beginning)) == 0;
}

/* An op of a kind whose name begins so, in a function of a stage. */
static sc_op_id find_on_stage(const sc_module *m, uint32_t stage, sc_op_kind kind,
                              const char *beginning)
{
    for (sc_func_id f = 0; f < m->funcs.count; f++) {
        if (m->funcs.data[f].stage != stage)
            continue;
        sc_for_each_op (m, f, op) {
            if (sc_op_at(m, op)->kind == kind && is_named(m, op, beginning))
                return op;
        }
    }
    return SC_NONE;
}

/* The next read of a value of the same type that a function left in a slot. */
static sc_op_id next_slot_of(const sc_module *m, sc_op_id read, const char *func)
{
    sc_type type = m->values.data[sc_result(m, read, 0)].type;
    for (sc_op_id next = sc_op_at(m, read)->next; next != SC_NONE; next = sc_op_at(m, next)->next) {
        const sc_op *op = sc_op_at(m, next);
        if (op->kind == SC_OP_state_read &&
            strstr(sc_text(m->context, sc_op_word(op, SC_ATTR_name)), func) != NULL &&
            m->values.data[sc_result(m, next, 0)].type == type)
            return next;
    }
    return SC_NONE;
}

static bool drop(sc_module *m, sc_op_id op)
{
    if (op == SC_NONE)
        return false;
    sc_op_unlink(m, op);
    return true;
}

/* The n-th call of a function in the schedule; SC_NONE: there is none. */
static uint32_t find_call(const sc_module *m, const char *name, uint32_t n)
{
    for (uint32_t i = 0; i < m->schedule.count; i++) {
        if (m->schedule.data[i].func == func_named(m, name) && n-- == 0)
            return i;
    }
    return SC_NONE;
}

static bool exchange_calls(sc_module *m, uint32_t a, uint32_t b)
{
    if (a == SC_NONE || b == SC_NONE)
        return false;
    const sc_call call = m->schedule.data[a];
    m->schedule.data[a] = m->schedule.data[b];
    m->schedule.data[b] = call;
    return true;
}

/* ---- what stages send and keep ---- */
bool slot_of_another_value(sc_module *m, sc_func_id func)
{
    (void)func;
    sc_op_id read = find_on_stage(m, 1, SC_OP_state_read, "relu@F1");
    return read != SC_NONE && set_word(m, read, SC_ATTR_name, "relu.2@F1");
}

bool slot_not_written(sc_module *m, sc_func_id func)
{
    (void)func;
    return drop(m, find_on_stage(m, 1, SC_OP_state_write, "relu@F1"));
}

bool slot_between_passes_exchanged(sc_module *m, sc_func_id func)
{
    (void)func;
    sc_func_id weights = func_named(m, "W1");
    if (weights == SC_NONE)
        return false;
    sc_for_each_op (m, weights, op) {
        bool is_left =
            sc_op_at(m, op)->kind == SC_OP_state_read &&
            strstr(sc_text(m->context, sc_op_word(sc_op_at(m, op), SC_ATTR_name)), "@I1") != NULL;
        sc_op_id next = is_left ? next_slot_of(m, op, "@I1") : SC_NONE;
        if (next != SC_NONE)
            return exchange_words(m, op, next, SC_ATTR_name);
    }
    return false;
}

bool chunks_of_one_stage_skip_one(sc_module *m, sc_func_id func)
{
    (void)func;
    sc_op_id read = find_read(m, func_named(m, "F2"), "layers[1].out@F1"),
             other = find_on_stage(m, 1, SC_OP_recv, "layers[0].out@F0");
    return read != SC_NONE && other != SC_NONE &&
           read_as_operand(m, find_write(m, func_named(m, "F1"), "layers[1].out@F1"), 0,
                           result_of(m, other));
}

bool sent_another_value(sc_module *m, sc_func_id func)
{
    (void)func;
    sc_op_id first = find_on_stage(m, 0, SC_OP_send, "loss.x@F0"),
             last = find_on_stage(m, 0, SC_OP_send, "layers[1].out@F0");
    return first != SC_NONE && last != SC_NONE &&
           read_as_operand(m, last, 0, operand_of(m, first, 0));
}

bool sends_exchanged(sc_module *m, sc_func_id func)
{
    (void)func;
    return exchange_words(m, find_on_stage(m, 0, SC_OP_send, "loss.x@F0"),
                          find_on_stage(m, 0, SC_OP_send, "layers[1].out@F0"), SC_ATTR_name);
}

bool own_value_for_received(sc_module *m, sc_func_id func)
{
    (void)func;
    sc_op_id recv = find_on_stage(m, 0, SC_OP_recv, "layers[1].out.grad@B1"),
             other = find_read(m, func_named(m, "B0"), "layers[0].out@F0");
    if (recv == SC_NONE || other == SC_NONE)
        return false;
    sc_op_move(m, other, sc_op_at(m, recv)->next);
    return read_instead(m, func_named(m, "B0"), result_of(m, recv), result_of(m, other), SC_NONE);
}

bool send_dropped(sc_module *m, sc_func_id func)
{
    (void)func;
    return drop(m, find_on_stage(m, 1, SC_OP_send, "layers[1].out.grad@B1"));
}

bool cotangent_of_the_skip_dropped(sc_module *m, sc_func_id func)
{
    (void)func;
    sc_op_id recv = find_on_stage(m, 0, SC_OP_recv, "dot@B1"),
             add = recv == SC_NONE
                       ? SC_NONE
                       : find_reader(m, func_named(m, "B0"), result_of(m, recv), SC_OP_add);
    return add != SC_NONE &&
           read_instead(m, func_named(m, "B0"), result_of(m, add),
                        operand_of(m, add, 1 - operand_index(m, add, result_of(m, recv))), SC_NONE);
}

/* The gather of a value that a stage receives in parts. */
static sc_op_id find_gather(const sc_module *m, const char *func, const char *name)
{
    sc_op_id recv = find_on_stage(m, 1, SC_OP_recv, name);
    return recv == SC_NONE
               ? SC_NONE
               : find_reader(m, func_named(m, func), result_of(m, recv), SC_OP_all_gather);
}

bool parts_exchanged(sc_module *m, sc_func_id func)
{
    (void)func;
    sc_op_id first = find_gather(m, "F1", "loss.x@F0"),
             last = find_gather(m, "F1", "layers[1].out@F0");
    return first != SC_NONE && last != SC_NONE &&
           exchange_values(m, func_named(m, "F1"), operand_of(m, first, 0), operand_of(m, last, 0));
}

bool part_of_another_value_sent(sc_module *m, sc_func_id func)
{
    return find_gather(m, "F1", "loss.x@F0") != SC_NONE && sent_another_value(m, func);
}

bool part_taken_for_the_whole(sc_module *m, sc_func_id func)
{
    (void)func;
    sc_op_id gather = find_gather(m, "F1", "layers[1].out@F0");
    return gather != SC_NONE && claim(m, func_named(m, "F1"), gather);
}

/* ---- the order of calls ---- */
bool weights_before_inputs(sc_module *m, sc_func_id func)
{
    (void)func;
    return exchange_calls(m, find_call(m, "I1", 0), find_call(m, "W1", 0));
}

bool forward_before_it_is_sent(sc_module *m, sc_func_id func)
{
    (void)func;
    return exchange_calls(m, find_call(m, "F0", 0), find_call(m, "F1", 0));
}

bool backward_of_another_micro_batch(sc_module *m, sc_func_id func)
{
    (void)func;
    uint32_t call = find_call(m, "B1", 1);
    if (call == SC_NONE)
        return false;
    m->schedule.data[call].microbatch = 0;
    return true;
}

bool forward_of_another_micro_batch(sc_module *m, sc_func_id func)
{
    (void)func;
    uint32_t call = find_call(m, "F1", 1);
    if (call == SC_NONE)
        return false;
    m->schedule.data[call].microbatch = 0;
    return true;
}

bool stage_not_updated(sc_module *m, sc_func_id func)
{
    (void)func;
    sc_op_id write = find_on_stage(m, 0, SC_OP_state_write, "layers[0].w1.m");
    if (write == SC_NONE)
        return false;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < m->schedule.count; i++) {
        if (m->schedule.data[i].func != sc_op_at(m, write)->func)
            m->schedule.data[kept++] = m->schedule.data[i];
    }
    m->schedule.count = kept;
    return true;
}

/* ---- the update ---- */
/* The sum of the gradients of the tied parameter on stage 0, and which of its operands came. */
static sc_op_id tied_sum(const sc_module *m, uint32_t *received)
{
    sc_op_id recv = find_on_stage(m, 0, SC_OP_recv, "tok.grad@1");
    if (recv == SC_NONE)
        return SC_NONE;
    sc_op_id add = find_reader(m, sc_op_at(m, recv)->func, result_of(m, recv), SC_OP_add);
    *received = operand_index(m, add, result_of(m, recv));
    return add;
}

bool tied_gradient_not_added(sc_module *m, sc_func_id func)
{
    (void)func;
    uint32_t received = 0;
    sc_op_id add = tied_sum(m, &received);
    return add != SC_NONE && read_instead(m, sc_op_at(m, add)->func, result_of(m, add),
                                          operand_of(m, add, 1 - received), SC_NONE);
}

bool tied_gradient_added_twice(sc_module *m, sc_func_id func)
{
    (void)func;
    uint32_t received = 0;
    sc_op_id add = tied_sum(m, &received);
    return add != SC_NONE && scale_operand(m, add, received, 2);
}

bool own_gradient_for_received(sc_module *m, sc_func_id func)
{
    (void)func;
    uint32_t received = 0;
    sc_op_id add = tied_sum(m, &received);
    return add != SC_NONE && read_as_operand(m, add, received, operand_of(m, add, 1 - received));
}

bool shared_parameter_stepped_once(sc_module *m, sc_func_id func)
{
    (void)func;
    sc_op_id write = SC_NONE;
    for (sc_func_id f = 0; f < m->funcs.count && write == SC_NONE; f++)
        write = m->funcs.data[f].stage == 1 ? find_write(m, f, "tok") : SC_NONE;
    return drop(m, write);
}

bool accumulators_kept_on_a_stage(sc_module *m, sc_func_id func)
{
    (void)func;
    sc_op_id moment = find_on_stage(m, 0, SC_OP_state_write, "layers[0].w1.m");
    return moment != SC_NONE &&
           drop(m, find_write(m, sc_op_at(m, moment)->func, "layers[0].w1.grad"));
}

bool squares_of_a_stage_dropped(sc_module *m, sc_func_id func)
{
    (void)func;
    sc_op_id recv = find_on_stage(m, 1, SC_OP_recv, "add@U");
    if (recv == SC_NONE)
        return false;
    sc_op_id add = find_reader(m, sc_op_at(m, recv)->func, result_of(m, recv), SC_OP_add);
    return add != SC_NONE &&
           read_instead(m, sc_op_at(m, add)->func, result_of(m, add),
                        operand_of(m, add, 1 - operand_index(m, add, result_of(m, recv))), SC_NONE);
}

/* The reduction of a gradient of stage 0 alone. */
static sc_op_id stage_reduction(const sc_module *m, sc_op_kind kind)
{
    for (sc_func_id f = 0; f < m->funcs.count; f++) {
        sc_op_id op = m->funcs.data[f].stage == 0 ? find_op(m, f, kind, NULL) : SC_NONE;
        if (op != SC_NONE)
            return op;
    }
    return SC_NONE;
}

bool stage_does_not_reduce(sc_module *m, sc_func_id func)
{
    (void)func;
    sc_op_id reduction = stage_reduction(m, SC_OP_all_reduce);
    return reduction != SC_NONE && bypass(m, sc_op_at(m, reduction)->func, reduction, 0);
}

bool stage_reduces_twice(sc_module *m, sc_func_id func)
{
    (void)func;
    sc_op_id reduction = stage_reduction(m, SC_OP_all_reduce);
    return reduction != SC_NONE && reduce_twice(m, sc_op_at(m, reduction)->func, reduction, 0);
}

bool stage_gathers_another_parameter(sc_module *m, sc_func_id func)
{
    (void)func;
    return exchange_words(m, find_write(m, func_named(m, "begin0"), "layers[0].w1.gathered"),
                          find_write(m, func_named(m, "begin0"), "layers[1].w1.gathered"),
                          SC_ATTR_name);
}

bool stage_does_not_gather(sc_module *m, sc_func_id func)
{
    (void)func;
    uint32_t call = find_call(m, "begin1", 0);
    if (call == SC_NONE)
        return false;
    for (uint32_t i = call; i + 1 < m->schedule.count; i++)
        m->schedule.data[i] = m->schedule.data[i + 1];
    m->schedule.count--;
    return true;
}
