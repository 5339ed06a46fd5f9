/* A model compiled and run from within a program: two ranks, each with half of the hidden dim, are
 * threads of this process. */
#include <stdio.h>
#include <string.h>

#include "shardc/compiler.h"
#include "shardc/runtime.h"

static const char model[] =
    "lang 1;\n"
    "dim B = 2, D = 4, F = 8;\n"
    "model mlp {\n"
    "  param w1[D, F] = normal(0.5), w2[F, D] = normal(0.5);\n"
    "  entry forward(x: f32[B, D]) -> [B, D] { return dot[F](relu(dot[D](x, w1)), w2); }\n"
    "}\n"
    "plan tp2 for mlp { mesh tp = 2; shard F over tp; }\n";

static int failed(const shardc_error *error)
{
    fprintf(stderr, "%s\n", error->text);
    return 1;
}

static void show(const shardc_executable *program)
{
    shardc_tensor_info info;
    for (uint32_t i = 0; i < shardc_executable_state_count(program); i++) {
        shardc_executable_state(program, i, &info);
        printf("%s %s:", info.kind, info.name);
        for (uint32_t d = 0; d < info.rank; d++)
            printf(" %s = %lld of %lld", info.dims[d].name, (long long)info.dims[d].local,
                   (long long)info.dims[d].size);
        printf("\n");
    }
}

int main(void)
{
    void *bytes;
    size_t size;
    char *messages;
    shardc_error error;
    shardc_executable *program;
    shardc_session *session;
    float w1[4 * 8], w2[8 * 4], x[2 * 4], y[2 * 4];

    shardc_status status =
        shardc_compile("mlp.shard", model, strlen(model), NULL, &bytes, &size, &messages, &error);
    if (messages != NULL)
        fputs(messages, stderr);
    shardc_compile_free(messages);
    if (status != SHARDC_OK)
        return failed(&error);
    status = shardc_executable_read(bytes, size, &program, &error);
    shardc_compile_free(bytes);
    if (status != SHARDC_OK)
        return failed(&error);
    show(program);
    if (shardc_session_new(program, NULL, &session, &error) != SHARDC_OK)
        return failed(&error);

    /* y = relu(x w1) w2, with w1 all 1, w2 = 0, 1, .. 31: each hidden element is the row's sum */
    for (int i = 0; i < 32; i++)
        w1[i] = 1, w2[i] = (float)i;
    for (int i = 0; i < 8; i++)
        x[i] = i < 4 ? 0.25f : -1;
    if (shardc_session_set_state(session, shardc_executable_find_state(program, "w1"), w1,
                                 sizeof w1, "f32", &error) != SHARDC_OK ||
        shardc_session_set_state(session, shardc_executable_find_state(program, "w2"), w2,
                                 sizeof w2, "f32", &error) != SHARDC_OK ||
        shardc_session_run(session, shardc_executable_find_func(program, "forward"),
                           &(shardc_feed_value){"x", x, sizeof x, "f32"}, 1,
                           &(shardc_fetch_value){0, y, sizeof y, "f32"}, 1, &error) != SHARDC_OK)
        return failed(&error);
    printf("y = %g %g %g %g, %g %g %g %g\n", y[0], y[1], y[2], y[3], y[4], y[5], y[6], y[7]);
    shardc_session_free(session);
    shardc_executable_free(program);
    return 0;
}
