/* Sessions of compiled models: parameters go through the model's weights map, and ids that a model
 * has no row for leave all state alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/files/safetensors.h"
#include "shardc/compiler.h"
#include "shardc/runtime.h"

static const char mapped[] =
    "lang 1;\n"
    "dim B = 2, D = 3, F = 4, L = 2, V = 5;\n"
    "block layer(x[B, D]) -> [B, D] { param up[D, F], down[F, D]; return dot[F](dot[D](x, up), "
    "down); }\n"
    "model m {\n"
    "  param tok[V, D]; sub layers: layer * L;\n"
    "  entry f(t: i32[B]) -> [B, D] { x = gather[V](tok, t); repeat L { x = layers(x); } return x; "
    "}\n"
    "}\n"
    "weights w for m { tok = \"embed.weight\"; layers.up = \"h.{L}.fc.weight\" as [F, D];\n"
    "  layers.down = \"h.{L}.proj.weight\" as [D, F];\n"
    "  ignore \"nothing.*\"; ignore \"rotary.freq\"; }\n"
    "plan tp2 for m { mesh tp = 2; shard F over tp; }\n";

static shardc_executable *compiled(const char *text)
{
    void *bytes = NULL;
    size_t size = 0;
    char *messages = NULL;
    shardc_error error = {.status = SHARDC_OK};
    shardc_executable *program = NULL;
    if (shardc_compile("m.shard", text, strlen(text), NULL, &bytes, &size, &messages, &error) !=
        SHARDC_OK)
        fail_msg("%s%s", error.text, messages == NULL ? "" : messages);
    if (shardc_executable_read(bytes, size, &program, &error) != SHARDC_OK)
        fail_msg("%s", error.text);
    shardc_compile_free(bytes);
    shardc_compile_free(messages);
    return program;
}

static shardc_session *started(const shardc_executable *program)
{
    shardc_session *session = NULL;
    shardc_error error = {.status = SHARDC_OK};
    if (shardc_session_new(program, NULL, &session, &error) != SHARDC_OK)
        fail_msg("%s", error.text);
    return session;
}

/* Tensors beside those of the map are an error that names them, unless the map, as here, lets them
 * stay unread. */
static void expect_unread(shardc_session *session, const char *path)
{
    static const double values[15];
    const sc_safetensors_item items[] = {
        {"embed.weight", SC_ELEMENT_F32, 2, (const uint64_t[]){5, 3}, values, NULL},
        {"h.0.fc.weight", SC_ELEMENT_F32, 2, (const uint64_t[]){4, 3}, values, NULL},
        {"h.1.fc.weight", SC_ELEMENT_F32, 2, (const uint64_t[]){4, 3}, values, NULL},
        {"h.0.proj.weight", SC_ELEMENT_F32, 2, (const uint64_t[]){3, 4}, values, NULL},
        {"h.1.proj.weight", SC_ELEMENT_F32, 2, (const uint64_t[]){3, 4}, values, NULL},
        {"h.0.rotary.freq", SC_ELEMENT_F32, 1, (const uint64_t[]){1}, values, NULL},
        {"h.1.fc.bias", SC_ELEMENT_F32, 1, (const uint64_t[]){4}, values, NULL},
    };
    size_t count = sizeof items / sizeof *items;
    shardc_error error = {.status = SHARDC_OK};
    sc_safetensors_error reason = {0};
    assert_true(sc_safetensors_write(path, items, count, NULL, 0, &reason));
    assert_int_equal(shardc_session_load(session, path, false, &error), SHARDC_ERROR_DATA);
    if (strstr(error.text, "h.1.fc.bias") == NULL || strstr(error.text, "h.0.rotary.freq") != NULL)
        fail_msg("%s", error.text);
    assert_true(sc_safetensors_write(path, items, count - 1, NULL, 0, &reason));
    assert_int_equal(shardc_session_load(session, path, false, &error), SHARDC_OK);
}

static void parameters_go_through_the_map(void **state)
{
    (void)state;
    char path[] = "/tmp/shardc_session_files_XXXXXX";
    shardc_error error = {.status = SHARDC_OK};
    sc_safetensors_error reason = {0};
    float up[3][4], back[3][4];
    shardc_executable *program = compiled(mapped);
    shardc_session *from = started(program), *to = started(program);
    uint32_t state_up = shardc_executable_find_state(program, "layers[1].up");
    assert_true(close(mkstemp(path)) == 0);
    shardc_session_set_random(from, 7, 0, 0);
    assert_int_equal(shardc_session_initialise(from, &error), SHARDC_OK);
    if (shardc_session_save(from, path, false, &error) != SHARDC_OK ||
        shardc_session_load(to, path, false, &error) != SHARDC_OK)
        fail_msg("%s", error.text);
    assert_int_equal(shardc_session_get_state(from, state_up, up, sizeof up, NULL, &error),
                     SHARDC_OK);
    assert_int_equal(shardc_session_get_state(to, state_up, back, sizeof back, NULL, &error),
                     SHARDC_OK);
    assert_memory_equal(up, back, sizeof up);
    sc_safetensors *file = sc_safetensors_open(path, &reason);
    assert_non_null(file);
    assert_int_equal(sc_safetensors_count(file), 5);
    const sc_safetensor *tensor = sc_safetensors_find(file, "h.1.fc.weight");
    assert_true(tensor != NULL && tensor->rank == 2 && tensor->shape[0] == 4 &&
                tensor->shape[1] == 3);
    double stored[12];
    const char *trouble;
    assert_true(sc_safetensors_read(file, tensor, 0, 12, stored, &trouble));
    for (uint64_t d = 0; d < 3; d++) {
        for (uint64_t f = 0; f < 4; f++)
            assert_true(stored[f * 3 + d] == (double)up[d][f]);
    }
    sc_safetensors_close(file);
    /* everything by its own path; that is no file of the map */
    assert_int_equal(shardc_session_save(from, path, true, &error), SHARDC_OK);
    assert_int_equal(shardc_session_load(to, path, true, &error), SHARDC_OK);
    assert_int_equal(shardc_session_load(to, path, false, &error), SHARDC_ERROR_DATA);
    assert_non_null(strstr(error.text, "embed.weight"));
    expect_unread(to, path);
    unlink(path);
    shardc_session_free(from);
    shardc_session_free(to);
    shardc_executable_free(program);
}

static const char cached[] = "lang 1;\n"
                             "dim B = 2, S = 1, T = alias S, V = 7, D = 4, H = 2, E = 2;\n"
                             "block attention(x[B, S, D]) -> [B, S, H, E] {\n"
                             "  param w[D, H, E] = normal(0.5);\n"
                             "  cache ck[B, T, H, E];\n"
                             "  q = dot[D](x, w);\n"
                             "  k = append[S -> T](ck, q);\n"
                             "  return attend[T, E](q, k, k, mask = causal);\n"
                             "}\n"
                             "model m {\n"
                             "  param tok[V, D] = normal(1.0), head[H, E, V] = normal(0.5);\n"
                             "  sub a: attention;\n"
                             "  entry decode(t: i32[B, S]) at pos[B] along S -> [B, V] { return "
                             "last[S](dot[H, E](a(gather[V](tok, t)), head)); }\n"
                             "}\n"
                             "plan dp2 for m { mesh dp = 2; bind T = 8; shard B over dp; }\n";

typedef struct decode_call {
    int32_t t[2], pos[2], len[2];
} decode_call;

static shardc_status decode(shardc_session *session, const decode_call *call, float out[2][7],
                            shardc_error *error)
{
    const shardc_feed_value feeds[] = {{"t", call->t, sizeof call->t, "i32"},
                                       {"pos", call->pos, sizeof call->pos, "i32"},
                                       {"pos_len", call->len, sizeof call->len, "i32"}};
    return shardc_session_run(session, 0, feeds, 3,
                              (shardc_fetch_value[]){{0, out, 2 * 7 * sizeof(float), "f32"}}, 1,
                              error);
}

/* Two sessions of one program, of which one is given ids that the model has no row for in between.
 */
static void bad_ids_change_nothing(void **state)
{
    (void)state;
    shardc_executable *program = compiled(cached);
    shardc_session *sessions[2] = {started(program), started(program)};
    uint32_t cache = shardc_executable_find_state(program, "a.ck");
    shardc_error error = {.status = SHARDC_OK};
    shardc_tensor_info info;
    float out[2][2][7], before[2 * 8 * 4], after[2 * 8 * 4];
    shardc_executable_input(program, 0, 0, &info);
    assert_int_equal(info.below, 7);
    for (int s = 0; s < 2; s++) {
        shardc_session_set_random(sessions[s], 3, 0, 0);
        assert_int_equal(shardc_session_initialise(sessions[s], &error), SHARDC_OK);
    }
    for (int32_t step = 0; step < 4; step++) {
        const decode_call good = {{step, 6 - step}, {step, step}, {1, 1}};
        decode_call bad = good;
        bad.t[1] = step % 2 == 0 ? 7 : -1;
        assert_int_equal(
            shardc_session_get_state(sessions[0], cache, before, sizeof before, NULL, &error),
            SHARDC_OK);
        if (decode(sessions[0], &bad, out[0], &error) != SHARDC_ERROR_DATA)
            fail_msg("%s", error.text);
        assert_string_equal(error.text,
                            step % 2 == 0
                                ? "input 't' is 7 at [B = 1, S = 0], which is not a valid id: "
                                  "at least 0 and less than 7; nothing was run"
                                : "input 't' is -1 at [B = 1, S = 0], which is not a valid id: "
                                  "at least 0 and less than 7; nothing was run");
        assert_int_equal(
            shardc_session_get_state(sessions[0], cache, after, sizeof after, NULL, &error),
            SHARDC_OK);
        assert_memory_equal(before, after, sizeof after);
        for (int s = 0; s < 2; s++) {
            if (decode(sessions[s], &good, out[s], &error) != SHARDC_OK)
                fail_msg("%s", error.text);
        }
        assert_memory_equal(out[0], out[1], sizeof out[0]);
    }
    for (int s = 0; s < 2; s++)
        shardc_session_free(sessions[s]);
    shardc_executable_free(program);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(parameters_go_through_the_map),
                                       cmocka_unit_test(bad_ids_change_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
