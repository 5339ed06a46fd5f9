#include "tools/elements.h"

static const sc_element elements[SC_DTYPE_COUNT] = {
    [SC_DTYPE_f32] = SC_ELEMENT_F32, [SC_DTYPE_f64] = SC_ELEMENT_F64, [SC_DTYPE_bf16] = SC_ELEMENT_BF16, [SC_DTYPE_f16] = SC_ELEMENT_F16,
    [SC_DTYPE_i32] = SC_ELEMENT_I32, [SC_DTYPE_i64] = SC_ELEMENT_I64, [SC_DTYPE_u8] = SC_ELEMENT_U8,     [SC_DTYPE_bool] = SC_ELEMENT_BOOL,
};

sc_element sc_dtype_element(sc_dtype dtype)
{
    return elements[dtype];
}
