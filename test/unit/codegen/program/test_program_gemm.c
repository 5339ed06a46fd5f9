/* Random dots of the per-rank IR, with composites and sharded dims, as contractions on every rank's
 * shards: together they are what the interpreter makes of the same text on one device. */
#include "codegen/program/gemm.h"
#include "runtime/cpu/gemm.h"
#include "test/unit/helpers/interp_case.h"

enum { DIMS = 8 };

/* One of the random dims: where it stands in the texts of both operands and of the result, and
 * which axis splits it. */
typedef struct random_dim {
    const char *name;
    int role; /* sc_gemm_role */
    int64_t size;
    const char *axis; /* "" or x, y */
} random_dim;

static uint32_t below(uint64_t *seed, uint32_t limit)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*seed >> 33) % limit);
}

/* Writes the type of an array with the dims that `has` marks, in a random order. H's leaves K and G
 * stay together: as the composite. */
static void write_type(const random_dim *dims, uint32_t count, const bool *has, uint64_t *seed,
                       const char *suffix, char *out, size_t room)
{
    uint32_t order[DIMS], n = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (has[i])
            order[n++] = i;
    }
    for (uint32_t i = 1; i < n; i++) {
        uint32_t j = below(seed, i + 1), moved = order[i];
        order[i] = order[j];
        order[j] = moved;
    }
    size_t at = (size_t)snprintf(out, room, "f32[");
    for (uint32_t i = 0; i < n; i++) {
        const random_dim *dim = &dims[order[i]];
        const char *before = i == 0 ? "" : ", ";
        if (strcmp(dim->name, "H") == 0)
            at += (size_t)snprintf(out + at, room - at, "%sH=(K=2%s, G=3)", before, dim->axis);
        else
            at += (size_t)snprintf(out + at, room - at, "%s%s=%lld%s", before, dim->name,
                                   (long long)dim->size, dim->axis);
    }
    snprintf(out + at, room - at, "]%s", suffix);
}

typedef struct random_dot {
    char a[256], b[256], c[256], stored[256], dims[64];
} random_dot;

static void draw_dot(random_dot *dot, uint64_t *seed)
{
    static const char *const names[DIMS] = {"A", "B", "C", "D", "E", "N", "S", "H"};
    static const bool has[4][3] = {
        {true, true, true}, {true, false, true}, {false, true, true}, {true, true, false}};
    random_dim dims[DIMS];
    bool wanted[3][DIMS];
    uint32_t count = 0;
    const char *partial = "", *free_axis[2] = {"@x", "@y"};
    size_t at = 0;
    dot->dims[0] = 0;
    for (uint32_t i = 0; i < DIMS; i++) {
        random_dim dim = {names[i], (int)below(seed, 4),
                          strcmp(names[i], "H") == 0 ? 6 : 2 * (1 + below(seed, 3)), ""};
        if (below(seed, 3) == 0)
            continue;
        for (int axis = 0; axis < 2; axis++) {
            if (free_axis[axis] == NULL || dim.axis[0] != 0 || below(seed, 4) != 0)
                continue;
            dim.axis = free_axis[axis];
            free_axis[axis] = NULL;
            if (dim.role == SC_GEMM_K)
                partial = partial[0] != 0 ? "{sum:(x, y)}" : axis == 0 ? "{sum:x}" : "{sum:y}";
        }
        if (dim.role == SC_GEMM_K)
            at +=
                (size_t)snprintf(dot->dims + at, sizeof dot->dims - at, "%s%s", at == 0 ? "" : ", ",
                                 strcmp(dim.name, "H") == 0 ? "K, G" : dim.name);
        for (int array = 0; array < 3; array++)
            wanted[array][count] = has[dim.role][array];
        dims[count++] = dim;
    }
    write_type(dims, count, wanted[0], seed, "", dot->a, sizeof dot->a);
    write_type(dims, count, wanted[1], seed, "", dot->b, sizeof dot->b);
    write_type(dims, count, wanted[2], seed, partial, dot->stored, sizeof dot->stored);
    /* the result's own order is that of its operands, which the verifier knows; any will do here */
    uint64_t order = 1;
    write_type(dims, count, wanted[2], &order, partial, dot->c, sizeof dot->c);
}

/* ---- shards ---- */

/* Copies between a whole array and what one rank holds of it: to the shard, or added from it. */
static void move_shard(const sc_module *m, const sc_type_info *type, uint64_t rank, double *whole,
                       float *shard, bool add)
{
    int64_t index[SC_MAX_RANK] = {0}, sizes[SC_MAX_RANK], first[SC_MAX_RANK],
            count = sc_type_local_elements(m, type);
    for (uint32_t i = 0; i < type->rank; i++) {
        sc_sub_axis_list sub_axes = sc_placement_dim(&type->placement, i);
        sizes[i] = sc_type_local_size(m, type, i);
        first[i] = sc_shard_number(&m->mesh, &sub_axes, rank) * sizes[i];
    }
    for (int64_t e = 0; e < count; e++) {
        int64_t at = 0;
        for (uint32_t i = 0; i < type->rank; i++)
            at = at * type->dims[i].size + first[i] + index[i];
        if (add)
            whole[at] += (double)shard[e];
        else
            shard[e] = (float)whole[at];
        for (uint32_t i = type->rank; i-- > 0 && ++index[i] == sizes[i];)
            index[i] = 0;
    }
}

/* Whether the rank is the one of those with the same shard whose result counts. */
static bool counts(const sc_module *m, const sc_type_info *type, uint64_t rank)
{
    for (uint32_t sub_axis = 0; sub_axis < m->mesh.sub_axis_count; sub_axis++) {
        if (type->placement.on[sub_axis] == SC_ON_NOTHING &&
            sc_mesh_coordinate(&m->mesh, rank, sub_axis) != 0)
            return false;
    }
    return true;
}

static float *shard_new(const sc_module *m, const sc_type_info *type)
{
    float *shard = calloc((size_t)sc_type_local_elements(m, type) + 1, sizeof *shard);
    assert_non_null(shard);
    return shard;
}

/* Adds what one rank computes to the whole result. */
static void run_rank(const sc_case *c, const sc_op *op, const sc_contraction *contraction,
                     const sc_type_info *stored, uint64_t rank, double *whole)
{
    const sc_type_info *a_type = sc_type_of(c->m, op->operands[0]),
                       *b_type = sc_type_of(c->m, op->operands[1]);
    float *a = shard_new(c->m, a_type), *b = shard_new(c->m, b_type),
          *out = shard_new(c->m, stored);
    size_t bytes = (size_t)sc_gemm_scratch_bytes(&contraction->gemm);
    void *scratch = aligned_alloc(64, bytes + 64);
    sc_gemm_plan *plan = sc_gemm_plan_new(&contraction->gemm, SC_GEMM_PLAIN);
    assert_non_null(scratch);
    assert_non_null(plan);
    move_shard(c->m, a_type, rank, c->inputs[0].data, a, false);
    move_shard(c->m, b_type, rank, c->inputs[1].data, b, false);
    assert_true(sc_gemm_run(plan, a, b, out, NULL, scratch));
    move_shard(c->m, stored, rank, whole, out, true);
    sc_gemm_plan_free(plan);
    free(scratch);
    free(a);
    free(b);
    free(out);
}

static const sc_op *op_of_kind(const sc_module *m, sc_op_kind kind)
{
    sc_for_each_op (m, 0, op) {
        if (sc_op_at(m, op)->kind == kind)
            return sc_op_at(m, op);
    }
    fail_msg("no %s", sc_ops[kind].name);
    return NULL;
}

/* The interpreter runs the dot and the transpose to the order in which c is stored; both are exact,
 * the inputs being small integers. */
static void check_dot(const random_dot *dot)
{
    char body[2048];
    snprintf(body, sizeof body,
             "%%a = input : %s\n %%b = input : %s\n %%c = dot[%s] %%a, %%b : %s\n %%d = transpose "
             "%%c : %s\n return %%c, %%d\n",
             dot->a, dot->b, dot->dims, dot->c, dot->stored);
    sc_case *c = case_open("x = 2, y = 2\n", "", body, (sc_interp_options){0});
    case_fill(c, 16);
    if (!case_run(c))
        fail_msg("%s\n%s", c->error, body);
    const sc_op *op = op_of_kind(c->m, SC_OP_dot), *transpose = op_of_kind(c->m, SC_OP_transpose);
    for (int i = 0; i < 2; i++) {
        const sc_type_info *stored =
            sc_type_of(c->m, i == 0 ? op->first_result : transpose->first_result);
        sc_contraction contraction;
        if (!sc_contract(c->m, op, i == 0 ? NULL : stored, &contraction))
            fail_msg("no contraction: %s", body);
        double *whole = calloc((size_t)c->outputs[i].count + 1, sizeof *whole);
        assert_non_null(whole);
        for (uint64_t rank = 0; rank < sc_mesh_ranks(&c->m->mesh); rank++) {
            if (counts(c->m, stored, rank))
                run_rank(c, op, &contraction, stored, rank, whole);
        }
        for (int64_t e = 0; e < c->outputs[i].count; e++) {
            if (whole[e] != c->outputs[i].data[e])
                fail_msg("element %lld is %g, wanted %g: %s", (long long)e, whole[e],
                         c->outputs[i].data[e], body);
        }
        free(whole);
    }
    case_close(c);
}

static void random_dots(void **state)
{
    (void)state;
    uint64_t seed = 3;
    for (int i = 0; i < 400; i++) {
        random_dot dot;
        draw_dot(&dot, &seed);
        check_dot(&dot);
    }
}

/* ---- what does not fit, and steps ---- */

static sc_case *small_case(void)
{
    return case_read("x = 2\n", "",
                     "%a = input : bf16[B=2, S=6, D=4@x]\n %w = input : bf16[D=4@x, E=5]\n %bias = "
                     "input : f32[E=5]\n"
                     "%res = input : f32[S=6, B=2, E=5]\n %other = input : f32[N=3]\n %short = "
                     "input : f32[S=6@x]\n %ids = input : i32[E=5]\n"
                     "%c = dot[D] %a, %w {wide = 1} : f32[B=2, S=6, E=5]{sum:x}\n return %c\n");
}

static const sc_type_info *input_type(const sc_module *m, uint32_t index)
{
    sc_for_each_op (m, 0, op) {
        if (sc_op_at(m, op)->kind == SC_OP_input && index-- == 0)
            return sc_type_of(m, sc_result(m, op, 0));
    }
    return NULL;
}

static void steps_are_named_by_dims(void **state)
{
    (void)state;
    sc_case *c = small_case();
    sc_contraction contraction;
    assert_true(sc_contract(c->m, op_of_kind(c->m, SC_OP_dot), NULL, &contraction));
    sc_gemm *gemm = &contraction.gemm;
    assert_int_equal(gemm->sum, SC_DTYPE_f32);
    assert_int_equal(gemm->dtypes[SC_GEMM_A], SC_DTYPE_bf16);
    assert_int_equal(gemm->dtypes[SC_GEMM_C], SC_DTYPE_f32);
    assert_int_equal(sc_gemm_size(gemm, SC_GEMM_K), 2);
    assert_true(sc_contract_add_tensor(c->m, &contraction, SC_GEMM_ADD, input_type(c->m, 2)));
    assert_true(sc_contract_add_activation(&contraction, SC_GEMM_GELU));
    assert_true(sc_contract_add_tensor(c->m, &contraction, SC_GEMM_ADD, input_type(c->m, 3)));
    assert_true(sc_contract_add_scale(&contraction, 0.25));
    static const int64_t bias[] = {0, 0, 1, 0}, residual[] = {5, 10, 1, 0};
    assert_memory_equal(gemm->steps[0].strides, bias, sizeof bias);
    assert_memory_equal(gemm->steps[2].strides, residual, sizeof residual);
    assert_int_equal(gemm->step_count, 4);
    sc_contraction before = contraction;
    /* a dim that c lacks */
    assert_false(sc_contract_add_tensor(c->m, &contraction, SC_GEMM_ADD, input_type(c->m, 4)));
    /* half of a dim that c has whole */
    assert_false(sc_contract_add_tensor(c->m, &contraction, SC_GEMM_ADD, input_type(c->m, 5)));
    /* integers */
    assert_false(sc_contract_add_tensor(c->m, &contraction, SC_GEMM_MUL, input_type(c->m, 6)));
    assert_false(sc_contract_add_tensor(c->m, &contraction, SC_GEMM_RELU, input_type(c->m, 2)));
    assert_false(sc_contract_add_activation(&contraction, SC_GEMM_ADD));
    assert_false(sc_contract_add_activation(&contraction, SC_GEMM_SCALE));
    assert_memory_equal(&before, &contraction, sizeof before);
    while (gemm->step_count < SC_GEMM_MAX_STEPS)
        assert_true(sc_contract_add_activation(&contraction, SC_GEMM_RELU));
    assert_false(sc_contract_add_activation(&contraction, SC_GEMM_RELU));
    case_close(c);
}

static void stored_as_has_the_dims_of_the_result(void **state)
{
    (void)state;
    sc_case *c = small_case();
    sc_contraction contraction;
    const sc_op *op = op_of_kind(c->m, SC_OP_dot);
    sc_type_info stored = *sc_type_of(c->m, op->first_result);
    stored.dtype = SC_DTYPE_bf16;
    assert_true(sc_contract(c->m, op, &stored, &contraction));
    assert_int_equal(contraction.gemm.dtypes[SC_GEMM_C], SC_DTYPE_bf16);
    stored.rank = 2;
    assert_false(sc_contract(c->m, op, &stored, &contraction));
    assert_false(sc_contract(c->m, op, input_type(c->m, 0), &contraction));
    stored = *sc_type_of(c->m, op->first_result);
    stored.dims[1].size = 7;
    assert_false(sc_contract(c->m, op, &stored, &contraction));
    assert_false(sc_contract(c->m, op_of_kind(c->m, SC_OP_input), NULL, &contraction));
    case_close(c);
}

static void integers_sum_in_i64(void **state)
{
    (void)state;
    assert_int_equal(sc_contract_sum(SC_DTYPE_f16), SC_DTYPE_f32);
    assert_int_equal(sc_contract_sum(SC_DTYPE_f64), SC_DTYPE_f64);
    assert_int_equal(sc_contract_sum(SC_DTYPE_u8), SC_DTYPE_i64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_dots),
        cmocka_unit_test(steps_are_named_by_dims),
        cmocka_unit_test(stored_as_has_the_dims_of_the_result),
        cmocka_unit_test(integers_sum_in_i64),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
