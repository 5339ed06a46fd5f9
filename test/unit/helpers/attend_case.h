/* Random attends and their gradients as IR text, for tests of the code that is emitted for them:
 * every mask and layout, on one device and on the ranks of a mesh with padding; what the
 * interpreter makes of them; and the arrays of a rank. */
#ifndef SHARDC_TEST_ATTEND_CASE_H
#define SHARDC_TEST_ATTEND_CASE_H

#include <math.h>

#include "codegen/attention/describe.h"
#include "program/lookup.h"
#include "support/rng.h"
#include "test/unit/helpers/interp_case.h"

/* ---- random ops as text ---- */

/* What cases are drawn from. */
typedef struct spec_range {
    const char *dtypes[6];
    int64_t heads[8];
    /* queries and keys: below these, beyond the least */
    uint64_t few, many, few_keys, many_keys, most_keys;
    bool has_rows; /* the elements of a head lie together */
} spec_range;

typedef struct spec_tensor {
    const char *name, *dtype;
    char dims[8]; /* by letter; 0-terminated */
} spec_tensor;

typedef struct spec {
    uint64_t seed;
    const char *dtype;
    int64_t sizes[128]; /* by letter */
    const char *split[128];
    spec_tensor inputs[10];
    int input_count;
    char own[4];
    bool has_bias, is_ring; /* T is split as S is, but where both are */
    bool is_zigzag;         /* S and T, where they are split */
    char with[128], operands[128], attributes[256], offset[64];
    char text[8192];
} spec;

static inline uint64_t draw(spec *s, uint64_t below)
{
    uint64_t x = s->seed += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (x ^ x >> 31) % below;
}

static inline void shuffle(spec *s, char *letters)
{
    for (size_t i = strlen(letters); i > 1; i--) {
        size_t j = draw(s, i);
        char c = letters[i - 1];
        letters[i - 1] = letters[j];
        letters[j] = c;
    }
}

static inline void append(char *letters, const char *more)
{
    memcpy(letters + strlen(letters), more, strlen(more) + 1);
}

static inline void remove_letter(char *letters, char c)
{
    char *at = strchr(letters, c);
    if (at != NULL)
        memmove(at, at + 1, strlen(at));
}

/* A random part of the letters, in random order. */
static inline void choose(spec *s, const char *letters, char *out)
{
    size_t count = 0;
    for (; *letters != 0; letters++) {
        if (draw(s, 3) > 0)
            out[count++] = *letters;
    }
    out[count] = 0;
    shuffle(s, out);
}

static inline spec_tensor *add_input(spec *s, const char *name, const char *dtype, const char *dims)
{
    spec_tensor *tensor = &s->inputs[s->input_count++];
    *tensor = (spec_tensor){.name = name, .dtype = dtype};
    snprintf(tensor->dims, sizeof tensor->dims, "%s", dims);
    return tensor;
}

static inline void add_called(spec *s, const char *name, const char *dtype, const char *dims)
{
    add_input(s, name, dtype, dims);
    snprintf(s->with + strlen(s->with), sizeof s->with - strlen(s->with), "%s%s",
             s->with[0] == 0 ? "" : ", ", name);
    snprintf(s->operands + strlen(s->operands), sizeof s->operands - strlen(s->operands), ", %%%s",
             name);
}

static inline void add_type(const spec *s, char *out, size_t size, const char *dtype,
                            const char *dims, const char *partial)
{
    size_t at = strlen(out);
    at += (size_t)snprintf(out + at, size - at, "%s[", dtype);
    const bool has_queries = strchr(dims, 'S') != NULL;
    for (; *dims != 0; dims++) {
        const char *sub_axis = *dims == 'T' && has_queries ? NULL : s->split[(int)*dims];
        at += (size_t)snprintf(out + at, size - at, "%c=%lld%s%s%s", *dims,
                               (long long)s->sizes[(int)*dims], sub_axis == NULL ? "" : "@",
                               sub_axis == NULL ? "" : sub_axis, dims[1] == 0 ? "" : ", ");
    }
    snprintf(out + at, size - at, "]%s", partial);
}

static inline void draw_sizes(spec *s, const spec_range *range)
{
    bool is_single = draw(s, 5) == 0, is_large = draw(s, 3) == 0,
         is_long = draw(s, is_single ? 2 : 10) == 0;
    s->sizes['B'] = 1 + (int64_t)draw(s, 4);
    s->sizes['K'] = 1 + (int64_t)draw(s, 4);
    s->sizes['G'] = 1 + (int64_t)draw(s, 3);
    s->sizes['S'] = is_single ? 1 : 2 + (int64_t)draw(s, is_large ? range->many : range->few);
    s->sizes['T'] = 1 + (int64_t)draw(s, is_long    ? range->most_keys
                                         : is_large ? range->many_keys
                                                    : range->few_keys);
    s->sizes['E'] = range->heads[draw(s, 8)];
    s->sizes['V'] = range->heads[draw(s, 8)];
    s->sizes['X'] = 1 + (int64_t)draw(s, 3);
}

/* No result may be a partial sum, which ranks cannot return. */
static inline bool may_be_ring(const spec *s)
{
    for (int i = 0; i < s->input_count; i++) {
        const spec_tensor *tensor = &s->inputs[i];
        if (strcmp(tensor->name, "pos") == 0 ||
            (strcmp(tensor->name, "bias") == 0 && strpbrk(tensor->dims, "ST") == NULL))
            return false;
    }
    return true;
}

/* Of a mesh x = 2, y = 2: S over y, another dim over x. In a ring T goes with S. */
static inline void draw_split(spec *s, const char *q)
{
    for (const char *c = "BKG"; *c != 0; c++) {
        if (strchr(q, *c) == NULL || draw(s, 2) == 0)
            continue;
        s->split[(int)*c] = "x";
        break;
    }
    if (strchr(q, 'S') != NULL && draw(s, 3) > 0)
        s->split['S'] = "y";
    s->is_zigzag = s->split['S'] != NULL && draw(s, 2) == 0;
    if (s->is_zigzag) {
        s->sizes['S'] += 3 - (s->sizes['S'] + 3) % 4;
        s->sizes['T'] += 3 - (s->sizes['T'] + 3) % 4;
    }
    s->is_ring = s->split['S'] != NULL && may_be_ring(s) && draw(s, 2) == 0;
    if (s->is_ring) {
        s->split['B'] = s->split['K'] = s->split['G'] = NULL;
        s->split['T'] = "y";
        int block = (int)draw(s, 2);
        /* keys here stay with their rank: another member's padding is not where this one's is */
        s->sizes['T'] += block * (s->sizes['T'] % 2);
        sprintf(s->attributes + strlen(s->attributes), ", wide = 1, ring = [y], block = %d", block);
    }
    for (const char *c = "BKGS"; *c != 0; c++) {
        if (s->split[(int)*c] != NULL)
            snprintf(s->offset + strlen(s->offset), sizeof s->offset - strlen(s->offset), "%s%c@%s",
                     s->offset[0] == 0 ? "" : ", ", *c, s->split[(int)*c]);
    }
}

static inline void draw_mask(spec *s, const char *q)
{
    char dims[8], *rest = s->attributes;
    uint64_t mask = strchr(q, 'S') == NULL ? 0 : draw(s, 4);
    rest += mask == 0   ? 0
            : mask == 3 ? sprintf(rest, ", mask = window, window = %d", 1 + (int)draw(s, 50))
                        : sprintf(rest, ", mask = causal");
    if (draw(s, 4) == 0)
        rest += sprintf(rest, ", softcap = 1.5");
    if (draw(s, 4) == 0)
        rest += sprintf(rest, ", p = 0.3, seed = \"h[1].dropout0\"");
    choose(s, "BKGST", dims);
    for (char *c = dims; *c != 0;)
        *c != 'T' && strchr(q, *c) == NULL ? remove_letter(dims, *c) : (void)c++;
    uint64_t extra = draw(s, 8);
    if (extra == 0 || extra == 4)
        add_called(s, "keep", "bool", dims);
    s->has_bias = extra == 1 || extra == 4;
    if (s->has_bias)
        add_called(s, "bias", draw(s, 2) == 0 ? "f32" : s->dtype, dims);
    bool has_batch = strchr(q, 'B') != NULL;
    if (extra == 2) {
        add_called(s, "segments", "i32", strchr(q, 'S') == NULL ? "" : has_batch ? "BS" : "S");
        add_called(s, "key_segments", "i32", has_batch ? "TB" : "T");
    }
    if (extra == 3 || extra == 5)
        add_called(s, "pos", extra == 3 ? "i32" : "i64", has_batch ? "B" : "");
    if (extra == 3)
        add_called(s, "len", "i32", has_batch ? "B" : "");
}

static inline void draw_tensors(spec *s, const spec_range *range)
{
    char q[8], k[8], v[8];
    choose(s, "BKG", q);
    append(q, draw(s, 8) > 0 ? "S" : "");
    shuffle(s, q);
    snprintf(k, sizeof k, "%s", q);
    remove_letter(k, 'S');
    remove_letter(k, 'G');
    if (draw(s, 4) == 0)
        remove_letter(k, 'K');
    snprintf(v, sizeof v, "%s", k);
    if (draw(s, 8) == 0)
        remove_letter(v, 'B');
    snprintf(s->own, sizeof s->own, "%s",
             draw(s, 6) > 0   ? "E"
             : draw(s, 3) > 0 ? "V"
             : draw(s, 2) > 0 ? "VX"
                              : "XE");
    if (range->has_rows && s->own[1] != 0)
        snprintf(s->own, sizeof s->own, "V");
    append(q, "E");
    append(k, "TE");
    append(v, "T");
    append(v, s->own);
    if (draw(s, 2) == 0) {
        shuffle(s, q);
        shuffle(s, k);
        shuffle(s, v);
    }
    if (range->has_rows) {
        remove_letter(q, 'E');
        remove_letter(k, 'E');
        remove_letter(v, s->own[0]);
        append(q, "E");
        append(k, "E");
        append(v, s->own);
    }
    char own[4] = "";
    for (const char *c = v; *c != 0; c++) {
        if (strchr(s->own, *c) != NULL)
            append(own, (const char[]){*c, 0});
    }
    memcpy(s->own, own, sizeof own);
    add_input(s, "q", s->dtype, q);
    add_input(s, "k", s->dtype, k);
    add_input(s, "v", s->dtype, v);
}

/* Dims that the cotangent lacks are sums; those of split ones are partial. */
static inline const char *partial(const spec *s, const char *dims, char out[32])
{
    const char *sums[2] = {"", ""};
    for (const char *c = s->inputs[0].dims; *c != 0; c++) {
        const char *sub_axis = s->split[(int)*c];
        bool is_there =
            strchr(dims, *c) != NULL || (*c == 'S' && s->is_ring && strchr(dims, 'T') != NULL);
        if (sub_axis != NULL && !is_there)
            sums[sub_axis[0] - 'x'] = sub_axis[0] == 'x' ? "sum:x" : "sum:y";
    }
    bool none = sums[0][0] == 0 && sums[1][0] == 0;
    sprintf(out, "%s%s%s%s%s", none ? "" : "{", sums[0],
            sums[0][0] != 0 && sums[1][0] != 0 ? ", " : "", sums[1], none ? "" : "}");
    return out;
}

static inline void write_text(spec *s)
{
    char *t = s->text, out_dims[16] = "", lse_dims[8] = "", sum[32];
    size_t size = sizeof s->text;
    for (const char *c = s->inputs[0].dims; *c != 0; c++) {
        const char one[] = {*c, 0};
        append(lse_dims, *c == 'E' ? "" : one);
        append(out_dims, *c == 'E' ? s->own : one);
    }
    const char *wide = strcmp(s->dtype, "f64") == 0 ? "f64" : "f32",
               *to = strchr(lse_dims, 'S') == NULL ? "" : " -> S",
               *narrow = s->is_ring ? wide : s->dtype;
#define ADD(...) snprintf(t + strlen(t), size - strlen(t), __VA_ARGS__)
    for (int i = 0; i < s->input_count; i++) {
        ADD("%%%s = input : ", s->inputs[i].name);
        add_type(s, t, size, s->inputs[i].dtype, s->inputs[i].dims, "");
        ADD("\n");
    }
    ADD("%%d = input : ");
    add_type(s, t, size, s->dtype, out_dims, "");
    char tail[512];
    snprintf(tail, sizeof tail, "%s {scale = %s%s%s%s%s%s%s%s", s->operands,
             draw(s, 2) == 0 ? "0.3" : "0.125", s->attributes, s->with[0] == 0 ? "" : ", with = [",
             s->with, s->with[0] == 0 ? "" : "]", s->offset[0] == 0 ? "" : ", offset = [",
             s->offset, s->offset[0] == 0 ? "" : "]");
    ADD("\n%%o, %%l = attend[T, E%s] %%q, %%k, %%v%s, lse = 1} : ", to, tail);
    add_type(s, t, size, narrow, out_dims, "");
    ADD(", ");
    add_type(s, t, size, wide, lse_dims, "");
    if (s->is_ring) {
        ADD("\n%%n = cast %%o : ");
        add_type(s, t, size, s->dtype, out_dims, "");
    }
    ADD("\n%%dq, %%dk, %%dv%s = attend_grad[T, E%s] %%q, %%k, %%v, %%%s, %%l, %%d%s} : ",
        s->has_bias ? ", %db" : "", to, s->is_ring ? "n" : "o", tail);
    for (int i = 0; i < 3 + s->has_bias; i++) {
        const spec_tensor *tensor = &s->inputs[i];
        for (int j = 3; i == 3 && strcmp(tensor->name, "bias") != 0; j++)
            tensor = &s->inputs[j];
        add_type(s, t, size, s->is_ring ? wide : tensor->dtype, tensor->dims,
                 partial(s, tensor->dims, sum));
        ADD("%s", i == 2 + s->has_bias ? "\n" : ", ");
    }
    ADD("return %%o, %%l, %%dq, %%dk, %%dv%s%s\n", s->has_bias ? ", %db" : "",
        s->is_ring ? ", %n" : "");
#undef ADD
}

static inline void draw_spec(spec *s, uint64_t seed, const spec_range *range)
{
    *s = (spec){.seed = seed * 7919};
    s->dtype = range->dtypes[draw(s, 6)];
    draw_sizes(s, range);
    draw_tensors(s, range);
    draw_mask(s, s->inputs[0].dims);
    if (draw(s, 3) == 0)
        draw_split(s, s->inputs[0].dims);
    write_text(s);
}

/* ---- arrays as ranks hold them ---- */

typedef struct shape {
    uint32_t rank;
    int64_t local[SC_MAX_RANK], count;
} shape;

static inline shape shape_of(const sc_module *m, const sc_type_info *type)
{
    shape s = {.rank = type->rank, .count = 1};
    for (uint32_t i = 0; i < type->rank; i++) {
        s.local[i] = sc_type_local_size(m, type, i);
        s.count *= s.local[i];
    }
    return s;
}

/* Index in the whole array of a local element; -1 for padding. */
static inline int64_t whole_index(const sc_module *m, const sc_type_info *type, const shape *s,
                                  uint64_t rank, int64_t element)
{
    int64_t index = 0, stride = 1;
    for (uint32_t i = type->rank; i-- > 0; stride *= type->dims[i].size) {
        sc_sub_axis_list sub_axes = sc_placement_dim(&type->placement, i);
        const sc_shard_order order = sc_shard_order_of(m, type->dims[i].dim, &sub_axes);
        int64_t at = sc_shard_position(&order, sc_shard_number(&m->mesh, &sub_axes, rank),
                                       s->local[i], element % s->local[i]);
        element /= s->local[i];
        if (at >= type->dims[i].size)
            return -1;
        index += at * stride;
    }
    return index;
}

/* Of a value that is one. */
static inline uint16_t half_of(sc_dtype dtype, double value)
{
    float f = (float)value;
    uint32_t b;
    memcpy(&b, &f, sizeof b);
    if (dtype == SC_DTYPE_bf16)
        return (uint16_t)(b >> 16);
    if (value == 0 || isnan(value))
        return isnan(value) ? 0x7e00 : 0;
    int exponent;
    double fraction = frexp(fabs(value), &exponent);
    uint16_t sign = value < 0 ? 0x8000 : 0;
    if (exponent < -13)
        return (uint16_t)(sign | (uint16_t)ldexp(fraction, exponent + 24));
    return (uint16_t)(sign | (uint16_t)((exponent + 14) << 10) |
                      ((uint16_t)ldexp(fraction, 11) & 0x3ff));
}

static inline double half_value(sc_dtype dtype, uint16_t half)
{
    if (dtype == SC_DTYPE_bf16) {
        uint32_t bits = (uint32_t)half << 16;
        float f;
        memcpy(&f, &bits, sizeof f);
        return (double)f;
    }
    int exponent = half >> 10 & 31;
    double sign = (half & 0x8000) != 0 ? -1 : 1;
    if (exponent == 31)
        return (half & 0x3ff) != 0 ? NAN : sign * INFINITY;
    return sign *
           (exponent == 0 ? ldexp(half & 0x3ff, -24) : ldexp(1024 + (half & 0x3ff), exponent - 25));
}

static inline void store_element(sc_dtype dtype, void *data, int64_t i, double value)
{
    switch (dtype) {
    case SC_DTYPE_f32:
        ((float *)data)[i] = (float)value;
        return;
    case SC_DTYPE_f64:
        ((double *)data)[i] = value;
        return;
    case SC_DTYPE_bf16:
    case SC_DTYPE_f16:
        ((uint16_t *)data)[i] = half_of(dtype, value);
        return;
    case SC_DTYPE_i32:
        ((int32_t *)data)[i] = isnan(value) ? 1 << 30 : (int32_t)value;
        return;
    case SC_DTYPE_i64:
        ((int64_t *)data)[i] = isnan(value) ? 1 << 30 : (int64_t)value;
        return;
    default:
        ((uint8_t *)data)[i] = isnan(value) || value != 0;
    }
}

static inline double load_element(sc_dtype dtype, const void *data, int64_t i)
{
    if (dtype == SC_DTYPE_f32)
        return (double)((const float *)data)[i];
    return dtype == SC_DTYPE_f64 ? ((const double *)data)[i]
                                 : half_value(dtype, ((const uint16_t *)data)[i]);
}

static inline void *local_of(const sc_module *m, const sc_type_info *type, uint64_t rank,
                             const double *whole)
{
    shape s = shape_of(m, type);
    void *data = aligned_alloc(64, ((size_t)s.count * sc_dtypes[type->dtype].bytes + 63) / 64 * 64);
    assert_non_null(data);
    for (int64_t i = 0; i < s.count; i++) {
        int64_t at = whole == NULL ? -1 : whole_index(m, type, &s, rank, i);
        store_element(type->dtype, data, i, at < 0 ? NAN : whole[at]);
    }
    return data;
}

/* Partial sums add up; of replicas the first counts. */
static inline void add_local(const sc_module *m, const sc_type_info *type, uint64_t rank,
                             const void *data, double *whole)
{
    shape s = shape_of(m, type);
    for (uint32_t a = 0; a < m->mesh.sub_axis_count; a++) {
        if (type->placement.on[a] == SC_ON_NOTHING && sc_mesh_coordinate(&m->mesh, rank, a) != 0)
            return;
    }
    for (int64_t i = 0; i < s.count; i++) {
        int64_t at = whole_index(m, type, &s, rank, i);
        if (at >= 0)
            whole[at] += load_element(type->dtype, data, i);
    }
}

/* ---- running a case ---- */

typedef struct attend_case {
    spec spec;
    sc_case *c;
    sc_op_id ops[2]; /* attend, attend_grad */
} attend_case;

static inline double draw_value(spec *s, const char *name, sc_dtype dtype)
{
    if (strcmp(name, "keep") == 0)
        return draw(s, 3) > 0;
    if (strstr(name, "segments") != NULL)
        return (double)draw(s, 2);
    if (strcmp(name, "pos") == 0)
        return (double)draw(s, (uint64_t)s->sizes['T']);
    if (strcmp(name, "len") == 0)
        return (double)draw(s, (uint64_t)s->sizes['S'] + 2);
    /* a bias is large: the largest score has to rise on the way */
    double value = ((double)draw(s, 1 << 20) / (1 << 19) - 1) * 2;
    return sc_round_to(dtype, strcmp(name, "bias") == 0 ? 8 * value : value);
}

static inline void fill_inputs(attend_case *a)
{
    for (uint32_t i = 0, input = 0; input < a->c->input_count; i++) {
        const sc_op *op = sc_op_at(a->c->m, i);
        if (op->kind != SC_OP_input)
            continue;
        const char *name = (int)input < a->spec.input_count ? a->spec.inputs[input].name : "d";
        sc_array *array = &a->c->inputs[input++];
        for (int64_t j = 0; j < array->count; j++)
            array->data[j] =
                draw_value(&a->spec, name, sc_type_of(a->c->m, op->first_result)->dtype);
    }
}

/* The whole value: an input, or one that was returned. */
static inline const double *value_of(const attend_case *a, sc_value value)
{
    uint32_t input = 0;
    sc_for_each_op (a->c->m, 0, id) {
        const sc_op *op = sc_op_at(a->c->m, id);
        if (op->kind == SC_OP_input && op->first_result == value)
            return a->c->inputs[input].data;
        input += op->kind == SC_OP_input;
        for (uint32_t i = 0; op->kind == SC_OP_return && i < op->operand_count; i++) {
            if (op->operands[i] == value)
                return a->c->outputs[i].data;
        }
    }
    fail_msg("a value is missing");
    return NULL;
}

static inline void param_values(const sc_attention_desc *desc, uint64_t rank, int64_t *params)
{
    for (uint32_t i = 0; i < desc->param_count; i++) {
        const sc_image_param *param = &desc->params[i];
        uint32_t key[2];
        sc_rng_key(21, param->path_hash, key);
        params[i] = param->kind == SC_PARAM_STEP ? 9 : param->kind == SC_PARAM_MICRO_BATCH ? 2 : 0;
        if (param->kind == SC_PARAM_KEY)
            params[i] = (int64_t)((uint64_t)key[1] << 32 | key[0]);
        if (param->kind == SC_PARAM_RANK)
            params[i] = sc_image_terms_value(&param->terms, rank);
    }
}

static inline double norm_of(const double *x, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += x[i] * x[i];
    return sqrt(sum);
}

/* The norm of the difference against that of what is wanted. Scores' cotangents are differences
 * that may cancel, in a row of one key wholly: what comes of them is compared with what they are
 * differences of, too. */
static inline void check_result(const attend_case *a, const char *setting, const char *name,
                                double bound, const double *got, const double *wanted,
                                int64_t count)
{
    const sc_array *d_out = &a->c->inputs[a->c->input_count - 1];
    bool cancels =
        strcmp(name, "d_q") == 0 || strcmp(name, "d_k") == 0 || strcmp(name, "d_bias") == 0;
    double floor = cancels ? 0.125 * norm_of(d_out->data, d_out->count) : 0;
    double error = 0, norm = 0;
    for (int64_t i = 0; i < count; i++) {
        if (isinf(wanted[i]) && got[i] == wanted[i])
            continue;
        error += (got[i] - wanted[i]) * (got[i] - wanted[i]);
        norm += wanted[i] * wanted[i];
    }
    if (!(sqrt(error) <= bound * fmax(sqrt(norm), floor)))
        fail_msg("%s, %s form: error %.3g of %.3g\n%s", name, setting, sqrt(error), sqrt(norm),
                 a->spec.text);
}

/* Computes one rank's results, malloc'd, of attend (0) or attend_grad. */
typedef void rank_function(const attend_case *a, int which, uint64_t rank, void *user,
                           void **results);

/* All ranks' results, put together, against the interpreter's; of 16 bits, `slack` times what the
 * dtype allows. */
static inline void check_op(const attend_case *a, int which, const char *setting, double slack,
                            rank_function *run, void *user)
{
    static const char *const names[2][4] = {{"out", "lse"}, {"d_q", "d_k", "d_v", "d_bias"}};
    const sc_module *m = a->c->m;
    const sc_op *op = sc_op_at(m, a->ops[which]);
    uint64_t ranks = sc_mesh_ranks(&m->mesh);
    double *whole[4] = {0};
    for (uint32_t i = 0; i < op->result_count; i++) {
        whole[i] =
            calloc((size_t)sc_type_elements(sc_type_of(m, op->first_result + i)), sizeof(double));
        assert_non_null(whole[i]);
    }
    for (uint64_t rank = 0; rank < ranks; rank++) {
        void *results[4] = {0};
        run(a, which, rank, user, results);
        for (uint32_t i = 0; i < op->result_count; i++) {
            add_local(m, sc_type_of(m, op->first_result + i), rank, results[i], whole[i]);
            free(results[i]);
        }
    }
    for (uint32_t i = 0; i < op->result_count; i++) {
        const sc_type_info *type = sc_type_of(m, op->first_result + i);
        bool is_narrow = type->dtype == SC_DTYPE_bf16 || type->dtype == SC_DTYPE_f16;
        double bound = type->dtype == SC_DTYPE_f64    ? 1e-12
                       : type->dtype == SC_DTYPE_f32  ? 1e-5
                       : type->dtype == SC_DTYPE_bf16 ? 4e-3
                                                      : 5e-4;
        check_result(a, setting, names[which][i], is_narrow ? slack * bound : bound, whole[i],
                     value_of(a, op->first_result + i), sc_type_elements(type));
        free(whole[i]);
    }
}

static inline void find_ops(attend_case *a)
{
    sc_for_each_op (a->c->m, 0, op) {
        if (sc_op_at(a->c->m, op)->kind == SC_OP_attend)
            a->ops[0] = op;
        if (sc_op_at(a->c->m, op)->kind == SC_OP_attend_grad)
            a->ops[1] = op;
    }
}

/* Reads the text and draws inputs. The blocks of a ring mean something on ranks alone. */
static inline void prepare_attend_case(attend_case *a)
{
    a->c = case_read(a->spec.offset[0] == 0 ? "" : "x = 2, y = 2\n", "", a->spec.text);
    for (sc_dim d = 0; a->spec.is_zigzag && d < a->c->m->dims.count; d++) {
        const char *name = sc_text(a->c->m->context, a->c->m->dims.data[d].name);
        if (strcmp(name, "S") == 0 || strcmp(name, "T") == 0)
            a->c->m->dims.data[d].zigzag = (sc_sub_axis_list){1, {1}};
    }
    case_start(a->c, &(sc_interp_options){.round = true, .ranks = a->spec.is_ring});
    fill_inputs(a);
    sc_interp_set_random(a->c->interp, 21, 9, 2);
    find_ops(a);
}

/* And runs it in the interpreter. */
static inline void run_attend_case(attend_case *a)
{
    prepare_attend_case(a);
    if (!case_run(a->c))
        fail_msg("%s\n%s", a->c->error, a->spec.text);
}

static inline void open_attend_case(attend_case *a, uint64_t seed, const spec_range *range)
{
    draw_spec(&a->spec, seed, range);
    run_attend_case(a);
}

#endif
