/* The roles of ops.def, each held against the op itself: an op on shards of its operands, put together as its roles say, gives what it
 * gives on one device. Every op with roles has a case here, or the first test fails. */
#include "interp_case.h"

#include "passes/pass.h"

typedef struct role_case {
    sc_op_kind kind;
    const char *body; /* returns the results of the op, the only one of its kind */
    int limits[8];    /* per input: integers in [0, limit), floats in (0, limit]; 0: of both signs */
    const char *state;
    const char *idle_offset; /* dims, as " S T ", whose global index this case does not read though the op may; "*": all */
    const char *spared;      /* dims that stay whole though they could be split */
    bool stays_whole;        /* its form is never cheaper */
} role_case;

#define UNARY(name, limit)                                                                                                                 \
    {                                                                                                                                      \
        .kind = SC_OP_##name, .body = "%a = input : f32[A=6, C=12]\n %r = " #name " %a : f32[A=6, C=12]\n return %r\n", .limits = {        \
            limit                                                                                                                          \
        }                                                                                                                                  \
    }
#define BINARY(name, dtype, to)                                                                                                            \
    {                                                                                                                                      \
        .kind = SC_OP_##name, .body = "%a = input : " dtype "[A=6, C=12]\n %b = input : " dtype "[C=12, D=6]\n %r = " #name                \
                                      " %a, %b : " to "[A=6, C=12, D=6]\n return %r\n"                                                     \
    }
#define VIEW(name, from, to, dims)                                                                                                         \
    {                                                                                                                                      \
        .kind = SC_OP_##name, .body = "%a = input : f32" from "\n %r = " #name dims " %a : f32" to "\n return %r\n"                        \
    }
#define ALONG(name, dims, attributes, to)                                                                                                  \
    {                                                                                                                                      \
        .kind = SC_OP_##name, .body = "%a = input : f32[A=6, B=4, V=12]\n %r = " #name dims " %a" attributes " : " to "\n return %r\n"     \
    }
#define XENT(targets, attributes, to)                                                                                                      \
    {                                                                                                                                      \
        .kind = SC_OP_xent,                                                                                                                \
        .body =                                                                                                                            \
            "%a = input : f32[A=6, V=12]\n %t = input : i32" targets "\n %r = xent[V] %a, %t {" attributes "} : f32" to "\n return %r\n",  \
        .limits = {                                                                                                                        \
            0,                                                                                                                             \
            12                                                                                                                             \
        }                                                                                                                                  \
    }
#define XENT_LSE(targets, attributes, to)                                                                                                  \
    {                                                                                                                                      \
        .kind = SC_OP_xent,                                                                                                                \
        .body = "%a = input : f32[A=6, V=12]\n %t = input : i32" targets "\n %r, %l = xent[V] %a, %t {lse = 1, " attributes "} : f32" to   \
                ", f32" to "\n return %r, %l\n",                                                                                           \
        .limits = {                                                                                                                        \
            0,                                                                                                                             \
            12                                                                                                                             \
        }                                                                                                                                  \
    }
#define SCATTER(x, ids, to)                                                                                                                \
    {                                                                                                                                      \
        .kind = SC_OP_scatter_add,                                                                                                         \
        .body = "%a = input : f32" x "\n %i = input : i32" ids "\n %r = scatter_add[V] %a, %i : f32" to "\n return %r\n", .limits = {      \
            0,                                                                                                                             \
            12                                                                                                                             \
        }                                                                                                                                  \
    }
#define ROPE(attributes)                                                                                                                   \
    {                                                                                                                                      \
        .kind = SC_OP_rope, .body = "%a = input : f32[B=4, S=6, H=(K=2, G=6), E=12]\n %r = rope[S, E] %a {theta = 10000.0, " attributes    \
                                    "} : f32[B=4, S=6, H=(K=2, G=6), E=12]\n return %r\n"                                                  \
    }
/* Queries [B, S, H, E] and more operands; keys and values as given. */
#define ATTEND(keys, values, more, names, attributes, to)                                                                                  \
    "%q = input : f32[B=4, S=12, H=(K=2, G=6), E=4]\n %k = input : f32" keys "\n %v = input : f32" values "\n" more                        \
    " %r = attend[T, E -> S] %q, %k, %v" names " {scale = 0.5" attributes "} : f32" to "\n return %r\n"
#define HEADS "[B=4, T=12, K=2, E=4]"
#define OUT   "[B=4, S=12, H=(K=2, G=6), E=4]"
#define LSE   "[B=4, S=12, H=(K=2, G=6)]"
/* attend with its second result. */
#define ATTEND_LSE(values, more, names, attributes, to)                                                                                    \
    "%q = input : f32" OUT "\n %k = input : f32" HEADS "\n %v = input : f32" values "\n" more                                              \
    " %r, %l = attend[T, E -> S] %q, %k, %v" names " {scale = 0.5, lse = 1" attributes "} : f32" to ", f32" LSE "\n return %r, %l\n"
/* Results and their logarithms of sums are inputs like others: what they are is nothing to the derivative's roles. Once they are given, a
 * key has nothing to do with the others; keys are whole all the same, as in attend. */
#define ATTEND_GRAD(keys, values, more, names, attributes, to, bias)                                                                       \
    .kind = SC_OP_attend_grad, .spared = " T ",                                                                                            \
    .body = "%q = input : f32" OUT "\n %k = input : f32" keys "\n %v = input : f32" values "\n %o = input : f32" to                        \
            "\n %l = input : f32" LSE "\n %d = input : f32" to "\n" more " %r, %s, %t" bias " %q, %k, %v, %o, %l, %d" names                \
            " {scale = 0.5" attributes "} : f32" OUT ", f32" keys ", f32" values
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

    UNARY(use, 0),
    UNARY(stop_gradient, 0),
    UNARY(neg, 0),
    UNARY(abs, 0),
    UNARY(exp, 0),
    UNARY(log, 4),
    UNARY(sqrt, 4),
    UNARY(rsqrt, 4),
    UNARY(sin, 0),
    UNARY(cos, 0),
    UNARY(tanh, 0),
    UNARY(sigmoid, 0),
    UNARY(relu, 0),
    UNARY(silu, 0),
    UNARY(gelu, 0),
    UNARY(gelu_tanh, 0),
    UNARY(erf, 0),
    UNARY(floor, 0),
    UNARY(sign, 0),
    {.kind = SC_OP_pow, .body = "%a = input : f32[A=6, C=12]\n %r = pow %a {exponent = 2.5} : f32[A=6, C=12]\n return %r\n", .limits = {4}},
    {.kind = SC_OP_cast, .body = "%a = input : f32[A=6, C=12]\n %r = cast %a : i32[A=6, C=12]\n return %r\n"},
    {.kind = SC_OP_not, .body = "%a = input : bool[A=6, C=12]\n %r = not %a : bool[A=6, C=12]\n return %r\n"},
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
     .body = "%a = input : f32[A=6, V=12]\n %r = mask[V] %a {value = 0.0} : f32[A=6, V=12]\n return %r\n",
     .idle_offset = "*"},
    {.kind = SC_OP_dropout, .body = "%a = input : f32[A=6, C=12]\n %r = dropout %a {p = 0.5, seed = \"d\"} : f32[A=6, C=12]\n return %r\n"},
    /* of nothing: the global index is not read */
    {.kind = SC_OP_dropout,
     .body = "%a = input : f32[A=6, C=12]\n %r = dropout %a {p = 0.0, seed = \"d\"} : f32[A=6, C=12]\n return %r\n",
     .idle_offset = "*"},

    {.kind = SC_OP_dot,
     .body = "%a = input : f32[A=6, C=4, D=6]\n %b = input : f32[D=6, N=12]\n %r = dot[D] %a, %b : f32[A=6, C=4, N=12]\n return %r\n"},
    {.kind = SC_OP_dot,
     .body = "%a = input : f32[X=6, C=4, D=6, E=4]\n %b = input : f32[X=6, D=6, N=6, E=4]\n"
             "%r = dot[D, E] %a, %b : f32[X=6, C=4, N=6]\n return %r\n"},
    {.kind = SC_OP_dot,
     .body = "%a = input : bf16[A=6, D=6]\n %b = input : bf16[D=6, N=12]\n %r = dot[D] %a, %b {wide = 1} : f32[A=6, N=12]\n return %r\n"},
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
     .body = "%a = input : f32[V=12, D=6]\n %i = input : i32[B=4, S=6]\n %r = gather[V] %a, %i : f32[B=4, S=6, D=6]\n return %r\n",
     .limits = {0, 12}},
    {.kind = SC_OP_gather,
     .body = "%a = input : f32[B=4, V=12, D=6]\n %i = input : i32[B=4, S=6]\n %r = gather[V] %a, %i : f32[B=4, S=6, D=6]\n return %r\n",
     .limits = {0, 12}},
    SCATTER("[B=4, S=6, D=6]", "[B=4, S=6]", "[V=12, D=6]"),
    SCATTER("[B=4, S=6, D=6]", "[B=4, S=6]", "[B=4, V=12, D=6]"), /* a table for each of B */
    SCATTER("[B=4, S=6, D=6]", "[S=6]", "[D=6, V=12]"),
    SCATTER("[B=4, Q=2]", "[B=4, Q=2]", "[B=4, V=12]"), /* topk's cotangent */
    {.kind = SC_OP_onehot, .body = "%i = input : i32[B=4, S=6]\n %r = onehot[V] %i : f32[B=4, S=6, V=12]\n return %r\n", .limits = {12}},
    {.kind = SC_OP_topk,
     .body = "%a = input : f32[A=6, V=48, C=6]\n %r, %s = topk[V -> Q] %a : f32[A=6, Q=2, C=6], i32[A=6, Q=2, C=6]\n return %r, %s\n"},
    {.kind = SC_OP_topk,
     .body = "%a = input : f32[A=6, V=12]\n %r, %s = topk[V -> Q] %a : f32[A=6, Q=8], i32[A=6, Q=8]\n return %r, %s\n",
     .stays_whole = true}, /* every element is a candidate */
    ROPE("pairs = halves"),
    ROPE("pairs = interleaved"),
    ROPE("pairs = halves, scaling = linear, scaling_args = [4.0]"),
    ROPE("pairs = interleaved, scaling = llama3, scaling_args = [8.0, 1.0, 4.0, 8192.0]"),
    ROPE("pairs = halves, inverse = 1"),
    ROPE("pairs = interleaved, inverse = 1, scaling = llama3, scaling_args = [8.0, 1.0, 4.0, 8192.0]"),
    {.kind = SC_OP_rope,
     .body = "%a = input : f32[B=4, S=6, E=12]\n %p = input : i32[B=4]\n"
             "%r = rope[S, E] %a, %p {theta = 10000.0, pairs = halves, with = [pos]} : f32[B=4, S=6, E=12]\n return %r\n",
     .limits = {0, 7}},
    {.kind = SC_OP_attend, .body = ATTEND(HEADS, HEADS, "", "", ", mask = none", OUT), .idle_offset = " S "},
    {.kind = SC_OP_attend, .body = ATTEND(HEADS, HEADS, "", "", ", mask = causal", OUT)},
    {.kind = SC_OP_attend,
     .body = ATTEND("[B=4, T=12, E=4]", "[B=4, T=12, E=4]", "", "", ", mask = window, window = 3, softcap = 2.0", OUT)},
    {.kind = SC_OP_attend, .body = ATTEND("[T=12, E=4]", "[K=2, T=12, N=6]", "", "", ", mask = causal", "[B=4, S=12, H=(K=2, G=6), N=6]")},
    {.kind = SC_OP_attend,
     .body = ATTEND(HEADS, HEADS, "%m = input : bool[B=4, S=12, T=12]\n %b = input : f32[H=(K=2, G=6), S=12, T=12]\n", ", %m, %b",
                    ", with = [keep, bias]", OUT),
     .idle_offset = " S "},
    {.kind = SC_OP_attend,
     .body = ATTEND(HEADS, HEADS, "%g = input : i32[B=4, S=12]\n %h = input : i32[B=4, T=12]\n", ", %g, %h",
                    ", mask = causal, with = [segments, key_segments]", OUT),
     .limits = {0, 0, 0, 2, 2}},
    {.kind = SC_OP_attend,
     .body = ATTEND(HEADS, HEADS, "%p = input : i32[B=4]\n %n = input : i32[B=4]\n", ", %p, %n", ", mask = causal, with = [pos, len]", OUT),
     .limits = {0, 0, 0, 9, 9}},
    {.kind = SC_OP_attend, .body = ATTEND(HEADS, HEADS, "", "", ", mask = causal, p = 0.5, seed = \"d\"", OUT)},
    {.kind = SC_OP_attend, .body = ATTEND("[T=12, E=4]", "[T=12, N=6]", "", "", ", p = 0.5", "[B=4, S=12, H=(K=2, G=6), N=6]")},
    {.kind = SC_OP_attend, .body = ATTEND_LSE(HEADS, "", "", ", mask = none", OUT), .idle_offset = " S "},
    {.kind = SC_OP_attend,
     .body = ATTEND_LSE("[B=4, T=12, K=2, N=6]", "", "", ", mask = window, window = 3, softcap = 2.0", "[B=4, S=12, H=(K=2, G=6), N=6]")},
    {.kind = SC_OP_attend,
     .body = ATTEND_LSE(HEADS, "%p = input : i32[B=4]\n %n = input : i32[B=4]\n", ", %p, %n", ", mask = causal, with = [pos, len]", OUT),
     .limits = {0, 0, 0, 9, 9}},
    {ATTEND_GRAD(HEADS, HEADS, "", "", ", mask = none", OUT, NO_BIAS) NO_BIAS_TYPE, GRAD_LIMITS, .idle_offset = " S "},
    {ATTEND_GRAD(HEADS, HEADS, "", "", ", mask = causal, softcap = 2.0", OUT, NO_BIAS) NO_BIAS_TYPE, GRAD_LIMITS},
    {ATTEND_GRAD("[B=4, T=12, E=4]", "[B=4, T=12, E=4]", "", "", ", mask = window, window = 3", OUT, NO_BIAS) NO_BIAS_TYPE, GRAD_LIMITS},
    {ATTEND_GRAD("[T=12, E=4]", "[K=2, T=12, N=6]", "", "", ", mask = causal", "[B=4, S=12, H=(K=2, G=6), N=6]", NO_BIAS) NO_BIAS_TYPE,
     GRAD_LIMITS},
    {ATTEND_GRAD(HEADS, HEADS, "", "", ", mask = causal, p = 0.5, seed = \"d\"", OUT, NO_BIAS) NO_BIAS_TYPE, GRAD_LIMITS},
    {ATTEND_GRAD(HEADS, HEADS, "%m = input : bool[B=4, S=12, T=12]\n %b = input : f32[H=(K=2, G=6), S=12, T=12]\n", ", %m, %b",
                 ", with = [keep, bias]", OUT, BIAS) ", f32[H=(K=2, G=6), S=12, T=12]\n return %r, %s, %t, %u\n",
     GRAD_LIMITS, .idle_offset = " S "},
    {ATTEND_GRAD(HEADS, HEADS, "%b = input : f32[B=4, T=12]\n", ", %b", ", mask = causal, with = [bias]", OUT,
                 BIAS) ", f32[B=4, T=12]\n return %r, %s, %t, %u\n",
     GRAD_LIMITS},
    {ATTEND_GRAD(HEADS, HEADS, "%g = input : i32[B=4, S=12]\n %h = input : i32[B=4, T=12]\n", ", %g, %h",
                 ", mask = causal, with = [segments, key_segments]", OUT, NO_BIAS) NO_BIAS_TYPE,
     .limits = {1, 1, 0, 0, 4, 0, 2, 2}},
    {ATTEND_GRAD(HEADS, HEADS, "%p = input : i32[B=4]\n %n = input : i32[B=4]\n", ", %p, %n", ", mask = causal, with = [pos, len]", OUT,
                 NO_BIAS) NO_BIAS_TYPE,
     .limits = {1, 1, 0, 0, 4, 0, 9, 9}},
    {.kind = SC_OP_append,
     .body = "%c = input : f32[B=4, T=12, E=6]\n %a = input : f32[B=4, S=6, E=6]\n %p = input : i32[B=4]\n %n = input : i32[B=4]\n"
             "%r = append[S -> T] %c, %a, %p, %n {with = [pos, len]} : f32[B=4, T=12, E=6]\n return %r\n",
     .limits = {0, 0, 7, 7}},
    {.kind = SC_OP_last, .body = "%a = input : f32[B=4, S=6, E=6]\n %r = last[S] %a : f32[B=4, E=6]\n return %r\n"},
    {.kind = SC_OP_last,
     .body = "%a = input : f32[B=4, S=6, E=6]\n %n = input : i32[B=4]\n %r = last[S] %a, %n {with = [len]} : f32[B=4, E=6]\n return %r\n",
     .limits = {0, 7}},
    VIEW(slice, "[A=6, D=12, C=12]", "[A=6, E=6, C=12]", "[D -> E]"),
    {.kind = SC_OP_slice, .body = "%a = input : f32[A=6, D=12]\n %r = slice[D -> E] %a {from = 2} : f32[A=6, E=6]\n return %r\n"},
    VIEW(unslice, "[A=6, E=6, C=12]", "[A=6, D=12, C=12]", "[E -> D]"),
    {.kind = SC_OP_unslice, .body = "%a = input : f32[A=6, E=6]\n %r = unslice[E -> D] %a {from = 2} : f32[A=6, D=12]\n return %r\n"},
    {.kind = SC_OP_concat,
     .body =
         "%a = input : f32[A=6, E=6]\n %b = input : f32[C=4, R=6]\n %r = concat[E + R -> D] %a, %b : f32[A=6, D=12, C=4]\n return %r\n"},
};

enum { CASES = sizeof cases / sizeof *cases, NO_AXIS = -1 };

/* ---- one case, whole or on ranks ---- */

/* A case as a module, with the op that it is about. */
typedef struct subject {
    sc_case *c;
    sc_op_id op, end; /* end: the return */
    sc_factors factors;
} subject;

/* The atoms that split each factor, major first. */
typedef struct splitting {
    sc_atom_list of[SC_MAX_FACTORS];
} splitting;

static subject open_subject(const role_case *row, const char *mesh)
{
    subject s = {.c = case_open(mesh, row->state == NULL ? "" : row->state, row->body, (sc_interp_options){0}), .op = SC_NONE};
    sc_for_each_op (s.c->m, 0, op) {
        if (sc_op_at(s.c->m, op)->kind == row->kind)
            s.op = op;
        s.end = op;
    }
    assert_true(s.op != SC_NONE);
    sc_op_factors(s.c->m, sc_op_at(s.c->m, s.op), &s.factors);
    return s;
}

static double drawn(uint32_t *x, const sc_type_info *type, int limit)
{
    *x = *x * 1664525u + 1013904223u;
    int n = (int)(*x >> 16);
    if (type->dtype == SC_DTYPE_bool)
        return n % 2;
    if (limit > 0)
        return sc_dtype_is_float(type->dtype) ? (double)(n % 16 + 1) * limit / 16 : n % limit;
    return (n % 17 - 8) * 0.25; /* sums of these are exact, and there are ties */
}

static void fill_array(uint32_t *x, const sc_type_info *type, int limit, sc_array *array)
{
    for (int64_t i = 0; i < array->count; i++)
        array->data[i] = drawn(x, type, limit);
}

static void fill(const subject *s, const role_case *row, uint32_t seed)
{
    uint32_t input = 0, x = seed * 2654435761u + 1;
    sc_for_each_op (s->c->m, 0, op) {
        if (sc_op_at(s->c->m, op)->kind == SC_OP_input) {
            fill_array(&x, sc_type_of(s->c->m, sc_result(s->c->m, op, 0)), row->limits[input], &s->c->inputs[input]);
            input++;
        }
    }
    if (row->state == NULL)
        return;
    double values[6 * 12];
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        values[i] = (double)i;
    assert_true(sc_interp_set_state(s->c->interp, 0, values));
}

/* Rows without a finite element, and some elements of others. */
static void mask(const subject *s)
{
    for (int64_t i = 0; i < s->c->inputs[0].count; i++) {
        if (i < 24 || i % 5 == 0)
            s->c->inputs[0].data[i] = -INFINITY;
    }
}

/* The state as a further output, so that what is written is compared like what is returned. */
static void take_state(const subject *s)
{
    if (s->c->m->state.count == 0)
        return;
    bool agree;
    s->c->outputs[s->c->output_count++] = sc_interp_get_state(s->c->interp, 0, &agree);
    assert_true(agree);
}

static bool same_outputs(const sc_case *a, const sc_case *b)
{
    assert_int_equal(a->output_count, b->output_count);
    for (uint32_t i = 0; i < a->output_count; i++) {
        assert_int_equal(a->outputs[i].count, b->outputs[i].count);
        for (int64_t j = 0; j < a->outputs[i].count; j++) {
            double x = a->outputs[i].data[j], y = b->outputs[i].data[j];
            if (!case_same(x, y, 1e-12 * (1 + fabs(x))))
                return false;
        }
    }
    return true;
}

static sc_placement placed(const sc_factors *factors, const splitting *split, bool is_result, uint32_t at)
{
    sc_placement placement = sc_placement_replicated();
    for (uint32_t f = 0; f < factors->count; f++) {
        const sc_factor *factor = &factors->list[f];
        int dim = is_result ? factor->result[at] : factor->operand[at];
        for (uint32_t a = 0; a < split->of[f].count; a++) {
            uint32_t atom = split->of[f].atoms[a];
            if (dim >= 0)
                sc_placement_append(&placement, (uint32_t)dim, atom);
            else if (is_result && factor->role >= SC_ROLE_SUMS && factor->role <= SC_ROLE_MINS)
                placement.on[atom] = (uint8_t)(SC_PARTIAL_SUM + (factor->role - SC_ROLE_SUMS));
        }
    }
    return placement;
}

static void set_placement(sc_module *m, sc_value value, sc_placement placement)
{
    m->values.data[value].type = sc_type_with_placement(m, m->values.data[value].type, &placement);
}

/* Operands as the factors say, results as they then come out. */
static void place(const subject *s, const splitting *split)
{
    sc_module *m = s->c->m;
    const sc_op *op = sc_op_at(m, s->op);
    for (uint32_t o = 0; o < op->operand_count; o++)
        set_placement(m, op->operands[o], placed(&s->factors, split, false, o));
    for (uint32_t r = 0; r < op->result_count; r++)
        set_placement(m, op->first_result + r, placed(&s->factors, split, true, r));
    if (m->state.count > 0)
        m->state.data[0].type = m->values.data[op->result_count > 0 ? op->first_result : op->operands[0]].type;
}

static void set_offsets(const subject *s, const splitting *split)
{
    sc_split offsets[SC_MAX_FACTORS];
    uint32_t count = 0;
    for (uint32_t f = 0; f < s->factors.count; f++) {
        if (s->factors.list[f].offset && split->of[f].count > 0)
            offsets[count++] = (sc_split){s->factors.list[f].dim, split->of[f]};
    }
    if (count > 0)
        sc_op_set_attr(s->c->m, s->op, sc_attr_splits(s->c->m, SC_ATTR_offset, offsets, count));
}

/* Whatever is returned is put together first: pending reductions reduced, shards joined, replicas compared. */
static void put_together(const subject *s)
{
    sc_module *m = s->c->m;
    const sc_placement replicated = sc_placement_replicated();
    for (uint32_t i = 0; i < sc_op_at(m, s->end)->operand_count; i++) {
        sc_value value = sc_op_at(m, s->end)->operands[i];
        sc_type whole = sc_type_with_placement(m, m->values.data[value].type, &replicated);
        sc_op_id reshard = sc_op_new(m, 0, s->end, SC_OP_reshard, &value, 1, NULL, 0, &whole, 1, SC_NONE);
        sc_op_at(m, s->end)->operands[i] = sc_result(m, reshard, 0);
    }
}

static void restart(const subject *s, bool ranks)
{
    sc_interp_free(s->c->interp);
    s->c->interp = sc_interp_new(s->c->m, &(sc_interp_options){.ranks = ranks});
    assert_non_null(s->c->interp);
}

static subject run_whole(const role_case *row, uint32_t seed)
{
    subject s = open_subject(row, "");
    fill(&s, row, seed);
    if (!case_run(s.c))
        fail_msg("%s\n%s", s.c->error, row->body);
    take_state(&s);
    return s;
}

/* Whether the op, split by its factors as they stand in `s`, gives what it gives whole; false, with the reason in `error`, when it does
 * not or does not run. Closes s. */
static bool runs_alike(const role_case *row, subject *s, const splitting *split, char error[512])
{
    subject whole = run_whole(row, 1);
    place(s, split);
    set_offsets(s, split);
    put_together(s);
    restart(s, true);
    fill(s, row, 1);
    bool ok = case_run(s->c);
    snprintf(error, 512, "%s", ok ? "another result" : s->c->error);
    if (ok)
        take_state(s);
    ok = ok && same_outputs(whole.c, s->c);
    case_close(whole.c);
    case_close(s->c);
    return ok;
}

static const char *factor_name(const subject *s, uint32_t f)
{
    return sc_text(&s->c->context, s->c->m->dims.data[s->factors.list[f].dim].name);
}

/* ---- choosing factors ---- */

static bool can_split(const subject *s, uint32_t f)
{
    return s->factors.list[f].role != SC_ROLE_WHOLE && s->factors.list[f].role != SC_ROLE_FORM;
}

static bool divides_operands(const subject *s, uint32_t f, int64_t by)
{
    const sc_op *op = sc_op_at(s->c->m, s->op);
    const sc_factor *factor = &s->factors.list[f];
    for (uint32_t o = 0; o < op->operand_count; o++) {
        if (factor->operand[o] >= 0 && sc_type_of(s->c->m, op->operands[o])->dims[factor->operand[o]].size % by != 0)
            return false;
    }
    for (uint32_t r = 0; r < op->result_count; r++) {
        if (factor->result[r] >= 0 && sc_type_of(s->c->m, op->first_result + r)->dims[factor->result[r]].size % by != 0)
            return false;
    }
    return true;
}

static splitting split_two(uint32_t f, uint32_t g)
{
    splitting split = {0};
    split.of[f].atoms[split.of[f].count++] = 0;
    split.of[g].atoms[split.of[g].count++] = 1;
    return split;
}

static splitting split_one(uint32_t f)
{
    splitting split = {0};
    split.of[f] = (sc_atom_list){1, {0}};
    return split;
}

/* ---- tests ---- */

static void every_op_with_roles_has_a_case(void **state)
{
    (void)state;
    for (uint32_t kind = 0; kind < SC_OP_COUNT; kind++) {
        bool found = sc_ops[kind].roles == NULL;
        for (size_t i = 0; i < CASES; i++)
            found = found || cases[i].kind == kind;
        if (!found)
            fail_msg("op %s has roles and no case here", sc_ops[kind].name);
    }
}

static void count_dims(const subject *s, const sc_type_info *type, bool is_result, uint32_t at, const char *body)
{
    for (uint32_t i = 0; i < type->rank; i++) {
        uint32_t found = 0;
        for (uint32_t f = 0; f < s->factors.count; f++)
            found += (is_result ? s->factors.list[f].result[at] : s->factors.list[f].operand[at]) == (int)i;
        if (found != 1)
            fail_msg("dim %u of %s %u is in %u factors\n%s", i, is_result ? "result" : "operand", at, found, body);
    }
}

static void every_dim_belongs_to_one_factor(void **state)
{
    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        subject s = open_subject(&cases[i], "");
        const sc_op *op = sc_op_at(s.c->m, s.op);
        for (uint32_t o = 0; o < op->operand_count; o++)
            count_dims(&s, sc_type_of(s.c->m, op->operands[o]), false, o, cases[i].body);
        for (uint32_t r = 0; r < op->result_count; r++)
            count_dims(&s, sc_type_of(s.c->m, op->first_result + r), true, r, cases[i].body);
        case_close(s.c);
    }
}

/* Whether as many results as the role says have the dim: what passes is in some (each, of a single one), what is reduced not in all. */
static bool fits_role(const sc_factor *factor, uint32_t results)
{
    uint32_t having = 0;
    for (uint32_t r = 0; r < results; r++)
        having += factor->result[r] >= 0;
    return results == 0 || (factor->role == SC_ROLE_PASSES ? having > 0 : having < results);
}

/* Elementwise ops pass everything. */
static void roles_fit_the_results(void **state)
{
    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        subject s = open_subject(&cases[i], "");
        const sc_op *op = sc_op_at(s.c->m, s.op);
        for (uint32_t f = 0; f < s.factors.count; f++) {
            sc_role role = s.factors.list[f].role;
            if (can_split(&s, f) && !fits_role(&s.factors.list[f], op->result_count))
                fail_msg("%s: dim %s has the wrong role for its results\n%s", sc_ops[op->kind].name, factor_name(&s, f), cases[i].body);
            if ((sc_op_traits(op) & SC_ELEMENTWISE) != 0)
                assert_int_equal(role, SC_ROLE_PASSES);
        }
        case_close(s.c);
    }
}

/* sc_op_offsets finds the dims that the factors ask for. */
static void check_offsets(const role_case *row, const char *mesh, const splitting *split)
{
    subject s = open_subject(row, mesh);
    sc_split found[SC_MAX_FACTORS];
    uint32_t wanted = 0;
    place(&s, split);
    for (uint32_t f = 0; f < s.factors.count; f++)
        wanted += s.factors.list[f].offset && split->of[f].count > 0;
    assert_int_equal(sc_op_offsets(s.c->m, s.op, found), wanted);
    case_close(s.c);
}

static void check_alike(const role_case *row, const subject *like, const char *mesh, uint32_t f, uint32_t g, const splitting *split)
{
    char error[512];
    subject s = open_subject(row, mesh);
    check_offsets(row, mesh, split);
    if (!runs_alike(row, &s, split, error))
        fail_msg("%s split on %s and %s over %s: %s\n%s", sc_ops[row->kind].name, factor_name(like, f), factor_name(like, g), mesh, error,
                 row->body);
}

static void each_factor_alone(void **state)
{
    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        subject s = open_subject(&cases[i], "");
        for (uint32_t f = 0; f < s.factors.count; f++) {
            splitting split = split_one(f);
            if (can_split(&s, f) && divides_operands(&s, f, 2))
                check_alike(&cases[i], &s, "x = 2\n", f, f, &split);
            if (can_split(&s, f) && divides_operands(&s, f, 3))
                check_alike(&cases[i], &s, "x = 3\n", f, f, &split);
        }
        case_close(s.c);
    }
}

/* Pairs on two axes, f == g included: one dim over both, in both orders. */
static void check_pair(const role_case *row, const subject *s, uint32_t f, uint32_t g)
{
    splitting split = split_two(f, g);
    if (f != g ? divides_operands(s, f, 2) && divides_operands(s, g, 3) : divides_operands(s, f, 6))
        check_alike(row, s, "x = 2, y = 3\n", f, g, &split);
    if (f != g ? divides_operands(s, f, 2) && divides_operands(s, g, 2) : divides_operands(s, f, 4))
        check_alike(row, s, "x = 2, y = 2\n", f, g, &split);
    if (f == g && divides_operands(s, f, 6)) {
        split.of[f] = (sc_atom_list){2, {1, 0}};
        check_alike(row, s, "x = 2, y = 3\n", f, g, &split);
    }
}

static void pairs_of_factors(void **state)
{
    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        subject s = open_subject(&cases[i], "");
        for (uint32_t f = 0; f < s.factors.count; f++) {
            for (uint32_t g = 0; g < s.factors.count; g++) {
                if (can_split(&s, f) && can_split(&s, g))
                    check_pair(&cases[i], &s, f, g);
            }
        }
        case_close(s.c);
    }
}

static bool names(const char *list, const char *dim)
{
    char text[64];
    snprintf(text, sizeof text, " %s ", dim);
    return list != NULL && (list[0] == '*' || strstr(list, text) != NULL);
}

/* One factor over two ranks, under another role than its own. */
static bool could_be(const role_case *row, uint32_t f, sc_role role, bool offset)
{
    char error[512];
    splitting split = split_one(f);
    subject s = open_subject(row, "x = 2\n");
    s.factors.list[f].role = role;
    s.factors.list[f].offset = offset;
    return runs_alike(row, &s, &split, error);
}

static void asked_offsets_are_needed(void **state)
{
    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        subject s = open_subject(&cases[i], "");
        for (uint32_t f = 0; f < s.factors.count; f++) {
            const sc_factor *factor = &s.factors.list[f];
            if (can_split(&s, f) && factor->offset && !names(cases[i].idle_offset, factor_name(&s, f)) &&
                could_be(&cases[i], f, factor->role, false))
                fail_msg("%s gives the same without its offset on %s\n%s", sc_ops[cases[i].kind].name, factor_name(&s, f), cases[i].body);
        }
        case_close(s.c);
    }
}

/* A dim that must be whole, or needs a form, gives a wrong result or none when it is split without more ado. */
static void whole_dims_are_needed_whole(void **state)
{
    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        subject s = open_subject(&cases[i], "");
        for (uint32_t f = 0; f < s.factors.count; f++) {
            if (can_split(&s, f) || !divides_operands(&s, f, 2) || names(cases[i].spared, factor_name(&s, f)))
                continue;
            for (int role = SC_ROLE_PASSES; role <= SC_ROLE_MINS; role++) {
                if (could_be(&cases[i], f, (sc_role)role, false) || could_be(&cases[i], f, (sc_role)role, true))
                    fail_msg("%s could be split on %s, role %d\n%s", sc_ops[cases[i].kind].name, factor_name(&s, f), role, cases[i].body);
            }
        }
        case_close(s.c);
    }
}

/* ---- traits that tell what a pending sum may pass ---- */

enum { FIRST = 1, SECOND = 2 };

/* Inputs whose bit is set in `both` are the sum of two draws, the others the first draw. */
static subject run_sum(const role_case *row, uint32_t both, uint32_t other)
{
    subject s = open_subject(row, ""), second = open_subject(row, "");
    fill(&s, row, FIRST);
    fill(&second, row, SECOND);
    for (uint32_t i = 0; i < s.c->input_count; i++) {
        for (int64_t j = 0; j < s.c->inputs[i].count; j++) {
            double x = s.c->inputs[i].data[j], y = second.c->inputs[i].data[j];
            s.c->inputs[i].data[j] = (both >> i & 1) != 0 ? x + y : (other >> i & 1) != 0 ? y : x;
        }
    }
    assert_true(case_run(s.c));
    case_close(second.c);
    return s;
}

static void check_linear(const role_case *row, uint32_t inputs)
{
    subject first = run_sum(row, 0, 0), second = run_sum(row, 0, inputs), both = run_sum(row, inputs, 0);
    for (int64_t j = 0; j < both.c->outputs[0].count; j++) {
        double wanted = first.c->outputs[0].data[j] + second.c->outputs[0].data[j];
        if (!case_same(both.c->outputs[0].data[j], wanted, 1e-12))
            fail_msg("%s is not linear in operands %x\n%s", sc_ops[row->kind].name, inputs, row->body);
    }
    case_close(first.c);
    case_close(second.c);
    case_close(both.c);
}

static void linear_ops_are_linear(void **state)
{
    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        uint32_t traits = sc_ops[cases[i].kind].traits, operands = (uint32_t)sc_ops[cases[i].kind].operands;
        if ((traits & SC_LINEAR) != 0)
            check_linear(&cases[i], (1u << operands) - 1);
        for (uint32_t o = 0; (traits & SC_BILINEAR) != 0 && o < operands; o++)
            check_linear(&cases[i], 1u << o);
    }
}

static void operands_that_commute_may_be_swapped(void **state)
{
    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        if ((sc_ops[cases[i].kind].traits & SC_COMMUTES) == 0)
            continue;
        subject whole = run_whole(&cases[i], 1), swapped = open_subject(&cases[i], "");
        sc_value *operands = sc_op_at(swapped.c->m, swapped.op)->operands, first = operands[0];
        operands[0] = operands[1];
        operands[1] = first;
        fill(&swapped, &cases[i], 1);
        assert_true(case_run(swapped.c));
        assert_true(same_outputs(whole.c, swapped.c));
        case_close(whole.c);
        case_close(swapped.c);
    }
}

/* ---- forms ---- */

static bool has_form(const subject *s)
{
    return sc_ops[sc_op_at(s->c->m, s->op)->kind].expand != NULL;
}

/* The op replaced by its expansion for this many shards. */
static void expand_op(const subject *s, uint64_t shards)
{
    sc_module *m = s->c->m;
    sc_expand expand = {
        .e = {.m = m, .func = sc_op_at(m, s->op)->func, .before = s->op, .like = s->op}, .shards = shards, .made_dim = SC_NONE};
    sc_ops[sc_op_at(m, s->op)->kind].expand(&expand);
    for (uint32_t i = 0; i < sc_op_at(m, s->end)->operand_count; i++)
        sc_op_at(m, s->end)->operands[i] = expand.results[sc_op_at(m, s->end)->operands[i] - sc_op_at(m, s->op)->first_result];
    sc_op_unlink(m, s->op);
}

static void check_expansion(const role_case *row, uint64_t shards, bool masked)
{
    subject whole = open_subject(row, ""), expanded = open_subject(row, "");
    expand_op(&expanded, shards);
    restart(&expanded, false);
    for (uint32_t seed = 1; seed <= 5; seed++) {
        fill(&whole, row, seed);
        fill(&expanded, row, seed);
        if (masked) {
            mask(&whole);
            mask(&expanded);
        }
        assert_true(case_run(whole.c));
        if (!case_run(expanded.c))
            fail_msg("the expansion of %s: %s\n%s", sc_ops[row->kind].name, expanded.c->error, row->body);
        if (!same_outputs(whole.c, expanded.c))
            fail_msg("the expansion of %s differs%s\n%s", sc_ops[row->kind].name, masked ? " on masked rows" : "", row->body);
    }
    case_close(whole.c);
    case_close(expanded.c);
}

static void expansions_mean_their_op(void **state)
{
    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        for (uint64_t shards = 1; sc_ops[cases[i].kind].expand != NULL && shards <= 4; shards++) {
            check_expansion(&cases[i], shards, false);
            check_expansion(&cases[i], shards, true);
        }
    }
}

typedef struct pipeline {
    subject *s;
    bool ran, expanded;
} pipeline;

static void look_for_form(sc_module *m, const sc_pass *pass, void *user)
{
    (void)pass;
    sc_for_each_op (m, 0, op)
        ((pipeline *)user)->expanded = ((pipeline *)user)->expanded || sc_op_attr(sc_op_at(m, op), SC_ATTR_form) != NULL;
}

static void run_pipeline(sc_context *context, void *user)
{
    (void)context;
    pipeline *p = user;
    sc_pass_env env = {0};
    p->s->c->m->states = SC_SHAPES;
    p->ran = sc_pipeline_run(p->s->c->m, &env, NULL, look_for_form, p);
}

static void print_messages(const subject *s)
{
    sc_strbuf out;
    sc_strbuf_init(&out, &s->c->context.arena);
    sc_diag_render_text(&s->c->context.diag, &s->c->context.sources, &out);
    fprintf(stderr, "%s", out.data);
}

/* The op on operands that stand as the splitting says, through all passes. */
static void check_through_pipeline(const role_case *row, const char *mesh, const splitting *split, bool masked)
{
    subject whole = open_subject(row, ""), s = open_subject(row, mesh);
    sc_module *m = s.c->m;
    for (uint32_t o = 0; o < sc_op_at(m, s.op)->operand_count; o++)
        set_placement(m, sc_op_at(m, s.op)->operands[o], placed(&s.factors, split, false, o));
    pipeline p = {.s = &s};
    run_pipeline(&s.c->context, &p);
    if (!p.ran)
        print_messages(&s);
    assert_true(p.ran);
    if (p.expanded == row->stays_whole)
        fail_msg("%s over %s did not do as its form's cost says\n%s", sc_ops[row->kind].name, mesh, row->body);
    restart(&s, true);
    fill(&whole, row, 1);
    fill(&s, row, 1);
    if (masked) {
        mask(&whole);
        mask(&s);
    }
    assert_true(case_run(whole.c));
    if (!case_run(s.c))
        fail_msg("%s over %s: %s\n%s", sc_ops[row->kind].name, mesh, s.c->error, row->body);
    if (!same_outputs(whole.c, s.c))
        fail_msg("%s over %s differs%s\n%s", sc_ops[row->kind].name, mesh, masked ? " on masked rows" : "", row->body);
    case_close(whole.c);
    case_close(s.c);
}

static void check_forms_of(const role_case *row, const subject *s, uint32_t f)
{
    for (int masked = 0; masked < 2; masked++) {
        splitting one = split_one(f);
        if (divides_operands(s, f, 2))
            check_through_pipeline(row, "x = 2\n", &one, masked != 0);
        if (divides_operands(s, f, 3))
            check_through_pipeline(row, "x = 3\n", &one, masked != 0);
        for (uint32_t g = 0; g < s->factors.count; g++) {
            splitting two = split_two(f, g);
            if (s->factors.list[g].role != SC_ROLE_WHOLE &&
                (f == g ? divides_operands(s, f, 4) : divides_operands(s, f, 2) && divides_operands(s, g, 2)))
                check_through_pipeline(row, "x = 2, y = 2\n", &two, masked != 0);
        }
    }
}

static void forms_on_shards_mean_their_op(void **state)
{
    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        subject s = open_subject(&cases[i], "");
        for (uint32_t f = 0; has_form(&s) && f < s.factors.count; f++) {
            if (s.factors.list[f].role == SC_ROLE_FORM)
                check_forms_of(&cases[i], &s, f);
        }
        case_close(s.c);
    }
}

/* ---- padding ---- */

/* Whether the factor may be split over 5, padded: never a composite, nor a dim that stands for two. */
static bool can_pad(const subject *s, uint32_t f)
{
    const sc_module *m = s->c->m;
    const sc_op *op = sc_op_at(m, s->op);
    const sc_factor *factor = &s->factors.list[f];
    int64_t size = 0;
    if (factor->role == SC_ROLE_WHOLE)
        return false;
    for (uint32_t v = 0; v < op->operand_count + op->result_count; v++) {
        bool is_operand = v < op->operand_count;
        int dim = is_operand ? factor->operand[v] : factor->result[v - op->operand_count];
        const sc_type_info *type = sc_type_of(m, is_operand ? op->operands[v] : op->first_result + v - op->operand_count);
        if (dim < 0)
            continue;
        if (type->dims[dim].group != SC_NONE || (size != 0 && type->dims[dim].size != size))
            return false;
        size = type->dims[dim].size;
        m->dims.data[type->dims[dim].dim].multiple = 5;
    }
    return true;
}

/* The whole against ranks whose padding is poison, after all passes. */
static void check_padded(const role_case *row, uint32_t f)
{
    subject whole = run_whole(row, 1), s = open_subject(row, "x = 5\n");
    sc_module *m = s.c->m;
    splitting split = split_one(f);
    assert_true(can_pad(&s, f));
    for (uint32_t o = 0; o < sc_op_at(m, s.op)->operand_count; o++)
        set_placement(m, sc_op_at(m, s.op)->operands[o], placed(&s.factors, &split, false, o));
    pipeline p = {.s = &s};
    run_pipeline(&s.c->context, &p);
    if (!p.ran)
        print_messages(&s);
    assert_true(p.ran);
    sc_interp_free(s.c->interp);
    s.c->interp = sc_interp_new(m, &(sc_interp_options){.ranks = true, .poison = true});
    assert_non_null(s.c->interp);
    fill(&s, row, 1);
    if (!case_run(s.c))
        fail_msg("%s padded on %s: %s\n%s", sc_ops[row->kind].name, factor_name(&s, f), s.c->error, row->body);
    take_state(&s);
    if (!same_outputs(whole.c, s.c))
        fail_msg("%s differs when it is padded on %s\n%s", sc_ops[row->kind].name, factor_name(&s, f), row->body);
    case_close(whole.c);
    case_close(s.c);
}

static void padding_is_never_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        subject s = open_subject(&cases[i], "");
        for (uint32_t f = 0; f < s.factors.count && cases[i].state == NULL; f++) {
            if (can_pad(&s, f))
                check_padded(&cases[i], f);
        }
        case_close(s.c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_op_with_roles_has_a_case),
        cmocka_unit_test(every_dim_belongs_to_one_factor),
        cmocka_unit_test(roles_fit_the_results),
        cmocka_unit_test(each_factor_alone),
        cmocka_unit_test(pairs_of_factors),
        cmocka_unit_test(asked_offsets_are_needed),
        cmocka_unit_test(whole_dims_are_needed_whole),
        cmocka_unit_test(linear_ops_are_linear),
        cmocka_unit_test(operands_that_commute_may_be_swapped),
        cmocka_unit_test(expansions_mean_their_op),
        cmocka_unit_test(forms_on_shards_mean_their_op),
        cmocka_unit_test(padding_is_never_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
