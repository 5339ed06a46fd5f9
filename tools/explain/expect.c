/* Evaluates `expect` statements on the collectives and the memory of the compiled entry. */
#include "tools/explain/expect.h"

#include <assert.h>
#include <string.h>

#include "tools/explain/measure_memory.h"
#include "tools/explain/report.h"

enum { SHOWN = 12 };

typedef struct tally {
    double found;
    SC_VEC(const sc_comm_row *) rows; /* the rows counted */
} tally;

static bool counts(const sc_module *m, const sc_expect *expect, const sc_comm_row *row)
{
    if (row->control || (!expect->any_axis && row->axes != expect->axes))
        return false;
    if (expect->phase != 0 && strcmp(sc_text(m->context, expect->phase), row->phase) != 0)
        return false;
    return expect->kind != SC_EXPECTS_COUNT ||
           strcmp(sc_text(m->context, expect->op), row->name) == 0;
}

static void add_to(sc_module *m, tally *t, const sc_expect *expect, const sc_comm_row *row)
{
    t->found += expect->kind == SC_EXPECTS_COUNT ? 1 : row->sent * row->count;
    *sc_vec_push(&m->context->arena, &t->rows) = row;
}

static bool holds(const sc_expect *expect, double found)
{
    double wanted = expect->kind == SC_EXPECTS_COUNT ? (double)expect->count : expect->bytes;
    return expect->exactly ? found == wanted : found <= wanted;
}

/* Formats bytes with a unit, and exactly, to distinguish a value just above a bound from the
 * bound. */
static const char *found_bytes(sc_context *context, double bytes)
{
    return sc_arena_printf(&context->arena, "%s (%.0f bytes)",
                           sc_bytes_text(&context->arena, bytes), bytes);
}

static void report(sc_context *context, const sc_module *m, sc_diag_id id, const sc_expect *expect,
                   const tally *t, const char *where)
{
    const char *found =
        expect->kind == SC_EXPECTS_COUNT
            ? sc_arena_printf(&context->arena, "%.0f%s", t->found, where)
            : sc_arena_printf(&context->arena, "%s%s", found_bytes(context, t->found), where);
    sc_report(&context->diag, id, expect->loc, expect->text, found, NULL);
    for (uint32_t i = 0; i < t->rows.count && i < SHOWN; i++) {
        const sc_comm_row *row = t->rows.data[i];
        sc_loc place = row->rule == SC_NONE ? (sc_loc){0} : m->rules.data[row->rule].loc;
        sc_report_note(&context->diag, place, "%s of %s in %s over %s, %s sent: %s", row->name,
                       row->values.data[0], sc_text(context, sc_op_at(m, row->op)->scope),
                       sc_comm_group_text(m, row), sc_bytes_text(&context->arena, row->sent),
                       row->why);
    }
    if (t->rows.count > SHOWN)
        sc_report_note(&context->diag, (sc_loc){0}, "and %u more", t->rows.count - SHOWN);
}

/* Returns the instance of a stack that contains a scope covered by a path: `layers[3]` for
 * layers[3].attn. */
static sc_sym instance_of(sc_context *context, sc_sym scope)
{
    const char *text = sc_text(context, scope), *bracket = strrchr(text, ']');
    return bracket == NULL ? scope : sc_intern(&context->names, text, (size_t)(bracket - text) + 1);
}

/* With `in`, checks each instance of a stack. Instances without such a collective count 0. */
static sc_expect_result check_instances(sc_context *context, const sc_compiled *c, sc_diag_id id,
                                        const sc_expect *expect, const sc_comm_rows *rows)
{
    sc_module *m = c->local;
    SC_VEC(sc_sym) instances = {0};
    SC_VEC(tally) tallies = {0};
    sc_map index = {.arena = &context->arena};
    sc_for_each_op (m, c->func, op) {
        sc_sym scope = sc_op_at(m, op)->scope;
        bool covered = false, is_new;
        for (uint32_t p = 0; p < expect->in->count && !covered; p++)
            covered = sc_path_matches(context, &expect->in->data[p], c->entry, scope) != SC_PATH_NO;
        if (!covered)
            continue;
        sc_sym instance = instance_of(context, scope);
        sc_map_insert(&index, instance, instances.count, &is_new);
        if (is_new) {
            *sc_vec_push(&context->arena, &instances) = instance;
            *sc_vec_push(&context->arena, &tallies) = (tally){0};
        }
    }
    for (uint32_t r = 0; r < rows->count; r++) {
        const uint32_t *t =
            sc_map_find(&index, instance_of(context, sc_op_at(m, rows->data[r].op)->scope));
        if (t == NULL || !counts(m, expect, &rows->data[r]))
            continue;
        assert(*t < tallies.count);
        add_to(m, &tallies.data[*t], expect, &rows->data[r]);
    }
    sc_expect_result result = {.expect = expect, .known = true, .holds = true};
    for (uint32_t i = 0; i < instances.count; i++) {
        result.found = tallies.data[i].found;
        result.holds = holds(expect, result.found);
        if (!result.holds) {
            report(context, m, id, expect, &tallies.data[i],
                   sc_arena_printf(&context->arena, " in %s", sc_text(context, instances.data[i])));
            break;
        }
    }
    return result;
}

/* Lists stored bytes, then what is live at the peak, largest first. */
static void report_memory(sc_context *context, sc_diag_id id, const sc_expect *expect,
                          const sc_memory_report *memory)
{
    sc_report(&context->diag, id, expect->loc, expect->text,
              found_bytes(context, (double)memory->peak), NULL);
    for (sc_memory_kind k = 0; k < SC_MEMORY_KINDS; k++) {
        if (memory->bytes[k] > 0)
            sc_report_note(&context->diag, (sc_loc){0}, "%s: %s", sc_memory_kind_names[k],
                           sc_bytes_text(&context->arena, (double)memory->bytes[k]));
    }
    for (uint32_t i = 0; i < memory->live.count && i < SHOWN; i++) {
        const sc_memory_live *live = &memory->live.data[i];
        sc_report_note(&context->diag, live->loc, "%s of %s is %s at the peak",
                       sc_bytes_text(&context->arena, (double)live->bytes),
                       sc_memory_kind_names[live->kind], live->name);
    }
}

static sc_expect_result check_memory(sc_context *context, const sc_compiled *c, sc_diag_id id,
                                     const sc_expect *expect)
{
    sc_memory_report memory;
    sc_expect_result result = {.expect = expect, .known = sc_measure_memory(context, c, &memory)};
    if (!result.known)
        return result;
    result.found = (double)memory.peak;
    result.holds = holds(expect, result.found);
    if (!result.holds)
        report_memory(context, id, expect, &memory);
    return result;
}

static sc_expect_result check_whole(sc_context *context, const sc_compiled *c, sc_diag_id id,
                                    const sc_expect *expect, const sc_comm_rows *rows)
{
    tally t = {0};
    for (uint32_t r = 0; r < rows->count; r++) {
        if (counts(c->local, expect, &rows->data[r]))
            add_to(c->local, &t, expect, &rows->data[r]);
    }
    sc_expect_result result = {
        .expect = expect, .known = true, .found = t.found, .holds = holds(expect, t.found)};
    if (!result.holds)
        report(context, c->local, id, expect, &t, "");
    return result;
}

void sc_check_expects_into(sc_context *context, const sc_compiled *c, sc_diag_id id,
                           sc_expect_results *results)
{
    sc_expect_list expects = {0};
    sc_comm_rows rows = {0};
    if (c->is_default)
        sc_plan_expects(c->resolved, &expects);
    if (expects.count > 0)
        sc_comm_report(c->local, &rows);
    for (uint32_t e = 0; e < expects.count; e++) {
        const sc_expect *expect = &expects.data[e];
        *sc_vec_push(&context->arena, results) =
            expect->kind == SC_EXPECTS_MEMORY ? check_memory(context, c, id, expect)
            : expect->in != NULL && expect->in->count > 0
                ? check_instances(context, c, id, expect, &rows)
                : check_whole(context, c, id, expect, &rows);
    }
}

void sc_check_expects(sc_context *context, const sc_compiled *c, sc_diag_id id)
{
    sc_expect_results results = {0};
    sc_check_expects_into(context, c, id, &results);
}
