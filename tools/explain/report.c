#include "tools/explain/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LISTED_VALUES = 120 /* characters */ };

json_t *sc_axes_json(const sc_module *m, const sc_comm_row *row)
{
    json_t *axes = json_array();
    for (uint32_t a = 0; a < m->mesh.axis_count; a++) {
        if ((row->axes >> a & 1) != 0)
            json_array_append_new(axes, json_string(sc_text(m->context, m->mesh.axes[a].name)));
    }
    return axes;
}

static json_t *layer_json(const sc_comm_row *row)
{
    if (row->layers.count == 0)
        return json_null();
    if (row->layers.count == 1)
        return json_integer((json_int_t)row->layers.data[0]);
    json_t *list = json_array();
    for (uint32_t i = 0; i < row->layers.count; i++)
        json_array_append_new(list, json_integer((json_int_t)row->layers.data[i]));
    return list;
}

static json_t *text_or_null(const char *text)
{
    return text == NULL ? json_null() : json_string(text);
}

static json_t *why_json(const sc_module *m, const sc_comm_row *row)
{
    json_t *why = json_object();
    const sc_rule_ref *rule = row->rule == SC_NONE ? NULL : &m->rules.data[row->rule];
    json_object_set_new(why, "file",
                        rule == NULL ? json_null() : json_string(sc_text(m->context, rule->file)));
    json_object_set_new(why, "line", rule == NULL ? json_null() : json_integer(rule->line));
    json_object_set_new(why, "text", json_string(row->why));
    return why;
}

json_t *sc_stage_json(uint32_t stage)
{
    return stage == SC_ALL_STAGES_RUN ? json_null() : json_integer((json_int_t)stage);
}

json_t *sc_comm_row_json(const sc_module *m, const sc_comm_row *row)
{
    json_t *values = json_array(), *object = json_object();
    for (uint32_t i = 0; i < row->values.count; i++)
        json_array_append_new(values, json_string(row->values.data[i]));
    json_object_set_new(object, "op", json_string(row->name));
    json_object_set_new(object, "reduce", text_or_null(row->reduce));
    json_object_set_new(object, "axes", sc_axes_json(m, row));
    json_object_set_new(object, "sub",
                        row->whole_axes ? json_null() : json_string(sc_comm_group_text(m, row)));
    json_object_set_new(object, "group", json_integer((json_int_t)row->ranks));
    json_object_set_new(object, "stage", sc_stage_json(row->stage));
    json_object_set_new(object, "phase", json_string(row->phase));
    json_object_set_new(object, "scope", json_string(row->scope));
    json_object_set_new(object, "layer", layer_json(row));
    json_object_set_new(object, "value", json_string(row->values.data[0]));
    json_object_set_new(object, "values", values);
    json_object_set_new(object, "dim", text_or_null(row->dim));
    json_object_set_new(object, "dtype", json_string(row->dtype));
    json_object_set_new(object, "bytes", json_integer((json_int_t)row->bytes));
    json_object_set_new(object, "sent", json_integer((json_int_t)(row->sent + 0.5)));
    json_object_set_new(object, "cost", json_integer((json_int_t)(row->cost + 0.5)));
    json_object_set_new(object, "count", json_integer(row->count));
    json_object_set_new(object, "control", json_boolean(row->control));
    json_object_set_new(object, "why", why_json(m, row));
    return object;
}

json_t *sc_plan_json(const sc_context *context, const sc_plan *plan)
{
    return plan == NULL ? json_null() : json_string(sc_text(context, plan->name.text));
}

/* ---- instances of a stack ---- */
/* True if two rows differ only in the stack instance they are in. */
static bool same_call(const sc_comm_row *a, const sc_comm_row *b)
{
    if (strcmp(a->name, b->name) != 0 || strcmp(a->scope, b->scope) != 0 ||
        strcmp(a->phase, b->phase) != 0 || strcmp(a->why, b->why) != 0)
        return false;
    if (a->stage != b->stage || a->axes != b->axes || a->bytes != b->bytes ||
        a->control != b->control || a->layers.count != b->layers.count ||
        a->values.count != b->values.count)
        return false;
    for (uint32_t v = 0; v < a->values.count; v++) {
        if (strcmp(a->values.data[v], b->values.data[v]) != 0)
            return false;
    }
    return true;
}

static uint64_t mix_text(uint64_t hash, const char *text)
{
    return sc_hash_bytes(text, strlen(text), hash);
}

static uint64_t hash_of_call(const sc_comm_row *row)
{
    uint64_t hash = sc_hash_mix(sc_hash_mix(row->axes, row->layers.count), row->stage);
    const char *const texts[] = {row->name, row->scope, row->phase, row->why};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        hash = mix_text(hash, texts[i]);
    for (uint32_t v = 0; v < row->values.count; v++)
        hash = mix_text(hash, row->values.data[v]);
    return hash;
}

/* Finds the group of a row by its hash; groups with equal hashes are chained. */
static uint32_t find_group(sc_context *context, sc_map *by_hash, uint32_t *next,
                           const sc_comm_row *row, sc_comm_groups *out)
{
    bool is_new;
    uint32_t *newest = sc_map_insert(by_hash, hash_of_call(row), out->list.count, &is_new);
    for (uint32_t g = is_new ? SC_NONE : *newest; g != SC_NONE; g = next[g]) {
        if (same_call(out->list.data[g].row, row))
            return g;
    }
    next[out->list.count] = is_new ? SC_NONE : *newest;
    *newest = out->list.count;
    *sc_vec_push(&context->arena, &out->list) = (sc_comm_group){.row = row};
    return out->list.count - 1;
}

void sc_comm_group_rows(sc_context *context, const sc_comm_rows *rows, sc_comm_groups *out)
{
    sc_map by_hash = {.arena = &context->arena};
    uint32_t *next = sc_arena_array(&context->arena, rows->count, sizeof *next);
    *out = (sc_comm_groups){.of_row =
                                sc_arena_array(&context->arena, rows->count, sizeof *out->of_row)};
    for (uint32_t r = 0; r < rows->count; r++) {
        out->of_row[r] = find_group(context, &by_hash, next, &rows->data[r], out);
        out->list.data[out->of_row[r]].calls += rows->data[r].count;
    }
}

const char *sc_comm_values_text(sc_arena *arena, const sc_comm_row *row)
{
    sc_strbuf text;
    size_t length = 0;
    for (uint32_t v = 0; v < row->values.count; v++)
        length += strlen(row->values.data[v]) + 2;
    sc_strbuf_init(&text, arena);
    sc_strbuf_printf(&text, "%s%s%s", row->scope, row->scope[0] != 0 ? ": " : "",
                     row->values.data[0]);
    if (length <= LISTED_VALUES) {
        for (uint32_t v = 1; v < row->values.count; v++)
            sc_strbuf_printf(&text, ", %s", row->values.data[v]);
    } else if (row->values.count > 1) {
        sc_strbuf_printf(&text, " and %u more", row->values.count - 1);
    }
    return text.data;
}

/* ---- totals ---- */
/* Phases in execution order, regardless of the order in the text. */
static uint32_t phase_rank(const char *phase)
{
    static const char *const phases[] = {"init", "forward", "recompute", "backward", "update"};
    uint32_t i = 0;
    while (i < sizeof phases / sizeof *phases && strcmp(phases[i], phase) != 0)
        i++;
    return i;
}

static bool comes_after(const sc_comm_row *a, const sc_comm_row *b)
{
    uint32_t x = phase_rank(a->phase), y = phase_rank(b->phase);
    return x != y ? x > y : a->stage > b->stage;
}

static void sort_by_phase(sc_comm_totals *totals)
{
    for (uint32_t i = 1; i < totals->count; i++) {
        for (uint32_t k = i; k > 0 && comes_after(totals->data[k - 1].first, totals->data[k].first);
             k--) {
            sc_comm_total swap = totals->data[k];
            totals->data[k] = totals->data[k - 1];
            totals->data[k - 1] = swap;
        }
    }
}

void sc_comm_add_up(const sc_module *m, const sc_comm_rows *rows, sc_comm_totals *totals)
{
    for (uint32_t r = 0; r < rows->count; r++) {
        const sc_comm_row *row = &rows->data[r];
        uint32_t t = 0;
        while (t < totals->count && (strcmp(totals->data[t].first->name, row->name) != 0 ||
                                     totals->data[t].first->axes != row->axes ||
                                     totals->data[t].first->stage != row->stage ||
                                     strcmp(totals->data[t].first->phase, row->phase) != 0))
            t++;
        if (t == totals->count)
            *sc_vec_push(&m->context->arena, totals) = (sc_comm_total){.first = row};
        totals->data[t].count += row->count;
        totals->data[t].bytes += row->bytes * row->count;
        totals->data[t].sent += row->sent * row->count;
        totals->data[t].cost += row->cost * row->count;
    }
    sort_by_phase(totals);
}
