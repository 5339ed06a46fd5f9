/* Training from within a program: a model of two ranks learns y = x0 - x1 from random points; the
 * optimizer is the model's. */
#include <stdio.h>
#include <string.h>

#include "shardc/compiler.h"
#include "shardc/runtime.h"

enum { ROWS = 32, STEPS = 200 };

static const char model[] =
    "lang 1;\n"
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

static int failed(const char *what, const shardc_error *error)
{
    fprintf(stderr, "%s: %s\n", what, error->text);
    return 1;
}

static int train(const shardc_executable *program, shardc_session *session, shardc_stepper *stepper)
{
    float x[ROWS][2], y[ROWS], loss = 0;
    unsigned state = 1;
    shardc_error error;
    for (unsigned step = 1; step <= STEPS; step++) {
        for (int i = 0; i < ROWS; i++) {
            x[i][0] = draw(&state);
            x[i][1] = draw(&state);
            y[i] = x[i][0] - x[i][1];
        }
        shardc_feed_value feeds[] = {{"x", x, sizeof x, "f32"}, {"y", y, sizeof y, "f32"}};
        shardc_fetch_value fetch = {0, &loss, sizeof loss, "f32"};
        if (shardc_stepper_begin(stepper, session, 1, step, &error) != SHARDC_OK ||
            shardc_session_step(session, feeds, 2, &fetch, 1, &error) != SHARDC_OK)
            return failed("step", &error);
        if (step == 1)
            printf("step 1: the loss is %s\n", loss > 0.1f ? "above 0.1" : "small already");
    }
    printf("step %d: the loss is %s\n", STEPS, loss < 0.01f ? "below 0.01" : "still large");
    uint32_t w2 = shardc_executable_find_state(program, "w2");
    float weights[16];
    return shardc_session_get_state(session, w2, weights, sizeof weights, "f32", &error) ==
                   SHARDC_OK
               ? 0
               : failed("w2", &error);
}

int main(void)
{
    void *bytes;
    size_t size;
    char *messages;
    shardc_error error;
    shardc_executable *program = NULL;
    shardc_session *session = NULL;
    shardc_stepper *stepper = NULL;

    shardc_status status =
        shardc_compile("net.shard", model, strlen(model), NULL, &bytes, &size, &messages, &error);
    if (messages != NULL)
        fputs(messages, stderr);
    shardc_compile_free(messages);
    if (status != SHARDC_OK)
        return failed("compile", &error);
    status = shardc_executable_read(bytes, size, &program, &error);
    shardc_compile_free(bytes);
    if (status != SHARDC_OK || shardc_session_new(program, NULL, &session, &error) != SHARDC_OK ||
        shardc_stepper_new(program, &stepper, &error) != SHARDC_OK)
        return failed("start", &error);
    shardc_session_set_random(session, 1, 0, 0);
    if (shardc_session_initialise(session, &error) != SHARDC_OK)
        return failed("initial values", &error);
    int result = train(program, session, stepper);
    shardc_stepper_free(stepper);
    shardc_session_free(session);
    shardc_executable_free(program);
    return result;
}
