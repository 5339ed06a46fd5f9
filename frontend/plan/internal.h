/* Shared by the files of plan resolution. A plan is read twice: sc_plan_resolve sees names only
 * (axes, dims, and paths against every entry of the model, elaborated without sizes); sc_plan_seed
 * sees one built function with its sizes. Private to frontend/plan and frontend/train. */
#ifndef SHARDC_FRONTEND_PLAN_INTERNAL_H
#define SHARDC_FRONTEND_PLAN_INTERNAL_H

#include "frontend/plan/view.h"
#include "ir/pipeline/schedule.h"

typedef uint16_t sc_axis_set; /* one bit per mesh axis */

/* Mesh axes that a line assigns to a dim, major first. */
typedef struct sc_axis_list {
    uint8_t count, axes[SC_MAX_AXES];
} sc_axis_list;

/* ---- the resolved plan ---- */
typedef struct sc_plan_line {
    const sc_plan_stmt *stmt; /* SHARD, PIN, STYLE or FORM */
    sc_axis_list axes;        /* of `over`; all axes for a pin without it */
    bool broken;              /* an error was reported; the line yields no seeds */
} sc_plan_line;

typedef struct sc_plan_binding {
    sc_sym entry; /* 0: all entries */
    sc_binding binding;
} sc_plan_binding;

typedef struct sc_plan_dtype {
    sc_sym what;
    sc_dtype dtype;
    const sc_path_list *in;
} sc_plan_dtype;

/* The `stage PATHS over AXIS: ..` line of a plan, as far as it says something without sizes. */
typedef enum sc_stage_order { SC_STAGE_AUTO, SC_STAGE_NAMED, SC_STAGE_FILE } sc_stage_order;
typedef enum sc_stage_split { SC_SPLIT_AUTO, SC_SPLIT_EVEN, SC_SPLIT_LENGTHS } sc_stage_split;

typedef struct sc_stage_line {
    const sc_plan_stmt *stmt; /* NULL: none, or with an error */
    uint8_t axis;
    sc_stage_order order;
    sc_schedule_kind kind;          /* NAMED */
    uint32_t per_rank;              /* NAMED: chunks a rank */
    const char *file;               /* FILE: as in the plan */
    sc_pipeline_schedule *schedule; /* FILE: proved; NULL if the axis has one rank */
    sc_loc schedule_loc, count_loc, split_loc;
    uint32_t micro_batches;
    sc_name batch;
    sc_stage_split split;
    SC_VEC(uint32_t) lengths; /* of split(7, 8, ..) */
} sc_stage_line;

/* How the first entry that runs the staged stacks was cut; the plan's other entries follow it. */
typedef struct sc_stage_cut {
    const sc_pipeline_schedule *schedule; /* NULL: none was cut yet */
    const char *name;
    sc_map chunk_of_instance; /* path of an instance -> chunk */
} sc_stage_cut;

struct sc_resolved_plan {
    sc_context *context;
    sc_declarations *program;
    const sc_plan *plan; /* NULL: one device */
    sc_plan_options options;
    sc_sym model;
    sc_mesh mesh; /* one sub-axis per axis */
    sc_loc axis_locs[SC_MAX_AXES];
    SC_VEC(sc_plan_binding) bindings;
    SC_VEC(sc_plan_dtype) dtypes;
    sc_map dtype_memo;
    sc_plan_tuning tuning;
    const sc_plan_stmt *accumulate; /* NULL without an `accumulate` line */
    sc_stage_line stage;
    sc_stage_cut stage_cut;
    SC_VEC(const sc_plan_stmt *) stage_lines, stage_at_lines; /* as written */
    SC_VEC(sc_plan_line) lines;
    sc_map repeated; /* locations of lines that earlier lines make redundant */
    sc_expect_list expects;
    sc_sym_list pinned_axes;       /* named in the model's text with @axis */
    bool axis_used[SC_MAX_AXES];   /* by a line or by the model's text */
    bool axis_staged[SC_MAX_AXES]; /* its ranks hold pipeline stages */
    /* of the model, without sizes; empty if the model has errors, and then names are not checked */
    SC_VEC(sc_plan_view *) entries;
    sc_param_path_list *params; /* of the model; NULL: not listed yet */
    /* paths of params and their prefixes, without indices -> sc_path_match */
    sc_map param_matches;
};

/* mesh.c */
bool sc_plan_resolve_mesh(sc_resolved_plan *plan);
/* Returns the index of an axis, or -1 after reporting an error. */
int sc_plan_axis(const sc_resolved_plan *plan, const sc_name *name);
/* Looks up all names. Returns false after reporting errors (unknown or repeated axes). */
bool sc_plan_axes(const sc_resolved_plan *plan, const sc_name_list *names, sc_axis_list *out);
sc_axis_set sc_axis_list_set(const sc_axis_list *axes);
uint64_t sc_plan_axes_size(const sc_resolved_plan *plan, const sc_axis_list *axes);
/* "tp" or "x, y" */
const char *sc_plan_axes_text(const sc_resolved_plan *plan, const sc_axis_list *axes);
/* Adds a note at the definition of each axis. */
void sc_plan_note_axes(const sc_resolved_plan *plan, const sc_axis_list *axes);

/* values.c: bind, precision, tune, pad, offload, reshard */
void sc_plan_resolve_values(sc_resolved_plan *plan, const sc_plan_stmt *stmt);
/* Reports the statements that this version does not compile, if they would change this function. */

/* Returns the dtype in which gradients are reduced. */
sc_dtype sc_plan_reduce_dtype(sc_resolved_plan *plan, sc_sym path, sc_dtype grad);

/* words.c */
/* "a, b, c" */
const char *sc_plan_word_list(sc_resolved_plan *plan, const char *const *words, size_t count);
/* Reports a word that is none of `words` ("'x' is not a valid WHAT; did you mean 'y'?") and returns
 * false. */
bool sc_plan_check_word(sc_resolved_plan *plan, sc_sym word, sc_loc loc, const char *what,
                        const char *const *words, size_t count);

/* accumulate.c */
void sc_plan_resolve_accumulate(sc_resolved_plan *plan, const sc_plan_stmt *stmt);
/* Returns the dim that micro-batches split, and the line that says so; NULL without such a line. */
const sc_name *sc_plan_micro_batch_dim(const sc_resolved_plan *plan, sc_loc *line);
/* "1, 2, 4, 8" */
const char *sc_plan_divisors_text(sc_context *context, int64_t size);

/* stages.c: the names of `stage` lines */
void sc_plan_resolve_stage(sc_resolved_plan *plan, const sc_plan_stmt *stmt);
void sc_plan_resolve_stage_at(sc_resolved_plan *plan, const sc_plan_stmt *stmt);
/* Checks the lines together, once all are read: one pipeline, an axis that nothing else uses,
 * enough micro-batches, and the schedule's file. */
void sc_plan_check_stages(sc_resolved_plan *plan);
/* True if the plan has stages: its line is valid and its axis has several ranks. */
bool sc_plan_has_stages(const sc_resolved_plan *plan);

/* stage_options.c: what follows the colon. Returns false after reporting errors. */
bool sc_plan_read_stage_options(sc_resolved_plan *plan, const sc_plan_stmt *stmt,
                                sc_stage_line *line);

/* stage_file.c: reads and proves the schedule of `file("..")`. NULL after reporting errors. */
sc_pipeline_schedule *sc_plan_read_schedule(sc_resolved_plan *plan, const sc_stage_line *line);

/* stage_cut.c: cuts `count` instances in a row into `chunks` contiguous parts, none empty.
 * `ends[c]` is the first instance after chunk c. count >= chunks >= 1. */
/* Equal lengths, the longer ones first. */
void sc_stage_cut_evenly(uint32_t count, uint32_t chunks, uint32_t *ends);
/* Minimises the work of the chunk with most: that of its instances and what it has besides (by
 * chunk). Least of all cuts if only the first and the last chunk have something besides; else least
 * of those that fill chunk by chunk. Of such cuts takes one whose chunks are near the mean. n log
 * n. */
void sc_stage_cut_by_work(sc_arena *arena, const double *work, uint32_t count,
                          const double *besides, uint32_t chunks, uint32_t *ends);

/* expect.c */
void sc_plan_resolve_expect(sc_resolved_plan *plan, const sc_plan_stmt *stmt);

/* check.c: checks names against every entry of the model */
void sc_plan_elaborate_entries(sc_resolved_plan *plan);
/* True if the path covers anything in any entry (with `whole`: names it exactly). Otherwise reports
 * an error with the nearest path that does and returns false. */
bool sc_plan_check_path(sc_resolved_plan *plan, const sc_path *path, bool whole);
bool sc_plan_check_paths(sc_resolved_plan *plan, const sc_path_list *paths, bool whole);
/* Checks a rule's paths and dims, and that a tensor in its scope has each dim. */
void sc_plan_check_rule(sc_resolved_plan *plan, sc_plan_line *line);

/* idle.c: warns about axes that no line uses; notes lines that earlier ones make redundant */
void sc_plan_report_unused_axes(sc_resolved_plan *plan);
void sc_plan_note_repeated_lines(sc_resolved_plan *plan);

/* text.c: texts in the arena */
const char *sc_plan_names_text(sc_context *context, const sc_name_list *names);
/* Formats a shape with composites as one dim: [B, S, H]. */
const char *sc_plan_shape_text(const sc_module *m, const sc_type_info *type);
const char *sc_plan_pin_shape_text(sc_context *context, const sc_shape *shape);

/* ---- dims of a type, composites as one dim ---- */
/* A dim of a type as written: a plain dim, or a composite with the leaves [first, first +
 * count). */
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
/* A dim and the axes that a line assigns to it. Sub-axes exist only once all lines are read. */
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

/* A form of one op. The dim is split over `split.axes`, of which those of `over` are the form's,
 * and the others are what lines give it besides. */
typedef struct sc_form_claim {
    sc_op_id op;
    uint32_t form; /* sc_form_id */
    sc_claim_split split;
    sc_axis_set over;
} sc_form_claim;

/* The claims of one line: a line of the plan, or an @axis of the model. */
typedef struct sc_line_claims {
    uint32_t rule;
    SC_VEC(sc_claim) list;
    SC_VEC(sc_lock_claim) locks;
    SC_VEC(sc_form_claim) forms;
} sc_line_claims;

/* How a list of axes splits the leaves of a composite: for each leaf, ranges [from, to) of an axis,
 * in products of axis parts, major first. */
typedef struct sc_axis_range {
    uint8_t axis;
    uint32_t from, to; /* products of the sizes of the axis's major parts */
} sc_axis_range;

enum { SC_MAX_LEAF_RANGES = SC_MAX_SUB_AXES };

typedef struct sc_leaf_split {
    uint8_t count;
    sc_axis_range ranges[SC_MAX_LEAF_RANGES];
} sc_leaf_split;

typedef struct sc_composite_split {
    sc_dim dim;
    sc_axis_list axes;
    sc_leaf_split *leaves; /* one per part; NULL: the axes do not fit */
    bool used;             /* some line splits a tensor this way, so the axes must be cut for it */
    sc_loc loc;            /* of the first such line */
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
    uint32_t count, before; /* before: index of the previous pin on the same value, or SC_NONE */
} sc_pin_claim;

/* A split of a value that a line claims. */
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
    /* by dim: of leaves and composites in this function; 0 if no tensor has the dim */
    int64_t *sizes;
    /* by value: bit mask of the leaf dims of its type that some line splits */
    uint16_t *claimed;
    sc_axis_set *used_axes; /* by value: axes used by lines without `if free` */
    SC_VEC(sc_taken_split) taken;
    uint32_t *last_taken; /* by value: 1 + index in taken; 0: none */
    uint8_t *is_fixed;    /* by value: nonzero for state placed by an earlier entry */
    /* by place, by value: gradients and optimizer state of the parameter at the place; SC_NONE ends
     * the list */
    uint32_t *first_follower, *next_follower;
    SC_VEC(sc_line_claims) lines;
    SC_VEC(sc_composite_split) composites;
    SC_VEC(sc_cut) cuts;
    sc_map pinned; /* value -> index into pins of its newest pin */
    SC_VEC(sc_pin_claim) pins;
    const struct sc_weight_readers *readers; /* styles.c; NULL until needed */
    const bool *of_inputs;                   /* forms.c; likewise */
    sc_map formed; /* forms.c: op and axis -> the line that gives it its form there */
} sc_seeding;

/* zigzag.c */
bool sc_plan_check_zigzag(sc_resolved_plan *plan, const sc_plan_line *line);
/* Marks the dim of a zigzag line before its claims: which sizes fit depends on it. */
void sc_seeding_expect_zigzag(sc_seeding *s, const sc_plan_line *source);
/* Takes the mark back if the line has no claims: it is not of this function. */
void sc_seeding_keep_zigzag(sc_seeding *s, const sc_plan_line *source, uint32_t line);
/* Sets the sub-axes of all zigzags, once the axes are cut. */
void sc_seeding_zigzag(sc_seeding *s);

/* seeding.c */
/* Lists the gradients and optimizer state of each parameter, which follow its placement. */
void sc_seeding_find_followers(sc_seeding *s);
/* Adds the claim of a line on a value. Splits and closings over axes of size one are removed. A
 * claim without effect is dropped, and so is one on fixed state, except for storage. `splits` is
 * kept by reference. */
void sc_seeding_claim(sc_seeding *s, uint32_t line, sc_value value, sc_seed_strength strength,
                      sc_axis_set closed, const sc_claim_split *splits, uint32_t split_count);
void sc_seeding_lock(sc_seeding *s, uint32_t line, sc_op_id op, sc_dim dim,
                     const sc_axis_list *axes);
/* Adds the form of an op. */
void sc_seeding_give_form(sc_seeding *s, uint32_t line, const sc_form_claim *claim);
/* Adds a line and its entry in module->rules. Returns the line's index. */
uint32_t sc_seeding_add_line(sc_seeding *s, const char *text, sc_loc loc);
sc_loc sc_seeding_line_loc(const sc_seeding *s, uint32_t line);
/* "layers[0].attn.wq [D, H, E]" */
const char *sc_seeding_value_text(const sc_seeding *s, sc_value value);

/* split.c */
/* Finds the sizes of the dims in this function. */
void sc_seeding_find_sizes(sc_seeding *s);
/* Computes how the axes split a composite. */
sc_composite_split *sc_seeding_composite(sc_seeding *s, sc_dim dim, const sc_axis_list *axes);
/* True if the axes divide the size without padding. */
bool sc_seeding_divides(sc_seeding *s, sc_dim dim, const sc_axis_list *axes);
/* Reports at `loc` that the axes do not divide the dim; `stored` if only storage would be split. */
void sc_seeding_report_misfit(sc_seeding *s, sc_dim dim, const sc_axis_list *axes, sc_loc loc);
/* As sc_seeding_report_misfit, for the axes of several lines together. */
void sc_seeding_report_shards(sc_seeding *s, sc_dim dim, int64_t size, const sc_axis_list *axes,
                              uint64_t product, sc_loc loc);
/* Requires a boundary between sub-axes where the product of the axis's major parts is `at`. */
void sc_seeding_add_cut(sc_seeding *s, uint8_t axis, uint32_t at, sc_loc loc);
/* Cuts the axes into sub-axes and sets module->mesh. Returns false after reporting an error. */
bool sc_seeding_cut_axes(sc_seeding *s);
/* Converts a claimed split to leaves and sub-axes, for the leaves that the type has (at most
 * SC_MAX_RANK). Returns the number of splits. */
uint32_t sc_seeding_splits(sc_seeding *s, const sc_type_info *type, const sc_claim_split *claim,
                           sc_split *out);
sc_sub_axis_set sc_seeding_sub_axes(const sc_seeding *s, sc_axis_set axes);
/* Appends the sub-axes of a range of an axis. */
void sc_seeding_add_range(const sc_seeding *s, sc_axis_range range, sc_sub_axis_list *list);

/* padding.c */
/* True if a dim (leaf or composite) of this function can be split over these axes. */
bool sc_seeding_fits(sc_seeding *s, sc_dim dim, const sc_axis_list *axes, bool stored);
/* Pads a dim to a multiple of `product` shards, where that is allowed: with --allow-padding, and
 * for parameters that are split only for storage. */
bool sc_seeding_pad_as_needed(sc_seeding *s, sc_dim dim, uint64_t product, bool stored);
/* Chooses the dim by which a parameter, gradient or optimizer state is split for storage over these
 * axes, minor to what other lines split of the value: IN_ONE: a plain dim, or the first part of a
 * composite that takes all axes; IN_ALL_PARTS: all parts of a composite, major first; UNEVENLY: a
 * dim that must be padded for it and that only storage splits. SC_NONE if there is none. */
typedef enum sc_storing { SC_STORE_IN_ONE, SC_STORE_IN_ALL_PARTS, SC_STORE_UNEVENLY } sc_storing;
sc_dim sc_seeding_stored_dim(sc_seeding *s, sc_value value, const sc_group_dim *dim,
                             const sc_axis_list *axes, sc_storing how);
/* Equalizes the padding of dims that are renamed to each other, and adopts that of the placed
 * module `fixed` (may be NULL). Call once all lines are read. */
void sc_seeding_settle_padding(sc_seeding *s, const sc_module *fixed, const sc_seeds *seeds);
/* Returns for each dim of the module whether a line splits it or a dim that is renamed to it.
 * Allocated in the arena. */
const bool *sc_seeding_split_dims(sc_seeding *s, const sc_seeds *seeds);
/* Applies the multiples of `pad` lines, before any other query. */
void sc_seeding_pad(sc_seeding *s);

/* rules.c, pins.c, styles.c, forms.c: the claims of one line; `line` is an index into s->lines */
void sc_seeding_rule(sc_seeding *s, const sc_plan_line *source, uint32_t line);
void sc_seeding_star_rule(sc_seeding *s, const sc_plan_line *source, uint32_t line);
void sc_seeding_pin(sc_seeding *s, const sc_plan_line *source, uint32_t line);
void sc_seeding_inline_pins(sc_seeding *s);
void sc_seeding_style(sc_seeding *s, const sc_plan_line *source, uint32_t line);
/* True for a rule that only says how parameters, gradients or optimizer state are stored. */
bool sc_plan_rule_only_stores(const sc_plan_stmt *stmt);
/* After all other lines: a form goes by what they split. */
void sc_seeding_form(sc_seeding *s, const sc_plan_line *source, uint32_t line);
/* Check the same lines before any sizes: names, shapes, arguments, paths. */
void sc_plan_check_pin(sc_resolved_plan *plan, sc_plan_line *line);
void sc_plan_check_style(sc_resolved_plan *plan, sc_plan_line *line);
void sc_plan_check_form(sc_resolved_plan *plan, sc_plan_line *line);
/* Checks all `form` lines against the other lines, once all are read. */
void sc_plan_check_forms(sc_resolved_plan *plan);

/* fixed.c: state placed by another function of the plan */
void sc_seeding_mark_fixed(sc_seeding *s, const sc_module *fixed);
void sc_seeding_cut_for_fixed(sc_seeding *s, const sc_module *fixed);
void sc_seeding_fixed_seeds(sc_seeding *s, const sc_module *fixed, sc_seeds *seeds);

#endif
