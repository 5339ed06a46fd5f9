/* What backward passes are made of: each transpose against the op that it transposes, the
 * derivative of attention against differences of attention, and masks of dropout against the
 * formula that defines them. */
#include "test/unit/helpers/interp_case.h"

#include "support/hash.h"
#include "support/rng.h"

/* Floats in (-1, 1), integers in [0, limit). */
static void fill_inputs(sc_case *c, uint64_t limit)
{
    uint32_t input = 0;
    sc_for_each_op (c->m, 0, op) {
        if (sc_op_at(c->m, op)->kind != SC_OP_input)
            continue;
        bool is_float = sc_dtype_is_float(sc_type_of(c->m, sc_result(c->m, op, 0))->dtype);
        for (int64_t i = 0; i < c->inputs[input].count; i++) {
            double u = sc_rng_uniform(7, input, (uint64_t)i);
            c->inputs[input].data[i] = is_float ? 2 * u - 1 : floor(u * (double)limit);
        }
        input++;
    }
}

static sc_case *open_filled(const char *mesh, const char *body, sc_interp_options options,
                            uint64_t limit)
{
    sc_case *c = case_open(mesh, "", body, options);
    fill_inputs(c, limit);
    return c;
}

static void run_case(sc_case *c)
{
    if (!case_run(c))
        fail_msg("%s", c->error);
}

static double product(const sc_array *a, const sc_array *b)
{
    double sum = 0;
    assert_int_equal(a->count, b->count);
    for (int64_t i = 0; i < a->count; i++)
        sum += a->data[i] * b->data[i];
    return sum;
}

/* ---- transposes ---- */

#define ROPE(attributes)                                                                           \
    "%x = input : f64[S=5, B=2, E=8]\n %w = input : f64[S=5, B=2, E=8]\n"                          \
    "%y = rope[S, E] %x {theta = 100.0, " attributes "} : f64[S=5, B=2, E=8]\n"                    \
    "%z = rope[S, E] %w {theta = 100.0, inverse = 1, " attributes                                  \
    "} : f64[S=5, B=2, E=8]\n return %y, %z\n"

/* Inputs x and w, results y = A x and z = A' w: <y, w> = <x, z>. */
static void transposes_are_transposes(void **state)
{
    (void)state;
    static const char *const bodies[] = {
        "%x = input : f64[V=5, D=3]\n %w = input : f64[B=2, S=4, D=3]\n %i = input : i32[B=2, "
        "S=4]\n"
        "%y = gather[V] %x, %i : f64[B=2, S=4, D=3]\n %z = scatter_add[V] %w, %i : f64[V=5, D=3]\n "
        "return %y, %z\n",
        "%x = input : f64[D=3, B=2, V=5]\n %w = input : f64[D=3, B=2, S=4]\n %i = input : i32[B=2, "
        "S=4]\n"
        "%y = gather[V] %x, %i : f64[D=3, B=2, S=4]\n %z = scatter_add[V] %w, %i : f64[D=3, B=2, "
        "V=5]\n return %y, %z\n",
        "%x = input : f64[B=2, X=6]\n %w = input : f64[B=2, Q=3]\n %y, %i = topk[X -> Q] %x : "
        "f64[B=2, Q=3], i32[B=2, Q=3]\n"
        "%z = scatter_add[X] %w, %i : f64[B=2, X=6]\n return %y, %z\n",
        "%x = input : f64[V=5, D=3, C=2]\n %w = input : f64[B=2, S=4, C=2]\n %i = input : i32[B=2, "
        "S=4]\n %r = input : f64[B=2, D=3]\n"
        "%y = routed_dot[D -> V] %r, %x, %i : f64[B=2, S=4, C=2]\n"
        "%z = routed_dot_grad[B, S -> V] %r, %w, %i : f64[V=5, D=3, C=2]\n return %y, %z\n",
        "%x = input : f64[A=2, D=7, C=3]\n %w = input : f64[A=2, E=4, C=3]\n %y = slice[D -> E] %x "
        "{from = 2} : f64[A=2, E=4, C=3]\n"
        "%z = unslice[E -> D] %w {from = 2} : f64[A=2, D=7, C=3]\n return %y, %z\n",
        "%x = input : f64[A=2, S=5]\n %w = input : f64[A=2, S=5]\n %y = cumsum[S] %x : f64[A=2, "
        "S=5]\n"
        "%z = cumsum[S] %w {reverse = 1} : f64[A=2, S=5]\n return %y, %z\n",
        "%x = input : f64[A=2, S=5, C=3]\n %w = input : f64[S=5]\n %y = sum[A, C] %x : f64[S=5]\n"
        "%z = broadcast %w : f64[A=2, S=5, C=3]\n return %y, %z\n",
        ROPE("pairs = halves"),
        ROPE("pairs = interleaved"),
        ROPE("pairs = halves, scaling = linear, scaling_args = [4.0]"),
        ROPE("pairs = halves, scaling = yarn, scaling_args = [4.0, 8.0, 32.0, 1.0, 1.5, 1.0]"),
        ROPE("pairs = interleaved, scaling = llama3, scaling_args = [8.0, 1.0, 4.0, 64.0]"),
        "%x = input : f64[S=3, B=2, E=4]\n %w = input : f64[S=3, B=2, E=4]\n %p = input : "
        "i32[B=2]\n"
        "%y = rope[S, E] %x, %p {theta = 100.0, pairs = halves, with = [pos]} : f64[S=3, B=2, "
        "E=4]\n"
        "%z = rope[S, E] %w, %p {theta = 100.0, pairs = halves, with = [pos], inverse = 1} : "
        "f64[S=3, B=2, E=4]\n return %y, %z\n",
    };
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        sc_case *c = open_filled("", bodies[i], (sc_interp_options){0}, 5);
        run_case(c);
        double there = product(&c->outputs[0], &c->inputs[1]),
               back = product(&c->inputs[0], &c->outputs[1]);
        assert_true(fabs(there) > 1e-3);
        if (fabs(there - back) > 1e-13)
            fail_msg("%.17g there, %.17g back\n%s", there, back, bodies[i]);
        case_close(c);
    }
}

static void transposes_by_hand(void **state)
{
    (void)state;
    check_values("%x = input : f64[S=3, D=2]\n %i = input : i32[S=3]\n %y = scatter_add[V] %x, %i "
                 ": f64[V=3, D=2]\n return %y\n",
                 LIST(1, 2, 3, 4, 5, 6, 2, 0, 2), LIST(3, 4, 0, 0, 6, 8), 0, false);
    check_values(
        "%x = input : f64[E=2]\n %y = unslice[E -> D] %x {from=1} : f64[D=4]\n return %y\n",
        LIST(1, 2), LIST(0, 1, 2, 0), 0, false);
    check_values("%x = input : f64[S=3]\n %y = cumsum[S] %x {reverse=1} : f64[S=3]\n return %y\n",
                 LIST(1, 2, 3), LIST(6, 5, 3), 0, false);
    check_values(
        "%x = input : f64[B=2, A=2]\n %y = broadcast %x : f64[A=2, C=2, B=2]\n return %y\n",
        LIST(1, 2, 3, 4), LIST(1, 3, 1, 3, 2, 4, 2, 4), 0, false);
    check_error("",
                "%x = input : f64[S=1]\n %i = input : i32[S=1]\n %y = scatter_add[V] %x, %i : "
                "f64[V=3]\n return %y\n",
                LIST(1, 3), "id 3 is outside 0 <= id < V = 3");
    check_error("",
                "%x = input : f64[E=2]\n %y = unslice[E -> D] %x {from=3} : f64[D=4]\n return %y\n",
                LIST(1, 2), "2 elements from 3 on do not fit into 4");
}

/* A rotation's transpose is its inverse. */
static void rope_turns_back(void **state)
{
    (void)state;
    sc_case *c = open_filled("",
                             "%x = input : f64[S=9, E=6]\n %y = rope[S, E] %x {theta=10.0, "
                             "pairs=halves} : f64[S=9, E=6]\n"
                             "%z = rope[S, E] %y {theta=10.0, pairs=halves, inverse=1} : f64[S=9, "
                             "E=6]\n return %y, %z\n",
                             (sc_interp_options){0}, 1);
    run_case(c);
    for (int64_t i = 0; i < c->inputs[0].count; i++)
        assert_true(case_same(c->outputs[1].data[i], c->inputs[0].data[i], 1e-15));
    case_close(c);
}

/* ---- attention ---- */

#define QUERIES "[B=2, S=3, H=(K=2, G=2), E=2]"
#define SUMS    "[B=2, S=3, H=(K=2, G=2)]"
#define HEADS   "[B=2, T=4, K=2, E=2]"
#define ATTENTION(keys, values, to, more, names, bias, bias_type, attributes)                      \
    "%q = input : f64" QUERIES "\n %k = input : f64" keys "\n %v = input : f64" values             \
    "\n %d = input : f64" to "\n" more "%o, %l = attend[T, E -> S] %q, %k, %v" names               \
    " {lse = 1, scale = 0.7" attributes "} : f64" to ", f64" SUMS "\n"                             \
    "%dq, %dk, %dv" bias " = attend_grad[T, E -> S] %q, %k, %v, %o, %l, %d" names                  \
    " {scale = 0.7" attributes "} : f64" QUERIES ", f64" keys ", f64" values bias_type             \
    "\n return %o, %dq, %dk, %dv" bias "\n"

/* Inputs q, k, v, dout and, when it has a derivative, bias; results out and the cotangents of all
 * these but dout. */
static const char *const attentions[] = {
    ATTENTION(HEADS, HEADS, QUERIES, "", "", "", "", ""),
    ATTENTION(HEADS, HEADS, QUERIES, "", "", "", "", ", mask = causal"),
    ATTENTION(HEADS, HEADS, QUERIES, "", "", "", "", ", mask = window, window = 2"),
    ATTENTION(HEADS, HEADS, QUERIES, "", "", "", "", ", mask = causal, softcap = 0.6"),
    ATTENTION(HEADS, HEADS, QUERIES, "", "", "", "", ", p = 0.4, seed = \"a.dropout0\""),
    ATTENTION(HEADS, HEADS, QUERIES, "", "", "", "",
              ", mask = causal, softcap = 0.6, p = 0.4, seed = \"a.dropout0\""),
    ATTENTION("[B=2, T=4, E=2]", "[B=2, T=4, E=2]", QUERIES, "", "", "", "", ", mask = causal"),
    ATTENTION("[T=4, E=2]", "[K=2, T=4, E=2, B=2]", QUERIES, "", "", "", "", ""),
    ATTENTION(HEADS, "[B=2, T=4, N=3]", "[B=2, S=3, H=(K=2, G=2), N=3]", "", "", "", "",
              ", mask = causal"),
    ATTENTION(HEADS, "[T=4, X=2, N=3]", "[B=2, S=3, H=(K=2, G=2), X=2, N=3]", "", "", "", "", ""),
    ATTENTION(HEADS, HEADS, QUERIES, "%b = input : f64[B=2, H=(K=2, G=2), S=3, T=4]\n", ", %b",
              ", %db", ", f64[B=2, H=(K=2, G=2), S=3, T=4]", ", with = [bias], softcap = 0.6"),
    ATTENTION(HEADS, HEADS, QUERIES, "%b = input : f64[T=4, K=2]\n", ", %b", ", %db",
              ", f64[T=4, K=2]", ", with = [bias], mask = causal"),
    ATTENTION(HEADS, HEADS, QUERIES, "%b = input : f64[S=3]\n", ", %b", ", %db", ", f64[S=3]",
              ", with = [bias], p = 0.4"),
    ATTENTION(HEADS, HEADS, QUERIES, "%m = input : bool[B=2, S=3, T=4]\n", ", %m", "", "",
              ", with = [keep]"),
    ATTENTION(HEADS, HEADS, QUERIES,
              "%b = input : f64[S=3, T=4]\n %m = input : bool[B=2, S=3, T=4]\n", ", %m, %b",
              ", %db", ", f64[S=3, T=4]", ", with = [keep, bias], mask = causal"),
    ATTENTION(HEADS, HEADS, QUERIES, "%g = input : i32[B=2, S=3]\n %h = input : i32[B=2, T=4]\n",
              ", %g, %h", "", "", ", with = [segments, key_segments], mask = causal"),
    ATTENTION(HEADS, HEADS, QUERIES, "%p = input : i32[B=2]\n %n = input : i32[B=2]\n", ", %p, %n",
              "", "", ", with = [pos, len], mask = causal"),
};

/* Of <out, dout>, by one element of an input. */
static double difference(sc_case *c, double *element)
{
    const double step = 1e-5, here = *element;
    *element = here + step;
    run_case(c);
    double above = product(&c->outputs[0], &c->inputs[3]);
    *element = here - step;
    run_case(c);
    double below = product(&c->outputs[0], &c->inputs[3]);
    *element = here;
    return (above - below) / (2 * step);
}

static void check_derivatives(sc_case *c, const char *body)
{
    static const uint32_t inputs[] = {0, 1, 2, 4};
    run_case(c);
    sc_array found[4];
    uint32_t count = c->output_count - 1;
    for (uint32_t i = 0; i < count; i++) {
        found[i] = c->outputs[i + 1];
        c->outputs[i + 1] = (sc_array){0};
    }
    for (uint32_t i = 0; i < count; i++) {
        for (int64_t j = 0; j < found[i].count; j++) {
            double wanted = difference(c, &c->inputs[inputs[i]].data[j]);
            /* of a difference: step^2, and 1e-16 / step */
            if (!case_same(found[i].data[j], wanted, 1e-9))
                fail_msg("cotangent %u, element %lld: %.17g, but the difference is %.17g\n%s", i,
                         (long long)j, found[i].data[j], wanted, body);
        }
        sc_array_free(&found[i]);
    }
}

static void attention_derives_as_its_differences(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof attentions / sizeof *attentions; i++) {
        sc_case *c = open_filled("", attentions[i], (sc_interp_options){0}, 2);
        sc_interp_set_random(c->interp, 3, 1, 2);
        check_derivatives(c, attentions[i]);
        case_close(c);
    }
}

/* Query 1 keeps no key, or has a bias of -inf for each: its result, and all that goes through it,
 * is 0, whatever a masked score is; its sum's logarithm is -inf. */
static void masked_rows_have_no_derivative(void **state)
{
    (void)state;
    const char *body = "%q = input : f64[S=2, E=1]\n %k = input : f64[T=2, E=1]\n %v = input : "
                       "f64[T=2, E=1]\n %d = input : f64[S=2, E=1]\n"
                       "%m = input : bool[S=2, T=2]\n"
                       "%o, %l = attend[T, E] %q, %k, %v, %m {lse = 1, scale = 1.0, with = [keep]} "
                       ": f64[S=2, E=1], f64[S=2]\n"
                       "%dq, %dk, %dv = attend_grad[T, E] %q, %k, %v, %o, %l, %d, %m {scale = 1.0, "
                       "with = [keep]} : f64[S=2, E=1], "
                       "f64[T=2, E=1], f64[T=2, E=1]\n return %o, %l, %dq, %dk, %dv\n";
    check_values(body, LIST(2, NAN, 3, NAN, 5, NAN, 7, 11, 1, 0, 0, 0),
                 LIST(5, 0, 6, -INFINITY, 0, 0, 0, 0, 7, 0), 1e-15, false);
    body = "%q = input : f64[S=2, E=1]\n %k = input : f64[T=2, E=1]\n %v = input : f64[T=2, E=1]\n "
           "%d = input : f64[S=2, E=1]\n"
           "%b = input : f64[S=2, T=2]\n"
           "%o, %l = attend[T, E] %q, %k, %v, %b {lse = 1, scale = 1.0, with = [bias]} : f64[S=2, "
           "E=1], f64[S=2]\n"
           "%dq, %dk, %dv, %db = attend_grad[T, E] %q, %k, %v, %o, %l, %d, %b {scale = 1.0, with = "
           "[bias]} : f64[S=2, E=1], "
           "f64[T=2, E=1], f64[T=2, E=1], f64[S=2, T=2]\n return %o, %l, %dq, %dk, %dv, %db\n";
    check_values(body, LIST(2, 1, 3, 1, 5, 6, 7, 11, 0, -INFINITY, -INFINITY, -INFINITY),
                 LIST(5, 0, 6, -INFINITY, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0), 1e-15, false);
}

/* Dropout of weights is a dropout of the weights: those of softmax, in the order of q's dims, then
 * T. */
static void attention_drops_weights(void **state)
{
    (void)state;
    const char *body =
        "%q = input : f64" QUERIES "\n %k = input : f64" HEADS "\n %v = input : f64" HEADS "\n"
        "%o = attend[T, E] %q, %k, %v {scale = 1.0, p = 0.4, seed = \"a.dropout0\"} : f64" QUERIES
        "\n"
        "%s = dot[E] %q, %k : f64[B=2, S=3, H=(K=2, G=2), T=4]\n %w = softmax[T] %s : f64[B=2, "
        "S=3, H=(K=2, G=2), T=4]\n"
        "%x = dropout %w {p = 0.4, seed = \"a.dropout0\"} : f64[B=2, S=3, H=(K=2, G=2), T=4]\n"
        "%y = dot[T] %x, %v : f64" QUERIES "\n return %o, %y, %x\n";
    sc_case *c = open_filled("", body, (sc_interp_options){0}, 1);
    sc_interp_set_random(c->interp, 11, 5, 0);
    run_case(c);
    int64_t dropped = 0;
    for (int64_t i = 0; i < c->outputs[0].count; i++)
        assert_true(case_same(c->outputs[0].data[i], c->outputs[1].data[i], 1e-14));
    for (int64_t i = 0; i < c->outputs[2].count; i++)
        dropped += c->outputs[2].data[i] == 0;
    assert_in_range(dropped, 20, 60); /* of 96, two fifths */
    case_close(c);
}

/* One device and ranks whose padding is poison give the same. */
static void check_uneven(const char *mesh, const char *body)
{
    sc_case *one = open_filled(mesh, body, (sc_interp_options){0}, 2);
    sc_case *all = open_filled(mesh, body, (sc_interp_options){.ranks = true, .poison = true}, 2);
    run_case(one);
    run_case(all);
    for (uint32_t i = 0; i < one->output_count; i++) {
        for (int64_t j = 0; j < one->outputs[i].count; j++) {
            if (!case_same(one->outputs[i].data[j], all->outputs[i].data[j], 1e-14))
                fail_msg("output %u, element %lld: %.17g, but %.17g on ranks\n%s", i, (long long)j,
                         one->outputs[i].data[j], all->outputs[i].data[j], body);
        }
    }
    case_close(one);
    case_close(all);
}

static void padding_reaches_no_cotangent(void **state)
{
    (void)state;
    check_uneven(
        "x = 2\n", /* queries 3 and 2 of 5 */
        "%q = input : f64[S=5@x, E=2]\n %k = input : f64[T=5, E=2]\n %v = input : f64[T=5, E=2]\n "
        "%d = input : f64[S=5@x, E=2]\n"
        "%b = input : f64[S=5@x, T=5]\n"
        "%o, %l = attend[T, E -> S] %q, %k, %v, %b {mask = causal, with = [bias], lse = 1, offset "
        "= [S@x]} : f64[S=5@x, E=2], "
        "f64[S=5@x]\n"
        "%dq, %dk, %dv, %db = attend_grad[T, E -> S] %q, %k, %v, %o, %l, %d, %b {mask = causal, "
        "with = [bias], offset = [S@x]} : "
        "f64[S=5@x, E=2], f64[T=5, E=2]{sum:x}, f64[T=5, E=2]{sum:x}, f64[S=5@x, T=5]\n"
        "%ek, %ev = all_reduce %dk, %dv {reduce = sum, over = [x]} : f64[T=5, E=2], f64[T=5, E=2]\n"
        "return %o, %dq, %ek, %ev, %db\n");
    /* with dropout every dim counts, so every dim says where it begins */
    check_uneven(
        "x = 2, y = 2\n",
        "%q = input : f64[B=3@x, S=5@y, E=2]\n %k = input : f64[T=5, E=2]\n %v = input : "
        "f64[B=3@x, T=5, E=2]\n"
        "%d = input : f64[B=3@x, S=5@y, E=2]\n"
        "%o, %l = attend[T, E -> S] %q, %k, %v {p = 0.4, seed = \"a\", lse = 1, offset = [B@x, "
        "S@y]} : f64[B=3@x, S=5@y, E=2], "
        "f64[B=3@x, S=5@y]\n"
        "%dq, %dk, %dv = attend_grad[T, E -> S] %q, %k, %v, %o, %l, %d {p = 0.4, seed = \"a\", "
        "offset = [B@x, S@y]} : "
        "f64[B=3@x, S=5@y, E=2], f64[T=5, E=2]{sum:x, sum:y}, f64[B=3@x, T=5, E=2]{sum:y}\n"
        "%ek = all_reduce %dk {reduce = sum, over = [x, y]} : f64[T=5, E=2]\n"
        "%ev = all_reduce %dv {reduce = sum, over = [y]} : f64[B=3@x, T=5, E=2]\n return %o, %dq, "
        "%ek, %ev\n");
}

/* ---- dropout ---- */

static const char *const drop = "%x = input : f64[A=5, C=7]\n %y = dropout %x {p = 0.3, seed = "
                                "\"h[2].dropout1\"} : f64[A=5, C=7]\n return %y\n";

static void dropout_is_its_formula(void **state)
{
    (void)state;
    sc_case *c = open_filled("", drop, (sc_interp_options){0}, 1);
    sc_interp_set_random(c->interp, 42, 1000, 3);
    run_case(c);
    uint32_t key[2], dropped = 0;
    sc_rng_key(42, sc_fnv1a64("h[2].dropout1", 13), key);
    for (uint32_t i = 0; i < 35; i++) {
        double kept = sc_rng_uniform_at((const uint32_t[]){i, 0, 1000, 3}, key) >= 0.3
                          ? c->inputs[0].data[i] / 0.7
                          : 0;
        assert_true(case_same(c->outputs[0].data[i], kept, 1e-15));
        dropped += kept == 0;
    }
    assert_in_range(dropped, 4, 17);
    case_close(c);
}

static bool drops_alike(const char *other, uint64_t seed, uint64_t step, uint32_t micro_batch)
{
    sc_case *a = open_filled("", drop, (sc_interp_options){0}, 1),
            *b = open_filled("", other, (sc_interp_options){0}, 1);
    sc_interp_set_random(a->interp, 42, 1000, 3);
    sc_interp_set_random(b->interp, seed, step, micro_batch);
    run_case(a);
    run_case(b);
    bool alike = true;
    for (int i = 0; i < 35; i++)
        alike = alike && a->outputs[0].data[i] == b->outputs[0].data[i];
    case_close(a);
    case_close(b);
    return alike;
}

static void masks_differ_by_seed_step_batch_and_op(void **state)
{
    (void)state;
    assert_true(drops_alike(drop, 42, 1000, 3));
    assert_false(drops_alike(drop, 43, 1000, 3));
    assert_false(drops_alike(drop, 42, 1001, 3));
    assert_false(drops_alike(drop, 42, 1000, 4));
    assert_false(drops_alike("%x = input : f64[A=5, C=7]\n %y = dropout %x {p = 0.3, seed = "
                             "\"h[2].dropout0\"} : f64[A=5, C=7]\n return %y\n",
                             42, 1000, 3));
}

/* Indices count without padding: 5 over 2 is 3 and 2, 7 over 3 is 3, 3 and 1. */
static void masks_are_the_same_on_every_mesh(void **state)
{
    (void)state;
    check_uneven("x = 2, y = 3\n", "%x = input : f64[A=5@x, C=7@y]\n"
                                   "%y = dropout %x {p = 0.3, seed = \"d\", offset = [A@x, C@y]} : "
                                   "f64[A=5@x, C=7@y]\n return %y\n");
    check_wrong("x = 2\n",
                "%x = input : f64[A=6@x]\n %y = dropout %x {p = 0.5, seed = \"d\"} : f64[A=6@x]\n "
                "return %y\n",
                0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transposes_are_transposes),
        cmocka_unit_test(transposes_by_hand),
        cmocka_unit_test(rope_turns_back),
        cmocka_unit_test(attention_derives_as_its_differences),
        cmocka_unit_test(masked_rows_have_no_derivative),
        cmocka_unit_test(attention_drops_weights),
        cmocka_unit_test(padding_reaches_no_cotangent),
        cmocka_unit_test(dropout_is_its_formula),
        cmocka_unit_test(masks_differ_by_seed_step_batch_and_op),
        cmocka_unit_test(masks_are_the_same_on_every_mesh),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
