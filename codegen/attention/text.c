/* Text fragments shared by the forms of attention: arguments, indices, masks, conversions, sums. */
#include "codegen/attention/text.h"

#include <math.h>
#include <string.h>

static const char *const role_names[SC_ATTENTION_ROLES] = {
    "q",   "k",   "v",   "out", "lse", "d_out", "keep", "bias", "segments", "key_segments",
    "pos", "len", "d_q", "d_k", "d_v", "d_bias"};

const char *sc_attention_role_name(sc_attention_role role)
{
    return role_names[role];
}

/* ---- values ---- */

const char *sc_attention_read(sc_attention_text *text, sc_attention_role role, const char *index)
{
    sc_dtype dtype = text->desc->arrays[role].dtype;
    const char *name = role_names[role];
    if (dtype == SC_DTYPE_bf16 || dtype == SC_DTYPE_f16) {
        const char *read = sc_arena_printf(text->arena, "sc_%s_to_f32(%s[%s])",
                                           dtype == SC_DTYPE_bf16 ? "bf16" : "f16", name, index);
        return strcmp(text->real, "float") == 0 ? read
                                                : sc_arena_printf(text->arena, "(double)%s", read);
    }
    if (strcmp(sc_printer_stored(dtype), text->real) == 0)
        return sc_arena_printf(text->arena, "%s[%s]", name, index);
    return sc_arena_printf(text->arena, "(%s)%s[%s]", text->real, name, index);
}

const char *sc_attention_stored(sc_attention_text *text, sc_dtype dtype, const char *value)
{
    if (dtype == SC_DTYPE_bf16 || dtype == SC_DTYPE_f16)
        return sc_arena_printf(text->arena, "sc_%s_to_%s(%s)",
                               strcmp(text->real, "float") == 0 ? "f32" : "f64",
                               dtype == SC_DTYPE_bf16 ? "bf16" : "f16", value);
    return strcmp(sc_printer_stored(dtype), text->real) == 0
               ? value
               : sc_arena_printf(text->arena, "(%s)(%s)", sc_printer_stored(dtype), value);
}

const char *sc_attention_number(sc_attention_text *text, double number)
{
    if (isinf(number))
        return number > 0 ? "INFINITY" : "-INFINITY";
    sc_strbuf out;
    sc_strbuf_init(&out, text->arena);
    sc_strbuf_add_double(&out, number);
    if (strcmp(text->real, "float") == 0)
        sc_strbuf_add_char(&out, 'f');
    return out.data;
}

/* ---- indices ---- */

bool sc_attention_all(const sc_attention_desc *desc, const sc_attention_dim *dim)
{
    (void)desc, (void)dim;
    return true;
}

bool sc_attention_of_unit(const sc_attention_desc *desc, const sc_attention_dim *dim)
{
    (void)desc;
    return sc_attention_is_unit(dim);
}

bool sc_attention_of_row(const sc_attention_desc *desc, const sc_attention_dim *dim)
{
    (void)desc;
    return !sc_attention_is_unit(dim);
}

/* Dims that every cotangent has: no cotangent is summed over these. */
bool sc_attention_of_sums(const sc_attention_desc *desc, const sc_attention_dim *dim)
{
    uint32_t all = 1u << SC_ATTENTION_D_K | 1u << SC_ATTENTION_D_V |
                   (desc->arrays[SC_ATTENTION_D_BIAS].is_there ? 1u << SC_ATTENTION_D_BIAS : 0);
    return (dim->has & all) == all;
}

bool sc_attention_within_sums(const sc_attention_desc *desc, const sc_attention_dim *dim)
{
    return !sc_attention_of_sums(desc, dim);
}

int64_t sc_attention_points(const sc_attention_desc *desc, sc_attention_choice *choice)
{
    int64_t product = 1;
    for (uint32_t i = 0; i < desc->query_count; i++)
        product *= choice(desc, &desc->queries[i]) ? desc->queries[i].size : 1;
    return product;
}

void sc_attention_decode(sc_attention_text *text, sc_attention_choice *choice, const char *number)
{
    const sc_attention_desc *desc = text->desc;
    int64_t divide = 1;
    for (uint32_t i = desc->query_count; i-- > 0;) {
        const sc_attention_dim *dim = &desc->queries[i];
        if (!choice(desc, dim))
            continue;
        sc_write_line(text->out, "const int64_t s%u = %s / %lld %% %lld; /* %s */", i, number,
                      (long long)divide, (long long)dim->size, dim->name);
        divide *= dim->size;
    }
}

const char *sc_attention_times(sc_attention_text *text, const char *index, int64_t stride)
{
    return stride == 0   ? "0"
           : stride == 1 ? index
                         : sc_arena_printf(text->arena, "%s * %lld", index, (long long)stride);
}

static const char *param_of(sc_attention_text *text, uint32_t param)
{
    return param == SC_NONE ? "0" : sc_arena_printf(text->arena, "params[%u]", param);
}

static const char *first_of(sc_attention_text *text, const sc_attention_dim *dim)
{
    return param_of(text, dim->first);
}

const char *sc_attention_position(sc_attention_text *text, const sc_attention_dim *dim,
                                  const char *index)
{
    if (dim->chunk == 0)
        return dim->first == SC_NONE
                   ? index
                   : sc_arena_printf(text->arena, "(%s + %s)", first_of(text, dim), index);
    const char *held = dim->within == SC_NONE ? index
                                              : sc_arena_printf(text->arena, "%s + %s",
                                                                param_of(text, dim->within), index);
    return sc_arena_printf(text->arena, "((%s < %lld ? %s : %s + %lld) + %s)", held,
                           (long long)dim->chunk, first_of(text, dim), param_of(text, dim->second),
                           (long long)dim->plus, held);
}

const char *sc_attention_key(sc_attention_text *text, sc_attention_role role)
{
    const sc_attention_dim *t = &text->desc->t;
    return (t->in_all >> role & 1) != 0 ? sc_attention_position(text, t, "t") : "t";
}

/* Declares `name`, how many keys at hand are before a position. */
static void declare_keys_before(sc_attention_text *text, const char *name, const char *position)
{
    const sc_attention_dim *t = &text->desc->t;
    if (t->chunk == 0) {
        sc_write_line(text->out, "const int64_t %s = %s - %s;", name, position, first_of(text, t));
        return;
    }
    const int64_t before_second = t->plus + t->chunk;
    sc_write_line(text->out, "int64_t %s_first = %s - %s, %s_second = %s - %s - %lld;", name,
                  position, first_of(text, t), name, position, param_of(text, t->second),
                  (long long)before_second);
    static const char *const runs[] = {"first", "second"};
    for (size_t i = 0; i < 2; i++) {
        sc_write_line(text->out, "%s_%s = %s_%s < 0 ? 0 : %s_%s > %lld ? %lld : %s_%s;", name,
                      runs[i], name, runs[i], name, runs[i], (long long)t->chunk,
                      (long long)t->chunk, name, runs[i]);
    }
    sc_write_line(text->out, "const int64_t %s = %s_first + %s_second - %s;", name, name, name,
                  param_of(text, t->within));
}
const char *sc_attention_at(sc_attention_text *text, sc_attention_role role,
                            sc_attention_choice *choice)
{
    const sc_attention_desc *desc = text->desc;
    const char *sum = "";
    for (uint32_t i = 0; i < desc->query_count; i++) {
        const sc_attention_dim *dim = &desc->queries[i];
        if (!choice(desc, dim) || (dim->has >> role & 1) == 0)
            continue;
        const char *index = sc_arena_printf(text->arena, "s%u", i);
        sum = sc_arena_printf(text->arena, "%s%s%s", sum, sum[0] == 0 ? "" : " + ",
                              sc_attention_times(text, index, dim->strides[role]));
    }
    return sum[0] == 0 ? "0" : sum;
}

const char *sc_attention_own(sc_attention_text *text, sc_attention_role role, const char *o)
{
    const sc_attention_desc *desc = text->desc;
    if (desc->own_count == 0)
        return "0";
    if (desc->own_count == 1)
        return sc_attention_times(text, o, desc->own[0].strides[role]);
    const char *sum = "";
    int64_t divide = 1;
    for (uint32_t i = desc->own_count; i-- > 0;) {
        const char *index = sc_arena_printf(text->arena, "%s / %lld %% %lld", o, (long long)divide,
                                            (long long)desc->own[i].size);
        sum = sc_arena_printf(text->arena, "%s%s%s", sum, sum[0] == 0 ? "" : " + ",
                              sc_attention_times(text, index, desc->own[i].strides[role]));
        divide *= desc->own[i].size;
    }
    return sum;
}

/* ---- masks ---- */

/* The position of the query, without pos. */
static const char *query_position(sc_attention_text *text)
{
    const sc_attention_desc *desc = text->desc;
    return desc->position == SC_NONE
               ? "0"
               : sc_attention_position(text, &desc->queries[desc->position],
                                       sc_arena_printf(text->arena, "s%u", desc->position));
}

static void declare_window(sc_attention_text *text)
{
    const sc_attention_desc *desc = text->desc;
    const char *behind = sc_arena_printf(text->arena, "query - %lld", (long long)desc->window - 1);
    declare_keys_before(text, "hidden", behind);
    sc_write_line(text->out, "low = hidden > 0 ? hidden : 0;");
}

void sc_attention_declare_interval(sc_attention_text *text)
{
    const sc_attention_desc *desc = text->desc;
    bool has_pos = desc->arrays[SC_ATTENTION_POS].is_there,
         has_len = desc->arrays[SC_ATTENTION_LEN].is_there;
    sc_write_line(text->out, "int64_t low = 0, high = %lld;", (long long)desc->t.size);
    const char *pos = has_pos ? "position" : "0";
    if (desc->t.is_uneven) {
        declare_keys_before(text, "real",
                            sc_arena_printf(text->arena, "%lld", (long long)desc->t.global));
        sc_write_line(text->out, "high = real < high ? real : high;");
    }
    if (has_pos && (has_len || desc->is_causal))
        sc_write_line(text->out, "const int64_t position = (int64_t)pos[%s];",
                      sc_attention_at(text, SC_ATTENTION_POS, sc_attention_all));
    if (has_len) {
        const char *end =
            sc_arena_printf(text->arena, "%s + (int64_t)len[%s]", pos,
                            sc_attention_at(text, SC_ATTENTION_LEN, sc_attention_all));
        declare_keys_before(text, "filled", end);
        sc_write_line(text->out, "high = filled < high ? filled : high;");
    }
    if (desc->is_causal) {
        sc_write_line(text->out, "const int64_t query = %s + %s;", query_position(text), pos);
        declare_keys_before(text, "seen", "query + 1");
        sc_write_line(text->out, "high = seen < high ? seen : high;");
        if (desc->window >= 0)
            declare_window(text);
    }
    sc_write_line(text->out, "high = high > low ? high : low;");
}

void sc_attention_declare_row(sc_attention_text *text)
{
    const sc_attention_desc *desc = text->desc;
    if (desc->p == 0)
        return;
    const char *sum = desc->t.chunk > 0 ? "0" : first_of(text, &desc->t);
    for (uint32_t i = 0; i < desc->query_count; i++) {
        const sc_attention_dim *dim = &desc->queries[i];
        const char *index = sc_arena_printf(text->arena, "s%u", i);
        sum = sc_arena_printf(text->arena, "%s + %s * %lld", sum,
                              sc_attention_position(text, dim, index),
                              (long long)dim->dropout_stride);
    }
    sc_write_line(text->out, "const int64_t weight_row = %s;", sum);
}

const char *sc_attention_beyond(sc_attention_text *text)
{
    const char *condition = NULL;
    for (uint32_t i = 0; i < text->desc->query_count; i++) {
        const sc_attention_dim *dim = &text->desc->queries[i];
        if (!dim->is_uneven)
            continue;
        const char *one = sc_arena_printf(text->arena, "params[%u] + s%u >= %lld", dim->first, i,
                                          (long long)dim->global);
        condition =
            condition == NULL ? one : sc_arena_printf(text->arena, "%s || %s", condition, one);
    }
    return condition;
}

const char *sc_attention_visible(sc_attention_text *text)
{
    const sc_attention_desc *desc = text->desc;
    const sc_attention_dim *t = &desc->t;
    const char *kept = NULL, *agree = NULL;
    if (desc->arrays[SC_ATTENTION_KEEP].is_there)
        kept = sc_arena_printf(text->arena, "keep[keep_at + %s] != 0",
                               sc_attention_times(text, sc_attention_key(text, SC_ATTENTION_KEEP),
                                                  t->strides[SC_ATTENTION_KEEP]));
    if (desc->arrays[SC_ATTENTION_SEGMENTS].is_there)
        agree = sc_arena_printf(
            text->arena, "segments[segments_at + %s] == key_segments[key_segments_at + %s]",
            sc_attention_times(text, "t", t->strides[SC_ATTENTION_SEGMENTS]),
            sc_attention_times(text, "t", t->strides[SC_ATTENTION_KEY_SEGMENTS]));
    return kept == NULL    ? agree
           : agree == NULL ? kept
                           : sc_arena_printf(text->arena, "%s && %s", kept, agree);
}

/* ---- functions ---- */

bool sc_attention_is_written(const sc_attention_desc *desc, sc_attention_role role)
{
    return role >= SC_ATTENTION_D_Q ||
           (!desc->is_grad && (role == SC_ATTENTION_OUT || role == SC_ATTENTION_LSE));
}

void sc_attention_declare_arrays(sc_attention_text *text)
{
    const sc_attention_desc *desc = text->desc;
    for (int role = 0; role < SC_ATTENTION_ROLES; role++) {
        const sc_attention_array *array = &desc->arrays[role];
        const char *constant =
            sc_attention_is_written(desc, (sc_attention_role)role) ? "" : "const ";
        if (array->is_there)
            sc_write_line(text->out, "%s%s *const %s = args[%u];", constant,
                          sc_printer_stored(array->dtype), role_names[role], array->arg);
    }
    for (int role = SC_ATTENTION_D_Q; role < SC_ATTENTION_ROLES; role++) {
        if (!desc->arrays[role].is_there)
            continue;
        if (sc_attention_needs_sum(desc, (sc_attention_role)role))
            sc_write_line(text->out, "%s *const sum_%s = (%s *)args[%u] + %lld;", text->real,
                          role_names[role], text->real, desc->arg_count,
                          (long long)sc_attention_sum_at(desc, (sc_attention_role)role));
        else if (sc_attention_is_summed(desc, (sc_attention_role)role))
            sc_write_line(text->out, "%s *const sum_%s = %s;", text->real, role_names[role],
                          role_names[role]);
    }
    if (desc->p > 0) {
        sc_write_line(text->out, "const uint64_t random_key = (uint64_t)params[%u];",
                      desc->key_param);
        sc_write_line(text->out, "const uint32_t random_step = (uint32_t)params[%u];",
                      desc->key_param + 1);
        sc_write_line(text->out, "const uint32_t random_micro_batch = (uint32_t)params[%u];",
                      desc->key_param + 2);
    }
    sc_write_line(text->out, "(void)params;");
}

void sc_attention_begin(sc_attention_text *text)
{
    sc_write_line(text->out, "int64_t %s(void *const *args, const int64_t *params)", text->name);
    sc_write_open_block(text->out);
    sc_attention_declare_arrays(text);
}

void sc_attention_end(sc_attention_text *text)
{
    sc_write_line(text->out, "return 0;");
    sc_write_close(text->out);
}

/* ---- a query and its keys ---- */

void sc_attention_declare_places(sc_attention_text *text)
{
    static const struct {
        sc_attention_role role;
        const char *name;
    } places[] = {{SC_ATTENTION_Q, "q"},
                  {SC_ATTENTION_K, "k"},
                  {SC_ATTENTION_V, "v"},
                  {SC_ATTENTION_OUT, "out"},
                  {SC_ATTENTION_LSE, "lse"},
                  {SC_ATTENTION_D_OUT, "d_out"},
                  {SC_ATTENTION_KEEP, "keep"},
                  {SC_ATTENTION_BIAS, "bias"},
                  {SC_ATTENTION_SEGMENTS, "segments"},
                  {SC_ATTENTION_KEY_SEGMENTS, "key_segments"},
                  {SC_ATTENTION_D_Q, "d_q"},
                  {SC_ATTENTION_D_K, "d_k"},
                  {SC_ATTENTION_D_V, "d_v"},
                  {SC_ATTENTION_D_BIAS, "d_bias"}};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        if (text->desc->arrays[places[i].role].is_there)
            sc_write_line(text->out, "const int64_t %s_at = %s;", places[i].name,
                          sc_attention_at(text, places[i].role, sc_attention_all));
    }
    sc_attention_declare_interval(text);
    sc_attention_declare_row(text);
}

const char *sc_attention_bias_of_key(sc_attention_text *text)
{
    const char *index =
        sc_arena_printf(text->arena, "bias_at + %s",
                        sc_attention_times(text, sc_attention_key(text, SC_ATTENTION_BIAS),
                                           text->desc->t.strides[SC_ATTENTION_BIAS]));
    return sc_attention_read(text, SC_ATTENTION_BIAS, index);
}

const char *sc_attention_factor_of_key(sc_attention_text *text)
{
    double p = text->desc->p;
    return sc_arena_printf(
        text->arena,
        "(sc_uniform53(weight_row + %s, random_step, random_micro_batch, "
        "random_key) < %lluu ? 0 : %s)",
        text->desc->t.chunk > 0 ? sc_attention_position(text, &text->desc->t, "t") : "t",
        (unsigned long long)sc_uniform53_limit(p),
        sc_attention_number(text, p < 1 ? 1 / (1 - p) : 0));
}

/* ---- cotangents that are sums ---- */

void sc_attention_begin_sums(sc_attention_text *text)
{
    static const char *const names[] = {"q", "k", "v", "bias"};
    for (int role = SC_ATTENTION_D_Q; role < SC_ATTENTION_ROLES; role++) {
        if (!sc_attention_is_summed(text->desc, (sc_attention_role)role))
            continue;
        sc_write_line(text->out, "#pragma omp parallel for simd");
        sc_write_line(text->out, "for (int64_t i = 0; i < %lld; i++)",
                      (long long)text->desc->arrays[role].count);
        sc_write_line(text->out, "    sum_d_%s[i] = 0;", names[role - SC_ATTENTION_D_Q]);
    }
}

void sc_attention_end_sums(sc_attention_text *text)
{
    static const char *const names[] = {"q", "k", "v", "bias"};
    for (int role = SC_ATTENTION_D_Q; role < SC_ATTENTION_ROLES; role++) {
        const char *name = names[role - SC_ATTENTION_D_Q];
        if (!sc_attention_needs_sum(text->desc, (sc_attention_role)role))
            continue;
        const char *sum = sc_arena_printf(text->arena, "sum_d_%s[i]", name);
        sc_write_line(text->out, "#pragma omp parallel for simd");
        sc_write_line(text->out, "for (int64_t i = 0; i < %lld; i++)",
                      (long long)text->desc->arrays[role].count);
        sc_write_line(text->out, "    d_%s[i] = %s;", name,
                      sc_attention_stored(text, text->desc->arrays[role].dtype, sum));
    }
}
