/* Every derivative of the op table against differences: of sum(w op(..)) with random weights w, by
 * each element of each float operand. What is linear is also compared with its transpose: <op(x),
 * w> = <x, gradient>. Ops without a derivative are listed here, each with the reason; an op that is
 * in neither list fails. */
#include "test/unit/helpers/train_case.h"

#include "ir/ops/build.h"

/* ---- the cases ---- */

/* Of a function that is linear in all its float inputs together, or in each of them alone, the
 * objective is <inputs, gradients>. */
typedef enum linear_in { NEITHER, TOGETHER, EACH } linear_in;

/* Float inputs become parameters; what is returned and is of a float dtype is weighted and summed.
 */
typedef struct derive_case {
    linear_in linearity;
    const char *body;
    double low, high; /* of floats; both 0: -1 and 1 */
    int64_t limit;    /* of integers; 0: 3 */
} derive_case;

#define X         "%x = input : f64[A=2, B=3]\n"
#define UNARY(op) X "%z = " op " %x : f64[A=2, B=3]\n return %z\n"
#define PAIR(op, x, y, z)                                                                          \
    "%x = input : f64[" x "]\n %y = input : f64[" y "]\n %z = " op " %x, %y : f64[" z              \
    "]\n return %z\n"
/* Equal dims, dims that one side lacks, in another order, and each side lacking some; the last with
 * a composite. */
#define ELEMENTWISE(linearity, op, low, high)                                                      \
    {linearity, PAIR(op, "A=2, B=3", "A=2, B=3", "A=2, B=3"), low, high, 0},                       \
        {linearity, PAIR(op, "A=2, B=3", "B=3", "A=2, B=3"), low, high, 0},                        \
        {linearity, PAIR(op, "B=3", "A=2, B=3", "B=3, A=2"), low, high, 0},                        \
        {linearity, PAIR(op, "A=2, B=3", "C=2, A=2", "A=2, B=3, C=2"), low, high, 0},              \
        {linearity, PAIR(op, "", "A=2", "A=2"), low, high, 0},                                     \
    {                                                                                              \
        linearity, PAIR(op, "A=2, H=(K=2, G=2)", "H=(K=2, G=2), B=2", "A=2, H=(K=2, G=2), B=2"),   \
            low, high, 0                                                                           \
    }
#define POWER(exponent, low, high)                                                                 \
    {                                                                                              \
        NEITHER, X "%z = pow %x {exponent = " exponent "} : f64[A=2, B=3]\n return %z\n", low,     \
            high, 0                                                                                \
    }
#define DOT(dims, x, y, z)                                                                         \
    {                                                                                              \
        EACH, PAIR("dot[" dims "]", x, y, z), 0, 0, 0                                              \
    }
#define REDUCE(linearity, op, dims, x, z)                                                          \
    {                                                                                              \
        linearity,                                                                                 \
            "%x = input : f64[" x "]\n %z = " op "[" dims "] %x : f64[" z "]\n return %z\n", 0, 0, \
            0                                                                                      \
    }
#define CHOSEN(condition, x, y, z)                                                                 \
    {                                                                                              \
        TOGETHER,                                                                                  \
            "%c = input : bool[" condition "]\n %x = input : f64[" x "]\n %y = input : f64[" y     \
            "]\n %z = where %c, %x, %y : f64[" z "]\n return %z\n",                                \
            0, 0, 0                                                                                \
    }
#define VIEW(op, x, z)                                                                             \
    {                                                                                              \
        TOGETHER, "%x = input : f64[" x "]\n %z = " op " %x : f64[" z "]\n return %z\n", 0, 0, 0   \
    }
#define XENT(logits, targets, type, losses, attributes, limit)                                     \
    {                                                                                              \
        NEITHER,                                                                                   \
            "%x = input : f64[" logits "]\n %t = input : " type "[" targets                        \
            "]\n %z = xent[V] %x, %t" attributes " : f64[" losses "]\n return %z\n",               \
            -2, 2, limit                                                                           \
    }
#define GATHER(table, ids, z)                                                                      \
    {                                                                                              \
        TOGETHER,                                                                                  \
            "%x = input : f64[" table "]\n %i = input : i32[" ids                                  \
            "]\n %z = gather[V] %x, %i : f64[" z "]\n return %z\n",                                \
            0, 0, 4                                                                                \
    }
#define ROUTED(dims, x, w, ids, z)                                                                 \
    {                                                                                              \
        NEITHER,                                                                                   \
            "%x = input : f64[" x "]\n %w = input : f64[" w "]\n %i = input : i32[" ids            \
            "]\n %z = routed_dot[" dims " -> V] %x, %w, %i : f64[" z "]\n return %z\n",            \
            0, 0, 4                                                                                \
    }
#define ROPE(more, operands, attributes)                                                           \
    {                                                                                              \
        TOGETHER,                                                                                  \
            "%x = input : f64[B=2, S=3, E=4]\n" more "%z = rope[S, E] %x" operands                 \
            " {theta = 10.0" attributes "} : f64[B=2, S=3, E=4]\n return %z\n",                    \
            0, 0, 4                                                                                \
    }
#define SLICE(from, d, e)                                                                          \
    {                                                                                              \
        TOGETHER,                                                                                  \
            "%x = input : f64[A=2, D=" d ", C=3]\n %z = slice[D -> E] %x" from " : f64[A=2, E=" e  \
            ", C=3]\n return %z\n",                                                                \
            0, 0, 0                                                                                \
    }
#define CONCAT(x, y, z)                                                                            \
    {                                                                                              \
        TOGETHER, PAIR("concat[A + R -> E]", x, y, z), 0, 0, 0                                     \
    }
#define HEADS "B=2, S=3, H=(K=2, G=2), E=2"
#define KEYS  "B=2, T=3, K=2, E=2"
#define ATTEND_TO(q, k, v, z, more, operands, attributes)                                          \
    {                                                                                              \
        NEITHER,                                                                                   \
            "%q = input : f64[" q "]\n %k = input : f64[" k "]\n %v = input : f64[" v "]\n" more   \
            "%z = attend[T, E -> S] %q, %k, %v" operands " {scale = 0.7" attributes "} : f64[" z   \
            "]\n return %z\n",                                                                     \
            0, 0, 2                                                                                \
    }
#define ATTEND(more, operands, attributes)                                                         \
    ATTEND_TO(HEADS, KEYS, KEYS, HEADS, more, operands, attributes)

static const derive_case cases[] = {
    /* views and casts */
    VIEW("use", "A=2, B=3", "A=2, B=3"),
    VIEW("regroup", "A=2, K=2, G=3", "A=2, H=(K=2, G=3)"),
    VIEW("regroup", "A=2, H=(K=2, G=3)", "A=2, K=2, G=3"),
    VIEW("transpose", "A=2, B=3, C=2", "C=2, A=2, B=3"),
    VIEW("transpose", "A=2, H=(K=2, G=2)", "H=(K=2, G=2), A=2"),
    VIEW("broadcast", "B=3", "A=2, B=3, C=2"),
    VIEW("broadcast", "", "A=2, B=3"),
    VIEW("broadcast", "B=2", "H=(K=2, G=2), B=2"),
    VIEW("rename[A -> D]", "A=2, B=3", "D=2, B=3"),
    VIEW("rename[H -> D]", "A=2, H=(K=2, G=3)", "A=2, D=6"),
    VIEW("rename[H -> D]", "H=(K=3, G=1), B=2", "D=3, B=2"),
    VIEW("rename[H -> E, R]", "H=(K=2, G=3)", "E=2, R=3"),
    VIEW("rename[A, B -> H]", "A=2, B=3", "H=(K=2, G=3)"),
    VIEW("rename[J -> D]", "A=2, J=(N=2, Q=3, R=2)", "A=2, D=12"),
    VIEW("rename[G -> D]", "A=2, H=(K=2, G=3)", "A=2, K=2, D=3"),
    VIEW("unfold[D -> E, R]", "A=2, D=6", "A=2, E=2, R=3"),
    {TOGETHER, "%x = input : f32[A=2, B=3]\n %z = cast %x : f64[A=2, B=3]\n return %z\n", 0, 0, 0},
    {TOGETHER,
     "%x = input : f64[A=2, B=3]\n %y = cast %x : f32[A=2, B=3]\n %z = cast %y : f64[A=2, B=3]\n "
     "return %z\n",
     0, 0, 0},
    /* elementwise */
    ELEMENTWISE(TOGETHER, "add", 0, 0),
    ELEMENTWISE(TOGETHER, "sub", 0, 0),
    ELEMENTWISE(EACH, "mul", 0, 0),
    ELEMENTWISE(NEITHER, "div", 0.5, 2),
    ELEMENTWISE(NEITHER, "div", -2, -0.5),
    ELEMENTWISE(NEITHER, "mod", 0.3, 4),
    ELEMENTWISE(NEITHER, "mod", -4, -0.3),
    ELEMENTWISE(TOGETHER, "minimum", 0, 0),
    ELEMENTWISE(TOGETHER, "maximum", 0, 0),
    {TOGETHER, UNARY("neg"), 0, 0, 0},
    {TOGETHER, UNARY("abs"), 0, 0, 0},
    {NEITHER, UNARY("exp"), -2, 2, 0},
    {NEITHER, UNARY("log"), 0.2, 3, 0},
    {NEITHER, UNARY("sqrt"), 0.2, 3, 0},
    {NEITHER, UNARY("rsqrt"), 0.2, 3, 0},
    {NEITHER, UNARY("sin"), -4, 4, 0},
    {NEITHER, UNARY("cos"), -4, 4, 0},
    {NEITHER, UNARY("tanh"), -3, 3, 0},
    {NEITHER, UNARY("sigmoid"), -4, 4, 0},
    {TOGETHER, UNARY("relu"), 0, 0, 0},
    {NEITHER, UNARY("silu"), -4, 4, 0},
    {NEITHER, UNARY("gelu"), -3, 3, 0},
    {NEITHER, UNARY("gelu_tanh"), -3, 3, 0},
    {NEITHER, UNARY("erf"), -2, 2, 0},
    POWER("1.0", -1, 1),
    POWER("2.0", -1, 1),
    POWER("3.0", -1, 1),
    POWER("0.5", 0.2, 2),
    POWER("-1.5", 0.2, 2),
    CHOSEN("A=2, B=3", "A=2, B=3", "A=2, B=3", "A=2, B=3"),
    CHOSEN("B=3", "A=2, B=3", "A=2", "B=3, A=2"),
    CHOSEN("A=2, B=3", "", "C=2", "A=2, B=3, C=2"),
    {TOGETHER, X "%z = dropout %x {p = 0.4, seed = \"h.dropout0\"} : f64[A=2, B=3]\n return %z\n",
     0, 0, 0},
    {TOGETHER, X "%z = dropout %x {p = 0.0, seed = \"h.dropout0\"} : f64[A=2, B=3]\n return %z\n",
     0, 0, 0},
    /* contractions and reductions */
    DOT("D", "A=2, D=3", "D=3, B=2", "A=2, B=2"),
    DOT("D", "A=2, D=3, B=2", "B=2, D=3, C=2", "A=2, B=2, C=2"),
    DOT("D, E", "E=2, A=2, D=3", "D=3, E=2", "A=2"),
    DOT("D", "D=3", "D=3", ""),
    DOT("D", "A=2, D=3", "A=2, D=3", "A=2"),
    DOT("D", "D=3", "D=3, B=2", "B=2"),
    DOT("H", "A=2, H=(K=2, G=2)", "H=(K=2, G=2), B=2", "A=2, B=2"),
    DOT("G", "A=2, H=(K=2, G=2)", "H=(K=2, G=2), B=2", "A=2, K=2, B=2"),
    DOT("D", "A=2, D=3", "D=3, H=(K=2, G=2)", "A=2, H=(K=2, G=2)"),
    REDUCE(TOGETHER, "sum", "A", "A=2, B=3", "B=3"),
    REDUCE(TOGETHER, "sum", "A, C", "A=2, B=3, C=2", "B=3"),
    REDUCE(TOGETHER, "sum", "A, B", "A=2, B=3", ""),
    REDUCE(TOGETHER, "sum", "G", "A=2, H=(K=2, G=3)", "A=2, K=2"),
    REDUCE(TOGETHER, "max", "B", "A=2, B=3", "A=2"),
    REDUCE(TOGETHER, "max", "A, C", "A=2, B=3, C=2", "B=3"),
    REDUCE(TOGETHER, "max", "C, A", "A=2, B=3, C=2", "B=3"),
    REDUCE(TOGETHER, "max", "H", "H=(K=2, G=3)", ""),
    REDUCE(TOGETHER, "min", "A", "A=2, B=3", "B=3"),
    REDUCE(TOGETHER, "min", "A, B, C", "A=2, B=3, C=2", ""),
    REDUCE(NEITHER, "softmax", "B", "A=2, B=3", "A=2, B=3"),
    REDUCE(NEITHER, "softmax", "A, B", "A=2, B=3, C=2", "A=2, B=3, C=2"),
    REDUCE(NEITHER, "log_softmax", "A", "A=2, B=3", "A=2, B=3"),
    REDUCE(NEITHER, "log_softmax", "H", "A=2, H=(K=2, G=2)", "A=2, H=(K=2, G=2)"),
    REDUCE(NEITHER, "logsumexp", "B", "A=2, B=3", "A=2"),
    REDUCE(NEITHER, "logsumexp", "A, B", "A=2, B=3", ""),
    XENT("B=2, V=4", "B=2", "i32", "B=2", "", 4),
    XENT("V=4, B=3", "B=3", "i64", "B=3", " {ignore = 1, smoothing = 0.2}", 3),
    XENT("B=2, V=3", "B=2, S=2", "i32", "B=2, S=2", " {ignore = 0, smoothing = 0.1}", 3),
    XENT("B=2, V=3", "", "i32", "B=2", "", 3),
    XENT("B=2, V=3", "B=2", "i32", "B=2", " {ignore = 0, smoothing = 0.1}", 1),
    XENT("B=3, V=260", "B=3", "u8", "B=3", "", 4),
    XENT("B=3, V=4", "B=3", "u8", "B=3", " {ignore = -255}", 4),
    REDUCE(TOGETHER, "max", "G", "A=2, H=(K=2, G=3)", "A=2, K=2"),
    REDUCE(NEITHER, "softmax", "G", "H=(K=2, G=3), A=2", "H=(K=2, G=3), A=2"),
    REDUCE(NEITHER, "log_softmax", "K", "A=2, H=(K=2, G=3)", "A=2, H=(K=2, G=3)"),
    REDUCE(NEITHER, "logsumexp", "K", "A=2, H=(K=2, G=3)", "A=2, G=3"),
    {TOGETHER,
     "%x = input : f64[A=2, S=3, B=2]\n %z = cumsum[S] %x : f64[A=2, S=3, B=2]\n return %z\n", 0, 0,
     0},
    {TOGETHER,
     "%x = input : f64[A=2, S=3, B=2]\n %z = cumsum[S] %x {reverse = 1} : f64[A=2, S=3, B=2]\n "
     "return %z\n",
     0, 0, 0},
    /* indexing */
    GATHER("V=4, D=2", "B=2, S=3", "B=2, S=3, D=2"),
    GATHER("D=2, V=4", "S=6", "D=2, S=6"),
    GATHER("B=2, V=4, D=2", "B=2, S=3", "B=2, S=3, D=2"),
    GATHER("D=2, V=4, B=2", "S=3, B=2", "D=2, S=3, B=2"),
    GATHER("V=4", "", ""),
    {TOGETHER,
     "%x = input : f64[B=2, H=(K=2, G=4)]\n %i = input : i32[B=2, S=3]\n %z = gather[G] %x, %i : "
     "f64[B=2, K=2, S=3]\n return %z\n",
     0, 0, 4},
    {TOGETHER,
     "%x = input : f64[A=2, X=6]\n %z, %i = topk[X -> Q] %x : f64[A=2, Q=3], i32[A=2, Q=3]\n "
     "return %z, %i\n",
     0, 0, 0},
    {TOGETHER,
     "%x = input : f64[X=5, A=2]\n %z, %i = topk[X -> Q] %x : f64[Q=2, A=2], i32[Q=2, A=2]\n "
     "return %z\n",
     0, 0, 0},
    ROPE("", "", ""),
    ROPE("", "", ", pairs = interleaved"),
    ROPE("", "", ", pairs = halves, scaling = linear, scaling_args = [4.0]"),
    ROPE("", "", ", pairs = interleaved, scaling = linear, scaling_args = [0.5]"),
    ROPE("", "", ", pairs = halves, scaling = llama3, scaling_args = [8.0, 1.0, 4.0, 8.0]"),
    ROPE("", "", ", pairs = interleaved, scaling = llama3, scaling_args = [8.0, 1.0, 4.0, 32.0]"),
    ROPE("", "", ", pairs = halves, scaling = yarn, scaling_args = [4.0, 8.0, 8.0, 1.0, 1.5, 0.0]"),
    ROPE("", "", ", pairs = halves, inverse = 1"),
    ROPE("%p = input : i32[B=2]\n", ", %p", ", pairs = halves, with = [pos]"),
    {TOGETHER, "%x = input : f64[B=2, S=3, D=2]\n %z = last[S] %x : f64[B=2, D=2]\n return %z\n", 0,
     0, 0},
    {TOGETHER,
     "%x = input : f64[B=4, S=3, D=2]\n %n = input : i32[B=4]\n %z = last[S] %x, %n {with = [len]} "
     ": f64[B=4, D=2]\n return %z\n",
     0, 0, 4},
    SLICE("", "5", "2"),
    SLICE(" {from = 2}", "5", "2"),
    ROUTED("D", "B=3, D=2", "V=4, D=2, C=3", "B=3, A=2", "B=3, A=2, C=3"),
    ROUTED("D", "B=3, A=2, D=2", "C=3, V=4, D=2", "B=3", "B=3, A=2, C=3"),
    ROUTED("A, D", "D=2, B=3, E=2, A=2", "C=2, A=2, E=2, V=4, D=2", "S=2, B=3",
           "B=3, E=2, S=2, C=2"),
    SLICE(" {from = 4}", "5", "1"),
    SLICE("", "3", "3"),
    VIEW("slice[K -> E]", "A=2, H=(K=3, G=2)", "A=2, E=2, G=2"),
    VIEW("last[G]", "A=2, H=(K=3, G=2)", "A=2, K=3"),
    {TOGETHER, PAIR("concat[G + R -> E]", "A=2, H=(K=3, G=2)", "A=2, R=2", "A=2, K=3, E=4"), 0, 0,
     0},
    {TOGETHER,
     "%x = input : f64[A=2, H=(K=2, G=4)]\n %z, %i = topk[G -> Q] %x : f64[A=2, K=2, Q=2], "
     "i32[A=2, K=2, Q=2]\n return %z\n",
     0, 0, 0},
    CONCAT("B=2, A=3", "B=2, R=2", "B=2, E=5"),
    CONCAT("B=2, A=3", "R=2", "B=2, E=5"),
    CONCAT("A=1", "R=2, C=2", "E=3, C=2"),
    CONCAT("A=3, B=2", "C=2, R=1", "E=4, B=2, C=2"),
    {TOGETHER, PAIR("concat[A + A -> E]", "A=2, B=2", "B=2, A=2", "E=4, B=2"), 0, 0, 0},
    /* attention */
    ATTEND("", "", ""),
    ATTEND("", "", ", mask = none"),
    ATTEND("", "", ", mask = causal"),
    ATTEND("", "", ", mask = window, window = 2"),
    ATTEND("", "", ", mask = window, window = 9"),
    ATTEND("", "", ", softcap = 0.6"),
    ATTEND("", "", ", mask = causal, softcap = 0.6, p = 0.3, seed = \"a.dropout0\""),
    ATTEND("", "", ", p = 0.4, seed = \"a.dropout0\""),
    ATTEND("%b = input : f64[S=3, T=3]\n", ", %b", ", with = [bias]"),
    ATTEND("%s = input : f64[H=(K=2, G=2)]\n", ", %s", ", mask = causal, with = [sinks]"),
    ATTEND("%s = input : f64[S=3, B=2]\n %b = input : f64[S=3, T=3]\n", ", %s, %b",
           ", softcap = 0.6, p = 0.3, seed = \"a.dropout0\", with = [sinks, bias]"),
    ATTEND("%b = input : f64[B=2, H=(K=2, G=2), S=3, T=3]\n", ", %b",
           ", with = [bias], mask = causal, softcap = 0.6"),
    ATTEND("%b = input : f64[T=3, K=2]\n", ", %b",
           ", with = [bias], p = 0.4, seed = \"a.dropout0\""),
    ATTEND("%m = input : bool[B=2, S=3, T=3]\n", ", %m", ", with = [keep]"),
    ATTEND("%m = input : bool[T=3]\n %b = input : f64[S=3]\n", ", %m, %b", ", with = [keep, bias]"),
    ATTEND("%g = input : i32[B=2, S=3]\n %h = input : i32[B=2, T=3]\n", ", %g, %h",
           ", with = [segments, key_segments], mask = causal"),
    ATTEND_TO(HEADS, "B=2, T=3, E=2", "B=2, T=3, E=2", HEADS, "", "", ", mask = causal"),
    ATTEND_TO(HEADS, "T=3, E=2", "T=3, E=2", HEADS, "", "", ""),
    ATTEND_TO(HEADS, "B=2, T=3, H=(K=2, G=2), E=2", "B=2, T=3, H=(K=2, G=2), E=2", HEADS, "", "",
              ", mask = causal"),
    ATTEND_TO(HEADS, KEYS, "B=2, T=3, K=2, N=3", "B=2, S=3, H=(K=2, G=2), N=3", "", "",
              ", mask = causal"),
    ATTEND_TO("S=3, E=2", "T=4, E=2", "T=4, N=1", "S=3, N=1", "", "", ""),
};

/* ---- ops without a derivative ---- */

typedef enum why_not {
    OUTSIDE, /* a value from outside, which nothing is trained behind */
    /* parameters end the sweep; caches and what a train step keeps are no function of them */
    STATE,
    NO_RESULT,  /* nothing comes out */
    NO_OPERAND, /* nothing goes in */
    INTEGERS,   /* the result is integer or bool, or depends on integers only */
    FLAT,       /* SC_STOPS_GRADIENT */
    BACKWARD,   /* made by derivatives only: there are no second ones */
    PLACEMENT,  /* made when values are placed, after differentiation */
    SLOTS,      /* likewise, of one rank's rows: no dim of theirs can be split */
    STAGES,     /* made when a step is cut into stages, after differentiation */
    MEMORY,     /* made when copies between memories are, after differentiation */
    CACHED      /* needs a live cache, which an entry with a train step has not */
} why_not;

static const struct {
    sc_op_kind kind;
    why_not reason;
} underived[] = {
    {SC_OP_input, OUTSIDE},
    {SC_OP_param, STATE},
    {SC_OP_cache_read, STATE},
    {SC_OP_state_read, STATE},
    {SC_OP_cache_write, NO_RESULT},
    {SC_OP_state_write, NO_RESULT},
    {SC_OP_return, NO_RESULT},
    {SC_OP_send, STAGES},
    {SC_OP_recv, STAGES},
    {SC_OP_constant, NO_OPERAND},
    {SC_OP_index, NO_OPERAND},
    {SC_OP_stop_gradient, FLAT},
    {SC_OP_floor, FLAT},
    {SC_OP_sign, FLAT},
    {SC_OP_lt, INTEGERS},
    {SC_OP_le, INTEGERS},
    {SC_OP_gt, INTEGERS},
    {SC_OP_ge, INTEGERS},
    {SC_OP_eq, INTEGERS},
    {SC_OP_ne, INTEGERS},
    {SC_OP_and, INTEGERS},
    {SC_OP_or, INTEGERS},
    {SC_OP_not, INTEGERS},
    {SC_OP_argmax, INTEGERS},
    {SC_OP_onehot, INTEGERS},
    {SC_OP_scatter_add, BACKWARD},
    {SC_OP_routed_dot_grad, BACKWARD},
    {SC_OP_attend_grad, BACKWARD},
    {SC_OP_unslice, BACKWARD},
    {SC_OP_mask, PLACEMENT},
    {SC_OP_reshard, PLACEMENT},
    {SC_OP_all_gather, PLACEMENT},
    {SC_OP_to_partial, PLACEMENT},
    {SC_OP_all_slice, PLACEMENT},
    {SC_OP_reduce_scatter, PLACEMENT},
    {SC_OP_all_reduce, PLACEMENT},
    {SC_OP_all_to_all, PLACEMENT},
    {SC_OP_collective_permute, PLACEMENT},
    {SC_OP_rotate, PLACEMENT},
    {SC_OP_piece, PLACEMENT},
    {SC_OP_take_piece, PLACEMENT},
    {SC_OP_join_pieces, PLACEMENT},
    {SC_OP_add_pieces, PLACEMENT},
    {SC_OP_row_slots, SLOTS},
    {SC_OP_pack_rows, SLOTS},
    {SC_OP_unpack_rows, SLOTS},
    {SC_OP_exchange_rows, PLACEMENT},
    {SC_OP_to_device, MEMORY},
    {SC_OP_to_host, MEMORY},
    {SC_OP_append, CACHED},
    {SC_OP_relu_grad, BACKWARD},
    {SC_OP_silu_grad, BACKWARD},
    {SC_OP_gelu_grad, BACKWARD},
    {SC_OP_gelu_tanh_grad, BACKWARD},
};

/* ---- from a case to a train step ---- */

static void make_param(sc_module *m, sc_op_id id, uint32_t number)
{
    sc_value value = sc_result(m, id, 0);
    sc_state state = {.path = sc_intern_printf(&m->context->names, "p%u", number),
                      .type = m->values.data[value].type};
    sc_module_add_state(m, &state);
    sc_op_at(m, id)->kind = SC_OP_param;
    sc_op_set_attr(m, id, sc_attr_text(SC_ATTR_name, state.path));
}

static void make_params(sc_module *m)
{
    uint32_t count = 0;
    sc_for_each_op (m, 0, id) {
        if (sc_op_at(m, id)->kind == SC_OP_input &&
            sc_dtype_is_float(sc_type_of(m, sc_result(m, id, 0))->dtype))
            make_param(m, id, count++);
    }
}

/* sum(w value), with an input w. */
static sc_value weighted_sum(sc_emitter *e, sc_value value)
{
    sc_type_info type = *sc_type_of(e->m, value);
    sc_value weights = sc_make_as(e, SC_OP_input, NULL, 0, NULL, 0, &type);
    sc_value product = sc_make2(e, SC_OP_mul, value, weights);
    sc_dim dims[SC_MAX_RANK];
    for (uint32_t i = 0; i < type.rank; i++)
        dims[i] = type.dims[i].dim;
    sc_attr attr = sc_attr_dims(e->m, SC_ATTR_dims, dims, type.rank);
    return type.rank == 0 ? product : sc_make_value(e, SC_OP_sum, &product, 1, &attr, 1);
}

static void make_objective(sc_module *m)
{
    sc_op_id end = m->funcs.data[0].last;
    const sc_op returned = *sc_op_at(m, end);
    sc_emitter e = {.m = m, .before = end, .like = SC_NONE};
    sc_value total = SC_NONE;
    for (uint32_t i = 0; i < returned.operand_count; i++) {
        if (!sc_dtype_is_float(sc_type_of(m, returned.operands[i])->dtype))
            continue;
        sc_value sum = weighted_sum(&e, returned.operands[i]);
        total = total == SC_NONE ? sum : sc_make2(&e, SC_OP_add, total, sum);
    }
    sc_op_at(m, end)->operand_count = 1;
    sc_op_at(m, end)->operands[0] = total;
}

/* `used` is told the ops of the body. */
static train_case open_case(const char *body, const char *frozen, bool *used)
{
    train_options options = {TRAIN_DEFAULTS, .frozen = frozen};
    train_case t = {.c = case_read("", "", body)};
    sc_for_each_op (t.c->m, 0, id)
        used[sc_op_at(t.c->m, id)->kind] = true;
    make_params(t.c->m);
    make_objective(t.c->m);
    train_build(&t, &options);
    sc_interp_set_random(t.c->interp, 3, 1, 2);
    return t;
}

/* ---- differences ---- */

/* The gradient of state p, whose state is called p.grad; data NULL: there is none. */
static sc_array gradient_of(const train_case *t, uint32_t param)
{
    const sc_context *context = &t->c->context;
    char name[64];
    snprintf(name, sizeof name, "%s.grad", sc_text(context, t->c->m->state.data[param].path));
    return train_find(t, name) == SC_NONE ? (sc_array){0} : train_get(t, name);
}

static double largest(const sc_array *array)
{
    double most = 0;
    for (int64_t i = 0; i < array->count && array->data != NULL; i++)
        most = fmax(most, fabs(array->data[i]));
    return most;
}

static double objective_with(train_case *t, uint32_t param, const sc_array *values, int64_t i,
                             double value)
{
    double here = values->data[i];
    values->data[i] = value;
    assert_true(sc_interp_set_state(t->c->interp, param, values->data));
    values->data[i] = here;
    train_run_micro(t);
    return train_number(t, "total");
}

static void check_param(train_case *t, uint32_t param, const char *body)
{
    const double step = 1e-6;
    train_run_micro(t);
    sc_array gradient = gradient_of(t, param),
             values = sc_interp_get_state(t->c->interp, param, NULL);
    double scale = fmax(1, largest(&gradient));
    for (int64_t i = 0; i < values.count; i++) {
        double above = objective_with(t, param, &values, i, values.data[i] + step);
        double below = objective_with(t, param, &values, i, values.data[i] - step);
        double wanted = (above - below) / (2 * step),
               got = gradient.data == NULL ? 0 : gradient.data[i];
        if (!(fabs(got - wanted) <= 1e-8 * scale)) /* of a difference: step^2, and 1e-16 / step */
            fail_msg("operand %u, element %lld: %.12g, but the difference is %.12g\n%s", param,
                     (long long)i, got, wanted, body);
    }
    assert_true(sc_interp_set_state(t->c->interp, param, values.data));
    sc_array_free(&values);
    sc_array_free(&gradient);
}

static double inner_product(const train_case *t, uint32_t param)
{
    sc_array gradient = gradient_of(t, param),
             values = sc_interp_get_state(t->c->interp, param, NULL);
    double sum = 0;
    assert_non_null(gradient.data);
    for (int64_t i = 0; i < values.count; i++)
        sum += values.data[i] * gradient.data[i];
    sc_array_free(&values);
    sc_array_free(&gradient);
    return sum;
}

static void check_product(double got, double wanted, const char *body)
{
    if (!(fabs(got - wanted) <= 1e-12 * fmax(1, fabs(wanted))))
        fail_msg("<op(x), y> = %.17g, <x, gradient> = %.17g\n%s", wanted, got, body);
}

static void check_linearity(const train_case *t, linear_in linearity, uint32_t param_count,
                            const char *body)
{
    double total = train_number(t, "total"), sum = 0;
    for (uint32_t p = 0; p < param_count && linearity != NEITHER; p++) {
        double product = inner_product(t, p);
        sum += product;
        if (linearity == EACH)
            check_product(product, total, body);
    }
    if (linearity == TOGETHER)
        check_product(sum, total, body);
}

/* With one operand trained and the others frozen, nothing is computed for the others. */
static void check_alone(const char *body, uint32_t param, uint32_t param_count, bool *used)
{
    char frozen[64] = " ";
    for (uint32_t p = 0; p < param_count; p++) {
        if (p != param)
            snprintf(frozen + strlen(frozen), sizeof frozen - strlen(frozen), "p%u ", p);
    }
    train_case t = open_case(body, frozen, used);
    assert_int_equal(t.training.params.count, 1);
    train_check_live(&t);
    train_close(&t);
}

static void check_case(const derive_case *test, bool *used)
{
    bool is_default = test->low == 0 && test->high == 0;
    train_case t = open_case(test->body, NULL, used);
    uint32_t param_count = t.training.params.count;
    assert_true(param_count > 0);
    train_check_live(&t);
    for (uint32_t p = 0; p < param_count; p++)
        check_alone(test->body, p, param_count, used);
    for (uint64_t seed = 1; seed <= 3; seed++) {
        train_draw_all(&t, seed, is_default ? -1 : test->low, is_default ? 1 : test->high,
                       test->limit == 0 ? 3 : test->limit);
        train_run_micro(&t);
        check_linearity(&t, test->linearity, param_count, test->body);
        for (uint32_t p = 0; p < param_count; p++)
            check_param(&t, p, test->body);
    }
    train_close(&t);
}

/* Each function of one number by the table, where all of them are defined and smooth. */
static void check_functions(bool *used)
{
    for (int kind = 0; kind < SC_OP_COUNT; kind++) {
        char body[128];
        snprintf(body, sizeof body, "%s%%z = %s %%x : f64[A=2, B=3]\n return %%z\n", X,
                 sc_ops[kind].name);
        if (sc_ops[kind].language == SC_LANGUAGE_number && sc_op_functions[kind].derive != NULL)
            check_case(&(derive_case){NEITHER, body, 0.3, 0.8, 0}, used);
    }
}

static void derivatives_are_those_of_differences(void **state)
{
    (void)state;
    bool used[SC_OP_COUNT] = {0}, linear[SC_OP_COUNT] = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_case(&cases[i], cases[i].linearity == NEITHER ? used : linear);
    check_functions(used);
    for (int kind = 0; kind < SC_OP_COUNT; kind++) {
        bool is_linear = (sc_ops[kind].traits & (SC_LINEAR | SC_BILINEAR)) != 0;
        if (sc_op_functions[kind].derive != NULL && !linear[kind] && (is_linear || !used[kind]))
            fail_msg("'%s' has a derivative, and no case here tests it", sc_ops[kind].name);
    }
}

/* Whether the reason is one, as far as the table tells. */
static bool holds(const sc_op_row *row, why_not reason)
{
    switch (reason) {
    case FLAT:
        return (row->traits & SC_STOPS_GRADIENT) != 0;
    case STATE:
        return (row->traits & SC_STATE_READ) != 0;
    case NO_OPERAND:
        return row->operands == 0 && (row->traits & SC_CONSTANT) != 0;
    case OUTSIDE:
        return (row->traits & SC_FROM_OUTSIDE) != 0;
    case NO_RESULT:
        return (row->traits & SC_EFFECT) != 0;
    case PLACEMENT:
        return (row->traits & (SC_RESHARD | SC_COLLECTIVE | SC_FILLS_PADDING)) != 0;
    case SLOTS:
        return sc_op_functions[row - sc_ops].roles == NULL;
    case MEMORY:
        return sc_op_copies_memory((sc_op_kind)(row - sc_ops));
    case INTEGERS:
        return (row->traits & SC_EXACT) != 0;
    case STAGES:
        return sc_op_transfers((sc_op_kind)(row - sc_ops));
    default:
        return true;
    }
}

static void ops_without_a_derivative_have_a_reason(void **state)
{
    (void)state;
    bool listed[SC_OP_COUNT] = {0};
    for (size_t i = 0; i < sizeof underived / sizeof *underived; i++) {
        const sc_op_row *row = &sc_ops[underived[i].kind];
        if (sc_op_functions[underived[i].kind].derive != NULL || !holds(row, underived[i].reason))
            fail_msg("'%s' is listed as an op without a derivative", row->name);
        listed[underived[i].kind] = true;
    }
    for (int kind = 0; kind < SC_OP_COUNT; kind++) {
        if (sc_op_functions[kind].derive == NULL && !listed[kind])
            fail_msg("'%s' has no derivative, and no reason is listed here", sc_ops[kind].name);
    }
}

/* ---- where there is no difference: ties, zeros, -inf ---- */

/* Gradients by hand: the objective's weights are 1, 2, 3, .. */
static void check_gradient(const char *body, const double *values, size_t count,
                           const double *wanted, size_t wanted_count)
{
    bool used[SC_OP_COUNT];
    train_case t = open_case(body, NULL, used);
    sc_array *weights = &t.c->inputs[t.c->input_count - 1];
    size_t at = 0;
    for (int64_t i = 0; i < weights->count; i++)
        weights->data[i] = (double)(i + 1);
    for (uint32_t p = 0; p < t.training.params.count; p++) {
        assert_true(sc_interp_set_state(t.c->interp, p, values + at));
        at += (size_t)sc_type_elements(sc_state_type(t.c->m, p));
    }
    assert_int_equal(at, count);
    assert_int_equal(at, wanted_count);
    train_run_micro(&t);
    for (uint32_t p = 0, from = 0; p < t.training.params.count; p++) {
        sc_array gradient = gradient_of(&t, p);
        int64_t elements = sc_type_elements(sc_state_type(t.c->m, p));
        for (int64_t i = 0; i < elements; i++, from++) {
            double got = gradient.data == NULL ? 0 : gradient.data[i];
            if (!case_same(got, wanted[from], 1e-15))
                fail_msg("operand %u, element %lld: %.17g, wanted %.17g\n%s", p, (long long)i, got,
                         wanted[from], body);
        }
        sc_array_free(&gradient);
    }
    train_close(&t);
}

static void ties_go_to_the_first(void **state)
{
    (void)state;
    check_gradient("%x = input : f64[A=2, B=3]\n %z = max[B] %x : f64[A=2]\n return %z\n",
                   LIST(1, 1, 0, 0, 2, 2), LIST(1, 0, 0, 0, 2, 0));
    check_gradient("%x = input : f64[A=2, B=3]\n %z = min[B] %x : f64[A=2]\n return %z\n",
                   LIST(1, 0, 0, 0, 0, 2), LIST(0, 1, 0, 2, 0, 0));
    /* of several dims in the operand's row-major order, however the dims are listed */
    static const char *const several[] = {"max[A, B]", "max[B, A]"};
    for (size_t i = 0; i < sizeof several / sizeof *several; i++) {
        char body[256];
        snprintf(body, sizeof body,
                 "%%x = input : f64[A=2, C=1, B=3]\n %%z = %s %%x : f64[C=1]\n return %%z\n",
                 several[i]);
        check_gradient(body, LIST(0, 0, 5, 5, 5, 0), LIST(0, 0, 1, 0, 0, 0));
    }
    check_gradient("%x = input : f64[A=2]\n %y = input : f64[A=2]\n %z = maximum %x, %y : "
                   "f64[A=2]\n return %z\n",
                   LIST(3, 1, 3, 2), LIST(1, 0, 0, 2));
    check_gradient("%x = input : f64[A=2]\n %y = input : f64[A=2]\n %z = minimum %x, %y : "
                   "f64[A=2]\n return %z\n",
                   LIST(3, 1, 3, 0), LIST(1, 0, 0, 2));
    check_gradient(
        "%x = input : f64[X=4]\n %z, %i = topk[X -> Q] %x : f64[Q=2], i32[Q=2]\n return %z\n",
        LIST(1, 3, 3, 3), LIST(0, 1, 2, 0));
}

static void zeros_pass_nothing(void **state)
{
    (void)state;
    check_gradient("%x = input : f64[A=3]\n %z = relu %x : f64[A=3]\n return %z\n", LIST(0, -1, 2),
                   LIST(0, 0, 3));
    check_gradient("%x = input : f64[A=3]\n %z = abs %x : f64[A=3]\n return %z\n", LIST(0, -1, 2),
                   LIST(0, -2, 3));
    check_gradient("%x = input : f64[A=3]\n %z = pow %x {exponent = 0.0} : f64[A=3]\n return %z\n",
                   LIST(0, -1, 2), LIST(0, 0, 0));
    check_gradient("%x = input : f64[A=3]\n %z = pow %x {exponent = 1.0} : f64[A=3]\n return %z\n",
                   LIST(0, -1, 2), LIST(1, 2, 3));
    check_gradient("%x = input : f64[A=3]\n %z = pow %x {exponent = 2.0} : f64[A=3]\n return %z\n",
                   LIST(0, -1, 2), LIST(0, -4, 12));
}

/* Where every x is -inf nothing can be gained; a single -inf has weight 0. */
static void minus_infinity_makes_no_nan(void **state)
{
    (void)state;
    check_gradient("%x = input : f64[A=2, B=2]\n %z = softmax[B] %x : f64[A=2, B=2]\n return %z\n",
                   LIST(-INFINITY, -INFINITY, -INFINITY, 1), LIST(0, 0, 0, 0));
    check_gradient("%x = input : f64[A=2, B=2]\n %z = logsumexp[B] %x : f64[A=2]\n return %z\n",
                   LIST(-INFINITY, -INFINITY, -INFINITY, 1), LIST(0, 0, 0, 2));
    check_gradient(
        "%x = input : f64[A=2, B=2]\n %z = log_softmax[B] %x : f64[A=2, B=2]\n return %z\n",
        LIST(-INFINITY, -INFINITY, -INFINITY, 1), LIST(1, 2, 3, -3));
    check_gradient("%x = input : f64[A=2, B=3]\n %z = max[B] %x : f64[A=2]\n return %z\n",
                   LIST(-INFINITY, -INFINITY, -INFINITY, -INFINITY, 1, 1), LIST(1, 0, 0, 0, 2, 0));
}

/* A query that keeps no key, and a bias of -inf for every key of a query. */
static void rows_without_keys_pass_nothing(void **state)
{
    (void)state;
    check_gradient("%q = input : f64[S=2, E=1]\n %k = input : f64[T=2, E=1]\n %v = input : "
                   "f64[T=2, E=1]\n %b = input : f64[S=2, T=2]\n"
                   "%z = attend[T, E -> S] %q, %k, %v, %b {scale = 1.0, with = [bias]} : f64[S=2, "
                   "E=1]\n return %z\n",
                   LIST(2, 1, 3, 1, 5, 6, 0, -INFINITY, -INFINITY, -INFINITY),
                   LIST(0, 0, 0, 0, 1, 0, 0, 0, 0, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(derivatives_are_those_of_differences),
        cmocka_unit_test(ops_without_a_derivative_have_a_reason),
        cmocka_unit_test(ties_go_to_the_first),
        cmocka_unit_test(zeros_pass_nothing),
        cmocka_unit_test(minus_infinity_makes_no_nan),
        cmocka_unit_test(rows_without_keys_pass_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
