/* shardc legal: the sizes that an axis over a dim may have, for each entry with that dim. */
#include <inttypes.h>
#include <string.h>

#include "tools/commands/commands.h"
#include "tools/explain/report.h"

typedef struct answer {
    sc_sym entry;
    const sc_module *m;
    sc_legal legal;
    int64_t
        batches; /* the entry runs as so many micro-batches of the dim; 1: as one, or of another */
} answer;
typedef SC_VEC(answer) answers;

typedef struct asking {
    sc_context *context;
    const sc_options *options;
    sc_declarations *program;
    sc_resolved_plan *plan;
    sc_sym model, dim;
} asking;

/* Elaborates what a rank runs at once: a micro-batch, where the entry runs as several. A minimised
 * entry means its train step, unless --entry names it. NULL after reporting an error. */
static sc_module *elaborate(asking *q, const sc_entry_info *entry, sc_build_result *built,
                            answer *a)
{
    sc_context *context = q->context;
    bool is_step = entry->minimised && q->options->entry == NULL;
    sc_compiled c = {.program = q->program,
                     .resolved = q->plan,
                     .model = q->model,
                     .entry = entry->entry,
                     .minimize = is_step ? entry->minimize : NULL,
                     .errors_before = context->diag.errors};
    sc_binding_list sizes = {0};
    sc_pipeline unused;
    sc_sym dim;
    if (!sc_driver_find_batches(context, &c, &sizes))
        return NULL;
    int64_t count = sc_plan_micro_batches(q->plan, &dim);
    if (!is_step)
        count = c.batches == NULL ? 1 : c.batches->count;
    a->batches = dim == q->dim ? count : 1;
    return sc_driver_elaborate(context, &c, entry->entry, is_step,
                               c.batches == NULL ? NULL : &sizes, built, &unused);
}

/* Skips entries that are not bound or do not have the dim. */
static void ask_entry(asking *q, const sc_entry_info *entry, answers *out)
{
    sc_binding_list bindings = {0};
    sc_sym_list unbound = {0};
    sc_build_result built = {0};
    answer a = {.entry = entry->entry};
    sc_plan_bindings(q->plan, entry->entry, &bindings);
    sc_declarations_unbound_dims(q->program, q->model, entry->entry, &bindings, &unbound);
    if (unbound.count > 0)
        return;
    sc_module *m = elaborate(q, entry, &built, &a);
    if (m == NULL)
        return;
    a.m = m;
    sc_plan_legal_sizes(q->plan, m, &built, q->dim, &a.legal);
    if (a.legal.size > 0)
        *sc_vec_push(&q->context->arena, out) = a;
}

static void ask(asking *q, answers *out)
{
    sc_entry_list entries = {0};
    sc_declarations_entries(q->program, q->model, &entries);
    for (uint32_t i = 0; i < entries.count; i++) {
        if (q->options->entry == NULL ||
            strcmp(q->options->entry, sc_text(q->context, entries.data[i].entry)) == 0)
            ask_entry(q, &entries.data[i], out);
    }
}

/* ---- output ---- */
static double waste(const sc_legal *legal, const sc_legal_size *size)
{
    return (double)(size->padded - legal->size) / (double)legal->size;
}

static json_t *sizes_json(const sc_legal *legal)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < legal->fits.count; i++) {
        const sc_legal_size *size = &legal->fits.data[i];
        json_t *row = json_pack("{s:I,s:I}", "axis", (json_int_t)size->axis, "local",
                                (json_int_t)size->local);
        json_object_set_new(row, "heads",
                            legal->composite ? json_integer((json_int_t)size->local) : json_null());
        json_object_set_new(row, "kv",
                            legal->composite ? json_integer((json_int_t)size->major) : json_null());
        json_object_set_new(row, "replicated", json_integer((json_int_t)size->replicated));
        json_array_append_new(list, row);
    }
    return list;
}

static json_t *padded_json(const sc_legal *legal)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < legal->pads.count; i++) {
        const sc_legal_size *size = &legal->pads.data[i];
        json_array_append_new(
            list, json_pack("{s:I,s:I,s:I,s:I,s:f}", "axis", (json_int_t)size->axis, "multiple",
                            (json_int_t)size->multiple, "size", (json_int_t)size->padded, "local",
                            (json_int_t)size->local, "waste", waste(legal, size)));
    }
    return list;
}

static void print_json(const asking *q, const answers *all, sc_strbuf *out)
{
    json_t *root = json_object(), *entries = json_array();
    const answer *first = &all->data[0];
    for (uint32_t i = 0; i < all->count; i++) {
        const answer *a = &all->data[i];
        json_array_append_new(
            entries,
            json_pack("{s:s,s:I,s:I,s:o,s:o}", "entry", sc_text(q->context, a->entry), "size",
                      (json_int_t)a->legal.size, "micro_batches", (json_int_t)a->batches, "legal",
                      sizes_json(&a->legal), "padded", padded_json(&a->legal)));
    }
    json_object_set_new(root, "version", json_integer(1));
    json_object_set_new(root, "dim", json_string(sc_text(q->context, q->dim)));
    json_object_set_new(root, "entry", json_string(sc_text(q->context, first->entry)));
    json_object_set_new(root, "size", json_integer((json_int_t)first->legal.size));
    json_object_set_new(root, "composite", json_boolean(first->legal.composite));
    json_object_set_new(root, "legal", sizes_json(&first->legal));
    json_object_set_new(root, "padded", padded_json(&first->legal));
    json_object_set_new(root, "entries", entries);
    sc_print_json(root, out);
}

static void print_sizes(const asking *q, const answer *a, sc_strbuf *out)
{
    const sc_legal *legal = &a->legal;
    const char *name = sc_text(q->context, q->dim);
    const char *major =
        legal->composite ? sc_text(q->context, a->m->dims.data[legal->major].name) : NULL;
    for (uint32_t i = 0; i < legal->fits.count; i++) {
        const sc_legal_size *size = &legal->fits.data[i];
        sc_strbuf_printf(out, "  axis %6" PRIu32 ": %s %" PRId64 " on each rank", size->axis, name,
                         size->local);
        if (major != NULL)
            sc_strbuf_printf(out, ", %s %" PRId64, major, size->major);
        if (size->replicated > 1)
            sc_strbuf_printf(out, ", the same %s on %" PRIu32 " ranks", major, size->replicated);
        sc_strbuf_add_char(out, '\n');
    }
    if (legal->never_padded)
        sc_strbuf_printf(out, "  no others: heads are never padded\n");
    for (uint32_t i = 0; i < legal->pads.count; i++) {
        const sc_legal_size *size = &legal->pads.data[i];
        sc_strbuf_printf(out,
                         "  axis %6" PRIu32 ": with 'pad %s to multiple %" PRIu32
                         ";' %s is %" PRId64 ", %" PRId64 " on each rank, %.2g %% more\n",
                         size->axis, name, size->multiple, name, size->padded, size->local,
                         100 * waste(legal, size));
    }
}

static bool same_answer(const answer *a, const answer *b)
{
    return a->legal.size == b->legal.size && a->legal.fits.count == b->legal.fits.count &&
           a->batches == b->batches;
}

/* Entries in which the dim has the same size share a table. */
static void print_text(const asking *q, const answers *all, sc_strbuf *out)
{
    for (uint32_t i = 0; i < all->count; i++) {
        bool said = false;
        for (uint32_t k = 0; k < i; k++)
            said = said || same_answer(&all->data[k], &all->data[i]);
        if (said)
            continue;
        sc_strbuf_printf(out, "%s = %" PRId64 " in %s%s", sc_text(q->context, q->dim),
                         all->data[i].legal.size,
                         all->data[i].batches > 1 ? "a micro-batch of " : "",
                         sc_text(q->context, all->data[i].entry));
        for (uint32_t k = i + 1; k < all->count; k++) {
            if (same_answer(&all->data[i], &all->data[k]))
                sc_strbuf_printf(out, ", %s", sc_text(q->context, all->data[k].entry));
        }
        sc_strbuf_add_char(out, '\n');
        print_sizes(q, &all->data[i], out);
    }
}

int sc_cmd_legal(sc_context *context, const sc_options *options, sc_strbuf *out)
{
    const sc_plan *plan;
    answers all = {0};
    if (options->rest.count != 1) {
        sc_report(&context->diag, SC_D_usage, (sc_loc){0},
                  "legal takes a file and a dim: shardc legal F DIM", NULL);
        return 0;
    }
    const char *dim = options->rest.data[0];
    asking q = {.context = context,
                .options = options,
                .dim = sc_intern_text(&context->names, dim),
                .program = sc_driver_load(context, options)};
    if (q.program == NULL || !sc_driver_choose_plan(context, q.program, options, &plan))
        return 0;
    q.plan = sc_plan_resolve(q.program, plan, &options->plan_options);
    q.model = plan != NULL ? plan->model.text : sc_declarations_only_model(q.program);
    if (q.plan == NULL || !sc_plan_check_dim(q.plan, &(sc_name){.text = q.dim}))
        return 0;
    uint32_t errors = context->diag.errors;
    ask(&q, &all);
    if (context->diag.errors > errors)
        return 0;
    if (all.count == 0)
        sc_report(&context->diag, SC_D_usage, (sc_loc){0},
                  sc_arena_printf(&context->arena,
                                  "no entry whose dims are all bound has a tensor with dim %s",
                                  dim),
                  NULL);
    else if (options->run.json)
        print_json(&q, &all, out);
    else
        print_text(&q, &all, out);
    return 0;
}
