/* The declarations of a program, before any sizes are known. Private to frontend/. */
#ifndef SHARDC_FRONTEND_DECLARE_INTERNAL_H
#define SHARDC_FRONTEND_DECLARE_INTERNAL_H

#include <string.h>

#include "frontend/declare/declarations.h"

typedef enum sc_dim_form { SC_DIM_FREE, SC_DIM_SIZED, SC_DIM_ALIAS, SC_DIM_COMPOSITE } sc_dim_form;

/* A declared dim. References to other dims are indices into program->dims; SC_NONE refers to an
 * undeclared dim (already reported). */
typedef struct sc_dim_decl {
    sc_name name;
    sc_dim_form form;
    const sc_file *file;
    const sc_dim_def *def;
    uint32_t original; /* ALIAS: the aliased dim */
    /* ALIAS: aliases to follow to a dim that is not one */
    uint32_t chain;
    uint32_t part_count, *parts;              /* COMPOSITE */
    uint32_t dependency_count, *dependencies; /* dims that its size is computed from */
    bool broken;                              /* in a cycle or malformed: has no size */
} sc_dim_decl;

struct sc_unit;

typedef enum sc_member_kind {
    SC_MEMBER_PARAM,
    SC_MEMBER_CACHE,
    SC_MEMBER_SUB,
    SC_MEMBER_FN,
    SC_MEMBER_ENTRY
} sc_member_kind;

/* An `if` or `else` around a declaration. */
typedef struct sc_condition {
    sc_name name; /* a static argument */
    bool is_else;
    const struct sc_condition *outer;
} sc_condition;

/* A member of a block or model. */
typedef struct sc_member {
    sc_member_kind kind;
    sc_name name;
    const sc_condition *when; /* the innermost `if` that it is in; NULL if it is in none */
    union {
        const sc_pdecl *decl;
        const sc_sub *sub;
        const sc_callable *callable;
    };
    const struct sc_unit *block; /* SUB: its block; NULL if no block has that name */
} sc_member;

/* A block or a model. */
typedef struct sc_unit {
    sc_name name;
    const sc_callable *callable; /* NULL for a model */
    const sc_callable *head; /* of a model with static arguments: its name and these; else NULL */
    const sc_model *given;   /* what another file gives them; NULL: nothing */
    const sc_stmt_list *body;
    SC_VEC(sc_member) members;
    sc_map member_map; /* symbol -> index into members */
    uint32_t height;   /* nesting depth of blocks, including this one; 0 while unknown */
    bool broken;       /* contains itself, or nests too deeply */
    bool visiting;
} sc_unit;

struct sc_declarations {
    sc_context *context;
    SC_VEC(sc_dim_decl) dims;
    sc_map dim_map;
    sc_map *missing_dims;       /* names of undeclared dims, each reported once */
    SC_VEC(uint32_t) dim_order; /* topological order: each dim after those its size depends on */
    SC_VEC(sc_unit *) blocks;
    sc_map block_map;
    SC_VEC(sc_unit *) models;
    sc_map model_map;
    SC_VEC(const sc_callable *) fns;
    sc_map fn_map;
    SC_VEC(const sc_minimize *) minimizes;
    SC_VEC(const sc_plan *) plans;
    SC_VEC(const sc_weights *) weights;
    sc_map seen; /* hashes of the files read so far */
    /* callables and declarations that have been elaborated at least once, by source location */
    sc_map elaborated;
};

enum { SC_MAX_INLINE_DEPTH = 64 };

/* ---- static arguments of models ---- */
/* True if an `if` on a static argument of this value has its body: a number other than 0, or a word
 * other than `none`. */
static inline bool sc_is_taken(bool is_word, const char *word, double number)
{
    return is_word ? strcmp(word, "none") != 0 : number != 0.0;
}

/* ---- names ---- */
const sc_member *sc_unit_member(const sc_unit *unit, sc_sym name); /* NULL if there is none */
const sc_unit *sc_declarations_block(const sc_declarations *program, sc_sym name);
const sc_unit *sc_declarations_model(const sc_declarations *program, sc_sym name);
const sc_callable *sc_declarations_fn(const sc_declarations *program, sc_sym name);
/* Returns the index of a dim, or SC_NONE. */
uint32_t sc_declarations_dim(const sc_declarations *program, sc_sym name);

/* Candidates for "did you mean". sc_suggest returns `; did you mean 'x'?` or an empty string. */
typedef SC_VEC(const char *) sc_text_list;
void sc_suggest_add(sc_context *context, sc_text_list *list, sc_sym name);
const char *sc_suggest(sc_context *context, sc_sym wanted, const sc_text_list *list);
/* Adds the names of the unit's entries to those that a misspelt name is compared with. */
void sc_unit_suggest_entries(const sc_unit *unit, sc_context *context, sc_text_list *list);
/* Reports an undeclared dim. Only its first use is reported. */
void sc_report_unknown_dim(const sc_declarations *program, sc_name name);

/* ---- dims (dims.c) ---- */
/* Resolves aliases and composites, finds cycles and sorts the dims topologically. */
void sc_dims_check(sc_declarations *program);
/* Computes sizes[i] of each dim under the bindings; 0 if it has none. `along` is the position dim
 * of a cached entry, or SC_NONE; aliases of `along` have only sizes of their own. Reports sizes
 * that are not integers >= 1 and invalid bindings, and then returns false. */
bool sc_dims_sizes(const sc_declarations *program, const sc_binding_list *bindings, uint32_t along,
                   int64_t *sizes);

/* ---- checks without sizes (units.c) ---- */
/* Checks that subs exist, blocks do not contain themselves and statements are allowed where they
 * are. */
void sc_units_check(sc_declarations *program);

/* ---- parameter paths (paths.c) ---- */
/* A param of a model. `names` are the segments of its path, outermost first; `stacks[i]` is the
 * name of segment i's stack dim, or 0. */
typedef struct sc_param_path {
    uint32_t count;
    const sc_sym *names, *stacks;
    const sc_pdecl *decl;
    sc_member_kind kind; /* PARAM or CACHE */
    bool absent;         /* in an `if` whose body is not there in this model */
    const sc_unit *unit; /* the unit that declares it */
    sc_sym text;         /* e.g. layers.attn.wq */
    uint32_t dim_count;
    const sc_sym *dims; /* of its shape, after dim arguments and substitutions */
} sc_param_path;
typedef SC_VEC(sc_param_path) sc_param_path_list;

/* Lists params and caches of a model in declaration order, each stack once. */
void sc_param_paths(const sc_declarations *program, const sc_unit *model, sc_param_path_list *out);
/* True if a path as written covers a param (is a prefix of its path or equal to it); with `whole`,
 * only if equal. */
bool sc_path_covers(const sc_path *path, const sc_param_path *param, bool whole);
const char *sc_path_text(sc_context *context, const sc_path *path);
/* Returns `; did you mean ..?` with the nearest param path, or an empty string. */
const char *sc_suggest_param(sc_context *context, const sc_path *path,
                             const sc_param_path_list *params);
/* Lists the leaves of a dim by name: its own name, or those of its parts. */
void sc_declarations_leaves(const sc_declarations *program, sc_sym dim, sc_sym_list *out);

#endif
