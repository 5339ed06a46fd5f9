/* Reductions passed from stage to stage. Each part of a phase stores its partial result in scratch,
 * c3[part][team][lane] for item 3: f32 sums in f64, integers in 64 bits. A later stage that reads
 * them first combines the parts, redundantly in every team, in an order that depends on sizes
 * alone. */
#include "codegen/cuda/internal.h"

static sc_dtype partial_dtype(const sc_cuda_printer *c, uint32_t item)
{
    return sc_dtype_is_float(sc_printer_dtype_of(&c->e, item)) ? SC_DTYPE_f64 : SC_DTYPE_i64;
}

static bool is_of_vector(const sc_cuda_printer *c, uint32_t item)
{
    uint32_t vector = c->e.shape.vector;
    return vector != SC_NONE &&
           (c->e.nodes[c->e.k->items.data[item].value].dims >> vector & 1) != 0;
}

static const sc_cuda_form *stage_of(const sc_cuda_printer *c, uint32_t phase)
{
    uint32_t stage = 0;
    while (phase >= c->stages[stage].end)
        stage++;
    return &c->stages[stage];
}

/* True if a phase of a later stage reads the item. */
static bool crosses(sc_cuda_printer *c, uint32_t item)
{
    if (!sc_item_reduces(c->e.k->items.data[item].kind))
        return false;
    for (uint32_t p = stage_of(c, c->e.items[item].phase)->end; p < c->e.k->phases.count; p++) {
        if (sc_printer_phase_reads(&c->e, p, item))
            return true;
    }
    return false;
}

void sc_cuda_place_partials(sc_cuda_printer *c)
{
    for (uint32_t i = 0; i < c->e.k->items.count; i++) {
        c->partials[i] = -1;
        if (!crosses(c, i))
            continue;
        c->partials[i] = c->scratch_bytes;
        int64_t bytes = 8 * stage_of(c, c->e.items[i].phase)->parts * c->teams *
                        (is_of_vector(c, i) ? c->lanes : 1);
        c->scratch_bytes += (bytes + SC_IMAGE_ALIGN - 1) / SC_IMAGE_ALIGN * SC_IMAGE_ALIGN;
    }
}

static void declare_pointer(sc_cuda_printer *c, uint32_t item, const char *constant)
{
    const char *type = sc_printer_type(partial_dtype(c, item));
    sc_write_line(c->e.out, "%s%s *const c%u = (%s%s *)(sc_scratch + %lld);", constant, type, item,
                  constant, type, (long long)c->partials[item]);
}

static const char *place(sc_cuda_printer *c, uint32_t item, const char *cut)
{
    sc_arena *arena = c->e.arena;
    const char *at = c->stage.order_count == 0 ? "0" : "at";
    const char *team =
        cut == NULL ? at
                    : sc_arena_printf(arena, "%s * %lld + %s", cut, (long long)c->stage.teams, at);
    if (!is_of_vector(c, item))
        return team;
    return sc_arena_printf(arena, cut == NULL ? "%s * %d + lane" : "(%s) * %d + lane", team,
                           c->lanes);
}

/* Opens a loop over lanes if the reduction has a value per lane; the body is the next statement. */
static void over_lanes(sc_cuda_printer *c, uint32_t item)
{
    if (!is_of_vector(c, item))
        return;
    sc_write_line(c->e.out, "#pragma unroll");
    sc_write_line(c->e.out, "for (int lane = 0; lane < %d; lane++)", c->lanes);
}

static void read_partial(sc_cuda_printer *c, uint32_t item)
{
    sc_kernel_printer *e = &c->e;
    sc_item_kind kind = e->k->items.data[item].kind;
    sc_dtype dtype = partial_dtype(c, item);
    const char *type = sc_printer_type(dtype), *nothing = sc_printer_identity(kind, dtype),
               *index = is_of_vector(c, item) ? "[lane]" : "";
    const char *indent = is_of_vector(c, item) ? "    " : "";
    long long parts = stage_of(c, e->items[item].phase)->parts;
    e->items[item].of_vector = is_of_vector(c, item);
    declare_pointer(c, item, "const ");
    if (is_of_vector(c, item)) {
        sc_write_line(e->out, "%s s%u[%d];", type, item, c->lanes);
        over_lanes(c, item);
        sc_write_line(e->out, "    s%u[lane] = %s;", item, nothing);
    } else {
        sc_write_line(e->out, "%s s%u = %s;", type, item, nothing);
    }
    sc_write_open(e->out, "for (int cut = thread; cut < %lld; cut += %d)", parts,
                  c->stage.form.team_threads);
    over_lanes(c, item);
    sc_write_line(e->out, "%ss%u%s = %s::of(s%u%s, c%u[%s]);", indent, item, index,
                  sc_cuda_reducer(kind), item, index, item, place(c, item, "cut"));
    sc_write_close(e->out);
    sc_cuda_exchange(c, item, 's');
    const char *own = sc_printer_type(sc_printer_dtype_of(&c->e, item));
    if (is_of_vector(c, item)) {
        sc_write_line(e->out, "%s r%u[%d];", own, item, c->lanes);
        over_lanes(c, item);
        sc_write_line(e->out, "    r%u[lane] = (%s)s%u[lane];", item, own, item);
    } else {
        sc_write_line(e->out, "const %s r%u = (%s)s%u;", own, item, own, item);
    }
}

void sc_cuda_read_partials(sc_cuda_printer *c)
{
    for (uint32_t i = 0; i < c->e.k->items.count; i++) {
        bool wanted = false;
        for (uint32_t p = c->stage.form.first; p < c->stage.form.end; p++)
            wanted |= c->partials[i] >= 0 && c->e.items[i].phase < c->stage.form.first &&
                      sc_printer_phase_reads(&c->e, p, i);
        if (wanted)
            read_partial(c, i);
    }
}

/* All threads of the team have the value; one stores it. */
void sc_cuda_write_partials(sc_cuda_printer *c)
{
    sc_kernel_printer *e = &c->e;
    for (uint32_t i = 0; i < e->k->items.count; i++) {
        if (c->partials[i] < 0 || e->items[i].phase < c->stage.form.first ||
            e->items[i].phase >= c->stage.form.end)
            continue;
        declare_pointer(c, i, "");
        sc_write_open(e->out, c->stage.form.live ? "if (thread == 0 && live)" : "if (thread == 0)");
        over_lanes(c, i);
        sc_write_line(e->out, "%sc%u[%s] = (%s)r%u%s;", is_of_vector(c, i) ? "    " : "", i,
                      place(c, i, c->stage.form.parts > 1 ? "cut" : NULL),
                      sc_printer_type(partial_dtype(c, i)), i, is_of_vector(c, i) ? "[lane]" : "");
        sc_write_close(e->out);
    }
}
