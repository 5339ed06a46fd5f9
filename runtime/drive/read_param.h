/* Reads a parameter's values from tensors of open files. */
#ifndef SHARDC_RUNTIME_DRIVE_READ_PARAM_H
#define SHARDC_RUNTIME_DRIVE_READ_PARAM_H

#include "runtime/drive/facts.h"
#include "runtime/files/safetensors.h"

/* Identifies what could not be read. */
typedef struct sc_read_failure {
    const sc_safetensor *tensor;
    const char *reason;
} sc_read_failure;

/* Reads a parameter into row-major order of its own dims. `tensors`, as in the parameter's facts,
 * have the shapes of its layout. False with *failure: a file is unreadable, or was truncated since
 * it was opened. */
bool sc_param_read(const sc_safetensors *file, const sc_fact_param *param,
                   const sc_safetensor *const *tensors, double *values, sc_read_failure *failure);

#endif
