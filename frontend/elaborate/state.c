/* Parameters and caches: declares them on first use with their initialisers, reads and writes them,
 * and records the fans for xavier(). */
#include "frontend/elaborate/internal.h"

#include <string.h>

#include "ir/text/text.h"

static const struct {
    const char *name;
    sc_init_kind kind;
    uint32_t arguments;
} inits[] = {{"zeros", SC_INIT_ZEROS, 0},       {"ones", SC_INIT_ONES, 0},
             {"constant", SC_INIT_CONSTANT, 1}, {"normal", SC_INIT_NORMAL, 1},
             {"uniform", SC_INIT_UNIFORM, 2},   {"xavier", SC_INIT_XAVIER, 0}};

static void report_init(sc_builder *b, const sc_expr *init)
{
    sc_build_error(b, SC_D_bad_argument, init->loc, "this is not an initialiser");
    sc_build_note(
        b, (sc_loc){0},
        "initialisers are zeros(), ones(), constant(v), normal(std), uniform(lo, hi), xavier()");
}

static void build_init(sc_frame *f, const sc_expr *init, sc_state *state)
{
    sc_builder *b = f->b;
    uint32_t row = 0, count = sizeof inits / sizeof *inits;
    if (init->kind != SC_EXPR_CALL || init->call.has_dims) {
        report_init(b, init);
        return;
    }
    while (row < count && strcmp(inits[row].name, sc_name_text(b, init->call.callee.text)) != 0)
        row++;
    if (row == count) {
        report_init(b, init);
        return;
    }
    state->init = inits[row].kind;
    state->init_args[0] = state->init_args[1] = 0.0;
    if (init->call.args.count != inits[row].arguments) {
        sc_build_error(b, SC_D_wrong_count, init->loc, inits[row].name,
                       sc_build_count(b, inits[row].arguments, "argument"),
                       sc_build_given(b, init->call.args.count));
        return;
    }
    for (uint32_t i = 0; i < inits[row].arguments; i++) {
        const sc_arg *arg = &init->call.args.data[i];
        sc_bval value;
        if (arg->values.count == 1 &&
            sc_build_constant(f, arg->values.data[0], "an initialiser's argument", &value))
            state->init_args[i] = value.number;
    }
}

/* Checks a state against its first declaration: entries share parameters and caches, so the dims
 * must have the same sizes in all of them. */
static bool check_shared(sc_builder *b, const sc_state *old, const sc_type_info *info)
{
    sc_type type = sc_type_intern(b->m, info);
    if (old->type == type)
        return true;
    sc_build_error(b, SC_D_bad_statement, old->loc,
                   sc_build_text(b,
                                 "'%s' is shared by entries, but is %s in one and %s in '%s'; bind "
                                 "its dims to the same sizes",
                                 sc_name_text(b, old->path), sc_type_text(b->m, old->type),
                                 sc_type_text(b->m, type), sc_name_text(b, b->request.entry)));
    return false;
}

static uint32_t declare_state(sc_frame *f, const sc_member *member, sc_sym path)
{
    sc_builder *b = f->b;
    const sc_pdecl *decl = member->decl;
    bool is_param = member->kind == SC_MEMBER_PARAM;
    sc_type_info info;
    sc_map_insert(&b->program->elaborated, (uint64_t)(uintptr_t)decl, 0, NULL);
    sc_dtype dtype = sc_build_dtype_of(b, is_param ? SC_KIND_PARAM : SC_KIND_CACHE, path);
    sc_type_ref ref = {.dtype = decl->dtype, .shape = decl->shape, .loc = decl->loc};
    sc_frame home = sc_build_home(f);
    if (!sc_build_declared(&home, &ref, dtype, &info, NULL))
        return SC_NONE;
    sc_build_pins(&home, decl->shape, path);
    uint32_t state = sc_module_find_state(b->m, path);
    if (state == SC_NONE) {
        sc_state made = {.path = path,
                         .kind = is_param ? SC_STATE_PARAM : SC_STATE_CACHE,
                         .loc = decl->name.loc};
        made.type = sc_type_intern(b->m, &info);
        made.init = is_param ? SC_INIT_NORMAL : SC_INIT_ZEROS;
        made.init_args[0] = is_param ? 0.02 : 0.0;
        if (is_param && decl->init != NULL)
            build_init(&home, decl->init, &made);
        state = sc_module_add_state(b->m, &made);
    } else if (!check_shared(b, &b->m->state.data[state], &info)) {
        return SC_NONE;
    }
    *sc_vec_push(&b->context->arena, &b->states) = state;
    return sc_build_check_sizes(b, decl->loc) ? state : SC_NONE;
}

static sc_value read_state(sc_frame *f, sc_loc loc, const sc_member *member, sc_sym path)
{
    sc_builder *b = f->b;
    uint32_t state = declare_state(f, member, path);
    if (state == SC_NONE)
        return SC_NONE;
    sc_attr name = sc_attr_text(SC_ATTR_name, path);
    sc_type type = b->m->state.data[state].type;
    sc_value value =
        sc_emit_typed(f, loc, member->kind == SC_MEMBER_PARAM ? SC_OP_param : SC_OP_cache_read,
                      NULL, 0, &name, 1, &type);
    if (value != SC_NONE)
        b->m->values.data[value].path = path;
    return value;
}

sc_bval sc_build_param(sc_frame *f, sc_loc loc, const sc_member *member)
{
    sc_builder *b = f->b;
    sc_sym path = sc_build_path(b, f->instance->path, member->name.text);
    const uint32_t *known = sc_map_find(&b->params, path);
    if (known != NULL)
        return sc_bval_tensor(*known);
    sc_value value = read_state(f, loc, member, path);
    /* a declared dtype is also the dtype the parameter is read in */
    if (value != SC_NONE && member->decl->dtype.text == 0 &&
        sc_dtype_is_float(sc_build_type(b, value)->dtype))
        value = sc_emit_cast(f, loc, value, sc_build_dtype_of(b, SC_KIND_ACT, path));
    sc_map_insert(&b->params, path, value, NULL);
    return sc_bval_tensor(value);
}

sc_value sc_build_cache(sc_frame *f, sc_loc loc, const sc_member *member)
{
    sc_builder *b = f->b;
    sc_sym path = sc_build_path(b, f->instance->path, member->name.text);
    const uint32_t *known = sc_map_find(&b->caches, path);
    if (known != NULL)
        return *known;
    sc_value value = read_state(f, loc, member, path);
    sc_map_insert(&b->caches, path, value, NULL);
    return value;
}

void sc_build_write_cache(sc_frame *f, sc_loc loc, const sc_member *member, sc_value value)
{
    sc_builder *b = f->b;
    sc_sym path = sc_build_path(b, f->instance->path, member->name.text);
    sc_attr name = sc_attr_text(SC_ATTR_name, path);
    sc_emit_typed(f, loc, SC_OP_cache_write, &value, 1, &name, 1, NULL);
    *sc_map_insert(&b->caches, path, value, NULL) = value;
}

/* ---- xavier ---- */
static sc_state *xavier_state(sc_builder *b, sc_value operand)
{
    const sc_op *op = sc_op_at(b->m, sc_def(b->m, operand));
    while (op->kind == SC_OP_cast || op->kind == SC_OP_use || op->kind == SC_OP_stop_gradient)
        op = sc_op_at(b->m, sc_def(b->m, op->operands[0]));
    if (!sc_op_has(op, SC_PARAMETER))
        return NULL;
    uint32_t state = sc_module_find_state(b->m, sc_op_word(op, SC_ATTR_name));
    return state != SC_NONE && b->m->state.data[state].init == SC_INIT_XAVIER
               ? &b->m->state.data[state]
               : NULL;
}

void sc_build_note_fan(sc_builder *b, sc_value operand, const sc_dim *dims, uint32_t count)
{
    sc_state *state = operand == SC_NONE || b->request.symbolic ? NULL : xavier_state(b, operand);
    if (state == NULL || state->init_args[0] > 1.0)
        return;
    const sc_type_info *type = &b->m->types.data[state->type];
    double fan_in = 1.0, fan_out = 1.0;
    for (uint32_t i = 0; i < type->rank; i++) {
        bool contracted = false;
        for (uint32_t d = 0; d < count; d++)
            contracted = contracted || dims[d] == type->dims[i].dim;
        *(contracted ? &fan_in : &fan_out) *= (double)type->dims[i].size;
    }
    state->init_args[0] = fan_in;
    state->init_args[1] = fan_out;
}

void sc_build_finish_fans(sc_builder *b)
{
    for (uint32_t i = 0; i < b->states.count; i++) {
        sc_state *state = &b->m->state.data[b->states.data[i]];
        if (state->init != SC_INIT_XAVIER || state->init_args[0] > 0.0)
            continue;
        state->init_args[0] = 1.0;
        state->init_args[1] = (double)sc_type_elements(&b->m->types.data[state->type]);
    }
}
