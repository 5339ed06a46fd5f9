/* Opens, checks and reads the files that feed an entry's inputs. */
#include "runtime/drive/feed.h"

#include <string.h>
#include <unistd.h>

#include "runtime/session/shard.h"
#include "support/none.h"
#include "support/strbuf.h"

typedef struct feeding {
    sc_context *context;
    const sc_fact_entry *entry;
    const sc_run_options *options;
    sc_feed *feed;
} feeding;

static const sc_fact_input *input_of(const feeding *f, uint32_t input)
{
    return &f->entry->inputs.data[input];
}

static int64_t elements(const sc_fact_input *input)
{
    int64_t count = 1;
    for (uint32_t i = 0; i < input->rank; i++)
        count *= input->sizes[i];
    return count;
}

static void report_data(feeding *f, const char *text)
{
    sc_report(&f->context->diag, SC_D_bad_data, (sc_loc){0}, text, NULL);
}

static void list_inputs(feeding *f)
{
    sc_arena *arena = &f->context->arena;
    f->feed->count = f->entry->inputs.count;
    f->feed->names = sc_arena_array(arena, f->feed->count + 1u, sizeof *f->feed->names);
    f->feed->arrays = sc_arena_array(arena, f->feed->count + 1u, sizeof *f->feed->arrays);
    f->feed->steps = sc_arena_array(arena, f->feed->count + 1u, sizeof *f->feed->steps);
    f->feed->limits = sc_arena_array(arena, f->feed->count + 1u, sizeof *f->feed->limits);
    for (uint32_t i = 0; i < f->feed->count; i++)
        f->feed->names[i] = input_of(f, i)->name;
}

static bool new_array(feeding *f, uint32_t input)
{
    f->feed->arrays[input] = sc_array_new(input_of(f, input)->rank, input_of(f, input)->sizes);
    if (f->feed->arrays[input].data == NULL)
        sc_report(&f->context->diag, SC_D_run_failed, (sc_loc){0},
                  "there is not enough memory for the inputs", NULL);
    return f->feed->arrays[input].data != NULL;
}

/* ---- --input NAME=FILE[:TENSOR] ---- */

/* Splits FILE:TENSOR. Paths may contain colons: if the whole text names an existing file, it is the
 * path. */
static const char *split_tensor(feeding *f, const char *text, const char **tensor)
{
    const char *colon = strrchr(text, ':');
    *tensor = NULL;
    if (colon == NULL || access(text, F_OK) == 0)
        return text;
    *tensor = colon + 1;
    return sc_arena_copy_text(&f->context->arena, text, (size_t)(colon - text));
}

static const char *list_tensors(feeding *f, const sc_safetensors *file)
{
    enum { MOST = 16 };
    sc_strbuf text;
    sc_strbuf_init(&text, &f->context->arena);
    size_t count = sc_safetensors_count(file);
    for (size_t i = 0; i < count && i < MOST; i++)
        sc_strbuf_printf(&text, "%s%s", i > 0 ? ", " : "", sc_safetensors_at(file, i)->name);
    sc_strbuf_add(&text, count > MOST ? ", .." : "");
    return count == 0 ? "none" : text.data;
}

/* Returns the named tensor, or the file's only one, or the one with the input's name. */
static const sc_safetensor *choose_tensor(feeding *f, const sc_safetensors *file, const char *path,
                                          const char *name, const char *input)
{
    const sc_safetensor *found = name != NULL ? sc_safetensors_find(file, name)
                                 : sc_safetensors_count(file) == 1
                                     ? sc_safetensors_at(file, 0)
                                     : sc_safetensors_find(file, input);
    if (found == NULL)
        report_data(f, sc_arena_printf(&f->context->arena,
                                       "%s has no tensor '%s' for input '%s'; it has %s%s", path,
                                       name != NULL ? name : input, input, list_tensors(f, file),
                                       name != NULL ? "" : "; say which with :TENSOR"));
    return found;
}

static bool kind_fits(sc_dtype_kind kind, sc_element element)
{
    bool is_float = element == SC_ELEMENT_F64 || element == SC_ELEMENT_F32 ||
                    element == SC_ELEMENT_BF16 || element == SC_ELEMENT_F16;
    return kind == SC_DTYPE_FLOAT ? is_float
           : kind == SC_DTYPE_INT ? !is_float && element != SC_ELEMENT_BOOL
                                  : !is_float;
}

static bool has_sizes(const sc_safetensor *tensor, uint32_t first, const int64_t *sizes,
                      uint32_t rank)
{
    bool same = tensor->rank == rank + first;
    for (uint32_t i = 0; same && i < rank; i++)
        same = tensor->shape[first + i] == (uint64_t)sizes[i];
    return same;
}

/* True if the tensor's dims from `first` on are the input's, with composite dims as one axis or as
 * their parts. */
static bool has_shape(const sc_fact_input *input, const sc_safetensor *tensor, uint32_t first)
{
    return has_sizes(tensor, first, input->type.sizes, input->type.rank) ||
           has_sizes(tensor, first, input->sizes, input->rank);
}

static bool check_tensor(feeding *f, uint32_t input, const sc_safetensor *tensor, bool *is_stepped)
{
    const sc_fact_input *about = input_of(f, input);
    sc_arena *arena = &f->context->arena;
    *is_stepped = f->feed->order == SC_FEED_TRAINING && has_shape(about, tensor, 1);
    bool same = has_shape(about, tensor, 0) || *is_stepped;
    if (!same) {
        sc_strbuf shape;
        sc_strbuf_init(&shape, arena);
        for (uint32_t i = 0; i < tensor->rank; i++)
            sc_strbuf_printf(&shape, "%s%llu", i > 0 ? ", " : "",
                             (unsigned long long)tensor->shape[i]);
        report_data(f, sc_arena_printf(arena, "tensor '%s' has shape [%s], but input '%s' is %s",
                                       tensor->name, shape.data == NULL ? "" : shape.data,
                                       f->feed->names[input], about->type.text));
        if (f->feed->order == SC_FEED_TRAINING)
            sc_report_note(&f->context->diag, (sc_loc){0},
                           "or that with a dim for steps before it");
    } else if (!kind_fits(sc_dtypes[about->dtype].kind, tensor->element)) {
        same = false;
        report_data(f, sc_arena_printf(arena, "tensor '%s' holds %s, but input '%s' is %s",
                                       tensor->name, sc_element_name(tensor->element),
                                       f->feed->names[input], sc_dtypes[about->dtype].name));
    }
    return same;
}

static bool read_values(sc_context *context, double *values, uint64_t count,
                        const sc_safetensors *file, const sc_safetensor *tensor, uint64_t first)
{
    const char *reason;
    if (sc_safetensors_read(file, tensor, first, count, values, &reason))
        return true;
    sc_report(&context->diag, SC_D_bad_data, (sc_loc){0},
              sc_arena_printf(&context->arena, "%s: tensor '%s' cannot be read: %s",
                              sc_safetensors_label(file, tensor), tensor->name, reason),
              NULL);
    return false;
}

/* Reports those of the first `count` elements that the input's dtype cannot represent. */
static void check_values(feeding *f, uint32_t input, const sc_safetensors *file,
                         const sc_safetensor *tensor, uint64_t count)
{
    enum { AT_ONCE = 1024 };
    double values[AT_ONCE];
    sc_dtype dtype = input_of(f, input)->dtype;
    if (sc_dtype_is_float(dtype))
        return;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t left = count - i;
        int64_t stored; /* large enough for any element */
        if (i % AT_ONCE == 0 &&
            !read_values(f->context, values, left < AT_ONCE ? left : AT_ONCE, file, tensor, i))
            return;
        if (sc_element_store(sc_element_of_dtype(dtype), &stored, 0, values[i % AT_ONCE]))
            continue;
        report_data(f, sc_arena_printf(&f->context->arena,
                                       "element %llu of tensor '%s' is %.17g, which %s cannot hold",
                                       (unsigned long long)i, tensor->name, values[i % AT_ONCE],
                                       sc_dtypes[dtype].name));
        return;
    }
}

/* Takes ownership of the file, which stays open while steps are read from it. */
static void feed_steps(feeding *f, uint32_t input, sc_safetensors *file,
                       const sc_safetensor *tensor)
{
    uint64_t held = tensor->shape[0], wanted = (uint64_t)f->options->steps;
    f->feed->steps[input] = (sc_feed_steps){file, tensor};
    if (held < wanted)
        report_data(f, sc_arena_printf(
                           &f->context->arena,
                           "tensor '%s' holds %llu steps for input '%s', but --steps asks for %llu",
                           tensor->name, (unsigned long long)held, f->feed->names[input],
                           (unsigned long long)wanted));
    else
        check_values(f, input, file, tensor, wanted * (uint64_t)f->feed->arrays[input].count);
}

static void report_safetensors(feeding *f, const sc_safetensors_error *error)
{
    for (const char *line = error->text; *line != 0;) {
        size_t length = strcspn(line, "\n");
        report_data(f, sc_arena_copy_text(&f->context->arena, line, length));
        line += length + (line[length] == '\n');
    }
}

static uint32_t find_input(feeding *f, const char *name)
{
    for (uint32_t i = 0; i < f->feed->count; i++) {
        if (strcmp(f->feed->names[i], name) == 0)
            return i;
    }
    const char *near = sc_nearest(name, f->feed->names, f->feed->count), *entry = f->entry->name;
    const char *hint =
        near == NULL ? "" : sc_arena_printf(&f->context->arena, "; did you mean '%s'?", near);
    sc_report(&f->context->diag, SC_D_usage, (sc_loc){0},
              sc_arena_printf(&f->context->arena, "'%s' has no input '%s'%s", entry, name, hint),
              NULL);
    return SC_NONE;
}

static void feed_input(feeding *f, const sc_named_text *given)
{
    sc_safetensors_error error = {0};
    const char *tensor_name, *path = split_tensor(f, given->value, &tensor_name);
    uint32_t input = find_input(f, given->name);
    if (input == SC_NONE)
        return;
    if (f->feed->arrays[input].data != NULL) {
        sc_report(&f->context->diag, SC_D_usage, (sc_loc){0},
                  sc_arena_printf(&f->context->arena, "input '%s' is given twice", given->name),
                  NULL);
        return;
    }
    sc_safetensors *file = sc_safetensors_open(path, &error);
    if (file == NULL) {
        report_safetensors(f, &error);
        return;
    }
    const sc_safetensor *tensor = choose_tensor(f, file, path, tensor_name, given->name);
    bool is_stepped = false, fits = tensor != NULL && check_tensor(f, input, tensor, &is_stepped);
    if (!new_array(f, input) || !fits) {
        sc_safetensors_close(file);
    } else if (is_stepped) {
        feed_steps(f, input, file, tensor);
    } else {
        check_values(f, input, file, tensor, tensor->count);
        read_values(f->context, f->feed->arrays[input].data, tensor->count, file, tensor, 0);
        sc_safetensors_close(file);
    }
}

/* ---- --data FILE ---- */

static void find_token_inputs(feeding *f)
{
    sc_feed *feed = f->feed;
    for (uint32_t i = 0; i < feed->count && feed->token_input_count < 2; i++) {
        bool is_position = f->entry->is_cached && i + 2 >= feed->count;
        if (input_of(f, i)->dtype == SC_DTYPE_i32 && feed->arrays[i].data == NULL && !is_position &&
            input_of(f, i)->rank > 0)
            feed->token_inputs[feed->token_input_count++] = i;
    }
}

/* Divides the tokens into batches; there must be at least one. */
static void cut_tokens(feeding *f)
{
    sc_feed *feed = f->feed;
    sc_arena *arena = &f->context->arena;
    const char *path = f->options->data;
    uint64_t shift = feed->token_input_count - 1, batch = feed->rows * feed->row_length,
             count = sc_tokens_count(feed->tokens);
    unsigned bits = 8 * sc_tokens_width(feed->tokens);
    char error[256];
    feed->batches = count < shift ? 0 : (count - shift) / batch;
    if (feed->order == SC_FEED_TRAINING) {
        if (!sc_windows_find(count, feed->row_length, shift > 0, feed->rows, f->options->seed,
                             &feed->windows, error, sizeof error))
            report_data(f, sc_arena_printf(arena, "%s (ids of %u bits): %s", path, bits, error));
    } else if (feed->batches == 0) {
        report_data(
            f, sc_arena_printf(arena, "%s holds %llu tokens (of %u bits), but one batch takes %llu",
                               path, (unsigned long long)count, bits,
                               (unsigned long long)batch + shift));
    }
}

static void feed_tokens(feeding *f)
{
    sc_feed *feed = f->feed;
    sc_arena *arena = &f->context->arena;
    char error[256];
    find_token_inputs(f);
    if (feed->token_input_count == 0) {
        report_data(f, sc_arena_printf(arena, "'%s' has no i32 input for the tokens of --data",
                                       f->entry->name));
        return;
    }
    uint32_t first = feed->token_inputs[0];
    const sc_fact_input *input = input_of(f, first);
    if (feed->token_input_count == 2 &&
        (input_of(f, feed->token_inputs[1])->rank != input->rank ||
         elements(input_of(f, feed->token_inputs[1])) != elements(input))) {
        report_data(
            f, sc_arena_printf(arena,
                               "inputs '%s' and '%s' differ in shape, so --data cannot feed both",
                               f->feed->names[first], f->feed->names[feed->token_inputs[1]]));
        return;
    }
    bool wide = input->distribution.high > SC_TOKENS_NARROW_LIMIT;
    feed->tokens = sc_tokens_open(f->options->data, wide, error, sizeof error);
    if (feed->tokens == NULL) {
        sc_report(&f->context->diag, SC_D_cannot_read, (sc_loc){0}, f->options->data,
                  sc_arena_printf(arena, "%s", error), NULL);
        return;
    }
    feed->data = f->options->data;
    feed->row_length = (uint64_t)input->sizes[input->rank - 1];
    feed->rows = (uint64_t)elements(input) / feed->row_length;
    for (uint32_t i = 0; i < feed->token_input_count; i++)
        new_array(f, feed->token_inputs[i]);
    cut_tokens(f);
}

static uint64_t row_begin(const sc_feed *feed, uint64_t batch, uint64_t row)
{
    if (feed->order == SC_FEED_TRAINING)
        return sc_windows_at(&feed->windows, batch, row);
    return (batch * feed->rows + row) * feed->row_length;
}

static bool read_tokens(sc_context *context, sc_feed *feed, uint64_t batch)
{
    const char *reason;
    for (uint64_t row = 0; row < feed->rows; row++) {
        uint64_t first = row_begin(feed, batch, row);
        for (uint32_t i = 0; i < feed->token_input_count; i++) {
            double *into = feed->arrays[feed->token_inputs[i]].data + row * feed->row_length;
            if (sc_tokens_read(feed->tokens, first + i, feed->row_length, into, &reason))
                continue;
            sc_report(&context->diag, SC_D_bad_data, (sc_loc){0},
                      sc_arena_printf(&context->arena, "%s, for step %llu: %s", feed->data,
                                      (unsigned long long)batch + 1, reason),
                      NULL);
            return false;
        }
    }
    return true;
}

/* ---- limits of ids ---- */

static bool report_id(sc_context *context, const sc_feed *feed, uint32_t input, double id,
                      const char *where)
{
    sc_report(
        &context->diag, SC_D_bad_data, (sc_loc){0},
        sc_arena_printf(&context->arena,
                        "%s is %.17g, but input '%s' takes ids of at least 0 and less than %lld",
                        where, id, feed->names[input], (long long)feed->limits[input].below),
        NULL);
    return false;
}

/* Returns the position in the file of element `e` of a token input. */
static uint64_t token_place(const sc_feed *feed, uint64_t batch, uint32_t shift, int64_t e)
{
    uint64_t row = (uint64_t)e / feed->row_length;
    return row_begin(feed, batch, row) + shift + (uint64_t)e % feed->row_length;
}

static const char *describe_element(sc_context *context, const sc_feed *feed, uint32_t input,
                                    uint64_t batch, int64_t e)
{
    unsigned long long step = (unsigned long long)batch + 1;
    for (uint32_t i = 0; i < feed->token_input_count; i++) {
        if (feed->token_inputs[i] == input)
            return sc_arena_printf(&context->arena, "%s, for step %llu: token %llu", feed->data,
                                   step, (unsigned long long)token_place(feed, batch, i, e));
    }
    if (feed->steps[input].tensor == NULL)
        return sc_arena_printf(&context->arena, "element %lld of what --input gives", (long long)e);
    return sc_arena_printf(&context->arena, "tensor '%s', for step %llu: element %lld",
                           feed->steps[input].tensor->name, step, (long long)e);
}

static bool check_ids(sc_context *context, const sc_feed *feed, uint32_t input, uint64_t batch)
{
    const sc_feed_limit *limit = &feed->limits[input];
    const sc_array *array = &feed->arrays[input];
    if (limit->below <= 0)
        return true;
    for (int64_t e = 0; e < array->count; e++) {
        double id = array->data[e];
        bool is_right = (id >= 0 && id < (double)limit->below) ||
                        (limit->may_ignore && id == (double)limit->ignore);
        if (!is_right)
            return report_id(context, feed, input, id,
                             describe_element(context, feed, input, batch, e));
    }
    return true;
}

/* Checks the tokens that batches use, if the file is small enough to read quickly. */
static bool check_file(sc_context *context, const sc_feed *feed)
{
    enum { QUICK_BYTES = 1 << 28 };
    uint64_t each = feed->rows * feed->row_length, at;
    uint64_t count = feed->order == SC_FEED_TRAINING ? feed->windows.count * feed->row_length
                                                     : feed->batches * each;
    const char *reason;
    double id = 0;
    if (count * sc_tokens_width(feed->tokens) > QUICK_BYTES)
        return true;
    for (uint32_t i = 0; i < feed->token_input_count; i++) {
        uint32_t input = feed->token_inputs[i];
        const sc_feed_limit *limit = &feed->limits[input];
        /* not here: each batch is checked when it is read */
        if (limit->below == 0 || (limit->may_ignore && limit->ignore >= limit->below))
            continue;
        if (!sc_tokens_find_beyond(feed->tokens, i, count, (uint64_t)limit->below, &at, &id,
                                   &reason)) {
            sc_report(&context->diag, SC_D_bad_data, (sc_loc){0},
                      sc_arena_printf(&context->arena, "%s: %s", feed->data, reason), NULL);
            return false;
        }
        if (at != UINT64_MAX)
            return report_id(context, feed, input, id,
                             sc_arena_printf(&context->arena, "%s: token %llu", feed->data,
                                             (unsigned long long)at));
    }
    return true;
}

bool sc_feed_limit_to(sc_context *context, const sc_executor_func *func, sc_feed *feed)
{
    for (uint32_t i = 0; i < feed->count; i++) {
        for (uint32_t j = 0; j < func->input_count; j++) {
            const shardc_tensor_info *info = &func->inputs[j];
            if (strcmp(info->name, feed->names[i]) == 0)
                feed->limits[i] = (sc_feed_limit){info->below, info->may_ignore, info->ignore};
        }
    }
    return feed->tokens == NULL || check_file(context, feed);
}

bool sc_feed_batch(sc_context *context, sc_feed *feed, uint64_t batch)
{
    bool ok = feed->tokens == NULL || read_tokens(context, feed, batch);
    for (uint32_t i = 0; i < feed->count; i++) {
        if (!ok)
            break;
        const sc_feed_steps *steps = &feed->steps[i];
        ok = steps->tensor == NULL ||
             read_values(context, feed->arrays[i].data, (uint64_t)feed->arrays[i].count,
                         steps->file, steps->tensor, batch * (uint64_t)feed->arrays[i].count);
        ok = ok && check_ids(context, feed, i, batch);
    }
    return ok;
}

/* ---- opening and filling ---- */

/* pos stays 0; pos_len is the number of new positions. */
static void feed_positions(feeding *f)
{
    sc_feed *feed = f->feed;
    if (!f->entry->is_cached || feed->count < 2)
        return;
    for (uint32_t i = feed->count - 2; i < feed->count; i++) {
        if (feed->arrays[i].data != NULL || !new_array(f, i) || i + 2 == feed->count)
            continue;
        bool is_read = input_of(f, i)->distribution.form == SC_RANDOM_LENGTH;
        if (is_read) {
            for (int64_t e = 0; e < feed->arrays[i].count; e++)
                feed->arrays[i].data[e] = (double)(input_of(f, i)->distribution.high - 1);
        }
    }
}

static void report_missing(feeding *f)
{
    sc_strbuf text;
    uint32_t missing = 0;
    sc_strbuf_init(&text, &f->context->arena);
    for (uint32_t i = 0; i < f->feed->count; i++) {
        if (f->feed->arrays[i].data == NULL)
            sc_strbuf_printf(&text, "%s'%s' %s", missing++ > 0 ? ", " : "", f->feed->names[i],
                             input_of(f, i)->type.text);
    }
    if (missing > 0)
        sc_report(&f->context->diag, SC_D_usage, (sc_loc){0},
                  sc_arena_printf(&f->context->arena,
                                  "'%s' needs %s %s; give --input NAME=FILE.safetensors[:TENSOR]%s",
                                  f->entry->name, missing > 1 ? "inputs" : "input", text.data,
                                  f->options->data == NULL ? ", or --data FILE for tokens" : ""),
                  NULL);
}

bool sc_feed_open(sc_context *context, const sc_fact_entry *entry, const sc_run_options *options,
                  sc_feed_order order, sc_feed *feed)
{
    feeding f = {.context = context, .entry = entry, .options = options, .feed = feed};
    uint32_t errors = context->diag.errors;
    *feed = (sc_feed){.order = order};
    list_inputs(&f);
    for (uint32_t i = 0; i < options->inputs.count; i++)
        feed_input(&f, &options->inputs.data[i]);
    if (options->data != NULL)
        feed_tokens(&f);
    feed_positions(&f);
    if (context->diag.errors == errors)
        report_missing(&f);
    return context->diag.errors == errors;
}

bool sc_feed_draw(sc_context *context, const sc_fact_entry *entry, uint64_t seed, sc_feed *feed)
{
    feeding f = {.context = context, .entry = entry, .feed = feed};
    *feed = (sc_feed){.order = SC_FEED_AS_STORED};
    list_inputs(&f);
    feed_positions(&f);
    for (uint32_t i = 0; i < feed->count; i++) {
        if (feed->arrays[i].data != NULL)
            continue;
        if (!new_array(&f, i))
            return false;
        sc_random_fill(&input_of(&f, i)->distribution, &(sc_random_options){.seed = seed},
                       feed->arrays[i].data, feed->arrays[i].count);
    }
    return true;
}

void sc_feed_close(sc_feed *feed)
{
    for (uint32_t i = 0; i < feed->count; i++) {
        sc_array_free(&feed->arrays[i]);
        sc_safetensors_close(feed->steps[i].file);
    }
    sc_tokens_close(feed->tokens);
}
