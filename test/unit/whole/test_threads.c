/* Compiles in several threads at once share nothing: each gives the text it gives alone, and the
 * thread sanitizer sees no race. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/read_program.h"
#include "ir/text/text.h"
#include "tools/driver/driver.h"

enum { THREADS = 4, ROUNDS = 5 };

static const char programs[2][1200] = {
    "lang 1;\ndim B = 4, S = 8, T = alias S, D = 8, L = 2, K = 2, G = 2, H = (K, G), E = 4;\n"
    "block attention(x[B, S, D]) -> [B, S, D] {\n"
    "  param wq[D, H, E], wk[D, K, E], wv[D, K, E], wo[H, E, D];\n"
    "  k = rename[S -> T](dot[D](x, wk));\n"
    "  v = rename[S -> T](dot[D](x, wv));\n"
    "  return dot[H, E](attend[T, E](dot[D](x, wq), k, v, mask = causal), wo);\n"
    "}\n"
    "model m { sub layers: attention * L;\n"
    "  entry f(x: f32[B, S, D]) -> [B, S, D] { repeat L { x = x + layers(x); } return x; } }\n"
    "plan p for m { mesh dp = 2, tp = 2; shard B over dp; shard H over tp; shard act S over tp if "
    "free; }\n",
    "lang 1;\ndim B = 6, D = 9, F = 12, V = 10;\n"
    "model m { param w[D, F], v[F, V];\n"
    "  entry f(x: f32[B, D], y: i32[B]) -> [] { return mean[B](xent[V](dot[F](gelu(dot[D](x, w)), "
    "v), y)); } }\n"
    "plan p for m { mesh dp = 4, tp = 3; pad B to multiple 4; shard B over dp; shard F over tp; "
    "}\n",
};

typedef struct job {
    const char *program;
    char *text; /* of the per-rank program and all messages; the caller frees it */
} job;

static void compile(sc_context *context, void *user)
{
    job *j = user;
    sc_options options = {.entry = "f"};
    sc_compiled compiled = {0};
    sc_strbuf out;
    sc_strbuf_init(&out, &context->arena);
    sc_declarations *program = sc_declarations_new(
        context, sc_parse_text(context, "threads", j->program, strlen(j->program)));
    sc_plan_list plans = {0};
    sc_declarations_plans(program, &plans);
    if (context->diag.errors == 0 &&
        sc_driver_compile(context, program, plans.data[0], &options, NULL, NULL, NULL, &compiled))
        sc_print_module(compiled.local, &(sc_print_options){0}, &out);
    sc_diag_render_text(&context->diag, &context->sources, &out);
    j->text = strdup(out.data);
}

static char *text_of(const char *program)
{
    sc_context context;
    job j = {.program = program};
    bool had_memory = sc_context_run(&context, 0, compile, &j);
    sc_context_free(&context);
    return had_memory ? j.text : NULL;
}

static void *thread_main(void *user)
{
    char **alone = user;
    for (int i = 0; i < ROUNDS; i++) {
        for (int p = 0; p < 2; p++) {
            char *text = text_of(programs[p]);
            bool same = text != NULL && strcmp(text, alone[p]) == 0;
            free(text);
            if (!same)
                return "a compile among others differs from one alone";
        }
    }
    return NULL;
}

static void compiles_share_nothing(void **state)
{
    (void)state;
    char *alone[] = {text_of(programs[0]), text_of(programs[1])};
    pthread_t threads[THREADS];
    assert_non_null(strstr(alone[0], "reduce"));
    assert_non_null(strstr(alone[1], "reduce"));
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, thread_main, alone), 0);
    for (int i = 0; i < THREADS; i++) {
        void *wrong;
        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        assert_null(wrong);
    }
    free(alone[0]);
    free(alone[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compiles_share_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
