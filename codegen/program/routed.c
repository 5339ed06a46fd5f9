/* Routed products. */
#include "codegen/program/internal.h"

bool sc_generate_routed(sc_generator *g, sc_op_id op)
{
    return sc_generate_kernel(g, &op, 1);
}
