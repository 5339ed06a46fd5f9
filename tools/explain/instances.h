/* Instances of a stack in lists for people: layers[0..79].attn.wq for eighty things that differ in nothing else. */
#ifndef SHARDC_TOOLS_EXPLAIN_INSTANCES_H
#define SHARDC_TOOLS_EXPLAIN_INSTANCES_H

#include "support/context.h"
#include "support/vec.h"

typedef struct sc_instance {
    const char *path; /* layers[3].attn.wq */
    uint64_t look;    /* equal for what may share a line */
} sc_instance;

typedef struct sc_instance_group {
    const char *path; /* layers[0..79].attn.wq; layers[0, 2..5].attn.wq where others look otherwise */
    uint32_t first, count;
} sc_instance_group;

typedef SC_VEC(sc_instance_group) sc_instance_groups;

/* Groups in the order of their first members. Paths share a group when they are the same without their indices, their looks are equal and
 * the indices can be written as one list for each stack. Linear in the text of all paths. */
void sc_instances_group(sc_context *context, const sc_instance *instances, uint32_t count, sc_instance_groups *out);

#endif
