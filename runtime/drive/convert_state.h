/* Turns checkpoints into weights files and back, one tensor at a time. */
#ifndef SHARDC_RUNTIME_DRIVE_CONVERT_STATE_H
#define SHARDC_RUNTIME_DRIVE_CONVERT_STATE_H

#include "runtime/drive/facts.h"
#include "runtime/drive/train_state.h"
#include "support/context.h"

/* Of weights files to write. */
typedef struct sc_export_options {
    /* a folder, which is created, or a file *.safetensors */
    const char *path;
    sc_dtype dtype;     /* SC_DTYPE_COUNT: as in the checkpoint */
    uint64_t max_shard; /* bytes of tensors in one file of the folder; at least one tensor */
} sc_export_options;

typedef struct sc_export_report {
    uint32_t tensors, files;
    uint64_t bytes; /* of all tensors */
} sc_export_report;

/* Writes the parameters of a checkpoint through the weights map: model-00001-of-00003.safetensors
 * and model.safetensors.index.json, or one file. In memory there are one tensor and buffers of
 * fixed size. False after messages. */
bool sc_state_export(sc_context *context, const sc_fact_weights *weights,
                     const sc_saved_state *saved, const sc_export_options *options,
                     sc_export_report *out);

/* Writes a checkpoint of step 0 in `folder`: parameters and master copies from the weights files at
 * `from`, the other states as they begin. `states`: those of the train step, with full sizes.
 * In memory there is one tensor. False after messages. */
bool sc_state_import(sc_context *context, const sc_facts *facts, const shardc_tensor_info *states,
                     uint32_t count, const char *from, uint64_t seed, const char *folder);

#endif
