/* The part of the verifier that concerns pipelines: what functions of stages, their slots, sends
 * and receives must be, and that the schedule runs them in an order that their data allows. */
#ifndef SHARDC_IR_OPS_VERIFY_STAGES_H
#define SHARDC_IR_OPS_VERIFY_STAGES_H

#include "ir/graph.h"

/* Called for each broken rule with the op, or SC_NONE. The text is in the context's arena. */
typedef void sc_stage_report(void *user, sc_op_id op, const char *text);

/* Checks the module's functions, then, if nothing was wrong, its schedule. Returns true if all
 * rules hold. */
bool sc_verify_stages(const sc_module *m, sc_stage_report *report, void *user);

#endif
