/* The verifier: checks the rules of every state bit that is set, op by op. Runs after every pass in
 * every build. */
#ifndef SHARDC_IR_OPS_VERIFY_H
#define SHARDC_IR_OPS_VERIFY_H

#include "ir/ops/ops.h"

/* Reports ir_invalid for each broken rule (up to 20), naming the pass `after`; false if there were
 * any. */
bool sc_verify_module(const sc_module *m, const char *after);

#endif
