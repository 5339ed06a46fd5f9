/* The verifier: the rules of every state bit that holds, checked op by op. Runs after every pass in every build. */
#ifndef SHARDC_IR_OPS_VERIFY_H
#define SHARDC_IR_OPS_VERIFY_H

#include "ir/ops/ops.h"

/* False after reporting ir_invalid for each broken rule (up to 20), `after` naming the pass. */
bool sc_verify_module(const sc_module *m, const char *after);

#endif
