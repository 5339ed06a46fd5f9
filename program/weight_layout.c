#include "program/weight_layout.h"

bool sc_weight_layout_fits(const sc_weight_layout *layout, uint32_t rank, const int64_t *sizes)
{
    int64_t elements = 1;
    uint32_t b = 0;
    for (uint32_t i = rank; i-- > 0;) {
        if (__builtin_mul_overflow(elements, sizes[i], &elements))
            return false;
        while (b < layout->boundary_count && layout->boundaries[b] < elements)
            b++;
        if (elements != 1 && (b == layout->boundary_count || layout->boundaries[b] != elements))
            return false;
    }
    return elements == layout->elements;
}

uint64_t sc_weight_tensor(const sc_weight_layout *layout, const int64_t *sizes,
                          const sc_weight_place *place)
{
    uint64_t tensor = 0;
    for (uint32_t i = 0; i < layout->rank; i++)
        tensor =
            layout->indexed[i] ? tensor * (uint64_t)sizes[i] + (uint64_t)place->index[i] : tensor;
    return tensor;
}

int64_t sc_weight_element(const sc_weight_layout *layout, const sc_weight_place *place)
{
    int64_t at = layout->offset;
    for (uint32_t i = 0; i < layout->rank; i++)
        at += place->index[i] * layout->strides[i];
    return at;
}

void sc_weight_next(const sc_weight_layout *layout, const int64_t *sizes, sc_weight_place *place)
{
    for (uint32_t i = layout->rank; i-- > 0 && ++place->index[i] == sizes[i];)
        place->index[i] = 0;
}
