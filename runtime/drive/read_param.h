/* Reads a parameter's values from tensors of open files. */
#ifndef SHARDC_RUNTIME_DRIVE_READ_PARAM_H
#define SHARDC_RUNTIME_DRIVE_READ_PARAM_H

#include "runtime/drive/executor.h"
#include "runtime/drive/facts.h"
#include "runtime/files/safetensors.h"

/* Identifies what could not be read. */
typedef struct sc_read_failure {
    const sc_safetensor *tensor;
    const char *reason;
} sc_read_failure;

/* Reads the box of the parameter at `place` into `local`, an array of place->local elements of this
 * type in the order of the parameter's dims; padding is left alone. Only the box's bytes are read,
 * and short gaps between them. Uses the calling thread's OpenMP team. `tensors`, as in the
 * parameter's facts, have the shapes of its layout. False with *failure: a file is unreadable, was
 * truncated since it was opened, or has a value that the type cannot hold. */
bool sc_param_read(const sc_safetensors *file, const sc_fact_param *param,
                   const sc_safetensor *const *tensors, const sc_shard_place *place,
                   sc_element element, void *local, sc_read_failure *failure);

/* Sets the place of a whole tensor. */
void sc_place_whole(uint32_t rank, const int64_t *sizes, sc_shard_place *out);

#endif
