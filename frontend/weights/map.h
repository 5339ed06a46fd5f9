/* Maps parameters to tensors of weight files by the lines of `weights` blocks: which tensor, and
 * the position of each element in it. */
#ifndef SHARDC_FRONTEND_WEIGHTS_MAP_H
#define SHARDC_FRONTEND_WEIGHTS_MAP_H

#include "frontend/declare/declarations.h"
#include "program/weight_layout.h"

/* Returns the line for a parameter's path with indices (layers[3].attn.wq); NULL if there is
 * none. */
const sc_wmap *sc_weights_find(const sc_context *context, const sc_weights *weights, sc_sym path);

/* A parameter of a model, each stack once. `path` has no indices; `pattern` has a hole with the
 * stack's dim for each index: layers[{L}].attn.wq. */
typedef struct sc_param_pattern {
    sc_sym path;
    const char *pattern;
    sc_loc loc; /* of its declaration */
} sc_param_pattern;
typedef SC_VEC(sc_param_pattern) sc_param_pattern_list;

void sc_param_patterns(const sc_declarations *program, sc_sym model, sc_param_pattern_list *out);

/* Computes the layout of a state of the module under its line. Returns false after reporting an
 * error (bad_weights, at the line). */
bool sc_wmap_layout(const sc_declarations *program, const sc_wmap *map, const sc_module *m,
                    uint32_t state, sc_weight_layout *out);

/* Computes the tensor's name for one instance of the parameter; index[d] is read if the name
 * contains dim d. Returns false after reporting an error. */
bool sc_wmap_tensor_name(const sc_declarations *program, const sc_wmap *map, sc_sym model,
                         const sc_module *m, uint32_t state, const int64_t *index, sc_sym *name);

#endif
