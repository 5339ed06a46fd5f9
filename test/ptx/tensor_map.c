/* What the driver refuses (CUDA driver API, cuTensorMapEncodeTiled). */
#include <stddef.h>

#include "test/ptx/tensor_map.h"

const char *sc_ptx_tensor_map_check(const sc_ptx_tensor_map *m)
{
    if (m->rank < 1 || m->rank > SC_PTX_TENSOR_RANK)
        return "a tensor has 1 to 5 dims";
    if (m->element_bytes != 1 && m->element_bytes != 2 && m->element_bytes != 4 &&
        m->element_bytes != 8)
        return "an element has 1, 2, 4 or 8 bytes";
    if (m->address % 16 != 0)
        return "the tensor's address is no multiple of 16";
    if (m->swizzle != 0 && m->swizzle != 32 && m->swizzle != 64 && m->swizzle != 128)
        return "a swizzle is of 0, 32, 64 or 128 bytes";
    for (uint32_t d = 0; d < m->rank; d++) {
        if (m->sizes[d] < 1 || m->sizes[d] > (uint64_t)1 << 32)
            return "a dim has 1 to 2^32 elements";
        if (d + 1 < m->rank && (m->strides[d] % 16 != 0 || m->strides[d] >= (uint64_t)1 << 40))
            return "a stride is a multiple of 16 bytes, and less than 2^40";
        if (m->box[d] < 1 || m->box[d] > 256)
            return "a box has 1 to 256 elements of each dim";
    }
    uint32_t row = (uint32_t)m->box[0] * m->element_bytes;
    if (row % 16 != 0)
        return "a row of the box is no multiple of 16 bytes";
    if (m->swizzle != 0 && row > m->swizzle)
        return "a row of the box is longer than the swizzle";
    return NULL;
}
