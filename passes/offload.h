/* What the two files of the pass `offload` share. */
#ifndef SHARDC_PASSES_OFFLOAD_H
#define SHARDC_PASSES_OFFLOAD_H

#include "passes/pass.h"

/* Why there is a copy; `rule`: 1 + the plan's line, in module->rules; 0: none. */
typedef struct sc_copy_reason {
    const char *why;
    uint32_t rule;
} sc_copy_reason;

/* Creates a to_device or to_host of these values, with the phase and scope of `like`. */
sc_op_id sc_new_memory_copy(sc_module *m, sc_op_kind kind, const sc_value *values, uint32_t count,
                            sc_op_id before, sc_op_id like, sc_copy_reason reason);
/* True if two paths are in one stacked instance, layers[3].attn.wq and layers[3].ffn.w1, or both
 * outside stacks. */
bool sc_same_instance(const char *a, const char *b);
/* True if the op's phase is forward; a recomputation is not. */
bool sc_is_forward_op(const sc_module *m, const sc_op *op);

/* Fusion runs an op where the last op of its kernel is, which may be after the copy that fills its
 * area again. Moves such copies down, or gives them memory of their own. */
void sc_order_staged_copies(sc_module *m, sc_func_id func);

/* Copies the activations of `offload act` lines to host memory and back, in the pass of one
 * micro-batch. Of a pipeline, before it is cut: only what the chunk that computes a value reads is
 * copied. `repeats`: by op, its results are computed where they are read; NULL: none are. */
void sc_offload_activations(sc_module *m, const sc_train_step *step, uint32_t prefetch,
                            const bool *repeats);

#endif
