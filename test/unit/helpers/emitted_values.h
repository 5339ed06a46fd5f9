/* What an emitted kernel gives, compared with what the reference gives. After cmocka.h. */
#ifndef SHARDC_TEST_EMITTED_VALUES_H
#define SHARDC_TEST_EMITTED_VALUES_H

#include <math.h>

#include "runtime/files/element.h"

#include "test/unit/helpers/random_kernel.h"

static inline sc_element emitted_element(sc_dtype dtype)
{
    static const sc_element elements[SC_DTYPE_COUNT] = {
        [SC_DTYPE_f32] = SC_ELEMENT_F32,   [SC_DTYPE_f64] = SC_ELEMENT_F64,
        [SC_DTYPE_bf16] = SC_ELEMENT_BF16, [SC_DTYPE_f16] = SC_ELEMENT_F16,
        [SC_DTYPE_i32] = SC_ELEMENT_I32,   [SC_DTYPE_i64] = SC_ELEMENT_I64,
        [SC_DTYPE_u8] = SC_ELEMENT_U8,     [SC_DTYPE_bool] = SC_ELEMENT_BOOL};
    return elements[dtype];
}

/* How far an element may be off; what narrow dtypes round may round the other way. */
static inline double emitted_slack(sc_dtype dtype, double value)
{
    double narrow = dtype == SC_DTYPE_bf16 ? 0x1p-7 : dtype == SC_DTYPE_f16 ? 0x1p-10 : 0;
    return sc_dtype_is_float(dtype) ? 1e-4 * (1 + fabs(value)) + narrow * fabs(value) : 0;
}

/* `norm_only`: the error is that of the whole argument, 1e-5 of its norm; else of each element. */
static inline void emitted_compare(const random_kernel *made, const char *label, bool norm_only,
                                   uint32_t arg_index, const double *want, const void *got)
{
    const sc_kernel_arg *arg = &made->k->args.data[arg_index];
    int64_t count = random_kernel_elements(arg);
    double error = 0, norm = 0;
    for (int64_t i = 0; i < count; i++) {
        double value = sc_element_load(emitted_element(arg->dtype), got, (uint64_t)i);
        if (isnan(want[i]) && isnan(value))
            continue;
        if (want[i] != value &&
            !(fabs(want[i] - value) <= (norm_only ? INFINITY : emitted_slack(arg->dtype, want[i]))))
            fail_msg("%s, argument %u, element %lld: %.17g, not %.17g", label, arg_index,
                     (long long)i, value, want[i]);
        error += want[i] == value ? 0 : (want[i] - value) * (want[i] - value);
        norm += isinf(want[i]) ? 0 : want[i] * want[i];
    }
    double bound = arg->dtype == SC_DTYPE_f64   ? 1e-12
                   : arg->dtype == SC_DTYPE_f32 ? 1e-5
                   : arg->dtype == SC_DTYPE_f16 ? 1e-4
                                                : 1e-3;
    if (norm_only && !(sqrt(error) <= (sc_dtype_is_float(arg->dtype) ? bound : 0) * sqrt(norm)))
        fail_msg("%s, argument %u: an error of %g of the norm", label, arg_index,
                 sqrt(error / norm));
}

/* An argument to read and one to write that hold the same at first, and may be one array. */
typedef struct emitted_pair {
    uint32_t in, out;
    bool one;
} emitted_pair;

#endif
