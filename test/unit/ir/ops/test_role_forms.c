/* What stands for an op whose dim cannot be split as it is: its form means the op, whole and on
 * shards, and through all passes; and no op reads what pads a dim. */
#include "test/unit/helpers/role_subject.h"

#include "passes/pass.h"

/* ---- forms ---- */

static bool has_form(const subject *s)
{
    return sc_op_functions[sc_op_at(s->c->m, s->op)->kind].expand != NULL;
}

/* The op replaced by its expansion for this many shards. */
static void expand_op(const subject *s, uint64_t shards)
{
    sc_module *m = s->c->m;
    sc_expand expand = {
        .e = {.m = m, .func = sc_op_at(m, s->op)->func, .before = s->op, .like = s->op},
        .shards = shards,
        .made_dim = SC_NONE};
    sc_op_functions[sc_op_at(m, s->op)->kind].expand(&expand);
    for (uint32_t i = 0; i < sc_op_at(m, s->end)->operand_count; i++)
        sc_op_at(m, s->end)->operands[i] =
            expand.results[sc_op_at(m, s->end)->operands[i] - sc_op_at(m, s->op)->first_result];
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
            fail_msg("the expansion of %s: %s\n%s", sc_ops[row->kind].name, expanded.c->error,
                     row->body);
        if (!same_outputs(whole.c, expanded.c))
            fail_msg("the expansion of %s differs%s\n%s", sc_ops[row->kind].name,
                     masked ? " on masked rows" : "", row->body);
    }
    case_close(whole.c);
    case_close(expanded.c);
}

static void expansions_mean_their_op(void **state)
{
    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        for (uint64_t shards = 1; sc_op_functions[cases[i].kind].expand != NULL && shards <= 4;
             shards++) {
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
        ((pipeline *)user)->expanded =
            ((pipeline *)user)->expanded || sc_op_attr(sc_op_at(m, op), SC_ATTR_form) != NULL;
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
static void check_through_pipeline(const role_case *row, const char *mesh, const splitting *split,
                                   bool masked)
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
        fail_msg("%s over %s did not do as its form's cost says\n%s", sc_ops[row->kind].name, mesh,
                 row->body);
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
        fail_msg("%s over %s differs%s\n%s", sc_ops[row->kind].name, mesh,
                 masked ? " on masked rows" : "", row->body);
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
                (f == g ? divides_operands(s, f, 4)
                        : divides_operands(s, f, 2) && divides_operands(s, g, 2)))
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

/* Whether the factor may be split over 5, padded: never a composite, nor a dim that stands for two.
 */
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
        const sc_type_info *type =
            sc_type_of(m, is_operand ? op->operands[v] : op->first_result + v - op->operand_count);
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
        fail_msg("%s padded on %s: %s\n%s", sc_ops[row->kind].name, factor_name(&s, f), s.c->error,
                 row->body);
    take_state(&s);
    if (!same_outputs(whole.c, s.c))
        fail_msg("%s differs when it is padded on %s\n%s", sc_ops[row->kind].name,
                 factor_name(&s, f), row->body);
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
        cmocka_unit_test(expansions_mean_their_op),
        cmocka_unit_test(forms_on_shards_mean_their_op),
        cmocka_unit_test(padding_is_never_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
