/* The parser of `shardc.ir 1`: recursive descent of fixed depth, line by line. Statements are in
 * the order in which they are printed, so names are declared before use; only `dim` lines may refer
 * to each other in any order. After an error the rest of the line is skipped. The parser checks the
 * text (limits, counts, names); the verifier checks its meaning. */
#include <string.h>

#include "ir/text/parse_internal.h"

/* ---- lines ---- */

/* Skips to the first line that starts after `begin`. */
static void skip_line(sc_parser *p, uint32_t begin)
{
    while (p->token.kind != SC_TOKEN_END && (!p->token.first_on_line || p->token.begin == begin))
        sc_parse_advance(p);
}

static bool ends_line(sc_parser *p)
{
    return p->token.first_on_line || p->token.kind == SC_TOKEN_END ||
           sc_parse_expected(p, "the end of the line");
}

/* ---- states and mesh ---- */

static bool parse_states(sc_parser *p)
{
    while (p->token.kind == SC_TOKEN_WORD && !p->token.first_on_line) {
        uint32_t bit = 0;
        while (bit < SC_TEXT_STATES && !sc_parse_at_word(p, sc_text_state_names[bit]))
            bit++;
        if (bit == SC_TEXT_STATES)
            return sc_parse_unknown(p, sc_parse_loc(p), "state", p->token.sym, sc_text_state_names,
                                    SC_TEXT_STATES);
        p->m->states |= 1u << bit;
        sc_parse_advance(p);
    }
    return true;
}

static bool add_mesh_sub_axis(sc_parser *p, sc_loc loc, sc_axis *axis, uint32_t size)
{
    sc_mesh *mesh = &p->m->mesh;
    if (mesh->sub_axis_count == SC_MAX_SUB_AXES)
        return sc_parse_fail(p, loc, "a mesh has at most %d axes and parts of axes",
                             SC_MAX_SUB_AXES);
    mesh->sub_axes[mesh->sub_axis_count++] =
        (sc_sub_axis){(uint8_t)(axis - mesh->axes), axis->sub_axis_count++, size};
    return true;
}

/* `split (2, 4)`: the sizes of the sub-axes. Without it the axis is one sub-axis. */
static bool parse_split_sizes(sc_parser *p, sc_axis *axis)
{
    sc_loc loc = sc_parse_loc(p);
    if (!sc_parse_accept_word(p, "split"))
        return add_mesh_sub_axis(p, loc, axis, axis->size);
    uint64_t product = 1;
    if (!sc_parse_expect(p, '('))
        return false;
    do {
        int64_t size;
        if (!sc_parse_integer(p, 1, UINT32_MAX, &size) ||
            !add_mesh_sub_axis(p, loc, axis, (uint32_t)size))
            return false;
        product = product > UINT32_MAX ? product : product * (uint64_t)size;
    } while (sc_parse_accept(p, ','));
    if (product != axis->size)
        return sc_parse_fail(p, loc, "the parts of axis '%s' do not make %u",
                             sc_text(p->context, axis->name), axis->size);
    return sc_parse_expect(p, ')');
}

/* The ranks of this axis are the stages: no value is placed on it, so it has no sub-axes. */
static bool check_stage_axis(sc_parser *p, sc_loc loc, const sc_axis *axis)
{
    if (sc_mesh_stage_axis(&p->m->mesh) != axis - p->m->mesh.axes)
        return sc_parse_fail(p, loc, "a mesh has at most one axis of stages");
    return (axis->size > 1 && axis->size <= SC_MAX_STAGES) ||
           sc_parse_fail(p, loc, "a pipeline has 2 to %d stages", SC_MAX_STAGES);
}

/* tp = 8 split (2, 4), dp = 2 inter, pp = 4 inter stage */
static bool parse_axis(sc_parser *p)
{
    sc_mesh *mesh = &p->m->mesh;
    sc_loc loc = sc_parse_loc(p);
    sc_sym name;
    int64_t size;
    if (!sc_parse_name(p, "an axis", &name))
        return false;
    if (mesh->axis_count == SC_MAX_AXES)
        return sc_parse_fail(p, loc, "a mesh has at most %d axes", SC_MAX_AXES);
    for (uint32_t a = 0; a < mesh->axis_count; a++) {
        if (mesh->axes[a].name == name)
            return sc_parse_fail(p, loc, "axis '%s' is declared twice", sc_text(p->context, name));
    }
    if (!sc_parse_expect(p, '=') || !sc_parse_integer(p, 1, UINT32_MAX, &size))
        return false;
    sc_axis *axis = &mesh->axes[mesh->axis_count++];
    *axis = (sc_axis){.name = name, .size = (uint32_t)size, .first_sub_axis = mesh->sub_axis_count};
    axis->inter = sc_parse_accept_word(p, "inter");
    if (!axis->inter)
        sc_parse_accept_word(p, "intra");
    sc_loc stage = sc_parse_loc(p);
    axis->is_stage = sc_parse_accept_word(p, "stage");
    if (axis->is_stage ? !check_stage_axis(p, stage, axis) : !parse_split_sizes(p, axis))
        return false;
    return sc_mesh_ranks(mesh) <= SC_TEXT_MAX_RANKS ||
           sc_parse_fail(p, loc, "a mesh has at most %d ranks", INT32_MAX);
}

static bool parse_mesh(sc_parser *p)
{
    do {
        if (!parse_axis(p))
            return false;
    } while (sc_parse_accept(p, ','));
    return true;
}

/* ---- dims ---- */

static bool parse_part(sc_parser *p, sc_dim_line *line)
{
    int64_t size = 0;
    uint32_t i = line->part_count;
    if (i == SC_MAX_RANK)
        return sc_parse_fail(p, sc_parse_loc(p), "a composite has at most %d leaves", SC_MAX_RANK);
    line->part_locs[i] = sc_parse_loc(p);
    if (!sc_parse_name(p, "a dim", &line->parts[i]))
        return false;
    bool sized = sc_parse_accept(p, '=');
    if (sized && !sc_parse_integer(p, 1, SC_TEXT_MAX_SIZE, &size))
        return false;
    if (i > 0 && sized != (line->sizes[0] != 0))
        return sc_parse_fail(p, line->part_locs[i],
                             "either all leaves of a composite have a size here or none");
    line->sizes[line->part_count++] = size;
    return true;
}

/* (K = 2, G = 4), after the opening parenthesis */
static bool parse_parts(sc_parser *p, sc_dim_line *line)
{
    sc_arena *arena = &p->context->arena;
    line->parts = sc_arena_array(arena, SC_MAX_RANK, sizeof *line->parts);
    line->part_locs = sc_arena_array(arena, SC_MAX_RANK, sizeof *line->part_locs);
    line->sizes = sc_arena_array(arena, SC_MAX_RANK, sizeof *line->sizes);
    do {
        if (!parse_part(p, line))
            return false;
    } while (sc_parse_accept(p, ','));
    if (line->sizes[0] == 0)
        line->sizes = NULL;
    else if (sc_text_product(line->sizes, line->part_count) < 0)
        return sc_parse_fail(p, line->part_locs[0], "the product of these sizes is too large");
    return sc_parse_expect(p, ')');
}

static bool parse_dim_reference(sc_parser *p, sc_sym *out_name, sc_loc *out_loc)
{
    *out_loc = sc_parse_loc(p);
    return sc_parse_name(p, "a dim", out_name);
}

static bool parse_multiple(sc_parser *p, sc_sym name)
{
    int64_t multiple;
    if (!sc_parse_integer(p, 1, (int64_t)1 << 40, &multiple))
        return false;
    p->m->dims.data[sc_module_find_dim(p->m, name)].multiple = multiple;
    return true;
}

static bool parse_zigzag(sc_parser *p, sc_sym name)
{
    sc_sub_axis_list list;
    if (!sc_parse_sub_axis_list(p, &list))
        return false;
    p->m->dims.data[sc_module_find_dim(p->m, name)].zigzag = list;
    return true;
}

/* dim V pad 128; dim S zigzag cp; dim T = alias S; dim H = (K, G); dim J = alias H (J.K, J.G);
 * dim J.K = alias K of J */
static bool parse_dim(sc_parser *p)
{
    sc_loc loc = sc_parse_loc(p);
    sc_dim_line line = {0};
    sc_sym name;
    if (!sc_parse_name(p, "a dim", &name))
        return false;
    if (sc_module_find_dim(p->m, name) != SC_NONE)
        return sc_parse_fail(p, loc, "dim '%s' is declared twice", sc_text(p->context, name));
    sc_module_add_dim(p->m, name);
    sc_dim_line *slot = sc_vec_push(&p->context->arena, &p->dim_lines);
    *slot = line;
    if (sc_parse_accept(p, '=')) {
        bool alias = sc_parse_accept_word(p, "alias");
        if (alias && !parse_dim_reference(p, &line.alias, &line.alias_loc))
            return false;
        bool parts = alias ? sc_parse_accept(p, '(') : sc_parse_expect(p, '(');
        if (parts ? !parse_parts(p, &line) : !alias)
            return false;
    }
    if (sc_parse_accept_word(p, "of") && !parse_dim_reference(p, &line.of, &line.of_loc))
        return false;
    if (sc_parse_accept_word(p, "pad") && !parse_multiple(p, name))
        return false;
    if (sc_parse_accept_word(p, "zigzag") && !parse_zigzag(p, name))
        return false;
    *slot = line;
    return true;
}

/* SC_NONE for a reference that was not written (empty location). */
static bool find_dim(sc_parser *p, sc_loc loc, sc_sym name, sc_dim *out_dim)
{
    *out_dim = SC_NONE;
    if (loc.begin == 0)
        return true;
    *out_dim = sc_module_find_dim(p->m, name);
    return *out_dim != SC_NONE || sc_parse_fail(p, loc, "there is no dim '%.*s'", SC_PARSE_SHOWN,
                                                sc_text(p->context, name));
}

static bool resolve_parts(sc_parser *p, sc_dim dim, const sc_dim_line *line)
{
    sc_dim *parts = sc_arena_array(&p->context->arena, line->part_count, sizeof *parts);
    for (uint32_t i = 0; i < line->part_count; i++) {
        const char *name = sc_text(p->context, line->parts[i]);
        if (!find_dim(p, line->part_locs[i], line->parts[i], &parts[i]))
            return false;
        if (p->dim_lines.data[parts[i]].part_count > 0)
            return sc_parse_fail(p, line->part_locs[i],
                                 "'%s' is itself a composite; name its leaves here", name);
        for (uint32_t k = 0; k < i; k++) {
            if (parts[k] == parts[i])
                return sc_parse_fail(p, line->part_locs[i], "'%s' is listed twice here", name);
        }
    }
    p->m->dims.data[dim].parts = parts;
    p->m->dims.data[dim].part_count = line->part_count;
    return true;
}

/* Rejects cycles, so that following aliases terminates. Each dim is visited once and marked with
 * the start of its walk. */
static bool check_alias_cycles(sc_parser *p)
{
    uint32_t *walk = sc_arena_array(&p->context->arena, p->m->dims.count, sizeof *walk);
    for (sc_dim d = 0; d < p->m->dims.count; d++) {
        sc_dim at = d;
        while (at != SC_NONE && walk[at] == 0) {
            walk[at] = d + 1;
            at = p->m->dims.data[at].alias_of;
        }
        if (at != SC_NONE && walk[at] == d + 1)
            return sc_parse_fail(p, p->dim_lines.data[d].alias_loc,
                                 "dim '%s' is an alias of itself",
                                 sc_text(p->context, p->m->dims.data[d].name));
    }
    return true;
}

static bool resolve_dims(sc_parser *p)
{
    for (sc_dim d = 0; d < p->m->dims.count; d++) {
        const sc_dim_line *line = &p->dim_lines.data[d];
        sc_dim_info *info = &p->m->dims.data[d];
        if (!find_dim(p, line->alias_loc, line->alias, &info->alias_of) ||
            !find_dim(p, line->of_loc, line->of, &info->part_of) || !resolve_parts(p, d, line))
            return false;
    }
    return check_alias_cycles(p);
}

/* ---- rules, state ---- */

/* rule 0 "act S over tp if free" at "llama.shard":58 */
static bool parse_rule(sc_parser *p)
{
    sc_rule_ref rule = {0};
    int64_t index, line;
    sc_loc loc = sc_parse_loc(p);
    if (!sc_parse_integer(p, 0, UINT32_MAX, &index))
        return false;
    if (index != p->m->rules.count)
        return sc_parse_fail(p, loc, "rules count from 0: this is rule %u", p->m->rules.count);
    *sc_vec_push(&p->context->arena, &p->m->rules) = rule; /* keeps later numbers correct */
    if (!sc_parse_string(p, "the rule's text in quotes", &rule.text))
        return false;
    if (!sc_parse_accept_word(p, "at"))
        return sc_parse_expected(p, "'at'");
    if (!sc_parse_string(p, "a file's name in quotes", &rule.file) || !sc_parse_expect(p, ':') ||
        !sc_parse_integer(p, 0, UINT32_MAX, &line))
        return false;
    rule.line = (uint32_t)line;
    p->m->rules.data[index] = rule;
    return true;
}

static bool parse_init(sc_parser *p, sc_state *state)
{
    uint32_t kind = 0;
    if (p->token.kind != SC_TOKEN_WORD)
        return sc_parse_expected(p, "an initialiser");
    while (kind < SC_INIT_KINDS && !sc_parse_at_word(p, sc_init_kind_names[kind]))
        kind++;
    if (kind == SC_INIT_KINDS)
        return sc_parse_unknown(p, sc_parse_loc(p), "initialiser", p->token.sym, sc_init_kind_names,
                                SC_INIT_KINDS);
    sc_parse_advance(p);
    state->init = (sc_init_kind)kind;
    if (sc_init_kind_args[kind] == 0)
        return !sc_parse_accept(p, '(') || sc_parse_expect(p, ')');
    if (!sc_parse_expect(p, '('))
        return false;
    for (uint32_t i = 0; i < sc_init_kind_args[kind]; i++) {
        if ((i > 0 && !sc_parse_expect(p, ',')) || !sc_parse_number(p, &state->init_args[i]))
            return false;
    }
    return sc_parse_expect(p, ')');
}

/* host, or host rule 3 */
static bool parse_host(sc_parser *p, sc_state *state)
{
    int64_t rule;
    sc_loc loc;
    state->host = sc_parse_accept_word(p, "host");
    if (!state->host || !sc_parse_accept_word(p, "rule"))
        return true;
    loc = sc_parse_loc(p);
    if (!sc_parse_integer(p, 0, UINT32_MAX - 1, &rule))
        return false;
    if (rule >= p->m->rules.count)
        return sc_parse_fail(p, loc, "there is no rule %lld", (long long)rule);
    state->host_rule = 1 + (uint32_t)rule;
    return true;
}

/* state param "layers[0].attn.wq": f32[D=64] = normal(0.02) host rule 3 */
static bool parse_state(sc_parser *p)
{
    sc_state state = {0};
    uint32_t kind = 0;
    while (kind < SC_STATE_KINDS && !sc_parse_accept_word(p, sc_state_kind_names[kind]))
        kind++;
    if (kind == SC_STATE_KINDS)
        return sc_parse_expected(p, "param, cache, grad, opt, scalar, gathered, sum or slot");
    state.kind = (sc_state_kind)kind;
    state.loc = sc_parse_loc(p);
    if (!sc_parse_string(p, "a path in quotes", &state.path))
        return false;
    if (sc_module_find_state(p->m, state.path) != SC_NONE)
        return sc_parse_fail(p, state.loc, "state '%.200s' is declared twice",
                             sc_text(p->context, state.path));
    if (!sc_parse_expect(p, ':') || !sc_parse_type(p, &state.type) || !sc_parse_expect(p, '=') ||
        !parse_init(p, &state) || !parse_host(p, &state))
        return false;
    sc_module_add_state(p->m, &state);
    return true;
}

/* ---- functions and schedule ---- */

static bool too_many_errors(const sc_parser *p)
{
    return p->context->diag.errors - p->errors >= SC_DIAG_LIMIT;
}

/* After `chunk`: 3, or `any` for no chunk. */
static bool parse_chunk(sc_parser *p)
{
    int64_t chunk = SC_NO_CHUNK;
    if (!sc_parse_accept_word(p, "any") && !sc_parse_integer(p, 0, SC_NO_CHUNK - 1, &chunk))
        return false;
    p->chunk = (uint16_t)chunk;
    return true;
}

static bool parse_func_line(sc_parser *p, sc_sym *scope)
{
    bool good;
    if (sc_parse_accept_word(p, "scope"))
        good = sc_parse_string(p, "a path in quotes", scope);
    else if (sc_parse_accept_word(p, "chunk"))
        good = parse_chunk(p);
    else
        good = sc_parse_op(p, *scope);
    return good && ends_line(p);
}

/* After the name: `stage 0`. */
static bool parse_func_stage(sc_parser *p)
{
    int64_t stage;
    if (!sc_parse_accept_word(p, "stage"))
        return true;
    if (!sc_parse_integer(p, 0, SC_MAX_STAGES - 1, &stage))
        return false;
    p->m->funcs.data[p->func].stage = (uint32_t)stage;
    return true;
}

static bool parse_func(sc_parser *p)
{
    sc_loc loc;
    sc_sym name, scope = 0;
    bool is_new;
    if (!sc_parse_expect(p, '@'))
        return false;
    loc = sc_parse_loc(p);
    if (!sc_parse_name(p, "a function's name", &name))
        return false;
    sc_map_insert(&p->funcs, name, p->m->funcs.count, &is_new);
    if (!is_new)
        sc_parse_fail(p, loc, "function '%.200s' is declared twice", sc_text(p->context, name));
    p->func = sc_module_add_func(p->m, name);
    p->chunk = SC_NO_CHUNK;
    if (!parse_func_stage(p) || !sc_parse_expect(p, '{'))
        return false;
    while (p->token.kind != '}' && p->token.kind != SC_TOKEN_END && !too_many_errors(p)) {
        uint32_t begin = p->token.begin;
        if (!parse_func_line(p, &scope))
            skip_line(p, begin);
    }
    return sc_parse_expect(p, '}');
}

/* call @micro microbatch 3 */
static bool parse_call(sc_parser *p)
{
    int64_t microbatch = 0;
    sc_sym name;
    if (!sc_parse_accept_word(p, "call"))
        return sc_parse_expected(p, "'call' or '}'");
    if (!sc_parse_expect(p, '@'))
        return false;
    sc_loc loc = sc_parse_loc(p);
    if (!sc_parse_name(p, "a function's name", &name))
        return false;
    const uint32_t *func = sc_map_find(&p->funcs, name);
    if (func == NULL)
        return sc_parse_fail(p, loc, "there is no function '%.200s'", sc_text(p->context, name));
    if (sc_parse_accept_word(p, "microbatch") &&
        !sc_parse_integer(p, INT32_MIN, INT32_MAX, &microbatch))
        return false;
    *sc_vec_push(&p->context->arena, &p->m->schedule) = (sc_call){*func, (int32_t)microbatch};
    return true;
}

static bool parse_schedule(sc_parser *p)
{
    if (!sc_parse_expect(p, '{'))
        return false;
    while (p->token.kind != '}' && p->token.kind != SC_TOKEN_END && !too_many_errors(p)) {
        uint32_t begin = p->token.begin;
        if (!parse_call(p))
            skip_line(p, begin);
    }
    return sc_parse_expect(p, '}');
}

/* ---- the module ---- */

static const struct statement {
    const char *word;
    bool (*parse)(sc_parser *p);
    bool once;
} statements[] = {
    {"states", parse_states, true},     {"mesh", parse_mesh, true},    {"dim", parse_dim, false},
    {"rule", parse_rule, false},        {"state", parse_state, false}, {"func", parse_func, false},
    {"schedule", parse_schedule, true},
};
enum { STATEMENTS = sizeof statements / sizeof *statements, LAST_OF_DIMS = 2 };

/* Dims are resolved at the first statement after them. */
static bool enter_stage(sc_parser *p, int stage)
{
    bool dims_end = p->stage <= LAST_OF_DIMS && stage > LAST_OF_DIMS;
    p->stage = stage;
    return !dims_end || resolve_dims(p);
}

static bool parse_statement(sc_parser *p)
{
    int kind = 0;
    while (kind < STATEMENTS && !sc_parse_at_word(p, statements[kind].word))
        kind++;
    if (kind == STATEMENTS) {
        bool said = p->lost;
        p->lost = true;
        return said ? false : sc_parse_expected(p, "a statement (dim, rule, state, func, ..)");
    }
    p->lost = false;
    if (kind < p->stage || (kind == p->stage && statements[kind].once))
        return sc_parse_fail(p, sc_parse_loc(p), "'%s' %s", statements[kind].word,
                             kind == p->stage ? "occurs here for the second time"
                                              : "belongs above; the order is states, mesh, dim, "
                                                "rule, state, func, schedule");
    if (!enter_stage(p, kind))
        return false;
    sc_parse_advance(p);
    return statements[kind].parse(p) && ends_line(p);
}

static bool parse_header(sc_parser *p)
{
    int64_t version;
    if (!sc_parse_accept_word(p, "shardc.ir"))
        return sc_parse_expected(p, "'shardc.ir 1'");
    sc_loc loc = sc_parse_loc(p);
    if (!sc_parse_integer(p, 0, INT64_MAX, &version))
        return false;
    return version == 1 ||
           sc_parse_fail(p, loc, "this is version %lld of the text; version 1 is read here",
                         (long long)version);
}

static void parse_text(sc_parser *p)
{
    sc_parse_advance(p);
    if (!parse_header(p))
        return;
    p->stage = -1;
    while (p->token.kind != SC_TOKEN_END && !too_many_errors(p)) {
        uint32_t begin = p->token.begin;
        if (!parse_statement(p))
            skip_line(p, begin);
    }
    if (!too_many_errors(p))
        enter_stage(p, STATEMENTS);
}

sc_module *sc_parse_module(sc_context *context, const char *name, const char *text, size_t length)
{
    const sc_source *source = sc_sources_add(&context->sources, name, text, length);
    if (source == NULL) {
        sc_report(&context->diag, SC_D_ir_syntax, (sc_loc){0}, "the text is too large", NULL);
        return NULL;
    }
    sc_parser *p = sc_arena_alloc(&context->arena, sizeof *p);
    p->context = context;
    p->errors = context->diag.errors;
    p->m = sc_module_new(context);
    p->lexer = (sc_text_lexer){.context = context, .text = source->text, .length = source->length};
    p->base = source->base;
    p->funcs.arena = &context->arena;
    sc_parse_op_start(p);
    parse_text(p);
    return context->diag.errors == p->errors ? p->m : NULL;
}
