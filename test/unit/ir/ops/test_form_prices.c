/* Prices of sharded forms: what the formulas of docs/long-context.md say for any number of ranks,
 * by counting choices of experts where a formula is one of chances; and which form is cheapest. */
#include "test/unit/helpers/interp_case.h"

#include "ir/ops/capacity.h"
#include "ir/ops/form_sent.h"

/* ---- an op, placed ---- */
typedef struct placed {
    sc_case c;
    sc_type_info types[SC_MAX_FIXED_OPERANDS + 1];
    sc_form_site site;
    bool *of_inputs;
} placed;

static char text[1024];

/* Opens the first op of the kind in the text. `inputs`: dims that inputs of the program have. */
static void open_text(placed *p, const char *of_inputs)
{
    *p = (placed){.c.text = text};
    assert_true(sc_context_run(&p->c.context, 0, case_parse, &p->c));
    assert_non_null(p->c.m);
    const sc_module *m = p->c.m;
    sc_op_id found = SC_NONE;
    sc_for_each_op (m, 0, id) {
        if (found == SC_NONE && sc_first_form((sc_op_kind)sc_op_at(m, id)->kind) != SC_FORM_COUNT)
            found = id;
    }
    assert_true(found != SC_NONE);
    const sc_op *op = sc_op_at(m, found);
    for (uint32_t o = 0; o < op->operand_count; o++)
        p->types[o] = *sc_type_of(m, op->operands[o]);
    p->types[op->operand_count] = *sc_type_of(m, op->first_result);
    p->site = (sc_form_site){m, op, 0, p->types, &p->types[op->operand_count]};
    p->of_inputs = sc_arena_array(&p->c.context.arena, m->dims.count, sizeof *p->of_inputs);
    for (sc_dim d = 0; d < m->dims.count; d++)
        p->of_inputs[d] =
            strchr(of_inputs, sc_text(&p->c.context, m->dims.data[d].name)[0]) != NULL;
}

static void close_text(placed *p)
{
    sc_context_free(&p->c.context);
}

static sc_form_prices prices_of(const placed *p)
{
    sc_form_prices prices;
    sc_form_price(&p->site, p->of_inputs, &prices);
    return prices;
}

/* Attention of 64 positions over n ranks; keys as `key_dims` says, which ends in its place on the
 * mesh. */
static void open_attention(placed *p, int n, int key_heads, int group, const char *keys,
                           const char *attrs)
{
    snprintf(text, sizeof text,
             "shardc.ir 1\nstates shapes\nmesh cp = %d\n" CASE_DIMS "func @f {\n"
             "  %%q = input {name = \"q\"} : f32[B=2, S=64@cp, K=%d, G=%d, E=4]\n"
             "  %%k = input {name = \"k\"} : bf16[B=2, %s, K=%d, E=4]\n"
             "  %%v = input {name = \"v\"} : bf16[B=2, %s, K=%d, E=4]\n"
             "  %%r = attend[T, E -> S] %%q, %%k, %%v {%s} : f32[B=2, S=64@cp, K=%d, G=%d, E=4]\n"
             "  return %%r\n}\n",
             n, key_heads, group, keys, key_heads, keys, key_heads, attrs, key_heads, group);
    open_text(p, "BS");
}

/* ---- attention ---- */
static void check_sent(const sc_form_prices *prices, sc_form_id form, double forward,
                       double backward)
{
    if ((prices->possible >> form & 1) == 0)
        fail_msg("%s: %s", sc_forms[form].name, prices->barred[form]);
    if (fabs(prices->sent[form].forward - forward) > 1e-6 ||
        fabs(prices->sent[form].backward - backward) > 1e-6)
        fail_msg("%s sends %g and %g, not %g and %g", sc_forms[form].name,
                 prices->sent[form].forward, prices->sent[form].backward, forward, backward);
}

static void attention_sends_what_the_formulas_say(void **state)
{
    (void)state;
    static const int counts[][3] = {{2, 4, 1}, {4, 4, 1}, {4, 2, 2},
                                    {8, 8, 4}, {8, 2, 8}, {16, 4, 4}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        const int ranks = counts[i][0], keys = counts[i][1], group = counts[i][2];
        placed p;
        open_attention(&p, ranks, keys, group, "T=64@cp", "mask = causal");
        sc_form_prices prices = prices_of(&p);
        const double n = ranks, q = 2.0 * 64 / n * keys * group * 4 * 4,
                     kv = 2 * (2.0 * 64 / n * keys * 4 * 2); /* bf16 */
        check_sent(&prices, SC_FORM_attend_gather, (n - 1) * kv, (n - 1) * kv);
        check_sent(&prices, SC_FORM_attend_ring, (n - 1) * kv, (n - 1) * kv + (n - 1) * kv * 2);
        if (ranks <= keys) {
            const double heads = (q + kv + q) * (n - 1) / n;
            check_sent(&prices, SC_FORM_attend_heads, heads, heads);
            assert_null(prices.barred[SC_FORM_attend_heads]);
        } else { /* keys are exchanged for their heads after copies went to the ranks of a group */
            const double k = keys, g = n / k,
                         heads = 2 * q * (k - 1) / k + 2 * q * (g - 1) / g + kv * (g - 1) +
                                 g * kv * (k - 1) / k;
            check_sent(&prices, SC_FORM_attend_heads, heads, heads);
            assert_non_null(strstr(prices.barred[SC_FORM_attend_heads], "cuts the axis"));
        }
        close_text(&p);
    }
}

static void a_window_takes_some_steps_of_a_ring(void **state)
{
    (void)state;
    for (int window = 2; window <= 64; window++) {
        char attrs[64];
        snprintf(attrs, sizeof attrs, "mask = window, window = %d", window);
        placed p;
        open_attention(&p, 8, 4, 1, "T=64@cp", attrs);
        sc_form_prices prices = prices_of(&p);
        int steps = 0; /* of members before a member's last key, those that its first query sees */
        while (steps < 7 && steps * 8 < window - 1)
            steps++;
        const double kv = 2 * (2.0 * 8 * 4 * 4 * 2);
        check_sent(&prices, SC_FORM_attend_ring, steps * kv, steps * kv * 3);
        close_text(&p);
    }
}

static void what_is_whole_is_not_gathered(void **state)
{
    (void)state;
    placed p;
    open_attention(&p, 4, 4, 1, "T=64", "mask = causal");
    sc_form_prices prices = prices_of(&p);
    const double q = 2.0 * 16 * 4 * 4 * 4, kv = 2 * (2.0 * 64 * 4 * 4 * 2);
    check_sent(&prices, SC_FORM_attend_gather, 0, 2 * kv * 3 / 4);
    check_sent(&prices, SC_FORM_attend_heads, 2 * q * 3 / 4, 2 * q * 3 / 4 + kv * 3 / 4);
    assert_true((prices.possible >> SC_FORM_attend_ring & 1) == 0);
    assert_non_null(strstr(prices.barred[SC_FORM_attend_ring], "its keys are not split over cp"));
    assert_int_equal(sc_form_cheapest(&prices, false, false), SC_FORM_attend_gather);
    close_text(&p);
}

static void heads_that_do_not_divide_are_none(void **state)
{
    (void)state;
    placed p;
    open_attention(&p, 4, 3, 2, "T=64@cp", "mask = causal");
    sc_form_prices prices = prices_of(&p);
    assert_true((prices.possible >> SC_FORM_attend_heads & 1) == 0);
    assert_non_null(strstr(prices.barred[SC_FORM_attend_heads], "K = 3, G = 2"));
    close_text(&p);
}

/* ---- which is cheapest ---- */
static void the_first_of_equals_wins(void **state)
{
    (void)state;
    sc_form_prices prices = {.possible = 7, .sent = {{4, 4, 0}, {4, 8, 0}, {3, 5, 0}}};
    assert_int_equal(sc_form_cheapest(&prices, true, false), 0);
    assert_int_equal(sc_form_cheapest(&prices, false, false), 2);
    prices.sent[2] = (sc_form_sent){4, 4, 0};
    assert_int_equal(sc_form_cheapest(&prices, false, false), 0);
    prices.barred[0] = "a line asks for it";
    assert_int_equal(sc_form_cheapest(&prices, true, false), 2);
    assert_int_equal(sc_form_cheapest(&prices, false, false), 1);
    assert_int_equal(sc_form_cheapest(&prices, true, true), 0);
    prices.possible = 0;
    assert_int_equal(sc_form_cheapest(&prices, true, true), SC_FORM_COUNT);
}

/* ---- routed products ---- */
/* Ranks met by a choice of experts, as bits, summed over all choices of so many. */
static double count_met(uint32_t experts, uint32_t chosen, uint32_t ranks)
{
    double met = 0, choices = 0;
    for (uint32_t bits = 0; bits < 1u << experts; bits++) {
        uint32_t set = 0;
        if ((uint32_t)__builtin_popcount(bits) != chosen)
            continue;
        for (uint32_t x = 0; x < experts; x++)
            set |= (bits >> x & 1) << x / (experts / ranks);
        met += __builtin_popcount(set);
        choices++;
    }
    return met / choices;
}

static void ranks_met_are_those_of_all_choices(void **state)
{
    (void)state;
    for (uint32_t experts = 1; experts <= 12; experts++) {
        for (uint32_t ranks = 1; ranks <= experts; ranks++) {
            for (uint32_t chosen = 1; experts % ranks == 0 && chosen <= experts; chosen++) {
                double want = count_met(experts, chosen, ranks),
                       have = ranks * sc_part_share(experts, experts / ranks, chosen);
                if (fabs(want - have) > 1e-12 * want)
                    fail_msg("%u of %u experts on %u ranks: %g, not %g", chosen, experts, ranks,
                             have, want);
            }
        }
    }
}

static void open_routed(placed *p, const char *rows)
{
    snprintf(text, sizeof text,
             "shardc.ir 1\nstates shapes\nmesh ep = 4\n" CASE_DIMS "func @f {\n"
             "  %%x = input {name = \"x\"} : f32[%s, D=6]\n"
             "  %%w = input {name = \"w\"} : f32[X=8@ep, D=6, E=10]\n"
             "  %%i = input {name = \"i\"} : i32[%s, Q=2]\n"
             "  %%r = routed_dot[D -> X] %%x, %%w, %%i : f32[%s, Q=2, E=10]\n  return %%r\n}\n",
             rows, rows, rows);
    open_text(p, "B");
}

static void rows_go_where_their_experts_are(void **state)
{
    (void)state;
    placed p;
    open_routed(&p, "B=16@ep");
    sc_form_prices prices = prices_of(&p);
    const double rows = 4 * 6 * 4, ids = 4 * 2 * 4, met = count_met(8, 2, 4);
    check_sent(&prices, SC_FORM_routed_dot_gather, 3 * (2 * rows + ids), 3 * 2 * rows);
    check_sent(&prices, SC_FORM_routed_dot_dispatch, met * (2 * rows + ids) * 3 / 4,
               met * 2 * rows * 3 / 4);
    close_text(&p);
    open_routed(&p, "B=16");
    prices = prices_of(&p);
    check_sent(&prices, SC_FORM_routed_dot_gather, 2 * 16 * 6 * 4 * 3.0 / 4,
               2 * 16 * 6 * 4 * 3.0 / 4);
    assert_true((prices.possible >> SC_FORM_routed_dot_dispatch & 1) == 0);
    close_text(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_sends_what_the_formulas_say),
        cmocka_unit_test(a_window_takes_some_steps_of_a_ring),
        cmocka_unit_test(what_is_whole_is_not_gathered),
        cmocka_unit_test(heads_that_do_not_divide_are_none),
        cmocka_unit_test(the_first_of_equals_wins),
        cmocka_unit_test(ranks_met_are_those_of_all_choices),
        cmocka_unit_test(rows_go_where_their_experts_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
