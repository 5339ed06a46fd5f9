#include "tools/run/parts.h"

static sc_generate_part part_of(const sc_compiled *c, const char *name)
{
    bool has_name = name != NULL || c->step == NULL;
    return (sc_generate_part){.m = c->local,
                              .step = c->step,
                              .batches = c->batches,
                              .name = !has_name      ? NULL
                                      : name != NULL ? name
                                                     : sc_text(c->local->context, c->entry)};
}

uint32_t sc_parts_of(const sc_compiled *c, const sc_compiled *second, const char *name,
                     sc_generate_part parts[2])
{
    bool swaps = second != NULL && c->step != NULL && sc_module_is_cut(c->local);
    parts[swaps] = part_of(c, NULL);
    if (second != NULL)
        parts[!swaps] = part_of(second, name);
    return second != NULL ? 2 : 1;
}

uint32_t sc_first_func(const sc_compiled *c)
{
    return sc_module_is_cut(c->local) ? 0 : c->func;
}

uint32_t sc_second_func(const sc_compiled *c, const sc_compiled *second)
{
    if (sc_module_is_cut(c->local))
        return c->step != NULL ? 0 : 1;
    return c->local->funcs.count + second->func;
}
