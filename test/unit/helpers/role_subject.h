/* One case of role_cases.h, run whole or on ranks that hold its operands as its roles say. */
#ifndef SHARDC_TEST_ROLE_SUBJECT_H
#define SHARDC_TEST_ROLE_SUBJECT_H

#include "test/unit/helpers/role_cases.h"

/* A case as a module, with the op that it is about. */
typedef struct subject {
    sc_case *c;
    sc_op_id op, end; /* end: the return */
    sc_factors factors;
} subject;

/* The sub-axes that split each factor, major first. */
typedef struct splitting {
    sc_sub_axis_list of[SC_MAX_FACTORS];
} splitting;

static inline subject open_subject(const role_case *row, const char *mesh)
{
    subject s = {.c = case_open(mesh, row->state == NULL ? "" : row->state, row->body,
                                (sc_interp_options){0}),
                 .op = SC_NONE};
    sc_for_each_op (s.c->m, 0, op) {
        if (sc_op_at(s.c->m, op)->kind == row->kind)
            s.op = op;
        s.end = op;
    }
    assert_true(s.op != SC_NONE);
    sc_op_factors(s.c->m, sc_op_at(s.c->m, s.op), &s.factors);
    return s;
}

static inline double drawn(uint32_t *x, const sc_type_info *type, int limit)
{
    *x = *x * 1664525u + 1013904223u;
    int n = (int)(*x >> 16);
    if (type->dtype == SC_DTYPE_bool)
        return n % 2;
    if (limit > 0)
        return sc_dtype_is_float(type->dtype) ? (double)(n % 16 + 1) * limit / 16 : n % limit;
    return (n % 17 - 8) * 0.25; /* sums of these are exact, and there are ties */
}

static inline void fill_array(uint32_t *x, const sc_type_info *type, int limit, sc_array *array)
{
    for (int64_t i = 0; i < array->count; i++)
        array->data[i] = drawn(x, type, limit);
}

static inline void fill(const subject *s, const role_case *row, uint32_t seed)
{
    uint32_t input = 0, x = seed * 2654435761u + 1;
    sc_for_each_op (s->c->m, 0, op) {
        if (sc_op_at(s->c->m, op)->kind == SC_OP_input) {
            fill_array(&x, sc_type_of(s->c->m, sc_result(s->c->m, op, 0)), row->limits[input],
                       &s->c->inputs[input]);
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
static inline void mask(const subject *s)
{
    for (int64_t i = 0; i < s->c->inputs[0].count; i++) {
        if (i < 24 || i % 5 == 0)
            s->c->inputs[0].data[i] = -INFINITY;
    }
}

/* The state as a further output, so that what is written is compared like what is returned. */
static inline void take_state(const subject *s)
{
    if (s->c->m->state.count == 0)
        return;
    bool agree;
    s->c->outputs[s->c->output_count++] = sc_interp_get_state(s->c->interp, 0, &agree);
    assert_true(agree);
}

static inline bool same_outputs(const sc_case *a, const sc_case *b)
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

static inline sc_placement placed(const sc_factors *factors, const splitting *split, bool is_result,
                                  uint32_t at)
{
    sc_placement placement = sc_placement_replicated();
    for (uint32_t f = 0; f < factors->count; f++) {
        const sc_factor *factor = &factors->list[f];
        int dim = is_result ? factor->result[at] : factor->operand[at];
        for (uint32_t a = 0; a < split->of[f].count; a++) {
            uint32_t sub_axis = split->of[f].sub_axes[a];
            if (dim >= 0)
                sc_placement_append(&placement, (uint32_t)dim, sub_axis);
            else if (is_result && factor->role >= SC_ROLE_SUMS && factor->role <= SC_ROLE_MINS)
                placement.on[sub_axis] = (uint8_t)(SC_PARTIAL_SUM + (factor->role - SC_ROLE_SUMS));
        }
    }
    return placement;
}

static inline void set_placement(sc_module *m, sc_value value, sc_placement placement)
{
    m->values.data[value].type = sc_type_with_placement(m, m->values.data[value].type, &placement);
}

/* Operands as the factors say, results as they then come out. */
static inline void place(const subject *s, const splitting *split)
{
    sc_module *m = s->c->m;
    const sc_op *op = sc_op_at(m, s->op);
    for (uint32_t o = 0; o < op->operand_count; o++)
        set_placement(m, op->operands[o], placed(&s->factors, split, false, o));
    for (uint32_t r = 0; r < op->result_count; r++)
        set_placement(m, op->first_result + r, placed(&s->factors, split, true, r));
    if (m->state.count > 0)
        m->state.data[0].type =
            m->values.data[op->result_count > 0 ? op->first_result : op->operands[0]].type;
}

static inline void set_offsets(const subject *s, const splitting *split)
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

/* Whatever is returned is put together first: partial reductions reduced, shards joined, replicas
 * compared. */
static inline void put_together(const subject *s)
{
    sc_module *m = s->c->m;
    const sc_placement replicated = sc_placement_replicated();
    for (uint32_t i = 0; i < sc_op_at(m, s->end)->operand_count; i++) {
        sc_value value = sc_op_at(m, s->end)->operands[i];
        sc_type whole = sc_type_with_placement(m, m->values.data[value].type, &replicated);
        sc_op_id reshard =
            sc_op_new(m, 0, s->end, SC_OP_reshard, &value, 1, NULL, 0, &whole, 1, SC_NONE);
        sc_op_at(m, s->end)->operands[i] = sc_result(m, reshard, 0);
    }
}

static inline void restart(const subject *s, bool ranks)
{
    sc_interp_free(s->c->interp);
    s->c->interp = sc_interp_new(s->c->m, &(sc_interp_options){.ranks = ranks});
    assert_non_null(s->c->interp);
}

static inline subject run_whole(const role_case *row, uint32_t seed)
{
    subject s = open_subject(row, "");
    fill(&s, row, seed);
    if (!case_run(s.c))
        fail_msg("%s\n%s", s.c->error, row->body);
    take_state(&s);
    return s;
}

/* Whether the op, split by its factors as they stand in `s`, gives what it gives whole; false, with
 * the reason in `error`, when it does not or does not run. Closes s. */
static inline bool runs_alike(const role_case *row, subject *s, const splitting *split,
                              char error[512])
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

static inline bool can_split(const subject *s, uint32_t f)
{
    return s->factors.list[f].role != SC_ROLE_WHOLE && s->factors.list[f].role != SC_ROLE_FORM;
}

static inline bool divides_operands(const subject *s, uint32_t f, int64_t by)
{
    const sc_op *op = sc_op_at(s->c->m, s->op);
    const sc_factor *factor = &s->factors.list[f];
    for (uint32_t o = 0; o < op->operand_count; o++) {
        if (factor->operand[o] >= 0 &&
            sc_type_of(s->c->m, op->operands[o])->dims[factor->operand[o]].size % by != 0)
            return false;
    }
    for (uint32_t r = 0; r < op->result_count; r++) {
        if (factor->result[r] >= 0 &&
            sc_type_of(s->c->m, op->first_result + r)->dims[factor->result[r]].size % by != 0)
            return false;
    }
    return true;
}

static inline splitting split_two(uint32_t f, uint32_t g)
{
    splitting split = {0};
    split.of[f].sub_axes[split.of[f].count++] = 0;
    split.of[g].sub_axes[split.of[g].count++] = 1;
    return split;
}

static inline splitting split_one(uint32_t f)
{
    splitting split = {0};
    split.of[f] = (sc_sub_axis_list){1, {0}};
    return split;
}

#endif
