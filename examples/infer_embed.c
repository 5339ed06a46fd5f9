/* A model compiled and run from within a program: two ranks, each with half of the hidden dim, are threads of this process. */
#include <stdio.h>
#include <string.h>

#include "shardc/compiler.h"
#include "shardc/runtime.h"

static const char model[] = "lang 1;\n"
                            "dim B = 2, D = 4, F = 8;\n"
                            "model mlp {\n"
                            "  param w1[D, F] = normal(0.5), w2[F, D] = normal(0.5);\n"
                            "  entry forward(x: f32[B, D]) -> [B, D] { return dot[F](relu(dot[D](x, w1)), w2); }\n"
                            "}\n"
                            "plan tp2 for mlp { mesh tp = 2; shard F over tp; }\n";

static int failed(const sc_error *error)
{
    fprintf(stderr, "%s\n", error->text);
    return 1;
}

static void show(const sc_executable *program)
{
    sc_tensor_info info;
    for (uint32_t i = 0; i < sc_executable_state_count(program); i++) {
        sc_executable_state(program, i, &info);
        printf("%s %s:", info.kind, info.name);
        for (uint32_t d = 0; d < info.rank; d++)
            printf(" %s = %lld of %lld", info.dims[d].name, (long long)info.dims[d].local, (long long)info.dims[d].size);
        printf("\n");
    }
}

int main(void)
{
    void *bytes;
    size_t size;
    char *messages;
    sc_error error;
    sc_executable *program;
    sc_session *session;
    float w1[4 * 8], w2[8 * 4], x[2 * 4], y[2 * 4];

    sc_status status = sc_compile("mlp.shard", model, strlen(model), NULL, &bytes, &size, &messages, &error);
    if (messages != NULL)
        fputs(messages, stderr);
    sc_compile_free(messages);
    if (status != SC_OK)
        return failed(&error);
    status = sc_executable_read(bytes, size, &program, &error);
    sc_compile_free(bytes);
    if (status != SC_OK)
        return failed(&error);
    show(program);
    if (sc_session_new(program, NULL, &session, &error) != SC_OK)
        return failed(&error);

    /* y = relu(x w1) w2, with w1 all 1, w2 = 0, 1, .. 31: each hidden element is the row's sum */
    for (int i = 0; i < 32; i++)
        w1[i] = 1, w2[i] = (float)i;
    for (int i = 0; i < 8; i++)
        x[i] = i < 4 ? 0.25f : -1;
    if (sc_session_set_state(session, sc_executable_find_state(program, "w1"), w1, "f32", &error) != SC_OK ||
        sc_session_set_state(session, sc_executable_find_state(program, "w2"), w2, "f32", &error) != SC_OK ||
        sc_session_run(session, sc_executable_find_func(program, "forward"), &(sc_feed_value){"x", x, "f32"}, 1,
                       &(sc_fetch_value){0, y, "f32"}, 1, &error) != SC_OK)
        return failed(&error);
    printf("y = %g %g %g %g, %g %g %g %g\n", y[0], y[1], y[2], y[3], y[4], y[5], y[6], y[7]);
    sc_session_free(session);
    sc_executable_free(program);
    return 0;
}
