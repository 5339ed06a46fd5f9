/* Mutations of copies between device and host memory. */
#include "edit.h"
#include "mutation.h"

/* The copy that reads, or writes, a state of the update. */
static sc_op_id copy_in_of(const sc_module *m, const char *state)
{
    sc_op_id read = find_read(m, update_of(m), state);
    return read == SC_NONE ? SC_NONE
                           : find_reader(m, update_of(m), result_of(m, read), SC_OP_to_device);
}

bool copy_back_left_out(sc_module *m, sc_func_id func)
{
    (void)func;
    sc_op_id read = find_read(m, update_of(m), "head.m"),
             write = find_write(m, update_of(m), "head.m");
    return read != SC_NONE && write != SC_NONE && read_as_operand(m, write, 0, result_of(m, read));
}

bool copy_back_of_another_state(sc_module *m, sc_func_id func)
{
    (void)func;
    sc_op_id one = find_write(m, update_of(m), "head.m"),
             other = find_write(m, update_of(m), "head.v");
    return one != SC_NONE && other != SC_NONE &&
           exchange_values(m, update_of(m), operand_of(m, one, 0), operand_of(m, other, 0));
}

bool state_read_in_host_memory(sc_module *m, sc_func_id func)
{
    (void)func;
    sc_op_id copy = copy_in_of(m, "head.m");
    return copy != SC_NONE &&
           bypass(m, update_of(m), copy,
                  operand_index(m, copy, result_of(m, find_read(m, update_of(m), "head.m"))));
}

bool state_written_from_device_memory(sc_module *m, sc_func_id func)
{
    (void)func;
    sc_op_id write = find_write(m, update_of(m), "head.m");
    if (write == SC_NONE)
        return false;
    sc_op_id out = def_of(m, operand_of(m, write, 0));
    uint32_t result = operand_of(m, write, 0) - sc_result(m, out, 0);
    return read_as_operand(m, write, 0, operand_of(m, out, result));
}

bool staging_area_filled_too_early(sc_module *m, sc_func_id func)
{
    (void)func;
    sc_op_id first = copy_in_of(m, "tok.m"), second = copy_in_of(m, "layers[0].ffn.w1.m");
    if (first == SC_NONE || second == SC_NONE)
        return false;
    sc_op_set_attr(m, second, *sc_op_attr(sc_op_at(m, first), SC_ATTR_staging));
    return true;
}

bool activation_read_in_host_memory(sc_module *m, sc_func_id func)
{
    sc_op_id copy = find_in_phase(m, func, SC_OP_to_device, NULL, "backward");
    return copy != SC_NONE && bypass(m, func, copy, 0);
}

/* Operands of one type. */
bool activations_exchanged(sc_module *m, sc_func_id func)
{
    sc_op_id copy = find_in_phase(m, func, SC_OP_to_device, NULL, "backward");
    if (copy == SC_NONE)
        return false;
    for (uint32_t i = 1; i < sc_op_at(m, copy)->operand_count; i++) {
        for (uint32_t k = 0; k < i; k++) {
            if (m->values.data[operand_of(m, copy, i)].type ==
                m->values.data[operand_of(m, copy, k)].type)
                return swap_operands(m, copy, k, i);
        }
    }
    return false;
}
