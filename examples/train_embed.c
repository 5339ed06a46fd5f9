/* Training from within a program: a model of two ranks learns y = x0 - x1 from random points; the optimizer is the model's. */
#include <stdio.h>
#include <string.h>

#include "shardc/compiler.h"
#include "shardc/runtime.h"

enum { ROWS = 32, STEPS = 200 };

static const char model[] = "lang 1;\n"
                            "dim B = 32, X = 2, F = 16;\n"
                            "model net {\n"
                            "  param w1[X, F] = normal(0.7), b1[F] = zeros(), w2[F] = normal(0.3);\n"
                            "  entry loss(x: f32[B, X], y: f32[B]) -> f32[] {\n"
                            "    e = dot[F](tanh(dot[X](x, w1) + b1), w2) - y;\n"
                            "    return mean[B](e * e);\n"
                            "  }\n"
                            "}\n"
                            "minimize net.loss with adamw(lr = 1e-2);\n"
                            "plan tp2 for net { mesh tp = 2; shard F over tp; }\n";

/* Numerical Recipes' generator: any would do. */
static float draw(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)(*state >> 8) / 8388608 - 1;
}

static int failed(const char *what, const sc_error *error)
{
    fprintf(stderr, "%s: %s\n", what, error->text);
    return 1;
}

static int train(const sc_executable *program, sc_session *session, sc_stepper *stepper)
{
    float x[ROWS][2], y[ROWS], loss = 0;
    unsigned state = 1;
    sc_error error;
    for (unsigned step = 1; step <= STEPS; step++) {
        for (int i = 0; i < ROWS; i++) {
            x[i][0] = draw(&state);
            x[i][1] = draw(&state);
            y[i] = x[i][0] - x[i][1];
        }
        sc_feed_value feeds[] = {{"x", x, "f32"}, {"y", y, "f32"}};
        sc_fetch_value fetch = {0, &loss, "f32"};
        if (sc_stepper_begin(stepper, session, 1, step, &error) != SC_OK || sc_session_step(session, feeds, 2, &fetch, 1, &error) != SC_OK)
            return failed("step", &error);
        if (step == 1)
            printf("step 1: the loss is %s\n", loss > 0.1f ? "above 0.1" : "small already");
    }
    printf("step %d: the loss is %s\n", STEPS, loss < 0.01f ? "below 0.01" : "still large");
    uint32_t w2 = sc_executable_find_state(program, "w2");
    float weights[16];
    return sc_session_get_state(session, w2, weights, "f32", &error) == SC_OK ? 0 : failed("w2", &error);
}

int main(void)
{
    void *bytes;
    size_t size;
    char *messages;
    sc_error error;
    sc_executable *program = NULL;
    sc_session *session = NULL;
    sc_stepper *stepper = NULL;

    sc_status status = sc_compile("net.shard", model, strlen(model), NULL, &bytes, &size, &messages, &error);
    if (messages != NULL)
        fputs(messages, stderr);
    sc_compile_free(messages);
    if (status != SC_OK)
        return failed("compile", &error);
    status = sc_executable_read(bytes, size, &program, &error);
    sc_compile_free(bytes);
    if (status != SC_OK || sc_session_new(program, NULL, &session, &error) != SC_OK || sc_stepper_new(program, &stepper, &error) != SC_OK)
        return failed("start", &error);
    sc_session_set_random(session, 1, 0, 0);
    if (sc_session_initialise(session, &error) != SC_OK)
        return failed("initial values", &error);
    int result = train(program, session, stepper);
    sc_stepper_free(stepper);
    sc_session_free(session);
    sc_executable_free(program);
    return result;
}
