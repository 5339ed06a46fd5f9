/* Shared by the parts of elaboration. A *frame* is the execution of one body (of an entry, a fn, a
 * block instance). An *instance* is a block or model with its path, dims and statics. Everything is
 * inlined: a frame's locals are values of the one function being built.
 *
 *   entry.c          an entry from inputs to return; symbolic checks
 *   statement.c      statements, calls of subs and fns
 *   arguments.c      dim and static arguments of these calls
 *   expression.c     expressions
 *   op.c             calls of language ops (lang_ops.def)
 *   ops.c            builders of language ops
 *   attention_ops.c  builders of ops that depend on positions and caches
 *   call.c           operands, options and results of an op call, for the builders
 *   state.c          parameters and caches
 *   arithmetic.c     numbers and operators
 *   value.c          creates ops, casts, constants; rounding
 *   frame.c          frames: locals, statics, paths; limits
 *   dims.c           from dims and shapes of the text to dims and types of the module
 *
 * expression.c, statement.c, arguments.c, state.c, op.c, ops.c, attention_ops.c and call.c call
 * each other in a cycle. It is the recursion of the language: an expression calls a fn, whose body,
 * arguments, operands and initialisers are expressions. No other files may (test/lint/layers.py
 * reads this sentence). */
#ifndef SHARDC_FRONTEND_ELABORATE_INTERNAL_H
#define SHARDC_FRONTEND_ELABORATE_INTERNAL_H

#include "frontend/elaborate/builder.h"

enum { SC_MAX_EVAL_DEPTH = 1024, SC_MAX_OPS = 1 << 20, SC_MAX_STEPS = 1 << 22 };

/* ---- messages ---- */
#define sc_build_text(b, ...) sc_arena_printf(&(b)->context->arena, __VA_ARGS__)
/* Reports an error and marks the build as failed. Add notes with sc_build_note; they are dropped if
 * the message was a repetition. */
#define sc_build_error(b, id, loc, ...)                                                            \
    ((b)->failed = true, (b)->noted = (b)->context->diag.list.count,                               \
     sc_report(&(b)->context->diag, id, loc, __VA_ARGS__, (char *)NULL))

#define sc_build_note(b, ...)                                                                      \
    ((b)->context->diag.list.count > (b)->noted ? sc_report_note(&(b)->context->diag, __VA_ARGS__) \
                                                : (void)0)

static inline const char *sc_name_text(const sc_builder *b, sc_sym name)
{
    return sc_text(b->context, name);
}

/* "1 value", "2 values" */
#define sc_build_count(b, n, word)                                                                 \
    sc_build_text(b, "%u " word "%s", (unsigned)(n), (n) == 1 ? "" : "s")
/* "1 is given", "2 are given" */
#define sc_build_given(b, n) sc_build_text(b, "%u %s given", (unsigned)(n), (n) == 1 ? "is" : "are")

/* ---- frame.c ---- */
/* returns prefix.name; name if prefix is 0 */
sc_sym sc_build_path(sc_builder *b, sc_sym prefix, sc_sym name);
sc_dtype sc_build_dtype_of(sc_builder *b, sc_tensor_kind kind, sc_sym path);
/* Returns a new frame in the context's scratch memory. */
sc_frame *sc_build_frame(sc_builder *b, const sc_frame *caller, const sc_callable *callable,
                         const sc_instance *instance, sc_sym path, sc_sym scope);
/* Returns a frame with the scope of the unit's declarations: no locals, no arguments of the fn that
 * f runs. */
sc_frame sc_build_home(const sc_frame *f);
const sc_local *sc_build_find_local(const sc_frame *f, sc_sym name);
void sc_build_set_local(sc_frame *f, sc_name name, sc_bval value);
const sc_bval *sc_build_find_static(const sc_frame *f, sc_sym name);
/* True if all these conditions hold for the static arguments of the frame's instance. */
bool sc_build_condition(sc_frame *f, const sc_condition *condition);
/* True if the member is there in the frame's instance; else reports its use at `loc`. */
bool sc_build_is_present(sc_frame *f, const sc_member *member, sc_loc loc);
/* Counts a step and a level. Returns false (after reporting it once) at the limits. Each successful
 * call is paired with sc_build_leave. */
bool sc_build_enter(sc_builder *b, sc_loc loc);
static inline void sc_build_leave(sc_builder *b)
{
    b->limits.depth--;
}

/* ---- dims.c ---- */
/* Resolves a dim of the program or a dim parameter to a dim of the module. SC_NONE after reporting
 * an error. */
sc_dim sc_build_dim(sc_frame *f, sc_name name);
/* As sc_build_dim, without reporting errors. */
sc_dim sc_build_find_dim(sc_frame *f, sc_name name);
/* Resolves a program dim by index, ignoring a frame's substitutions. */
sc_dim sc_build_program_dim(sc_builder *b, uint32_t index, sc_loc loc);
/* Returns a dim for an undeclared name: a dim parameter of a block that is checked by itself. */
sc_dim sc_build_new_dim(sc_builder *b, sc_sym name);
int64_t sc_build_size(const sc_builder *b, sc_dim dim); /* 0: unknown */
/* Lists the leaves of a dim: itself, or its parts. Returns their number. */
uint32_t sc_build_leaves(const sc_builder *b, sc_dim dim, const sc_dim **leaves);
/* Follows aliases to the dim that is not an alias. */
sc_dim sc_build_root(const sc_builder *b, sc_dim dim);
bool sc_build_is_alias_of(const sc_builder *b, sc_dim dim, sc_dim of);

/* Converts a shape to the dims of a type; the caller sets the dtype. Sets *rest if the shape starts
 * with `..`; with rest NULL that is an error. Returns false after reporting an error. */
bool sc_build_shape(sc_frame *f, const sc_shape *shape, sc_type_info *type, bool *rest);
/* As sc_build_shape, for a declared type; its dtype is `otherwise` if the declaration has none. */
bool sc_build_declared(sc_frame *f, const sc_type_ref *ref, sc_dtype otherwise, sc_type_info *type,
                       bool *rest);
bool sc_build_dtype(sc_builder *b, sc_name name, sc_dtype *dtype);
/* Checks a value against its declared shape. `what` names it in messages. Returns false after
 * reporting an error. */
bool sc_build_check_shape(sc_frame *f, const char *what, sc_value value, sc_loc loc,
                          const sc_shape *declared, sc_frame *declared_in);
/* Formats a type's shape: [B, S, H], or [.., N] with `rest`. */
const char *sc_build_shape_text(const sc_builder *b, const sc_type_info *type, bool rest);
/* Records the `@axis` annotations of a shape as pins of the value at `path`. */
void sc_build_pins(sc_frame *f, const sc_shape *shape, sc_sym path);

/* ---- value.c ---- */
static inline const sc_type_info *sc_build_type(const sc_builder *b, sc_value value)
{
    return sc_type_of(b->m, value);
}
static inline sc_bval sc_bval_tensor(sc_value value)
{
    return value == SC_NONE ? (sc_bval){.kind = SC_BVAL_NONE}
                            : (sc_bval){.kind = SC_BVAL_TENSOR, .value = value};
}
/* Emits an op and infers its result types from the op's row. Returns its first result; SC_NONE
 * after reporting an error. */
sc_value sc_emit(sc_frame *f, sc_loc loc, sc_op_kind kind, const sc_value *operands,
                 uint32_t operand_count, const sc_attr *attrs, uint32_t attr_count,
                 int64_t new_size);
/* Emits an op with a given result type (NULL: no result). */
sc_value sc_emit_typed(sc_frame *f, sc_loc loc, sc_op_kind kind, const sc_value *operands,
                       uint32_t operand_count, const sc_attr *attrs, uint32_t attr_count,
                       const sc_type *type);
sc_value sc_emit_cast(sc_frame *f, sc_loc loc, sc_value value, sc_dtype dtype);
sc_value sc_emit_use(sc_frame *f, sc_loc loc, sc_value value, sc_sym path);
sc_value sc_emit_constant(sc_frame *f, sc_loc loc, double number, sc_dtype dtype);
/* Converts a number or tensor to a tensor of this dtype. SC_NONE if that is impossible, after
 * reporting an error unless one was reported for the value. */
sc_value sc_build_as(sc_frame *f, sc_loc loc, const sc_bval *value, sc_dtype dtype);
/* Returns the dtype in which elementwise ops and reductions over these operands compute: f64, f32,
 * the widest integer, or bool. `needs_float` makes integers float. SC_DTYPE_COUNT after reporting
 * an error if bools and numbers are mixed. */
sc_dtype sc_build_compute_dtype(sc_frame *f, sc_loc loc, const sc_bval *values, uint32_t count,
                                bool needs_float);
/* Checks that element counts of the types added since the last call do not overflow. Returns false
 * after reporting an error. */
bool sc_build_check_sizes(sc_builder *b, sc_loc loc);
/* Prepares a value for assignment to a name: checks its shape, rounds it to `act` or to its
 * declared dtype. `declared` may be NULL. SC_NONE after reporting an error. */
sc_value sc_build_round(sc_frame *f, const char *what, const sc_bval *value,
                        const sc_type_ref *declared, sc_frame *declared_in, sc_dtype act,
                        sc_loc loc);

/* ---- arithmetic.c ---- */
sc_bval sc_build_integer(int64_t value);
sc_bval sc_build_number(double value);
sc_bval sc_build_binary(sc_frame *f, sc_loc loc, sc_op_kind kind, sc_bval a, sc_bval b);
sc_bval sc_build_negative(sc_frame *f, sc_loc loc, sc_bval value);

/* ---- state.c ---- */
/* Returns a param as it is read: in the act dtype. */
sc_bval sc_build_param(sc_frame *f, sc_loc loc, const sc_member *member);
/* Returns a cache in its own dtype: its value at entry, or as last written. */
sc_value sc_build_cache(sc_frame *f, sc_loc loc, const sc_member *member);
void sc_build_write_cache(sc_frame *f, sc_loc loc, const sc_member *member, sc_value value);
/* Records the dims that a parameter is contracted or gathered over, for xavier(). */
void sc_build_note_fan(sc_builder *b, sc_value operand, const sc_dim *dims, uint32_t count);
/* Sets fan-in 1 for xavier parameters that nothing contracts. */
void sc_build_finish_fans(sc_builder *b);

/* ---- expression.c ---- */
sc_bval sc_build_expr(sc_frame *f, const sc_expr *expr);
sc_bval_list sc_build_exprs(sc_frame *f, const sc_expr *expr); /* returns all results of a call */
/* Evaluates a constant number. Returns false after reporting an error. Sets *unknown (may be NULL)
 * if it depends on a dim without a size. */
bool sc_build_constant(sc_frame *f, const sc_expr *expr, const char *what, sc_bval *out);
/* Evaluates a static argument: a number, a word, a word with numbers, or a list of these. An
 * enclosing static of that name takes precedence over the word. */
sc_bval sc_build_static(sc_frame *f, const sc_expr *expr);
/* Evaluates a word, with numbers if it is written as a call; NONE after reporting an error. */
sc_bval sc_build_word(sc_frame *f, const sc_expr *expr);

/* ---- op.c ---- */
sc_bval_list sc_build_op(sc_frame *f, const sc_expr *expr);
bool sc_lang_op_exists(const char *name);
void sc_lang_op_names(sc_context *context, sc_text_list *out);

/* ---- statement.c ---- */
void sc_build_body(sc_frame *f, const sc_stmt_list *body);
/* Runs the frame's body to its return. Results are checked against `->`, rounded, and given the
 * path `..out`. */
sc_bval_list sc_build_run(sc_frame *f);
/* Checks the declaration of a param, cache or sub by itself, in a frame of sc_build_home. */
void sc_build_declaration(sc_frame *home, const sc_member *member);
/* Calls a member or a file-level fn by name. Returns false, without a message, if there is none. */
bool sc_build_call(sc_frame *f, const sc_expr *call, sc_bval_list *out);
/* Evaluate dim and static arguments of a block instance or a fn call (arguments.c). */
bool sc_build_dim_args(sc_frame *f, const sc_callable *callable, const sc_dim_arg *args,
                       uint32_t count, sc_loc loc, sc_instance *instance);
/* Which instance of a stack takes the arguments: a list has one value for each. NULL: a model takes
 * them, which keeps lists. */
typedef struct sc_stack_place {
    bool is_stack;
    int64_t index, size; /* size 0: not known */
} sc_stack_place;
bool sc_build_statics(sc_frame *f, const sc_callable *callable, const sc_arg_list *args,
                      const sc_stack_place *place, sc_instance *instance);

#endif
