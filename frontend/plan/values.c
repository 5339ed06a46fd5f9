/* Statements of a plan that give sizes, dtypes and numbers, and those that this version does not
 * compile. */
#include "frontend/plan/internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* ---- bind ---- */
/* Finds the entry that `in` of a `bind` names. */
static bool find_entry(sc_resolved_plan *plan, const sc_path *path, sc_sym *entry)
{
    sc_entry_list entries = {0};
    sc_declarations_entries(plan->program, plan->model, &entries);
    sc_text_list names = {0};
    for (uint32_t i = 0; i < entries.count; i++) {
        *entry = entries.data[i].entry;
        if (path->segs.count == 1 && path->segs.data[0].kind == SC_SEG_NAME &&
            path->segs.data[0].name.text == *entry)
            return true;
        sc_suggest_add(plan->context, &names, *entry);
    }
    const char *text = sc_path_text(plan->context, path);
    sc_report(&plan->context->diag, SC_D_bad_path, path->loc,
              sc_arena_printf(
                  &plan->context->arena, "sizes are bound in entries, and '%s' has no entry '%s'%s",
                  sc_text(plan->context, plan->model), text,
                  sc_suggest(plan->context, sc_intern_text(&plan->context->names, text), &names)),
              NULL);
    return false;
}

static void add_binding(sc_resolved_plan *plan, sc_sym entry, const sc_bind *bind)
{
    sc_binding_list so_far = {0};
    sc_plan_bindings(plan, entry, &so_far);
    int64_t size;
    if (!sc_declarations_eval_integer(plan->program, bind->value, &so_far, &size))
        return;
    if (size < 1) {
        sc_report(&plan->context->diag, SC_D_bad_dim_size, bind->dim.loc,
                  sc_text(plan->context, bind->dim.text),
                  sc_arena_printf(&plan->context->arena, "%" PRId64, size), NULL);
        return;
    }
    *sc_vec_push(&plan->context->arena, &plan->bindings) =
        (sc_plan_binding){entry, {bind->dim.text, size, bind->dim.loc}};
}

static void resolve_bind(sc_resolved_plan *plan, const sc_plan_stmt *stmt)
{
    for (uint32_t b = 0; b < stmt->binds.count; b++) {
        const sc_bind *bind = &stmt->binds.data[b];
        if (!sc_plan_check_dim(plan, &bind->dim))
            continue;
        if (stmt->in.count == 0)
            add_binding(plan, 0, bind);
        for (uint32_t i = 0; i < stmt->in.count; i++) {
            sc_sym entry;
            if (find_entry(plan, &stmt->in.data[i], &entry))
                add_binding(plan, entry, bind);
        }
    }
}

/* ---- precision ---- */
static const char *const precision_words[] = {"param", "act", "grad", "opt", "cache", "reduce"};
static const char *const float_words[] = {"f32", "f64", "bf16", "f16"};

/* True if the path names an entry, which `in` of a precision line may not: one path would get
 * several dtypes. */
static bool names_entry(const sc_resolved_plan *plan, const sc_path *path)
{
    if (path->segs.count == 0 || path->segs.data[0].kind != SC_SEG_NAME)
        return false;
    sc_entry_list entries = {0};
    sc_declarations_entries(plan->program, plan->model, &entries);
    for (uint32_t i = 0; i < entries.count; i++) {
        if (path->segs.data[0].name.text == entries.data[i].entry)
            return true;
    }
    return false;
}

static bool check_dtype(sc_resolved_plan *plan, const sc_name *name, sc_dtype *dtype)
{
    const char *text = sc_text(plan->context, name->text);
    if (strcmp(text, "f8e4m3") == 0 || strcmp(text, "f8e5m2") == 0) {
        sc_report(&plan->context->diag, SC_D_not_compiled, name->loc,
                  sc_arena_printf(&plan->context->arena, "dtype '%s'", text), NULL);
        return false;
    }
    *dtype = sc_dtype_find(text);
    if (*dtype == SC_DTYPE_COUNT)
        return sc_plan_check_word(plan, name->text, name->loc, "dtype", float_words,
                                  COUNT_OF(float_words));
    if (sc_dtype_is_float(*dtype))
        return true;
    sc_report(&plan->context->diag, SC_D_bad_plan_statement, name->loc,
              sc_arena_printf(&plan->context->arena,
                              "a precision is a float dtype, but '%s' is not", text),
              NULL);
    sc_report_note(&plan->context->diag, (sc_loc){0}, "there are %s",
                   sc_plan_word_list(plan, float_words, COUNT_OF(float_words)));
    return false;
}

static void resolve_precision(sc_resolved_plan *plan, const sc_plan_stmt *stmt)
{
    if (!sc_plan_check_paths(plan, &stmt->in, false))
        return;
    for (uint32_t i = 0; i < stmt->in.count; i++) {
        if (!names_entry(plan, &stmt->in.data[i]))
            continue;
        sc_report(&plan->context->diag, SC_D_not_compiled, stmt->in.data[i].loc,
                  "a precision for one entry only", NULL);
        return;
    }
    for (uint32_t i = 0; i < stmt->precisions.count; i++) {
        const sc_precision *p = &stmt->precisions.data[i];
        sc_dtype dtype;
        if (sc_plan_check_word(plan, p->what.text, p->what.loc, "kind with a precision",
                               precision_words, COUNT_OF(precision_words)) &&
            check_dtype(plan, &p->dtype, &dtype))
            *sc_vec_push(&plan->context->arena, &plan->dtypes) =
                (sc_plan_dtype){p->what.text, dtype, &stmt->in};
    }
}

/* Ranks a precision line for a path: 0 does not apply, 1 has no paths, else 1 + the segments of the
 * longest matching pattern. */
static uint32_t specificity(const sc_resolved_plan *plan, const sc_plan_dtype *line, sc_sym path)
{
    if (line->in->count == 0)
        return 1;
    uint32_t best = 0;
    for (uint32_t i = 0; i < line->in->count; i++) {
        const sc_path *pattern = &line->in->data[i];
        if (sc_path_matches(plan->context, pattern, 0, path) != SC_PATH_NO &&
            pattern->segs.count + 1 > best)
            best = pattern->segs.count + 1;
    }
    return best;
}

static sc_dtype dtype_of_word(const sc_resolved_plan *plan, const char *word, sc_sym path,
                              sc_dtype otherwise)
{
    sc_sym what = sc_intern_text(&plan->context->names, word);
    sc_dtype dtype = otherwise;
    uint32_t best = 0;
    for (uint32_t i = 0; i < plan->dtypes.count; i++) {
        const sc_plan_dtype *line = &plan->dtypes.data[i];
        uint32_t rank = line->what == what ? specificity(plan, line, path) : 0;
        if (rank > 0 && rank >= best) {
            best = rank;
            dtype = line->dtype;
        }
    }
    return dtype;
}

sc_dtype sc_plan_dtype_of(void *user, sc_tensor_kind kind, sc_sym path)
{
    sc_resolved_plan *plan = user;
    if (plan->dtypes.count == 0)
        return SC_DTYPE_f32;
    bool is_new;
    uint32_t *memo =
        sc_map_insert(&plan->dtype_memo, ((uint64_t)kind << 32) | path, SC_DTYPE_f32, &is_new);
    if (is_new)
        *memo = dtype_of_word(plan, sc_kind_names[kind], path, SC_DTYPE_f32);
    return (sc_dtype)*memo;
}

sc_dtype sc_plan_reduce_dtype(sc_resolved_plan *plan, sc_sym path, sc_dtype grad)
{
    return dtype_of_word(plan, "reduce", path, grad);
}

/* ---- tune ---- */
static bool number_of(sc_resolved_plan *plan, const sc_expr *expr, double *out)
{
    if (expr->kind == SC_EXPR_FLOAT) {
        *out = expr->number;
        return true;
    }
    int64_t integer;
    if (!sc_declarations_eval_integer(plan->program, expr, &plan->options.binds, &integer))
        return false;
    *out = (double)integer;
    return true;
}

static void resolve_tune(sc_resolved_plan *plan, const sc_plan_stmt *stmt)
{
    static const char *const words[] = {"bucket", "prefetch", "call_cost", "capacity"};
    double *const targets[] = {&plan->tuning.bucket, &plan->tuning.prefetch,
                               &plan->tuning.call_cost, &plan->tuning.capacity};
    for (uint32_t i = 0; i < stmt->tune.count; i++) {
        const sc_arg *arg = &stmt->tune.data[i];
        if (arg->name.text == 0 || arg->values.count != 1) {
            sc_report(&plan->context->diag, SC_D_bad_plan_statement, arg->loc,
                      "tune takes 'name = number'", NULL);
            sc_report_note(&plan->context->diag, (sc_loc){0}, "there are %s",
                           sc_plan_word_list(plan, words, COUNT_OF(words)));
            continue;
        }
        double value;
        if (!sc_plan_check_word(plan, arg->name.text, arg->name.loc, "tuning choice", words,
                                COUNT_OF(words)) ||
            !number_of(plan, arg->values.data[0], &value))
            continue;
        if (!(value >= 0) || !isfinite(value)) {
            sc_report(&plan->context->diag, SC_D_bad_plan_statement, arg->values.data[0]->loc,
                      "a tuned number must be at least 0", NULL);
            continue;
        }
        for (size_t w = 0; w < COUNT_OF(words); w++) {
            if (strcmp(sc_text(plan->context, arg->name.text), words[w]) == 0)
                *targets[w] = value;
        }
        if (value == 0 && strcmp(sc_text(plan->context, arg->name.text), "capacity") == 0) {
            sc_report(&plan->context->diag, SC_D_bad_plan_statement, arg->values.data[0]->loc,
                      "a capacity is above 0: rows without room fail the step", NULL);
        }
    }
}

sc_plan_tuning sc_plan_tune(const sc_resolved_plan *plan)
{
    sc_plan_tuning tuning = plan->tuning;
    if (plan->options.capacity > 0)
        tuning.capacity = plan->options.capacity;
    return tuning;
}

/* ---- statements not compiled by this version; their names are checked all the same ---- */
/* True if the dim is part of a composite, which padding it would pad too. */
static bool in_composite(const sc_declarations *program, uint32_t dim)
{
    for (uint32_t i = 0; i < program->dims.count; i++) {
        const sc_dim_decl *decl = &program->dims.data[i];
        if (decl->form != SC_DIM_COMPOSITE)
            continue;
        for (uint32_t k = 0; k < decl->part_count; k++) {
            if (i == dim || decl->parts[k] == dim)
                return true;
        }
    }
    return false;
}

static void resolve_pad(sc_resolved_plan *plan, const sc_plan_stmt *stmt)
{
    if (!sc_plan_check_dim(plan, &stmt->pad.dim))
        return;
    if (in_composite(plan->program, sc_declarations_dim(plan->program, stmt->pad.dim.text))) {
        sc_report(&plan->context->diag, SC_D_bad_plan_statement, stmt->pad.dim.loc,
                  "composite dims and their parts are never padded", NULL);
        return;
    }
    int64_t multiple;
    if (sc_declarations_eval_integer(plan->program, stmt->pad.multiple, &plan->options.binds,
                                     &multiple) &&
        multiple < 1)
        sc_report(&plan->context->diag, SC_D_bad_plan_statement, stmt->pad.multiple->loc,
                  "a dim is padded to a multiple of at least 1", NULL);
}

static void resolve_offload(sc_resolved_plan *plan, const sc_plan_stmt *stmt)
{
    const uint32_t kinds = 1u << SC_KIND_OPT | 1u << SC_KIND_ACT | 1u << SC_KIND_PARAM;
    sc_plan_check_paths(plan, &stmt->in, false);
    if ((stmt->offload.mask >> SC_KIND_ACT & 1) != 0 && stmt->in.count == 0) {
        sc_report(&plan->context->diag, SC_D_bad_plan_statement, stmt->loc,
                  "'offload act' is of the paths that it names", NULL);
        sc_report_note(&plan->context->diag, (sc_loc){0}, "write 'offload act in layers;'");
    }
    for (uint32_t k = 0; k < SC_KIND_COUNT; k++) {
        if ((stmt->offload.mask & ~kinds) >> k == 0)
            break;
        if (((stmt->offload.mask & ~kinds) >> k & 1) == 0)
            continue;
        sc_report(&plan->context->diag, SC_D_bad_plan_statement, stmt->loc,
                  sc_arena_printf(&plan->context->arena, "'%s' is always in device memory",
                                  sc_kind_names[k]),
                  NULL);
        sc_report_note(&plan->context->diag, (sc_loc){0},
                       "there are 'offload opt', 'offload act in PATHS' and 'offload param'");
    }
}

void sc_plan_resolve_values(sc_resolved_plan *plan, const sc_plan_stmt *stmt)
{
    static const char *const moments[] = {"forward", "use", "step"};
    switch (stmt->kind) {
    case SC_PLAN_BIND:
        resolve_bind(plan, stmt);
        break;
    case SC_PLAN_PRECISION:
        resolve_precision(plan, stmt);
        break;
    case SC_PLAN_TUNE:
        resolve_tune(plan, stmt);
        break;
    case SC_PLAN_ACCUMULATE:
        sc_plan_resolve_accumulate(plan, stmt);
        break;
    case SC_PLAN_PAD:
        resolve_pad(plan, stmt);
        break;
    case SC_PLAN_STAGE:
        sc_plan_resolve_stage(plan, stmt);
        break;
    case SC_PLAN_STAGE_AT:
        sc_plan_resolve_stage_at(plan, stmt);
        break;
    case SC_PLAN_REMAT:
        sc_plan_check_paths(plan, &stmt->in, false);
        sc_plan_check_paths(plan, &stmt->remat.save, false);
        break;
    case SC_PLAN_OFFLOAD:
        resolve_offload(plan, stmt);
        break;
    case SC_PLAN_RESHARD:
        sc_plan_check_paths(plan, &stmt->in, false);
        sc_plan_check_word(plan, stmt->reshard.text, stmt->reshard.loc,
                           "moment after which a gathered parameter is dropped", moments,
                           COUNT_OF(moments));
        break;
    default:
        break;
    }
}
