/* Routed products: from a descriptor; by definition, as a kernel, where there is none. */
#include <string.h>

#include "codegen/program/internal.h"
#include "codegen/routed/routed.h"

/* What its text does not show: the message of its check. */
static void add_hidden(const sc_routed_desc *desc, bool comments, sc_strbuf *out)
{
    if (!comments)
        sc_strbuf_add(out, desc->check);
}

static void emit(sc_generator *g, const void *what, const char *name, bool comments, sc_strbuf *out,
                 sc_helper_set *helpers, sc_cuda_code *code)
{
    const sc_routed_desc *desc = what;
    sc_routed_emit(g->m->context, desc, name, out, helpers);
    code->scratch_bytes = desc->scratch_bytes;
    add_hidden(desc, comments, out);
}

static void emit_cuda(sc_generator *g, const void *what, const char *name, bool comments,
                      sc_strbuf *out, sc_helper_set *helpers, sc_cuda_code *code)
{
    sc_routed_emit_cuda(g->m->context, what, name, out, helpers, code);
    add_hidden(what, comments, out);
}

static const sc_generator_printers printers = {emit, emit_cuda};

/* Marks the kernel that the last instruction calls as the form by definition. */
static bool generate_simply(sc_generator *g, sc_op_id op, const char *why)
{
    if (!sc_generate_kernel(g, &op, 1))
        return false;
    uint32_t index = g->func.instrs.data[g->func.instrs.count - 1].index;
    g->out->kernels.data[index].why_simple = why;
    g->kernels.data[index].simple = true;
    return true;
}

static void describe_kernel(sc_generator *g, const sc_op *op, const sc_routed_desc *desc,
                            sc_image_kernel *kernel)
{
    kernel->arg_count = SC_ROUTED_ARRAYS + 1;
    kernel->args = sc_arena_array(g->arena, kernel->arg_count, sizeof *kernel->args);
    for (uint32_t i = 0; i < SC_ROUTED_ARRAYS; i++) {
        const sc_type_info *type =
            sc_type_of(g->m, i < SC_ROUTED_OUT ? op->operands[i] : op->first_result);
        int64_t bytes = sc_type_local_bytes(g->m, type);
        kernel->args[i] =
            (sc_image_arg){bytes, i < SC_ROUTED_OUT ? SC_ACCESS_IN : SC_ACCESS_OUT, bytes};
    }
    kernel->args[SC_ROUTED_ARRAYS] =
        (sc_image_arg){desc->scratch_bytes, SC_ACCESS_OUT, desc->scratch_bytes};
    kernel->param_count = desc->has_offset ? 1 : 0;
    kernel->check_count = 1;
    kernel->checks = sc_arena_array(g->arena, 1, sizeof *kernel->checks);
    kernel->checks[0] = sc_arena_copy_text(g->arena, desc->check, strlen(desc->check));
}

bool sc_generate_routed(sc_generator *g, sc_op_id op)
{
    const sc_op *o = sc_op_at(g->m, op);
    sc_routed_desc desc;
    const char *why = sc_routed_describe(g->m, op, &desc);
    if (why != NULL)
        return generate_simply(g, op, why);
    sc_generator_limit_ids(g, o->operands[SC_ROUTED_IDS], desc.below);
    sc_image_ref given[SC_ROUTED_ARRAYS];
    uint32_t count = 0, index;
    bool is_new;
    for (uint32_t i = 0; i < o->operand_count; i++)
        given[count++] = sc_generator_read(g, o->operands[i]);
    given[count++] = sc_generator_write(g, o->first_result, SC_BUFFER_ACT, false);
    sc_generated_kernel shown = {.title = sc_ops[o->kind].name};
    sc_generator_emit(g, &printers, &desc, &shown, &index, &is_new);
    const sc_image_ref *args = sc_generator_add_scratch(g, index, given, &count, "routed");
    if (is_new) {
        describe_kernel(g, o, &desc, &g->kernels.data[index]);
        g->out->kernels.data[index].flops = sc_op_flops(g->m, o, sc_type_local_size);
    }
    sc_image_instr *instr = sc_generator_instr(g, SC_INSTR_KERNEL, op, index, args, count);
    instr->param_count = desc.has_offset ? 1 : 0;
    instr->params = sc_arena_array(g->arena, 1, sizeof *instr->params);
    instr->params[0] = desc.first;
    return true;
}
