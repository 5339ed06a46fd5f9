/* The ops of a reshard path. */
#ifndef SHARDC_PASSES_LOWER_RESHARDS_H
#define SHARDC_PASSES_LOWER_RESHARDS_H

#include "passes/reshard_path.h"

/* Adds the op of one step, which takes `value` to step->to, before an op (SC_NONE: at the end of
 * the function of `like`), with these attributes besides its own. Place, scope and chunk are those
 * of `like`. */
sc_op_id sc_add_reshard_step(sc_module *m, sc_op_id before, const sc_reshard_step *step,
                             sc_value value, const sc_attr *attrs, uint32_t attr_count,
                             sc_op_id like);

#endif
