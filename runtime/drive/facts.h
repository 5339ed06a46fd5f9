/* What is known of a program besides its instructions: what it came from, how a train step of it is driven, what its inputs may hold and
 * where its parameters lie in files. The compiler finds it; a program keeps it as JSON (sc_image.facts). */
#ifndef SHARDC_RUNTIME_DRIVE_FACTS_H
#define SHARDC_RUNTIME_DRIVE_FACTS_H

#include "program/optimizer.h"
#include "program/weight_layout.h"
#include "runtime/drive/random_values.h"
#include "support/arena.h"
#include "support/dtype.h"
#include "support/source.h"
#include "support/vec.h"

enum { SC_FACTS_VERSION = 3 };

/* A tensor as files have it: a composite dim, which a program holds as its parts, is one axis. */
typedef struct sc_fact_type {
    const char *text; /* as it is written, f32[B=4, S=16] */
    uint32_t rank;
    int64_t sizes[SC_ARRAY_MAX_RANK];
} sc_fact_type;

typedef struct sc_fact_input {
    const char *name;
    sc_fact_type type;
    sc_dtype dtype;
    uint32_t rank;
    int64_t sizes[SC_ARRAY_MAX_RANK]; /* of the whole batch */
    sc_draw draw;                     /* what its readers accept */
} sc_fact_input;

/* A function that is an entry of the model. */
typedef struct sc_fact_entry {
    const char *name;
    uint32_t func; /* of the program; UINT32_MAX: it is not in it */
    SC_VEC(sc_fact_input) inputs;
    SC_VEC(sc_fact_type) outputs;
    bool is_cached;    /* the last two inputs are positions and lengths */
    bool is_minimised; /* a scalar, or (total, weight), then metrics */
    double flops;      /* of all ranks' products */
} sc_fact_entry;

/* A parameter in files of weights. */
typedef struct sc_fact_param {
    const char *path;
    sc_loc loc; /* the line of the map, else the declaration; none in a program that was read */
    sc_dtype dtype;
    uint32_t rank;
    int64_t sizes[SC_ARRAY_MAX_RANK];
    sc_weight_layout layout;
    uint32_t tensor_count; /* one, or one an index of the layout's indexed dims, the last of them fastest */
    const char **tensors;  /* names */
    const char *wanted;    /* the tensors' shape, in words */
    uint32_t shape_rank;   /* what a tensor is written as when no file says it */
    uint64_t shape[SC_MAX_WEIGHT_DIMS];
} sc_fact_param;

/* Tensors that may be in a file though no parameter of the program reads them. */
typedef struct sc_fact_pattern {
    const char *text; /* see name_pattern.h */
    bool is_ignore;   /* an 'ignore' line; else a parameter reads them that only other entries use */
    sc_loc loc;       /* none in a program that was read */
} sc_fact_pattern;

typedef struct sc_fact_weights {
    bool is_known;    /* false: the program was made without */
    bool has_block;   /* a `weights` block says all this; else tensors are called like parameters */
    bool is_complete; /* every parameter has a line */
    uint32_t count;
    sc_fact_param *params;
    SC_VEC(sc_fact_pattern) patterns;
} sc_fact_weights;

/* A state that begins with a number other than 0 and is no parameter. */
typedef struct sc_fact_constant {
    const char *path;
    double value;
} sc_fact_constant;

typedef struct sc_fact_train {
    uint32_t micro, update; /* functions of the program */
    SC_VEC(sc_optimizer_settings) groups;
    SC_VEC(sc_fact_constant) constants;
    uint32_t metric_count;
    const char *const *metric_names; /* a NULL is no name; NULL: nobody has any */
    bool scales;                     /* dynamic loss scaling: `update` says after the norm whether the step was taken */
    double flops;                    /* of all ranks' products in a step */
    const char *program;             /* before any plan placed it, as text: what a saved state is a state of */
} sc_fact_train;

/* A cached entry as two functions that share their caches. */
typedef struct sc_fact_generate {
    uint32_t prefill, decode; /* functions of the program: many positions, and one */
    int64_t capacity;         /* positions that the caches hold */
} sc_fact_generate;

typedef struct sc_facts {
    const char *model, *plan; /* plan NULL: none */
    sc_fact_entry entry;      /* of a train step: the forward entry, with the whole batch */
    bool trains;
    sc_fact_train train;
    bool generates;
    sc_fact_generate generate;
    sc_fact_weights weights;
} sc_facts;

/* Of one batch: elements of the first input of integers; 0 without one. */
uint64_t sc_entry_tokens(const sc_fact_entry *entry);

/* What a metric of the train step is called: by the name that the entry returns, else by its place among the results, out2. `out` has room
 * for the latter. */
enum { SC_METRIC_NAME = 16 };
const char *sc_metric_name(const sc_fact_train *train, uint32_t metric, char out[SC_METRIC_NAME]);
/* As eval calls it. */
void sc_metric_place(uint32_t metric, char out[SC_METRIC_NAME]);

/* As JSON, in the arena. NULL: no memory. */
const char *sc_facts_write(const sc_facts *facts, sc_arena *arena);
/* From a program. NULL, or what is wrong with it, in the arena. Everything is in the arena. */
const char *sc_facts_read(const char *json, sc_arena *arena, sc_facts *out);

#endif
