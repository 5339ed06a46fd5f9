/* How an entry that is not trained runs through the stages of a pipeline: as the micro-batches of
 * the plan's `stage` line, if its results can be put together from theirs. */
#include "passes/joins.h"
#include "tools/driver/driver.h"

static bool is_cached(const sc_compiled *c)
{
    sc_entry_list entries = {0};
    uint32_t i = 0;
    sc_declarations_entries(c->program, c->model, &entries);
    while (entries.data[i].entry != c->entry)
        i++;
    return entries.data[i].cached;
}

/* Builds a micro-batch and proves how results are joined. */
static bool find_joins(sc_context *context, sc_compiled *c, const sc_binding_list *sizes,
                       uint32_t count)
{
    sc_build_result built;
    sc_pipeline unused;
    sc_sym dim;
    const sc_module *part =
        sc_driver_elaborate(context, c, c->entry, false, sizes, &built, &unused);
    if (part == NULL)
        return false;
    sc_plan_micro_batches(c->resolved, &dim);
    const sc_join_request request = {.part = part,
                                     .whole = c->whole,
                                     .func = built.func,
                                     .whole_func = c->whole_func,
                                     .batch = sc_module_find_dim(part, dim),
                                     .count = count};
    uint32_t results = sc_op_at(part, part->funcs.data[built.func].last)->operand_count;
    uint8_t *joins = sc_arena_array(&context->arena, results + 1u, sizeof *joins);
    sc_batches *batches = sc_arena_alloc(&context->arena, sizeof *batches);
    *batches = (sc_batches){count, request.batch, results, joins};
    c->why_one = sc_find_joins(&request, joins);
    c->batches = c->why_one == NULL ? batches : NULL;
    return true;
}

bool sc_driver_find_batches(sc_context *context, sc_compiled *c, sc_binding_list *sizes)
{
    sc_build_result built;
    sc_pipeline unused;
    uint32_t count;
    sc_sym dim;
    if (c->minimize != NULL || sc_plan_staged_batches(c->resolved) == 1)
        return true;
    if (is_cached(c)) {
        c->why_one = "it is cached";
        return true;
    }
    c->whole = sc_driver_elaborate(context, c, c->entry, false, NULL, &built, &unused);
    c->whole_func = built.func;
    if (c->whole == NULL ||
        !sc_plan_forward_bindings(c->resolved, c->entry, c->whole, c->whole_func, sizes, &count))
        return false;
    if (count > 1)
        return find_joins(context, c, sizes, count);
    sc_plan_micro_batches(c->resolved, &dim);
    c->why_one = sc_arena_printf(&context->arena, "no input has the dim %s", sc_text(context, dim));
    return true;
}
