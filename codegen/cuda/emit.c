/* The stages of a kernel: names, parameters, assignment of teams. */
#include "codegen/cuda/emit.h"

#include "codegen/cuda/internal.h"

/* ---- head ---- */

static void parameters(sc_cuda_printer *c)
{
    sc_kernel_printer *e = &c->e;
    const sc_kernel *k = e->k;
    for (uint32_t i = 0; i < k->args.count; i++) {
        const sc_kernel_arg *arg = &k->args.data[i];
        /* Of what the kernel writes, a lane may read what others wrote after a barrier: restrict
         * would let the compiler load it before. */
        bool is_read_only = arg->mode == SC_ARG_IN;
        sc_strbuf_printf(e->out->text, "%s%s *%s%s, ", is_read_only ? "const " : "",
                         sc_printer_stored(arg->dtype),
                         is_read_only && !e->arg_shared[i] ? "__restrict__ " : "", e->arg_names[i]);
    }
    if (c->scratch_bytes > 0)
        sc_strbuf_add(e->out->text, "unsigned char *sc_scratch, ");
    for (uint32_t i = 0; i < k->params.count; i++) {
        bool named = e->param_used[i] && k->params.data[i].kind != SC_PARAM_STEP;
        sc_strbuf_add(e->out->text, "int64_t");
        if (named)
            sc_strbuf_printf(e->out->text, " p%u", i);
        sc_strbuf_add(e->out->text, ", ");
    }
    sc_strbuf_add(e->out->text, "const int64_t *sc_call, uint64_t *sc_failure");
}

enum { MOST_OF_TWO = 48 /* most elements held by a thread for two blocks of 512 to fit */ };

/* Elements that a thread caches between phases plus those it loads for a point. */
static int64_t held_elements(const sc_cuda_printer *c)
{
    const sc_kernel *k = c->e.k;
    int64_t elements = 0, lanes = 1;
    for (uint32_t p = c->stage.form.first; p < c->stage.form.end; p++)
        lanes = c->phases[p].lanes > lanes ? c->phases[p].lanes : lanes;
    for (sc_knode i = 0; i < k->nodes.count; i++) {
        uint32_t from = c->e.nodes[i].cached_from;
        elements += from == SC_NONE ? 0 : c->phases[from].steps * c->phases[from].lanes;
        elements += k->nodes.data[i].kind == SC_NODE_load && c->e.nodes[i].uses > 0 ? lanes : 0;
    }
    return elements;
}

/* Blocks that should be resident on a multiprocessor. For long rows two, if possible: one loads
 * while the other reduces. */
static int blocks_together(const sc_cuda_printer *c)
{
    if (sc_cuda_has_many_phases(c))
        return 1; /* common subexpressions take the registers of further blocks */
    if (c->stage.form.threads < 512)
        return 512 / c->stage.form.threads > 16 ? 16 : 512 / c->stage.form.threads;
    bool is_row =
        c->stage.form.team == SC_CUDA_ROWS && c->stage.form.parts == 1 && c->stage.teams > 1;
    return is_row && c->stage.form.threads == 512 && held_elements(c) <= MOST_OF_TWO ? 2 : 1;
}

static void head(sc_cuda_printer *c, uint32_t stage)
{
    sc_kernel_printer *e = &c->e;
    const sc_kernel *k = e->k;
    sc_strbuf_printf(e->out->text, "SC_KERNEL(%d, %d) void %s_%u(", c->stage.form.threads,
                     blocks_together(c), c->name, stage);
    parameters(c);
    sc_strbuf_add(e->out->text, ")\n");
    sc_write_open_block(e->out);
    for (uint32_t i = 0; i < k->params.count; i++) {
        if (e->param_used[i] && k->params.data[i].kind == SC_PARAM_STEP)
            sc_write_line(e->out, "const int64_t p%u = sc_call[0];", i);
    }
}

/* ---- assignment of work ---- */

/* Emits the outer indices of team `at`. */
static void team_indices(sc_cuda_printer *c)
{
    sc_kernel_printer *e = &c->e;
    const char *type = sc_cuda_index_type(c);
    int64_t faster = 1;
    for (uint32_t i = c->stage.order_count; i-- > 0;) {
        uint32_t dim = c->order[i];
        bool lanes = dim == e->shape.vector;
        int64_t size = e->k->dims.data[dim].size / (lanes ? c->lanes : 1);
        sc_write_indent(e->out);
        sc_strbuf_printf(e->out->text, "const %s %s%s = at", type, e->dim_names[dim],
                         lanes ? "_at" : "");
        if (faster > 1)
            sc_strbuf_printf(e->out->text, " / %lld", (long long)faster);
        if (i > 0)
            sc_strbuf_printf(e->out->text, " %% %lld", (long long)size);
        if (lanes)
            sc_strbuf_printf(e->out->text, " * %d", c->lanes);
        sc_strbuf_add(e->out->text, ";\n");
        faster *= size;
    }
}

/* Teams per block. */
static int teams_of_block(const sc_cuda_printer *c)
{
    return c->stage.form.team == SC_CUDA_COLUMNS
               ? SC_CUDA_WARP
               : c->stage.form.threads / c->stage.form.team_threads;
}

static void find_team(sc_cuda_printer *c)
{
    sc_kernel_printer *e = &c->e;
    const char *type = sc_cuda_index_type(c);
    int teams = teams_of_block(c);
    const char *within = "";
    if (c->stage.form.team == SC_CUDA_COLUMNS) {
        sc_write_line(e->out, "const int thread = sc_warp();");
        within = " + sc_lane()";
    } else if (c->stage.form.team_threads > 1) {
        sc_write_line(e->out,
                      teams > 1 ? "const int thread = sc_thread() %% %d;"
                                : "const int thread = sc_thread();",
                      c->stage.form.team_threads);
    }
    if (c->stage.form.team != SC_CUDA_COLUMNS && teams > 1)
        within = c->stage.form.team_threads == 1
                     ? " + sc_thread()"
                     : sc_arena_printf(e->arena, " + sc_thread() / %d", c->stage.form.team_threads);
    const char *times = teams > 1 ? sc_arena_printf(e->arena, " * %d", teams) : "";
    const char *block = c->wide ? "sc_block()" : "(int)sc_block()";
    if (c->stage.form.parts > 1 || c->stage.form.scatters) {
        long long parts = c->stage.form.parts, per_part = c->stage.form.per_part,
                  points = c->stage.form.whole;
        sc_write_line(e->out, "const %s cut = %s %% %lld;", type, block, parts);
        sc_write_line(e->out, "const %s first = cut * %lld;", type, per_part);
        if (points % per_part == 0)
            sc_write_line(e->out, "const %s last = first + %lld;", type, per_part);
        else
            sc_write_line(e->out, "const %s last = first < %lld ? first + %lld : %lld;", type,
                          points - per_part, per_part, points);
        block = sc_arena_printf(e->arena, "%s / %lld", block, parts);
    }
    bool whole = c->stage.teams % teams == 0;
    if (c->stage.form.live) {
        sc_write_line(e->out, "const %s row = %s%s%s;", type, block, times, within);
        sc_write_line(e->out, "const bool live = row < %lld;", (long long)c->stage.teams);
        if (c->stage.form.team == SC_CUDA_ROWS &&
            teams > SC_CUDA_WARP / c->stage.form.team_threads) {
            sc_write_line(e->out, "if (%s%s + sc_warp() * %d >= %lld)", block, times,
                          SC_CUDA_WARP / c->stage.form.team_threads, (long long)c->stage.teams);
            sc_write_line(e->out, "    return;");
        }
        sc_write_line(e->out, "const %s at = live ? row : %lld;", type,
                      (long long)c->stage.teams - 1);
    } else if (c->stage.order_count > 0 || !whole) {
        sc_write_line(e->out, "const %s at = %s%s%s;", type, block, times, within);
        if (!whole) {
            sc_write_line(e->out, "if (at >= %lld)", (long long)c->stage.teams);
            sc_write_line(e->out, "    return;");
        }
    }
    team_indices(c);
}

/* ---- stages ---- */

static void begin_stage(sc_cuda_printer *c, uint32_t stage)
{
    const sc_cuda_form *form = &c->stages[stage];
    /* checks run on behalf of all teams, without their indices */
    c->stage = (sc_cuda_stage_text){.form = *form,
                                    .teams = form->checks ? 1 : c->teams,
                                    .order_count = form->checks ? 0 : c->order_count};
}

/* Emits a stage; c->stage.form is set. */
static void stage_text(sc_cuda_printer *c, uint32_t stage, sc_cuda_code *code)
{
    sc_kernel_printer *e = &c->e;
    const sc_kernel *k = e->k;
    uint64_t outer = ((uint64_t)1 << k->outer_count) - 1;
    uint32_t first = k->phases.data[c->stage.form.first].first_item, end = first;
    for (uint32_t p = c->stage.form.first; p < c->stage.form.end; p++)
        end += k->phases.data[p].item_count;
    if (e->shape.vector != SC_NONE)
        outer &= ~((uint64_t)1 << e->shape.vector);
    sc_printer_comment(e);
    head(c, stage);
    if (c->apart > 0 && !c->stage.form.checks) {
        sc_write_line(e->out, "if (*sc_failure != ~(uint64_t)0) /* a check has failed */");
        sc_write_line(e->out, "    return;");
    }
    e->scopes.body = SC_CUDA_BODY;
    e->scopes.inner = SC_CUDA_READS;
    e->scopes.dims[SC_CUDA_BODY] = outer;
    e->scopes.dims[SC_CUDA_READS] = ~outer;
    sc_printer_place_all(e);
    sc_printer_place(e, first, end, 0);
    if (c->stage.form.team == SC_CUDA_TILES) {
        sc_cuda_tile_text(c);
    } else {
        find_team(c);
        sc_printer_scope(e, 0, first, end);
        sc_cuda_read_partials(c);
        for (uint32_t p = c->stage.form.first; p < c->stage.form.end; p++)
            sc_cuda_phase_text(c, p);
        sc_cuda_write_partials(c);
        sc_printer_leave(e, 0);
    }
    sc_write_close(e->out);
    int teams = teams_of_block(c);
    int64_t blocks = c->stage.form.team == SC_CUDA_TILES
                         ? sc_cuda_tiles(c)
                         : (c->stage.teams + teams - 1) / teams * c->stage.form.parts;
    code->stages[stage] = (sc_cuda_stage){.blocks = blocks,
                                          .threads = (uint32_t)c->stage.form.threads,
                                          .shared_bytes = (uint32_t)c->shared_bytes};
}

void sc_cuda_emit_within(const sc_kernel *k, const char *name, bool comments,
                         const sc_cuda_limits *limits, sc_strbuf *out, sc_helper_set *helpers,
                         sc_cuda_code *code)
{
    sc_arena *arena = k->arena;
    size_t start = out->length;
    sc_cuda_printer c = {.e = {.target = &sc_cuda_target}, .limits = limits, .name = name};
    c.intervals = sc_kernel_intervals(k, NULL, 0, NULL);
    c.forms = sc_kernel_forms(k, c.intervals);
    c.partials = sc_arena_array(arena, k->items.count + 1, sizeof *c.partials);
    c.run_of_load = sc_arena_array(arena, k->nodes.count + 1, sizeof *c.run_of_load);
    c.run_of_item = sc_arena_array(arena, k->items.count + 1, sizeof *c.run_of_item);
    sc_printer_begin(&c.e, k, comments, out);
    sc_cuda_plan(&c);
    *code = (sc_cuda_code){
        .stage_count = c.stage_count, .scratch_bytes = c.scratch_bytes, .why_simple = c.why_simple};
    for (uint32_t s = 0; s < c.stage_count; s++) {
        begin_stage(&c, s);
        stage_text(&c, s, code);
    }
    if (helpers != NULL)
        *helpers |= sc_helpers_named_in(out->data + start);
}

void sc_cuda_emit(const sc_kernel *k, const char *name, bool comments, sc_strbuf *out,
                  sc_helper_set *helpers, sc_cuda_code *code)
{
    sc_cuda_emit_within(k, name, comments, &sc_cuda_default_limits, out, helpers, code);
}
