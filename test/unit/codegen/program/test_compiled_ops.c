/* Every op, compiled, against the interpreter: in each dtype that it takes, with odd sizes, dims of
 * size 1, broadcast and transposed operands, between other ops and beside a sum; then with each dim
 * of the inputs split over two ranks. A module's functions are compiled as one object. For the
 * target that $SHARDC_TEST_TARGET names: for GPUs on the stubs of CUDA's libraries
 * (test/cuda_stub).
 *
 * Where there is a GPU there need not be a compiler, nor NVRTC: with $SHARDC_TEST_KEEP programs are
 * compiled and written into that folder, and nothing is run; with $SHARDC_TEST_KEPT those of that
 * folder are run, and nothing is compiled. The argument picks tests ('every*'), or is a row of what
 * `--list` prints ('op:17'): one function, in all the ways that tests run it. So an error that a
 * GPU's context does not survive costs one row, where each has a process of its own. */
#include "test/unit/helpers/interp_case.h"

#include <errno.h>

#include "codegen/program/generate.h"
#include "passes/pass.h"
#include "program/bytes.h"
#include "shardc/runtime.h"
#include "support/hash.h"

enum { MAX_VALUES = 64, MAX_FUNCS = 64 };

/* Elements of an input lie between; floats are multiples of 1/8. */
typedef struct range {
    double low, high;
} range;

typedef struct function {
    const char *body;
    range inputs[6];
} function;

/* ---- functions of many ops: all their results are added up, so that they are one kernel ---- */
static const char *const integer_unary[] = {"neg", "abs", "relu", "sign"};
static const char *const binary[] = {"add", "sub", "mul", "div", "mod", "minimum", "maximum"};
static const char *const slopes[] = {"relu_grad", "silu_grad", "gelu_grad", "gelu_tanh_grad"};
static const char *const compares[] = {"lt", "le", "gt", "ge", "eq", "ne"};

static void add_total(sc_strbuf *out, const char *const *names, size_t count, const char *prefix,
                      const char *type)
{
    for (size_t i = 1; i < count; i++) {
        sc_strbuf_printf(out, "%%t%zu = add %%%s%s, ", i, i == 1 ? prefix : "t",
                         i == 1 ? names[0] : "");
        if (i > 1) {
            out->length -= 2;
            sc_strbuf_printf(out, "%zu, ", i - 1);
        }
        sc_strbuf_printf(out, "%%%s%s : %s\n", prefix, names[i], type);
    }
    sc_strbuf_add(out, "return ");
    for (size_t i = 0; i < count; i++)
        sc_strbuf_printf(out, "%%%s%s, ", prefix, names[i]);
    sc_strbuf_printf(out, "%%t%zu\n", count - 1);
}

static const char *unary_body(sc_arena *arena, const char *dtype, const char *const *names,
                              size_t count)
{
    sc_strbuf out;
    sc_strbuf_init(&out, arena);
    const char *type = sc_arena_printf(arena, "%s[A=3, B=5]", dtype);
    sc_strbuf_printf(&out, "%%x = input {name=\"x\"} : %s\n", type);
    for (size_t i = 0; i < count; i++)
        sc_strbuf_printf(&out, "%%u%s = %s %%x : %s\n", names[i], names[i], type);
    add_total(&out, names, count, "u", type);
    return out.data;
}

/* The second operand is transposed, the third broadcasts along A and has a dim of size 1. */
static const char *binary_body(sc_arena *arena, const char *dtype)
{
    sc_strbuf out;
    sc_strbuf_init(&out, arena);
    const char *type = sc_arena_printf(arena, "%s[A=3, B=5, C=1]", dtype),
               *turned = sc_arena_printf(arena, "%s[B=5, A=3, C=1]", dtype);
    const size_t all = sizeof binary / sizeof *binary,
                 compared = sizeof compares / sizeof *compares;
    const char *names[32];
    sc_strbuf_printf(
        &out, "%%x = input {name=\"x\"} : %s[A=3, B=5]\n%%y = input {name=\"y\"} : %s[B=5, A=3]\n",
        dtype, dtype);
    sc_strbuf_printf(&out, "%%z = input {name=\"z\"} : %s[C=1, B=5]\n%%w = mul %%y, %%z : %s\n",
                     dtype, turned);
    size_t count = all;
    for (size_t i = 0; i < all; i++)
        names[i] = binary[i];
    for (size_t i = 0; strchr("iu", dtype[0]) == NULL && i < sizeof slopes / sizeof *slopes; i++)
        names[count++] = slopes[i];
    for (size_t i = 0; i < count; i++)
        sc_strbuf_printf(&out, "%%u%s = %s %%x, %%w : %s\n", names[i], names[i], type);
    for (size_t i = 0; i < compared; i++) {
        sc_strbuf_printf(&out, "%%c%s = %s %%w, %%x : bool[B=5, A=3, C=1]\n", compares[i],
                         compares[i]);
        sc_strbuf_printf(&out, "%%u%s = cast %%c%s : %s\n", names[count + i] = compares[i],
                         compares[i], turned);
    }
    sc_strbuf_printf(&out, "%%uw = where %%clt, %%x, %%w : %s\n", turned);
    names[count + compared] = "w";
    add_total(&out, names, count + compared + 1, "u", type);
    return out.data;
}

/* ---- functions of one op, or of few ---- */
#define IN(name, type) "%" name " = input {name=\"" name "\"} : " type "\n"

/* the product, and the cotangents of both operands of it: as far as ids repeat, sums of rows */
#define ROUTED(dtype, x, w, ids, to, dims, rows)                                                   \
    {                                                                                              \
        IN("x", dtype x)                                                                           \
        IN("w", dtype w)                                                                           \
        IN("t", "i32" ids)                                                                         \
        "%y = routed_dot[" dims " -> V] %x, %w, %t : " dtype to "\n%n = neg %y : " dtype to        \
        "\n%g = routed_dot_grad[" rows " -> V] %x, %n, %t : " dtype w "\nreturn %y, %g\n",         \
        {                                                                                          \
            {-1, 1}, {-1, 1},                                                                      \
            {                                                                                      \
                0, 6                                                                               \
            }                                                                                      \
        }                                                                                          \
    }

/* rows of each of three parts of the indexed dim, apart */
#define PARTED(dtype, x, w, ids, to, dims, rows)                                                   \
    {                                                                                              \
        IN("x", dtype x)                                                                           \
        IN("w", dtype w)                                                                           \
        IN("t", "i32" ids)                                                                         \
        "%y = routed_dot[" dims " -> V] %x, %w, %t {parts = [C]} : " dtype to                      \
        "\n%n = neg %y : " dtype to "\n%g = routed_dot_grad[" rows                                 \
        " -> V] %x, %n, %t {parts = [C]} : " dtype w "\nreturn %y, %g\n",                          \
        {                                                                                          \
            {-1, 1}, {-1, 1},                                                                      \
            {                                                                                      \
                0, 5                                                                               \
            }                                                                                      \
        }                                                                                          \
    }

static const function single[] = {
    {IN("x", "i32[A=3, B=5]") "%a = add %x, %x : i32[A=3, B=5]\n%b = neg %x : i32[A=3, B=5]\n%c = "
                              "sub %b, %a : i32[A=3, B=5]\n"
                              "%d = cast %c : u8[A=3, B=5]\n%e = sum[B] %x : i32[A=3]\nreturn %a, "
                              "%b, %c, %d, %e\n",
     {{-2147483648.0, 2147483647.0}}},
    {"%a = constant {value=2.5} : f32[A=3, B=5]\n%b = index[B] : i32[B=5]\n%c = index[B] : "
     "i64[B=5]\n%d = cast %b : f32[B=5]\n"
     "%e = mul %a, %d : f32[A=3, B=5]\nreturn %a, %b, %c, %e\n",
     {{0, 0}}},
    {IN("x", "f32[A=3, B=5]") "%u = use %x : f32[A=3, B=5]\n%t = transpose %u : f32[B=5, A=3]\n%s "
                              "= stop_gradient %t : f32[B=5, A=3]\n"
                              "%r = regroup %s : f32[B=5, A=3]\n%y = exp %r : f32[B=5, "
                              "A=3]\nreturn %t, %y, %r\n",
     {{-2, 2}}},
    {IN("x", "f32[B=5]") "%y = broadcast %x : f32[A=3, B=5, C=1]\n%z = neg %y : f32[A=3, B=5, "
                         "C=1]\nreturn %y, %z\n",
     {{-2, 2}}},
    {IN("x", "f32[A=3, B=5]") "%a = cast %x : bf16[A=3, B=5]\n%b = cast %x : f16[A=3, B=5]\n%c = "
                              "cast %x : i32[A=3, B=5]\n"
                              "%d = cast %x : u8[A=3, B=5]\n%e = cast %x : bool[A=3, B=5]\n%f = "
                              "cast %x : f64[A=3, B=5]\n%g = cast %x : "
                              "i64[A=3, B=5]\n"
                              "%h = cast %d : f32[A=3, B=5]\n%i = cast %e : i32[A=3, B=5]\nreturn "
                              "%a, %b, %c, %d, %e, %f, %g, %h, %i\n",
     {{-300, 300}}},
    {IN("x", "f32[A=3, B=5]") "%a = pow %x {exponent=2.0} : f32[A=3, B=5]\n%b = pow %x "
                              "{exponent=3.0} : f32[A=3, B=5]\n"
                              "%c = pow %x {exponent=0.5} : f32[A=3, B=5]\n%d = pow %x "
                              "{exponent=1.0} : f32[A=3, B=5]\n%e = add %a, %b : "
                              "f32[A=3, B=5]\n"
                              "%f = add %e, %c : f32[A=3, B=5]\n%g = add %f, %d : f32[A=3, "
                              "B=5]\nreturn %a, %b, %c, %d, %g\n",
     {{0.5, 3}}},
    {IN("x", "bool[A=3, B=5]")
         IN("y", "bool[B=5]") "%a = and %x, %y : bool[A=3, B=5]\n%b = or %x, %y : bool[A=3, B=5]\n"
                              "%c = not %x : bool[A=3, B=5]\n%d = and %a, %c : bool[A=3, B=5]\n%e "
                              "= or %d, %b : "
                              "bool[A=3, B=5]\nreturn %a, %b, %c, %e\n",
     {{0, 1}, {0, 1}}},
    {IN("x", "f32[A=3, B=5]") "%y = mask[A, B] %x {value=7.0} : f32[A=3, B=5]\n%z = neg %y : "
                              "f32[A=3, B=5]\nreturn %z\n",
     {{-2, 2}}},
    {IN("x", "f32[A=3, B=5]") "%y = dropout %x {p=0.5, seed=\"d\"} : f32[A=3, B=5]\n%z = neg %y : "
                              "f32[A=3, B=5]\nreturn %y, %z\n",
     {{1, 2}}},
    {IN("x", "f32[A=3, B=5]") IN(
         "w", "f32[B=5, C=7]") "%y = dot[B] %x, %w : f32[A=3, C=7]\n%z = relu %y : f32[A=3, C=7]\n"
                               "%s = sum[C] %z : f32[A=3]\nreturn %y, %s\n",
     {{-2, 2}, {-2, 2}}},
    /* what stands before an activation is read again, and derivatives are applied to products:
       steps of these, where something has them */
    {IN("x", "f32[A=3, B=5]") IN("w", "f32[B=5, C=16]") IN("b", "f32[C=16]")
         IN("v", "f32[B=5, C=16]") "%y = dot[B] %x, %w : f32[A=3, C=16]\n%z = add %y, %b : "
                                   "f32[A=3, C=16]\n%g = gelu_tanh %z : f32[A=3, C=16]\n"
                                   "%h = dot[B] %x, %v : f32[A=3, C=16]\n%i = gelu_tanh_grad %h, "
                                   "%z : f32[A=3, C=16]\n%n = neg %z : f32[A=3, "
                                   "C=16]\n"
                                   "return %g, %i, %n\n",
     {{-2, 2}, {-1, 1}, {-2, 2}, {-2, 2}}},
    {IN("x", "bf16[A=3, B=5]") IN("w", "bf16[B=5, C=8]")
         IN("v", "bf16[B=5, C=8]") "%y = dot[B] %x, %w : bf16[A=3, C=8]\n%g = gelu_tanh %y : "
                                   "bf16[A=3, C=8]\n"
                                   "%h = dot[B] %x, %v : bf16[A=3, C=8]\n%i = gelu_tanh_grad %h, "
                                   "%y : bf16[A=3, C=8]\nreturn %g, %i, %y\n",
     {{-2, 2}, {-1, 1}, {-2, 2}}},
    {IN("x", "f32[A=3, B=5]") IN("w", "f32[B=5, C=7]")
         IN("v", "f32[B=5, C=7]") "%y = dot[B] %x, %w : f32[A=3, C=7]\n%r = relu %y : f32[A=3, "
                                  "C=7]\n%s = silu %y : f32[A=3, C=7]\n"
                                  "%g = dot[B] %x, %v : f32[A=3, C=7]\n%h = relu_grad %g, %y : "
                                  "f32[A=3, C=7]\n"
                                  "%i = dot[B] %x, %v : f32[A=3, C=7]\n%j = silu_grad %i, %y : "
                                  "f32[A=3, C=7]\n"
                                  "%k = dot[B] %x, %v : f32[A=3, C=7]\n%l = gelu_grad %k, %y : "
                                  "f32[A=3, C=7]\nreturn %r, %s, %h, %j, %l, %y\n",
     {{-2, 2}, {-1, 1}, {-2, 2}}},
    {IN("x", "f32[A=3, B=5]") "%e = exp %x : f32[A=3, B=5]\n%s = sum[B] %e : f32[A=3]\n%m = max[B] "
                              "%e : f32[A=3]\n"
                              "%n = min[B] %e : f32[A=3]\n%d = sub %e, %m : f32[A=3, B=5]\n%l = "
                              "log %s : f32[A=3]\n%t = sum[A] %x : f32[B=5]\n"
                              "%u = sum[A, B] %x : f32[]\nreturn %s, %m, %n, %d, %l, %t, %u\n",
     {{-2, 2}}},
    {IN("x", "i32[A=3, B=5]") "%s = sum[B] %x : i32[A=3]\n%m = max[A] %x : i32[B=5]\n%n = min[A, "
                              "B] %x : i32[]\nreturn %s, %m, %n\n",
     {{-20, 20}}},
    {IN("x", "bf16[A=3, B=5]") "%s = sum[B] %x : bf16[A=3]\n%m = max[A] %x : bf16[B=5]\n%n = mul "
                               "%x, %s : bf16[A=3, B=5]\nreturn %s, %m, %n\n",
     {{-2, 2}}},
    {IN("x", "f32[A=3, B=5]") "%a = argmax[B] %x : i32[A=3]\n%b = softmax[B] %x : f32[A=3, "
                              "B=5]\n%c = log_softmax[A] %x : f32[A=3, B=5]\n"
                              "%d = logsumexp[B] %x : f32[A=3]\nreturn %a, %b, %c, %d\n",
     {{-2, 2}}},
    {IN("x", "f32[A=3, V=5]")
         IN("t", "i32[A=3]") "%a = xent[V] %x, %t {ignore=-100, smoothing=0.0} : f32[A=3]\n%b = "
                             "sum[A] %a : f32[]\nreturn %a, %b\n",
     {{-2, 2}, {0, 4}}},
    {IN("x", "f32[A=3, B=5]") "%e = neg %x : f32[A=3, B=5]\n%a = cumsum[B] %e : f32[A=3, B=5]\n%b "
                              "= cumsum[A] %x {reverse=1} : f32[A=3, "
                              "B=5]\n"
                              "%c = exp %a : f32[A=3, B=5]\nreturn %a, %b, %c\n",
     {{-1, 1}}},
    {IN("x", "i32[A=2, S=2051]") "%a = cumsum[S] %x : i32[A=2, S=2051]\n%b = cumsum[S] %a "
                                 "{reverse=1} : i32[A=2, S=2051]\nreturn %a, %b\n",
     {{-2000000, 2000000}}},
    {IN("x", "i32[S=515, A=3]") "%a = cumsum[S] %x : i32[S=515, A=3]\n%b = cumsum[A] %x : "
                                "i32[S=515, A=3]\nreturn %a, %b\n",
     {{-20, 20}}},
    {IN("w", "f32[V=7, D=3]")
         IN("t", "i32[A=3, B=5]") "%g = gather[V] %w, %t : f32[A=3, B=5, D=3]\n%n = neg %g : "
                                  "f32[A=3, B=5, D=3]\n"
                                  "%s = sum[D] %g : f32[A=3, B=5]\nreturn %g, %n, %s\n",
     {{-2, 2}, {0, 6}}},
    {IN("x", "f32[A=3, D=3]")
         IN("t", "i32[A=3]") "%e = exp %x : f32[A=3, D=3]\n%g = scatter_add[V] %e, %t : f32[V=7, "
                             "D=3]\n%n = neg %g : "
                             "f32[V=7, D=3]\nreturn %g, %n\n",
     {{-2, 2}, {0, 6}}},
    ROUTED("f32", "[A=3, D=5]", "[V=7, D=5, E=6]", "[A=3, B=5]", "[A=3, B=5, E=6]", "D", "A, B"),
    ROUTED("f64", "[D=5, A=3]", "[E=6, V=7, D=5]", "[B=5]", "[A=3, B=5, E=6]", "D", "A, B"),
    ROUTED("bf16", "[A=3, B=5, D=5]", "[D=5, V=7, E=6]", "[A=3, B=5]", "[A=3, B=5, E=6]", "D",
           "A, B"),
    ROUTED("f16", "[A=3, D=5, C=2]", "[V=7, E=6, D=5, C=2]", "[B=5, A=3]", "[A=3, B=5, E=6]",
           "D, C", "B, A"),
    ROUTED("f32", "[A=3, C=2, D=5]", "[V=7, C=2, D=5, E=6]", "[A=3]", "[A=3, C=2, E=6]", "D", "A"),
    PARTED("f32", "[A=3, D=5]", "[V=6, D=5, E=6]", "[A=3, B=5]", "[C=3, A=3, B=5, E=6]", "D",
           "A, B"),
    PARTED("f64", "[C=3, A=3, D=5]", "[V=6, D=5, E=6]", "[A=3]", "[C=3, A=3, E=6]", "D", "A"),
    PARTED("bf16", "[C=1, A=3, B=5, D=5]", "[V=6, D=5, E=6]", "[A=3, B=5]", "[C=1, A=3, B=5, E=6]",
           "D", "A, B"),
    ROUTED("i32", "[A=3, D=5]", "[V=7, D=5, E=6]", "[A=3, B=5]", "[A=3, B=5, E=6]", "D", "A, B"),
    {IN("t", "i32[A=3]") "%g = onehot[V] %t : f32[A=3, V=7]\n%n = neg %g : f32[A=3, V=7]\nreturn "
                         "%g, %n\n",
     {{0, 6}}},
    {IN("x", "f32[A=3, B=5]") "%e = neg %x : f32[A=3, B=5]\n%v, %i = topk[B -> K] %e : f32[A=3, "
                              "K=2], i32[A=3, K=2]\n%n = exp %v : "
                              "f32[A=3, K=2]\nreturn %v, %i, %n\n",
     {{-2, 2}}},
    {IN("x", "f32[S=5, E=6]") "%y = rope[S, E] %x {theta=100.0} : f32[S=5, E=6]\n%z = rope[S, E] "
                              "%y {theta=100.0, pairs=interleaved} : "
                              "f32[S=5, E=6]\nreturn %y, %z\n",
     {{-2, 2}}},
    {IN("x", "f32[S=5, E=6]") "%y = rope[S, E] %x {theta=100.0, scaling=yarn, scaling_args=[4.0, "
                              "5.0, 2.0, 0.1, 1.5, 0.0]} : f32[S=5, E=6]\n%z = rope[S, E] "
                              "%y {theta=100.0, pairs=interleaved, scaling=longrope, "
                              "scaling_args=[1.0, 1.5, 2.0, 3.0, 3.5, 4.0, 4.0, 1.25]} : "
                              "f32[S=5, E=6]\nreturn %y, %z\n",
     {{-2, 2}}},
    {IN("x", "f32[B=3, S=2, E=4]") IN("p", "i32[B=3]")
         IN("n", "i32[B=3]") "%y = rope[S, E] %x, %p, %n {theta=100.0, scaling=longrope, "
                             "scaling_args=[1.0, 1.5, 3.0, "
                             "3.5, 4.0, 1.25], with=[pos, len]} : f32[B=3, S=2, E=4]\nreturn %y\n",
     {{-2, 2}, {0, 5}, {0, 2}}},
    {IN("q", "f32[B=3, S=5, H=(K=1, G=2), E=4]") IN("k", "f32[B=3, T=5, K=1, E=4]")
         IN("s", "f32[H=(K=1, G=2)]") "%o, %l = attend[T, E -> S] %q, %k, %k, %s {mask=causal, "
                                      "scale=0.5, lse=1, with=[sinks]} : f32[B=3, S=5, H=(K=1, "
                                      "G=2), E=4], f32[B=3, S=5, H=(K=1, G=2)]\nreturn %o, %l\n",
     {{-2, 2}}},
    {IN("q", "f32[B=3, S=5, H=(K=1, G=2), E=4]") IN("k", "f32[B=3, T=5, K=1, E=4]")
         IN("v", "f32[B=3, T=5, K=1, E=4]") "%o = attend[T, E -> S] %q, %k, %v {mask=causal, "
                                            "scale=0.5} : f32[B=3, S=5, H=(K=1, G=2), "
                                            "E=4]\n%n = neg %o : f32[B=3, S=5, H=(K=1, G=2), "
                                            "E=4]\nreturn %n\n",
     {{-2, 2}, {-2, 2}, {-2, 2}}},
    {IN("c", "f32[B=3, T=7]") IN("x", "f32[B=3, S=2]")
         IN("p", "i32[B=3]") "%y = append[S -> T] %c, %x, %p {with=[pos]} : f32[B=3, T=7]\n%n = "
                             "neg %y : f32[B=3, T=7]\nreturn %y, %n\n",
     {{-2, 2}, {-2, 2}, {0, 5}}},
    {IN("x", "f32[B=3, S=5]")
         IN("l", "i32[B=3]") "%y = last[S] %x, %l {with=[len]} : f32[B=3]\n%z = last[S] %x : "
                             "f32[B=3]\n%n = add %y, %z : f32[B=3]\nreturn %y, %n\n",
     {{-2, 2}, {0, 5}}},
    {IN("x", "f32[A=3, B=5]") "%y = slice[B -> C] %x {from=1} : f32[A=3, C=3]\n%z = unslice[C -> "
                              "B] %y {from=2} : f32[A=3, B=7]\n"
                              "%w = concat[B + C -> D] %x, %y : f32[A=3, D=8]\n%n = neg %w : "
                              "f32[A=3, D=8]\nreturn %y, %z, %w, %n\n",
     {{-2, 2}}},
    {IN("x", "f32[A=3, S=5]") "%y = rename[S -> C] %x : f32[A=3, C=5]\n%z = exp %y : f32[A=3, "
                              "C=5]\nreturn %y, %z\n",
     {{-2, 2}}},
};

/* ---- compiling and running ---- */
static int only = -1;           /* of a test's functions; -1: all */
static const sc_target *target; /* NULL: this CPU */
static const char *keep, *kept; /* folders of programs, or NULL */

typedef struct program {
    sc_context context;
    const char *text;
    sc_module *m, *fused;
    sc_generated generated;
    bool used[SC_OP_COUNT];
    char message[4096];
} program;

static void note_ops(program *p, const sc_module *m)
{
    sc_for_each_op_of_all(m, op) p->used[sc_op_at(m, op)->kind] = true;
}

static void compile(sc_context *context, void *user)
{
    program *p = user;
    sc_pass_env env = {0};
    p->m = sc_parse_module(context, "case", p->text, strlen(p->text));
    sc_module *fused =
        p->m == NULL ? NULL : sc_parse_module(context, "case", p->text, strlen(p->text));
    const sc_generate_options how = {.target = target, .object = &(sc_object_options){.cache = ""}};
    bool ok = fused != NULL && sc_pipeline_run(fused, &env, "fuse", NULL, NULL);
    if (ok && (kept != NULL || sc_generate(fused, &how, &p->generated)))
        p->fused = fused;
    sc_strbuf out;
    sc_strbuf_init(&out, &context->arena);
    sc_diag_render_text(&context->diag, &context->sources, &out);
    snprintf(p->message, sizeof p->message, "%s", out.data == NULL ? "" : out.data);
}

static double draw(uint64_t *seed, range r, sc_dtype dtype)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    double unit = (double)(*seed >> 11) * 0x1p-53;
    if (sc_dtype_is_float(dtype))
        return floor((r.low + unit * (r.high - r.low)) * 8) / 8;
    double value = floor(r.low + unit * (r.high - r.low + 1));
    return dtype == SC_DTYPE_u8 || dtype == SC_DTYPE_bool ? fabs(value) : value;
}

/* `size`: of what the value was made from, where that is larger than it. */
static bool agrees(sc_dtype dtype, double want, double got, double size)
{
    double slack = dtype == SC_DTYPE_bf16  ? 0x1p-5
                   : dtype == SC_DTYPE_f16 ? 0x1p-7
                   : dtype == SC_DTYPE_f32 ? 2e-5
                                           : 1e-11;
    if (isnan(want) || isnan(got))
        return isnan(want) && isnan(got);
    return want == got ||
           (sc_dtype_is_float(dtype) && fabs(want - got) <= slack * (1 + fmax(size, fabs(want))));
}

/* Results that are wrong: all of a test are said before it fails, since on a GPU one tells little.
 */
static uint32_t wrong;

static void compare(const sc_module *m, sc_value value, const function *from, uint32_t output,
                    const sc_array *want, const sc_array *got, double size)
{
    const sc_type_info *type = sc_type_of(m, value);
    for (int64_t i = 0; i < want->count; i++) {
        if (agrees(type->dtype, want->data[i], got->data[i], size))
            continue;
        fprintf(stderr, "%s of %s: result %u, element %lld: %.9g, not %.9g\n",
                sc_ops[sc_op_at(m, sc_def(m, value))->kind].name, sc_dtypes[type->dtype].name,
                output, (long long)i, got->data[i], want->data[i]);
        print_message("%s", wrong++ == 0 ? from->body : "");
        return;
    }
}

static double largest(const sc_array *arrays, uint32_t count)
{
    double most = 0;
    for (uint32_t a = 0; a < count; a++) {
        for (int64_t i = 0; i < arrays[a].count; i++)
            most = isfinite(arrays[a].data[i]) ? fmax(most, fabs(arrays[a].data[i])) : most;
    }
    return most;
}

/* Inputs that hold what no range has, too. */
static void run_function(program *p, sc_interp *interp, const shardc_executable *executable,
                         shardc_session *session, uint32_t f, const function *from, bool special)
{
    sc_array inputs[MAX_VALUES], want[MAX_VALUES] = {0}, got[MAX_VALUES];
    shardc_feed_value feeds[MAX_VALUES];
    shardc_fetch_value fetches[MAX_VALUES];
    uint32_t input_count = 0, output_count = 0;
    const sc_op *returned = sc_op_at(p->m, p->m->funcs.data[f].last);
    uint64_t seed = 77 + f;
    char text[512] = "";
    shardc_error error = {.status = SHARDC_OK};
    sc_for_each_op (p->m, f, op) {
        if (sc_op_at(p->m, op)->kind != SC_OP_input)
            continue;
        sc_value value = sc_result(p->m, op, 0);
        sc_dtype dtype = sc_type_of(p->m, value)->dtype;
        sc_array *array = &inputs[input_count];
        *array = case_array(p->m, value);
        for (int64_t i = 0; i < array->count; i++)
            array->data[i] = draw(&seed, from->inputs[input_count], dtype);
        if (special && sc_dtype_is_float(dtype)) {
            const double odd[] = {NAN, INFINITY, -INFINITY, -0.0};
            for (int64_t i = 0; i < 4 && i < array->count; i++)
                array->data[(i * 7 + (int64_t)input_count) % array->count] = odd[i];
        }
        shardc_tensor_info info;
        shardc_executable_input(executable, f, input_count, &info);
        feeds[input_count++] = (shardc_feed_value){info.name, array->data,
                                                   (size_t)array->count * sizeof(double), "f64"};
    }
    for (; output_count < returned->operand_count; output_count++) {
        got[output_count] = case_array(p->m, returned->operands[output_count]);
        fetches[output_count] =
            (shardc_fetch_value){output_count, got[output_count].data,
                                 (size_t)got[output_count].count * sizeof(double), "f64"};
    }
    if (!sc_interp_run(interp, f, inputs, input_count, want, output_count, text, sizeof text))
        fail_msg("%s\n%s", text, from->body);
    bool ran = shardc_session_run(session, f, feeds, input_count, fetches, output_count, &error) ==
               SHARDC_OK;
    if (!ran) {
        fprintf(stderr, "%s: %s\n",
                sc_ops[sc_op_at(p->m, sc_def(p->m, returned->operands[0]))->kind].name, error.text);
        print_message("%s", wrong++ == 0 ? from->body : "");
    }
    for (uint32_t i = 0; ran && i < output_count; i++) {
        double size = strstr(from->body, "%t1 = add") != NULL && i + 1 == output_count
                          ? largest(want, output_count) * output_count
                          : 0;
        compare(p->m, returned->operands[i], from, i, &want[i], &got[i], size);
    }
    for (uint32_t i = 0; i < output_count; i++) {
        sc_array_free(&want[i]);
        sc_array_free(&got[i]);
    }
    for (uint32_t i = 0; i < input_count; i++)
        sc_array_free(&inputs[i]);
}

/* In the lines of inputs and with `split` not NULL, the dim of that name is split over two ranks.
 */
static const char *module_text(sc_arena *arena, const function *functions, uint32_t count,
                               const char *split)
{
    sc_strbuf out;
    sc_strbuf_init(&out, arena);
    sc_strbuf_printf(&out, "shardc.ir 1\nstates shapes\n%s", split == NULL ? "" : "mesh x = 2\n");
    for (const char *name = "ABCDEGKSV"; *name != 0; name++)
        sc_strbuf_printf(&out, "dim %c%s\n", *name,
                         split != NULL && *name == split[0] ? " pad 2" : "");
    sc_strbuf_add(&out, "dim T = alias S\ndim H = (K, G)\n");
    for (uint32_t f = 0; f < count; f++) {
        sc_strbuf_printf(&out, "func @f%u {\n", f);
        for (const char *line = functions[f].body, *end; *line != 0; line = end) {
            end = strchr(line, '\n') + 1;
            const char *at =
                split == NULL || strstr(line, "input") == NULL || strstr(line, "input") > end
                    ? NULL
                    : strchr(line, '[');
            for (; at != NULL && at < end &&
                   !(strchr("[ (", at[-1]) != NULL && at[0] == split[0] && at[1] == '=');
                 at++) {
            }
            size_t head = at != NULL && at < end
                              ? (size_t)(at - line) + 2 + strspn(at + 2, "0123456789")
                              : (size_t)(end - line);
            bool whole = at != NULL && at < end && at[2] == '(';
            sc_strbuf_add_bytes(&out, line, whole ? (size_t)(end - line) : head);
            if (!whole && head < (size_t)(end - line)) {
                sc_strbuf_add(&out, "@x");
                sc_strbuf_add_bytes(&out, line + head, (size_t)(end - line) - head);
            }
        }
        sc_strbuf_add(&out, "}\n");
    }
    return out.data;
}

/* Compiled and loaded. */
typedef struct opened {
    sc_arena arena;
    program *p;
    shardc_executable *executable;
    shardc_session *session; /* NULL: kept for another machine */
} opened;

/* A program's file is named by what it was compiled from, so that no other one is run in its place.
 */
static void read_or_write(opened *o, sc_strbuf *bytes)
{
    const char *text = o->p->text, *folder = kept != NULL ? kept : keep;
    const char *path = sc_arena_printf(&o->arena, "%s/%016llx.program", folder,
                                       (unsigned long long)sc_fnv1a64(text, strlen(text)));
    FILE *file = fopen(path, kept != NULL ? "rb" : "wb");
    if (file == NULL)
        fail_msg("%s: %s", path, strerror(errno));
    char part[4096];
    for (size_t n; kept != NULL && (n = fread(part, 1, sizeof part, file)) > 0;)
        sc_strbuf_add_bytes(bytes, part, n);
    bool ok = kept != NULL || fwrite(bytes->data, 1, bytes->length, file) == bytes->length;
    if (ferror(file) || fclose(file) != 0 || !ok)
        fail_msg("%s: %s", path, strerror(errno));
}

static opened open_functions(const function *functions, uint32_t count, const char *split)
{
    opened o = {.p = calloc(1, sizeof *o.p)};
    assert_non_null(o.p);
    o.p->text = module_text(&o.arena, functions, count, split);
    assert_true(sc_context_run(&o.p->context, 0, compile, o.p));
    if (o.p->fused == NULL)
        fail_msg("%s", o.p->message);
    sc_strbuf bytes;
    sc_strbuf_init(&bytes, &o.arena);
    if (kept == NULL)
        sc_image_write(o.p->generated.image, &bytes);
    if (keep != NULL || kept != NULL)
        read_or_write(&o, &bytes);
    if (keep != NULL)
        return o;
    shardc_error error = {.status = SHARDC_OK};
    if (shardc_executable_read(bytes.data, bytes.length, &o.executable, &error) != SHARDC_OK ||
        shardc_session_new(o.executable, NULL, &o.session, &error) != SHARDC_OK)
        fail_msg("%s", error.text);
    return o;
}

static void close_functions(opened *o)
{
    shardc_session_free(o->session);
    shardc_executable_free(o->executable);
    sc_context_free(&o->p->context);
    sc_arena_free(&o->arena);
    free(o->p);
}

static void run_functions(const function *functions, uint32_t count, const char *split,
                          bool special, bool *used)
{
    if (only >= (int)count)
        return;
    functions += only >= 0 ? only : 0;
    count = only >= 0 ? 1 : count;
    opened o = open_functions(functions, count, split);
    note_ops(o.p, o.p->m);
    note_ops(o.p, o.p->fused);
    sc_interp *interp = sc_interp_new(o.p->m, &(sc_interp_options){.round = true});
    assert_non_null(interp);
    for (uint32_t f = 0; f < count && o.session != NULL; f++)
        run_function(o.p, interp, o.executable, o.session, f, &functions[f], special);
    for (int kind = 0; kind < SC_OP_COUNT; kind++)
        used[kind] = used[kind] || o.p->used[kind];
    sc_interp_free(interp);
    close_functions(&o);
    uint32_t count_wrong = wrong;
    wrong = 0;
    if (count_wrong > 0)
        fail_msg("%u results are wrong", count_wrong);
}

/* The least check, its place and the value. */
static void ids_out_of_range_are_named(void **state)
{
    (void)state;
    static const function gather = {
        IN("w", "f32[V=7, D=3]")
            IN("t", "i32[A=3, B=5]") "%g = gather[V] %w, %t : f32[A=3, B=5, D=3]\nreturn %g\n",
        {{0, 0}}};
    /* what the model computes itself is checked by the kernel, an input before anything runs */
    static const function computed = {
        IN("w", "f32[V=7, D=3]")
            IN("t", "i32[A=3, B=5]") "%a = neg %t : i32[A=3, B=5]\n%b = neg %a : i32[A=3, B=5]\n"
                                     "%g = gather[V] %w, %b : f32[A=3, B=5, D=3]\nreturn %g\n",
        {{0, 0}}};
    static const struct {
        double ids[2];
        const char *texts[2];
    } rows[] = {
        {{7, 6},
         {"input 't' is 7 at [A = 0, B = 4], which is not a valid id: at least 0 and less than 7; "
          "nothing was run",
          "gather in f0: id 7 is outside 0 <= id < V = 7 (rank 0)"}},
        {{-1, 3},
         {"input 't' is -1 at [A = 0, B = 4], which is not a valid id: at least 0 and less than 7; "
          "nothing was run",
          "gather in f0: id -1 is outside 0 <= id < V = 7 (rank 0)"}},
        {{6, 65},
         {"input 't' is 65 at [A = 2, B = 2], which is not a valid id: at least 0 and less than 7; "
          "nothing was run",
          "gather in f0: id 65 is outside 0 <= id < V = 7 (rank 0)"}},
        {{900, 65},
         {"input 't' is 900 at [A = 0, B = 4], which is not a valid id: at least 0 and less than "
          "7; "
          "nothing was run",
          "gather in f0: id 65 is outside 0 <= id < V = 7 (rank 0)"}},
        {{0, 6}, {"", ""}}};
    for (int is_computed = 0; is_computed < 2; is_computed++) {
        if (only >= 0 && only != is_computed)
            continue;
        opened o = open_functions(is_computed ? &computed : &gather, 1, NULL);
        for (size_t i = 0; i < sizeof rows / sizeof *rows && o.session != NULL; i++) {
            double w[21] = {0}, ids[15] = {0}, g[45];
            ids[4] = rows[i].ids[0];
            ids[12] = rows[i].ids[1];
            shardc_error error = {.status = SHARDC_OK};
            shardc_session_run(
                o.session, 0,
                (shardc_feed_value[]){{"w", w, sizeof w, "f64"}, {"t", ids, sizeof ids, "f64"}}, 2,
                (shardc_fetch_value[]){{0, g, sizeof g, "f64"}}, 1, &error);
            assert_string_equal(error.status == SHARDC_OK ? "" : error.text,
                                rows[i].texts[is_computed]);
        }
        close_functions(&o);
    }
}

static bool used[SC_OP_COUNT];

/* The functions of one number. */
static size_t list_unary(const char *names[SC_OP_COUNT])
{
    size_t count = 0;
    for (int kind = 0; kind < SC_OP_COUNT; kind++) {
        if (sc_ops[kind].language == SC_LANGUAGE_number)
            names[count++] = sc_ops[kind].name;
    }
    return count;
}

enum { ELEMENTWISE = 13 };

static void elementwise_functions(sc_arena *arena, function functions[ELEMENTWISE])
{
    const char *unary[SC_OP_COUNT];
    size_t unary_count = list_unary(unary);
    static const char *const dtypes[] = {"f32", "f64", "bf16", "f16", "i32", "i64", "u8"};
    uint32_t count = 0;
    for (int i = 0; i < 7; i++) {
        const char *body = i < 4 ? unary_body(arena, dtypes[i], unary, unary_count)
                                 : unary_body(arena, dtypes[i], integer_unary,
                                              sizeof integer_unary / sizeof *integer_unary);
        if (i < 6)
            functions[count++] = (function){body, {{i < 4 ? 0.125 : -9, i < 4 ? 3 : 9}}};
        /* products are, in bf16, too: a remainder jumps */
        range exact = i == 2 || i == 3 ? (range){-1, 1} : (range){-4, 4};
        functions[count++] = (function){binary_body(arena, dtypes[i]), {exact, exact, exact}};
    }
}

static void elementwise_ops_in_every_dtype(void **state)
{
    (void)state;
    function functions[ELEMENTWISE];
    sc_arena arena = {0};
    elementwise_functions(&arena, functions);
    run_functions(functions, ELEMENTWISE, NULL, false, used);
    run_functions(functions, 4, NULL, true, used);
    sc_arena_free(&arena);
}

static void every_other_op(void **state)
{
    (void)state;
    run_functions(single, sizeof single / sizeof *single, NULL, false, used);
}

/* Blocks of rows, parts of the contracted dim, chunks of columns, and what is left of each; ids of
 * one expert only. On GPUs tiles are small enough for the functions above. */
static void routed_products_in_blocks(void **state)
{
    (void)state;
    static const function large[] = {
        ROUTED("f32", "[A=1000, D=130]", "[V=7, D=130, E=400]", "[A=1000]", "[A=1000, E=400]", "D",
               "A"),
        ROUTED("f32", "[A=500, D=130]", "[V=7, E=400, D=130]", "[A=500, B=2]",
               "[A=500, B=2, E=400]", "D", "A, B"),
        ROUTED("f64", "[D=130, A=1000]", "[V=7, E=100, D=130]", "[A=1000]", "[A=1000, E=100]", "D",
               "A"),
        ROUTED("bf16", "[A=1000, D=130]", "[V=7, E=100, D=130]", "[A=1000]", "[A=1000, E=100]", "D",
               "A"),
        /* where bf16 is multiplied in tiles: several parts of the contracted dim and of rows, the
         * last pair of which is half */
        ROUTED("bf16", "[A=300, D=601]", "[V=7, D=601, E=100]", "[A=300]", "[A=300, E=100]", "D",
               "A"),
        ROUTED("bf16", "[A=300, D=601]", "[V=7, E=36, D=601]", "[A=300]", "[A=300, E=36]", "D",
               "A"),
        ROUTED("bf16", "[A=40, D=130]", "[V=7, E=1, D=130]", "[A=40]", "[A=40, E=1]", "D", "A"),
        /* weights that are tiles as they are */
        ROUTED("bf16", "[A=300, D=1056]", "[V=7, E=96, D=1056]", "[A=300]", "[A=300, E=96]", "D",
               "A"),
        ROUTED("bf16", "[A=4999, D=13]", "[V=7, D=13, E=56]", "[A=4999]", "[A=4999, E=56]", "D",
               "A"),
        ROUTED("f16", "[A=1000, D=130]", "[D=130, V=7, E=100]", "[A=1000]", "[A=1000, E=100]", "D",
               "A"),
        ROUTED("f32", "[A=1000, D=13]", "[V=200, D=13, E=56]", "[A=1000]", "[A=1000, E=56]", "D",
               "A"),
    };
    if (target != NULL)
        skip();
    run_functions(large, sizeof large / sizeof *large, NULL, false, used);
}

/* Each dim of the inputs over two ranks: what its sharded form and the collectives are compiled to.
 */
static void split_ops(void **state)
{
    (void)state;
    static const char *const dims[] = {"A", "B", "S", "V"};
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++)
        run_functions(single, sizeof single / sizeof *single, dims[i], false, used);
}

/* Ops that a program of inputs and results has not: state, and what only plans and training make.
 * Tests of training and of plans run them; programs with stages run in the interpreter.
 */
static const sc_op_kind elsewhere[] = {SC_OP_param,
                                       SC_OP_cache_read,
                                       SC_OP_cache_write,
                                       SC_OP_state_read,
                                       SC_OP_state_write,
                                       SC_OP_attend_grad,
                                       SC_OP_reshard,
                                       SC_OP_unfold,
                                       SC_OP_reduce_scatter,
                                       SC_OP_all_to_all,
                                       SC_OP_collective_permute,
                                       SC_OP_rotate,
                                       SC_OP_piece,
                                       SC_OP_take_piece,
                                       SC_OP_join_pieces,
                                       SC_OP_add_pieces,
                                       SC_OP_row_slots,
                                       SC_OP_pack_rows,
                                       SC_OP_unpack_rows,
                                       SC_OP_exchange_rows,
                                       SC_OP_to_device,
                                       SC_OP_to_host,
                                       SC_OP_to_partial,
                                       SC_OP_all_slice,
                                       SC_OP_send,
                                       SC_OP_recv};

static void no_op_is_left_out(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
        used[elsewhere[i]] = true;
    for (int kind = 0; kind < SC_OP_COUNT; kind++) {
        if (!used[kind])
            fail_msg("no case here has '%s'", sc_ops[kind].name);
    }
}

/* ---- rows ---- */

static const struct CMUnitTest elementwise_tests[] = {cmocka_unit_test(
    elementwise_ops_in_every_dtype)},
                               op_tests[] = {cmocka_unit_test(every_other_op),
                                             cmocka_unit_test(split_ops)},
                               ids_tests[] = {cmocka_unit_test(ids_out_of_range_are_named)};

/* The dtype of a function's first value, and its ops. */
static void print_title(const char *body)
{
    const char *type = strstr(body, " : ");
    int count = 0;
    printf("%.*s", (int)strcspn(type + 3, "["), type + 3);
    for (const char *line = body; *line != 0; line = strchr(line, '\n') + 1) {
        const char *op = strstr(line, " = ");
        if (op == NULL || op > strchr(line, '\n') || strncmp(op + 3, "input", 5) == 0)
            continue;
        if (count++ < 4)
            printf(" %.*s", (int)strcspn(op + 3, " [{"), op + 3);
    }
    puts(count > 4 ? " .." : "");
}

static void list_rows(void)
{
    function functions[ELEMENTWISE];
    sc_arena arena = {0};
    elementwise_functions(&arena, functions);
    for (int f = 0; f < ELEMENTWISE; f++) {
        printf("elementwise:%d\t", f);
        print_title(functions[f].body);
    }
    for (size_t f = 0; f < sizeof single / sizeof *single; f++) {
        printf("op:%zu\t", f);
        print_title(single[f].body);
    }
    puts("ids:0\tof an input\nids:1\tthat are computed");
    sc_arena_free(&arena);
}

static int row_of(const char *name, const char *kind, int count)
{
    size_t length = strlen(kind);
    if (strncmp(name, kind, length) != 0 || name[length] != ':')
        return -1;
    char *end;
    long row = strtol(name + length + 1, &end, 10);
    return end != name + length + 1 && *end == 0 && row >= 0 && row < count ? (int)row : -1;
}

/* Runs the row of that name; -1: there is none. */
static int run_row(const char *name)
{
    only = row_of(name, "elementwise", ELEMENTWISE);
    if (only != -1)
        return cmocka_run_group_tests_name(name, elementwise_tests, NULL, NULL);
    only = row_of(name, "op", sizeof single / sizeof *single);
    if (only != -1)
        return cmocka_run_group_tests_name(name, op_tests, NULL, NULL);
    only = row_of(name, "ids", 2);
    return only != -1 ? cmocka_run_group_tests_name(name, ids_tests, NULL, NULL) : -1;
}

int main(int argc, char **argv)
{
    const char *name = getenv("SHARDC_TEST_TARGET");
    keep = getenv("SHARDC_TEST_KEEP");
    kept = getenv("SHARDC_TEST_KEPT");
    setenv("SHARDC_CFLAGS", "-O1", 0); /* compiling takes most of the time */
    if (name != NULL && (target = sc_target_find(name)) == NULL)
        return 1;
    if (argc > 1 && strcmp(argv[1], "--list") == 0) {
        list_rows();
        return 0;
    }
    if (argc > 1 && strchr(argv[1], ':') != NULL) {
        int failed = run_row(argv[1]);
        if (failed == -1)
            fprintf(stderr, "there is no row %s\n", argv[1]);
        return failed == -1 ? 2 : failed;
    }
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elementwise_ops_in_every_dtype), cmocka_unit_test(every_other_op),
        cmocka_unit_test(routed_products_in_blocks),      cmocka_unit_test(split_ops),
        cmocka_unit_test(ids_out_of_range_are_named),     cmocka_unit_test(no_op_is_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
