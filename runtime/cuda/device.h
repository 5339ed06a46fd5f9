/* The CUDA device. */
#ifndef SHARDC_RUNTIME_CUDA_DEVICE_H
#define SHARDC_RUNTIME_CUDA_DEVICE_H

#include "runtime/session/device.h"

extern const sc_device sc_device_cuda; /* for programs with target 'cuda' */

#endif
