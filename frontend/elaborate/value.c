/* Creates ops, casts and constants, and rounds values. Casts and constants are created once per
 * function: the code is straight-line, so the first use dominates the others. */
#include "frontend/elaborate/internal.h"

#include <string.h>

#include "ir/text/text.h"

/* ---- ops ---- */
static bool check_count(sc_builder *b, sc_loc loc)
{
    if (b->m->ops.count < SC_MAX_OPS)
        return !b->stopped;
    if (!b->stopped)
        sc_build_error(
            b, SC_D_too_large, loc,
            sc_build_text(b, "the program would have more than %d operations", SC_MAX_OPS));
    b->stopped = true;
    return false;
}

/* Checks that element counts fit, so that later stages need not check theirs. Each type is checked
 * once. */
bool sc_build_check_sizes(sc_builder *b, sc_loc loc)
{
    bool ok = true;
    for (; b->checked_types < b->m->types.count; b->checked_types++) {
        const sc_type_info *type = &b->m->types.data[b->checked_types];
        if (sc_type_elements(type) <= INT64_MAX / 16)
            continue;
        sc_build_error(b, SC_D_too_large, loc,
                       sc_build_text(b, "%s has more elements than fit",
                                     sc_type_text(b->m, b->checked_types)));
        ok = false;
    }
    return ok;
}

static sc_value finish_op(sc_frame *f, sc_loc loc, sc_op_id id)
{
    sc_op *op = sc_op_at(f->b->m, id);
    op->loc = loc;
    op->scope = f->scope;
    return sc_build_check_sizes(f->b, loc) && op->result_count > 0 ? op->first_result : SC_NONE;
}

sc_value sc_emit(sc_frame *f, sc_loc loc, sc_op_kind kind, const sc_value *operands,
                 uint32_t operand_count, const sc_attr *attrs, uint32_t attr_count,
                 int64_t new_size)
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

sc_value sc_emit_typed(sc_frame *f, sc_loc loc, sc_op_kind kind, const sc_value *operands,
                       uint32_t operand_count, const sc_attr *attrs, uint32_t attr_count,
                       const sc_type *type)
{
    if (!check_count(f->b, loc))
        return SC_NONE;
    sc_op_id id = sc_op_new(f->b->m, f->b->func, SC_NONE, kind, operands, operand_count, attrs,
                            attr_count, type, type == NULL ? 0 : 1, SC_NONE);
    return finish_op(f, loc, id);
}

/* ---- casts and constants ---- */
/* True if `from` converts to `to` without loss. */
static bool widens(sc_dtype from, sc_dtype to)
{
    const sc_dtype_row *a = &sc_dtypes[from], *b = &sc_dtypes[to];
    return a->kind == SC_DTYPE_FLOAT && b->kind == SC_DTYPE_FLOAT &&
           a->significand <= b->significand && a->low >= b->low && a->high <= b->high;
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
    if (sc_op_has(def, SC_CONVERTS) && sc_build_type(b, def->operands[0])->dtype == dtype &&
        widens(dtype, from))
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
    double limit = dtype == SC_DTYPE_u8     ? 256.0
                   : dtype == SC_DTYPE_bool ? 2.0
                   : dtype == SC_DTYPE_i64  ? 9007199254740992.0
                                            : 2147483648.0;
    return number < limit &&
           number >= (dtype == SC_DTYPE_u8 || dtype == SC_DTYPE_bool ? 0.0 : -limit);
}

sc_value sc_emit_constant(sc_frame *f, sc_loc loc, double number, sc_dtype dtype)
{
    sc_builder *b = f->b;
    uint64_t bits;
    if (!fits(number, dtype)) {
        sc_build_error(b, SC_D_bad_operand, loc,
                       sc_build_text(b, "%.17g does not fit %s", number, sc_dtypes[dtype].name));
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
        /* the number depends on an unknown size: use 1, which is a valid divisor and has a
         * logarithm */
        return sc_emit_constant(f, loc, value->unknown ? 1.0 : value->number, dtype);
    case SC_BVAL_TENSOR:
        return sc_emit_cast(f, loc, value->value, dtype);
    case SC_BVAL_WORD:
        sc_build_error(
            b, SC_D_bad_operand, loc,
            sc_build_text(b, "'%s' is a word, not a value", sc_name_text(b, value->word)));
        return SC_NONE;
    default:
        return SC_NONE;
    }
}

sc_dtype sc_build_compute_dtype(sc_frame *f, sc_loc loc, const sc_bval *values, uint32_t count,
                                bool needs_float)
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
            if (sc_dtypes[dtype].kind == SC_DTYPE_INT &&
                (integer == SC_DTYPE_COUNT || sc_dtypes[dtype].bytes > sc_dtypes[integer].bytes))
                integer = dtype;
        }
    }
    if (truth != NULL && (is_number || needs_float)) {
        sc_build_error(b, SC_D_dtype_mismatch, loc, "one operand", "bool", "a number");
        sc_build_note(b, (sc_loc){0}, "cast(x, f32) converts a bool to a number");
        return SC_DTYPE_COUNT;
    }
    if (truth != NULL)
        return SC_DTYPE_bool;
    if (is_float)
        return is_double ? SC_DTYPE_f64 : SC_DTYPE_f32;
    return integer == SC_DTYPE_COUNT ? SC_DTYPE_i32 : integer;
}

/* ---- rounding where a value gets a name ---- */
static bool converts(sc_dtype from, sc_dtype to)
{
    const sc_dtype_row *a = &sc_dtypes[from], *b = &sc_dtypes[to];
    if (from == to)
        return true;
    if (a->kind == SC_DTYPE_BOOL || b->kind == SC_DTYPE_BOOL)
        return false;
    return b->kind == SC_DTYPE_FLOAT || (a->kind == SC_DTYPE_INT && a->bytes < b->bytes);
}

static bool check_dtype(sc_frame *f, const char *what, const sc_bval *value, sc_dtype wanted,
                        const sc_type_ref *declared, sc_loc loc)
{
    sc_builder *b = f->b;
    const char *found;
    if (value->kind == SC_BVAL_TENSOR) {
        sc_dtype dtype = sc_build_type(b, value->value)->dtype;
        if (converts(dtype, wanted))
            return true;
        found = sc_dtypes[dtype].name;
    } else {
        if (value->kind != SC_BVAL_NUMBER || value->is_integer || sc_dtype_is_float(wanted))
            return true;
        found = "a number with a fraction";
    }
    sc_build_error(b, SC_D_dtype_mismatch, loc, what, found, sc_dtypes[wanted].name);
    sc_build_note(b, declared->loc, "declared here; cast(x, %s) converts", sc_dtypes[wanted].name);
    return false;
}

sc_value sc_build_round(sc_frame *f, const char *what, const sc_bval *value,
                        const sc_type_ref *declared, sc_frame *declared_in, sc_dtype act,
                        sc_loc loc)
{
    sc_builder *b = f->b;
    sc_dtype dtype;
    if (value->kind == SC_BVAL_NONE)
        return SC_NONE;
    if (declared != NULL && declared->dtype.text != 0) {
        if (!sc_build_dtype(b, declared->dtype, &dtype) ||
            !check_dtype(f, what, value, dtype, declared, loc))
            return SC_NONE;
    } else if (value->kind == SC_BVAL_TENSOR) {
        dtype = sc_build_type(b, value->value)->dtype;
        if (sc_dtype_is_float(dtype) && value->fixed == SC_ROUNDS)
            dtype = act;
    } else {
        dtype = value->is_integer ? SC_DTYPE_i32 : act;
    }
    sc_value result = sc_build_as(f, loc, value, dtype);
    if (result != SC_NONE && declared != NULL && declared->shape != NULL &&
        !sc_build_check_shape(f, what, result, loc, declared->shape, declared_in))
        return SC_NONE;
    return result;
}
