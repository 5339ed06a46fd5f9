/* Every op of one device against values worked out by hand or by a formula of its own. */
#include "test/unit/helpers/interp_case.h"

static void constants_and_indices(void **state)
{
    (void)state;
    check_values("%a = constant {value=2.5} : f32[A=2]\n %b = index[S] : i32[S=4]\n %c = constant "
                 "{value=-1.0} : f64[]\n return %a, %b, %c\n",
                 NULL, 0, LIST(2.5, 2.5, 0, 1, 2, 3, -1), 0, false);
}

static void elementwise_unary(void **state)
{
    (void)state;
    static const struct {
        const char *op;
        double in[3], out[3];
    } rows[] = {
        {"neg", {1, -2, 0}, {-1, 2, 0}},
        {"abs", {1, -2, 0}, {1, 2, 0}},
        {"exp", {0, 1, -INFINITY}, {1, 2.718281828459045, 0}},
        {"log", {1, 2.718281828459045, 0}, {0, 1, -INFINITY}},
        {"sqrt", {4, 2, 0}, {2, 1.4142135623730951, 0}},
        {"rsqrt", {4, 1, 0.25}, {0.5, 1, 2}},
        {"sin", {0, 1, -1}, {0, 0.8414709848078965, -0.8414709848078965}},
        {"cos", {0, 1, -1}, {1, 0.5403023058681398, 0.5403023058681398}},
        {"tanh", {0, 1, -1000}, {0, 0.7615941559557649, -1}},
        {"sigmoid", {0, 1000, -1000}, {0.5, 1, 0}},
        {"relu", {1, -2, NAN}, {1, 0, NAN}},
        {"silu", {0, 1, -1000}, {0, 0.7310585786300049, 0}},
        {"gelu", {0, 1, -1}, {0, 0.8413447460685429, -0.15865525393145707}},
        {"gelu_tanh", {0, 1, -1}, {0, 0.8411919906082768, -0.15880800939172324}},
        {"erf", {0, 1, -1}, {0, 0.8427007929497149, -0.8427007929497149}},
        {"floor", {1.5, -1.5, 2}, {1, -2, 2}},
        {"sign", {1.5, -1.5, 0}, {1, -1, 0}},
        {"stop_gradient", {1.5, -1.5, 0}, {1.5, -1.5, 0}},
        {"use", {1.5, -1.5, 0}, {1.5, -1.5, 0}},
        {"dropout", {1.5, -1.5, 0}, {1.5, -1.5, 0}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char body[128];
        snprintf(body, sizeof body,
                 "%%x = input : f64[A=3]\n %%y = %s %%x : f64[A=3]\n return %%y\n", rows[i].op);
        check_values(body, rows[i].in, 3, rows[i].out, 3, 1e-15, false);
    }
}

static void elementwise_binary(void **state)
{
    (void)state;
    static const struct {
        const char *op;
        double in[6], out[3];
    } rows[] = {
        {"add", {1, 2, 3, 4, 5, -6}, {5, 7, -3}},
        {"sub", {1, 2, 3, 4, 5, -6}, {-3, -3, 9}},
        {"mul", {1, 2, 3, 4, 5, -6}, {4, 10, -18}},
        {"div", {1, 2, 3, 4, 5, -6}, {0.25, 0.4, -0.5}},
        {"mod", {7, -7, 7, 3, 3, -3}, {1, 2, -2}},
        {"minimum", {1, 5, NAN, 2, 4, 1}, {1, 4, NAN}},
        {"maximum", {1, 5, 1, 2, 4, NAN}, {2, 5, NAN}},
        {"lt", {1, 2, 3, 2, 2, 2}, {1, 0, 0}},
        {"le", {1, 2, 3, 2, 2, 2}, {1, 1, 0}},
        {"gt", {1, 2, 3, 2, 2, 2}, {0, 0, 1}},
        {"ge", {1, 2, 3, 2, 2, 2}, {0, 1, 1}},
        {"eq", {1, 2, NAN, 2, 2, NAN}, {0, 1, 0}},
        {"ne", {1, 2, NAN, 2, 2, NAN}, {1, 0, 1}},
        {"and", {0, 1, 1, 1, 1, 0}, {0, 1, 0}},
        {"or", {0, 1, 0, 1, 1, 0}, {1, 1, 0}},
        {"relu_grad", {3, 3, 3, 2, 0, -1}, {3, 0, 0}},
        {"silu_grad", {2, 2, 2, 0, 1, -1}, {1, 1.8553410237429735, 0.1446589762570265}},
        {"gelu_grad", {2, 2, 2, 0, 1, -1}, {1, 2.166630941175373, -0.16663094117537258}},
        {"gelu_tanh_grad", {2, 2, 2, 0, 1, -1}, {1, 2.165928167691565, -0.1659281676915651}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char body[160];
        snprintf(body, sizeof body,
                 "%%x = input : f64[A=3]\n %%y = input : f64[A=3]\n %%z = %s %%x, %%y : f64[A=3]\n "
                 "return %%z\n",
                 rows[i].op);
        check_values(body, rows[i].in, 6, rows[i].out, 3, 1e-15, false);
    }
}

/* No order of dims matters, only their names. */
static void operands_align_by_name(void **state)
{
    (void)state;
    check_values("%x = input : f32[A=2, B=3]\n %y = input : f32[C=2, B=3, A=2]\n %z = input : "
                 "f32[]\n %p = mul %x, %y : f32[A=2, B=3, C=2]\n"
                 "%q = add %p, %z : f32[A=2, B=3, C=2]\n return %q\n",
                 LIST(1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 100),
                 LIST(101, 107, 106, 118, 115, 133, 108, 132, 120, 150, 136, 172), 0, false);
    check_values("%c = input : bool[B=2]\n %x = input : f32[A=2, B=2]\n %y = input : f32[A=2]\n %z "
                 "= where %c, %x, %y : f32[B=2, A=2]\n return %z\n",
                 LIST(1, 0, 1, 2, 3, 4, 5, 6), LIST(1, 3, 5, 6), 0, false);
    check_values("%c = input : bool[A=2]\n %n = not %c : bool[A=2]\n return %n\n", LIST(1, 0),
                 LIST(0, 1), 0, false);
}

static void powers(void **state)
{
    (void)state;
    check_values("%x = input : f64[A=2]\n %y = pow %x {exponent=-0.5} : f64[A=2]\n return %y\n",
                 LIST(4, 0.25), LIST(0.5, 2), 1e-15, false);
}

static void casts_to_integers_truncate_and_wrap(void **state)
{
    (void)state;
    check_values("%x = input : f64[A=5]\n %i = cast %x : i32[A=5]\n %u = cast %x : u8[A=5]\n %l = "
                 "cast %x : i64[A=5]\n %b = cast %x : bool[A=5]\n"
                 "return %i, %u, %l, %b\n",
                 LIST(-2.7, 2.7, 4294967297.0, NAN, -0.5),
                 LIST(-2, 2, 1, 0, 0, 254, 2, 1, 0, 0, -2, 2, 4294967297.0, 0, 0, 1, 1, 1, 1, 1), 0,
                 false);
}

/* Integer arithmetic stays in the integers, whether floats are rounded or not. */
static void integers_are_integers(void **state)
{
    (void)state;
    for (int round = 0; round < 2; round++)
        check_values("%x = input : i32[A=2]\n %y = input : i32[A=2]\n %d = div %x, %y : i32[A=2]\n "
                     "%p = mul %x, %y : i32[A=2]\n return %d, %p\n",
                     LIST(7, 2147483647, 2, 2), LIST(3, 1073741823, 14, -2), 0, round != 0);
}

static void floats_round_to_nearest_even(void **state)
{
    (void)state;
    double tiny = ldexp(1, -133), least_f16 = ldexp(1, -24);
    assert_true(sc_round_to(SC_DTYPE_bf16, 1.00390625) == 1.0);
    assert_true(sc_round_to(SC_DTYPE_bf16, 1.01171875) == 1.015625);
    assert_true(sc_round_to(SC_DTYPE_bf16, -1.0039062500001) == -1.0078125);
    assert_true(sc_round_to(SC_DTYPE_bf16, 3.4e38) == INFINITY);
    assert_true(sc_round_to(SC_DTYPE_bf16, 3.38e38) < INFINITY);
    assert_true(sc_round_to(SC_DTYPE_bf16, tiny * 1.25) == tiny);
    assert_true(sc_round_to(SC_DTYPE_bf16, tiny / 2) == 0);
    assert_true(sc_round_to(SC_DTYPE_f16, 65519.99) == 65504);
    assert_true(sc_round_to(SC_DTYPE_f16, 65520) == INFINITY);
    assert_true(sc_round_to(SC_DTYPE_f16, -65520) == -INFINITY);
    assert_true(sc_round_to(SC_DTYPE_f16, least_f16 * 1.5) == least_f16 * 2);
    assert_true(sc_round_to(SC_DTYPE_f16, least_f16 * 0.5) == 0);
    assert_true(sc_round_to(SC_DTYPE_f16, 2049) == 2048);
    assert_true(isnan(sc_round_to(SC_DTYPE_bf16, NAN)));
    assert_true(signbit(sc_round_to(SC_DTYPE_f16, -1e-30)));
    assert_true(sc_round_to(SC_DTYPE_f64, 0.1) == 0.1);
    assert_true(sc_round_to(SC_DTYPE_u8, -1) == 255 &&
                sc_round_to(SC_DTYPE_i32, 2147483648.0) == -2147483648.0);
    uint64_t x = 88172645463325252u;
    for (int i = 0; i < 100000; i++) { /* any bits at all, against the machine's own f32 */
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        uint64_t bits = (x & 0x800fffffffffffffu) | ((0x36a + x % 0x120) << 52);
        double value;
        memcpy(&value, &bits, sizeof value);
        assert_true(sc_round_to(SC_DTYPE_f32, value) == (double)(float)value);
    }
}

static void rounding_is_off_unless_asked(void **state)
{
    (void)state;
    const char *body =
        "%x = input : f32[A=1]\n %y = input : f32[A=1]\n %z = add %x, %y : f32[A=1]\n return %z\n";
    check_values(body, LIST(1, 1e-9), LIST(1.000000001), 0, false);
    check_values(body, LIST(1, 1e-9), LIST(1), 0, true);
    check_values("%x = input : f32[A=1]\n %y = cast %x : bf16[A=1]\n return %y\n", LIST(1.01),
                 LIST(1.0078125), 0, true);
}

static void reductions(void **state)
{
    (void)state;
    check_values(
        "%x = input : f32[A=2, B=3]\n %s = sum[A] %x : f32[B=3]\n %t = sum[A, B] %x : f32[]\n %m = "
        "max[B] %x : f32[A=2]\n"
        "%n = min[A] %x : f32[B=3]\n %k = argmax[B] %x : i32[A=2]\n return %s, %t, %m, %n, %k\n",
        LIST(1, 5, 5, 4, -3, 4), LIST(5, 2, 9, 16, 5, 4, 1, -3, 4, 1, 0), 0, false);
    check_values("%x = input : f32[A=2, B=2]\n %m = max[A] %x : f32[B=2]\n return %m\n",
                 LIST(NAN, 1, 3, 2), LIST(NAN, 2), 0, false);
    check_values("%x = input : f32[A=2, S=3]\n %c = cumsum[S] %x : f32[A=2, S=3]\n return %c\n",
                 LIST(1, 2, 3, 4, 5, 6), LIST(1, 3, 6, 4, 9, 15), 0, false);
    check_values("%x = input : i32[S=3, A=2]\n %c = cumsum[S] %x : i32[S=3, A=2]\n return %c\n",
                 LIST(1, 2, 3, 4, 5, 6), LIST(1, 2, 4, 6, 9, 12), 0, false);
}

static void softmax_and_kin_are_stable(void **state)
{
    (void)state;
    const double in[] = {1000, 1000, -INFINITY, -INFINITY, -1e4, -1e4 + 1};
    double a = 1 / (1 + exp(1)), b = 1 - 1 / (1 + exp(1));
    check_values("%x = input : f64[A=3, V=2]\n %s = softmax[V] %x : f64[A=3, V=2]\n return %s\n",
                 in, 6, LIST(0.5, 0.5, 0, 0, a, b), 1e-15, false);
    check_values(
        "%x = input : f64[A=3, V=2]\n %s = log_softmax[V] %x : f64[A=3, V=2]\n return %s\n", in, 6,
        LIST(-log(2), -log(2), -INFINITY, -INFINITY, log(a), log(b)), 1e-12, false);
    check_values("%x = input : f64[A=3, V=2]\n %s = logsumexp[V] %x : f64[A=3]\n return %s\n", in,
                 6, LIST(1000 + log(2), -INFINITY, -1e4 + log(1 + exp(1))), 1e-12, false);
    /* along an outer dim, and along two */
    check_values("%x = input : f64[V=2, A=2]\n %s = softmax[V] %x : f64[V=2, A=2]\n %t = "
                 "softmax[A, V] %x : f64[V=2, A=2]\n return %s, %t\n",
                 LIST(0, 7, 0, 7),
                 LIST(0.5, 0.5, 0.5, 0.5, 0.5 / (1 + exp(7)), 0.5 / (1 + exp(-7)),
                      0.5 / (1 + exp(7)), 0.5 / (1 + exp(-7))),
                 1e-15, false);
}

static void cross_entropy(void **state)
{
    (void)state;
    double x[] = {1, 2, 4, 0, 0, 0, 5, 1, 1}, lse0 = log(exp(1) + exp(2) + exp(4)),
           lse2 = log(exp(5) + 2 * exp(1));
    double in[12];
    memcpy(in, x, sizeof x);
    in[9] = 1;
    in[10] = -100;
    in[11] = 0;
    check_values("%x = input : f32[A=3, V=3]\n %t = input : i32[A=3]\n %l = xent[V] %x, %t : "
                 "f32[A=3]\n return %l\n",
                 in, 12, LIST(lse0 - 2, 0, lse2 - 5), 1e-14, false);
    double e = 0.1;
    check_values("%x = input : f32[A=3, V=3]\n %t = input : i32[A=3]\n %l = xent[V] %x, %t "
                 "{ignore=-100, smoothing=0.1} : f32[A=3]\n return %l\n",
                 in, 12,
                 LIST((1 - e) * (lse0 - 2) + e * (lse0 - 7.0 / 3), 0,
                      (1 - e) * (lse2 - 5) + e * (lse2 - 7.0 / 3)),
                 1e-14, false);
    in[10] = 3;
    check_error("",
                "%x = input : f32[A=3, V=3]\n %t = input : i32[A=3]\n %l = xent[V] %x, %t : "
                "f32[A=3]\n return %l\n",
                in, 12, "target 3 is outside 0 <= id < V = 3");
    in[10] = 7;
    check_values("%x = input : f32[A=3, V=3]\n %t = input : i32[A=3]\n %l = xent[V] %x, %t "
                 "{ignore=7} : f32[A=3]\n return %l\n",
                 in, 12, LIST(lse0 - 2, 0, lse2 - 5), 1e-14, false);
    check_values("%x = input : f32[A=3, V=3]\n %t = input : i32[A=3]\n %l, %s = xent[V] %x, %t "
                 "{ignore=7, lse=1} : f32[A=3], f32[A=3]\n"
                 "return %l, %s\n",
                 in, 12, LIST(lse0 - 2, 0, lse2 - 5, lse0, log(3), lse2), 1e-14, false);
}

/* dot against the triple loop, bit for bit, over shapes around the sizes of its tiles and blocks.
 */
static void dot_is_the_triple_loop(void **state)
{
    (void)state;
    static const int64_t shapes[][4] = {{1, 1, 1, 1},     {2, 3, 4, 5},     {1, 5, 130, 7},
                                        {3, 4, 4, 256},   {2, 9, 129, 257}, {1, 33, 260, 513},
                                        {1, 1, 300, 300}, {1, 300, 1, 300}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        int64_t b = shapes[s][0], m = shapes[s][1], n = shapes[s][2], k = shapes[s][3];
        char body[256];
        snprintf(body, sizeof body,
                 "%%x = input : f64[A=%lld, B=%lld, D=%lld]\n %%w = input : f64[D=%lld, C=%lld, "
                 "B=%lld]\n %%y = dot[D] %%x, %%w : "
                 "f64[A=%lld, B=%lld, C=%lld]\n return %%y\n",
                 (long long)m, (long long)b, (long long)k, (long long)k, (long long)n, (long long)b,
                 (long long)m, (long long)b, (long long)n);
        sc_case *c = case_open("", "", body, (sc_interp_options){0});
        case_fill(c, 0);
        for (int64_t i = 0; i < c->inputs[0].count; i++)
            c->inputs[0].data[i] /= 7;
        if (!case_run(c))
            fail_msg("%s", c->error);
        for (int64_t i = 0; i < m * b * n; i++) {
            int64_t row = i / n / b, batch = i / n % b, column = i % n;
            double sum = 0;
            for (int64_t p = 0; p < k; p++)
                sum += c->inputs[0].data[(row * b + batch) * k + p] *
                       c->inputs[1].data[(p * n + column) * b + batch];
            assert_true(c->outputs[0].data[i] == sum);
        }
        case_close(c);
    }
}

static void dot_contracts_several_dims_in_any_order(void **state)
{
    (void)state;
    check_values("%x = input : f32[D=2, A=2, E=2]\n %w = input : f32[E=2, D=2]\n %y = dot[D, E] "
                 "%x, %w : f32[A=2]\n return %y\n",
                 LIST(1, 2, 3, 4, 5, 6, 7, 8, 1, 10, 100, 1000),
                 LIST(1 + 200 + 50 + 6000, 3 + 400 + 70 + 8000), 0, false);
    check_values("%x = input : f32[A=2]\n %w = input : f32[B=2]\n %y = dot[()] %x, %w : f32[A=2, "
                 "B=2]\n return %y\n",
                 LIST(1, 2, 3, 4), LIST(3, 4, 6, 8), 0, false);
    check_values(
        "%x = input : f32[A=3]\n %w = input : f32[A=3]\n %y = dot[A] %x, %w : f32[]\n return %y\n",
        LIST(1, 2, 3, 4, 5, 6), LIST(32), 0, false);
}

static void routed_rows_meet_their_weights(void **state)
{
    (void)state;
    /* weights 0: (1 2; 3 4), 1: (5 6; 7 8), 2: (9 9; 9 9) */
    check_values("%x = input : f32[B=2, D=2]\n %w = input : f32[V=3, D=2, C=2]\n %i = input : "
                 "i32[B=2, A=2]\n %y = routed_dot[D -> V] %x, %w, %i : f32[B=2, A=2, C=2]\n"
                 "return %y\n",
                 LIST(1, 10, 2, 20, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9, 9, 0, 1, 1, 1),
                 LIST(31, 42, 75, 86, 150, 172, 150, 172), 0, false);
    check_values("%x = input : f32[B=3, D=2]\n %y = input : f32[B=3, C=2]\n %i = input : i32[B=3]\n"
                 "%z = routed_dot_grad[B -> V] %x, %y, %i : f32[V=3, D=2, C=2]\n return %z\n",
                 LIST(1, 2, 3, 4, 5, 6, 1, 10, 2, 20, 3, 30, 2, 0, 2),
                 LIST(6, 60, 8, 80, 0, 0, 0, 0, 16, 160, 20, 200), 0, false);
    /* two parts of two experts each: a part has the rows of its own */
    check_values("%x = input : f32[B=3]\n %w = input : f32[V=4]\n %i = input : i32[B=3]\n"
                 "%y = routed_dot[() -> V] %x, %w, %i {parts = [N]} : f32[N=2, B=3]\n"
                 "%z = routed_dot[() -> V] %y, %w, %i {parts = [N]} : f32[B=3]\n"
                 "%g = routed_dot_grad[B -> V] %x, %y, %i {parts = [N]} : f32[V=4]\n"
                 "return %y, %z, %g\n",
                 LIST(1, 2, 3, 5, 6, 7, 8, 3, 0, 2),
                 LIST(0, 10, 0, 8, 0, 21, 64, 50, 147, 20, 0, 63, 8), 0, false);
    check_error("",
                "%x = input : f32[B=2, D=1]\n %w = input : f32[V=3, D=1, C=1]\n %i = input : "
                "i32[B=2]\n %y \"h\" = routed_dot[D -> V] %x, %w, %i : f32[B=2, C=1]\n return %y\n",
                LIST(1, 2, 1, 2, 3, 0, 3), "id 3 is outside 0 <= id < V = 3");
    check_error("",
                "%x = input : f32[B=2, D=1]\n %y = input : f32[B=2, C=1]\n %i = input : i32[B=2]\n"
                "%z = routed_dot_grad[B -> V] %x, %y, %i : f32[V=3, D=1, C=1]\n return %z\n",
                LIST(1, 2, 1, 2, -1, 0), "id -1");
}

static void gather_picks_and_checks(void **state)
{
    (void)state;
    check_values("%t = input : f32[V=3, D=2]\n %i = input : i32[B=2, S=2]\n %y = gather[V] %t, %i "
                 ": f32[B=2, S=2, D=2]\n return %y\n",
                 LIST(1, 2, 3, 4, 5, 6, 2, 0, 1, 2), LIST(5, 6, 1, 2, 3, 4, 5, 6), 0, false);
    /* A is a batch dim: each row picks from its own table */
    check_values("%t = input : f32[A=2, V=2]\n %i = input : i32[A=2]\n %y = gather[V] %t, %i : "
                 "f32[A=2]\n return %y\n",
                 LIST(1, 2, 3, 4, 1, 0), LIST(2, 3), 0, false);
    check_error("",
                "%t = input : f32[V=3]\n %i = input : i32[B=2]\n %y \"emb\" = gather[V] %t, %i : "
                "f32[B=2]\n return %y\n",
                LIST(1, 2, 3, 0, 3), "gather %2 emb: id 3 is outside 0 <= id < V = 3");
    check_error("",
                "%t = input : f32[V=3]\n %i = input : i32[B=2]\n %y = gather[V] %t, %i : "
                "f32[B=2]\n return %y\n",
                LIST(1, 2, 3, -1, 0), "id -1");
}

static void onehot_and_topk(void **state)
{
    (void)state;
    check_values("%i = input : i32[A=3]\n %y = onehot[V] %i : f32[A=3, V=2]\n return %y\n",
                 LIST(1, -1, 0), LIST(0, 1, 0, 0, 1, 0), 0, false);
    check_values("%x = input : f32[A=2, X=5]\n %v, %i = topk[X -> Q] %x : f32[A=2, Q=3], i32[A=2, "
                 "Q=3]\n return %v, %i\n",
                 LIST(1, 7, 7, 3, 9, NAN, -INFINITY, 0, 0, -1),
                 LIST(9, 7, 7, 0, 0, -1, 4, 1, 2, 2, 3, 4), 0, false);
    check_values("%x = input : f32[X=3, A=2]\n %v, %i = topk[X -> Q] %x : f32[Q=1, A=2], i32[Q=1, "
                 "A=2]\n return %v, %i\n",
                 LIST(1, 6, 5, 2, 3, 4), LIST(5, 6, 1, 0), 0, false);
}

static void slices_concats_renames(void **state)
{
    (void)state;
    check_values(
        "%x = input : f32[A=2, E=4]\n %y = slice[E -> R] %x {from=1} : f32[A=2, R=2]\n return %y\n",
        LIST(1, 2, 3, 4, 5, 6, 7, 8), LIST(2, 3, 6, 7), 0, false);
    check_values("%x = input : f32[A=1, B=2]\n %y = input : f32[R=2]\n %z = concat[A + R -> E] %x, "
                 "%y : f32[E=3, B=2]\n return %z\n",
                 LIST(1, 2, 3, 4), LIST(1, 2, 3, 3, 4, 4), 0, false);
    check_values("%x = input : f32[A=2, K=2, G=1]\n %h = regroup %x : f32[A=2, H=(K=2, G=1)]\n %y "
                 "= rename[A -> B] %h : f32[B=2, H=(K=2, "
                 "G=1)]\n return %y\n",
                 LIST(1, 2, 3, 4), LIST(1, 2, 3, 4), 0, false);
    check_error("",
                "%x = input : f32[E=4]\n %y = slice[E -> R] %x {from=3} : f32[R=2]\n return %y\n",
                LIST(1, 2, 3, 4), "elements 3 to 5 of 4");
}

static void last_position(void **state)
{
    (void)state;
    const char *body = "%x = input : f32[B=3, S=2, D=1]\n %n = input : i32[B=3]\n %y = last[S] %x, "
                       "%n {with=[len]} : f32[B=3, D=1]\n return %y\n";
    check_values(body, LIST(1, 2, 3, 4, 5, 6, 1, 2, 0), LIST(1, 4, 0), 0, false);
    check_error("", body, LIST(1, 2, 3, 4, 5, 6, 1, 3, 0),
                "length 3 is outside 0 <= length <= S = 2");
    check_values("%x = input : f32[B=1, S=2]\n %y = last[S] %x : f32[B=1]\n return %y\n",
                 LIST(1, 2), LIST(2), 0, false);
}

static void append_writes_at_positions(void **state)
{
    (void)state;
    const char *body =
        "%c = input : f32[B=2, T=4]\n %x = input : f32[B=2, S=2]\n %p = input : i32[B=2]\n %n = "
        "input : i32[B=2]\n"
        "%y = append[S -> T] %c, %x, %p, %n {with=[pos, len]} : f32[B=2, T=4]\n return %y\n";
    check_values(body, LIST(1, 2, 3, 4, 5, 6, 7, 8, 10, 20, 30, 40, 2, 3, 2, 1),
                 LIST(1, 2, 10, 20, 5, 6, 7, 30), 0, false);
    check_values(body, LIST(1, 2, 3, 4, 5, 6, 7, 8, 10, 20, 30, 40, 0, 4, 1, 0),
                 LIST(10, 2, 3, 4, 5, 6, 7, 8), 0, false);
    check_error("", body, LIST(1, 2, 3, 4, 5, 6, 7, 8, 10, 20, 30, 40, 0, 3, 2, 2),
                "row 1 is at position 4, outside its capacity T = 4");
}

/* What can go wrong outside an op. */
static void wrong_runs_are_errors(void **state)
{
    (void)state;
    check_error("", "%x = constant {value=0.0} : f32[A]\n return %x\n", NULL, 0,
                "a size is not known");
    check_error("", "%p = param {name=\"w\"} : f32[A=2]\n return %p\n", NULL, 0,
                "there is no state 'w'");
    check_error("", "%x = input : f32[A=2]\n %y = add %x, %x : f32[A=3]\n return %y\n", LIST(1, 2),
                "dim A is 3");
    check_error("", "%x = input : f32[A=2, B=1]\n %y = neg %x : f32[A=2]\n return %y\n", LIST(1, 2),
                "lacks");
    check_error("", "%x = input : f32[A=2]\n %y = regroup %x : f32[B=3]\n return %y\n", LIST(1, 2),
                "2 elements become 3");
    sc_case *c = case_open("", "", "%x = input : f32[A=2]\n return %x\n", (sc_interp_options){0});
    char error[512];
    assert_false(sc_interp_run(c->interp, 0, NULL, 0, c->outputs, 1, error, sizeof error));
    assert_non_null(strstr(error, "only 0 inputs"));
    sc_array two[2] = {c->inputs[0], c->inputs[0]};
    assert_false(sc_interp_run(c->interp, 0, two, 2, c->outputs, 1, error, sizeof error));
    assert_non_null(strstr(error, "2 inputs were given"));
    assert_false(sc_interp_run(c->interp, 0, c->inputs, 1, c->outputs, 0, error, sizeof error));
    c->inputs[0].sizes[0] = 1;
    assert_false(sc_interp_run(c->interp, 0, c->inputs, 1, c->outputs, 1, error, sizeof error));
    assert_non_null(strstr(error, "not of its shape"));
    case_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constants_and_indices),
        cmocka_unit_test(elementwise_unary),
        cmocka_unit_test(elementwise_binary),
        cmocka_unit_test(operands_align_by_name),
        cmocka_unit_test(powers),
        cmocka_unit_test(casts_to_integers_truncate_and_wrap),
        cmocka_unit_test(integers_are_integers),
        cmocka_unit_test(floats_round_to_nearest_even),
        cmocka_unit_test(rounding_is_off_unless_asked),
        cmocka_unit_test(reductions),
        cmocka_unit_test(softmax_and_kin_are_stable),
        cmocka_unit_test(cross_entropy),
        cmocka_unit_test(dot_is_the_triple_loop),
        cmocka_unit_test(dot_contracts_several_dims_in_any_order),
        cmocka_unit_test(routed_rows_meet_their_weights),
        cmocka_unit_test(gather_picks_and_checks),
        cmocka_unit_test(onehot_and_topk),
        cmocka_unit_test(slices_concats_renames),
        cmocka_unit_test(last_position),
        cmocka_unit_test(append_writes_at_positions),
        cmocka_unit_test(wrong_runs_are_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
