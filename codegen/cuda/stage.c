/* Text shared by stages: indices, lanes, and the exchange of reductions between a team's
 * threads. */
#include "codegen/cuda/internal.h"

enum { MANY_PHASES = 32 };

bool sc_cuda_has_many_phases(const sc_cuda_printer *c)
{
    return c->stage.form.end - c->stage.form.first > MANY_PHASES;
}

/* ---- indices ---- */

const char *sc_cuda_index_type(const sc_cuda_printer *c)
{
    return c->wide ? "int64_t" : "int";
}

void sc_cuda_point_indices(sc_cuda_printer *c, uint32_t phase_index)
{
    sc_kernel_printer *e = &c->e;
    const sc_kernel_phase *phase = &e->k->phases.data[phase_index];
    int lanes = e->shape.vector == SC_NONE ? c->phases[phase_index].lanes : 1;
    int64_t slower = 1;
    for (uint32_t i = phase->dim_count; i-- > 0;) {
        uint32_t dim = phase->dims[i];
        int64_t size = e->k->dims.data[dim].size;
        bool in_lanes = lanes > 1 && i + 1 == phase->dim_count;
        size /= in_lanes ? lanes : 1;
        sc_write_indent(e->out);
        sc_strbuf_printf(e->out->text, "const %s %s = point", sc_cuda_index_type(c),
                         in_lanes ? sc_cuda_first_lane(c, dim) : e->dim_names[dim]);
        if (slower > 1)
            sc_strbuf_printf(e->out->text, " / %lld", (long long)slower);
        if (i > 0)
            sc_strbuf_printf(e->out->text, " %% %lld", (long long)size);
        if (in_lanes)
            sc_strbuf_printf(e->out->text, " * %d", lanes);
        sc_strbuf_add(e->out->text, ";\n");
        slower *= size;
    }
}

/* ---- lanes ---- */

uint32_t sc_cuda_lane_dim(const sc_cuda_printer *c, uint32_t phase_index)
{
    const sc_kernel_phase *phase = &c->e.k->phases.data[phase_index];
    if (c->phases[phase_index].lanes == 1)
        return SC_NONE;
    return c->e.shape.vector != SC_NONE ? c->e.shape.vector : phase->dims[phase->dim_count - 1];
}

const char *sc_cuda_first_lane(sc_cuda_printer *c, uint32_t dim)
{
    return sc_arena_printf(c->e.arena, "%s_at", c->e.dim_names[dim]);
}

bool sc_cuda_is_run(const sc_cuda_printer *c, const sc_printer_access *access, uint32_t dim,
                    int lanes)
{
    if (access->constant % lanes != 0 || sc_printer_stride(&c->e, access, dim) != 1)
        return false;
    for (uint32_t i = 0; i < access->count; i++) {
        if (access->terms[i].dim != dim && access->terms[i].times % lanes != 0)
            return false;
    }
    return true;
}

/* ---- reductions ---- */

const char *sc_cuda_reducer(sc_item_kind kind)
{
    return kind == SC_ITEM_SUM ? "sc_sum" : kind == SC_ITEM_MAX ? "sc_max" : "sc_min";
}

int sc_cuda_next_slot(sc_cuda_printer *c)
{
    return c->slot_bytes * (c->stage.exchanges++ % 2);
}

void sc_cuda_exchange(sc_cuda_printer *c, uint32_t item, char letter)
{
    sc_kernel_printer *e = &c->e;
    int slot = sc_cuda_next_slot(c);
    const char *how = sc_cuda_reducer(e->k->items.data[item].kind);
    bool is_bool = letter == 'r' && sc_printer_dtype_of(e, item) == SC_DTYPE_bool;
    if (e->items[item].of_vector && !is_bool) {
        sc_write_line(e->out, "sc_over_warps<%s, %d>(%c%u, %d);", how, c->stage.form.team_threads,
                      letter, item, slot);
        return;
    }
    const char *over = c->stage.form.team != SC_CUDA_ROWS ? "sc_over_warps"
                       : sc_cuda_has_many_phases(c)       ? "sc_over_team_called"
                                                          : "sc_over_team";
    sc_write_line(e->out, "%c%u = %s<%s, %d>(%s%c%u, %d)%s;", letter, item, over, how,
                  c->stage.form.team_threads, is_bool ? "(int32_t)" : "", letter, item, slot,
                  is_bool ? " != 0" : "");
}
