/* Styles: `style layers.attn.wq: colwise over tp;` places a weight and splits a dim of the ops that
 * read it. The meaning of colwise and rowwise follows from the reading op's roles: colwise splits a
 * dim of the weight that the op keeps, rowwise one that it contracts. */
#include "frontend/declare/path_match.h"
#include "frontend/plan/internal.h"

#include <string.h>

typedef enum style_kind { COLWISE, ROWWISE, SEQUENCE, REPLICATE, STYLE_COUNT } style_kind;
static const char *const style_words[STYLE_COUNT] = {"colwise", "rowwise", "sequence", "replicate"};

typedef struct style {
    style_kind kind;
    sc_name dim;      /* of `sequence` */
    sc_name from, to; /* 0: not given */
    sc_axis_list axes;
} style;

static bool fail(sc_context *context, sc_loc loc, const char *text)
{
    sc_report(&context->diag, SC_D_bad_style, loc, text, NULL);
    return false;
}

static bool is_text(const sc_context *context, sc_sym sym, const char *text)
{
    return strcmp(sc_text(context, sym), text) == 0;
}

/* ---- before sizes ---- */
static bool read_kind(sc_context *context, const sc_plan_stmt *stmt, style *out)
{
    const char *name = sc_text(context, stmt->style.style.text);
    for (out->kind = 0; out->kind < STYLE_COUNT; out->kind++) {
        if (strcmp(name, style_words[out->kind]) == 0)
            return true;
    }
    const char *near = sc_nearest(name, style_words, STYLE_COUNT);
    fail(context, stmt->style.style.loc,
         near == NULL ? sc_arena_printf(&context->arena, "there is no style '%s'", name)
                      : sc_arena_printf(&context->arena,
                                        "there is no style '%s'; did you mean '%s'?", name, near));
    sc_report_note(&context->diag, (sc_loc){0},
                   "the styles are colwise, rowwise, sequence(DIM) and replicate");
    return false;
}

/* Reads one argument: a bare name, the dim of `sequence`, or from/to. */
static bool read_arg(sc_context *context, const sc_arg *arg, style *out)
{
    const sc_expr *value = arg->values.count == 1 ? arg->values.data[0] : NULL;
    if (value == NULL || value->kind != SC_EXPR_NAME)
        return fail(context, arg->loc,
                    "a style's argument is the name of a dim, or 'replicate' or 'partial'");
    const sc_name name = {value->name, value->loc};
    if (out->kind == SEQUENCE && arg->name.text == 0 && out->dim.text == 0)
        out->dim = name;
    else if (out->kind <= ROWWISE && is_text(context, arg->name.text, "from") &&
             out->from.text == 0)
        out->from = name;
    else if (out->kind <= ROWWISE && is_text(context, arg->name.text, "to") && out->to.text == 0)
        out->to = name;
    else
        return fail(context, arg->loc,
                    out->kind <= ROWWISE
                        ? sc_arena_printf(&context->arena,
                                          "%s takes 'from = ..' and 'to = ..', each once",
                                          style_words[out->kind])
                    : out->kind == SEQUENCE ? "sequence takes one dim: sequence(S)"
                                            : "replicate takes no arguments");
    return true;
}

static bool read_style(sc_resolved_plan *plan, const sc_plan_stmt *stmt, style *out)
{
    *out = (style){.axes = {0}};
    sc_name_list axes = {0};
    *sc_vec_push(&plan->context->arena, &axes) = stmt->style.axis;
    bool fine = sc_plan_axes(plan, &axes, &out->axes);
    if (!read_kind(plan->context, stmt, out))
        return false;
    for (uint32_t i = 0; i < stmt->style.args.count; i++)
        fine = read_arg(plan->context, &stmt->style.args.data[i], out) && fine;
    if (fine && out->kind == SEQUENCE && out->dim.text == 0)
        fine = fail(plan->context, stmt->style.style.loc,
                    "sequence names the dim that it splits: sequence(S)");
    return fine;
}

/* Checks `from` or `to`, which is a dim or a word. */
static bool check_end(sc_resolved_plan *plan, const sc_name *end)
{
    if (end->text == 0 || is_text(plan->context, end->text, "replicate"))
        return true;
    if (!is_text(plan->context, end->text, "partial"))
        return sc_plan_check_dim(plan, end);
    sc_report(&plan->context->diag, SC_D_not_compiled, end->loc, "'partial' in a style", NULL);
    return false;
}

static bool is_direct_member(const sc_plan_view *view, const sc_path *pattern, sc_sym path)
{
    return sc_path_matches_parent(view->context, pattern, view->entry, sc_text(view->context, path),
                                  view->symbolic);
}

typedef struct path_kind {
    bool weight, block, has_dim;
    SC_VEC(const char *) weights; /* covered by the path */
} path_kind;

static void look_at_value(sc_resolved_plan *plan, const sc_plan_view *view, const sc_path *path,
                          sc_sym dim, sc_value value, path_kind *out)
{
    sc_sym name = sc_plan_value_path(view->m, value);
    if (name == 0)
        return;
    bool state = (sc_op_traits(sc_op_at(view->m, sc_def(view->m, value))) & SC_STATE_READ) != 0;
    if (!state && is_direct_member(view, path, name)) {
        out->block = true;
        sc_dim id = sc_module_find_dim(view->m, dim);
        out->has_dim = out->has_dim ||
                       (id != SC_NONE && sc_type_has_dim(view->m, sc_type_of(view->m, value), id));
    }
    sc_path_match match = (view->kinds[value] & 1u << SC_KIND_PARAM) != 0
                              ? sc_plan_view_match(view, path, name)
                              : SC_PATH_NO;
    out->weight = out->weight || match == SC_PATH_EXACT;
    if (match == SC_PATH_COVERS)
        *sc_vec_push(&plan->context->arena, &out->weights) =
            sc_path_without_indices(plan->context, sc_text(plan->context, name));
}

static path_kind classify(sc_resolved_plan *plan, const sc_path *path, sc_sym dim)
{
    path_kind kind = {0};
    for (uint32_t e = 0; e < plan->entries.count; e++) {
        const sc_plan_view *view = plan->entries.data[e];
        for (uint32_t i = 0; i < view->values.count; i++)
            look_at_value(plan, view, path, dim, view->values.data[i], &kind);
    }
    sc_param_path_list params = {0};
    const sc_unit *model = sc_declarations_model(plan->program, plan->model);
    if (model != NULL)
        sc_param_paths(plan->program, model, &params);
    for (uint32_t i = 0; i < params.count; i++)
        kind.weight =
            kind.weight ||
            (params.data[i].kind == SC_MEMBER_PARAM &&
             sc_path_match_text(plan->context, path, 0, sc_text(plan->context, params.data[i].text),
                                true) == SC_PATH_EXACT);
    return kind;
}

static bool check_target(sc_resolved_plan *plan, const style *st, const sc_path *path)
{
    sc_context *context = plan->context;
    path_kind kind = classify(plan, path, st->dim.text);
    const char *text = sc_path_text(context, path);
    if (st->kind <= ROWWISE && !kind.weight) {
        fail(context, path->loc,
             sc_arena_printf(&context->arena, "'%s' is not a parameter: %s places a weight", text,
                             style_words[st->kind]));
        for (uint32_t i = 0; i < kind.weights.count && i < 4; i++)
            sc_report_note(&context->diag, (sc_loc){0}, "a parameter in it is '%s'",
                           kind.weights.data[i]);
        return false;
    }
    if (st->kind == SEQUENCE && !kind.block)
        return fail(
            context, path->loc,
            sc_arena_printf(
                &context->arena,
                "'%s' is not a block: sequence places a block's formals, results and locals",
                text));
    if (st->kind == SEQUENCE && !kind.has_dim)
        return fail(context, st->dim.loc,
                    sc_arena_printf(&context->arena,
                                    "no formal, result or local of '%s' has dim %s", text,
                                    sc_text(context, st->dim.text)));
    return true;
}

static bool check_targets(sc_resolved_plan *plan, const style *st, const sc_path_list *paths)
{
    if (plan->entries.count == 0)
        return true;
    for (uint32_t i = 0; i < paths->count; i++) {
        if (!check_target(plan, st, &paths->data[i]))
            return false;
    }
    return true;
}

void sc_plan_check_style(sc_resolved_plan *plan, sc_plan_line *line)
{
    style st;
    bool fine = read_style(plan, line->stmt, &st);
    line->axes = st.axes;
    line->broken = true;
    if (!fine || !sc_plan_check_paths(plan, &line->stmt->in, false))
        return;
    fine = check_end(plan, &st.from) && check_end(plan, &st.to) &&
           (st.dim.text == 0 || sc_plan_check_dim(plan, &st.dim));
    line->broken = !fine || !check_targets(plan, &st, &line->stmt->in);
}

/* ---- readers of weights ---- */
typedef struct reader {
    sc_op_id op;
    uint32_t operand;
    uint32_t next; /* of the same weight; SC_NONE at the end */
} reader;

/* The readers of each parameter, through casts and uses. */
struct sc_weight_readers {
    uint32_t value_count;
    /* of a parameter -> the first value that reads it, which represents all of them */
    sc_map by_name;
    sc_value *weight_of; /* by value: the parameter that it holds, or SC_NONE */
    uint32_t *first;     /* by parameter value */
    SC_VEC(reader) list;
};

/* Adds the readers in a function. Only forward ops count; the rest of a train step follows them. */
static void add_readers(sc_seeding *s, sc_func_id func, struct sc_weight_readers *readers)
{
    sc_arena *arena = &s->context->arena;
    sc_for_each_op (s->m, func, id) {
        const sc_op *op = sc_op_at(s->m, id);
        if (sc_op_has(op, SC_PARAMETER)) {
            sc_value first = *sc_map_insert(&readers->by_name, sc_op_word(op, SC_ATTR_name),
                                            op->first_result, NULL);
            readers->weight_of[op->first_result] = first;
        }
        if (!sc_plan_in_forward(s->context, op))
            continue;
        for (uint32_t o = 0; o < op->operand_count; o++) {
            sc_value weight = readers->weight_of[op->operands[o]];
            if (weight == SC_NONE)
                continue;
            if (sc_op_is_operand(op)) {
                readers->weight_of[op->first_result] = weight;
                continue;
            }
            *sc_vec_push(arena, &readers->list) = (reader){id, o, readers->first[weight]};
            readers->first[weight] = readers->list.count - 1;
        }
    }
}

static const struct sc_weight_readers *weight_readers(sc_seeding *s)
{
    if (s->readers != NULL)
        return s->readers;
    sc_arena *arena = &s->context->arena;
    struct sc_weight_readers *readers = sc_arena_alloc(arena, sizeof *readers);
    readers->value_count = s->m->values.count;
    readers->by_name.arena = arena;
    readers->weight_of = sc_arena_array(arena, readers->value_count, sizeof *readers->weight_of);
    readers->first = sc_arena_array(arena, readers->value_count, sizeof *readers->first);
    memset(readers->weight_of, 0xff, readers->value_count * sizeof *readers->weight_of);
    memset(readers->first, 0xff, readers->value_count * sizeof *readers->first);
    for (sc_func_id func = 0; func < s->m->funcs.count; func++)
        add_readers(s, func, readers);
    s->readers = readers;
    return readers;
}

/* True if the op sums over a leaf of this operand. */
static bool contracts(const sc_factors *factors, uint32_t operand, uint32_t index)
{
    for (uint32_t i = 0; i < factors->count; i++) {
        if (factors->list[i].role == SC_ROLE_SUMS &&
            factors->list[i].operand[operand] == (int)index)
            return true;
    }
    return false;
}

typedef enum weight_use { NO_WEIGHT_USE, NO_SUCH_DIM, HAS_DIM } weight_use;

/* Finds the dim of the weight that the style splits for this reader. A reader that contracts
 * nothing of the weight uses it as a bias or gain. */
static weight_use dim_for_reader(const sc_seeding *s, style_kind kind, const reader *r, sc_dim *dim)
{
    const sc_op *op = sc_op_at(s->m, r->op);
    if (r->operand >= SC_MAX_FIXED_OPERANDS)
        return NO_WEIGHT_USE;
    sc_factors factors;
    sc_op_factors(s->m, op, &factors);
    sc_group_dims dims;
    sc_group_dims_of(sc_type_of(s->m, op->operands[r->operand]), &dims);
    bool any = false;
    weight_use use = NO_SUCH_DIM;
    for (uint32_t i = 0; i < dims.count; i++) {
        bool contracted = contracts(&factors, r->operand, dims.list[i].first);
        any = any || contracted;
        if (use == NO_SUCH_DIM && contracted == (kind == ROWWISE)) {
            *dim = dims.list[i].dim;
            use = HAS_DIM;
        }
    }
    return any ? use : NO_WEIGHT_USE;
}

/* ---- on a function ---- */
typedef struct styling {
    sc_seeding *s;
    const sc_plan_stmt *stmt;
    uint32_t line;
    style style;
    sc_axis_set axes;
} styling;

static const char *bare_path(const sc_seeding *s, sc_value value)
{
    return sc_path_without_indices(s->context,
                                   sc_text(s->context, sc_plan_value_path(s->m, value)));
}

static const char *dim_name(const sc_seeding *s, sc_dim dim)
{
    return sc_text(s->context, s->m->dims.data[dim].name);
}

static void claim_dim(const styling *t, sc_value value, sc_dim dim)
{
    sc_claim_split *split = sc_arena_alloc(&t->s->context->arena, sizeof *split);
    *split = (sc_claim_split){dim, t->style.axes};
    sc_seeding_claim(t->s, t->line, value, SC_SEED_STRONG, 0, split, 1);
}

static void close_axis(const styling *t, sc_value value)
{
    sc_seeding_claim(t->s, t->line, value, SC_SEED_PIN, t->axes, NULL, 0);
}

/* Places an input or output of an op: split along a dim, or replicated. */
static void place_end(const styling *t, const sc_name *end, sc_value value, const char *what)
{
    sc_seeding *s = t->s;
    if (is_text(s->context, end->text, "replicate")) {
        close_axis(t, value);
        return;
    }
    sc_group_dims dims;
    sc_group_dims_of(sc_type_of(s->m, value), &dims);
    for (uint32_t i = 0; i < dims.count; i++) {
        if (s->m->dims.data[dims.list[i].dim].name != end->text)
            continue;
        if (sc_seeding_fits(s, dims.list[i].dim, &t->style.axes, false))
            claim_dim(t, value, dims.list[i].dim);
        else
            sc_seeding_report_misfit(s, dims.list[i].dim, &t->style.axes, end->loc);
        return;
    }
    fail(s->context, end->loc,
         sc_arena_printf(&s->context->arena, "the op's %s has shape %s, without dim %s", what,
                         sc_plan_shape_text(s->m, sc_type_of(s->m, value)),
                         sc_text(s->context, end->text)));
    sc_report_note(&s->context->diag, sc_op_at(s->m, sc_def(s->m, value))->loc, "it is here");
}

/* Applies `from` to this use of the operand alone, by giving it a value of its own. */
static void place_input(const styling *t, const reader *r)
{
    sc_module *m = t->s->m;
    uint32_t other = r->operand == 0 ? 1 : 0;
    if (sc_op_at(m, r->op)->operand_count < 2)
        return;
    sc_value operand = sc_op_at(m, r->op)->operands[other];
    sc_type type = m->values.data[operand].type;
    sc_attr formal = sc_attr_int(SC_ATTR_formal, 1);
    sc_op_id use = sc_op_new(m, sc_op_at(m, r->op)->func, r->op, SC_OP_use, &operand, 1, &formal, 1,
                             &type, 1, r->op);
    sc_op_at(m, r->op)->operands[other] = sc_result(m, use, 0);
    place_end(t, &t->style.from, sc_result(m, use, 0), "input");
}

static void report_roles(const styling *t, sc_value weight, sc_dim first, sc_dim second,
                         sc_op_id first_op, sc_op_id second_op)
{
    sc_seeding *s = t->s;
    fail(s->context, t->stmt->loc,
         sc_arena_printf(
             &s->context->arena,
             "'%s' is used in conflicting roles: %s means dim %s in one use and %s in another",
             bare_path(s, weight), style_words[t->style.kind], dim_name(s, first),
             dim_name(s, second)));
    sc_report_note(&s->context->diag, sc_op_at(s->m, first_op)->loc, "%s here", dim_name(s, first));
    sc_report_note(&s->context->diag, sc_op_at(s->m, second_op)->loc, "%s here",
                   dim_name(s, second));
}

/* Places a bias or gain named in the style: colwise splits its first dim, rowwise replicates it. */
static void style_bias(const styling *t, sc_value weight)
{
    const sc_type_info *type = sc_type_of(t->s->m, weight);
    sc_group_dims dims;
    sc_group_dims_of(type, &dims);
    if (t->style.kind == ROWWISE)
        close_axis(t, weight);
    else if (dims.count > 0 && sc_seeding_fits(t->s, dims.list[0].dim, &t->style.axes, false))
        claim_dim(t, weight, dims.list[0].dim);
    else if (dims.count > 0)
        sc_seeding_report_misfit(t->s, dims.list[0].dim, &t->style.axes, t->stmt->loc);
}

/* Finds the dim on which all readers of a weight agree; SC_NONE for a bias. Returns false after
 * reporting an error. */
static bool agree_on_dim(const styling *t, sc_value weight, const struct sc_weight_readers *readers,
                         sc_dim *out)
{
    sc_seeding *s = t->s;
    sc_op_id decided = SC_NONE;
    *out = SC_NONE;
    for (uint32_t i = readers->first[weight]; i != SC_NONE; i = readers->list.data[i].next) {
        const reader *r = &readers->list.data[i];
        sc_dim dim = SC_NONE;
        weight_use use = dim_for_reader(s, t->style.kind, r, &dim);
        if (use == NO_WEIGHT_USE)
            continue;
        if (use == NO_SUCH_DIM) {
            fail(s->context, t->stmt->loc,
                 sc_arena_printf(&s->context->arena,
                                 "'%s' has no dim for %s: its consumer contracts all of its dims",
                                 bare_path(s, weight), style_words[t->style.kind]));
            sc_report_note(&s->context->diag, sc_op_at(s->m, r->op)->loc, "it is used here");
            return false;
        }
        if (*out != SC_NONE && *out != dim) {
            report_roles(t, weight, *out, dim, decided, r->op);
            return false;
        }
        *out = dim;
        decided = r->op;
    }
    return true;
}

static void style_weight(const styling *t, sc_value weight)
{
    sc_seeding *s = t->s;
    const struct sc_weight_readers *readers = weight_readers(s);
    const uint32_t *first = sc_map_find(
        &readers->by_name, sc_op_word(sc_op_at(s->m, sc_def(s->m, weight)), SC_ATTR_name));
    sc_dim dim;
    if (!agree_on_dim(t, first == NULL ? weight : *first, readers, &dim))
        return;
    if (dim == SC_NONE) {
        style_bias(t, weight);
        return;
    }
    if (!sc_seeding_fits(s, dim, &t->style.axes, false)) {
        sc_seeding_report_misfit(s, dim, &t->style.axes, t->stmt->loc);
        return;
    }
    claim_dim(t, weight, dim);
    if (first != NULL && *first != weight)
        return; /* readers are recorded at the first value */
    for (uint32_t i = readers->first[weight]; i != SC_NONE; i = readers->list.data[i].next) {
        const reader *r = &readers->list.data[i];
        sc_dim same;
        if (dim_for_reader(s, t->style.kind, r, &same) != HAS_DIM)
            continue;
        sc_seeding_lock(s, t->line, r->op, dim, &t->style.axes);
        if (t->style.to.text != 0)
            place_end(t, &t->style.to, sc_result(s->m, r->op, 0), "result");
        if (t->style.from.text != 0)
            place_input(t, r);
    }
}

static void style_value(const styling *t, sc_value value, sc_path_match match)
{
    sc_seeding *s = t->s;
    if ((s->view->kinds[value] & SC_KINDS_FOLLOWING) != 0)
        return;
    uint32_t traits = sc_op_traits(sc_op_at(s->m, sc_def(s->m, value)));
    bool weight = (s->view->kinds[value] & 1u << SC_KIND_PARAM) != 0;
    if (t->style.kind <= ROWWISE && weight && match == SC_PATH_EXACT)
        style_weight(t, value);
    else if (t->style.kind == REPLICATE && match != SC_PATH_NO && (traits & SC_CONSTANT) == 0)
        close_axis(t, value);
}

static void style_sequence(const styling *t, sc_value value, sc_dim dim)
{
    sc_seeding *s = t->s;
    uint32_t traits = sc_op_traits(sc_op_at(s->m, sc_def(s->m, value)));
    sc_sym path = sc_plan_value_path(s->m, value);
    if (path == 0 || (traits & (SC_STATE_READ | SC_CONSTANT)) != 0 ||
        !sc_type_has_dim(s->m, sc_type_of(s->m, value), dim))
        return;
    for (uint32_t i = 0; i < t->stmt->in.count; i++) {
        if (is_direct_member(s->view, &t->stmt->in.data[i], path)) {
            claim_dim(t, value, dim);
            return;
        }
    }
}

void sc_seeding_style(sc_seeding *s, const sc_plan_line *source, uint32_t line)
{
    styling t = {.s = s, .stmt = source->stmt, .line = line};
    if (!read_style(s->plan, source->stmt, &t.style))
        return;
    t.axes = sc_axis_list_set(&t.style.axes);
    sc_dim dim = t.style.kind == SEQUENCE ? sc_module_find_dim(s->m, t.style.dim.text) : SC_NONE;
    if (t.style.kind == SEQUENCE && (dim == SC_NONE || s->sizes[dim] == 0))
        return; /* used by another entry */
    if (t.style.kind == SEQUENCE && !sc_seeding_fits(s, dim, &t.style.axes, false)) {
        sc_seeding_report_misfit(s, dim, &t.style.axes, t.style.dim.loc);
        return;
    }
    sc_plan_scope scope = sc_plan_scope_make(s->context, s->view, &source->stmt->in);
    for (uint32_t i = 0; i < scope.count; i++) {
        sc_value value = sc_plan_scope_value(&scope, i);
        if (t.style.kind == SEQUENCE)
            style_sequence(&t, value, dim);
        else
            style_value(&t, value, sc_plan_scope_match(&scope, s->view->places[value]));
    }
}
