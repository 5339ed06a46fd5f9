/* Making ops, casts, constants, parameters and caches. Casts and constants are made once a function: the code is straight-line, so the
 * first use dominates the rest. */
#include "frontend/elaborate/internal.h"

#include <string.h>

#include "ir/text/text.h"

sc_sym sc_build_path(sc_builder *b, sc_sym prefix, sc_sym name)
{
    if (prefix == 0)
        return name;
    return sc_intern_printf(&b->context->names, "%s.%s", sc_name_text(b, prefix), sc_name_text(b, name));
}

sc_dtype sc_build_dtype_of(sc_builder *b, sc_tensor_kind kind, sc_sym path)
{
    return b->request.dtype_of == NULL ? SC_DTYPE_f32 : b->request.dtype_of(b->request.user, kind, path);
}

/* ---- ops ---- */
static bool check_count(sc_builder *b, sc_loc loc)
{
    if (b->m->ops.count < SC_MAX_OPS)
        return !b->stopped;
    if (!b->stopped)
        sc_build_error(b, SC_D_too_large, loc, sc_build_text(b, "the program would have more than %d operations", SC_MAX_OPS));
    b->stopped = true;
    return false;
}

/* Element counts must fit, so that no later stage has to check its products. Each type is looked at once. */
static bool check_sizes(sc_builder *b, sc_loc loc)
{
    bool ok = true;
    for (; b->checked_types < b->m->types.count; b->checked_types++) {
        const sc_type_info *type = &b->m->types.data[b->checked_types];
        if (sc_type_elements(type) <= INT64_MAX / 16)
            continue;
        sc_build_error(b, SC_D_too_large, loc, sc_build_text(b, "%s has more elements than fit", sc_type_text(b->m, b->checked_types)));
        ok = false;
    }
    return ok;
}

static sc_value finish_op(sc_frame *f, sc_loc loc, sc_op_id id)
{
    sc_op *op = sc_op_at(f->b->m, id);
    op->loc = loc;
    op->scope = f->scope;
    return check_sizes(f->b, loc) && op->result_count > 0 ? op->first_result : SC_NONE;
}

sc_value sc_emit(sc_frame *f, sc_loc loc, sc_op_kind kind, const sc_value *operands, uint32_t operand_count, const sc_attr *attrs,
                 uint32_t attr_count, int64_t new_size)
{
    sc_builder *b = f->b;
    for (uint32_t i = 0; i < operand_count; i++) {
        if (operands[i] == SC_NONE)
            return SC_NONE;
    }
    if (!check_count(b, loc))
        return SC_NONE;
    sc_shape_request request = {.m = b->m,
                                .kind = kind,
                                .operands = operands,
                                .operand_count = operand_count,
                                .attrs = attrs,
                                .attr_count = attr_count,
                                .new_size = new_size};
    sc_op_id id = sc_op_build(&request, b->func, SC_NONE, SC_NONE);
    if (id == SC_NONE) {
        sc_build_error(b, request.error_id, loc, request.error);
        return SC_NONE;
    }
    return finish_op(f, loc, id);
}

sc_value sc_emit_typed(sc_frame *f, sc_loc loc, sc_op_kind kind, const sc_value *operands, uint32_t operand_count, const sc_attr *attrs,
                       uint32_t attr_count, const sc_type *type)
{
    if (!check_count(f->b, loc))
        return SC_NONE;
    sc_op_id id =
        sc_op_new(f->b->m, f->b->func, SC_NONE, kind, operands, operand_count, attrs, attr_count, type, type == NULL ? 0 : 1, SC_NONE);
    return finish_op(f, loc, id);
}

/* ---- casts and constants ---- */
/* Every value of `from` is one of `to`. */
static bool widens(sc_dtype from, sc_dtype to)
{
    const sc_dtype_row *a = &sc_dtypes[from], *b = &sc_dtypes[to];
    return a->kind == SC_DTYPE_FLOAT && b->kind == SC_DTYPE_FLOAT && a->significand <= b->significand && a->low >= b->low &&
           a->high <= b->high;
}

sc_value sc_emit_cast(sc_frame *f, sc_loc loc, sc_value value, sc_dtype dtype)
{
    sc_builder *b = f->b;
    if (value == SC_NONE)
        return SC_NONE;
    sc_dtype from = sc_build_type(b, value)->dtype;
    if (from == dtype)
        return value;
    const sc_op *def = sc_op_at(b->m, sc_def(b->m, value));
    if (def->kind == SC_OP_cast && sc_build_type(b, def->operands[0])->dtype == dtype && widens(dtype, from))
        return def->operands[0];
    uint64_t key = (uint64_t)value << 8 | (uint64_t)dtype;
    const uint32_t *known = sc_map_find(&b->casts, key);
    if (known != NULL)
        return *known;
    sc_type type = sc_type_with_dtype(b->m, b->m->values.data[value].type, dtype);
    sc_value result = sc_emit_typed(f, loc, SC_OP_cast, &value, 1, NULL, 0, &type);
    sc_map_insert(&b->casts, key, result, NULL);
    return result;
}

sc_value sc_emit_use(sc_frame *f, sc_loc loc, sc_value value, sc_sym path)
{
    sc_value result = sc_emit(f, loc, SC_OP_use, &value, 1, NULL, 0, 0);
    if (result != SC_NONE)
        f->b->m->values.data[result].path = path;
    return result;
}

static bool fits(double number, sc_dtype dtype)
{
    if (sc_dtypes[dtype].kind == SC_DTYPE_FLOAT)
        return true;
    double limit = dtype == SC_DTYPE_u8 ? 256.0 : dtype == SC_DTYPE_bool ? 2.0 : dtype == SC_DTYPE_i64 ? 9007199254740992.0 : 2147483648.0;
    return number < limit && number >= (dtype == SC_DTYPE_u8 || dtype == SC_DTYPE_bool ? 0.0 : -limit);
}

sc_value sc_emit_constant(sc_frame *f, sc_loc loc, double number, sc_dtype dtype)
{
    sc_builder *b = f->b;
    uint64_t bits;
    if (!fits(number, dtype)) {
        sc_build_error(b, SC_D_bad_operand, loc, sc_build_text(b, "%.17g does not fit %s", number, sc_dtypes[dtype].name));
        return SC_NONE;
    }
    memcpy(&bits, &number, sizeof bits);
    const uint32_t *known = sc_map_find(&b->constants[dtype], bits);
    if (known != NULL)
        return *known;
    sc_type_info info = {.dtype = dtype, .placement = sc_placement_replicated()};
    sc_type type = sc_type_intern(b->m, &info);
    sc_attr attr = sc_attr_number(SC_ATTR_value, number);
    sc_value result = sc_emit_typed(f, loc, SC_OP_constant, NULL, 0, &attr, 1, &type);
    sc_map_insert(&b->constants[dtype], bits, result, NULL);
    return result;
}

sc_value sc_build_as(sc_frame *f, sc_loc loc, const sc_bval *value, sc_dtype dtype)
{
    sc_builder *b = f->b;
    switch (value->kind) {
    case SC_BVAL_NUMBER:
        /* a number made of a size that is not known yet is any number: 1 divides and has a logarithm */
        return sc_emit_constant(f, loc, value->unknown ? 1.0 : value->number, dtype);
    case SC_BVAL_TENSOR:
        return sc_emit_cast(f, loc, value->value, dtype);
    case SC_BVAL_WORD:
        sc_build_error(b, SC_D_bad_operand, loc, sc_build_text(b, "'%s' is a word, not a value", sc_name_text(b, value->word)));
        return SC_NONE;
    default:
        return SC_NONE;
    }
}

sc_dtype sc_build_compute_dtype(sc_frame *f, sc_loc loc, const sc_bval *values, uint32_t count, bool needs_float)
{
    sc_builder *b = f->b;
    bool is_float = needs_float, is_double = false, is_number = false;
    sc_dtype integer = SC_DTYPE_COUNT;
    const sc_bval *truth = NULL;
    for (uint32_t i = 0; i < count; i++) {
        const sc_bval *v = &values[i];
        if (v->kind == SC_BVAL_NUMBER) {
            is_float = is_float || !v->is_integer;
            is_number = true;
        } else if (v->kind == SC_BVAL_TENSOR) {
            sc_dtype dtype = sc_build_type(b, v->value)->dtype;
            is_float = is_float || sc_dtype_is_float(dtype);
            is_double = is_double || dtype == SC_DTYPE_f64;
            if (dtype == SC_DTYPE_bool)
                truth = v;
            else
                is_number = true;
            if (sc_dtypes[dtype].kind == SC_DTYPE_INT && (integer == SC_DTYPE_COUNT || sc_dtypes[dtype].bytes > sc_dtypes[integer].bytes))
                integer = dtype;
        }
    }
    if (truth != NULL && (is_number || needs_float)) {
        sc_build_error(b, SC_D_dtype_mismatch, loc, "one operand", "bool", "a number");
        sc_build_note(b, (sc_loc){0}, "cast(x, f32) makes a number of a bool");
        return SC_DTYPE_COUNT;
    }
    if (truth != NULL)
        return SC_DTYPE_bool;
    if (is_float)
        return is_double ? SC_DTYPE_f64 : SC_DTYPE_f32;
    return integer == SC_DTYPE_COUNT ? SC_DTYPE_i32 : integer;
}

/* ---- parameters and caches ---- */
static const struct {
    const char *name;
    sc_init_kind kind;
    uint32_t arguments;
} inits[] = {{"zeros", SC_INIT_ZEROS, 0},   {"ones", SC_INIT_ONES, 0},       {"constant", SC_INIT_CONSTANT, 1},
             {"normal", SC_INIT_NORMAL, 1}, {"uniform", SC_INIT_UNIFORM, 2}, {"xavier", SC_INIT_XAVIER, 0}};

static void report_init(sc_builder *b, const sc_expr *init)
{
    sc_build_error(b, SC_D_bad_argument, init->loc, "this is no initialiser");
    sc_build_note(b, (sc_loc){0}, "initialisers are zeros(), ones(), constant(v), normal(std), uniform(lo, hi), xavier()");
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
        sc_build_error(b, SC_D_wrong_count, init->loc, inits[row].name, sc_build_count(b, inits[row].arguments, "argument"),
                       sc_build_given(b, init->call.args.count));
        return;
    }
    for (uint32_t i = 0; i < inits[row].arguments; i++) {
        const sc_arg *arg = &init->call.args.data[i];
        sc_bval value;
        if (arg->values.count == 1 && sc_build_constant(f, arg->values.data[0], "an initialiser's argument", &value))
            state->init_args[i] = value.number;
    }
}

/* Entries share parameters and caches, so the dims of these have one size for all. */
static bool check_shared(sc_builder *b, const sc_state *old, const sc_type_info *info)
{
    sc_type type = sc_type_intern(b->m, info);
    if (old->type == type)
        return true;
    sc_build_error(b, SC_D_bad_statement, old->loc,
                   sc_build_text(b, "'%s' is shared by entries, but is %s in one and %s in '%s'; bind its dims alike",
                                 sc_name_text(b, old->path), sc_type_text(b->m, old->type), sc_type_text(b->m, type),
                                 sc_name_text(b, b->request.entry)));
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
        sc_state made = {.path = path, .kind = is_param ? SC_STATE_PARAM : SC_STATE_CACHE, .loc = decl->name.loc};
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
    return check_sizes(b, decl->loc) ? state : SC_NONE;
}

static sc_value read_state(sc_frame *f, sc_loc loc, const sc_member *member, sc_sym path)
{
    sc_builder *b = f->b;
    uint32_t state = declare_state(f, member, path);
    if (state == SC_NONE)
        return SC_NONE;
    sc_attr name = sc_attr_text(SC_ATTR_name, path);
    sc_type type = b->m->state.data[state].type;
    sc_value value = sc_emit_typed(f, loc, member->kind == SC_MEMBER_PARAM ? SC_OP_param : SC_OP_cache_read, NULL, 0, &name, 1, &type);
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
    /* a declared dtype is how the parameter is meant to be read, too */
    if (value != SC_NONE && member->decl->dtype.text == 0 && sc_dtype_is_float(sc_build_type(b, value)->dtype))
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
    if (op->kind != SC_OP_param)
        return NULL;
    uint32_t state = sc_module_find_state(b->m, sc_op_word(op, SC_ATTR_name));
    return state != SC_NONE && b->m->state.data[state].init == SC_INIT_XAVIER ? &b->m->state.data[state] : NULL;
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
