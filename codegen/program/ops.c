/* Ops outside kernels except collectives, and contractions with their fused ops. */
#include <string.h>

#include "codegen/attention/cuda.h"
#include "codegen/program/gemm.h"
#include "codegen/program/gemm_kernel.h"
#include "codegen/program/internal.h"
#include "program/gemm_blas.h"
#include "program/lookup.h"

/* ---- inputs, states, outputs ---- */
bool sc_generate_input(sc_generator *g, sc_op_id op)
{
    sc_value value = sc_op_at(g->m, op)->first_result;
    const sc_type_info *type = sc_type_of(g->m, value);
    const char *name = sc_text(g->m->context, sc_op_word(sc_op_at(g->m, op), SC_ATTR_name));
    for (uint32_t i = 0; i < g->func.inputs.count; i++) { /* of an earlier chunk of the stage */
        const sc_image_value *input = &g->func.inputs.data[i];
        if (strcmp(input->name, name) != 0)
            continue;
        g->func.place[value] = (sc_image_ref){input->buffer, 0};
        return true;
    }
    uint32_t buffer = sc_generator_buffer(g, SC_BUFFER_ACT, sc_type_local_bytes(g->m, type), name);
    int32_t batch = g->batch_dim == SC_NONE ? -1 : (int32_t)sc_type_find_dim(type, g->batch_dim);
    g->func.place[value] = (sc_image_ref){buffer, 0};
    *sc_vec_push(g->arena, &g->func.inputs) = (sc_image_value){
        .name = name, .tensor = sc_generator_tensor(g, type), .buffer = buffer, .batch_dim = batch};
    return true;
}

bool sc_generate_state_read(sc_generator *g, sc_op_id op)
{
    const sc_op *o = sc_op_at(g->m, op);
    uint32_t state = sc_module_find_state(g->m, sc_op_word(o, SC_ATTR_name));
    g->func.place[o->first_result] = (sc_image_ref){g->state_buffer[state], 0};
    return true;
}

static bool is_written(const sc_generator *g, uint32_t buffer)
{
    sc_for_each_op (g->m, g->func.id, op) {
        const sc_op *o = sc_op_at(g->m, op);
        if ((sc_op_traits(o) & SC_STATE_WRITE) != 0 &&
            g->state_buffer[sc_module_find_state(g->m, sc_op_word(o, SC_ATTR_name))] == buffer)
            return true;
    }
    return false;
}

/* Copies a value out of a state that the function also writes. */
static sc_image_ref moved_out(sc_generator *g, sc_op_id op, sc_value value)
{
    sc_image_ref at = sc_generator_read(g, value);
    if (!is_written(g, at.buffer))
        return at;
    int64_t bytes = sc_type_local_bytes(g->m, sc_type_of(g->m, value));
    sc_image_ref to = {sc_generator_buffer(g, SC_BUFFER_ACT, bytes, sc_generator_name(g, value)),
                       0};
    sc_generator_copy(g, op, at, to);
    return to;
}

/* Reports a value that would be overwritten in its staging area before it is read. */
static bool check_not_staged(sc_generator *g, sc_op_id op, sc_image_ref at)
{
    bool staged = false;
    for (uint32_t k = 0; k < SC_STATE_KINDS; k++) {
        for (uint32_t a = 0; a < SC_STAGING_AREAS; a++)
            staged = staged || g->staging[k][a] == at.buffer + 1;
    }
    if (staged)
        sc_report(&g->m->context->diag, SC_D_ir_invalid, sc_op_at(g->m, op)->loc, "code generation",
                  "a value in a staging area is returned or written to a state", NULL);
    return !staged;
}

/* The old values of all states are read before the first copy: a state whose old value becomes
 * another state's goes through a buffer. Of several writes to one state the last counts. */
bool sc_generate_state_write(sc_generator *g, sc_op_id op)
{
    const sc_op *o = sc_op_at(g->m, op);
    uint32_t state = sc_module_find_state(g->m, sc_op_word(o, SC_ATTR_name)),
             buffer = g->state_buffer[state];
    if (g->func.last_write[state] != op)
        return true;
    sc_image_ref at = sc_generator_read(g, o->operands[0]);
    if (at.buffer == buffer)
        return true;
    if (!check_not_staged(g, op, at))
        return false;
    sc_state_copy copy = {op, moved_out(g, op, o->operands[0]), {buffer, 0}};
    *sc_vec_push(g->arena, &g->func.state_copies) = copy;
    return true;
}

bool sc_generate_return(sc_generator *g, sc_op_id op)
{
    const sc_op *o = sc_op_at(g->m, op);
    for (uint32_t i = 0; i < o->operand_count; i++) {
        sc_value value = o->operands[i];
        if (!check_not_staged(g, op, sc_generator_read(g, value)))
            return false;
        sc_image_ref at =
            g->batches != NULL ? sc_generator_keep_result(g, op, value) : moved_out(g, op, value);
        *sc_vec_push(g->arena, &g->func.outputs) =
            (sc_image_value){.name = sc_generator_name(g, value),
                             .tensor = sc_generator_tensor(g, sc_type_of(g->m, value)),
                             .buffer = at.buffer,
                             .batch_dim = -1};
    }
    return true;
}

bool sc_generate_view(sc_generator *g, sc_op_id op)
{
    const sc_op *o = sc_op_at(g->m, op);
    g->func.place[o->first_result] = sc_generator_read(g, o->operands[0]);
    return true;
}

/* ---- contractions ---- */
typedef struct step_row {
    bool is_step, is_layout;
    sc_gemm_step_kind kind;
} step_row;

static const step_row steps[SC_OP_COUNT] = {
#define STEP(op, kind) [SC_OP_##op] = {true, false, kind},
#define LAYOUT(op)     [SC_OP_##op] = {false, true, 0},
#include "codegen/lower/lowering.def"
};

typedef struct contraction {
    sc_contraction c;
    sc_value result;
    sc_value tensors[SC_GEMM_MAX_STEPS]; /* by step; SC_NONE: none */
    sc_value accumulated;                /* the initial value of c; SC_NONE: none */
} contraction;

static bool same_layout(const sc_module *m, const sc_type_info *a, const sc_type_info *b)
{
    if (a->dtype != b->dtype || a->rank != b->rank)
        return false;
    for (uint32_t i = 0; i < a->rank; i++) {
        if (a->dims[i].dim != b->dims[i].dim ||
            sc_type_local_size(m, a, i) != sc_type_local_size(m, b, i))
            return false;
    }
    return true;
}

/* Stores an intermediate value that has later readers, unless it is the result. */
static bool add_store(sc_generator *g, contraction *c, sc_value value)
{
    uint32_t at = c->c.gemm.step_count;
    if (value == c->result || !g->func.escapes[value])
        return true;
    if (at == SC_GEMM_MAX_STEPS)
        return false;
    c->tensors[at] = value;
    return sc_contract_add_tensor(g->m, &c->c, SC_GEMM_STORE, sc_type_of(g->m, value));
}

static bool add_step(sc_generator *g, contraction *c, const sc_op *op, uint32_t chained)
{
    const sc_module *m = g->m;
    const step_row *row = &steps[op->kind];
    uint32_t at = c->c.gemm.step_count;
    if (row->is_layout)
        return true;
    if (!row->is_step || at == SC_GEMM_MAX_STEPS)
        return false;
    c->tensors[at] = SC_NONE;
    if (op->operand_count == 1)
        return sc_contract_add_activation(&c->c, row->kind);
    sc_value other = op->operands[1 - chained];
    const sc_op *def = sc_op_at(m, sc_def(m, other));
    if ((sc_ops[def->kind].fuse & SC_FUSE_FREE) != 0 && sc_op_attr(def, SC_ATTR_kernel) != NULL)
        return row->kind == SC_GEMM_MUL &&
               sc_contract_add_scale(&c->c, sc_op_number(def, SC_ATTR_value, 1));
    c->tensors[at] = other;
    return sc_contract_add_tensor(m, &c->c, row->kind, sc_type_of(m, other));
}

/* Reads a contraction and its epilogue steps from a kernel's ops. */
static bool read_chain(sc_generator *g, const sc_op_id *ops, uint32_t count, contraction *c)
{
    const sc_module *m = g->m;
    uint32_t i = 0;
    while ((sc_ops[sc_op_at(m, ops[i])->kind].fuse & SC_FUSE_CONTRACT) == 0)
        i++;
    sc_value value = sc_op_at(m, ops[i])->first_result;
    c->result = sc_op_at(m, ops[count - 1])->first_result;
    c->accumulated = SC_NONE;
    if (!sc_contract(m, sc_op_at(m, ops[i]), sc_type_of(m, c->result), &c->c) ||
        !add_store(g, c, value))
        return false;
    for (i++; i < count; i++) {
        const sc_op *op = sc_op_at(m, ops[i]);
        if ((sc_ops[op->kind].fuse & SC_FUSE_FREE) != 0)
            continue;
        uint32_t chained = op->operands[0] == value ? 0 : 1;
        if (op->operands[chained] != value || !add_step(g, c, op, chained))
            return false;
        value = op->first_result;
        if (!add_store(g, c, value))
            return false;
    }
    return value == c->result;
}

/* True if the contraction also reads the tensor's bytes outside its last step, under any name. */
static bool reads_elsewhere(const sc_generator *g, const sc_op *dot, const contraction *c,
                            sc_value tensor)
{
    sc_value root = g->func.root[tensor];
    bool reads = g->func.root[dot->operands[0]] == root || g->func.root[dot->operands[1]] == root;
    for (uint32_t s = 0; s + 1 < c->c.gemm.step_count; s++)
        reads = reads || (c->tensors[s] != SC_NONE && g->func.root[c->tensors[s]] == root);
    return reads;
}

/* A final addition of a tensor that has no other reader accumulates in place in that tensor. */
static void take_over(sc_generator *g, const sc_op *dot, contraction *c)
{
    sc_gemm *gemm = &c->c.gemm;
    uint32_t last = gemm->step_count - 1;
    if (gemm->step_count == 0 || gemm->steps[last].kind != SC_GEMM_ADD)
        return;
    sc_value tensor = c->tensors[last];
    const sc_type_info *from = sc_type_of(g->m, tensor), *to = sc_type_of(g->m, c->result);
    sc_image_ref at = sc_generator_read(g, tensor);
    sc_image_buffer_kind kind = g->buffers.data[at.buffer].kind;
    bool whole = at.at == 0 && g->buffers.data[at.buffer].bytes == sc_type_local_bytes(g->m, to);
    bool dead = g->func.last_read[g->func.root[tensor]] == g->unit.number && whole &&
                g->func.target[c->result] == SC_NONE && kind >= SC_BUFFER_ACT &&
                !sc_generator_is_input(&g->func, at.buffer);
    bool own_state = sc_generator_overwrites(g, c->result, tensor) &&
                     g->func.last_read[g->func.root[tensor]] == g->unit.number;
    if (!same_layout(g->m, from, to) || !(dead || own_state) || reads_elsewhere(g, dot, c, tensor))
        return;
    c->accumulated = tensor;
    gemm->accumulate = true;
    gemm->step_count--;
}

/* True if the value's buffer is one that the GEMM reads. */
static bool overwrites_operand(const sc_generator *g, const sc_op *dot, const contraction *c,
                               sc_value value)
{
    bool overwrites = sc_generator_overwrites(g, value, dot->operands[0]) ||
                      sc_generator_overwrites(g, value, dot->operands[1]);
    for (uint32_t s = 0; s < c->c.gemm.step_count; s++) {
        sc_gemm_step_kind kind = c->c.gemm.steps[s].kind;
        overwrites = overwrites || (sc_gemm_step_has_tensor(kind) && !sc_gemm_step_writes(kind) &&
                                    sc_generator_overwrites(g, value, c->tensors[s]));
    }
    return overwrites;
}

/* NULL, or why the target's GEMM implementation does not support the contraction. CPUs support
 * everything, but steps for derivatives are faster in a kernel: measured on AVX2, such a step costs
 * a GEMM 3 to 5 ns per element, and a separate kernel 2. */
static const char *refused(const sc_generator *g, const contraction *c)
{
    sc_matmul form;
    const sc_gemm *gemm = &c->c.gemm;
    if (sc_generator_is_cuda(g))
        return sc_matmul_of(gemm, &form);
    for (uint32_t s = 0; s < gemm->step_count; s++) {
        if (gemm->steps[s].kind == SC_GEMM_STORE ||
            sc_gemm_step_slope_of(gemm->steps[s].kind) != SC_GEMM_STEP_KINDS)
            return "a kernel after it is faster";
    }
    return NULL;
}

/* Fuses the sum that waits for the matmul, if the target supports that step together with the
 * others. */
static void take_fused_sum(sc_generator *g, sc_op_id dot, contraction *c)
{
    sc_gemm *gemm = &c->c.gemm;
    uint32_t at = gemm->step_count;
    sc_value value;
    if (!sc_generator_add_fused_sum(g, dot, &c->c, &value))
        return;
    c->tensors[at] = value;
    if (refused(g, c) == NULL)
        g->func.fused_sums.data[g->func.fused_sum_of[dot] - 1].is_added = true;
    else
        memset(&gemm->steps[--gemm->step_count], 0, sizeof *gemm->steps);
}

static uint32_t index_of(sc_generator *g, const sc_gemm *gemm)
{
    bool is_new;
    sc_strbuf text;
    sc_strbuf_init(&text, g->arena);
    sc_gemm_print(gemm, &text);
    uint32_t *index = sc_map_insert(&g->gemm_map, sc_hash_bytes(text.data, text.length, 0),
                                    g->gemms.count, &is_new);
    if (is_new)
        *sc_vec_push(g->arena, &g->gemms) = *gemm;
    return *index;
}

/* Emits the fallback for a library that turns out not to support the epilogue for these dtypes and
 * layouts, which only the library knows: the plain GEMM, then kernels. `args`: those of the GEMM,
 * the workspace last. */
static void emit_instead(sc_generator *g, sc_op_id op, const sc_gemm *gemm,
                         const sc_image_ref *args, uint32_t count)
{
    uint32_t first = gemm->step_count > 0 && gemm->steps[0].kind == SC_GEMM_SCALE ? 1 : 0,
             given = 0, sums = 0;
    sc_gemm bare = *gemm;
    bare.step_count = first;
    memset(&bare.steps[first], 0, (SC_GEMM_MAX_STEPS - first) * sizeof *bare.steps);
    sc_kernel *kernels[SC_GEMM_MAX_STEPS + 1];
    sc_image_ref refs[SC_GEMM_MAX_STEPS + 1][SC_GEMM_MAX_STEPS + 1];
    refs[0][given++] = args[SC_GEMM_C];
    for (uint32_t s = 0, at = SC_GEMM_OPERANDS; s < gemm->step_count; s++) {
        sc_gemm_operand summed = sc_gemm_step_sums(gemm->steps[s].kind);
        if (summed != SC_GEMM_OPERANDS) {
            kernels[++sums] = sc_sum_kernel(g->m->context, gemm, s);
            refs[sums][0] = args[summed];
            refs[sums][1] = args[at];
        } else if (s >= first && sc_gemm_step_has_tensor(gemm->steps[s].kind))
            refs[0][given++] = args[at];
        at += sc_gemm_step_has_tensor(gemm->steps[s].kind);
    }
    bool has_steps = gemm->step_count - first > sums;
    kernels[0] = has_steps ? sc_steps_kernel(g->m->context, gemm, first) : NULL;
    bool ok = !has_steps || kernels[0] != NULL;
    for (uint32_t k = 1; k <= sums; k++)
        ok = ok && kernels[k] != NULL;
    if (!ok || gemm->step_count == first)
        return;
    g->unit.instead = true;
    sc_image_ref own[] = {args[SC_GEMM_A], args[SC_GEMM_B], args[SC_GEMM_C], args[count - 1]};
    sc_generator_instr(g, SC_INSTR_GEMM, op, index_of(g, &bare), own, 4);
    for (uint32_t k = has_steps ? 0 : 1; k <= sums; k++) {
        sc_generator_call(g, op, kernels[k], refs[k]);
    }
    g->unit.instead = false;
}

static void emit_gemm(sc_generator *g, sc_op_id op, sc_op_id dot_op, contraction *c)
{
    const sc_op *dot = sc_op_at(g->m, dot_op);
    sc_image_ref args[4 + SC_GEMM_MAX_STEPS];
    uint32_t count = 0;
    take_fused_sum(g, dot_op, c);
    sc_image_ref before =
        c->accumulated != SC_NONE ? sc_generator_read(g, c->accumulated) : (sc_image_ref){0};
    args[count++] = sc_generator_read(g, dot->operands[0]);
    args[count++] = sc_generator_read(g, dot->operands[1]);
    sc_image_ref *out = &args[count++];
    for (uint32_t s = 0; s < c->c.gemm.step_count; s++) {
        sc_gemm_step_kind kind = c->c.gemm.steps[s].kind;
        if (sc_gemm_step_writes(kind))
            args[count++] = sc_generator_write(g, c->tensors[s], SC_BUFFER_ACT,
                                               !overwrites_operand(g, dot, c, c->tensors[s]));
        else if (sc_gemm_step_has_tensor(kind))
            args[count++] = sc_generator_read(g, c->tensors[s]);
    }
    bool shares = overwrites_operand(g, dot, c, c->result);
    bool dead = c->accumulated != SC_NONE && g->func.target[c->result] == SC_NONE;
    *out = dead ? (g->func.place[c->result] = before)
                : sc_generator_write(g, c->result, SC_BUFFER_ACT, !shares);
    if (c->accumulated != SC_NONE && (out->buffer != before.buffer || out->at != before.at))
        sc_generator_copy(g, op, before, *out);
    int64_t scratch = sc_image_gemm_scratch(
        sc_generator_is_cuda(g) ? g->options->target->name : "cpu", &c->c.gemm);
    if (scratch > 0)
        args[count++] =
            (sc_image_ref){sc_generator_buffer(g, SC_BUFFER_WORKSPACE, scratch, "gemm"), 0};
    sc_generator_instr(g, SC_INSTR_GEMM, op, index_of(g, &c->c.gemm), args, count);
    if (sc_generator_is_cuda(g))
        emit_instead(g, op, &c->c.gemm, args, count);
}

/* Emits the matmul as a kernel that computes one element of the result after the other. */
static void emit_simply(sc_generator *g, sc_op_id op, const sc_op *dot, const char *why)
{
    sc_image_ref args[3] = {sc_generator_read(g, dot->operands[0]),
                            sc_generator_read(g, dot->operands[1])};
    args[2] = sc_generator_write(g, dot->first_result, SC_BUFFER_ACT, false);
    sc_kernel *k = sc_contract_kernel(g->m, dot);
    sc_generator_call(g, op, k, args);
    uint32_t index = g->func.instrs.data[g->func.instrs.count - 1].index;
    g->out->kernels.data[index].why_simple = why;
    g->kernels.data[index].simple = true;
}

bool sc_generate_dot(sc_generator *g, sc_op_id op)
{
    const sc_op *dot = sc_op_at(g->m, op);
    contraction c = {.result = dot->first_result, .accumulated = SC_NONE};
    if (!sc_contract(g->m, dot, NULL, &c.c)) {
        sc_report(&g->m->context->diag, SC_D_ir_invalid, dot->loc, "code generation",
                  "a contraction that no descriptor has room for", NULL);
        return false;
    }
    const char *why = refused(g, &c);
    if (why == NULL)
        emit_gemm(g, op, op, &c);
    else
        emit_simply(g, op, dot, why);
    return sc_generator_leave_fused_sum(g, op);
}

/* Emits the longest supported prefix of the steps with the GEMM, and the remaining steps as a
 * kernel. */
static bool emit_prefix(sc_generator *g, const sc_op_id *ops, uint32_t count, uint32_t dot)
{
    sc_op_id *rest = sc_arena_array(g->arena, count, sizeof *rest);
    bool is_supported = false, ok = true;
    uint32_t left = 0, taken = count;
    contraction c;
    while (!is_supported && taken > dot + 1) {
        taken--;
        bool made = (sc_ops[sc_op_at(g->m, ops[taken - 1])->kind].fuse & SC_FUSE_FREE) != 0;
        is_supported = !made && read_chain(g, ops, taken, &c) && refused(g, &c) == NULL;
    }
    for (uint32_t i = 0; i < count; i++) {
        bool made = (sc_ops[sc_op_at(g->m, ops[i])->kind].fuse & SC_FUSE_FREE) != 0;
        if (made || i >= taken)
            rest[left++] = ops[i];
        else
            sc_op_drop_attr(g->m, ops[i], SC_ATTR_kernel);
    }
    const sc_value handed_on = sc_op_at(g->m, ops[taken - 1])->first_result;
    const bool escaped = g->func.escapes[handed_on];
    g->func.escapes[handed_on] = true;
    if (is_supported)
        emit_gemm(g, ops[taken - 1], ops[dot], &c);
    else
        ok = sc_generate_dot(g, ops[dot]);
    ok = ok && sc_generate_kernel(g, rest, left);
    g->func.escapes[handed_on] = escaped;
    return ok;
}

bool sc_generate_contraction(sc_generator *g, const sc_op_id *ops, uint32_t count)
{
    uint32_t at = 0;
    while ((sc_ops[sc_op_at(g->m, ops[at])->kind].fuse & SC_FUSE_CONTRACT) == 0)
        at++;
    contraction c;
    if (read_chain(g, ops, count, &c)) {
        take_over(g, sc_op_at(g->m, ops[at]), &c);
        if (refused(g, &c) == NULL) {
            emit_gemm(g, ops[count - 1], ops[at], &c);
            return sc_generator_leave_fused_sum(g, ops[at]);
        }
    }
    return emit_prefix(g, ops, count, at) && sc_generator_leave_fused_sum(g, ops[at]);
}

/* ---- attention ---- */
static void emit_attend(sc_generator *g, const void *what, const char *name, bool comments,
                        sc_strbuf *out, sc_helper_set *helpers, sc_cuda_code *code)
{
    const sc_attention_desc *desc = what;
    (void)comments;
    sc_attention_emit(g->m->context, desc, name, out, helpers);
    code->scratch_bytes = desc->scratch_bytes;
}

static void emit_attend_cuda(sc_generator *g, const void *what, const char *name, bool comments,
                             sc_strbuf *out, sc_helper_set *helpers, sc_cuda_code *code)
{
    (void)comments;
    sc_attention_emit_cuda(g->m->context, what, g->options->target->shared_bytes, name, out,
                           helpers, code);
}

static const sc_generator_printers attend_printers = {emit_attend, emit_attend_cuda};

bool sc_generate_attend(sc_generator *g, sc_op_id op)
{
    const sc_op *o = sc_op_at(g->m, op);
    const sc_attention_desc *desc = sc_attention_describe(g->m, op);
    if (desc == NULL) {
        sc_report(&g->m->context->diag, SC_D_ir_invalid, o->loc, "code generation",
                  "an attention that has no descriptor", NULL);
        return false;
    }
    sc_image_ref *given = sc_arena_array(g->arena, desc->arg_count, sizeof *given);
    uint32_t count = 0, index;
    bool is_new;
    for (uint32_t i = 0; i < o->operand_count; i++)
        given[count++] = sc_generator_read(g, o->operands[i]);
    for (uint32_t r = 0; r < o->result_count; r++)
        given[count++] = sc_generator_write(g, o->first_result + r, SC_BUFFER_ACT, false);
    sc_generated_kernel shown = {.title = sc_ops[o->kind].name,
                                 .why_simple = sc_generator_is_cuda(g) ? NULL : desc->why_simple};
    sc_generator_emit(g, &attend_printers, desc, &shown, &index, &is_new);
    const sc_image_ref *args = sc_generator_add_scratch(g, index, given, &count, "attend");
    if (is_new) {
        sc_image_kernel *kernel = &g->kernels.data[index];
        kernel->arg_count = count;
        kernel->param_count = desc->param_count;
        kernel->attention = true;
        g->out->kernels.data[index].flops =
            sc_op_flops(g->m, o, sc_type_local_size) * sc_attention_visible_part(desc);
        kernel->args = sc_arena_array(g->arena, count, sizeof *kernel->args);
        for (uint32_t i = 0; i < count; i++) {
            bool reads = i < o->operand_count;
            int64_t bytes = g->buffers.data[args[i].buffer].bytes - args[i].at;
            kernel->args[i] = (sc_image_arg){bytes, reads ? SC_ACCESS_IN : SC_ACCESS_OUT, bytes};
        }
    }
    sc_image_instr *instr = sc_generator_instr(g, SC_INSTR_KERNEL, op, index, args, count);
    instr->param_count = desc->param_count;
    instr->params = sc_arena_array(g->arena, desc->param_count, sizeof *instr->params);
    if (desc->param_count > 0)
        memcpy(instr->params, desc->params, desc->param_count * sizeof *instr->params);
    return true;
}
