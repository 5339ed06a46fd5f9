/* Scaled frequencies of rope. The formulas are those of Hugging Face transformers,
 * modeling_rope_utils.py; the papers are named at each. */
#include "ir/ops/rope_scaling.h"

#include <math.h>
#include <string.h>

static const double turn = 2 * 3.14159265358979323846;

const char *const sc_rope_names[SC_ROPE_KINDS] = {
#define ROPE_SCALING(name, arguments) #name,
#include "ir/ops/rope_scaling.def"
#undef ROPE_SCALING
};

const char *const sc_rope_arguments[SC_ROPE_KINDS] = {
#define ROPE_SCALING(name, arguments) arguments,
#include "ir/ops/rope_scaling.def"
#undef ROPE_SCALING
};

/* Returns how many numbers a kind takes for so many pairs. */
static uint64_t count_arguments(sc_rope_kind kind, int64_t pairs)
{
    uint64_t count = 0;
    const char *p = sc_rope_arguments[kind];
    while (*p != 0) {
        size_t length = strcspn(p, " ");
        bool is_list = length > 2 && p[length - 1] == '.';
        count += is_list ? (uint64_t)pairs : 1;
        p += length + (p[length] == ' ');
    }
    return count;
}

/* Peng et al., "YaRN", section 3.2: the pair that turns so often over the original length. */
static double pair_of_turns(const sc_rope_scaling *scaling, double turns)
{
    double original = scaling->args[1];
    return (double)scaling->pairs * log(original / (turns * turn)) / log(scaling->theta);
}

static void set_ramp(sc_rope_scaling *scaling)
{
    double first = pair_of_turns(scaling, scaling->args[2]),
           past = pair_of_turns(scaling, scaling->args[3]);
    if (scaling->args[5] != 0) {
        first = floor(first);
        past = ceil(past);
    }
    scaling->first = fmax(first, 0);
    scaling->past = fmin(past, (double)(2 * scaling->pairs - 1));
    if (scaling->first == scaling->past)
        scaling->past += 0.001;
    scaling->attention = scaling->args[4];
}

static const sc_attr *find(const sc_attr *attrs, uint32_t attr_count, sc_attr_key key)
{
    for (uint32_t i = 0; i < attr_count; i++) {
        if (attrs[i].key == key)
            return &attrs[i];
    }
    return NULL;
}

const char *sc_rope_scaling_of(const sc_module *m, const sc_attr *attrs, uint32_t attr_count,
                               int64_t pairs, sc_rope_scaling *out)
{
    const sc_attr *word = find(attrs, attr_count, SC_ATTR_scaling),
                  *args = find(attrs, attr_count, SC_ATTR_scaling_args),
                  *theta = find(attrs, attr_count, SC_ATTR_theta);
    const char *name = word == NULL ? "" : sc_text(m->context, word->text);
    int kind = 0;
    while (kind < SC_ROPE_KINDS && strcmp(name, sc_rope_names[kind]) != 0)
        kind++;
    if (name[0] == 0)
        kind = SC_ROPE_none;
    if (kind == SC_ROPE_KINDS)
        return sc_arena_printf(&m->context->arena, "unknown scaling %s", name);
    *out = (sc_rope_scaling){.kind = (sc_rope_kind)kind,
                             .theta = theta == NULL ? 10000 : theta->number,
                             .pairs = pairs,
                             .args = args == NULL ? NULL : args->numbers,
                             .attention = 1};
    if (pairs == 0)
        return NULL;
    uint64_t count = args == NULL ? 0 : args->count, wanted = count_arguments(out->kind, pairs);
    if (count != wanted)
        return sc_arena_printf(&m->context->arena, "scaling %s takes %llu number%s here, not %llu",
                               sc_rope_names[kind], (unsigned long long)wanted,
                               wanted == 1 ? "" : "s", (unsigned long long)count);
    if (kind == SC_ROPE_yarn)
        set_ramp(out);
    if (kind == SC_ROPE_longrope) {
        out->original = args->numbers[2 * pairs];
        out->attention = args->numbers[2 * pairs + 1];
    }
    return NULL;
}

/* Llama 3 (_compute_llama3_parameters): long wavelengths are divided by the factor, short ones are
 * unchanged, with smooth interpolation in between. */
static double scale_llama3(double frequency, const double *args)
{
    double factor = args[0], low = args[1], high = args[2], original = args[3];
    double wavelength = turn / frequency;
    if (wavelength < original / high)
        return frequency;
    if (wavelength > original / low)
        return frequency / factor;
    double smooth = (original / wavelength - low) / (high - low);
    return (1 - smooth) * frequency / factor + smooth * frequency;
}

double sc_rope_frequency(const sc_rope_scaling *scaling, int64_t pair, bool is_long)
{
    const double *args = scaling->args;
    double frequency = pow(scaling->theta, -(double)pair / (double)scaling->pairs), ramp;
    switch (scaling->kind) {
    case SC_ROPE_linear:
        return frequency / args[0];
    case SC_ROPE_llama3:
        return scale_llama3(frequency, args);
    case SC_ROPE_yarn:
        ramp = ((double)pair - scaling->first) / (scaling->past - scaling->first);
        ramp = fmin(fmax(ramp, 0), 1);
        return frequency / args[0] * ramp + frequency * (1 - ramp);
    case SC_ROPE_longrope: /* Ding et al., "LongRoPE", section 3.3 */
        return frequency / args[is_long ? scaling->pairs + pair : pair];
    case SC_ROPE_none:
    case SC_ROPE_KINDS:
        break;
    }
    return frequency;
}
