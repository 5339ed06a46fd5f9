/* Syntax tree: paths, minimize, plans and weights. */
#ifndef SHARDC_FRONTEND_SYNTAX_AST_PLAN_H
#define SHARDC_FRONTEND_SYNTAX_AST_PLAN_H

#include "frontend/syntax/ast_expr.h"

/* ---- paths ---- */
typedef enum sc_seg_kind {
    SC_SEG_NAME,
    SC_SEG_ANY /* * */,
    SC_SEG_RANGE /* w[a..b], inclusive */,
    SC_SEG_INDEX /* w[a] */
} sc_seg_kind;

typedef struct sc_seg {
    sc_seg_kind kind;
    sc_name name;
    int64_t first, last; /* RANGE, INDEX (equal) */
} sc_seg;

typedef struct sc_path {
    SC_VEC(sc_seg) segs;
    sc_loc loc;
} sc_path;
typedef SC_VEC(sc_path) sc_path_list;

/* ---- minimize ---- */
typedef struct sc_optimizer {
    sc_name name;
    sc_arg_list args;
    sc_path_list in;
    sc_loc loc;
} sc_optimizer;

typedef struct sc_minimize {
    sc_path target;
    sc_path_list over;
    SC_VEC(sc_optimizer) optimizers;
    sc_loc loc;
} sc_minimize;

/* ---- plans ---- */
typedef enum sc_tensor_kind {
#define KIND(word, TOKEN, traits) SC_KIND_##TOKEN,
#define PLAN_LINE(word, TOKEN)
#include "frontend/syntax/words.def"
    SC_KIND_COUNT
} sc_tensor_kind;

extern const char *const sc_kind_names[SC_KIND_COUNT];
/* "param, act, .. and output" */
const char *sc_kinds_text(sc_context *context);

typedef struct sc_kind_list {
    uint32_t mask;                /* one bit per sc_tensor_kind; 0: none named */
    SC_VEC(sc_tensor_kind) order; /* as written, for the formatter */
} sc_kind_list;

typedef enum sc_plan_stmt_kind {
#define KIND(word, TOKEN, traits)
#define PLAN_LINE(word, TOKEN) SC_PLAN_##TOKEN,
#include "frontend/syntax/words.def"
    /* SC_PLAN_STAGE is `stage PATHS over AXIS: opts`, this `stage PATH = first` */
    SC_PLAN_STAGE_AT,
    SC_PLAN_STMT_KINDS
} sc_plan_stmt_kind;

typedef enum sc_axis_link { SC_LINK_DEFAULT, SC_LINK_INTRA, SC_LINK_INTER } sc_axis_link;

typedef struct sc_axis_def {
    sc_name name;
    sc_expr *size;
    sc_axis_link link;
} sc_axis_def;

typedef struct sc_bind {
    sc_name dim;
    sc_expr *value;
} sc_bind;

typedef struct sc_precision {
    sc_name what, dtype; /* what: param, act, grad, opt, cache, reduce */
} sc_precision;

typedef enum sc_expect_relation { SC_EXPECT_NONE, SC_EXPECT_LE, SC_EXPECT_EQ } sc_expect_relation;

typedef struct sc_plan_stmt {
    sc_plan_stmt_kind kind;
    sc_loc loc;
    /* in PATHS of bind, shard, offload, reshard, precision, expect; the paths of style, form,
     * stage, remat */
    sc_path_list in;
    union {
        SC_VEC(sc_axis_def) axes;
        SC_VEC(sc_bind) binds;
        struct {
            sc_kind_list kinds;
            bool star;
            sc_name_list dims, axes;
            bool zigzag; /* rank r of n holds the chunks r and 2n - 1 - r of 2n */
            sc_loc zigzag_loc;
            bool if_free;
        } shard;
        struct {
            sc_path path;
            sc_shape *shape;
            sc_name_list over;
        } pin;
        struct {
            sc_name style;
            bool has_args;
            sc_arg_list args;
            sc_name axis;
        } style;
        struct {
            sc_name name;
            sc_name_list axes;
        } form;
        struct {
            sc_name axis; /* STAGE */
            sc_arg_list options;
            sc_expr *value; /* STAGE_AT; its path is in[0] */
        } stage;
        struct {
            sc_path_list save;
        } remat;
        sc_kind_list offload;
        sc_name reshard; /* forward, use, step */
        SC_VEC(sc_precision) precisions;
        struct {
            int64_t count;
            sc_name dim;
        } accumulate;
        struct {
            sc_name dim;
            sc_expr *multiple;
        } pad;
        sc_arg_list tune;
        struct {
            sc_expr *what;
            sc_expect_relation relation;
            bool is_float;
            int64_t integer;
            double number;
            sc_sym spelling; /* of the number */
            sc_name unit;    /* 0 if absent */
        } expect;
    };
} sc_plan_stmt;

typedef struct sc_plan {
    sc_name name, model;
    SC_VEC(sc_plan_stmt *) body;
    sc_loc loc, end;
} sc_plan;

/* ---- weights ---- */
typedef enum sc_wdim_kind {
    SC_WDIM_NAME,
    SC_WDIM_PART /* 0 of 3 */,
    SC_WDIM_RANGE /* 0..3 of 5 */
} sc_wdim_kind;

typedef struct sc_wdim {
    sc_wdim_kind kind;
    sc_name dim;
    sc_expr *first, *last, *of; /* PART: first and last are the same */
    sc_loc loc;
} sc_wdim;

typedef struct sc_wmap {
    /* an `ignore` line: no path; the pattern names tensors that may remain unread */
    bool is_ignore;
    sc_path path;
    sc_sym pattern; /* the unescaped string */
    sc_sym pattern_spelling;
    sc_loc pattern_loc;
    bool has_as;
    SC_VEC(sc_wdim) as;
    sc_loc loc;
} sc_wmap;

typedef struct sc_weights {
    sc_name name, model;
    SC_VEC(sc_wmap) maps;
    sc_loc loc, end;
} sc_weights;

#endif
