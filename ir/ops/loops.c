#include "ir/ops/loops.h"

sc_loop_dims sc_loops_of(const sc_module *m, sc_value value)
{
    const sc_type_info *type = sc_type_of(m, value);
    sc_loop_dims loops = {.count = type->rank};
    for (uint32_t i = 0; i < type->rank; i++)
        loops.dims[i] = (sc_loop_dim){type->dims[i].dim, sc_type_local_size(m, type, i)};
    return loops;
}

bool sc_loops_have(const sc_loop_dims *loops, sc_loop_dim dim)
{
    for (uint32_t i = 0; i < loops->count; i++) {
        if (loops->dims[i].dim == dim.dim && loops->dims[i].size == dim.size)
            return true;
    }
    return false;
}

bool sc_loops_within(const sc_loop_dims *small, const sc_loop_dims *large)
{
    for (uint32_t i = 0; i < small->count; i++) {
        if (!sc_loops_have(large, small->dims[i]))
            return false;
    }
    return true;
}

bool sc_loops_equal(const sc_loop_dims *a, const sc_loop_dims *b)
{
    return a->count == b->count && sc_loops_within(a, b);
}

sc_loop_dims sc_loops_minus(const sc_loop_dims *all, const sc_loop_dims *less)
{
    sc_loop_dims left = {0};
    for (uint32_t i = 0; i < all->count; i++) {
        if (!sc_loops_have(less, all->dims[i]))
            left.dims[left.count++] = all->dims[i];
    }
    return left;
}

sc_loop_dims sc_loops_plus(const sc_loop_dims *a, const sc_loop_dims *b)
{
    sc_loop_dims both = *a;
    for (uint32_t i = 0; i < b->count; i++) {
        if (!sc_loops_have(&both, b->dims[i]))
            both.dims[both.count++] = b->dims[i];
    }
    return both;
}

int64_t sc_loops_elements(const sc_loop_dims *loops)
{
    int64_t elements = 1;
    for (uint32_t i = 0; i < loops->count; i++)
        elements *= loops->dims[i].size;
    return elements;
}
