/* The ring forms of attention: queries stay, blocks of keys and values go round.
 *
 *   %o, %l = attend[T, E -> S] %q, %k, %v {ring = [cp], lse = 1}    ->
 *     %k1, %v1 = rotate %k, %v {over = [cp], shift = 1}
 *     %o0, %l0 = attend[T, E -> S] %q, %k, %v {block = 0, wide = 1, ..}
 *     %k2, %v2 = rotate %k1, %v1 ..
 *     %o1, %l1 = attend[T, E -> S] %q, %k1, %v1 {block = 1, ..}       merged with %o0, %l0
 *     ..
 *
 * A block is sent on before it is read, so the next one arrives meanwhile; no more than two blocks
 * that are not the rank's own are alive. Partial results are f32 or wider.
 *
 * Two partial results o, with the logsumexp l of their scores, make one: o is their mean with
 * weights exp(l), and l the logsumexp of both (Liu, Zaharia, Abbeel, "Ring Attention with Blockwise
 * Transformers", 2023). The derivative of a block needs only the final l and o (Dao,
 * "FlashAttention-2", 2023): cotangents of queries stay, those of a block of keys go round with it.
 *
 * Never nest emitting calls in one argument list (see expand.c). */
#include "ir/ops/build.h"
#include "ir/ops/expand.h"
#include "ir/ops/sinks.h"
#include "support/min.h"

#include <float.h>
#include <string.h>

enum { KEYS = 1 /* the operand */ };

typedef struct ring {
    sc_expand *e;
    const sc_op op;       /* a copy: emitting moves ops */
    sc_sinkless sinkless; /* what steps have; sinks are added to the merged result */
    int64_t members, steps;
    /* the numbers of operands that go round: keys, values, and what else has keys, but no queries
     */
    uint32_t moving_count, moving[SC_MAX_FIXED_OPERANDS];
    sc_value next[SC_MAX_FIXED_OPERANDS];     /* what goes round, of the block after this one */
    sc_value operands[SC_MAX_FIXED_OPERANDS]; /* of this step */
    sc_attr attrs[SC_ATTR_COUNT + 3];
    uint32_t attr_count;
} ring;

static bool has(const sc_module *m, sc_value value, sc_dim dim)
{
    return sc_type_find_dim(sc_type_of(m, value), dim) >= 0;
}

/* True if a member's queries are at the positions of its keys: not with a cache, whose queries may
 * be anywhere, nor in a zigzag, where the keys before a member's two chunks are on both sides of
 * it. */
static bool is_aligned(const sc_module *m, const sc_op *op, sc_dim keys,
                       const sc_sub_axis_list *split)
{
    uint32_t fixed = (uint32_t)sc_ops[op->kind].operands;
    return sc_op_operand_called(m, op, "pos", fixed) < 0 &&
           sc_shard_order_of(m, keys, split).members == 1;
}

/* With a window, a query sees keys of the last members only. Their distance is counted round the
 * ring, so that a causal mask alone excludes none. */
int64_t sc_ring_steps(const sc_module *m, const sc_op *op, const sc_sub_axis_list *split)
{
    const sc_dim dim = sc_op_attr(op, SC_ATTR_dims)->dims[0];
    const sc_type_info *k = sc_type_of(m, op->operands[KEYS]);
    int64_t size = k->dims[sc_type_find_dim(k, dim)].size,
            members = (int64_t)sc_sub_axis_list_size(&m->mesh, split),
            keys = sc_dim_padded(m, dim, size) / members, /* of a member */
        window = sc_op_int(op, SC_ATTR_window, 0), all = members - 1;
    const char *mask = sc_text(m->context, sc_op_word(op, SC_ATTR_mask));
    if (strcmp(mask, "window") != 0 || !is_aligned(m, op, dim, split))
        return all;
    return sc_min_i64((window - 1 + keys - 1) / keys, all);
}

/* The attributes of a step; block, the last one, is set for each. */
static void take_attrs(ring *r)
{
    for (uint32_t i = 0; i < r->sinkless.attr_count; i++) {
        uint32_t key = r->sinkless.attrs[i].key;
        if (key != SC_ATTR_lse && key != SC_ATTR_split)
            r->attrs[r->attr_count++] = r->sinkless.attrs[i];
    }
    if (sc_op_has(&r->op, SC_KEEPS_LSE))
        r->attrs[r->attr_count++] = sc_attr_int(SC_ATTR_lse, 1);
    r->attrs[r->attr_count++] = sc_attr_int(SC_ATTR_wide, 1);
    r->attrs[r->attr_count++] = sc_attr_int(SC_ATTR_block, 0);
}

static ring begin(sc_expand *e)
{
    const sc_module *m = e->e.m;
    ring r = {.e = e, .op = *sc_op_at(m, e->e.before), .members = (int64_t)e->shards};
    const sc_attr *dims = sc_op_attr(&r.op, SC_ATTR_dims), *to = sc_op_attr(&r.op, SC_ATTR_to);
    r.steps = sc_ring_steps(m, &r.op, &e->split);
    r.sinkless = sc_without_sinks(e->e.m, &r.op);
    for (uint32_t i = 0; i < r.sinkless.operand_count; i++) {
        r.operands[i] = r.sinkless.operands[i];
        if (has(m, r.operands[i], dims->dims[0]) && !has(m, r.operands[i], to->dims[0]))
            r.moving[r.moving_count++] = i;
    }
    take_attrs(&r);
    return r;
}

/* Sends each value on, so that a member has what the one `shift` before it had. */
static void rotate(ring *r, sc_value *values, uint32_t count, int64_t shift, const char *why)
{
    sc_module *m = r->e->e.m;
    sc_attr attrs[] = {sc_attr_sub_axes(m, SC_ATTR_over, r->e->split.sub_axes, r->e->split.count),
                       sc_attr_int(SC_ATTR_shift, shift),
                       sc_attr_text(SC_ATTR_why, sc_intern_text(&m->context->names, why))};
    sc_op_id made = sc_make_op(&r->e->e, SC_OP_rotate, values, count, attrs, 3);
    for (uint32_t i = 0; i < count; i++)
        values[i] = sc_result(m, made, i);
}

/* Starts to move the next block, from the member before; a call moves as many values as an op has
 * results. */
static void receive(ring *r)
{
    for (uint32_t i = 0; i < r->moving_count; i++)
        r->next[i] = r->operands[r->moving[i]];
    for (uint32_t i = 0; i < r->moving_count; i += SC_MAX_FIXED_RESULTS) {
        uint32_t left = r->moving_count - i;
        rotate(r, r->next + i, left < SC_MAX_FIXED_RESULTS ? left : SC_MAX_FIXED_RESULTS, 1,
               "the next block of keys and values goes round the ring");
    }
}

static void turn(ring *r)
{
    for (uint32_t i = 0; i < r->moving_count; i++)
        r->operands[r->moving[i]] = r->next[i];
}

/* The op on the block at hand. */
static sc_op_id run_step(ring *r, int64_t block)
{
    r->attrs[r->attr_count - 1] = sc_attr_int(SC_ATTR_block, block);
    return sc_make_op(&r->e->e, (sc_op_kind)r->op.kind, r->operands, r->sinkless.operand_count,
                      r->attrs, r->attr_count);
}

/* ---- forward ---- */
/* The share of a partial result before normalization; 0 for a row that is masked in both. */
static sc_value share_of(sc_emitter *e, sc_value log_sum, sc_value most)
{
    sc_value shifted = sc_make2(e, SC_OP_sub, log_sum, most);
    return sc_make1(e, SC_OP_exp, shifted);
}

/* A row that is masked in both has no finite logsumexp: it is shifted by the lowest finite number,
 * its total is replaced by 1, and it stays 0 with the logsumexp -inf. */
static sc_attended merge(sc_emitter *e, sc_attended a, sc_attended b)
{
    sc_dtype dtype = sc_type_of(e->m, a.log_sum)->dtype;
    sc_value lowest =
        sc_make_constant(e, dtype == SC_DTYPE_f64 ? -DBL_MAX : -(double)FLT_MAX, dtype);
    sc_value larger = sc_make2(e, SC_OP_maximum, a.log_sum, b.log_sum);
    sc_value most = sc_make2(e, SC_OP_maximum, larger, lowest);
    sc_value of_a = share_of(e, a.log_sum, most), of_b = share_of(e, b.log_sum, most);
    sc_value total = sc_make2(e, SC_OP_add, of_a, of_b);
    sc_value one = sc_make_constant(e, 1, dtype);
    sc_value divisor = sc_make2(e, SC_OP_maximum, total, one);
    sc_value part_of_a = sc_make2(e, SC_OP_div, of_a, divisor);
    sc_value part_of_b = sc_make2(e, SC_OP_div, of_b, divisor);
    sc_value from_a = sc_make2(e, SC_OP_mul, a.out, part_of_a);
    sc_value from_b = sc_make2(e, SC_OP_mul, b.out, part_of_b);
    sc_value log_total = sc_make1(e, SC_OP_log, total);
    sc_value out = sc_make2(e, SC_OP_add, from_a, from_b);
    return (sc_attended){out, sc_make2(e, SC_OP_add, log_total, most)};
}

void expand_attend_ring(sc_expand *e)
{
    ring r = begin(e);
    sc_attended all = {SC_NONE, SC_NONE};
    for (int64_t block = 0; block <= r.steps; block++) {
        if (block < r.steps)
            receive(&r);
        sc_op_id step = run_step(&r, block);
        sc_attended one = {sc_result(e->e.m, step, 0), sc_result(e->e.m, step, 1)};
        all = block == 0 ? one : merge(&e->e, all, one);
        if (block < r.steps)
            turn(&r);
    }
    if (r.sinkless.sinks != SC_NONE)
        all = sc_add_sinks(&e->e, all, r.sinkless.sinks);
    e->results[0] = sc_make_cast(&e->e, all.out, sc_type_of(e->e.m, r.op.first_result)->dtype);
    e->results[1] = all.log_sum;
}

/* ---- backward ---- */

/* Numbers of the results, which are cotangents, that go round with their keys. */
static uint32_t find_moving(const ring *r, uint32_t *moving)
{
    const sc_module *m = r->e->e.m;
    uint32_t count = 0;
    for (uint32_t i = 0; i < r->op.result_count; i++) {
        sc_value cotangent = r->op.first_result + i;
        if (has(m, cotangent, sc_op_attr(&r->op, SC_ATTR_dims)->dims[0]) &&
            !has(m, cotangent, sc_op_attr(&r->op, SC_ATTR_to)->dims[0]))
            moving[count++] = i;
    }
    return count;
}

static void rotate_sums(ring *r, sc_value *sums, const uint32_t *moving, uint32_t count,
                        int64_t shift)
{
    sc_value values[SC_MAX_FIXED_RESULTS] = {0};
    for (uint32_t i = 0; i < count; i++)
        values[i] = sums[moving[i]];
    rotate(r, values, count, shift, "cotangents of a block of keys and values go round with it");
    for (uint32_t i = 0; i < count; i++)
        sums[moving[i]] = values[i];
}

/* Adds a step's results to the sums; the first ones are the sums. */
static void add_results(ring *r, sc_value *sums, sc_op_id step)
{
    for (uint32_t i = 0; i < r->op.result_count; i++) {
        sc_value one = sc_result(r->e->e.m, step, i);
        sums[i] = sums[i] == SC_NONE ? one : sc_make2(&r->e->e, SC_OP_add, sums[i], one);
    }
}

static void set_apart(sc_value *own, sc_value *sums, const uint32_t *moving, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        own[moving[i]] = sums[moving[i]];
        sums[moving[i]] = SC_NONE;
    }
}

/* Cotangents of a block of keys start on the member after its own and are added to on every member
 * that has the block. The last one sends them home, where the home member's own are added. */
void expand_attend_grad_ring(sc_expand *e)
{
    ring r = begin(e);
    sc_value own[SC_MAX_FIXED_RESULTS], sums[SC_MAX_FIXED_RESULTS];
    uint32_t moving[SC_MAX_FIXED_RESULTS] = {0}, moving_count = find_moving(&r, moving);
    for (uint32_t i = 0; i < SC_MAX_FIXED_RESULTS; i++)
        own[i] = sums[i] = SC_NONE;
    for (int64_t block = 0; block <= r.steps; block++) {
        if (block < r.steps)
            receive(&r);
        if (block > 1)
            rotate_sums(&r, sums, moving, moving_count, 1);
        add_results(&r, sums, run_step(&r, block));
        if (block == 0)
            set_apart(own, sums, moving, moving_count);
        if (block < r.steps)
            turn(&r);
    }
    if (r.steps > 0)
        rotate_sums(&r, sums, moving, moving_count, r.members - r.steps);
    for (uint32_t i = 0; i < moving_count; i++) {
        sc_value *sum = &sums[moving[i]];
        *sum = *sum == SC_NONE ? own[moving[i]] : sc_make2(&e->e, SC_OP_add, own[moving[i]], *sum);
    }
    for (uint32_t i = 0; i < r.op.result_count; i++)
        e->results[i] =
            sc_make_cast(&e->e, sums[i], sc_type_of(e->e.m, r.op.first_result + i)->dtype);
}
