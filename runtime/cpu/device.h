/* The CPU device. */
#ifndef SHARDC_RUNTIME_CPU_DEVICE_H
#define SHARDC_RUNTIME_CPU_DEVICE_H

#include "runtime/session/device.h"

extern const sc_device sc_device_cpu; /* for programs with target 'cpu' */

#endif
