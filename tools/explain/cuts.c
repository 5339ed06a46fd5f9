#include "tools/explain/cuts.h"

#include <string.h>

/* ---- crossings ---- */
bool sc_row_transfers(const sc_module *m, const sc_comm_row *row)
{
    return sc_op_transfers((sc_op_kind)sc_op_at(m, row->op)->kind);
}

static bool is_send(const sc_module *m, const sc_comm_row *row)
{
    return sc_row_transfers(m, row) && sc_op_at(m, row->op)->operand_count > 0;
}

void sc_find_crossings(const sc_module *m, const sc_comm_rows *rows, sc_crossings *out)
{
    sc_arena *arena = &m->context->arena;
    *out = (sc_crossings){.m = m, .first = {.arena = arena}};
    sc_map last = {.arena = arena};
    out->next = sc_arena_array(arena, rows->count + 1u, sizeof *out->next);
    for (uint32_t r = 0; r < rows->count; r++) {
        const sc_comm_row *row = &rows->data[r];
        sc_sym path = sc_op_word(sc_op_at(m, row->op), SC_ATTR_moves);
        uint32_t here = out->list.count;
        bool is_first;
        if (!is_send(m, row) || path == 0)
            continue;
        *sc_vec_push(arena, &out->list) = *row;
        out->next[here] = SC_NONE;
        sc_map_insert(&out->first, path, here, NULL);
        uint32_t *before = sc_map_insert(&last, path, here, &is_first);
        if (!is_first)
            out->next[*before] = here;
        *before = here;
    }
}

static uint32_t first_of(const sc_crossings *c, sc_sym path)
{
    const uint32_t *first = path == 0 ? NULL : sc_map_find(&c->first, path);
    return first == NULL ? SC_NONE : *first;
}

static sc_sym gradient_of(const sc_crossings *c, sc_sym path)
{
    sc_context *context = c->m->context;
    return path == 0 ? 0 : sc_intern_printf(&context->names, "%s.grad", sc_text(context, path));
}

static uint32_t reader_of(const sc_crossings *c, const sc_comm_row *row)
{
    return (uint32_t)sc_op_int(sc_op_at(c->m, row->op), SC_ATTR_stage, 0);
}

static void print_list(const sc_crossings *c, sc_sym path, const char *what, sc_strbuf *out)
{
    sc_arena *arena = &c->m->context->arena;
    for (uint32_t i = first_of(c, path); i != SC_NONE; i = c->next[i]) {
        const sc_comm_row *row = &c->list.data[i];
        const char *step = sc_bytes_text(arena, row->sent * row->count);
        sc_strbuf_printf(out, "    %s a cut: stage %u computes it, stage %u reads it; ", what,
                         row->stage, reader_of(c, row));
        if (!row->per_step)
            sc_strbuf_printf(out, "%s a micro-batch, ", sc_bytes_text(arena, row->sent));
        sc_strbuf_printf(out, "%s a step\n", step);
    }
}

void sc_print_crossings(const sc_crossings *crossings, sc_sym path, sc_strbuf *out)
{
    print_list(crossings, path, "crosses", out);
    print_list(crossings, gradient_of(crossings, path), "its gradient crosses", out);
}

static void add_json(const sc_crossings *c, sc_sym path, bool gradient, json_t *list)
{
    for (uint32_t i = first_of(c, path); i != SC_NONE; i = c->next[i]) {
        const sc_comm_row *row = &c->list.data[i];
        json_array_append_new(
            list, json_pack("{s:b,s:I,s:I,s:I,s:I}", "gradient", gradient, "from",
                            (json_int_t)row->stage, "to", (json_int_t)reader_of(c, row), "sent",
                            (json_int_t)(row->sent + 0.5), "count", (json_int_t)row->count));
    }
}

json_t *sc_crossings_json(const sc_crossings *crossings, sc_sym path)
{
    json_t *list = json_array();
    add_json(crossings, path, false, list);
    add_json(crossings, gradient_of(crossings, path), true, list);
    return list;
}

/* ---- moving a cut ---- */
static const sc_plan_stmt *stage_line(const sc_plan *plan, uint32_t *index)
{
    for (*index = 0; *index < plan->body.count; (*index)++) {
        if (plan->body.data[*index]->kind == SC_PLAN_STAGE)
            return plan->body.data[*index];
    }
    return NULL;
}

/* Returns the line with other lengths: its `split(..)` replaced, or appended. */
static const char *with_lengths(sc_context *context, const sc_plan_stmt *stmt,
                                const uint32_t *lengths, uint32_t count)
{
    const sc_arg_list *options = &stmt->stage.options;
    const char *text = sc_sources_text(&context->sources, stmt->loc), *comma = ", ";
    /* after the last option, which has a name: split has none */
    sc_loc place = options->data[options->count - 1].loc;
    place.begin = place.end;
    for (uint32_t i = 0; i < options->count; i++) {
        if (options->data[i].name.text == 0) {
            place = options->data[i].loc;
            comma = "";
        }
    }
    sc_strbuf out;
    sc_strbuf_init(&out, &context->arena);
    sc_strbuf_add_bytes(&out, text, place.begin - stmt->loc.begin);
    sc_strbuf_printf(&out, "%ssplit(", comma);
    for (uint32_t k = 0; k < count; k++)
        sc_strbuf_printf(&out, "%s%u", k > 0 ? ", " : "", lengths[k]);
    sc_strbuf_printf(&out, ")%s", text + (place.end - stmt->loc.begin));
    return out.data;
}

/* Moves the cut between two chunks by one instance, if the chunk that gives it keeps one. */
static void move_cut(const sc_compiled *c, const sc_edit *like, const sc_plan_stmt *stmt,
                     uint32_t from, uint32_t to, sc_edits *out)
{
    sc_context *context = c->local->context;
    uint32_t chunks = c->pipeline.schedule->chunks;
    uint32_t *lengths = sc_arena_array(&context->arena, chunks, sizeof *lengths);
    if (c->pipeline.lengths[from] <= 1)
        return;
    memcpy(lengths, c->pipeline.lengths, chunks * sizeof *lengths);
    lengths[from]--;
    lengths[to]++;
    sc_edit edit = *like;
    edit.line = with_lengths(context, stmt, lengths, chunks);
    *sc_vec_push(&context->arena, out) = edit;
}

void sc_list_cut_edits(const sc_compiled *c, const sc_comm_row *send, sc_edits *out)
{
    const sc_pipeline_schedule *schedule = c->pipeline.schedule;
    const sc_op *op = sc_op_at(c->local, send->op);
    sc_edit edit = {.kind = SC_EDIT_REPLACE};
    const sc_plan_stmt *stmt = c->plan == NULL ? NULL : stage_line(c->plan, &edit.statement);
    uint32_t reader = (uint32_t)sc_op_int(op, SC_ATTR_stage, 0), at = op->chunk;
    bool is_forward = strcmp(send->phase, "forward") == 0;
    if (stmt == NULL || schedule == NULL || send->per_step || at >= schedule->chunks)
        return;
    edit.loc = stmt->loc;
    edit.old = sc_sources_text(&c->local->context->sources, stmt->loc);
    /* chunk by chunk to the reader: forward to later ones, backward to earlier ones */
    while (schedule->rank_of[at] != reader && (is_forward ? at + 1 < schedule->chunks : at > 0)) {
        uint32_t next = is_forward ? at + 1 : at - 1;
        move_cut(c, &edit, stmt, at, next, out);
        move_cut(c, &edit, stmt, next, at, out);
        at = next;
    }
}
