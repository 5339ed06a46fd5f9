/* How long a device takes for one instruction of a program, alone. In seconds. */
#ifndef SHARDC_TOOLS_TIME_COST_H
#define SHARDC_TOOLS_TIME_COST_H

#include "codegen/program/generate.h"
#include "tools/time/device.h"

/* A matmul: the longer of its arithmetic and its memory. The rate falls with tiles that a result
 * does not fill, with waves of tiles that do not fill the device, and with few contracted
 * elements. */
double sc_time_matmul(const sc_device_model *device, const sc_gemm *gemm);
/* A kernel: what it moves through memory or, of attention and routed products (flops > 0), the
 * longer of that and its arithmetic. */
double sc_time_kernel(const sc_device_model *device, const sc_image_kernel *kernel, double flops,
                      bool is_backward);
/* A collective of `bytes` (the full buffer, see program/collective.h): what a rank sends over the
 * slowest link that the group needs, and as many starts as a ring or a tree has. */
double sc_time_collective(const sc_device_model *device, const sc_image *image,
                          const sc_image_collective *collective);
/* True if the group's ranks are all of one node. */
bool sc_time_is_within_node(const sc_device_model *device, const sc_image_group *group);
/* Bytes to or from a rank of another stage. */
double sc_time_message(const sc_device_model *device, const sc_image *image, double bytes);
double sc_time_copy(const sc_device_model *device, double bytes);
double sc_time_host_copy(const sc_device_model *device, double bytes);
/* The peak of matmuls with operands of the dtype, in FLOP/s. */
double sc_time_peak(const sc_device_model *device, sc_dtype dtype);

#endif
