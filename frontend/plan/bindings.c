/* The sizes for an entry: defaults, then `bind` lines, then the command line. Later ones override
 * earlier ones. */
#include "frontend/plan/internal.h"

void sc_plan_bindings(const sc_resolved_plan *plan, sc_sym entry, sc_binding_list *out)
{
    sc_arena *arena = &plan->context->arena;
    for (uint32_t i = 0; i < plan->options.defaults.count; i++)
        *sc_vec_push(arena, out) = plan->options.defaults.data[i];
    for (int in_entry = 0; in_entry < 2; in_entry++) {
        for (uint32_t i = 0; i < plan->bindings.count; i++) {
            const sc_plan_binding *b = &plan->bindings.data[i];
            if (in_entry == 0 ? b->entry == 0 : entry != 0 && b->entry == entry)
                *sc_vec_push(arena, out) = b->binding;
        }
    }
    for (uint32_t i = 0; i < plan->options.binds.count; i++)
        *sc_vec_push(arena, out) = plan->options.binds.data[i];
}
