#include "tools/time/cost.h"

#include <math.h>

#include "program/lookup.h"

#define GIGA  1e9
#define TERA  1e12
#define MICRO 1e-6

double sc_time_peak(const sc_device_model *device, sc_dtype dtype)
{
    int64_t bytes = sc_dtypes[dtype].bytes;
    return (bytes >= 8 ? device->f64 : bytes >= 4 ? device->f32 : device->half) * TERA;
}

static double moving(const sc_device_model *device, double bytes)
{
    return bytes / (device->bandwidth * GIGA * device->stream);
}

static double at_least_a_launch(const sc_device_model *device, double seconds)
{
    return fmax(seconds, device->launch * MICRO);
}

/* ---- matmuls ---- */

static double tiles(double size, double tile)
{
    return ceil(size / tile);
}

/* The part of the peak with tiles of this size: few rows or columns leave parts of tiles empty, the
 * last wave of tiles leaves units idle, unless K is split over them. */
static double rate_with(const sc_device_model *d, double batch, double m, double n, double k,
                        double rows, double columns)
{
    double count = batch * tiles(m, rows) * tiles(n, columns),
           filled = m * n * batch / (count * rows * columns), waves = count / d->units,
           busy = waves >= 1 ? waves / ceil(waves) : fmin(1, waves * fmax(1, k / 1024));
    return filled * busy * k / (k + d->deep * rows / d->rows);
}

/* The best of the device's tiles and smaller ones, each half of which reads more for its work. */
static double matmul_rate(const sc_device_model *d, double batch, double m, double n, double k)
{
    enum { HALVES = 3 };
    static const double of_halves = 0.85;
    double best = 0, part = d->matmul, rows = d->rows, columns = d->columns;
    for (int h = 0; h < HALVES; h++) {
        best = fmax(best, part * fmax(rate_with(d, batch, m, n, k, rows, columns),
                                      rate_with(d, batch, m, n, k, columns, rows)));
        part *= of_halves;
        if (columns > rows)
            columns /= 2;
        else
            rows /= 2;
    }
    return best;
}

double sc_time_matmul(const sc_device_model *device, const sc_gemm *gemm)
{
    double bytes = 0;
    for (int o = 0; o < SC_GEMM_OPERANDS; o++)
        bytes += (double)sc_gemm_extent(gemm, (sc_gemm_operand)o) *
                 (double)sc_dtypes[gemm->dtypes[o]].bytes *
                 (o == SC_GEMM_C && gemm->accumulate ? 2 : 1);
    for (uint32_t s = 0; s < gemm->step_count; s++) {
        if (sc_gemm_step_has_tensor(gemm->steps[s].kind))
            bytes += (double)sc_gemm_step_extent(gemm, s) *
                     (double)sc_dtypes[gemm->steps[s].dtype].bytes;
    }
    double rate = matmul_rate(device, (double)sc_gemm_size(gemm, SC_GEMM_BATCH),
                              (double)sc_gemm_size(gemm, SC_GEMM_M),
                              (double)sc_gemm_size(gemm, SC_GEMM_N),
                              (double)sc_gemm_size(gemm, SC_GEMM_K)),
           flops = sc_gemm_flops(gemm),
           computing =
               flops > 0 ? flops / (sc_time_peak(device, gemm->dtypes[SC_GEMM_A]) * rate) : 0;
    return at_least_a_launch(device, fmax(computing, moving(device, bytes)));
}

/* ---- kernels ---- */

double sc_time_kernel(const sc_device_model *device, const sc_image_kernel *kernel, double flops,
                      bool is_backward)
{
    double bytes = 0;
    for (uint32_t a = 0; a < kernel->arg_count; a++)
        bytes +=
            (double)kernel->args[a].moved * (kernel->args[a].access == SC_ACCESS_INOUT ? 2 : 1);
    double part = is_backward ? device->backward : device->forward,
           computing = flops > 0 ? flops / (device->half * TERA * part) : 0,
           launches = kernel->stage_count > 1 ? kernel->stage_count : 1;
    return fmax(fmax(computing, moving(device, bytes)), launches * device->launch * MICRO);
}

double sc_time_copy(const sc_device_model *device, double bytes)
{
    return at_least_a_launch(device, moving(device, 2 * bytes));
}

double sc_time_host_copy(const sc_device_model *device, double bytes)
{
    return at_least_a_launch(device, bytes / (device->host * GIGA));
}

/* ---- links ---- */

/* The members of the group that are on one node: its first digits are the slowest. */
static double members_of_node(const sc_device_model *device, const sc_image_group *group)
{
    double count = 1;
    for (uint32_t d = 0; d < group->digit_count; d++) {
        double step = (double)group->digits[d].divide, size = (double)group->digits[d].modulo;
        count *= fmax(1, fmin(size, floor(device->node / step)));
    }
    return count;
}

bool sc_time_is_within_node(const sc_device_model *device, const sc_image_group *group)
{
    return members_of_node(device, group) >= (double)sc_image_group_size(group);
}

static double buffer_bytes(const sc_image_collective *c)
{
    double bytes = 0;
    for (uint32_t p = 0; p < c->part_count; p++)
        bytes += (double)c->counts[p] * (double)sc_dtypes[c->dtypes[p]].bytes;
    return bytes;
}

/* The members of a node share its links to the network, a link for each GPU: a ring passes through
 * all of them at once. */
double sc_time_collective(const sc_device_model *device, const sc_image *image,
                          const sc_image_collective *collective)
{
    const sc_image_group *group = &image->groups[collective->group];
    double n = (double)sc_image_group_size(group), within = members_of_node(device, group),
           nodes = n / within,
           sent = sc_collective_sent(collective->kind, buffer_bytes(collective), n);
    if (n <= 1)
        return 0;
    bool is_ring = sc_collective_has(collective->kind, SC_COLLECTIVE_DIVIDES) ||
                   sc_collective_has(collective->kind, SC_COLLECTIVE_REDUCES);
    double speed = nodes <= 1 ? device->link
                   : is_ring  ? fmin(device->link, device->network * within)
                              : device->network;
    double starts = fmin(within - 1, 1 + log2(within)) * device->link_start +
                    fmin(nodes - 1, 1 + log2(nodes)) * device->network_start;
    return sent / (speed * GIGA * device->stream) + starts * MICRO;
}

/* Ranks of two stages are a step of the stage axis apart. */
double sc_time_message(const sc_device_model *device, const sc_image *image, double bytes)
{
    sc_image_digit digit = sc_image_stage_digit(image);
    bool is_near = (double)digit.divide * (double)digit.modulo <= device->node;
    double speed = is_near ? device->link : device->network,
           start = is_near ? device->link_start : device->network_start;
    return bytes / (speed * GIGA * device->stream) + start * MICRO;
}
