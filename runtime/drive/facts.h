/* Metadata of a program besides its instructions: its source, how to drive its train step, valid
 * values of its inputs, and where its parameters are in weights files. Written by the compiler and
 * kept in the program as JSON (sc_image.facts). */
#ifndef SHARDC_RUNTIME_DRIVE_FACTS_H
#define SHARDC_RUNTIME_DRIVE_FACTS_H

#include "program/optimizer.h"
#include "program/weight_layout.h"
#include "runtime/drive/random_values.h"
#include "support/arena.h"
#include "support/dtype.h"
#include "support/source.h"
#include "support/vec.h"

enum { SC_FACTS_VERSION = 4 };

/* A tensor's type as in files: a composite dim, which a program holds as its parts, is one axis. */
typedef struct sc_fact_type {
    const char *text; /* printed: f32[B=4, S=16] */
    uint32_t rank;
    int64_t sizes[SC_ARRAY_MAX_RANK];
} sc_fact_type;

typedef struct sc_fact_input {
    const char *name;
    sc_fact_type type;
    sc_dtype dtype;
    uint32_t rank;
    int64_t sizes[SC_ARRAY_MAX_RANK]; /* of the global batch */
    sc_distribution distribution;     /* values that its consumers accept */
} sc_fact_input;

/* A function of the program that is an entry of the model. */
typedef struct sc_fact_entry {
    const char *name;
    uint32_t func; /* in the program; SC_NONE: not part of it */
    SC_VEC(sc_fact_input) inputs;
    SC_VEC(sc_fact_type) outputs;
    bool is_cached;    /* the last two inputs are positions and lengths */
    bool is_minimised; /* results are a scalar, or (total, weight), then metrics */
    double flops;      /* of the GEMMs of all ranks */
} sc_fact_entry;

/* Where a parameter is in weights files. */
typedef struct sc_fact_param {
    const char *path;
    sc_loc loc; /* the map's line, else the declaration; unset after sc_facts_read */
    sc_dtype dtype;
    uint32_t rank;
    int64_t sizes[SC_ARRAY_MAX_RANK];
    sc_weight_layout layout;
    /* one, or one per index of the layout's indexed dims, the last of them fastest */
    uint32_t tensor_count;
    const char **tensors; /* names */
    const char *wanted;   /* the tensors' shape, printed */
    uint32_t shape_rank;  /* shape to write when no existing file determines it */
    uint64_t shape[SC_MAX_WEIGHT_DIMS];
} sc_fact_param;

/* Tensors that may be in a file although no parameter of the program reads them. */
typedef struct sc_fact_pattern {
    const char *text; /* see name_pattern.h */
    /* from an 'ignore' line; else read by parameters that only other entries use */
    bool is_ignore;
    sc_loc loc; /* unset after sc_facts_read */
} sc_fact_pattern;

typedef struct sc_fact_weights {
    bool is_known;    /* false: the program was built without weights information */
    bool has_block;   /* from a `weights` block; else tensors are named as the parameters */
    bool is_complete; /* every parameter has a line */
    uint32_t count;
    sc_fact_param *params;
    SC_VEC(sc_fact_pattern) patterns;
} sc_fact_weights;

/* A state that is not a parameter and whose initial value is not 0. */
typedef struct sc_fact_constant {
    const char *path;
    double value;
} sc_fact_constant;

typedef struct sc_fact_train {
    SC_VEC(sc_optimizer_settings) groups;
    SC_VEC(sc_fact_constant) constants;
    uint32_t metric_count;
    /* an entry is NULL: the metric has no name; NULL: none has one */
    const char *const *metric_names;
    /* dynamic loss scaling: after the norm, `update` reports whether the step was applied */
    bool scales;
    double flops;        /* of the GEMMs of all ranks in a step */
    const char *program; /* the global program's text, which a checkpoint must match */
} sc_fact_train;

/* A cached entry as two functions that share caches. */
typedef struct sc_fact_generate {
    uint32_t prefill, decode; /* functions of the program: for many positions, and for one */
    int64_t capacity;         /* positions in the caches */
} sc_fact_generate;

typedef struct sc_facts {
    const char *model, *plan; /* plan NULL: none */
    sc_fact_entry entry;      /* of a train step: the forward entry, with the global batch */
    bool trains;
    sc_fact_train train;
    bool generates;
    sc_fact_generate generate;
    sc_fact_weights weights;
} sc_facts;

/* Returns the tokens of one batch: the elements of the first integer input, or 0. */
uint64_t sc_entry_tokens(const sc_fact_entry *entry);

/* Returns the name of a metric of the train step: the entry's name of it, else its position among
 * the results, as out2, formatted in `out`. */
enum { SC_METRIC_NAME = 16 };
const char *sc_metric_name(const sc_fact_train *train, uint32_t metric, char out[SC_METRIC_NAME]);
/* Writes a metric's name as eval prints it. */
void sc_metric_place(uint32_t metric, char out[SC_METRIC_NAME]);

/* Returns the facts as JSON, in the arena. NULL: out of memory. */
const char *sc_facts_write(const sc_facts *facts, sc_arena *arena);
/* Write and read the places of parameters alone, likewise. */
const char *sc_weight_facts_write(const sc_fact_weights *weights, sc_arena *arena);
const char *sc_weight_facts_read(const char *json, sc_arena *arena, sc_fact_weights *out);
/* Reads the facts of a program into the arena. NULL, or a description of what is invalid, also in
 * the arena. */
const char *sc_facts_read(const char *json, sc_arena *arena, sc_facts *out);

#endif
