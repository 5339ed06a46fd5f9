/* Zigzag: `shard act, input S over cp zigzag;` cuts S into twice as many chunks as cp has ranks,
 * and gives each rank one from the front and its mirror image from the back. It is a property of
 * the dim, and of its aliases, in the whole function: every value that is split over the axis along
 * it is split so. */
#include "frontend/plan/internal.h"

enum {
    ACTIVATIONS = 1 << SC_KIND_ACT | 1 << SC_KIND_INPUT | 1 << SC_KIND_OUTPUT /* may be zigzag */
};

static bool fail(sc_resolved_plan *plan, const sc_plan_line *line, const char *text)
{
    sc_report(&plan->context->diag, SC_D_bad_zigzag, line->stmt->shard.zigzag_loc, text, NULL);
    return false;
}

bool sc_plan_check_zigzag(sc_resolved_plan *plan, const sc_plan_line *line)
{
    const sc_plan_stmt *stmt = line->stmt;
    uint32_t kinds = stmt->shard.kinds.mask;
    if (kinds == 0 || (kinds & ~(uint32_t)ACTIVATIONS) != 0)
        return fail(plan, line,
                    "zigzag is an order of activations, not of what is stored: the "
                    "line names act, input or output, and no other kind");
    if (stmt->shard.if_free)
        return fail(plan, line, "a line with 'if free' cannot be zigzag");
    if (stmt->shard.star || stmt->shard.dims.count != 1 || line->axes.count > 1)
        return fail(plan, line, "a zigzag is of one dim over one axis");
    return true;
}

/* ---- on one function ---- */

/* The dim of a zigzag line that this function has, or SC_NONE. */
static sc_dim dim_of(const sc_seeding *s, const sc_plan_line *source)
{
    return source->broken || source->stmt->kind != SC_PLAN_SHARD || !source->stmt->shard.zigzag
               ? SC_NONE
               : sc_module_find_dim(s->m, source->stmt->shard.dims.data[0].text);
}

static void set_zigzag(sc_module *m, sc_dim dim, const sc_sub_axis_list *list)
{
    for (sc_dim d = 0; d < m->dims.count; d++) {
        if (d == dim || m->dims.data[d].alias_of == dim)
            m->dims.data[d].zigzag = *list;
    }
}

void sc_seeding_expect_zigzag(sc_seeding *s, const sc_plan_line *source)
{
    sc_dim dim = dim_of(s, source);
    if (dim == SC_NONE || sc_plan_axes_size(s->plan, &source->axes) < 2)
        return;
    if (s->m->dims.data[dim].part_count > 0) {
        sc_report(&s->context->diag, SC_D_bad_zigzag, source->stmt->shard.dims.data[0].loc,
                  "a composite cannot be split zigzag", NULL);
        return;
    }
    /* the sub-axes are not cut yet; that there are some counts for the sizes that divide */
    set_zigzag(s->m, dim, &(sc_sub_axis_list){.count = 1});
}

void sc_seeding_keep_zigzag(sc_seeding *s, const sc_plan_line *source, uint32_t line)
{
    sc_dim dim = dim_of(s, source);
    if (dim != SC_NONE && s->lines.data[line].list.count == 0)
        set_zigzag(s->m, dim, &(sc_sub_axis_list){0});
}

static bool splits_over(const sc_line_claims *claims, const sc_module *m, sc_dim dim,
                        const sc_axis_list *axes)
{
    for (uint32_t i = 0; i < claims->list.count; i++) {
        for (uint32_t k = 0; k < claims->list.data[i].split_count; k++) {
            const sc_claim_split *split = &claims->list.data[i].splits[k];
            bool is_dim = split->dim == dim || m->dims.data[split->dim].alias_of == dim;
            if (is_dim && (sc_axis_list_set(&split->axes) & sc_axis_list_set(axes)) != 0)
                return true;
        }
    }
    return false;
}

/* Reports other rules that split the dim over the axis and say nothing of the order; pins and
 * styles have no word for it. */
static void report_others(sc_seeding *s, uint32_t line, sc_dim dim)
{
    const sc_plan_line *mine = &s->plan->lines.data[line];
    for (uint32_t i = 0; i < s->plan->lines.count; i++) {
        const sc_plan_line *other = &s->plan->lines.data[i];
        if (i == line || other->stmt->kind != SC_PLAN_SHARD || other->stmt->shard.zigzag ||
            !splits_over(&s->lines.data[i], s->m, dim, &mine->axes))
            continue;
        sc_report(&s->context->diag, SC_D_bad_zigzag, other->stmt->loc,
                  sc_arena_printf(&s->context->arena,
                                  "this line splits %s over %s, too, which another line splits "
                                  "zigzag there: say 'zigzag' in both or in none",
                                  sc_text(s->context, s->m->dims.data[dim].name),
                                  sc_plan_axes_text(s->plan, &mine->axes)),
                  NULL);
        sc_report_note(&s->context->diag, mine->stmt->loc, "the other line is here");
    }
}

void sc_seeding_zigzag(sc_seeding *s)
{
    for (uint32_t l = 0; l < s->plan->lines.count; l++) {
        const sc_plan_line *source = &s->plan->lines.data[l];
        sc_dim dim = dim_of(s, source);
        if (dim == SC_NONE || s->m->dims.data[dim].zigzag.count == 0)
            continue;
        sc_sub_axis_list list = {0};
        sc_sub_axis_set sub_axes = sc_seeding_sub_axes(s, sc_axis_list_set(&source->axes));
        for (uint8_t a = 0; a < s->m->mesh.sub_axis_count; a++) {
            if ((sub_axes >> a & 1) != 0)
                list.sub_axes[list.count++] = a;
        }
        set_zigzag(s->m, dim, &list);
        report_others(s, l, dim);
    }
}
