/* Groups instances of a stack in printed lists: layers[0..79].attn.wq for eighty items that differ
 * only in the index. */
#ifndef SHARDC_TOOLS_EXPLAIN_INSTANCES_H
#define SHARDC_TOOLS_EXPLAIN_INSTANCES_H

#include "support/context.h"
#include "support/vec.h"

typedef struct sc_instance {
    const char *path; /* e.g. layers[3].attn.wq */
    uint64_t look;    /* equal for items that may share a line */
} sc_instance;

typedef struct sc_instance_group {
    /* layers[0..79].attn.wq; layers[0, 2..5].attn.wq if the others look different */
    const char *path;
    uint32_t first, count;
} sc_instance_group;

typedef SC_VEC(sc_instance_group) sc_instance_groups;

/* Groups instances, in the order of their first members. Paths are grouped if they are equal
 * without indices, have equal looks, and their indices can be written as one list per stack. Linear
 * in the total length of the paths. */
void sc_instances_group(sc_context *context, const sc_instance *instances, uint32_t count,
                        sc_instance_groups *out);

#endif
