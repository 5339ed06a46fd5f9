/* The model file: what a person would write who has the sizes. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "tools/import/import.h"

typedef struct writer {
    sc_context *context;
    const sc_import_facts *facts;
    const char *precision;
    sc_strbuf *out;
} writer;

static const char *text_of(const writer *w, sc_sym name)
{
    return sc_text(w->context, name);
}

/* ---- sizes and arguments ---- */
static void write_dims(const writer *w)
{
    for (uint32_t i = 0; i < w->facts->dims.count; i++)
        sc_strbuf_printf(w->out, "%s%s = %" PRId64, i == 0 ? "dim " : ", ",
                         w->facts->dims.data[i].name, w->facts->dims.data[i].size);
    sc_strbuf_add(w->out, ";\n");
}

/* True if the argument is what the family's model has without it. */
static bool is_default(const writer *w, const sc_import_arg *arg)
{
    for (uint32_t i = 0; i < w->facts->model->statics.count; i++) {
        const sc_arg *known = &w->facts->model->statics.data[i];
        const sc_expr *value = known->values.data[0];
        if (strcmp(text_of(w, known->name.text), arg->name) != 0)
            continue;
        if (value->kind == SC_EXPR_NAME)
            return strcmp(text_of(w, value->name), arg->text) == 0;
        return (value->kind == SC_EXPR_INT && (double)value->integer == arg->number) ||
               (value->kind == SC_EXPR_FLOAT && value->number == arg->number);
    }
    return false;
}

static void write_args(const writer *w)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < w->facts->args.count; i++) {
        const sc_import_arg *arg = &w->facts->args.data[i];
        if (is_default(w, arg))
            continue;
        if (count++ == 0)
            sc_strbuf_printf(w->out, "model %s(", text_of(w, w->facts->model->name.text));
        else
            sc_strbuf_add(w->out, ", ");
        sc_strbuf_printf(w->out, "%s = %s", arg->name, arg->text);
    }
    sc_strbuf_add(w->out, count > 0 ? ");\n" : "");
}

static bool has_entry(const writer *w, const char *name)
{
    for (uint32_t i = 0; i < w->facts->model->body.count; i++) {
        const sc_stmt *stmt = w->facts->model->body.data[i];
        if (stmt->kind == SC_STMT_ENTRY && strcmp(text_of(w, stmt->callable->name.text), name) == 0)
            return true;
    }
    return false;
}

/* ---- plans ---- */
static const sc_dim_def *find_dim(const writer *w, const char *name)
{
    for (uint32_t i = 0; i < w->facts->file->items.count; i++) {
        const sc_item *item = w->facts->file->items.data[i];
        uint32_t count = item->kind == SC_ITEM_DIM ? item->dims.count : 0;
        for (uint32_t d = 0; d < count; d++) {
            if (strcmp(text_of(w, item->dims.data[d].name.text), name) == 0)
                return &item->dims.data[d];
        }
    }
    return NULL;
}

/* A composite is split major first; past its major part the next is split, and what has only the
 * major part is replicated. */
static bool divides(const writer *w, int64_t ranks, const char *name)
{
    const sc_dim_def *dim = find_dim(w, name);
    uint32_t parts = dim == NULL ? 0 : dim->parts.count;
    if (parts == 0)
        return sc_import_size(w->facts, name) % ranks == 0;
    for (uint32_t i = 0; i < parts && ranks > 1; i++) {
        int64_t size = sc_import_size(w->facts, text_of(w, dim->parts.data[i].text));
        if (size % ranks == 0)
            return true;
        if (ranks % size != 0)
            return false;
        ranks /= size;
    }
    return ranks == 1;
}

static int64_t size_of(const writer *w, const char *name)
{
    const sc_dim_def *dim = find_dim(w, name);
    uint32_t parts = dim == NULL ? 0 : dim->parts.count;
    int64_t size = parts == 0 ? sc_import_size(w->facts, name) : 1;
    for (uint32_t i = 0; i < parts; i++)
        size *= sc_import_size(w->facts, text_of(w, dim->parts.data[i].text));
    return size;
}

static const char *row_value(const writer *w, sc_import_kind kind)
{
    for (uint32_t i = 0; i < w->facts->family->rows.count; i++) {
        if (w->facts->family->rows.data[i].kind == kind)
            return w->facts->family->rows.data[i].value;
    }
    return "";
}

static void write_precision(const writer *w)
{
    if (strcmp(w->precision, "f64") == 0)
        sc_strbuf_add(w->out, "  precision param = f64, act = f64, grad = f64, opt = f64, cache = "
                              "f64, reduce = f64;\n");
    else if (strcmp(w->precision, "bf16") == 0)
        sc_strbuf_add(w->out, "  precision param = bf16, act = bf16, grad = f32, opt = f32, cache "
                              "= bf16;\n");
}

static void begin_plan(const writer *w, const char *name)
{
    sc_strbuf_printf(w->out, "\nplan %s for %s {\n", name, text_of(w, w->facts->model->name.text));
}

static void end_plan(const writer *w)
{
    write_precision(w);
    sc_strbuf_add(w->out, "}\n");
}

typedef SC_VEC(const char *) words;

static void split_words(const writer *w, const char *list, words *out)
{
    while (*list != 0) {
        size_t length = strcspn(list, " ");
        *sc_vec_push(&w->context->arena, out) =
            sc_arena_copy_text(&w->context->arena, list, length);
        list += length;
        list += strspn(list, " ");
    }
}

static bool has_text(const words *list, const char *text)
{
    for (uint32_t i = 0; i < list->count; i++) {
        if (strcmp(list->data[i], text) == 0)
            return true;
    }
    return false;
}

static void write_words(const writer *w, const words *list, const char *between, const char *last)
{
    for (uint32_t i = 0; i < list->count; i++)
        sc_strbuf_printf(w->out, "%s%s",
                         i == 0                ? ""
                         : i + 1 < list->count ? between
                                               : last,
                         list->data[i]);
}

/* The dims of positions. */
static words positions_of(const writer *w)
{
    words dims = {0};
    const char *row = row_value(w, SC_IMPORT_POSITIONS);
    split_words(w, row[0] == 0 ? "S" : row, &dims);
    return dims;
}

/* Whether the text of an argument, a number or a list of them, has this one. */
static bool has_number(const char *text, const char *number)
{
    static const char ends[] = "[], ";
    const size_t wanted = strlen(number);
    for (text += strspn(text, ends); *text != 0; text += strspn(text, ends)) {
        const size_t length = strcspn(text, ends);
        if (length == wanted && memcmp(text, number, length) == 0)
            return true;
        text += length;
    }
    return false;
}

/* False if a `where ARGUMENT VALUE` row says that no layer of this model has the dim. */
static bool is_somewhere(const writer *w, const char *dim)
{
    const sc_import_family *family = w->facts->family;
    for (uint32_t i = 0; i < family->rows.count; i++) {
        const sc_import_row *row = &family->rows.data[i];
        if (row->kind != SC_IMPORT_WHERE || strcmp(row->name, dim) != 0)
            continue;
        words pair = {0};
        split_words(w, row->value, &pair);
        for (uint32_t a = 0; a < w->facts->args.count; a++) {
            const sc_import_arg *arg = &w->facts->args.data[a];
            if (strcmp(arg->name, pair.data[0]) == 0)
                return has_number(arg->text, pair.data[1]);
        }
    }
    return true;
}

/* The dims that tensor parallelism splits, of those that the model has. */
static words split_dims(const writer *w)
{
    words all = {0}, dims = {0};
    split_words(w, row_value(w, SC_IMPORT_SPLIT), &all);
    for (uint32_t i = 0; i < all.count; i++) {
        if (is_somewhere(w, all.data[i]))
            *sc_vec_push(&w->context->arena, &dims) = all.data[i];
    }
    return dims;
}

/* Tensor parallelism with sequence parallelism; a comment if a dim does not divide. */
static void write_tp(const writer *w, int64_t ranks)
{
    words dims = split_dims(w), padded = {0}, pads = {0};
    split_words(w, row_value(w, SC_IMPORT_PAD), &padded);
    for (uint32_t i = 0; i < dims.count; i++) {
        if (divides(w, ranks, dims.data[i]))
            continue;
        if (!has_text(&padded, dims.data[i])) {
            sc_strbuf_printf(w->out,
                             "\n// There is no plan tp%" PRId64 ": %s = %" PRId64
                             " cannot be split over %" PRId64 " ranks.\n",
                             ranks, dims.data[i], size_of(w, dims.data[i]), ranks);
            return;
        }
        *sc_vec_push(&w->context->arena, &pads) = dims.data[i];
    }
    begin_plan(w, sc_arena_printf(&w->context->arena, "tp%" PRId64, ranks));
    sc_strbuf_printf(w->out, "  mesh tp = %" PRId64 ";\n  shard ", ranks);
    write_words(w, &dims, ", ", ", ");
    const words positions = positions_of(w);
    sc_strbuf_add(w->out, " over tp;\n  shard act ");
    write_words(w, &positions, ", ", ", ");
    sc_strbuf_add(w->out, " over tp if free;\n");
    for (uint32_t i = 0; i < pads.count; i++)
        sc_strbuf_printf(w->out, "  pad %s to multiple 128;\n", pads.data[i]);
    end_plan(w);
}

/* The sizes that config.json does not have. */
static void write_sizes_note(const writer *w)
{
    words sizes = {0};
    const words positions = positions_of(w);
    *sc_vec_push(&w->context->arena, &sizes) = "B";
    for (uint32_t i = 0; i < positions.count; i++)
        *sc_vec_push(&w->context->arena, &sizes) = positions.data[i];
    write_words(w, &sizes, ", ", " and ");
    sc_strbuf_add(w->out, ", its batch and positions, are for --bind.\n");
}

void sc_import_write(sc_context *context, const sc_import_facts *facts, const char *precision,
                     sc_strbuf *out)
{
    const writer w = {context, facts, precision, out};
    const char *model = sc_text(context, facts->model->name.text);
    sc_strbuf_printf(out, "lang 1;\n\n// Sizes of a %s, from its config.json. ",
                     facts->family->type);
    write_sizes_note(&w);
    sc_strbuf_printf(out, "import \"shardc/%s.shard\";\n\n", facts->family->name);
    write_dims(&w);
    write_args(&w);
    if (has_entry(&w, "loss"))
        sc_strbuf_printf(out,
                         "\nminimize %s.loss with adamw(lr = 3e-4, beta1 = 0.9, beta2 = 0.95, "
                         "decay = 0.1, clip = 1.0);\n",
                         model);
    begin_plan(&w, "one");
    end_plan(&w);
    for (int64_t ranks = 2; ranks <= 8; ranks *= 2)
        write_tp(&w, ranks);
    begin_plan(&w, "fsdp8");
    sc_strbuf_add(out, "  mesh fsdp = 8;\n  shard B over fsdp;\n  shard param, grad, opt * over "
                       "fsdp;\n");
    end_plan(&w);
}
