/* Generates tokens: prefill, decode, sampling, and text output. */
#include "runtime/drive/generate.h"

#include <errno.h>
#include <string.h>

#include "runtime/drive/json.h"
#include "runtime/drive/prompt_text.h"
#include "runtime/drive/sample.h"
#include "runtime/drive/trainer.h"
#include "support/hash.h"
#include "support/rng.h"

enum { DEFAULT_TOKENS = 64 };

typedef struct gen_row {
    sc_token_list tokens; /* the prompt and its continuation */
    uint32_t prompt;      /* tokens of the prompt */
    uint32_t done;        /* tokens already in the caches */
    bool is_over;
} gen_row;

typedef struct generating {
    sc_context *context;
    const sc_facts *facts;
    const sc_run_options *options;
    sc_executor *executor;
    uint32_t batch, vocabulary;
    gen_row *rows;
    uint32_t row_count;
    uint32_t *order; /* scratch for sampling */
    double *weights;
    sc_prompt_text text;
    sc_row_text streamed; /* of the only row, if `shown` */
    FILE *shown;          /* NULL: rows are part of the result */
} generating;

static bool fail(generating *g, sc_diag_id id, const char *text)
{
    sc_report(&g->context->diag, id, (sc_loc){0}, text, NULL);
    return false;
}

/* ---- text ---- */

static bool read_prompt(generating *g, const char *text, gen_row *out)
{
    if (!sc_prompt_text_read(&g->text, text, &out->tokens))
        return false;
    out->prompt = out->tokens.count;
    if (out->prompt == 0)
        return fail(g, SC_D_usage, "--prompt is empty: the first token has to be given");
    if ((int64_t)out->prompt > g->facts->generate.capacity)
        return fail(g, SC_D_usage,
                    sc_arena_printf(&g->context->arena,
                                    "a prompt has %u tokens, but the caches hold %lld", out->prompt,
                                    (long long)g->facts->generate.capacity));
    return true;
}

static bool show(generating *g, const sc_strbuf *text)
{
    if (fwrite(text->data, 1, text->length, g->shown) == text->length && fflush(g->shown) == 0)
        return true;
    sc_report(&g->context->diag, SC_D_cannot_write, (sc_loc){0}, "standard output", strerror(errno),
              NULL);
    return false;
}

static void stream(generating *g, uint32_t token)
{
    sc_strbuf text;
    if (g->shown == NULL || !g->executor->is_first)
        return;
    sc_strbuf_init(&text, &g->context->arena);
    if (sc_row_text_add(&g->streamed, token, &text))
        show(g, &text);
}

/* ---- calls ---- */

/* Calls a function with each row's tokens from `done` on, as many as it takes. Rows that are
 * finished or waiting are idle. */
static bool call(generating *g, uint32_t func, bool is_prefill, sc_array *logits)
{
    const sc_executor_func *about = &g->executor->funcs[func];
    sc_array inputs[3] = {{0}};
    const char *names[3];
    shardc_error error = {.text = "there is not enough memory for the inputs"};
    bool ok = true;
    for (uint32_t i = 0; i < 3; i++) {
        names[i] = g->facts->entry.inputs.data[i].name;
        if (sc_executor_find_input(about, names[i]) == NULL)
            return fail(g, SC_D_run_failed,
                        sc_arena_printf(&g->context->arena, "'%s' does not read '%s'", about->name,
                                        names[i]));
    }
    for (uint32_t i = 0; i < 3; i++) {
        const shardc_tensor_info *info = sc_executor_find_input(about, names[i]);
        int64_t sizes[SC_ARRAY_MAX_RANK];
        for (uint32_t d = 0; d < info->rank; d++)
            sizes[d] = info->dims[d].size;
        inputs[i] = sc_array_new(info->rank, sizes);
        ok = ok && inputs[i].data != NULL;
    }
    int64_t width = ok ? inputs[0].sizes[1] : 0;
    if (ok) {
        for (uint32_t r = 0; r < g->row_count; r++) {
            gen_row *row = &g->rows[r];
            int64_t left =
                row->is_over
                    ? 0
                    : (int64_t)((is_prefill ? row->prompt : row->tokens.count) - row->done);
            int64_t count = left < width ? left : width;
            for (int64_t i = 0; i < count; i++)
                inputs[0].data[r * width + i] = row->tokens.data[row->done + i];
            inputs[1].data[r] = count > 0 ? row->done : 0;
            inputs[2].data[r] = (double)count;
            row->done += (uint32_t)count;
        }
    }
    const sc_named_arrays named = {names, inputs, 3};
    ok = ok && g->executor->verbs->run(g->executor->self, func, &named, logits, 1, &error);
    for (uint32_t i = 0; i < 3; i++)
        sc_array_free(&inputs[i]);
    return ok || fail(g, SC_D_run_failed, sc_arena_printf(&g->context->arena, "%s", error.text));
}

/* Appends the next token to a row, given the logits of its last one. */
static void extend(generating *g, uint32_t index, const double *logits)
{
    static const char path[] = "generate";
    const sc_run_options *o = g->options;
    gen_row *row = &g->rows[index];
    double u = sc_rng_uniform(o->seed, sc_fnv1a64(path, sizeof path - 1),
                              (uint64_t)index << 32 | row->tokens.count);
    uint32_t token = sc_sample(logits, g->vocabulary, o->temperature, o->top_k, o->top_p, u,
                               g->order, g->weights);
    int64_t made = (int64_t)(row->tokens.count - row->prompt),
            most = o->max_tokens > 0 ? o->max_tokens : DEFAULT_TOKENS;
    if (o->has_stop ? (int64_t)token == o->stop
                    : g->text.template != NULL && token == g->text.turn_end) {
        row->is_over = true;
        return;
    }
    *sc_vec_push(&g->context->arena, &row->tokens) = token;
    stream(g, token);
    row->is_over = made + 1 >= most || (int64_t)row->tokens.count > g->facts->generate.capacity;
}

static bool prefill(generating *g)
{
    bool more = true;
    while (more) {
        sc_array logits = {0};
        uint32_t *before = sc_arena_array(&g->context->arena, g->row_count, sizeof *before);
        for (uint32_t r = 0; r < g->row_count; r++)
            before[r] = g->rows[r].done;
        if (!call(g, g->facts->generate.prefill, true, &logits))
            return false;
        more = false;
        for (uint32_t r = 0; r < g->row_count; r++) {
            gen_row *row = &g->rows[r];
            if (row->done == row->prompt && before[r] < row->prompt)
                extend(g, r, logits.data + (size_t)r * g->vocabulary);
            more = more || row->done < row->prompt;
        }
        sc_array_free(&logits);
    }
    return true;
}

static bool is_over(const generating *g)
{
    for (uint32_t r = 0; r < g->row_count; r++) {
        if (!g->rows[r].is_over)
            return false;
    }
    return true;
}

static bool decode(generating *g)
{
    while (!is_over(g)) {
        sc_array logits = {0};
        if (!call(g, g->facts->generate.decode, false, &logits))
            return false;
        for (uint32_t r = 0; r < g->row_count; r++) {
            if (!g->rows[r].is_over)
                extend(g, r, logits.data + (size_t)r * g->vocabulary);
        }
        sc_array_free(&logits);
    }
    return true;
}

/* ---- generating ---- */

static bool is_tokens(const sc_executor_func *func)
{
    return func->input_count == 3 && func->inputs[0].rank == 2 &&
           strcmp(func->inputs[0].dtype, "i32") == 0 && func->inputs[1].rank == 1 &&
           func->inputs[2].rank == 1 && func->output_count >= 1 && func->outputs[0].rank == 2 &&
           func->inputs[0].dims[0].size == func->inputs[1].dims[0].size &&
           func->outputs[0].dims[0].size == func->inputs[1].dims[0].size;
}

static bool check(generating *g)
{
    const sc_fact_generate *how = &g->facts->generate;
    const sc_executor_func *funcs = g->executor->funcs;
    if (how->prefill >= g->executor->func_count || how->decode >= g->executor->func_count ||
        !is_tokens(&funcs[how->prefill]) || !is_tokens(&funcs[how->decode]) ||
        funcs[how->decode].inputs[0].dims[1].size != 1 ||
        funcs[how->prefill].outputs[0].dims[1].size != funcs[how->decode].outputs[0].dims[1].size ||
        funcs[how->prefill].inputs[0].dims[0].size != funcs[how->decode].inputs[0].dims[0].size)
        return fail(g, SC_D_usage,
                    "to generate, an entry must be 'f(t: i32[B, S]) at pos[B] along S -> [B, V]', "
                    "of tokens to their logits");
    g->batch = (uint32_t)funcs[how->decode].inputs[0].dims[0].size;
    g->vocabulary = (uint32_t)funcs[how->decode].outputs[0].dims[1].size;
    g->order = sc_arena_array(&g->context->arena, g->vocabulary, sizeof *g->order);
    g->weights = sc_arena_array(&g->context->arena, g->vocabulary, sizeof *g->weights);
    return true;
}

static bool read_prompts(generating *g)
{
    g->row_count = g->options->prompts.count;
    if (g->row_count == 0)
        return fail(g, SC_D_usage, "generate needs --prompt TEXT");
    if (g->row_count > g->batch)
        return fail(
            g, SC_D_usage,
            sc_arena_printf(
                &g->context->arena,
                "%u prompts are given, but the program's batch has %u row%s: bind its dim to %u",
                g->row_count, g->batch, g->batch == 1 ? "" : "s", g->row_count));
    g->rows = sc_arena_array(&g->context->arena, g->row_count, sizeof *g->rows);
    for (uint32_t r = 0; r < g->row_count; r++) {
        if (!read_prompt(g, g->options->prompts.data[r], &g->rows[r]))
            return false;
    }
    return g->shown == NULL ||
           sc_row_text_begin(&g->streamed, &g->text, g->rows[0].tokens.data, g->rows[0].prompt);
}

/* Appends a row's text, from its first or its first new token on. */
static void add_row(generating *g, const gen_row *row, bool has_prompt, sc_strbuf *out)
{
    sc_row_text text;
    uint32_t first = has_prompt ? 0 : row->prompt;
    bool ok = sc_row_text_begin(&text, &g->text, row->tokens.data, first);
    for (uint32_t i = first; i < row->tokens.count; i++) {
        ok = ok && sc_row_text_add(&text, row->tokens.data[i], out);
    }
    sc_row_text_end(&text, out);
}

static void print_json(generating *g, sc_strbuf *out)
{
    json_t *root = json_object(), *rows = json_array(), *texts = json_array();
    for (uint32_t r = 0; r < g->row_count; r++) {
        json_t *tokens = json_array();
        for (uint32_t i = g->rows[r].prompt; i < g->rows[r].tokens.count; i++)
            json_array_append_new(tokens, json_integer(g->rows[r].tokens.data[i]));
        json_array_append_new(rows, tokens);
        if (g->text.tokenizer != NULL) {
            sc_strbuf text;
            sc_strbuf_init(&text, &g->context->arena);
            add_row(g, &g->rows[r], false, &text);
            json_array_append_new(texts, json_stringn(text.data, text.length));
        }
    }
    json_object_set_new(root, "version", json_integer(1));
    json_object_set_new(root, "tokens", rows);
    if (g->text.tokenizer != NULL)
        json_object_set(root, "text", texts);
    json_decref(texts);
    sc_print_json(root, out);
}

/* With several rows each starts with its prompt, to tell them apart. */
static void print_rows(generating *g, sc_strbuf *out)
{
    if (g->shown != NULL) {
        if (sc_row_text_end(&g->streamed, out))
            sc_strbuf_add_char(out, '\n');
        return;
    }
    for (uint32_t r = 0; r < g->row_count; r++) {
        add_row(g, &g->rows[r], g->row_count > 1, out);
        sc_strbuf_add_char(out, '\n');
    }
}

static bool run(generating *g, sc_open_executor *open, void *user, sc_strbuf *out)
{
    g->executor = open(user);
    if (g->executor == NULL || !check(g) ||
        !sc_prompt_text_open(g->context, g->options, g->vocabulary, &g->text) || !read_prompts(g) ||
        !sc_read_parameters(g->context, g->facts, g->options, g->executor) || !prefill(g) ||
        !decode(g))
        return false;
    sc_note_initial_weights(g->context, g->facts, g->options, g->executor);
    if (g->executor->is_first)
        (g->options->json ? print_json : print_rows)(g, out);
    return true;
}

bool sc_generate_text(sc_context *context, const sc_facts *facts, const sc_run_options *options,
                      sc_open_executor *open, void *user, sc_strbuf *out)
{
    generating g = {.context = context, .facts = facts, .options = options};
    g.shown = options->prompts.count == 1 && !options->json ? options->text : NULL;
    if (!facts->generates)
        return fail(&g, SC_D_usage,
                    sc_arena_printf(&context->arena,
                                    "entry '%s' has no caches, so it cannot generate",
                                    facts->entry.name));
    bool ok = run(&g, open, user, out);
    shardc_token_stream_close(g.streamed.stream);
    sc_prompt_text_close(&g.text);
    return ok;
}
