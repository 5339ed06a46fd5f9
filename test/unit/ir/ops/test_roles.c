/* The roles of ops.def, each compared with the op itself: an op on shards of its operands, put
 * together as its roles say, gives what it gives on one device. Every op with roles has a case, or
 * the first test fails, but those that exchange shards, which means nothing on one device. */
#include "test/unit/helpers/role_subject.h"

static void every_op_with_roles_has_a_case(void **state)
{
    (void)state;
    for (uint32_t kind = 0; kind < SC_OP_COUNT; kind++) {
        bool found =
            sc_op_functions[kind].roles == NULL || (sc_ops[kind].traits & SC_COLLECTIVE) != 0;
        for (size_t i = 0; i < CASES; i++)
            found = found || cases[i].kind == kind;
        if (!found)
            fail_msg("op %s has roles and no case here", sc_ops[kind].name);
    }
}

static void count_dims(const subject *s, const sc_type_info *type, bool is_result, uint32_t at,
                       const char *body)
{
    for (uint32_t i = 0; i < type->rank; i++) {
        uint32_t found = 0;
        for (uint32_t f = 0; f < s->factors.count; f++)
            found += (is_result ? s->factors.list[f].result[at] : s->factors.list[f].operand[at]) ==
                     (int)i;
        if (found != 1)
            fail_msg("dim %u of %s %u is in %u factors\n%s", i, is_result ? "result" : "operand",
                     at, found, body);
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

/* Whether as many results as the role says have the dim: what passes is in some (each, of a single
 * one), what is reduced not in all. */
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
                fail_msg("%s: dim %s has the wrong role for its results\n%s", sc_ops[op->kind].name,
                         factor_name(&s, f), cases[i].body);
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

static void check_alike(const role_case *row, const subject *like, const char *mesh, uint32_t f,
                        uint32_t g, const splitting *split)
{
    char error[512];
    subject s = open_subject(row, mesh);
    check_offsets(row, mesh, split);
    if (!runs_alike(row, &s, split, error))
        fail_msg("%s split on %s and %s over %s: %s\n%s", sc_ops[row->kind].name,
                 factor_name(like, f), factor_name(like, g), mesh, error, row->body);
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
        split.of[f] = (sc_sub_axis_list){2, {1, 0}};
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
            if (can_split(&s, f) && factor->offset &&
                !names(cases[i].idle_offset, factor_name(&s, f)) &&
                could_be(&cases[i], f, factor->role, false))
                fail_msg("%s gives the same without its offset on %s\n%s",
                         sc_ops[cases[i].kind].name, factor_name(&s, f), cases[i].body);
        }
        case_close(s.c);
    }
}

/* A dim that must be whole, or needs a form, gives a wrong result or none when it is split without
 * more ado. */
static void whole_dims_are_needed_whole(void **state)
{
    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        subject s = open_subject(&cases[i], "");
        for (uint32_t f = 0; f < s.factors.count; f++) {
            if (can_split(&s, f) || !divides_operands(&s, f, 2) ||
                names(cases[i].spared, factor_name(&s, f)))
                continue;
            for (int role = SC_ROLE_PASSES; role <= SC_ROLE_MINS; role++) {
                if (could_be(&cases[i], f, (sc_role)role, false) ||
                    could_be(&cases[i], f, (sc_role)role, true))
                    fail_msg("%s could be split on %s, role %d\n%s", sc_ops[cases[i].kind].name,
                             factor_name(&s, f), role, cases[i].body);
            }
        }
        case_close(s.c);
    }
}

/* ---- traits that tell what a partial sum may pass ---- */

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
    subject first = run_sum(row, 0, 0), second = run_sum(row, 0, inputs),
            both = run_sum(row, inputs, 0);
    for (int64_t j = 0; j < both.c->outputs[0].count; j++) {
        double wanted = first.c->outputs[0].data[j] + second.c->outputs[0].data[j];
        if (!case_same(both.c->outputs[0].data[j], wanted, 1e-12))
            fail_msg("%s is not linear in operands %x\n%s", sc_ops[row->kind].name, inputs,
                     row->body);
    }
    case_close(first.c);
    case_close(second.c);
    case_close(both.c);
}

static void linear_ops_are_linear(void **state)
{
    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        uint32_t traits = sc_ops[cases[i].kind].traits,
                 operands = (uint32_t)sc_ops[cases[i].kind].operands;
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
