/* Rows of experts that are apart: which part of the experts a rank has. */
#ifndef SHARDC_PASSES_PARTS_H
#define SHARDC_PASSES_PARTS_H

#include "ir/train.h"

/* The dim that numbers `count` equal parts of `experts`: one for each count, as a dim has one size
 * in a function. */
sc_dim sc_parts_dim(sc_module *m, sc_dim experts, int64_t count);
/* The dim NAME.WORD<count>, made if there is none. */
sc_dim sc_numbered_dim(sc_module *m, sc_dim of, const char *word, int64_t count);
/* How many experts a part has: of those that the value has. */
int64_t sc_part_size(const sc_module *m, sc_value with_experts, sc_dim experts, int64_t count);
/* True for routed products and their gradients. */
bool sc_is_routed(const sc_op *op);
/* True for the gradient of the weights: the result has the indexed dim. */
bool sc_is_weight_gradient(const sc_module *m, const sc_op *op);
/* True for an elementwise op that can be computed on any of its rows apart. The elements of random
 * ones depend on all dims. */
bool sc_is_rowwise(const sc_op *op);
/* The value behind names, and the one that it was recomputed from. */
sc_value sc_behind_names(const sc_module *m, const sc_train_step *step, sc_value value);
/* The ids that all copies of them are made from. */
sc_value sc_ids_root(const sc_module *m, const sc_train_step *step, sc_value ids);

#endif
