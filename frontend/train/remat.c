/* `remat PATHS [save PATHS]`: which ops of a built entry are recomputed in the backward pass, and
 * in which regions. A region is what one instance of a path covers: with `remat layers` every
 * layers[i] is a region. If two lines cover an op, the first applies. */
#include "frontend/train/remat.h"

#include "frontend/declare/path_match.h"
#include "frontend/plan/internal.h"

#include <string.h>

typedef struct remat {
    sc_context *context;
    const sc_module *m;
    sc_sym entry;
    sc_map regions; /* path of an instance -> region number */
    uint32_t region_count;
    sc_training *out;
} remat;

/* True for values that need no recomputation: inputs, state, constants, and casts of parameters
 * (cast where they are read). */
static bool stays(const remat *r, const sc_op *op)
{
    const uint32_t kept = SC_FROM_OUTSIDE | SC_STATE_READ | SC_CONSTANT;
    if (op->result_count == 0 || (sc_op_traits(op) & kept) != 0)
        return true;
    return sc_op_has(op, SC_CONVERTS) &&
           sc_op_has(sc_op_at(r->m, sc_def(r->m, op->operands[0])), SC_PARAMETER);
}

static uint32_t region_named(remat *r, const char *path, size_t length)
{
    sc_sym name = length == 0 ? r->entry : sc_intern(&r->context->names, path, length);
    bool is_new;
    uint32_t *region = sc_map_insert(&r->regions, name, r->region_count + 1, &is_new);
    r->region_count += is_new;
    return *region;
}

/* Returns the region of the path's instance that contains the op, or of the value of that path if
 * the op produces it; 0 if neither. */
static uint32_t region_of(remat *r, const sc_op *op, const sc_path *path)
{
    const char *scope = sc_text(r->context, op->scope);
    size_t length = sc_path_match_length(r->context, path, r->entry, scope);
    if (length != SIZE_MAX)
        return region_named(r, scope, length);
    for (uint32_t i = 0; i < op->result_count; i++) {
        sc_sym value = r->m->values.data[op->first_result + i].path;
        if (value != 0 && sc_path_matches(r->context, path, r->entry, value) == SC_PATH_EXACT)
            return region_named(r, sc_text(r->context, value), strlen(sc_text(r->context, value)));
    }
    return 0;
}

static bool is_saved(const remat *r, const sc_path_list *save, sc_value value)
{
    sc_sym path = r->m->values.data[value].path;
    if (path != 0) {
        for (uint32_t i = 0; i < save->count; i++) {
            if (sc_path_matches(r->context, &save->data[i], r->entry, path) != SC_PATH_NO)
                return true;
        }
    }
    return false;
}

static void read_line(remat *r, sc_func_id func, const sc_plan_stmt *stmt)
{
    sc_for_each_op (r->m, func, id) {
        const sc_op *op = sc_op_at(r->m, id);
        uint32_t *region = &r->out->region[id];
        if (*region != 0 || stays(r, op))
            continue;
        for (uint32_t i = 0; i < stmt->in.count && *region == 0; i++)
            *region = region_of(r, op, &stmt->in.data[i]);
        if (*region == 0)
            continue;
        for (uint32_t i = 0; i < op->result_count; i++)
            r->out->saved[op->first_result + i] =
                is_saved(r, &stmt->remat.save, op->first_result + i);
    }
}

void sc_plan_read_remat(sc_resolved_plan *plan, sc_module *m, const sc_build_result *built,
                        sc_training *out)
{
    sc_arena *arena = &plan->context->arena;
    remat r = {.context = plan->context,
               .m = m,
               .entry = built->entry,
               .regions = {.arena = arena},
               .out = out};
    if (plan->plan != NULL) {
        for (uint32_t i = 0; i < plan->plan->body.count; i++) {
            const sc_plan_stmt *stmt = plan->plan->body.data[i];
            if (stmt->kind != SC_PLAN_REMAT)
                continue;
            if (out->region == NULL) {
                out->region = sc_arena_array(arena, m->ops.count, sizeof *out->region);
                out->saved = sc_arena_array(arena, m->values.count, sizeof *out->saved);
            }
            read_line(&r, built->func, stmt);
        }
    }
}
