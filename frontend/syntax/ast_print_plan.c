/* The formatter: paths, minimize, and statements of plans and weights. */
#include "frontend/syntax/ast_print.h"

/* ---- paths and plans ---- */

static void put_path(sc_layout *l, const sc_path *path)
{
    for (uint32_t i = 0; i < path->segs.count; i++) {
        const sc_seg *seg = &path->segs.data[i];
        if (i > 0)
            sc_put(l, ".");
        sc_layout_add(l, seg->name.loc.begin,
                      seg->kind == SC_SEG_ANY ? "*" : sc_layout_text_of(l, seg->name.text));
        if (seg->kind != SC_SEG_RANGE && seg->kind != SC_SEG_INDEX)
            continue;
        sc_put(l, "[");
        sc_put_integer(l, seg->first);
        if (seg->kind == SC_SEG_RANGE) {
            sc_put(l, "..");
            sc_put_integer(l, seg->last);
        }
        sc_put(l, "]");
    }
}

static void put_paths(sc_layout *l, const sc_path_list *paths)
{
    l->depth++;
    for (uint32_t i = 0; i < paths->count; i++) {
        sc_put_comma(l, i);
        put_path(l, &paths->data[i]);
    }
    l->depth--;
}

static void put_optional_paths(sc_layout *l, const char *word, const sc_path_list *paths)
{
    if (paths->count == 0)
        return;
    sc_put_clause(l, word);
    put_paths(l, paths);
}

static void put_kinds(sc_layout *l, const sc_kind_list *kinds)
{
    for (uint32_t i = 0; i < kinds->order.count; i++) {
        sc_put_comma(l, i);
        sc_put(l, sc_kind_names[kinds->order.data[i]]);
    }
}

static void put_mesh(sc_layout *l, const sc_plan_stmt *stmt)
{
    for (uint32_t i = 0; i < stmt->axes.count; i++) {
        const sc_axis_def *axis = &stmt->axes.data[i];
        sc_put_comma(l, i);
        sc_put_name(l, axis->name);
        sc_put_between(l, "=");
        l->depth++;
        sc_print_expr(l, axis->size);
        l->depth--;
        if (axis->link != SC_LINK_DEFAULT)
            sc_put_spaced(l, axis->link == SC_LINK_INTRA ? "intra" : "inter");
    }
}

static void put_bind(sc_layout *l, const sc_plan_stmt *stmt)
{
    for (uint32_t i = 0; i < stmt->binds.count; i++) {
        sc_put_comma(l, i);
        sc_put_name(l, stmt->binds.data[i].dim);
        sc_put_between(l, "=");
        l->depth++;
        sc_print_expr(l, stmt->binds.data[i].value);
        l->depth--;
    }
    put_optional_paths(l, "in", &stmt->in);
}

static void put_shard(sc_layout *l, const sc_plan_stmt *stmt)
{
    l->depth++;
    if (stmt->shard.kinds.order.count > 0) {
        put_kinds(l, &stmt->shard.kinds);
        sc_layout_space(l);
    }
    if (stmt->shard.star)
        sc_put(l, "*");
    else
        sc_put_names(l, &stmt->shard.dims);
    l->depth--;
    sc_put_clause(l, "over");
    l->depth++;
    sc_put_names(l, &stmt->shard.axes);
    l->depth--;
    if (stmt->shard.zigzag)
        sc_put_clause(l, "zigzag");
    put_optional_paths(l, "in", &stmt->in);
    if (!stmt->shard.if_free)
        return;
    sc_put_clause(l, "if");
    sc_put(l, "free");
}

static void put_pin(sc_layout *l, const sc_plan_stmt *stmt)
{
    put_path(l, &stmt->pin.path);
    sc_put_word(l, ":");
    sc_print_shape(l, stmt->pin.shape);
    if (stmt->pin.over.count == 0)
        return;
    sc_put_clause(l, "over");
    sc_put_names(l, &stmt->pin.over);
}

static void put_style(sc_layout *l, const sc_plan_stmt *stmt)
{
    put_paths(l, &stmt->in);
    sc_put(l, ":");
    sc_layout_break(l);
    sc_put_name(l, stmt->style.style);
    if (stmt->style.has_args)
        sc_print_arguments(l, &stmt->style.args);
    sc_put_clause(l, "over");
    sc_put_name(l, stmt->style.axis);
}

static void put_form(sc_layout *l, const sc_plan_stmt *stmt)
{
    put_paths(l, &stmt->in);
    sc_put(l, ":");
    sc_layout_break(l);
    sc_put_name(l, stmt->form.name);
    sc_put_clause(l, "over");
    l->depth++;
    sc_put_names(l, &stmt->form.axes);
    l->depth--;
}

static void put_stage(sc_layout *l, const sc_plan_stmt *stmt)
{
    put_paths(l, &stmt->in);
    sc_put_clause(l, "over");
    sc_put_name(l, stmt->stage.axis);
    if (stmt->stage.options.count == 0)
        return;
    sc_put(l, ":");
    sc_layout_break(l);
    sc_print_args(l, &stmt->stage.options);
}

static void put_stage_at(sc_layout *l, const sc_plan_stmt *stmt)
{
    put_path(l, &stmt->in.data[0]);
    sc_put_between(l, "=");
    sc_print_expr(l, stmt->stage.value);
}

static void put_remat(sc_layout *l, const sc_plan_stmt *stmt)
{
    put_paths(l, &stmt->in);
    put_optional_paths(l, "save", &stmt->remat.save);
}

static void put_offload(sc_layout *l, const sc_plan_stmt *stmt)
{
    put_kinds(l, &stmt->offload);
    put_optional_paths(l, "in", &stmt->in);
}

static void put_reshard(sc_layout *l, const sc_plan_stmt *stmt)
{
    sc_put_word(l, "after");
    sc_put_name(l, stmt->reshard);
    put_optional_paths(l, "in", &stmt->in);
}

static void put_precision(sc_layout *l, const sc_plan_stmt *stmt)
{
    for (uint32_t i = 0; i < stmt->precisions.count; i++) {
        sc_put_comma(l, i);
        sc_put_name(l, stmt->precisions.data[i].what);
        sc_put_between(l, "=");
        sc_put_name(l, stmt->precisions.data[i].dtype);
    }
    put_optional_paths(l, "in", &stmt->in);
}

static void put_accumulate(sc_layout *l, const sc_plan_stmt *stmt)
{
    sc_put_integer(l, stmt->accumulate.count);
    sc_put_between(l, "over");
    sc_put_name(l, stmt->accumulate.dim);
}

static void put_pad(sc_layout *l, const sc_plan_stmt *stmt)
{
    sc_put_name(l, stmt->pad.dim);
    sc_put_between(l, "to multiple");
    sc_print_expr(l, stmt->pad.multiple);
}

static void put_tune(sc_layout *l, const sc_plan_stmt *stmt)
{
    sc_print_args(l, &stmt->tune);
}

static void put_expect(sc_layout *l, const sc_plan_stmt *stmt)
{
    sc_print_expr(l, stmt->expect.what);
    if (stmt->expect.relation != SC_EXPECT_NONE) {
        sc_put_clause(l, stmt->expect.relation == SC_EXPECT_LE ? "<=" : "==");
        sc_put(l, sc_layout_text_of(l, stmt->expect.spelling));
        if (stmt->expect.unit.text != 0) {
            sc_layout_space(l);
            sc_put_name(l, stmt->expect.unit);
        }
    }
    put_optional_paths(l, "in", &stmt->in);
}

static const struct {
    const char *word; /* the first of the line */
    void (*put_rest)(sc_layout *l, const sc_plan_stmt *stmt);
} lines[SC_PLAN_STMT_KINDS] = {
#define KIND(word, TOKEN, traits)
#define PLAN_LINE(word, TOKEN) [SC_PLAN_##TOKEN] = {#word, put_##word},
#include "frontend/syntax/words.def"
    [SC_PLAN_STAGE_AT] = {"stage", put_stage_at},
};

void sc_print_plan_stmt(sc_layout *l, const sc_plan_stmt *stmt)
{
    sc_put_word(l, lines[stmt->kind].word);
    lines[stmt->kind].put_rest(l, stmt);
}

static void put_wdim(sc_layout *l, const sc_wdim *dim)
{
    if (dim->kind == SC_WDIM_NAME) {
        sc_put_name(l, dim->dim);
        return;
    }
    sc_print_expr(l, dim->first);
    if (dim->kind == SC_WDIM_RANGE) {
        sc_put(l, "..");
        sc_print_expr(l, dim->last);
    }
    sc_put_between(l, "of");
    sc_print_expr(l, dim->of);
}

void sc_print_wmap(sc_layout *l, const sc_wmap *map)
{
    if (map->is_ignore) {
        sc_put(l, "ignore");
        sc_layout_space(l);
    } else {
        put_path(l, &map->path);
        sc_put_between(l, "=");
    }
    sc_layout_add(l, map->pattern_loc.begin, sc_layout_text_of(l, map->pattern_spelling));
    if (!map->has_as)
        return;
    sc_put_clause(l, "as");
    sc_put_open_dims(l);
    for (uint32_t i = 0; i < map->as.count; i++) {
        sc_put_comma(l, i);
        put_wdim(l, &map->as.data[i]);
    }
    sc_put_close_dims(l);
}

void sc_print_minimize(sc_layout *l, const sc_minimize *minimize)
{
    sc_put_word(l, "minimize");
    put_path(l, &minimize->target);
    put_optional_paths(l, "over", &minimize->over);
    for (uint32_t i = 0; i < minimize->optimizers.count; i++) {
        const sc_optimizer *optimizer = &minimize->optimizers.data[i];
        sc_put_clause(l, "with");
        sc_put_name(l, optimizer->name);
        sc_print_arguments(l, &optimizer->args);
        put_optional_paths(l, "in", &optimizer->in);
    }
}
