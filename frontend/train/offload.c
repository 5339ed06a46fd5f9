/* `offload KINDS [in PATHS]`: which states and saved activations are kept in host memory. A unit of
 * activations is what one instance of a path covers, as in remat.c. */
#include "frontend/train/offload.h"

#include <assert.h>
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
static void offload_opt(const offload *o, const sc_plan_stmt *stmt, uint32_t rule)
{
    for (uint32_t i = 0; i < o->out->params.count; i++) {
        sc_trained_param *param = &o->out->params.data[i];
        if (param->opt_host || !covers(o, stmt, param->state))
            continue;
        param->opt_host = true;
        param->opt_rule = 1 + rule;
    }
}

/* ---- activations ---- */
static void add_unit(offload *o, const char *instance, size_t length, sc_sym key, uint32_t rule)
{
    sc_sym name = length == 0 ? o->entry : sc_intern(&o->context->names, instance, length);
    bool is_new;
    uint32_t unit = *sc_map_insert(&o->units, name, o->unit_count, &is_new);
    o->unit_count += is_new;
    if (is_new)
        *sc_vec_push(&o->context->arena, &o->out->act_rules) = rule;
    sc_map_insert(&o->out->act_host, key, unit, &is_new);
}

/* Notes the scopes and values that the path covers. */
static void offload_act_path(offload *o, sc_func_id func, const sc_path *path, uint32_t rule)
{
    sc_for_each_op (o->m, func, id) {
        const sc_op *op = sc_op_at(o->m, id);
        const char *scope = sc_text(o->context, op->scope);
        size_t length = sc_path_match_length(o->context, path, o->entry, scope);
        if (length != SIZE_MAX)
            add_unit(o, scope, length, op->scope, rule);
        for (uint32_t r = 0; r < op->result_count; r++) {
            sc_sym value = o->m->values.data[op->first_result + r].path;
            if (value != 0 && length == SIZE_MAX &&
                sc_path_matches(o->context, path, o->entry, value) == SC_PATH_EXACT)
                add_unit(o, sc_text(o->context, value), strlen(sc_text(o->context, value)), value,
                         rule);
        }
    }
}

static void offload_act(offload *o, sc_func_id func, const sc_plan_stmt *stmt, uint32_t rule)
{
    for (uint32_t i = 0; i < stmt->in.count; i++)
        offload_act_path(o, func, &stmt->in.data[i], rule);
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
    uint32_t rule = 0;
    out->act_host = (sc_map){.arena = arena};
    if (plan->plan != NULL) {
        for (uint32_t i = 0; i < plan->plan->body.count; i++) {
            const sc_plan_stmt *stmt = plan->plan->body.data[i];
            if (has_kind(stmt, SC_KIND_OPT))
                offload_opt(&o, stmt, rule);
            if (has_kind(stmt, SC_KIND_ACT))
                offload_act(&o, built->func, stmt, rule);
            rule += stmt->kind == SC_PLAN_OFFLOAD;
        }
    }
}

/* ---- parameters ---- */
void sc_plan_offload_params(sc_resolved_plan *plan, sc_module *m, sc_sym entry)
{
    const offload o = {.context = plan->context, .m = m, .entry = entry};
    assert(m->rules.count == 0);
    if (plan->plan != NULL) {
        for (uint32_t i = 0; i < plan->plan->body.count; i++) {
            const sc_plan_stmt *stmt = plan->plan->body.data[i];
            if (stmt->kind != SC_PLAN_OFFLOAD)
                continue;
            uint32_t rule =
                sc_module_add_rule(m, sc_plan_line_text(plan->context, stmt), stmt->loc);
            for (uint32_t s = 0; s < m->state.count; s++) {
                sc_state *state = &m->state.data[s];
                if (!has_kind(stmt, SC_KIND_PARAM) || state->kind != SC_STATE_PARAM ||
                    state->host || !covers(&o, stmt, s))
                    continue;
                state->host = true;
                state->host_rule = 1 + rule;
            }
        }
    }
}
