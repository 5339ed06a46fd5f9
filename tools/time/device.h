/* Descriptions of devices: what the simulator takes a GPU, its links and its network for. */
#ifndef SHARDC_TOOLS_TIME_DEVICE_H
#define SHARDC_TOOLS_TIME_DEVICE_H

#include "support/context.h"

/* Numbers in the units of devices.def. */
typedef struct sc_device_model {
    const char *name, *target;
    double memory, bandwidth, launch, units;
    double f64, f32, half;
    double matmul, deep, rows, columns;
    double forward, backward, stream;
    double node, link, link_start, network, network_start, host;
} sc_device_model;

/* By name, or (a name that ends in .json) from a file, an object with the fields of devices.def:
 * `like` names the device that it takes all others from. NULL after reporting an error. */
const sc_device_model *sc_device_find(sc_context *context, const char *name);

#endif
