/* Every op that has roles in ops.def, in each form that they tell apart, as the body of a function
 * of IR text. Each function of one number has a case by the table. */
#ifndef SHARDC_TEST_ROLE_CASES_H
#define SHARDC_TEST_ROLE_CASES_H

#include "test/unit/helpers/interp_case.h"

typedef struct role_case {
    sc_op_kind kind;
    const char *body; /* returns the results of the op, the only one of its kind */
    /* per input: integers in [0, limit), floats in (0, limit]; 0: of both signs */
    int limits[8];
    const char *state;
    /* dims, as " S T ", whose global index this case does not read though the op may; "*": all */
    const char *idle_offset;
    const char *spared; /* dims that stay whole though they could be split */
    bool stays_whole;   /* its form is never cheaper */
} role_case;

#define UNARY(name, limit)                                                                         \
    {                                                                                              \
        .kind = SC_OP_##name,                                                                      \
        .body = "%a = input : f32[A=6, C=12]\n %r = " #name " %a : f32[A=6, C=12]\n return %r\n",  \
        .limits = {                                                                                \
            limit                                                                                  \
        }                                                                                          \
    }
#define BINARY(name, dtype, to)                                                                    \
    {                                                                                              \
        .kind = SC_OP_##name, .body = "%a = input : " dtype "[A=6, C=12]\n %b = input : " dtype    \
                                      "[C=12, D=6]\n %r = " #name " %a, %b : " to                  \
                                      "[A=6, C=12, D=6]\n return %r\n"                             \
    }
#define VIEW(name, from, to, dims)                                                                 \
    {                                                                                              \
        .kind = SC_OP_##name,                                                                      \
        .body = "%a = input : f32" from "\n %r = " #name dims " %a : f32" to "\n return %r\n"      \
    }
#define ALONG(name, dims, attributes, to)                                                          \
    {                                                                                              \
        .kind = SC_OP_##name, .body = "%a = input : f32[A=6, B=4, V=12]\n %r = " #name dims        \
                                      " %a" attributes " : " to "\n return %r\n"                   \
    }
#define XENT(targets, attributes, to)                                                              \
    {                                                                                              \
        .kind = SC_OP_xent,                                                                        \
        .body = "%a = input : f32[A=6, V=12]\n %t = input : i32" targets                           \
                "\n %r = xent[V] %a, %t {" attributes "} : f32" to "\n return %r\n",               \
        .limits = {                                                                                \
            0,                                                                                     \
            12                                                                                     \
        }                                                                                          \
    }
#define XENT_LSE(targets, attributes, to)                                                          \
    {                                                                                              \
        .kind = SC_OP_xent,                                                                        \
        .body = "%a = input : f32[A=6, V=12]\n %t = input : i32" targets                           \
                "\n %r, %l = xent[V] %a, %t {lse = 1, " attributes "} : f32" to ", f32" to         \
                "\n return %r, %l\n",                                                              \
        .limits = {                                                                                \
            0,                                                                                     \
            12                                                                                     \
        }                                                                                          \
    }
#define SCATTER(x, ids, to)                                                                        \
    {                                                                                              \
        .kind = SC_OP_scatter_add,                                                                 \
        .body = "%a = input : f32" x "\n %i = input : i32" ids                                     \
                "\n %r = scatter_add[V] %a, %i : f32" to "\n return %r\n",                         \
        .limits = {                                                                                \
            0,                                                                                     \
            12                                                                                     \
        }                                                                                          \
    }
#define ROUTED(op, dims, x, y, ids, to) PARTED(op, dims, x, y, ids, "", to)
#define PARTED(op, dims, x, y, ids, attributes, to)                                                \
    {                                                                                              \
        .kind = SC_OP_##op,                                                                        \
        .body = "%a = input : f32" x "\n %b = input : f32" y "\n %i = input : i32" ids             \
                "\n %r = " #op "[" dims "] %a, %b, %i" attributes " : f32" to "\n return %r\n",    \
        .limits = {                                                                                \
            0,                                                                                     \
            0,                                                                                     \
            12                                                                                     \
        }                                                                                          \
    }
#define ROPE(attributes)                                                                           \
    {                                                                                              \
        .kind = SC_OP_rope,                                                                        \
        .body = "%a = input : f32[B=4, S=6, H=(K=2, G=6), E=12]\n %r = rope[S, E] %a {theta = "    \
                "10000.0, " attributes "} : f32[B=4, S=6, H=(K=2, G=6), E=12]\n return %r\n"       \
    }
/* Queries [B, S, H, E] and more operands; keys and values as given. */
#define ATTEND(keys, values, more, names, attributes, to)                                          \
    "%q = input : f32[B=4, S=12, H=(K=2, G=6), E=4]\n %k = input : f32" keys                       \
    "\n %v = input : f32" values "\n" more " %r = attend[T, E -> S] %q, %k, %v" names              \
    " {scale = 0.5" attributes "} : f32" to "\n return %r\n"
#define HEADS "[B=4, T=12, K=2, E=4]"
#define OUT   "[B=4, S=12, H=(K=2, G=6), E=4]"
#define LSE   "[B=4, S=12, H=(K=2, G=6)]"
/* attend with its second result. */
#define ATTEND_LSE(values, more, names, attributes, to)                                            \
    "%q = input : f32" OUT "\n %k = input : f32" HEADS "\n %v = input : f32" values "\n" more      \
    " %r, %l = attend[T, E -> S] %q, %k, %v" names " {scale = 0.5, lse = 1" attributes             \
    "} : f32" to ", f32" LSE "\n return %r, %l\n"
/* Results and their logarithms of sums are inputs like others: what they are is nothing to the
 * derivative's roles. Once they are given, a key has nothing to do with the others; keys are whole
 * all the same, as in attend. */
#define ATTEND_GRAD(keys, values, more, names, attributes, to, bias)                               \
    .kind = SC_OP_attend_grad, .spared = " T ",                                                    \
    .body = "%q = input : f32" OUT "\n %k = input : f32" keys "\n %v = input : f32" values         \
            "\n %o = input : f32" to "\n %l = input : f32" LSE "\n %d = input : f32" to "\n" more  \
            " %r, %s, %t" bias " %q, %k, %v, %o, %l, %d" names " {scale = 0.5" attributes          \
            "} : f32" OUT ", f32" keys ", f32" values
#define NO_BIAS      " = attend_grad[T, E -> S]"
#define BIAS         ", %u = attend_grad[T, E -> S]"
#define NO_BIAS_TYPE "\n return %r, %s, %t\n"
/* Scores stay small beside their sums, so that weights do. */
#define GRAD_LIMITS .limits = {1, 1, 0, 0, 4}

static const role_case cases[] = {
    {.kind = SC_OP_input, .body = "%r = input : f32[A=6, C=12]\n return %r\n"},
    {.kind = SC_OP_param,
     .body = "%r = param {name = \"w\"} : f32[A=6, C=12]\n return %r\n",
     .state = "state param \"w\": f32[A=6, C=12] = zeros\n"},
    {.kind = SC_OP_cache_read,
     .body = "%r = cache_read {name = \"w\"} : f32[A=6, C=12]\n return %r\n",
     .state = "state cache \"w\": f32[A=6, C=12] = zeros\n"},
    {.kind = SC_OP_cache_write,
     .body = "%r = input : f32[A=6, C=12]\n cache_write %r {name = \"w\"}\n return %r\n",
     .state = "state cache \"w\": f32[A=6, C=12] = zeros\n"},
    {.kind = SC_OP_state_read,
     .body = "%r = state_read {name = \"w\"} : f32[A=6, C=12]\n return %r\n",
     .state = "state opt \"w\": f32[A=6, C=12] = zeros\n"},
    {.kind = SC_OP_state_write,
     .body = "%r = input : f32[A=6, C=12]\n state_write %r {name = \"w\"}\n return %r\n",
     .state = "state grad \"w\": f32[A=6, C=12] = zeros\n"},
    {.kind = SC_OP_constant, .body = "%r = constant {value = 0.5} : f32[A=6, C=12]\n return %r\n"},
    {.kind = SC_OP_index, .body = "%r = index[V] : i32[V=12]\n return %r\n"},

#define LANGUAGE_no(name)
#define LANGUAGE_number(name) UNARY(name, 4),
#define LANGUAGE_numbers(name)
#define LANGUAGE_bools(name)
#define OP(name, in, roles, shape, eval, expand, derive, flops, bound, picks, ids, language, ...)  \
    LANGUAGE_##language(name)
#include "ir/ops/ops.def"
#undef OP
    UNARY(use, 0),
    UNARY(stop_gradient, 0),
    UNARY(neg, 0),
    UNARY(abs, 0),
    UNARY(relu, 0),
    UNARY(floor, 0),
    UNARY(sign, 0),
    {.kind = SC_OP_pow,
     .body = "%a = input : f32[A=6, C=12]\n %r = pow %a {exponent = 2.5} : f32[A=6, C=12]\n return "
             "%r\n",
     .limits = {4}},
    {.kind = SC_OP_cast,
     .body = "%a = input : f32[A=6, C=12]\n %r = cast %a : i32[A=6, C=12]\n return %r\n"},
    {.kind = SC_OP_not,
     .body = "%a = input : bool[A=6, C=12]\n %r = not %a : bool[A=6, C=12]\n return %r\n"},
    VIEW(regroup, "[A=6, K=2, G=6]", "[A=6, H=(K=2, G=6)]", ""),
    VIEW(transpose, "[A=6, C=12]", "[C=12, A=6]", ""),
    VIEW(broadcast, "[A=6]", "[A=6, C=12]", ""),
    VIEW(broadcast, "[B=4, A=6]", "[C=12, A=6, B=4]", ""),
    VIEW(rename, "[A=6, S=12]", "[A=6, T=12]", "[S -> T]"),
    VIEW(rename, "[A=6, H=(K=6, G=4), C=12]", "[A=6, V=24, C=12]", "[H -> V]"),
    VIEW(unfold, "[A=6, V=24, C=12]", "[A=6, X=6, Q=4, C=12]", "[V -> X, Q]"),

    BINARY(add, "f32", "f32"),
    BINARY(sub, "f32", "f32"),
    BINARY(mul, "f32", "f32"),
    BINARY(div, "f32", "f32"),
    BINARY(mod, "f32", "f32"),
    BINARY(minimum, "f32", "f32"),
    BINARY(maximum, "f32", "f32"),
    BINARY(relu_grad, "f32", "f32"),
    BINARY(silu_grad, "f32", "f32"),
    BINARY(gelu_grad, "f32", "f32"),
    BINARY(gelu_tanh_grad, "f32", "f32"),
    BINARY(lt, "f32", "bool"),
    BINARY(le, "f32", "bool"),
    BINARY(gt, "f32", "bool"),
    BINARY(ge, "f32", "bool"),
    BINARY(eq, "f32", "bool"),
    BINARY(ne, "f32", "bool"),
    BINARY(and, "bool", "bool"),
    BINARY(or, "bool", "bool"),
    {.kind = SC_OP_where,
     .body = "%c = input : bool[A=6]\n %a = input : f32[A=6, C=12]\n %b = input : f32[C=12, D=6]\n"
             "%r = where %c, %a, %b : f32[A=6, C=12, D=6]\n return %r\n"},
    /* what it fills is no part of the assembled result */
    {.kind = SC_OP_mask,
     .body = "%a = input : f32[A=6, V=12]\n %r = mask[V] %a {value = 0.0} : f32[A=6, V=12]\n "
             "return %r\n",
     .idle_offset = "*"},
    {.kind = SC_OP_dropout,
     .body = "%a = input : f32[A=6, C=12]\n %r = dropout %a {p = 0.5, seed = \"d\"} : f32[A=6, "
             "C=12]\n return %r\n"},
    /* of nothing: the global index is not read */
    {.kind = SC_OP_dropout,
     .body = "%a = input : f32[A=6, C=12]\n %r = dropout %a {p = 0.0, seed = \"d\"} : f32[A=6, "
             "C=12]\n return %r\n",
     .idle_offset = "*"},

    {.kind = SC_OP_dot,
     .body = "%a = input : f32[A=6, C=4, D=6]\n %b = input : f32[D=6, N=12]\n %r = dot[D] %a, %b : "
             "f32[A=6, C=4, N=12]\n return %r\n"},
    {.kind = SC_OP_dot,
     .body = "%a = input : f32[X=6, C=4, D=6, E=4]\n %b = input : f32[X=6, D=6, N=6, E=4]\n"
             "%r = dot[D, E] %a, %b : f32[X=6, C=4, N=6]\n return %r\n"},
    {.kind = SC_OP_dot,
     .body = "%a = input : bf16[A=6, D=6]\n %b = input : bf16[D=6, N=12]\n %r = dot[D] %a, %b "
             "{wide = 1} : f32[A=6, N=12]\n return %r\n"},
    ALONG(sum, "[V]", "", "f32[A=6, B=4]"),
    ALONG(sum, "[A, V]", "", "f32[B=4]"),
    ALONG(max, "[V]", "", "f32[A=6, B=4]"),
    ALONG(max, "[A, V]", "", "f32[B=4]"),
    ALONG(min, "[V]", "", "f32[A=6, B=4]"),
    ALONG(min, "[A, V]", "", "f32[B=4]"),
    ALONG(argmax, "[V]", "", "i32[A=6, B=4]"),
    ALONG(softmax, "[V]", "", "f32[A=6, B=4, V=12]"),
    ALONG(softmax, "[B, V]", "", "f32[A=6, B=4, V=12]"),
    ALONG(log_softmax, "[V]", "", "f32[A=6, B=4, V=12]"),
    ALONG(log_softmax, "[A, V]", "", "f32[A=6, B=4, V=12]"),
    ALONG(logsumexp, "[V]", "", "f32[A=6, B=4]"),
    ALONG(logsumexp, "[A, V]", "", "f32[B=4]"),
    ALONG(cumsum, "[V]", "", "f32[A=6, B=4, V=12]"),
    ALONG(cumsum, "[V]", " {reverse = 1}", "f32[A=6, B=4, V=12]"),
    XENT_LSE("[A=6]", "ignore = 3", "[A=6]"),
    XENT_LSE("[B=4, A=6]", "ignore = -100, smoothing = 0.1", "[A=6, B=4]"),
    XENT_LSE("[]", "ignore = -100", "[A=6]"),
    XENT("[A=6]", "ignore = 3", "[A=6]"),
    XENT("[A=6]", "ignore = 3, smoothing = 0.1", "[A=6]"),
    XENT("[B=4, A=6]", "ignore = -100", "[A=6, B=4]"),
    XENT("[]", "ignore = -100, smoothing = 0.5", "[A=6]"),

    {.kind = SC_OP_gather,
     .body = "%a = input : f32[V=12, D=6]\n %i = input : i32[B=4, S=6]\n %r = gather[V] %a, %i : "
             "f32[B=4, S=6, D=6]\n return %r\n",
     .limits = {0, 12}},
    {.kind = SC_OP_gather,
     .body = "%a = input : f32[B=4, V=12, D=6]\n %i = input : i32[B=4, S=6]\n %r = gather[V] %a, "
             "%i : f32[B=4, S=6, D=6]\n return %r\n",
     .limits = {0, 12}},
    SCATTER("[B=4, S=6, D=6]", "[B=4, S=6]", "[V=12, D=6]"),
    SCATTER("[B=4, S=6, D=6]", "[B=4, S=6]", "[B=4, V=12, D=6]"), /* a table for each of B */
    SCATTER("[B=4, S=6, D=6]", "[S=6]", "[D=6, V=12]"),
    SCATTER("[B=4, Q=2]", "[B=4, Q=2]", "[B=4, V=12]"), /* topk's cotangent */
    ROUTED(routed_dot, "D -> V", "[B=4, D=6]", "[V=12, D=6, C=4]", "[B=4, Q=2]", "[B=4, Q=2, C=4]"),
    ROUTED(routed_dot, "A, D -> V", "[D=6, B=4, G=2, A=2]", "[C=4, A=2, G=2, V=12, D=6]",
           "[S=6, B=4]", "[B=4, G=2, S=6, C=4]"), /* matrices of each of G */
    ROUTED(routed_dot_grad, "B, Q -> V", "[B=4, D=6]", "[B=4, Q=2, C=4]", "[B=4, Q=2]",
           "[V=12, D=6, C=4]"),
    ROUTED(routed_dot_grad, "S, B -> V", "[D=6, B=4, G=2]", "[S=6, B=4, C=4, G=2]", "[S=6]",
           "[C=4, G=2, V=12, D=6]"),
    PARTED(routed_dot, "D -> V", "[B=4, D=6]", "[V=12, D=6, C=4]", "[B=4, Q=2]", " {parts = [N]}",
           "[N=6, B=4, Q=2, C=4]"),
    PARTED(routed_dot, "D -> V", "[B=4, D=6, N=6]", "[V=12, D=6, C=4]", "[B=4]", " {parts = [N]}",
           "[N=6, B=4, C=4]"),
    PARTED(routed_dot, "D -> V", "[N=6, B=4, Q=2, D=6]", "[V=12, C=4, D=6]", "[Q=2, B=4]",
           " {parts = [N]}", "[B=4, Q=2, C=4]"),
    PARTED(routed_dot_grad, "B, Q -> V", "[B=4, D=6]", "[N=6, B=4, Q=2, C=4]", "[B=4, Q=2]",
           " {parts = [N]}", "[V=12, D=6, C=4]"),
    PARTED(routed_dot_grad, "B -> V", "[B=4, N=6, D=6]", "[B=4, C=4]", "[B=4]", " {parts = [N]}",
           "[V=12, C=4, D=6]"),
    {.kind = SC_OP_onehot,
     .body = "%i = input : i32[B=4, S=6]\n %r = onehot[V] %i : f32[B=4, S=6, V=12]\n return %r\n",
     .limits = {12}},
    {.kind = SC_OP_topk,
     .body = "%a = input : f32[A=6, V=48, C=6]\n %r, %s = topk[V -> Q] %a : f32[A=6, Q=2, C=6], "
             "i32[A=6, Q=2, C=6]\n return %r, %s\n"},
    {.kind = SC_OP_topk,
     .body = "%a = input : f32[A=6, V=12]\n %r, %s = topk[V -> Q] %a : f32[A=6, Q=8], i32[A=6, "
             "Q=8]\n return %r, %s\n",
     .stays_whole = true}, /* every element is a candidate */
    ROPE("pairs = halves"),
    ROPE("pairs = interleaved"),
    ROPE("pairs = halves, scaling = linear, scaling_args = [4.0]"),
    ROPE("pairs = interleaved, scaling = llama3, scaling_args = [8.0, 1.0, 4.0, 8192.0]"),
    ROPE("pairs = halves, scaling = yarn, scaling_args = [4.0, 8.0, 32.0, 1.0, 1.5, 1.0]"),
    ROPE("pairs = interleaved, scaling = longrope, scaling_args = [1.0, 1.1, 1.2, 1.3, 1.4, 1.5, "
         "2.0, "
         "2.1, 2.2, 2.3, 2.4, 2.5, 4.0, 1.5]"),
    ROPE("pairs = halves, inverse = 1"),
    ROPE("pairs = interleaved, inverse = 1, scaling = llama3, scaling_args = [8.0, 1.0, 4.0, "
         "8192.0]"),
    {.kind = SC_OP_rope,
     .body = "%a = input : f32[B=4, S=6, E=12]\n %p = input : i32[B=4]\n"
             "%r = rope[S, E] %a, %p {theta = 10000.0, pairs = halves, with = [pos]} : f32[B=4, "
             "S=6, E=12]\n return %r\n",
     .limits = {0, 7}},
    {.kind = SC_OP_attend,
     .body = ATTEND(HEADS, HEADS, "", "", ", mask = none", OUT),
     .idle_offset = " S "},
    {.kind = SC_OP_attend, .body = ATTEND(HEADS, HEADS, "", "", ", mask = causal", OUT)},
    {.kind = SC_OP_attend,
     .body = ATTEND("[B=4, T=12, E=4]", "[B=4, T=12, E=4]", "", "",
                    ", mask = window, window = 3, softcap = 2.0", OUT)},
    {.kind = SC_OP_attend,
     .body = ATTEND("[T=12, E=4]", "[K=2, T=12, N=6]", "", "", ", mask = causal",
                    "[B=4, S=12, H=(K=2, G=6), N=6]")},
    {.kind = SC_OP_attend,
     .body =
         ATTEND(HEADS, HEADS,
                "%m = input : bool[B=4, S=12, T=12]\n %b = input : f32[H=(K=2, G=6), S=12, T=12]\n",
                ", %m, %b", ", with = [keep, bias]", OUT),
     .idle_offset = " S "},
    {.kind = SC_OP_attend,
     .body = ATTEND(HEADS, HEADS, "%s = input : f32[H=(K=2, G=6)]\n", ", %s",
                    ", mask = causal, with = [sinks]", OUT)},
    {.kind = SC_OP_attend,
     .body = ATTEND_LSE(HEADS, "%s = input : f32[B=4]\n", ", %s", ", with = [sinks]", OUT),
     .idle_offset = " S "},
    {.kind = SC_OP_attend,
     .body = ATTEND(HEADS, HEADS, "%g = input : i32[B=4, S=12]\n %h = input : i32[B=4, T=12]\n",
                    ", %g, %h", ", mask = causal, with = [segments, key_segments]", OUT),
     .limits = {0, 0, 0, 2, 2}},
    {.kind = SC_OP_attend,
     .body = ATTEND(HEADS, HEADS, "%p = input : i32[B=4]\n %n = input : i32[B=4]\n", ", %p, %n",
                    ", mask = causal, with = [pos, len]", OUT),
     .limits = {0, 0, 0, 9, 9}},
    {.kind = SC_OP_attend,
     .body = ATTEND(HEADS, HEADS, "", "", ", mask = causal, p = 0.5, seed = \"d\"", OUT)},
    {.kind = SC_OP_attend,
     .body = ATTEND("[T=12, E=4]", "[T=12, N=6]", "", "", ", p = 0.5",
                    "[B=4, S=12, H=(K=2, G=6), N=6]")},
    {.kind = SC_OP_attend,
     .body = ATTEND_LSE(HEADS, "", "", ", mask = none", OUT),
     .idle_offset = " S "},
    {.kind = SC_OP_attend,
     .body =
         ATTEND_LSE("[B=4, T=12, K=2, N=6]", "", "", ", mask = window, window = 3, softcap = 2.0",
                    "[B=4, S=12, H=(K=2, G=6), N=6]")},
    {.kind = SC_OP_attend,
     .body = ATTEND_LSE(HEADS, "%p = input : i32[B=4]\n %n = input : i32[B=4]\n", ", %p, %n",
                        ", mask = causal, with = [pos, len]", OUT),
     .limits = {0, 0, 0, 9, 9}},
    {ATTEND_GRAD(HEADS, HEADS, "", "", ", mask = none", OUT, NO_BIAS) NO_BIAS_TYPE, GRAD_LIMITS,
     .idle_offset = " S "},
    {ATTEND_GRAD(HEADS, HEADS, "", "", ", mask = causal, softcap = 2.0", OUT, NO_BIAS) NO_BIAS_TYPE,
     GRAD_LIMITS},
    {ATTEND_GRAD("[B=4, T=12, E=4]", "[B=4, T=12, E=4]", "", "", ", mask = window, window = 3", OUT,
                 NO_BIAS) NO_BIAS_TYPE,
     GRAD_LIMITS},
    {ATTEND_GRAD("[T=12, E=4]", "[K=2, T=12, N=6]", "", "", ", mask = causal",
                 "[B=4, S=12, H=(K=2, G=6), N=6]", NO_BIAS) NO_BIAS_TYPE,
     GRAD_LIMITS},
    {ATTEND_GRAD(HEADS, HEADS, "", "", ", mask = causal, p = 0.5, seed = \"d\"", OUT, NO_BIAS)
         NO_BIAS_TYPE,
     GRAD_LIMITS},
    {ATTEND_GRAD(
         HEADS, HEADS,
         "%m = input : bool[B=4, S=12, T=12]\n %b = input : f32[H=(K=2, G=6), S=12, T=12]\n",
         ", %m, %b", ", with = [keep, bias]", OUT,
         BIAS) ", f32[H=(K=2, G=6), S=12, T=12]\n return %r, %s, %t, %u\n",
     GRAD_LIMITS, .idle_offset = " S "},
    {ATTEND_GRAD(HEADS, HEADS, "%b = input : f32[B=4, T=12]\n", ", %b",
                 ", mask = causal, with = [bias]", OUT,
                 BIAS) ", f32[B=4, T=12]\n return %r, %s, %t, %u\n",
     GRAD_LIMITS},
    {ATTEND_GRAD(HEADS, HEADS, "%g = input : i32[B=4, S=12]\n %h = input : i32[B=4, T=12]\n",
                 ", %g, %h", ", mask = causal, with = [segments, key_segments]", OUT, NO_BIAS)
         NO_BIAS_TYPE,
     .limits = {1, 1, 0, 0, 4, 0, 2, 2}},
    {ATTEND_GRAD(HEADS, HEADS, "%p = input : i32[B=4]\n %n = input : i32[B=4]\n", ", %p, %n",
                 ", mask = causal, with = [pos, len]", OUT, NO_BIAS) NO_BIAS_TYPE,
     .limits = {1, 1, 0, 0, 4, 0, 9, 9}},
    {.kind = SC_OP_append,
     .body = "%c = input : f32[B=4, T=12, E=6]\n %a = input : f32[B=4, S=6, E=6]\n %p = input : "
             "i32[B=4]\n %n = input : i32[B=4]\n"
             "%r = append[S -> T] %c, %a, %p, %n {with = [pos, len]} : f32[B=4, T=12, E=6]\n "
             "return %r\n",
     .limits = {0, 0, 7, 7}},
    {.kind = SC_OP_last,
     .body = "%a = input : f32[B=4, S=6, E=6]\n %r = last[S] %a : f32[B=4, E=6]\n return %r\n"},
    {.kind = SC_OP_last,
     .body = "%a = input : f32[B=4, S=6, E=6]\n %n = input : i32[B=4]\n %r = last[S] %a, %n {with "
             "= [len]} : f32[B=4, E=6]\n return %r\n",
     .limits = {0, 7}},
    VIEW(slice, "[A=6, D=12, C=12]", "[A=6, E=6, C=12]", "[D -> E]"),
    {.kind = SC_OP_slice,
     .body = "%a = input : f32[A=6, D=12]\n %r = slice[D -> E] %a {from = 2} : f32[A=6, E=6]\n "
             "return %r\n"},
    VIEW(unslice, "[A=6, E=6, C=12]", "[A=6, D=12, C=12]", "[E -> D]"),
    {.kind = SC_OP_unslice,
     .body = "%a = input : f32[A=6, E=6]\n %r = unslice[E -> D] %a {from = 2} : f32[A=6, D=12]\n "
             "return %r\n"},
    {.kind = SC_OP_concat,
     .body = "%a = input : f32[A=6, E=6]\n %b = input : f32[C=4, R=6]\n %r = concat[E + R -> D] "
             "%a, %b : f32[A=6, D=12, C=4]\n return %r\n"},
};

enum { CASES = sizeof cases / sizeof *cases };

#endif
