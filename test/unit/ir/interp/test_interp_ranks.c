/* The ranks in lock step: every collective against the one-device meaning of the same text, which
 * is the identity; sharded ops with their offsets; and programs that say the wrong thing, which
 * must not come out right. */
#include "test/unit/helpers/interp_case.h"

static const char *const mesh6 = "x = 2, y = 3\n";

static void all_gather_concatenates_in_group_order(void **state)
{
    (void)state;
    check_ranks(mesh6,
                "%a = input : f32[A=6@x, C=2]\n %b = all_gather %a {over=[x], gather=[A]} : "
                "f32[A=6, C=2]\n return %b\n",
                0);
    check_ranks(mesh6,
                "%a = input : f32[C=2, A=6@(x, y)]\n %b = all_gather %a {over=[x, y], gather=[A]} "
                ": f32[C=2, A=6]\n return %b\n",
                0);
    check_ranks(mesh6,
                "%a = input : f32[A=6@(y, x)]\n %b = all_gather %a {over=[y, x], gather=[A]} : "
                "f32[A=6]\n return %b\n",
                0);
    check_ranks(mesh6,
                "%a = input : f32[A=6@(y, x)]\n %b = all_gather %a {over=[x], gather=[A]} : "
                "f32[A=6@y]\n return %b\n",
                0);
    check_ranks(
        mesh6,
        "%a = input : f32[A=6@y]\n %b = input : f32[C=3, A=4@x]\n %c = input : f32[A=3@y, C=2@x]\n"
        "%d, %e = all_gather %a, %c {over=[y], gather=[A, A]} : f32[A=6], f32[A=3, C=2@x]\n return "
        "%d, %b, %e\n",
        0);
}

static void wrong_gathers_do_not_come_out_right(void **state)
{
    (void)state;
    check_wrong(mesh6,
                "%a = input : f32[A=6@(x, y)]\n %b = all_gather %a {over=[y, x], gather=[A]} : "
                "f32[A=6]\n return %b\n",
                0);
    check_wrong(mesh6,
                "%a = input : f32[A=6@(x, y)]\n %b = all_gather %a {over=[x], gather=[A]} : "
                "f32[A=6@y]\n return %b\n",
                0);
    check_wrong(mesh6,
                "%a = input : f32[A=6@x, C=2]\n %b = all_gather %a {over=[x], gather=[C]} : "
                "f32[A=6, C=2]\n return %b\n",
                0);
    check_wrong(mesh6,
                "%a = input : f32[A=6@x, C=2]\n %b = all_gather %a {over=[y], gather=[A]} : "
                "f32[A=6, C=2]\n return %b\n",
                0);
    check_wrong(mesh6,
                "%a = input : f32[A=6@x]\n %b = all_gather %a {over=[x]} : f32[A=6]\n return %b\n",
                0);
}

static void all_slice_takes_its_own(void **state)
{
    (void)state;
    check_ranks(mesh6,
                "%a = input : f32[C=2, A=6]\n %b = all_slice %a {over=[y, x], gather=[A]} : "
                "f32[C=2, A=6@(y, x)]\n return %b\n",
                0);
    check_ranks(mesh6,
                "%a = input : f32[A=6@x]\n %b = all_slice %a {over=[y], gather=[A]} : f32[A=6@(x, "
                "y)]\n return %b\n",
                0);
    check_wrong(mesh6,
                "%a = input : f32[A=6]\n %b = all_slice %a {over=[x, y], gather=[A]} : f32[A=6@(y, "
                "x)]\n return %b\n",
                0);
    check_wrong(mesh6,
                "%a = input : f32[A=6@y]\n %b = all_slice %a {over=[x], gather=[A]} : f32[A=6@(x, "
                "y)]\n return %b\n",
                0);
}

/* Uneven storage: 7 over 3 is 3, 3, 1 with two elements of padding, which nobody sees. */
static void storage_may_be_uneven(void **state)
{
    (void)state;
    check_ranks(mesh6,
                "%a = input : f32[A=7@y]\n %b = all_gather %a {over=[y], gather=[A]} : f32[A=7]\n "
                "return %b\n",
                0);
    check_ranks(mesh6,
                "%a = input : f32[A=7, C=2]\n %b = all_slice %a {over=[x, y], gather=[A]} : "
                "f32[A=7@(x, y), C=2]\n return %b\n",
                0);
    check_ranks("x = 4\n",
                "%a = input : f32[A=5@x]\n %b = neg %a : f32[A=5@x]\n %c = all_gather %b "
                "{over=[x], gather=[A]} : f32[A=5]\n return %b, %c\n",
                0);
    check_ranks(
        mesh6,
        "%a = input : f32[A=7, D=6@y]\n %w = input : f32[D=6@y]\n %b = dot[D] %a, %w : "
        "f32[A=7]{sum:y}\n"
        "%c = reduce_scatter %b {over=[y], reduce=sum, gather=[A]} : f32[A=7@y]\n return %c\n",
        100);
    char error[512]; /* 10 over (2, 2): shards of 3, but halves of 5 */
    assert_false(compare_ranks("x = 2, y = 2\n",
                               "%a = input : f32[A=10@(x, y)]\n %b = all_gather %a {over=[y], "
                               "gather=[A]} : f32[A=10@x]\n return %b\n",
                               0, true, error));
    assert_non_null(strstr(error, "2 pieces of 3 do not make 5"));
}

static void reductions_of_partial_sums(void **state)
{
    (void)state;
    const char *head = "%a = input : f32[A=6, D=6@(x, y)]\n %w = input : f32[D=6@(x, y), C=2]\n %p "
                       "= dot[D] %a, %w : f32[A=6, C=2]{sum:(x, y)}\n";
    static const char *const tails[] = {
        "%r = all_reduce %p {over=[x, y], reduce=sum} : f32[A=6, C=2]\n return %r\n",
        "%q = all_reduce %p {over=[y], reduce=sum} : f32[A=6, C=2]{sum:x}\n %r = all_reduce %q "
        "{over=[x], reduce=sum} : f32[A=6, C=2]\n "
        "return %r\n",
        "%r = reduce_scatter %p {over=[x, y], reduce=sum, gather=[A]} : f32[A=6@(x, y), C=2]\n "
        "return %r\n",
        "%r = reduce_scatter %p {over=[y, x], reduce=sum, gather=[A]} : f32[A=6@(y, x), C=2]\n "
        "return %r\n",
        "%q = reduce_scatter %p {over=[x], reduce=sum, gather=[C]} : f32[A=6, C=2@x]{sum:y}\n"
        "%r = reduce_scatter %q {over=[y], reduce=sum, gather=[A]} : f32[A=6@y, C=2@x]\n return "
        "%r\n",
    };
    static const char *const wrong[] = {
        "%r = all_reduce %p {over=[x], reduce=sum} : f32[A=6, C=2]\n return %r\n",
        "%r = all_reduce %p {over=[x, y], reduce=max} : f32[A=6, C=2]\n return %r\n",
        "%r = all_reduce %p {over=[x, y], reduce=mean} : f32[A=6, C=2]\n return %r\n",
        ("%r = reduce_scatter %p {over=[x, y], reduce=sum, gather=[A]} : f32[A=6@(y, x), C=2]\n "
         "return %r\n"),
        "return %p\n",
        "%r = regroup %p : f32[A=6, C=2]\n return %r\n",
    };
    char body[1024];
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) {
        snprintf(body, sizeof body, "%s%s", head, tails[i]);
        check_ranks(mesh6, body, 100);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(body, sizeof body, "%s%s", head, wrong[i]);
        check_wrong(mesh6, body, 100);
    }
}

static void reductions_of_partial_extremes(void **state)
{
    (void)state;
    check_ranks(
        mesh6,
        "%a = input : f32[A=6@(x, y), C=4]\n %m = max[A] %a : f32[C=4]{max:(x, y)}\n %n = min[A] "
        "%a : f32[C=4]{min:(x, y)}\n"
        "%r = all_reduce %m {over=[x, y], reduce=max} : f32[C=4]\n %q = all_reduce %n {over=[y], "
        "reduce=min} : f32[C=4]{min:x}\n"
        "%s = reduce_scatter %q {over=[x], reduce=min, gather=[C]} : f32[C=4@x]\n return %r, %s\n",
        0);
}

static void all_to_all_moves_the_split(void **state)
{
    (void)state;
    check_ranks(mesh6,
                "%a = input : f32[A=6@y, C=3, D=2]\n %b = all_to_all %a {over=[y], gather=[A], "
                "scatter=[C]} : f32[A=6, C=3@y, D=2]\n return %b\n",
                0);
    check_ranks(mesh6,
                "%a = input : f32[A=6, C=12@(x, y)]\n %b = all_to_all %a {over=[x, y], gather=[C], "
                "scatter=[A]} : f32[A=6@(x, y), C=12]\n "
                "return %b\n",
                0);
    check_ranks(mesh6,
                "%a = input : f32[A=6, C=12@(x, y)]\n %b = all_to_all %a {over=[y], gather=[C], "
                "scatter=[A]} : f32[A=6@y, C=12@x]\n return %b\n",
                0);
    check_wrong(mesh6,
                "%a = input : f32[A=6, C=12@(x, y)]\n %b = all_to_all %a {over=[y, x], gather=[C], "
                "scatter=[A]} : f32[A=6@(x, y), C=12]\n "
                "return %b\n",
                0);
    check_wrong(mesh6,
                "%a = input : f32[A=6@y, C=6]\n %b = all_to_all %a {over=[y], gather=[C], "
                "scatter=[A]} : f32[A=6, C=6@y]\n return %b\n",
                0);
}

static void permute_fetches_what_the_type_says(void **state)
{
    (void)state;
    check_ranks(mesh6,
                "%a = input : f32[A=6@(x, y)]\n %b = collective_permute %a {over=[x, y]} : "
                "f32[A=6@(y, x)]\n "
                "return %b\n",
                0);
    check_ranks("x = 2, y = 2\n",
                "%a = input : f32[A=4@x, C=3]\n %b = collective_permute %a {over=[x, y]} : "
                "f32[A=4@y, C=3]\n "
                "return %b\n",
                0);
    check_ranks("x = 2, y = 2, z = 2\n",
                "%a = input : f32[A=4@x, D=4@z]\n %w = input : f32[D=4@z]\n %p = dot[D] %a, %w : "
                "f32[A=4@x]{sum:z}\n"
                "%q = collective_permute %p {over=[x, y]} : f32[A=4@y]{sum:z}\n %r = all_reduce %q "
                "{over=[z], "
                "reduce=sum} : f32[A=4@y]\n return %r\n",
                50);
    char error[512];
    assert_false(compare_ranks(mesh6,
                               "%a = input : f32[A=6@(x, y)]\n %b = collective_permute %a "
                               "{over=[x]} : f32[A=6@(y, x)]\n return %b\n",
                               0, true, error));
    assert_non_null(strstr(error, "no rank of its group has the shard"));
    assert_false(compare_ranks(mesh6,
                               "%a = input : f32[A=6@x]\n %b = collective_permute %a {over=[x, y]} "
                               ": f32[A=6@y]\n return %b\n",
                               0, true, error));
}

/* ---- reshard, and collectives in general, on random placements ---- */

static uint32_t next_random(uint32_t *x)
{
    *x = *x * 1664525u + 1013904223u;
    return *x >> 16;
}

/* A type of three dims with each of three axes on a random one or none; some dims are not divided
 * evenly. */
static void random_type(uint32_t *x, char *text, size_t size)
{
    static const char *const names[] = {"p", "q", "r"};
    const char *order[3][3];
    int count[3] = {0};
    uint32_t first = next_random(x) % 3;
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t dim = next_random(x) % 4;
        if (dim < 3)
            order[dim][count[dim]++] = names[(first + i) % 3];
    }
    int at = snprintf(text, size, "f32[");
    for (int d = 0; d < 3; d++) {
        at += snprintf(
            text + at, size - (size_t)at, "%s%c=%d%s", d == 0 ? "" : ", ", "ACD" [d],
            (const int[]) { 12, 5, 24 }[d], count[d] == 0 ? "" : "@(");
        for (int i = 0; i < count[d]; i++)
            at += snprintf(text + at, size - (size_t)at, "%s%s", order[d][i],
                           i + 1 == count[d] ? ")" : ", ");
    }
    snprintf(text + at, size - (size_t)at, "]");
}

static void reshard_from_anything_to_anything(void **state)
{
    (void)state;
    uint32_t x = 1;
    for (int i = 0; i < 200; i++) {
        char from[128], to[128], back[128], body[1024];
        random_type(&x, from, sizeof from);
        random_type(&x, to, sizeof to);
        random_type(&x, back, sizeof back);
        snprintf(body, sizeof body,
                 "%%a = input : %s\n %%b = reshard %%a : %s\n %%c = neg %%b : %s\n %%d = reshard "
                 "%%c : %s\n return %%a, %%b, %%c, %%d\n",
                 from, to, to, back);
        check_ranks("p = 2, q = 2, r = 3\n", body, 0);
    }
}

static void reshard_reduces(void **state)
{
    (void)state;
    check_ranks(mesh6,
                "%a = input : f32[A=6, D=6@(x, y)]\n %w = input : f32[D=6@(x, y)]\n %p = dot[D] "
                "%a, %w : f32[A=6]{sum:(x, y)}\n"
                "%q = reshard %p : f32[A=6@y]{sum:x}\n %r = reshard %q : f32[A=6@x]\n return %r\n",
                100);
    check_ranks(mesh6,
                "%a = input : f32[A=6@(y, x), C=2]\n %p = max[A] %a : f32[C=2]{max:(x, y)}\n %q = "
                "reshard %p : f32[C=2]{max:y}\n %r = "
                "reshard %q : f32[C=2@x]\n"
                "return %r\n",
                0);
    /* what a rank without a part holds must not win: all values are negative, or all positive */
    check_ranks(mesh6,
                "%a = input : f32[C=4]\n %b = neg %a : f32[C=4]\n %p = reshard %b : "
                "f32[C=4]{max:y}\n %q = reshard %a : f32[C=4]{min:(x, y)}\n"
                "%r = all_reduce %p {over=[y], reduce=max} : f32[C=4]\n %s = all_reduce %q "
                "{over=[x, y], reduce=min} : f32[C=4]\n return %r, %s\n",
                50);
}

/* An axis in two sub-axes: K over the first, replicated over the second. */
static void sub_axes_of_one_axis(void **state)
{
    (void)state;
    check_ranks(
        "tp = 6 split (2, 3)\n",
        "%a = input : f32[H=(K=2@tp.0, G=3@tp.1), E=2]\n %b = all_gather %a {over=[tp.1], "
        "gather=[G]} : f32[H=(K=2@tp.0, G=3), E=2]\n"
        "%c = all_gather %b {over=[tp.0], gather=[K]} : f32[H=(K=2, G=3), E=2]\n return %b, %c\n",
        0);
}

/* ---- sharded ops ---- */

static void ops_know_their_global_index(void **state)
{
    (void)state;
    check_ranks(mesh6, "%i = index[S] {offset=[S@(y, x)]} : i32[S=12@(y, x)]\n return %i\n", 0);
    check_wrong(mesh6, "%i = index[S] : i32[S=12@(y, x)]\n return %i\n", 0);
    check_ranks(
        mesh6,
        "%i = input : i32[A=5]\n %h = onehot[V] %i {offset=[V@y]} : f32[A=5, V=9@y]\n return %h\n",
        9);
    check_ranks(mesh6,
                "%t = input : f32[V=9@y, D=2@x]\n %i = input : i32[B=4]\n %p = gather[V] %t, %i "
                "{offset=[V@y]} : f32[B=4, D=2@x]{sum:y}\n"
                "%r = all_reduce %p {over=[y], reduce=sum} : f32[B=4, D=2@x]\n return %r\n",
                9);
    check_wrong(mesh6,
                "%t = input : f32[V=9@y]\n %i = input : i32[B=8]\n %p = gather[V] %t, %i : "
                "f32[B=8]{sum:y}\n"
                "%r = all_reduce %p {over=[y], reduce=sum} : f32[B=8]\n return %r\n",
                9);
    check_ranks(mesh6,
                "%a = input : f64[S=6@y, A=2@x, E=4]\n %r = rope[S, E] %a {theta=100.0, "
                "pairs=halves, offset=[S@y]} : f64[S=6@y, A=2@x, "
                "E=4]\n return %r\n",
                9);
    check_wrong(mesh6,
                "%a = input : f64[S=6@y, E=4]\n %r = rope[S, E] %a {theta=100.0, pairs=halves} : "
                "f64[S=6@y, E=4]\n return %r\n",
                9);
}

static void attention_on_shards(void **state)
{
    (void)state;
    const char *format = "%%q = input : f64[S=6@y, H=(K=2@x, G=2), E=4]\n %%k = input : f64[T=6, "
                         "K=2@x, E=4]\n %%v = input : f64[T=6, K=2@x, E=4]\n"
                         "%%o = attend[T, E -> S] %%q, %%k, %%v {mask=causal, scale=0.125%s} : "
                         "f64[S=6@y, H=(K=2@x, G=2), E=4]\n return %%o\n";
    char body[512];
    snprintf(body, sizeof body, format, ", offset=[S@y]");
    check_ranks(mesh6, body, 9);
    snprintf(body, sizeof body, format, "");
    check_wrong(mesh6, body, 9);
}

/* Row 0 appends at 1 and 2, row 1 at 0 and 1; T is split, and the last real row is read from
 * whichever rank has it. */
static void caches_on_shards(void **state)
{
    (void)state;
    check_ranks(
        mesh6,
        "%c = input : f32[B=2@x, T=6@y]\n %x = input : f32[B=2@x, S=3]\n %p = input : i32[B=2@x]\n "
        "%n = input : i32[B=2@x]\n"
        "%y = append[S -> T] %c, %x, %p, %n {with=[pos, len], offset=[T@y]} : f32[B=2@x, T=6@y]\n"
        "%l = last[T] %y, %n {with=[len], offset=[T@y]} : f32[B=2@x]{sum:y}\n %m = all_reduce %l "
        "{over=[y], reduce=sum} : "
        "f32[B=2@x]\n return %y, %m\n",
        4);
    check_ranks(
        mesh6,
        "%y = input : f32[B=2@x, S=6@y]\n %l = last[S] %y {offset=[S@y]} : f32[B=2@x]{sum:y}\n"
        "%m = all_reduce %l {over=[y], reduce=sum} : f32[B=2@x]\n return %m\n",
        0);
    check_ranks(
        mesh6,
        "%c = input : f32[B=6, T=6@y]\n %x = input : f32[B=6, S=3]\n %p = input : i32[B=6]\n"
        "%y = append[S -> T] %c, %x, %p {with=[pos], offset=[T@y]} : f32[B=6, T=6@y]\n return %y\n",
        4);
}

/* An id out of range is an error on the first rank already, though no rank holds it. */
static void bad_ids_are_errors_on_every_rank(void **state)
{
    (void)state;
    check_error(mesh6,
                "%t = input : f32[V=3@y]\n %i = input : i32[B=1]\n %p = gather[V] %t, %i "
                "{offset=[V@y]} : f32[B=1]{sum:y}\n"
                "%r = all_reduce %p {over=[y], reduce=sum} : f32[B=1]\n return %r\n",
                LIST(1, 2, 3, 3), "gather %2 on rank 0: id 3 is outside 0 <= id < V = 3");
    check_error(mesh6,
                "%x = input : f32[B=1, V=3@y]\n %i = input : i32[B=1]\n %p = xent[V] %x, %i : "
                "f32[B=1]\n return %p\n",
                LIST(1, 2, 3, 1), "dim V is split here");
}

static void replicas_that_differ_are_found(void **state)
{
    (void)state;
    check_error(mesh6, "%i = index[S] {offset=[S@y]} : i32[S=2]\n return %i\n", NULL, 0,
                "the replicas of a result on ranks 0 and 1 differ");
    check_error(
        mesh6,
        "%i = index[S] {offset=[S@y]} : i32[S=2]\n %j = reshard %i : i32[S=2@x]\n return %j\n",
        NULL, 0, "differ");
    check_error(mesh6, "%i = input : f32[S=2]{sum:x}\n %j = reshard %i : f32[S=2]\n return %j\n",
                LIST(1, 2), "cannot be a partial reduction");
}

static void sums_are_rounded_after_the_reduction(void **state)
{
    (void)state;
    sc_case *c = case_open("x = 4\n", "",
                           "%a = input : bf16[A=4@x]\n %s = sum[A] %a : bf16[]{sum:x}\n %r = "
                           "all_reduce %s {over=[x], reduce=sum} : bf16[]\n return %r\n",
                           (sc_interp_options){.ranks = true, .round = true});
    case_set_inputs(c, LIST(256, 1.001, 1, 1));
    assert_true(case_run(c));
    /* 259 to nearest even of 8 bits; 256 if each addition were rounded */
    case_expect(c, LIST(260), 0);
    case_close(c);
}

/* ---- state, kept values, stopping ---- */

static const char *const counter_state =
    "state param \"w\": f32[A=4@x, C=3] = zeros\nstate cache \"c\": f32[A=4@x, C=3] = zeros\nstate "
    "grad \"g\": f32[C=3]{sum:x} = zeros\n";
static const char *const counter_body =
    "%w = param {name=\"w\"} : f32[A=4@x, C=3]\n %c = cache_read {name=\"c\"} : f32[A=4@x, C=3]\n"
    "%n = add %w, %c : f32[A=4@x, C=3]\n cache_write %n {name=\"c\"}\n"
    "%d = cache_read {name=\"c\"} : f32[A=4@x, C=3]\n %s = sum[A] %n : f32[C=3]{sum:x}\n"
    "%g = state_read {name=\"g\"} : f32[C=3]{sum:x}\n state_write %s {name=\"g\"}\n return %d\n";

static void state_lives_across_runs(void **state)
{
    (void)state;
    for (int ranks = 0; ranks < 2; ranks++) {
        sc_case *c = case_open("x = 2, y = 2\n", counter_state, counter_body,
                               (sc_interp_options){.ranks = ranks != 0});
        double w[12];
        for (int i = 0; i < 12; i++)
            w[i] = i;
        assert_true(sc_interp_set_state(c->interp, 0, w));
        for (int run = 0; run < 3; run++) {
            if (!case_run(c))
                fail_msg("%s", c->error);
            for (int i = 0; i < 12; i++) /* what is read is what was there before the run */
                assert_true(c->outputs[0].data[i] == run * i);
        }
        bool agree = false;
        sc_array cache = sc_interp_get_state(c->interp, 1, &agree),
                 sums = sc_interp_get_state(c->interp, 2, NULL);
        assert_true(agree && cache.rank == 2 && cache.data[11] == 33);
        assert_true(sums.rank == 1 && sums.data[0] == 54 && sums.data[2] == 78);
        sc_array_free(&cache);
        sc_array_free(&sums);
        /* a partial sum is whole on one rank, nothing on the others */
        assert_true(sc_interp_set_state(c->interp, 2, w));
        sums = sc_interp_get_state(c->interp, 2, &agree);
        assert_true(agree && sums.data[1] == 1 && sums.data[2] == 2);
        sc_array_free(&sums);
        assert_false(sc_interp_set_state(c->interp, 3, w));
        assert_null(sc_interp_get_state(c->interp, 3, NULL).data);
        case_close(c);
    }
}

static void a_failed_run_leaves_state_alone(void **state)
{
    (void)state;
    sc_case *c = case_open("", "state cache \"c\": f32[A=1] = zeros\n",
                           "%x = input : f32[A=1]\n cache_write %x {name=\"c\"}\n %i = cast %x : "
                           "i32[A=1]\n %y = gather[A] %x, %i : f32[]\n return %y\n",
                           (sc_interp_options){0});
    c->inputs[0].data[0] = 7;
    assert_false(case_run(c));
    sc_array cache = sc_interp_get_state(c->interp, 0, NULL);
    assert_true(cache.data[0] == 0);
    sc_array_free(&cache);
    case_close(c);
}

static bool keep_all(const sc_module *m, sc_value value, void *user)
{
    (void)m;
    return value != *(const sc_value *)user;
}

static void values_are_kept_where_asked(void **state)
{
    (void)state;
    sc_case *c = case_open("x = 2\n", "",
                           "%a = input : f32[A=2@x]\n %b = neg %a : f32[A=2@x]\n %s = sum[A] %b : "
                           "f32[]{sum:x}\n %i = index[S] "
                           "{offset=[S@x]} : i32[S=1]\n return\n",
                           (sc_interp_options){.ranks = true});
    sc_value dropped = sc_result(c->m, c->m->funcs.data[0].first, 0);
    c->inputs[0].data[0] = 1;
    c->inputs[0].data[1] = 10;
    sc_interp_keep(c->interp, keep_all, &dropped);
    assert_true(case_run(c) && case_run(c));
    bool agree = false;
    sc_array b = sc_interp_get_value(c->interp, dropped + 1, &agree),
             s = sc_interp_get_value(c->interp, dropped + 2, NULL);
    assert_true(agree && b.data[0] == -1 && b.data[1] == -10 && s.data[0] == -11);
    assert_null(sc_interp_get_value(c->interp, dropped, NULL).data);
    sc_array i = sc_interp_get_value(c->interp, dropped + 3, &agree);
    assert_false(agree);
    sc_array_free(&b);
    sc_array_free(&s);
    sc_array_free(&i);
    sc_interp_keep(c->interp, NULL, NULL);
    assert_null(sc_interp_get_value(c->interp, dropped + 1, NULL).data);
    case_close(c);
}

static bool count_down(void *user)
{
    return --*(int *)user > 0;
}

static void tick_stops_the_run(void **state)
{
    (void)state;
    int left = 2;
    sc_case *c =
        case_open("", "", "%a = constant {value=1.0} : f32[]\n %b = neg %a : f32[]\n return %b\n",
                  (sc_interp_options){.tick = count_down, .user = &left});
    assert_false(case_run(c));
    assert_non_null(strstr(c->error, "neg %1: stopped"));
    left = 100;
    assert_true(case_run(c));
    case_close(c);
}

/* Twice round a ring is where it began. */
static void rotate_passes_shards_on(void **state)
{
    (void)state;
    check_ranks(mesh6,
                "%a = input : f32[A=6@y, C=2]\n %b = input : f32[B=4@x, D=9@y]\n"
                "%c, %d = rotate %a, %b {over=[y], shift=1} : f32[A=6@y, C=2], f32[B=4@x, D=9@y]\n"
                "%e, %f = rotate %c, %d {over=[y], shift=2} : f32[A=6@y, C=2], f32[B=4@x, D=9@y]\n"
                "return %e, %f\n",
                0);
    check_ranks(mesh6,
                "%a = input : f32[A=12@(x, y)]\n %b = rotate %a {over=[x, y], shift=5} : "
                "f32[A=12@(x, y)]\n %c = rotate %b {over=[x, y], shift=1} : f32[A=12@(x, y)]\n"
                "return %c\n",
                0);
    check_wrong(mesh6,
                "%a = input : f32[A=6@y]\n %b = rotate %a {over=[y], shift=1} : f32[A=6@y]\n"
                "return %b\n",
                0);
    check_wrong(mesh6,
                "%a = input : f32[A=6@y]\n %b = rotate %a {over=[y], shift=1} : f32[A=6@y]\n"
                "%c = rotate %b {over=[y], shift=1} : f32[A=6@y]\n return %c\n",
                0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_gather_concatenates_in_group_order),
        cmocka_unit_test(wrong_gathers_do_not_come_out_right),
        cmocka_unit_test(all_slice_takes_its_own),
        cmocka_unit_test(storage_may_be_uneven),
        cmocka_unit_test(reductions_of_partial_sums),
        cmocka_unit_test(reductions_of_partial_extremes),
        cmocka_unit_test(all_to_all_moves_the_split),
        cmocka_unit_test(permute_fetches_what_the_type_says),
        cmocka_unit_test(rotate_passes_shards_on),
        cmocka_unit_test(reshard_from_anything_to_anything),
        cmocka_unit_test(reshard_reduces),
        cmocka_unit_test(sub_axes_of_one_axis),
        cmocka_unit_test(ops_know_their_global_index),
        cmocka_unit_test(attention_on_shards),
        cmocka_unit_test(caches_on_shards),
        cmocka_unit_test(bad_ids_are_errors_on_every_rank),
        cmocka_unit_test(replicas_that_differ_are_found),
        cmocka_unit_test(sums_are_rounded_after_the_reduction),
        cmocka_unit_test(state_lives_across_runs),
        cmocka_unit_test(a_failed_run_leaves_state_alone),
        cmocka_unit_test(values_are_kept_where_asked),
        cmocka_unit_test(tick_stops_the_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
