/* Rotary position embedding: pair i of E is rotated by position * theta^(-2i/E). Su et al.,
 * "RoFormer", section 3.2.2; frequencies may be scaled (rope_scaling.c). `halves` pairs element i
 * with i + E/2 (as Hugging Face's weights require), `interleaved` 2i with 2i + 1 (as in the paper).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/ops/eval_walk.h"
#include "ir/ops/rope_scaling.h"

typedef struct sc_rope {
    int64_t pairs;
    sc_rope_scaling scaling;
    /* one block of 4 * pairs; far_frequencies: beyond the original length of longrope */
    double *frequencies, *far_frequencies, *cosines, *sines;
    double position;  /* for which cosines and sines are computed */
    bool is_long;     /* with which frequencies */
    double direction; /* -1: rotate back */
    bool narrow;      /* angles are rounded to f32 */
    /* pair i is elements i * first_step and i * first_step + second */
    int64_t first_step, second;
} sc_rope;

static bool set_frequencies(sc_eval *eval, sc_rope *rope)
{
    const char *wrong = sc_rope_scaling_of(eval->m, eval->op->attrs, eval->op->attr_count,
                                           rope->pairs, &rope->scaling);
    if (wrong != NULL)
        return sc_eval_fail(eval, "%s", wrong);
    for (int64_t i = 0; i < rope->pairs; i++) {
        rope->frequencies[i] = sc_rope_frequency(&rope->scaling, i, false);
        rope->far_frequencies[i] = sc_rope_frequency(&rope->scaling, i, true);
    }
    return true;
}

/* `total` positions are in use in this row. */
static void set_position(sc_rope *rope, double position, double total)
{
    bool is_long = rope->scaling.kind == SC_ROPE_longrope && total > rope->scaling.original;
    if (position == rope->position && is_long == rope->is_long)
        return;
    rope->position = position;
    rope->is_long = is_long;
    for (int64_t i = 0; i < rope->pairs; i++) {
        double angle = position * (is_long ? rope->far_frequencies : rope->frequencies)[i];
        if (rope->narrow)
            angle = sc_round_to(SC_DTYPE_f32, angle);
        rope->cosines[i] = rope->scaling.attention * cos(angle);
        rope->sines[i] = rope->scaling.attention * rope->direction * sin(angle);
    }
}

static bool prepare(sc_eval *eval, sc_rope *rope, const sc_walk_dim *e)
{
    int at = sc_type_find_dim(eval->operand_types[0], e->dim);
    if (at < 0 || eval->operand_types[0]->dims[at].size != e->size || e->size % 2 != 0)
        return sc_eval_fail(eval, "dim %s needs to be whole and even, but is %lld here",
                            sc_eval_dim_name(eval, e->dim), (long long)e->size);
    const char *pairs = sc_text(eval->m->context, sc_op_word(eval->op, SC_ATTR_pairs));
    bool is_interleaved = strcmp(pairs, "interleaved") == 0;
    rope->pairs = e->size / 2;
    rope->position = NAN;
    rope->direction = sc_op_int(eval->op, SC_ATTR_inverse, 0) != 0 ? -1 : 1;
    rope->first_step = is_interleaved ? 2 : 1;
    rope->second = is_interleaved ? 1 : rope->pairs;
    rope->narrow = eval->round && eval->operand_types[0]->dtype != SC_DTYPE_f64;
    rope->frequencies = calloc((size_t)rope->pairs * 4, sizeof *rope->frequencies);
    if (rope->frequencies == NULL)
        return sc_eval_fail(eval, "out of memory");
    rope->far_frequencies = rope->frequencies + rope->pairs;
    rope->cosines = rope->far_frequencies + rope->pairs;
    rope->sines = rope->cosines + rope->pairs;
    return set_frequencies(eval, rope);
}

static void rotate(const sc_rope *rope, double *out, int64_t out_stride, const double *x,
                   int64_t x_stride)
{
    for (int64_t i = 0; i < rope->pairs; i++) {
        int64_t first = i * rope->first_step, second = first + rope->second;
        double a = x[first * x_stride], b = x[second * x_stride];
        out[first * out_stride] = a * rope->cosines[i] - b * rope->sines[i];
        out[second * out_stride] = b * rope->cosines[i] + a * rope->sines[i];
    }
}

bool eval_rope(sc_eval *eval)
{
    const sc_attr *dims = sc_op_attr(eval->op, SC_ATTR_dims);
    if (dims == NULL || dims->count != 2)
        return sc_eval_fail(eval, "its dims need to be a position and a head dim");
    sc_walk walk;
    sc_walk_dim e;
    const double *pos, *len;
    sc_walk_init(&walk);
    if (!sc_walk_add_result(eval, &walk, 0) || !sc_walk_add_operand(eval, &walk, 0) ||
        !sc_walk_add_called(eval, &walk, "pos", &pos) ||
        !sc_walk_add_called(eval, &walk, "len", &len) ||
        !sc_walk_take(eval, &walk, dims->dims[1], &e))
        return false;
    sc_rope rope = {0};
    bool is_ready = prepare(eval, &rope, &e);
    const sc_eval_shard shard = sc_eval_shard_of(eval, dims->dims[0]);
    const int along = sc_type_find_dim(eval->operand_types[0], dims->dims[0]);
    const double rows = along < 0 ? 1 : (double)eval->operand_types[0]->dims[along].size;
    sc_walk_start(&walk);
    do {
        if (!is_ready)
            break;
        double first = pos == NULL ? 0 : pos[walk.at[2]];
        double position =
            first + (double)sc_eval_position(&shard, sc_walk_index(&walk, dims->dims[0]));
        set_position(&rope, position, first + (len == NULL ? rows : len[walk.at[3]]));
        rotate(&rope, eval->results[0].data + walk.at[0], e.strides[0],
               eval->operands[0]->data + walk.at[1], e.strides[1]);
    } while (sc_walk_next(&walk));
    free(rope.frequencies);
    return is_ready;
}
