/* Rotary position embedding: pair i of E is rotated by position * theta^(-2i/E). Su et al.,
 * "RoFormer", section 3.2.2. `halves` pairs element i with i + E/2 (as Hugging Face's weights
 * require), `interleaved` 2i with 2i + 1 (as in the paper). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/ops/eval_walk.h"

typedef struct sc_rope {
    int64_t pairs;
    double *frequencies, *cosines, *sines; /* one block of 3 * pairs */
    double position;                       /* for which cosines and sines are computed */
    double direction;                      /* -1: rotate back */
    bool narrow;                           /* angles are rounded to f32 */
    /* pair i is elements i * first_step and i * first_step + second */
    int64_t first_step, second;
} sc_rope;

/* Hugging Face transformers, modeling_rope_utils.py, _compute_llama3_parameters: long wavelengths
 * are divided by `factor`, short ones are unchanged, with smooth interpolation in between. args:
 * factor, low, high, original context length. */
static double scale_llama3(double frequency, const double *args)
{
    double factor = args[0], low = args[1], high = args[2], original = args[3];
    double wavelength = 2 * 3.14159265358979323846 / frequency;
    if (wavelength < original / high)
        return frequency;
    if (wavelength > original / low)
        return frequency / factor;
    double smooth = (original / wavelength - low) / (high - low);
    return (1 - smooth) * frequency / factor + smooth * frequency;
}

static bool set_frequencies(sc_eval *eval, sc_rope *rope)
{
    double theta = sc_op_number(eval->op, SC_ATTR_theta, 10000);
    const char *scaling = sc_text(eval->m->context, sc_op_word(eval->op, SC_ATTR_scaling));
    const sc_attr *args = sc_op_attr(eval->op, SC_ATTR_scaling_args);
    uint32_t count = args == NULL ? 0 : args->count;
    bool is_linear = strcmp(scaling, "linear") == 0, is_llama3 = strcmp(scaling, "llama3") == 0;
    if (!is_linear && !is_llama3 && scaling[0] != 0 && strcmp(scaling, "none") != 0)
        return sc_eval_fail(eval, "unknown scaling %s", scaling);
    if ((is_linear && count != 1) || (is_llama3 && count != 4))
        return sc_eval_fail(eval, "scaling %s has %u arguments", scaling, count);
    for (int64_t i = 0; i < rope->pairs; i++) {
        double frequency = pow(theta, -(double)i / (double)rope->pairs);
        if (is_linear)
            frequency /= args->numbers[0];
        rope->frequencies[i] = is_llama3 ? scale_llama3(frequency, args->numbers) : frequency;
    }
    return true;
}

static void set_position(sc_rope *rope, double position)
{
    if (position == rope->position)
        return;
    rope->position = position;
    for (int64_t i = 0; i < rope->pairs; i++) {
        double angle = position * rope->frequencies[i];
        if (rope->narrow)
            angle = sc_round_to(SC_DTYPE_f32, angle);
        rope->cosines[i] = cos(angle);
        rope->sines[i] = rope->direction * sin(angle);
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
    rope->frequencies = calloc((size_t)rope->pairs * 3, sizeof *rope->frequencies);
    if (rope->frequencies == NULL)
        return sc_eval_fail(eval, "out of memory");
    rope->cosines = rope->frequencies + rope->pairs;
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
    const double *pos;
    sc_walk_init(&walk);
    if (!sc_walk_add_result(eval, &walk, 0) || !sc_walk_add_operand(eval, &walk, 0) ||
        !sc_walk_add_called(eval, &walk, "pos", &pos) ||
        !sc_walk_take(eval, &walk, dims->dims[1], &e))
        return false;
    sc_rope rope = {0};
    bool is_ready = prepare(eval, &rope, &e);
    const sc_eval_shard shard = sc_eval_shard_of(eval, dims->dims[0]);
    sc_walk_start(&walk);
    do {
        if (!is_ready)
            break;
        double position = (double)sc_eval_position(&shard, sc_walk_index(&walk, dims->dims[0])) +
                          (pos == NULL ? 0 : pos[walk.at[2]]);
        set_position(&rope, position);
        rotate(&rope, eval->results[0].data + walk.at[0], e.strides[0],
               eval->operands[0]->data + walk.at[1], e.strides[1]);
    } while (sc_walk_next(&walk));
    free(rope.frequencies);
    return is_ready;
}
