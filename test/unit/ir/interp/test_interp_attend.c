/* rope and attend of one device, against formulas of their own. */
#include <stdio.h>

#include "test/unit/helpers/interp_case.h"

/* ---- rope ---- */

static void rope_turns_pairs(void **state)
{
    (void)state;
    double c1 = cos(1), s1 = sin(1), c2 = cos(0.01), s2 = sin(0.01);
    const double in[] = {9, 8, 7, 6, 1, 2, 3, 4};
    check_values("%x = input : f64[S=2, E=4]\n %y = rope[S, E] %x {theta=10000.0, pairs=halves} : "
                 "f64[S=2, E=4]\n return %y\n",
                 in, 8,
                 LIST(9, 8, 7, 6, c1 - 3 * s1, 2 * c2 - 4 * s2, 3 * c1 + s1, 4 * c2 + 2 * s2),
                 1e-14, false);
    check_values("%x = input : f64[S=2, E=4]\n %y = rope[S, E] %x {theta=10000.0, "
                 "pairs=interleaved} : f64[S=2, E=4]\n return %y\n",
                 in, 8,
                 LIST(9, 8, 7, 6, c1 - 2 * s1, 2 * c1 + s1, 3 * c2 - 4 * s2, 4 * c2 + 3 * s2),
                 1e-14, false);
}

static void rope_adds_the_row_position(void **state)
{
    (void)state;
    check_values("%x = input : f64[S=2, B=2, E=2]\n %p = input : i32[B=2]\n"
                 "%y = rope[S, E] %x, %p {theta=10000.0, pairs=halves, with=[pos]} : f64[S=2, B=2, "
                 "E=2]\n return %y\n",
                 LIST(1, 0, 1, 0, 1, 0, 1, 0, 0, 5),
                 LIST(1, 0, cos(5), sin(5), cos(1), sin(1), cos(6), sin(6)), 1e-15, false);
}

static void rope_scales_frequencies(void **state)
{
    (void)state;
    check_values("%x = input : f64[S=2, E=2]\n %y = rope[S, E] %x {theta=10000.0, scaling=linear, "
                 "scaling_args=[4.0], pairs=halves} : "
                 "f64[S=2, E=2]\n"
                 "return %y\n",
                 LIST(1, 0, 1, 0), LIST(1, 0, cos(0.25), sin(0.25)), 1e-15, false);
    /* Wavelengths 2 pi, 2 pi 1e2, 2 pi 1e4 against 100 (short below) and 2000 (long above): kept,
     * between, divided by 8. */
    double wave = 2 * 3.14159265358979323846 * 100, smooth = (2000 / wave - 1) / (20 - 1),
           middle = 0.01 * ((1 - smooth) / 8 + smooth);
    check_values("%x = input : f64[S=2, E=6]\n"
                 "%y = rope[S, E] %x {theta=1000000.0, scaling=llama3, scaling_args=[8.0, 1.0, "
                 "20.0, 2000.0], pairs=halves} : f64[S=2, "
                 "E=6]\n return %y\n",
                 LIST(0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0),
                 LIST(0, 0, 0, 0, 0, 0, cos(1), cos(middle), cos(1e-4 / 8), sin(1), sin(middle),
                      sin(1e-4 / 8)),
                 1e-14, false);
}

/* Factor 4 beyond 64 positions, 16 elements: pair i turns 64 / (2 pi 10000^(i/8)) times in them, 8
 * times at i = 0.2, once at i = 2.02. Pair 1 is a third of the way from 0 to 3, or (1 - 0.21) /
 * (2.02 - 0.21) of it where the bounds are not rounded. */
static void rope_scales_as_yarn(void **state)
{
    (void)state;
    double first = 8 * log(64 / (8 * 2 * 3.14159265358979323846)) / log(1e4),
           past = 8 * log(64 / (2 * 3.14159265358979323846)) / log(1e4);
    double frequency = pow(1e4, -1.0 / 8);
    for (int truncate = 0; truncate < 2; truncate++) {
        double ramp = truncate ? 1.0 / 3 : (1 - first) / (past - first);
        double angle = frequency * (ramp / 4 + 1 - ramp), far = pow(1e4, -5.0 / 8) / 4;
        char body[400];
        snprintf(body, sizeof body,
                 "%%x = input : f64[S=2, E=16]\n%%y = rope[S, E] %%x {theta=10000.0, scaling=yarn, "
                 "scaling_args=[4.0, 64.0, 8.0, 1.0, 1.5, %d.0], pairs=interleaved} : f64[S=2, "
                 "E=16]\nreturn %%y\n",
                 truncate);
        double in[32] = {0}, out[32] = {0};
        in[0] = in[16] = in[18] = in[26] = 1;
        out[0] = 1.5;
        out[16] = 1.5 * cos(1);
        out[17] = 1.5 * sin(1);
        out[18] = 1.5 * cos(angle);
        out[19] = 1.5 * sin(angle);
        out[26] = 1.5 * cos(far);
        out[27] = 1.5 * sin(far);
        check_values(body, in, 32, out, 32, 1e-14, false);
    }
}

/* Each row takes the long factors if it uses more positions than the original length. */
static void rope_scales_as_longrope(void **state)
{
    (void)state;
    const char *const attributes = "{theta=10000.0, scaling=longrope, pairs=halves, "
                                   "scaling_args=[2.0, 4.0, %s.0, 1.25]";
    for (int length = 2; length < 4; length++) {
        char body[400], scaling[200];
        double factor = length == 2 ? 4 : 2;
        snprintf(scaling, sizeof scaling, attributes, length == 2 ? "2" : "3");
        snprintf(body, sizeof body,
                 "%%x = input : f64[S=3, E=2]\n%%y = rope[S, E] %%x %s} : f64[S=3, E=2]\nreturn "
                 "%%y\n",
                 scaling);
        check_values(body, LIST(1, 0, 1, 0, 1, 0),
                     LIST(1.25, 0, 1.25 * cos(1 / factor), 1.25 * sin(1 / factor),
                          1.25 * cos(2 / factor), 1.25 * sin(2 / factor)),
                     1e-14, false);
    }
    check_values("%x = input : f64[B=2, S=2, E=2]\n%p = input : i32[B=2]\n%n = input : i32[B=2]\n"
                 "%y = rope[S, E] %x, %p, %n {theta=10000.0, scaling=longrope, pairs=halves, "
                 "scaling_args=[2.0, 4.0, 6.0, 1.0], with=[pos, len]} : f64[B=2, S=2, E=2]\n"
                 "return %y\n",
                 LIST(1, 0, 1, 0, 1, 0, 1, 0, 5, 5, 1, 2),
                 LIST(cos(2.5), sin(2.5), cos(3), sin(3), cos(1.25), sin(1.25), cos(1.5), sin(1.5)),
                 1e-14, false);
}

/* Angles are rounded to f32 where values are, unless the operand is f64. */
static void rope_rounds_angles(void **state)
{
    (void)state;
    double angle = 7 * pow(10000, -0.5), narrow = (double)(float)angle;
    double in[2 * 8 * 4] = {0}, out[2 * 8 * 4];
    memcpy(out, in, sizeof in);
    in[29] = in[61] = 1;
    out[29] = (double)(float)cos(narrow);
    out[31] = (double)(float)sin(narrow);
    out[61] = cos(angle);
    out[63] = sin(angle);
    assert_true(cos(narrow) != cos(angle));
    const char *body =
        "%x = input : f32[S=8, E=4]\n %z = input : f64[S=8, E=4]\n %y = rope[S, E] %x "
        "{theta=10000.0, pairs=halves} : f32[S=8, E=4]\n"
        "%w = rope[S, E] %z {theta=10000.0, pairs=halves} : f64[S=8, E=4]\n return %y, %w\n";
    check_values(body, in, 64, out, 64, 0, true);
    out[29] = cos(angle);
    out[31] = sin(angle);
    check_values(body, in, 64, out, 64, 0, false);
}

static void rope_refuses(void **state)
{
    (void)state;
    check_error("",
                "%x = input : f64[S=1, E=3]\n %y = rope[S, E] %x {theta=10.0} : f64[S=1, E=3]\n "
                "return %y\n",
                LIST(1, 2, 3), "even");
    check_error("",
                "%x = input : f64[S=1, E=2]\n %y = rope[S, E] %x {theta=10.0, scaling=yarn} : "
                "f64[S=1, E=2]\n return %y\n",
                LIST(1, 2), "scaling yarn takes 6 numbers here, not 0");
    check_error("",
                "%x = input : f64[S=1, E=2]\n %y = rope[S, E] %x {theta=10.0, scaling=ntk} : "
                "f64[S=1, E=2]\n return %y\n",
                LIST(1, 2), "unknown scaling ntk");
    check_error("",
                "%x = input : f64[S=1, E=2]\n %y = rope[S, E] %x {theta=10.0, scaling=linear} : "
                "f64[S=1, E=2]\n return %y\n",
                LIST(1, 2), "scaling linear takes 1 number here, not 0");
}

/* ---- attend ---- */

static double log_sum(const double *s, int count)
{
    double total = 0;
    for (int i = 0; i < count; i++)
        total += exp(s[i]);
    return log(total);
}

/* One query of scores s (masked: -inf) over values v. */
static double mean_value(const double *s, const double *v, int count)
{
    double total = 0, sum = 0;
    for (int i = 0; i < count; i++) {
        total += exp(s[i]);
        sum += exp(s[i]) * v[i];
    }
    return total == 0 ? 0 : sum / total;
}

enum { LENGTH = 4 };

static const double queries[LENGTH] = {0.5, -1, 2, 1.5}, keys[LENGTH] = {1, -0.5, 0.25, 2},
                    values[LENGTH] = {10, 20, 30, 40};

/* S = T = 4, E = 1, one head: `attributes` and up to two more operands against a mask given as a
 * function of (query, key). */
static void check_mask(const char *operands, const char *types, const char *attributes,
                       const double *more, size_t more_count,
                       double (*score)(int s, int t, double dot))
{
    char body[1024];
    double in[64], out[2 * LENGTH], row[LENGTH];
    snprintf(body, sizeof body,
             "%%q = input : f64[S=4, E=1]\n %%k = input : f64[T=4, E=1]\n %%v = input : f64[T=4, "
             "E=1]\n %s"
             "%%y = attend[T, E -> S] %%q, %%k, %%v%s {scale=2.0%s} : f64[S=4, E=1]\n return %%y\n",
             types, operands, attributes);
    memcpy(in, queries, sizeof queries);
    memcpy(in + LENGTH, keys, sizeof keys);
    memcpy(in + 2 * LENGTH, values, sizeof values);
    if (more_count > 0)
        memcpy(in + 3 * LENGTH, more, more_count * sizeof *more);
    for (int s = 0; s < LENGTH; s++) {
        for (int t = 0; t < LENGTH; t++)
            row[t] = score(s, t, 2 * queries[s] * keys[t]);
        out[s] = mean_value(row, values, LENGTH);
        out[LENGTH + s] = log_sum(row, LENGTH);
    }
    check_values(body, in, 3 * LENGTH + more_count, out, LENGTH, 1e-12, false);
    snprintf(body, sizeof body,
             "%%q = input : f64[S=4, E=1]\n %%k = input : f64[T=4, E=1]\n %%v = input : f64[T=4, "
             "E=1]\n %s"
             "%%y, %%l = attend[T, E -> S] %%q, %%k, %%v%s {scale=2.0, lse=1%s} : f64[S=4, E=1], "
             "f64[S=4]\n return %%y, %%l\n",
             types, operands, attributes);
    check_values(body, in, 3 * LENGTH + more_count, out, 2 * LENGTH, 1e-12, false);
}

static double all_keys(int s, int t, double dot)
{
    (void)s, (void)t;
    return dot;
}

static double causal(int s, int t, double dot)
{
    return t <= s ? dot : -INFINITY;
}

static double window_of_two(int s, int t, double dot)
{
    return t <= s && t > s - 2 ? dot : -INFINITY;
}

static double capped(int s, int t, double dot)
{
    return causal(s, t, 1.5 * tanh(dot / 1.5));
}

static const double bias_values[LENGTH * LENGTH] = {0,  1,  2,         3, 4,   3,    2, 1,
                                                    -1, -2, -INFINITY, 5, 0.5, 0.25, 0, 0};

static double biased(int s, int t, double dot)
{
    return 1.5 * tanh(dot / 1.5) + bias_values[s * LENGTH + t];
}

static const double kept_values[LENGTH * LENGTH] = {1, 0, 1, 0, 0, 0, 0, 0, 1, 1, 1, 1, 0, 1, 0, 1};

static double kept(int s, int t, double dot)
{
    return kept_values[s * LENGTH + t] != 0 ? dot : -INFINITY;
}

static const double segment_values[LENGTH * 2] = {0, 0, 1, 1, 0, 0, 1, 1};

static double segmented(int s, int t, double dot)
{
    return s / 2 == t / 2 ? causal(s, t, dot) : -INFINITY;
}

static void attend_masks(void **state)
{
    (void)state;
    check_mask("", "", "", NULL, 0, all_keys);
    check_mask("", "", ", mask=none", NULL, 0, all_keys);
    check_mask("", "", ", mask=causal", NULL, 0, causal);
    check_mask("", "", ", mask=window, window=2", NULL, 0, window_of_two);
    check_mask("", "", ", mask=window, window=100", NULL, 0, causal);
    check_mask("", "", ", mask=causal, softcap=1.5", NULL, 0, capped);
    check_mask(", %b", "%b = input : f64[S=4, T=4]\n", ", softcap=1.5, with=[bias]", bias_values,
               16, biased);
    /* row 1 is masked: 0 */
    check_mask(", %b", "%b = input : bool[S=4, T=4]\n", ", with=[keep]", kept_values, 16, kept);
    check_mask(", %a, %b", "%a = input : i32[S=4]\n %b = input : i32[T=4]\n",
               ", mask=causal, with=[segments, key_segments]", segment_values, 8, segmented);
}

/* A sink is one more score, of a value 0. Row 0 sees key 0 only, and row 1 none. */
static void attend_has_sinks(void **state)
{
    (void)state;
    const double sinks[] = {0.5, -1};
    for (int h = 0; h < 2; h++) {
        double total = exp(1.0) + exp(sinks[h]);
        double in[] = {1, 1, 1, 2, 3, 5, sinks[h], 1, 0, 0, 0};
        check_values(
            "%q = input : f64[S=2, E=1]\n %k = input : f64[T=2, E=1]\n %v = input : "
            "f64[T=2, E=1]\n %s = input : f64[]\n %m = input : bool[S=2, T=2]\n"
            "%y, %l = attend[T, E -> S] %q, %k, %v, %s, %m {scale=1.0, lse=1, with=[sinks, "
            "keep]} : f64[S=2, E=1], f64[S=2]\n return %y, %l\n",
            in, 11, LIST(3 * exp(1.0) / total, 0, log(total), sinks[h]), 1e-14, false);
    }
}

/* Rows at positions 2 and 0 of a cache of 4, one of two new tokens real in row 1: keys at t >= pos
 * + len never count. */
static void attend_in_a_cache(void **state)
{
    (void)state;
    const char *format = "%%q = input : f64[B=2, S=2, E=1]\n %%k = input : f64[B=2, T=4, E=1]\n "
                         "%%v = input : f64[B=2, T=4, E=1]\n"
                         "%%p = input : i32[B=2]\n %%n = input : i32[B=2]\n"
                         "%%y = attend[T, E -> S] %%q, %%k, %%v, %%p, %%n {mask=%s, scale=1.0, "
                         "with=[pos, len]} : f64[B=2, S=2, E=1]\n return %%y\n";
    double in[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 2, 0, 2, 1};
    char body[600];
    snprintf(body, sizeof body, format, "causal");
    check_values(body, in, 24, LIST(2, 2.5, 5, 5), 1e-15, false);
    snprintf(body, sizeof body, format, "none");
    check_values(body, in, 24, LIST(2.5, 2.5, 5, 5), 1e-15, false);
    in[23] = 0; /* an idle row sees nothing */
    check_values(body, in, 24, LIST(2.5, 2.5, 0, 0), 1e-15, false);
}

/* Grouped queries: k and v lack G; multi-query: they lack K too; v has dims of its own instead of
 * E. */
static void attend_aligns_heads_by_name(void **state)
{
    (void)state;
    double in[12 + 12 + 12];
    for (int i = 0; i < 36; i++)
        in[i] = sin(i);
    double out[2 * 2 * 3];
    for (int k = 0; k < 2; k++) {
        for (int g = 0; g < 2; g++) {
            for (int x = 0; x < 3; x++) {
                double s[3], v[3];
                for (int t = 0; t < 3; t++) {
                    s[t] = in[(k * 2 + g) * 2] * in[8 + (t * 2 + k) * 2] +
                           in[(k * 2 + g) * 2 + 1] * in[8 + (t * 2 + k) * 2 + 1];
                    v[t] = in[20 + t * 3 + x];
                }
                out[(k * 2 + g) * 3 + x] = mean_value(s, v, 3);
            }
        }
    }
    check_values("%q = input : f64[K=2, G=2, E=2]\n %k = input : f64[T=3, K=2, E=2]\n %v = input : "
                 "f64[T=3, X=3]\n"
                 "%y = attend[T, E] %q, %k, %v {scale=1.0} : f64[K=2, G=2, X=3]\n return %y\n",
                 in, 29, out, 12, 1e-14, false);
}

static void attend_defaults_its_scale(void **state)
{
    (void)state;
    check_values("%q = input : f64[E=4]\n %k = input : f64[T=2, E=4]\n %v = input : f64[T=2, "
                 "E=4]\n %y = attend[T, E] %q, %k, %v : "
                 "f64[E=4]\n return %y\n",
                 LIST(2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0),
                 LIST(exp(1) / (1 + exp(1)), 1 / (1 + exp(1)), 0, 0), 1e-15, false);
}

static void attend_refuses(void **state)
{
    (void)state;
    const char *head =
        "%q = input : f64[S=1, E=1]\n %k = input : f64[T=1, E=1]\n %v = input : f64[T=1, E=1]\n";
    char body[512];
    snprintf(body, sizeof body,
             "%s %%y = attend[T, E] %%q, %%k, %%v {mask=causal} : f64[S=1, E=1]\n return %%y\n",
             head);
    check_error("", body, LIST(1, 1, 1), "query dim");
    snprintf(body, sizeof body,
             "%s %%y = attend[T, E -> S] %%q, %%k, %%v {mask=odd} : f64[S=1, E=1]\n return %%y\n",
             head);
    check_error("", body, LIST(1, 1, 1), "unknown mask odd");
    snprintf(body, sizeof body, "%s %%y = attend[T] %%q, %%k, %%v : f64[S=1, E=1]\n return %%y\n",
             head);
    check_error("", body, LIST(1, 1, 1), "a key and a head dim");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rope_turns_pairs),
        cmocka_unit_test(rope_adds_the_row_position),
        cmocka_unit_test(rope_scales_frequencies),
        cmocka_unit_test(rope_scales_as_yarn),
        cmocka_unit_test(rope_scales_as_longrope),
        cmocka_unit_test(rope_rounds_angles),
        cmocka_unit_test(rope_refuses),
        cmocka_unit_test(attend_masks),
        cmocka_unit_test(attend_has_sinks),
        cmocka_unit_test(attend_in_a_cache),
        cmocka_unit_test(attend_aligns_heads_by_name),
        cmocka_unit_test(attend_defaults_its_scale),
        cmocka_unit_test(attend_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
