/* Any text as a program, or as plans and weights maps for a small model, goes through everything up
 * to the per-rank programs, and through every line of its weights maps. What does not compile says
 * why; what compiles verifies after each pass. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/read_program.h"
#include "frontend/weights/map.h"
#include "tools/driver/driver.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char model[] = "lang 1;\n"
                            "dim B = 4, S = 8, T = alias S, D = 8, F = 12, V = 10, L = 2, K = 2, G "
                            "= 2, H = (K, G), E = 4;\n"
                            "block attention(x[B, S, D]) -> [B, S, D] {\n"
                            "  param wq[D, H, E], wk[D, K, E], wv[D, K, E], wo[H, E, D];\n"
                            "  cache ck[B, T, K, E], cv[B, T, K, E];\n"
                            "  k = append[S -> T](ck, rope[S, E](dot[D](x, wk), theta = 1e4));\n"
                            "  v = append[S -> T](cv, dot[D](x, wv));\n"
                            "  o = attend[T, E](dot[D](x, wq), k, v, mask = causal);\n"
                            "  return dot[H, E](o, wo);\n"
                            "}\n"
                            "block layer(x[B, S, D]) -> [B, S, D] {\n"
                            "  param w1[D, F], b1[F] = zeros(), w2[F, D];\n"
                            "  sub attn: attention;\n"
                            "  h = x + attn(x);\n"
                            "  return h + dot[F](gelu(dot[D](h, w1) + b1), w2);\n"
                            "}\n"
                            "model m {\n"
                            "  param tok[V, D];\n"
                            "  sub layers: layer * L;\n"
                            "  fn trunk(t: i32[B, S]) -> [B, S, D] { x = gather[V](tok, t); repeat "
                            "L { x = layers(x); } return x; }\n"
                            "  entry loss(t: i32[B, S], y: i32[B, S]) -> [] { return mean[B, "
                            "S](xent[V](dot[D](trunk(t), tok), y)); }\n"
                            "  entry decode(t: i32[B, S]) at pos[B] along S -> [B, V] { return "
                            "dot[D](last[S](trunk(t)), tok); }\n"
                            "}\n";

typedef struct input {
    const char *text;
    size_t length;
} input;

/* Stacks of some thousands of layers are fine but slow, and a mutation makes them easily: such
 * numbers are left out. Larger ones are refused by the compiler, so they stay in. */
static bool has_slow_number(const uint8_t *data, size_t size)
{
    size_t digits = 0;
    for (size_t i = 0; i <= size; i++) {
        if (i < size && data[i] >= '0' && data[i] <= '9')
            digits++;
        else if (i == size || data[i] != '_') {
            if (digits > 2 && digits < 12)
                return true;
            digits = 0;
        }
    }
    return false;
}

static void check(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "%s\n", what);
    abort();
}

static void map_weights(sc_context *context, const sc_compiled *c)
{
    sc_weights_list blocks = {0};
    sc_declarations_weights(c->program, &blocks);
    for (uint32_t i = 0; i < blocks.count; i++) {
        for (uint32_t state = 0; state < c->global->state.count; state++) {
            const sc_wmap *line =
                sc_weights_find(context, blocks.data[i], c->global->state.data[state].path);
            sc_weight_layout layout;
            int64_t index[SC_MAX_RANK] = {0};
            sc_sym name;
            uint32_t errors = context->diag.errors;
            if (line == NULL)
                continue;
            bool fine = sc_wmap_layout(c->program, line, c->global, state, &layout) &&
                        sc_wmap_tensor_name(c->program, line, blocks.data[i]->model.text, c->global,
                                            state, index, &name);
            check(fine || context->diag.errors > 0 || errors > 0,
                  "a weights line is refused without a message");
        }
    }
}

static void compile(sc_context *context, sc_declarations *program, const sc_plan *plan)
{
    sc_entry_list entries = {0};
    sc_sym of = plan != NULL ? plan->model.text : sc_declarations_only_model(program);
    sc_declarations_entries(program, of, &entries);
    for (uint32_t i = 0; i < entries.count; i++) {
        sc_options options = {.entry = sc_text(context, entries.data[i].entry)};
        sc_compiled compiled;
        if (sc_driver_compile(context, program, plan, &options, NULL, NULL, NULL, &compiled))
            map_weights(context, &compiled);
        else
            check(context->diag.errors > 0, "a program is refused without a message");
    }
}

static void work(sc_context *context, void *user)
{
    const input *in = user;
    sc_file *file = sc_parse_text(context, "fuzz", in->text, in->length);
    if (file == NULL || context->diag.errors > 0)
        return;
    sc_declarations *program = sc_declarations_new(context, file);
    if (context->diag.errors > 0)
        return;
    sc_declarations_check(program);
    sc_plan_list plans = {0};
    sc_declarations_plans(program, &plans);
    for (uint32_t i = 0; i < plans.count; i++)
        compile(context, program, plans.data[i]);
    if (plans.count == 0)
        compile(context, program, NULL);
    for (uint32_t i = 0; i < context->diag.list.count; i++)
        check(context->diag.list.data[i].id != SC_D_ir_invalid, "a pass made an invalid module");
    sc_strbuf messages;
    sc_strbuf_init(&messages, &context->arena);
    sc_diag_render_text(&context->diag, &context->sources, &messages);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { LARGEST = 4096 };
    char text[sizeof model + LARGEST];
    bool whole = size >= 4 && memcmp(data, "lang", 4) == 0;
    size_t before = whole ? 0 : sizeof model - 1;
    if (size > LARGEST || has_slow_number(data, size))
        return 0;
    memcpy(text, model, before);
    memcpy(text + before, data, size);
    sc_context context;
    sc_context_run(&context, 0, work, &(input){text, before + size});
    sc_context_free(&context);
    return 0;
}
