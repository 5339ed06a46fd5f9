/* `offload KINDS [in PATHS]`: which states and saved activations are kept in host memory. A unit of
 * activations is what one instance of a path covers, as in remat.c. */
#include "frontend/train/offload.h"

#include <string.h>

#include "frontend/plan/internal.h"
#include "frontend/train/check.h"

typedef struct offload {
    sc_context *context;
    sc_module *m;
    sc_sym entry;
    sc_map units; /* path of an instance -> unit number */
    uint32_t unit_count;
    sc_training *out;
} offload;

static bool has_kind(const sc_plan_stmt *stmt, sc_tensor_kind kind)
{
    return stmt->kind == SC_PLAN_OFFLOAD && (stmt->offload.mask >> kind & 1) != 0;
}

static bool covers(const offload *o, const sc_plan_stmt *stmt, uint32_t state)
{
    bool found = stmt->in.count == 0;
    for (uint32_t i = 0; i < stmt->in.count; i++)
        found = found || sc_path_matches(o->context, &stmt->in.data[i], o->entry,
                                         o->m->state.data[state].path) != SC_PATH_NO;
    return found;
}

/* ---- optimizer state ---- */
static void offload_opt(const offload *o, const sc_plan_stmt *stmt)
{
    bool any = false;
    for (uint32_t i = 0; i < o->out->params.count; i++) {
        sc_trained_param *param = &o->out->params.data[i];
        bool covered = covers(o, stmt, param->state);
        param->opt_host = param->opt_host || covered;
        any = any || covered;
    }
    if (!any)
        sc_report(&o->context->diag, SC_D_line_idle, stmt->loc, sc_text(o->context, o->entry),
                  "its paths match no trained parameter", NULL);
}

/* ---- activations ---- */
static void add_unit(offload *o, const char *instance, size_t length, sc_sym key)
{
    sc_sym name = length == 0 ? o->entry : sc_intern(&o->context->names, instance, length);
    bool is_new;
    uint32_t unit = *sc_map_insert(&o->units, name, o->unit_count, &is_new);
    o->unit_count += is_new;
    sc_map_insert(&o->out->act_host, key, unit, &is_new);
}

/* Notes the scopes and values that the path covers. */
static void offload_act_path(offload *o, sc_func_id func, const sc_path *path)
{
    sc_for_each_op (o->m, func, id) {
        const sc_op *op = sc_op_at(o->m, id);
        const char *scope = sc_text(o->context, op->scope);
        size_t length = sc_path_match_length(o->context, path, o->entry, scope);
        if (length != SIZE_MAX)
            add_unit(o, scope, length, op->scope);
        for (uint32_t r = 0; r < op->result_count; r++) {
            sc_sym value = o->m->values.data[op->first_result + r].path;
            if (value != 0 && length == SIZE_MAX &&
                sc_path_matches(o->context, path, o->entry, value) == SC_PATH_EXACT)
                add_unit(o, sc_text(o->context, value), strlen(sc_text(o->context, value)), value);
        }
    }
}

static void offload_act(offload *o, sc_func_id func, const sc_plan_stmt *stmt)
{
    for (uint32_t i = 0; i < stmt->in.count; i++)
        offload_act_path(o, func, &stmt->in.data[i]);
}

void sc_plan_read_offload(sc_resolved_plan *plan, sc_module *m, const sc_build_result *built,
                          sc_training *out)
{
    sc_arena *arena = &plan->context->arena;
    offload o = {.context = plan->context,
                 .m = m,
                 .entry = built->entry,
                 .units = {.arena = arena},
                 .out = out};
    out->act_host = (sc_map){.arena = arena};
    if (plan->plan != NULL) {
        for (uint32_t i = 0; i < plan->plan->body.count; i++) {
            const sc_plan_stmt *stmt = plan->plan->body.data[i];
            if (has_kind(stmt, SC_KIND_OPT))
                offload_opt(&o, stmt);
            if (has_kind(stmt, SC_KIND_ACT) && sc_plan_has_stages(plan))
                sc_report(&plan->context->diag, SC_D_not_compiled, stmt->loc,
                          "'offload act' in a pipeline", NULL);
            else if (has_kind(stmt, SC_KIND_ACT))
                offload_act(&o, built->func, stmt);
        }
    }
}

/* ---- parameters ---- */
void sc_plan_offload_params(sc_resolved_plan *plan, sc_module *m, sc_sym entry)
{
    const offload o = {.context = plan->context, .m = m, .entry = entry};
    if (plan->plan != NULL) {
        for (uint32_t i = 0; i < plan->plan->body.count; i++) {
            const sc_plan_stmt *stmt = plan->plan->body.data[i];
            for (uint32_t s = 0; s < m->state.count; s++) {
                if (has_kind(stmt, SC_KIND_PARAM) && m->state.data[s].kind == SC_STATE_PARAM &&
                    covers(&o, stmt, s))
                    m->state.data[s].host = true;
            }
        }
    }
}
