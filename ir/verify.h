/* The verifier: the rules of every state bit that holds, checked op by op. Runs after every pass in every build. */
#ifndef SHARDC_IR_VERIFY_H
#define SHARDC_IR_VERIFY_H

#include "ir/ops.h"

/* False after reporting ir_invalid for each broken rule (up to 20), `after` naming the pass. */
bool sc_verify_module(const sc_module *m, const char *after);

/* Placement of the results of an op from those of its operands and the factors: the one rule that placement passes and the verifier
 * share. `assignment[f]` is how factor f is split. False, with *error in the arena, when operands do not fit the assignment. */
#endif
