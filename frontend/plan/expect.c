/* `expect` lines: checks their form once, so that evaluating them is only counting. */
#include "frontend/plan/internal.h"

#include <inttypes.h>
#include <string.h>

static const char *const op_words[] = {
#define COLLECTIVE(name, NAME, traits, shares, whole) #name,
#include "program/collectives.def"
};
static const char *const phase_words[] = {"forward", "recompute", "backward", "update"};
static const char *const form_words[] = {"count", "bytes", "memory"};
static const char *const forms[] = {"count(OP, AXIS) == N", "bytes(AXIS) <= N MiB",
                                    "memory() <= N GiB"};

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static bool fail(sc_resolved_plan *plan, sc_loc loc, const char *text)
{
    sc_report(&plan->context->diag, SC_D_bad_expect, loc, text, NULL);
    return false;
}

static int find_word(const char *text, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(text, words[i]) == 0)
            return (int)i;
    }
    return -1;
}

/* Reads a bare name, one of `words`. */
static bool read_word(sc_resolved_plan *plan, const sc_arg *arg, const char *what,
                      const char *const *words, size_t count, sc_sym *out)
{
    sc_arena *arena = &plan->context->arena;
    const sc_expr *value = arg->values.count == 1 ? arg->values.data[0] : NULL;
    if (arg->name.text != 0 || value == NULL || value->kind != SC_EXPR_NAME)
        return fail(plan, arg->loc,
                    sc_arena_printf(arena, "this should be the name of a %s", what));
    const char *text = sc_text(plan->context, value->name);
    *out = value->name;
    if (find_word(text, words, count) >= 0)
        return true;
    const char *near = sc_nearest(text, words, count);
    return fail(plan, arg->loc,
                near == NULL ? sc_arena_printf(arena, "'%s' is not a %s", text, what)
                             : sc_arena_printf(arena, "'%s' is not a %s; did you mean '%s'?", text,
                                               what, near));
}

/* Reads one axis, (x, y), or any. */
static bool read_axes(sc_resolved_plan *plan, const sc_arg *arg, sc_expect *out)
{
    sc_name_list names = {0};
    for (uint32_t i = 0; i < arg->values.count; i++) {
        const sc_expr *value = arg->values.data[i];
        if (arg->name.text != 0 || value->kind != SC_EXPR_NAME)
            return fail(plan, arg->loc,
                        "this should be an axis, a set of axes like (x, y), or 'any'");
        *sc_vec_push(&plan->context->arena, &names) = (sc_name){value->name, value->loc};
    }
    if (names.count == 1 && strcmp(sc_text(plan->context, names.data[0].text), "any") == 0) {
        out->any_axis = true;
        return true;
    }
    sc_axis_list axes;
    if (!sc_plan_axes(plan, &names, &axes))
        return false;
    for (uint32_t i = 0; i < axes.count; i++)
        out->axes |= 1u << axes.axes[i];
    return true;
}

static bool read_call(sc_resolved_plan *plan, const sc_plan_stmt *stmt, sc_expect *out)
{
    const sc_expr *what = stmt->expect.what;
    const char *name =
        what->kind == SC_EXPR_CALL ? sc_text(plan->context, what->call.callee.text) : "";
    int form = find_word(name, form_words, COUNT_OF(form_words));
    if (form < 0) {
        const char *near = sc_nearest(name, form_words, COUNT_OF(form_words));
        fail(plan, what->loc,
             near == NULL
                 ? "this is not a quantity that expect checks"
                 : sc_arena_printf(&plan->context->arena,
                                   "'%s' is not a quantity that expect checks; did you mean '%s'?",
                                   name, near));
        sc_report_note(&plan->context->diag, (sc_loc){0}, "write %s, %s or %s", forms[0], forms[1],
                       forms[2]);
        return false;
    }
    out->kind = (sc_expect_kind)form;
    const sc_arg *args = what->call.args.data;
    uint32_t count = what->call.args.count, next = 0;
    static const uint32_t least[] = {2, 1, 0}, most[] = {3, 2, 0};
    if (what->call.has_dims || count < least[form] || count > most[form])
        return fail(plan, what->loc,
                    sc_arena_printf(&plan->context->arena, "%s is written %s", name,
                                    form == 0   ? "count(OP, AXIS) or count(OP, AXIS, PHASE)"
                                    : form == 1 ? "bytes(AXIS) or bytes(AXIS, PHASE)"
                                                : "memory()"));
    if (out->kind == SC_EXPECTS_COUNT &&
        !read_word(plan, &args[next++], "collective", op_words, COUNT_OF(op_words), &out->op))
        return false;
    if (out->kind != SC_EXPECTS_MEMORY && !read_axes(plan, &args[next++], out))
        return false;
    return next == count ||
           read_word(plan, &args[next], "phase", phase_words, COUNT_OF(phase_words), &out->phase);
}

static bool read_quantity(sc_resolved_plan *plan, const sc_plan_stmt *stmt, sc_expect *out)
{
    static const struct {
        const char *name;
        double bytes;
    } units[] = {{"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30},
                 {"KB", 1e3},     {"MB", 1e6},     {"GB", 1e9}};
    double value = stmt->expect.is_float ? stmt->expect.number : (double)stmt->expect.integer;
    if (value < 0)
        return fail(plan, stmt->loc, "an expected value must be at least 0");
    const sc_name *unit = &stmt->expect.unit;
    if (out->kind == SC_EXPECTS_COUNT) {
        out->count = stmt->expect.integer;
        if (unit->text != 0)
            return fail(plan, unit->loc, "a count has no unit");
        return !stmt->expect.is_float || fail(plan, stmt->loc, "a count is an integer");
    }
    out->bytes = value;
    if (unit->text == 0)
        return true;
    for (size_t i = 0; i < COUNT_OF(units); i++) {
        if (strcmp(sc_text(plan->context, unit->text), units[i].name) == 0) {
            out->bytes = value * units[i].bytes;
            return true;
        }
    }
    return fail(plan, unit->loc,
                sc_arena_printf(&plan->context->arena,
                                "'%s' is not a unit: units are KiB, MiB, GiB, KB, MB and GB",
                                sc_text(plan->context, unit->text)));
}

void sc_plan_resolve_expect(sc_resolved_plan *plan, const sc_plan_stmt *stmt)
{
    sc_expect expect = {
        .in = &stmt->in, .loc = stmt->loc, .exactly = stmt->expect.relation == SC_EXPECT_EQ};
    if (!read_call(plan, stmt, &expect))
        return;
    if (stmt->expect.relation == SC_EXPECT_NONE) {
        fail(plan, stmt->loc, "an expect needs a relation, '==' or '<=', and a value");
        sc_report_note(&plan->context->diag, (sc_loc){0}, "write for example '%s;'",
                       forms[expect.kind]);
        return;
    }
    if (stmt->in.count > 0 && expect.kind != SC_EXPECTS_COUNT) {
        fail(plan, stmt->in.data[0].loc,
             "only count takes 'in PATHS': bytes and memory are totals of a rank");
        return;
    }
    if (!read_quantity(plan, stmt, &expect) || !sc_plan_check_paths(plan, &stmt->in, false))
        return;
    expect.text = sc_plan_line_text(plan->context, stmt);
    *sc_vec_push(&plan->context->arena, &plan->expects) = expect;
}

void sc_plan_expects(const sc_resolved_plan *plan, sc_expect_list *out)
{
    for (uint32_t i = 0; i < plan->expects.count; i++)
        *sc_vec_push(&plan->context->arena, out) = plan->expects.data[i];
}

const sc_expect *sc_plan_memory_to_fit(const sc_resolved_plan *plan)
{
    const sc_expect *least = NULL;
    if (!sc_plan_has_stages(plan) || plan->stage.order != SC_STAGE_AUTO)
        return NULL;
    for (uint32_t e = 0; e < plan->expects.count; e++) {
        const sc_expect *expect = &plan->expects.data[e];
        if (expect->kind == SC_EXPECTS_MEMORY && !expect->exactly &&
            (least == NULL || expect->bytes < least->bytes))
            least = expect;
    }
    return least;
}
