#include "tools/run/cached_entries.h"

#include <string.h>

#include "support/strbuf.h"
#include "tools/run/parts.h"

enum { DEFAULT_CHUNK = 64 };

const char *sc_choose_cached(sc_context *context, sc_declarations *program, sc_sym model,
                             const sc_options *options)
{
    sc_entry_list entries = {0};
    const char *found = NULL;
    uint32_t count = 0;
    sc_strbuf names;
    sc_strbuf_init(&names, &context->arena);
    if (options->entry != NULL)
        return options->entry;
    sc_declarations_entries(program, model, &entries);
    for (uint32_t i = 0; i < entries.count; i++) {
        const char *name = sc_text(context, entries.data[i].entry);
        if (!entries.data[i].cached)
            continue;
        sc_strbuf_printf(&names, "%s%s", count++ > 0 ? ", " : "", name);
        if (found == NULL || strcmp(name, "decode") == 0)
            found = name;
    }
    if (count <= 1 ? found != NULL : strcmp(found, "decode") == 0)
        return found;
    const char *text =
        count == 0 ? "the model has no cached entry, 'entry f(..) at pos[B] along S', so it cannot "
                     "generate"
                   : sc_arena_printf(&context->arena,
                                     "several entries are cached: %s; choose one with --entry NAME",
                                     names.data);
    sc_report(&context->diag, SC_D_usage, (sc_loc){0}, text, NULL);
    return NULL;
}

/* Finds the dims of caches that are aliases: of which position dim, and their capacity. */
static bool find_positions(const sc_module *m, sc_dim *out_dim, int64_t *out_capacity)
{
    for (uint32_t s = 0; s < m->state.count; s++) {
        const sc_type_info *type = sc_state_type(m, s);
        if (m->state.data[s].kind != SC_STATE_CACHE)
            continue;
        for (uint32_t d = 0; d < type->rank; d++) {
            if (m->dims.data[type->dims[d].dim].alias_of == SC_NONE)
                continue;
            *out_dim = m->dims.data[type->dims[d].dim].alias_of;
            *out_capacity = type->dims[d].size;
            return true;
        }
    }
    return false;
}

/* Returns the number of positions of one call: the size of the dim in the first input that has
 * it. */
static int64_t positions_of(const sc_compiled *c, sc_dim dim)
{
    const sc_module *m = c->global;
    sc_for_each_op (m, c->func, op) {
        int at = sc_op_has(sc_op_at(m, op), SC_FROM_OUTSIDE)
                     ? sc_type_find_dim(sc_type_of(m, sc_result(m, op, 0)), dim)
                     : -1;
        if (at >= 0)
            return sc_type_of(m, sc_result(m, op, 0))->dims[at].size;
    }
    return 0;
}

/* Binds the dim to `size`. Aliases in caches are bound to their current sizes, because without a
 * size of their own they would follow the dim. */
static void rebind(sc_context *context, const sc_compiled *c, const sc_options *options, sc_dim dim,
                   int64_t size, sc_options *out)
{
    const sc_module *m = c->global;
    sc_binding_list binds = {0};
    for (uint32_t i = 0; i < options->plan_options.binds.count; i++) {
        if (options->plan_options.binds.data[i].dim != m->dims.data[dim].name)
            *sc_vec_push(&context->arena, &binds) = options->plan_options.binds.data[i];
    }
    *sc_vec_push(&context->arena, &binds) =
        (sc_binding){.dim = m->dims.data[dim].name, .size = size};
    for (uint32_t s = 0; s < m->state.count; s++) {
        const sc_type_info *type = sc_state_type(m, s);
        if (m->state.data[s].kind != SC_STATE_CACHE)
            continue;
        for (uint32_t d = 0; d < type->rank; d++) {
            if (m->dims.data[type->dims[d].dim].alias_of != SC_NONE)
                *sc_vec_push(&context->arena, &binds) = (sc_binding){
                    .dim = m->dims.data[type->dims[d].dim].name, .size = type->dims[d].size};
        }
    }
    *out = *options;
    out->entry = sc_text(context, c->entry);
    out->forward = true;
    out->plan_options.binds = binds;
}

bool sc_compile_other(sc_context *context, const sc_compiled *c, const sc_options *options,
                      const char *last, sc_compiled *other, bool *has_other, sc_fact_generate *out)
{
    sc_dim dim;
    sc_options bound;
    *has_other = find_positions(c->global, &dim, &out->capacity) && positions_of(c, dim) > 0;
    if (!*has_other)
        return true;
    bool is_decode = positions_of(c, dim) == 1;
    int64_t chunk = out->capacity < DEFAULT_CHUNK ? out->capacity : DEFAULT_CHUNK;
    rebind(context, c, options, dim, is_decode ? chunk : 1, &bound);
    if (!sc_driver_compile(context, c->program, c->plan, &bound, NULL, NULL, last, other))
        return false;
    uint32_t first = sc_first_func(c), second = sc_second_func(c, other);
    out->decode = is_decode ? first : second;
    out->prefill = is_decode ? second : first;
    return true;
}

const char *sc_other_name(sc_context *context, const sc_compiled *c, const sc_fact_generate *how)
{
    return sc_arena_printf(&context->arena, "%s.%s", sc_text(context, c->entry),
                           how->decode == sc_first_func(c) ? "prefill" : "decode");
}

bool sc_bind_one_position(sc_context *context, const sc_compiled *c, const sc_options *options,
                          sc_options *out, sc_fact_generate *how)
{
    sc_dim dim;
    if (!find_positions(c->global, &dim, &how->capacity))
        return false;
    rebind(context, c, options, dim, 1, out);
    how->prefill = how->decode = c->func;
    return true;
}
