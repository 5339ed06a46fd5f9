/* Elaboration: what its parts share. A *frame* is one body being run (an entry's, a fn's, a block instance's); an *instance* is a block
 * or model with its path, dims and statics. Everything is inlined, so a frame's locals are values of the one function being built.
 *
 *   entry.c       an entry from inputs to return; symbolic checks
 *   statement.c   statements, calls of subs and fns; arguments.c their dim and static arguments
 *   expression.c  expressions
 *   op.c          the language's ops (lang_ops.def); ops.c makes them, attention_ops.c those that know positions and caches, call.c is what
 *                 both read a call with
 *   state.c       parameters and caches
 *   arithmetic.c  numbers and operators
 *   value.c       making ops, casts, constants; rounding
 *   frame.c       frames: locals, statics, paths; limits
 *   dims.c        dims and shapes of the text as dims and types of the module
 *
 * expression.c, statement.c, arguments.c, state.c, op.c, ops.c, attention_ops.c and call.c call each other in a circle. It is the
 * language's own recursion: an expression calls a fn, whose body, arguments, operands and initialisers are expressions. */
#ifndef SHARDC_FRONTEND_ELABORATE_INTERNAL_H
#define SHARDC_FRONTEND_ELABORATE_INTERNAL_H

#include "frontend/declare/internal.h"
#include "frontend/elaborate/build.h"

/* ---- values ---- */
typedef enum sc_bval_kind {
    SC_BVAL_NONE,   /* an error was reported: whatever uses it keeps quiet */
    SC_BVAL_NUMBER, /* a constant, not yet of any dtype */
    SC_BVAL_WORD,   /* a static argument such as `causal` */
    SC_BVAL_TENSOR
} sc_bval_kind;

/* Whether a value keeps its dtype where others are rounded to `act`. */
typedef enum sc_fixed { SC_ROUNDS, SC_FIXED_BY_CAST /* here */, SC_FIXED_BY_OP /* under any name */ } sc_fixed;

typedef struct sc_bval {
    sc_bval_kind kind;
    sc_fixed fixed;
    bool is_integer, unknown; /* NUMBER; unknown: made of a dim without a size */
    sc_sym word;
    sc_value value;
    int64_t integer;
    double number; /* of integers too */
} sc_bval;

typedef struct sc_bval_list {
    sc_bval *data;
    uint32_t count;
} sc_bval_list;

/* ---- instances and frames ---- */
typedef struct sc_dim_binding {
    sc_sym name;
    sc_dim dim;
} sc_dim_binding;
typedef SC_VEC(sc_dim_binding) sc_dim_binding_list;

typedef struct sc_static {
    sc_sym name;
    sc_bval value;
} sc_static;
typedef SC_VEC(sc_static) sc_static_list;

typedef struct sc_instance {
    const sc_unit *unit;               /* NULL: a fn at file level sees no params */
    sc_sym path;                       /* layers[0].attn; 0 for a model */
    sc_dim_binding_list params;        /* the block's own dim parameters */
    sc_dim_binding_list substitutions; /* of file-level dims, inherited by subs */
    sc_static_list statics;
    const struct sc_instance *home; /* a fn's: the instance it stands in, without the fn's own arguments; NULL: this one */
} sc_instance;

typedef struct sc_local {
    sc_sym name;
    sc_bval value;
    sc_loc loc;
    uint32_t depth; /* of repeats where it was first assigned */
    sc_name dtype;  /* declared with it: holds for every later assignment too; 0 for none */
} sc_local;

typedef struct sc_repeat {
    sc_dim dim;
    int64_t index;
} sc_repeat;

struct sc_builder;

typedef struct sc_frame {
    struct sc_builder *b;
    const struct sc_frame *caller;
    const sc_callable *callable;
    const sc_instance *instance;
    sc_sym path;  /* prefix of what has a path here: layers[0].attn, trunk, loss */
    sc_sym scope; /* of ops made here */
    sc_dtype act;
    uint32_t level; /* frames below */
    SC_VEC(sc_local) locals;
    sc_map local_map; /* symbol -> index in locals, SC_NONE when out of sight */
    SC_VEC(sc_repeat) repeats;
    bool returned;
    sc_bval_list results;
} sc_frame;

typedef struct sc_builder {
    sc_context *context;
    sc_declarations *program;
    sc_build_request request;
    sc_build_result *result;
    sc_module *m;
    sc_func_id func;
    int64_t *program_sizes;           /* by program dim; 0 unknown */
    sc_dim *module_dims;              /* by program dim; SC_NONE until used */
    SC_VEC(int64_t) sizes;            /* by module dim */
    bool *needed;                     /* by program dim: named by what was elaborated; may be NULL */
    sc_map casts;                     /* value << 8 | dtype -> value */
    sc_map constants[SC_DTYPE_COUNT]; /* bits of the number -> value */
    sc_map params;                    /* path -> value as read (after its cast) */
    sc_map caches;                    /* path -> value of cache dtype: as read, or as last appended to */
    sc_map dropouts;                  /* path -> how many so far */
    sc_map pins;                      /* path << 32 | place: already in result->pins */
    SC_VEC(uint32_t) states;          /* used by this function */
    bool cached;
    sc_dim along; /* of a cached entry; SC_NONE */
    sc_value pos, len;
    uint32_t depth;             /* of the C stack: nested expressions of all frames */
    uint32_t steps, step_limit; /* statements and expressions so far */
    bool may_stop;              /* running out of steps is no error */
    uint32_t checked_types;
    uint32_t noted; /* messages before the newest report */
    bool failed, stopped;
} sc_builder;

enum { SC_MAX_EVAL_DEPTH = 1024, SC_MAX_OPS = 1 << 20, SC_MAX_STEPS = 1 << 22 };

/* ---- messages ---- */
#define sc_build_text(b, ...) sc_arena_printf(&(b)->context->arena, __VA_ARGS__)
/* Reports and marks the build as failed. Notes follow with sc_build_note, only when the message was not a repetition. */
#define sc_build_error(b, id, loc, ...)                                                                                                    \
    ((b)->failed = true, (b)->noted = (b)->context->diag.list.count, sc_report(&(b)->context->diag, id, loc, __VA_ARGS__, (char *)NULL))

#define sc_build_note(b, ...) ((b)->context->diag.list.count > (b)->noted ? sc_report_note(&(b)->context->diag, __VA_ARGS__) : (void)0)

static inline const char *sc_name_text(const sc_builder *b, sc_sym name)
{
    return sc_text(b->context, name);
}

/* 1 value, 2 values */
#define sc_build_count(b, n, word) sc_build_text(b, "%u " word "%s", (unsigned)(n), (n) == 1 ? "" : "s")
/* 1 is given, 2 are given */
#define sc_build_given(b, n) sc_build_text(b, "%u %s given", (unsigned)(n), (n) == 1 ? "is" : "are")

/* ---- frame.c ---- */
sc_sym sc_build_path(sc_builder *b, sc_sym prefix, sc_sym name); /* prefix.name; name when prefix is 0 */
sc_dtype sc_build_dtype_of(sc_builder *b, sc_tensor_kind kind, sc_sym path);
/* In the context's scratch. */
sc_frame *sc_build_frame(sc_builder *b, const sc_frame *caller, const sc_callable *callable, const sc_instance *instance, sc_sym path,
                         sc_sym scope);
/* A frame that sees what the declarations of the unit see: no locals, no arguments of the fn that f runs. */
sc_frame sc_build_home(const sc_frame *f);
const sc_local *sc_build_find_local(const sc_frame *f, sc_sym name);
void sc_build_set_local(sc_frame *f, sc_name name, sc_bval value);
const sc_bval *sc_build_find_static(const sc_frame *f, sc_sym name);
/* Counts a step and a level; false (after a message, once) when there are too many. Each true one is ended by sc_build_leave. */
bool sc_build_enter(sc_builder *b, sc_loc loc);
static inline void sc_build_leave(sc_builder *b)
{
    b->depth--;
}

/* ---- dims.c ---- */
/* A dim of the program or a dim parameter, as a dim of the module; SC_NONE after a message. */
sc_dim sc_build_dim(sc_frame *f, sc_name name);
/* The same without a message. */
sc_dim sc_build_find_dim(sc_frame *f, sc_name name);
/* A program dim by its name, whatever a frame substitutes. */
sc_dim sc_build_program_dim(sc_builder *b, uint32_t index, sc_loc loc);
/* A dim that nothing declares: a parameter of a block that is checked by itself. */
sc_dim sc_build_new_dim(sc_builder *b, sc_sym name);
int64_t sc_build_size(const sc_builder *b, sc_dim dim); /* 0 unknown */
/* Leaves of a dim: itself, or its parts. */
uint32_t sc_build_leaves(const sc_builder *b, sc_dim dim, const sc_dim **leaves);
/* The dim at the end of its chain of aliases. */
sc_dim sc_build_root(const sc_builder *b, sc_dim dim);
bool sc_build_is_alias_of(const sc_builder *b, sc_dim dim, sc_dim of);

/* A shape's dims (dtype is the caller's). `rest` tells that it begins with `..`; NULL: that is an error. False after a message. */
bool sc_build_shape(sc_frame *f, const sc_shape *shape, sc_type_info *type, bool *rest);
/* The type a declaration gives, of dtype `otherwise` when it names none; false after a message. */
bool sc_build_declared(sc_frame *f, const sc_type_ref *ref, sc_dtype otherwise, sc_type_info *type, bool *rest);
bool sc_build_dtype(sc_builder *b, sc_name name, sc_dtype *dtype);
/* `what` (a value of a place) against its declared shape; false after a message. */
bool sc_build_check_shape(sc_frame *f, const char *what, sc_value value, sc_loc loc, const sc_shape *declared, sc_frame *declared_in);
/* [B, S, H] of a type, [.., N] with rest. */
const char *sc_build_shape_text(const sc_builder *b, const sc_type_info *type, bool rest);
/* Records `@axis` annotations of a shape as pins of the value at `path`. */
void sc_build_pins(sc_frame *f, const sc_shape *shape, sc_sym path);

/* ---- value.c ---- */
static inline const sc_type_info *sc_build_type(const sc_builder *b, sc_value value)
{
    return sc_type_of(b->m, value);
}
static inline sc_bval sc_bval_tensor(sc_value value)
{
    return value == SC_NONE ? (sc_bval){.kind = SC_BVAL_NONE} : (sc_bval){.kind = SC_BVAL_TENSOR, .value = value};
}
/* An op whose result types its row infers; SC_NONE after a message. Its first result. */
sc_value sc_emit(sc_frame *f, sc_loc loc, sc_op_kind kind, const sc_value *operands, uint32_t operand_count, const sc_attr *attrs,
                 uint32_t attr_count, int64_t new_size);
/* An op with given result type (count 0 or 1). */
sc_value sc_emit_typed(sc_frame *f, sc_loc loc, sc_op_kind kind, const sc_value *operands, uint32_t operand_count, const sc_attr *attrs,
                       uint32_t attr_count, const sc_type *type);
sc_value sc_emit_cast(sc_frame *f, sc_loc loc, sc_value value, sc_dtype dtype);
sc_value sc_emit_use(sc_frame *f, sc_loc loc, sc_value value, sc_sym path);
sc_value sc_emit_constant(sc_frame *f, sc_loc loc, double number, sc_dtype dtype);
/* A number or tensor as a tensor of this dtype; SC_NONE (quietly for an error already reported) when it is none. */
sc_value sc_build_as(sc_frame *f, sc_loc loc, const sc_bval *value, sc_dtype dtype);
/* The dtype that elementwise ops and reductions over these operands compute in: f64, f32, or the widest integer, or bool. `needs_float`
 * makes integers float. SC_DTYPE_COUNT after a message when bools meet numbers. */
sc_dtype sc_build_compute_dtype(sc_frame *f, sc_loc loc, const sc_bval *values, uint32_t count, bool needs_float);
/* Whether the types made since the last call have element counts that fit; false after a message. */
bool sc_build_check_sizes(sc_builder *b, sc_loc loc);
/* A value on its way to a name: shape checked, rounded to `act`, or to its declared dtype. `declared` may be NULL. SC_NONE after a message.
 */
sc_value sc_build_round(sc_frame *f, const char *what, const sc_bval *value, const sc_type_ref *declared, sc_frame *declared_in,
                        sc_dtype act, sc_loc loc);

/* ---- arithmetic.c ---- */
sc_bval sc_build_integer(int64_t value);
sc_bval sc_build_number(double value);
sc_bval sc_build_binary(sc_frame *f, sc_loc loc, sc_op_kind kind, sc_bval a, sc_bval b);
sc_bval sc_build_negative(sc_frame *f, sc_loc loc, sc_bval value);

/* ---- state.c ---- */
/* A param as it is read: in the act dtype. */
sc_bval sc_build_param(sc_frame *f, sc_loc loc, const sc_member *member);
/* A cache in its own dtype: read once, then as last written. */
sc_value sc_build_cache(sc_frame *f, sc_loc loc, const sc_member *member);
void sc_build_write_cache(sc_frame *f, sc_loc loc, const sc_member *member, sc_value value);
/* Tells xavier() what a parameter is contracted or gathered over. */
void sc_build_note_fan(sc_builder *b, sc_value operand, const sc_dim *dims, uint32_t count);
/* Gives fan-in 1 to the xavier parameters that nothing contracts. */
void sc_build_finish_fans(sc_builder *b);

/* ---- expression.c ---- */
sc_bval sc_build_expr(sc_frame *f, const sc_expr *expr);
sc_bval_list sc_build_exprs(sc_frame *f, const sc_expr *expr); /* all results of a call */
/* A constant number; false after a message. `*unknown` (may be NULL): made of a dim without a size. */
bool sc_build_constant(sc_frame *f, const sc_expr *expr, const char *what, sc_bval *out);
/* A static argument: a number, or a word (an enclosing static of that name wins). */
sc_bval sc_build_static(sc_frame *f, const sc_expr *expr);

/* ---- op.c ---- */
sc_bval_list sc_build_op(sc_frame *f, const sc_expr *expr);
bool sc_lang_op_exists(const char *name);
void sc_lang_op_names(sc_context *context, sc_text_list *out);

/* ---- statement.c ---- */
void sc_build_body(sc_frame *f, const sc_stmt_list *body);
/* Runs the frame's body to its return; results are checked against `->`, rounded, and given the path `..out`. */
sc_bval_list sc_build_run(sc_frame *f);
/* A param, cache or sub by itself, in a frame of sc_build_home: messages on what its declaration says. */
void sc_build_declaration(sc_frame *home, const sc_member *member);
/* Calls a member or a file-level fn by its name; false when there is none (no message). */
bool sc_build_call(sc_frame *f, const sc_expr *call, sc_bval_list *out);
/* Dim and static arguments of a block's instance or a fn's call (arguments.c). */
bool sc_build_dim_args(sc_frame *f, const sc_callable *callable, const sc_dim_arg *args, uint32_t count, sc_loc loc, sc_instance *instance);
bool sc_build_statics(sc_frame *f, const sc_callable *callable, const sc_arg_list *args, sc_instance *instance);

#endif
