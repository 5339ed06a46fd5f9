/* A parameter's values out of the tensors of files that are open. */
#ifndef SHARDC_RUNTIME_DRIVE_READ_PARAM_H
#define SHARDC_RUNTIME_DRIVE_READ_PARAM_H

#include "runtime/drive/facts.h"
#include "runtime/files/safetensors.h"

/* What could not be read. */
typedef struct sc_read_failure {
    const sc_safetensor *tensor;
    const char *reason;
} sc_read_failure;

/* Row-major in the parameter's own order. `tensors`, by the parameter's facts, have the shapes that its layout says. False with *failure:
 * a file became shorter since it was opened, or cannot be read. */
bool sc_param_read(const sc_safetensors *file, const sc_fact_param *param, const sc_safetensor *const *tensors, double *values,
                   sc_read_failure *failure);

#endif
