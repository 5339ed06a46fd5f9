/* `accumulate n over B`: runs a step's batch as n micro-batches in sequence, each as `microbatches`
 * of a `stage` line. The program is built with the size of one micro-batch. */
#include "frontend/plan/internal.h"

#include <inttypes.h>

void sc_plan_resolve_accumulate(sc_resolved_plan *plan, const sc_plan_stmt *stmt)
{
    sc_diag *diag = &plan->context->diag;
    bool fine = sc_plan_check_dim(plan, &stmt->accumulate.dim);
    if (stmt->accumulate.count < 1) {
        sc_report(diag, SC_D_bad_plan_statement, stmt->loc,
                  "the number of micro-batches is at least 1", NULL);
        fine = false;
    }
    if (plan->accumulate != NULL) {
        sc_report(diag, SC_D_bad_plan_statement, stmt->loc, "a plan has one 'accumulate' line",
                  NULL);
        sc_report_note(diag, plan->accumulate->loc, "the first one is here");
    } else if (fine) {
        plan->accumulate = stmt;
    }
}

const sc_name *sc_plan_micro_batch_dim(const sc_resolved_plan *plan, sc_loc *line)
{
    bool is_staged = sc_plan_has_stages(plan);
    if (plan->accumulate == NULL && !is_staged)
        return NULL;
    *line = is_staged ? plan->stage.stmt->loc : plan->accumulate->loc;
    return is_staged ? &plan->stage.batch : &plan->accumulate->accumulate.dim;
}

const char *sc_plan_micro_batch_word(const sc_resolved_plan *plan)
{
    return sc_plan_has_stages(plan) ? "stage" : "accumulate";
}

int64_t sc_plan_micro_batches(const sc_resolved_plan *plan, sc_sym *dim)
{
    sc_loc line;
    const sc_name *name = sc_plan_micro_batch_dim(plan, &line);
    int64_t steps = plan->accumulate == NULL ? 1 : plan->accumulate->accumulate.count,
            staged = sc_plan_has_stages(plan) ? plan->stage.micro_batches : 1;
    *dim = name == NULL ? 0 : name->text;
    return steps > INT64_MAX / staged ? INT64_MAX : steps * staged;
}

/* True if the dim can be cut: composites and their parts never are, and an alias follows its
 * original. */
static bool has_own_size(const sc_resolved_plan *plan, const sc_name *name, uint32_t dim)
{
    const sc_declarations *program = plan->program;
    sc_context *context = plan->context;
    const sc_dim_decl *decl = &program->dims.data[dim];
    if (decl->form == SC_DIM_FREE || decl->form == SC_DIM_SIZED)
        return true;
    const char *text = sc_text(context, name->text);
    if (decl->form == SC_DIM_ALIAS && decl->original != SC_NONE)
        sc_report(
            &context->diag, SC_D_bad_plan_statement, name->loc,
            sc_arena_printf(
                &context->arena,
                "micro-batches split a dim with a size of its own, but '%s' is an alias of '%s'",
                text, sc_text(context, program->dims.data[decl->original].name.text)),
            NULL);
    else
        sc_report(&context->diag, SC_D_bad_plan_statement, name->loc,
                  sc_arena_printf(
                      &context->arena,
                      "micro-batches split a dim with a size of its own, but '%s' is a composite",
                      text),
                  NULL);
    sc_report_note(&context->diag, decl->name.loc, "it is declared here");
    return false;
}

const char *sc_plan_divisors_text(sc_context *context, int64_t size)
{
    enum { MAX_TRIED = 1 << 20, MAX_LISTED = 96 };
    sc_strbuf text;
    sc_strbuf_init(&text, &context->arena);
    uint32_t listed = 0;
    for (int64_t n = 1; n <= size && n <= MAX_TRIED && listed < MAX_LISTED; n++) {
        if (size % n == 0)
            sc_strbuf_printf(&text, "%s%" PRId64, listed++ > 0 ? ", " : "", n);
    }
    return text.data;
}

static bool report_indivisible(const sc_resolved_plan *plan, sc_loc line, const sc_name *name,
                               int64_t size, int64_t count, const char *what)
{
    sc_context *context = plan->context;
    const char *divisors = sc_plan_divisors_text(context, size);
    sc_report(&context->diag, SC_D_micro_batches_do_not_divide, line, sc_text(context, name->text),
              sc_arena_printf(&context->arena, "%" PRId64, size),
              sc_arena_printf(&context->arena, "%" PRId64, count), what, divisors, NULL);
    return false;
}

bool sc_plan_train_bindings(sc_resolved_plan *plan, sc_sym entry, sc_binding_list *out)
{
    sc_arena *arena = &plan->context->arena;
    sc_loc line;
    sc_sym split;
    const sc_name *name = sc_plan_micro_batch_dim(plan, &line);
    sc_plan_bindings(plan, entry, out);
    if (name == NULL)
        return true;
    uint32_t dim = sc_declarations_dim(plan->program, name->text);
    int64_t *sizes = sc_arena_array(arena, plan->program->dims.count, sizeof *sizes),
            count = sc_plan_micro_batches(plan, &split);
    if (!has_own_size(plan, name, dim) || !sc_dims_sizes(plan->program, out, SC_NONE, sizes))
        return false;
    if (sizes[dim] == 0)
        return true; /* reported where the size is needed */
    if (sizes[dim] % count != 0)
        return report_indivisible(plan, line, name, sizes[dim], count,
                                  plan->accumulate == NULL ? "'microbatches'"
                                  : !sc_plan_has_stages(plan)
                                      ? "'accumulate'"
                                      : "'microbatches' times 'accumulate'");
    *sc_vec_push(arena, out) = (sc_binding){name->text, sizes[dim] / count, name->loc};
    return true;
}

uint32_t sc_plan_staged_batches(const sc_resolved_plan *plan)
{
    return sc_plan_has_stages(plan) ? plan->stage.micro_batches : 1;
}

/* The size of the dim in the inputs; 0: none has it. */
static int64_t size_in_inputs(const sc_module *m, sc_func_id func, sc_dim dim)
{
    sc_for_each_op (m, func, id) {
        const sc_op *op = sc_op_at(m, id);
        const sc_type_info *type =
            sc_op_has(op, SC_FROM_OUTSIDE) ? sc_type_of(m, op->first_result) : NULL;
        int at = type == NULL || dim == SC_NONE ? -1 : sc_type_find_dim(type, dim);
        if (at >= 0)
            return type->dims[at].size;
    }
    return 0;
}

bool sc_plan_forward_bindings(sc_resolved_plan *plan, sc_sym entry, const sc_module *whole,
                              sc_func_id func, sc_binding_list *out, uint32_t *count)
{
    const sc_name *name = &plan->stage.batch;
    const uint32_t batches = sc_plan_staged_batches(plan);
    int64_t size =
        batches == 1 ? 0 : size_in_inputs(whole, func, sc_module_find_dim(whole, name->text));
    *count = 1;
    if (size == 0)
        return true;
    if (!has_own_size(plan, name, sc_declarations_dim(plan->program, name->text)))
        return false;
    if (size % batches != 0)
        return report_indivisible(plan, plan->stage.stmt->loc, name, size, batches,
                                  "'microbatches'");
    *count = batches;
    sc_plan_bindings(plan, entry, out);
    *sc_vec_push(&plan->context->arena, out) = (sc_binding){name->text, size / batches, name->loc};
    return true;
}
