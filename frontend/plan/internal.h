/* What the files of plan resolution share. A plan is read twice: sc_plan_resolve knows names only (axes, dims, paths against every entry
 * of the model, elaborated without sizes), sc_plan_seed knows one built function with its sizes. Private to frontend/plan and
 * frontend/train. */
#ifndef SHARDC_FRONTEND_PLAN_INTERNAL_H
#define SHARDC_FRONTEND_PLAN_INTERNAL_H

#include "frontend/plan/view.h"

typedef uint16_t sc_axis_set; /* bit per mesh axis */

/* Mesh axes, major first: what a line puts on a dim. */
typedef struct sc_axis_list {
    uint8_t count, axes[SC_MAX_AXES];
} sc_axis_list;

/* ---- the resolved plan ---- */
typedef struct sc_plan_line {
    const sc_plan_stmt *stmt; /* SHARD, PIN or STYLE */
    sc_axis_list axes;        /* of `over`; a pin without it: all */
    bool broken;              /* an error was reported: it gives no seeds */
} sc_plan_line;

typedef struct sc_plan_binding {
    sc_sym entry; /* 0: all */
    sc_binding binding;
} sc_plan_binding;

typedef struct sc_plan_dtype {
    sc_sym what;
    sc_dtype dtype;
    const sc_path_list *in;
} sc_plan_dtype;

struct sc_resolved_plan {
    sc_context *context;
    sc_declarations *program;
    const sc_plan *plan; /* NULL: one device */
    sc_plan_options options;
    sc_sym model;
    sc_mesh mesh; /* one sub-axis an axis */
    sc_loc axis_locs[SC_MAX_AXES];
    SC_VEC(sc_plan_binding) bindings;
    SC_VEC(sc_plan_dtype) dtypes;
    sc_map dtype_memo;
    sc_plan_tuning tuning;
    const sc_plan_stmt *accumulate; /* NULL: none */
    SC_VEC(sc_plan_line) lines;
    sc_map repeated; /* places of the lines that earlier ones say all of */
    sc_expect_list expects;
    sc_sym_list pinned_axes;        /* that the text of the model names with @axis */
    bool axis_used[SC_MAX_AXES];    /* by a line, or by the text of the model */
    bool axis_staged[SC_MAX_AXES];  /* its ranks hold stages */
    SC_VEC(sc_plan_view *) entries; /* of the model, without sizes; empty when it has errors: then nothing is compared with them */
    sc_param_path_list *params;     /* of the model; NULL: not listed yet */
    sc_map param_matches;           /* their paths and what they stand in, without indices -> sc_path_match */
};

/* mesh.c */
bool sc_plan_resolve_mesh(sc_resolved_plan *plan);
/* Index of an axis, or -1 after a message. */
int sc_plan_axis(const sc_resolved_plan *plan, const sc_name *name);
/* Finds all; false after messages (unknown axes, one twice). */
bool sc_plan_axes(const sc_resolved_plan *plan, const sc_name_list *names, sc_axis_list *out);
sc_axis_set sc_axis_list_set(const sc_axis_list *axes);
uint64_t sc_plan_axes_size(const sc_resolved_plan *plan, const sc_axis_list *axes);
const char *sc_plan_axes_text(const sc_resolved_plan *plan, const sc_axis_list *axes); /* tp or x, y */
/* A note at the definition of each axis. */
void sc_plan_note_axes(const sc_resolved_plan *plan, const sc_axis_list *axes);

/* values.c: bind, precision, tune, pad, stage, offload, reshard */
void sc_plan_resolve_values(sc_resolved_plan *plan, const sc_plan_stmt *stmt);
/* Reports the statements that this version does not compile and that would change this function. */
void sc_plan_report_not_compiled(sc_resolved_plan *plan);

/* The dtype that gradients travel in. */
sc_dtype sc_plan_reduce_dtype(sc_resolved_plan *plan, sc_sym path, sc_dtype grad);

/* accumulate.c */
void sc_plan_resolve_accumulate(sc_resolved_plan *plan, const sc_plan_stmt *stmt);

/* expect.c */
void sc_plan_resolve_expect(sc_resolved_plan *plan, const sc_plan_stmt *stmt);

/* check.c: names against every entry of the model */
void sc_plan_elaborate_entries(sc_resolved_plan *plan);
/* Whether the path covers (or, `whole`, names) anything in any entry; false after a message with the nearest that does. */
bool sc_plan_check_path(sc_resolved_plan *plan, const sc_path *path, bool whole);
bool sc_plan_check_paths(sc_resolved_plan *plan, const sc_path_list *paths, bool whole);
/* A rule's paths, its dims, and that each of its dims stands in a tensor of its scope. */
void sc_plan_check_rule(sc_resolved_plan *plan, sc_plan_line *line);

/* idle.c: warns of axes that no line uses; notes lines that earlier ones have said */
void sc_plan_report_unused_axes(sc_resolved_plan *plan);
void sc_plan_note_repeated_lines(sc_resolved_plan *plan);

/* text.c: texts in the arena */
const char *sc_plan_names_text(sc_context *context, const sc_name_list *names);
/* [B, S, H]: dims at group level. */
const char *sc_plan_shape_text(const sc_module *m, const sc_type_info *type);
const char *sc_plan_pin_shape_text(sc_context *context, const sc_shape *shape);

/* ---- dims of a type at group level ---- */
/* Dim `at` of a type as it is written: a plain dim, or a composite with the leaves [first, first + count). */
typedef struct sc_group_dim {
    sc_dim dim; /* leaf or composite */
    uint32_t first, count;
    int64_t size;
} sc_group_dim;
typedef struct sc_group_dims {
    uint32_t count;
    sc_group_dim list[SC_MAX_RANK];
} sc_group_dims;
void sc_group_dims_of(const sc_type_info *type, sc_group_dims *out);

/* ---- seeding one function ---- */
/* A dim with the axes that a line puts on it; sub-axes exist only once every line is read. */
typedef struct sc_claim_split {
    sc_dim dim; /* leaf or composite */
    sc_axis_list axes;
} sc_claim_split;

typedef struct sc_claim {
    sc_value value;
    sc_seed_strength strength;
    sc_axis_set closed;
    uint32_t split_count;
    const sc_claim_split *splits;
} sc_claim;

typedef struct sc_lock_claim {
    sc_op_id op;
    sc_claim_split split;
} sc_lock_claim;

/* What one line gives: a line of the plan, or an @axis of the model. */
typedef struct sc_line_claims {
    uint32_t rule;
    SC_VEC(sc_claim) list;
    SC_VEC(sc_lock_claim) locks;
} sc_line_claims;

/* How an axis list falls on the leaves of a composite: for each leaf, ranges [from, to) of an axis in units of shards, major first. */
typedef struct sc_axis_range {
    uint8_t axis;
    uint32_t from, to; /* products of the sizes of the axis' major parts */
} sc_axis_range;

enum { SC_MAX_LEAF_RANGES = SC_MAX_SUB_AXES };

typedef struct sc_leaf_split {
    uint8_t count;
    sc_axis_range ranges[SC_MAX_LEAF_RANGES];
} sc_leaf_split;

typedef struct sc_composite_split {
    sc_dim dim;
    sc_axis_list axes;
    sc_leaf_split *leaves; /* one a part; NULL: the axes do not fit */
    bool used;             /* some line splits a tensor so: the axes are cut accordingly */
    sc_loc loc;            /* of the first line that does */
} sc_composite_split;

typedef struct sc_cut {
    uint8_t axis;
    uint32_t at;
    sc_loc loc;
} sc_cut;

/* A `pin` line on a value. */
typedef struct sc_pin_claim {
    const sc_plan_line *source;
    const sc_claim_split *splits;
    uint32_t count, before; /* before: the remembered pin of the same value before this one, or SC_NONE */
} sc_pin_claim;

/* What a line takes of a value. */
typedef struct sc_taken_split {
    const sc_claim_split *split;
    uint32_t before; /* of the same value: 1 + index; 0: none */
} sc_taken_split;

typedef struct sc_seeding {
    sc_resolved_plan *plan;
    sc_context *context;
    sc_module *m;
    const sc_build_result *built;
    sc_plan_view *view;
    sc_binding_list bindings;
    int64_t *sizes;         /* by dim: of leaves and composites in this function; 0 when no tensor has it */
    uint16_t *claimed;      /* by value: leaf dims of its type that some line splits, a bit each */
    sc_axis_set *used_axes; /* by value: axes that some line without `if free` uses */
    SC_VEC(sc_taken_split) taken;
    uint32_t *last_taken;                     /* by value: 1 + index in taken; 0: none */
    uint8_t *is_fixed;                        /* by value: state that an earlier entry has placed */
    uint32_t *first_follower, *next_follower; /* by place, by value: gradients and optimizer state of the parameter there; SC_NONE */
    SC_VEC(sc_line_claims) lines;
    SC_VEC(sc_composite_split) composites;
    SC_VEC(sc_cut) cuts;
    sc_map pinned; /* value -> index in pins, of the newest */
    SC_VEC(sc_pin_claim) pins;
    const struct sc_weight_readers *readers; /* styles.c; NULL until wanted */
} sc_seeding;

/* seeding.c */
/* Lists the gradients and optimizer state of each parameter, which follow it. */
void sc_seeding_find_followers(sc_seeding *s);
/* Adds what a line says of a value. Splits and closings over axes of size one vanish; a claim without effect is dropped, and so is one
 * on fixed state, storage excepted. `splits` is kept. */
void sc_seeding_claim(sc_seeding *s, uint32_t line, sc_value value, sc_seed_strength strength, sc_axis_set closed,
                      const sc_claim_split *splits, uint32_t split_count);
void sc_seeding_lock(sc_seeding *s, uint32_t line, sc_op_id op, sc_dim dim, const sc_axis_list *axes);
/* Adds a line with its own entry in module->rules. */
uint32_t sc_seeding_add_line(sc_seeding *s, const char *text, sc_loc loc);
sc_loc sc_seeding_line_loc(const sc_seeding *s, uint32_t line);
/* "layers[0].attn.wq [D, H, E]" */
const char *sc_seeding_value_text(const sc_seeding *s, sc_value value);

/* split.c */
/* Sizes of the dims in this function. */
void sc_seeding_find_sizes(sc_seeding *s);
/* How the axes fall on a composite. */
sc_composite_split *sc_seeding_composite(sc_seeding *s, sc_dim dim, const sc_axis_list *axes);
/* Whether the axes divide the size itself: nothing is padded for it. */
bool sc_seeding_divides(sc_seeding *s, sc_dim dim, const sc_axis_list *axes);
/* Reports at `loc` that it cannot; `stored` when it is only a matter of storage. */
void sc_seeding_report_misfit(sc_seeding *s, sc_dim dim, const sc_axis_list *axes, sc_loc loc);
/* The same for several lines' parts of axes together. */
void sc_seeding_report_shards(sc_seeding *s, sc_dim dim, int64_t size, const sc_axis_list *axes, uint64_t product, sc_loc loc);
/* An axis must have a boundary between sub-axes where its major parts have the product `at`. */
void sc_seeding_add_cut(sc_seeding *s, uint8_t axis, uint32_t at, sc_loc loc);
/* Cuts the axes into sub-axes and sets module->mesh; false after a message. */
bool sc_seeding_cut_axes(sc_seeding *s);
/* A split in leaves and sub-axes, for the leaves that the type has (at most SC_MAX_RANK); the count. */
uint32_t sc_seeding_splits(sc_seeding *s, const sc_type_info *type, const sc_claim_split *claim, sc_split *out);
sc_sub_axis_set sc_seeding_sub_axes(const sc_seeding *s, sc_axis_set axes);
/* The sub-axes of a range of an axis, appended. */
void sc_seeding_add_range(const sc_seeding *s, sc_axis_range range, sc_sub_axis_list *list);

/* padding.c */
/* Whether a dim (leaf or composite) of this function can be split over these axes. */
bool sc_seeding_fits(sc_seeding *s, sc_dim dim, const sc_axis_list *axes, bool stored);
/* Pads a dim so that this many shards divide it, where that is allowed: with --allow-padding, and of parameters that are only stored split.
 */
bool sc_seeding_pad_as_needed(sc_seeding *s, sc_dim dim, uint64_t product, bool stored);
/* The dim that a parameter, gradient or optimizer state is stored split by over these axes, behind what other lines split of the value: a
 * plain dim or the first part of a composite that takes all of them; all parts of a composite, major first; or one that has to be padded
 * for it, and that only storage splits. SC_NONE: there is none. */
typedef enum sc_storing { SC_STORE_IN_ONE, SC_STORE_IN_ALL_PARTS, SC_STORE_UNEVENLY } sc_storing;
sc_dim sc_seeding_stored_dim(sc_seeding *s, sc_value value, const sc_group_dim *dim, const sc_axis_list *axes, sc_storing how);
/* Dims that stand for each other are padded alike, and as the placed module `fixed` (may be NULL) pads them; once all lines are read. */
void sc_seeding_settle_padding(sc_seeding *s, const sc_module *fixed, const sc_seeds *seeds);
/* Of each dim of the module, whether a line splits it, or one that stands for it; the arena's. */
const bool *sc_seeding_split_dims(sc_seeding *s, const sc_seeds *seeds);
/* The multiples of `pad` lines, before anything is asked. */
void sc_seeding_pad(sc_seeding *s);

/* rules.c, pins.c, styles.c: claims of one line; `line` is an index in s->lines */
void sc_seeding_rule(sc_seeding *s, const sc_plan_line *source, uint32_t line);
void sc_seeding_star_rule(sc_seeding *s, const sc_plan_line *source, uint32_t line);
void sc_seeding_pin(sc_seeding *s, const sc_plan_line *source, uint32_t line);
void sc_seeding_inline_pins(sc_seeding *s);
void sc_seeding_style(sc_seeding *s, const sc_plan_line *source, uint32_t line);
/* The same lines before any size: names, shapes, arguments, paths. */
void sc_plan_check_pin(sc_resolved_plan *plan, sc_plan_line *line);
void sc_plan_check_style(sc_resolved_plan *plan, sc_plan_line *line);

/* fixed.c: state that another function of the plan has placed */
void sc_seeding_mark_fixed(sc_seeding *s, const sc_module *fixed);
void sc_seeding_cut_for_fixed(sc_seeding *s, const sc_module *fixed);
void sc_seeding_fixed_seeds(sc_seeding *s, const sc_module *fixed, sc_seeds *seeds);

#endif
