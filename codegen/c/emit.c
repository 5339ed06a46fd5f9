/* The function of a kernel: arguments, loops over outer dims, phases. */
#include "codegen/c/emit.h"

#include "codegen/c/internal.h"

const sc_c_limits sc_c_default_limits = {
    .small_work = 1 << 14,
    .shares = 256,
    .block = 256,
    .shortest_block = 1024,
    .few = 1 << 16,
    .piece = 1 << 13,
    .few_rows = 1024,
    .piece_rows = 512,
    .split_work = 1 << 16,
    .split_shares = 32,
    .split_points = 1 << 12,
    .split_memory = 1 << 16,
    .split_block = 1024,
    .tile = 256,
    .tile_block = 128,
    .stream = 1 << 23,
    .cached = 4096,
    .prefetch_array = 1 << 20,
    .prefetch_row = 1 << 16,
};

/* ---- head ---- */

static void write_head(sc_kernel_printer *e, const char *name)
{
    const sc_kernel *k = e->k;
    sc_printer_comment(e);
    sc_write_line(e->out, "int64_t %s(void *const *args, const int64_t *params)", name);
    sc_write_open_block(e->out);
    bool any = false;
    for (uint32_t i = 0; i < k->args.count; i++) {
        const sc_kernel_arg *arg = &k->args.data[i];
        if (e->arg_used[i])
            sc_write_line(e->out, "%s%s *%sconst %s = args[%u];",
                          arg->mode == SC_ARG_IN ? "const " : "", sc_printer_stored(arg->dtype),
                          e->arg_shared[i] ? "" : "restrict ", e->arg_names[i], i);
    }
    for (uint32_t i = 0; i < k->params.count; i++) {
        any |= e->param_used[i];
        if (e->param_used[i])
            sc_write_line(e->out, "const int64_t p%u = params[%u];", i, i);
    }
    if (!any)
        sc_write_line(e->out, "(void)params;");
    if (e->check_count > 0 && (e->shape.order_count > 0 || e->shape.vector != SC_NONE))
        sc_write_line(e->out, "int64_t failed = INT64_MAX;");
}

/* ---- loops over outer dims ---- */

static void write_parallel(sc_kernel_printer *e)
{
    if (!e->shape.parallel)
        return;
    sc_strbuf_add(e->out->text, "#pragma omp parallel for schedule(static)");
    if (e->shape.shared > 1)
        sc_strbuf_printf(e->out->text, " collapse(%u)", e->shape.shared);
    sc_strbuf_add(e->out->text, e->check_count > 0 ? " reduction(min : failed)\n" : "\n");
}

/* Plans the scopes of the outer loops; dims not covered by them belong to deeper scopes. */
static void plan_scopes(sc_kernel_printer *e)
{
    const sc_printer_shape *shape = &e->shape;
    uint32_t loops = sc_c_outer_loops(e);
    uint64_t outer = 0;
    e->scopes.body = shape->split ? 1 : loops == 0 ? 0 : loops - shape->shared + 1;
    for (uint32_t l = 0; l < shape->order_count; l++) {
        uint32_t scope = shape->split || l < shape->shared ? 1 : l - shape->shared + 2;
        e->scopes.dims[scope] |= (uint64_t)1 << shape->order[l];
        outer |= (uint64_t)1 << shape->order[l];
    }
    if (shape->tile != SC_NONE) {
        e->scopes.dims[e->scopes.body] = (uint64_t)1 << shape->tile;
        outer |= e->scopes.dims[e->scopes.body];
    }
    e->scopes.inner = e->scopes.body + 1;
    e->scopes.dims[e->scopes.inner] = ~outer;
}

static void write_function(sc_kernel_printer *e, const char *name)
{
    const sc_kernel *k = e->k;
    uint32_t loops = sc_c_outer_loops(e);
    write_head(e, name);
    plan_scopes(e);
    sc_printer_place_all(e);
    if (e->scopes.body > 0)
        sc_printer_scope(e, 0, 0, k->items.count);
    if (e->shape.split) {
        sc_c_split(e);
        sc_write_line(e->out, "return 0;");
        sc_write_close(e->out);
        return;
    }
    write_parallel(e);
    bool tiled = e->shape.tile != SC_NONE;
    for (uint32_t l = 0; l < loops; l++) {
        sc_c_open_outer_loop(e, l);
        bool ends = l + 1 == loops - tiled;
        if (ends && tiled)
            sc_c_block_end(e, e->shape.tile, e->shape.tile_size);
        if (ends && sc_c_is_blocked(e))
            sc_c_block_end(e, e->shape.vector, e->shape.block);
        uint32_t scope = l < e->shape.shared ? 1 : l - e->shape.shared + 2;
        if (l + 1 >= e->shape.shared && scope < e->scopes.body)
            sc_printer_scope(e, scope, 0, k->items.count);
        if (ends && tiled)
            sc_c_transpose_in(e);
    }
    for (uint32_t p = 0; p < k->phases.count; p++)
        sc_c_phase(e, p);
    if (e->scopes.leaves)
        sc_write_line(e->out, "next:;");
    if (tiled)
        sc_c_stream_row(e);
    for (uint32_t l = 0; l < loops; l++) {
        if (tiled && l == 1)
            sc_c_transpose_out(e);
        sc_write_close(e->out);
    }
    bool fails = e->check_count > 0 && (e->shape.order_count > 0 || e->shape.vector != SC_NONE);
    sc_write_line(e->out, fails ? "return failed == INT64_MAX ? 0 : failed;" : "return 0;");
    sc_write_close(e->out);
}

void sc_c_emit_within(const sc_kernel *k, const char *name, bool comments,
                      const sc_c_limits *limits, sc_strbuf *out, sc_helper_set *helpers)
{
    size_t start = out->length;
    sc_kernel_printer e = {.target = &sc_c_target, .limits = limits};
    sc_printer_begin(&e, k, comments, out);
    sc_c_choose_loop_order(&e);
    sc_c_choose_row_cache(&e);
    sc_c_choose_prefetch(&e);
    write_function(&e, name);
    if (helpers != NULL)
        *helpers |= SC_HELPER(headers) | sc_helpers_named_in(out->data + start);
}

void sc_c_emit(const sc_kernel *k, const char *name, bool comments, sc_strbuf *out,
               sc_helper_set *helpers)
{
    sc_c_emit_within(k, name, comments, &sc_c_default_limits, out, helpers);
}
