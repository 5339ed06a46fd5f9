/* Running sums of integers, whose bits no order of additions changes, by all threads of a team: it
 * takes as many neighbouring points of the phase at a time as it has threads, and what they add up
 * to is carried to the next. r3 is the running value of item 3, t3 the sum of the points before.
 *
 *     for (int first = 0; first < 5000; first += 1024) {
 *         const bool live = first + thread < 5000;
 *         const int point = live ? first + thread : 4999;
 *         ..
 *         r3 = sc_running_sum<1024>(live ? (int64_t)(v7) : 0, t3, slot);
 *         slot = 256 - slot;
 *         if (!live)
 *             break;
 *         ..
 *     }
 *
 * Threads without a point repeat the last one up to the sum, which all of the team call; nothing of
 * the phase is written before. Additions to memory are atomic: which threads add to an element is
 * not known, and their order is again of no account. */
#include "codegen/cuda/internal.h"

static bool is_whole(sc_dtype dtype)
{
    return dtype == SC_DTYPE_i32 || dtype == SC_DTYPE_i64;
}

/* The number of the phase's items up to its last running one. */
static uint32_t running_items(const sc_cuda_printer *c, uint32_t phase_index)
{
    const sc_kernel_phase *phase = &c->e.k->phases.data[phase_index];
    uint32_t count = 0;
    for (uint32_t i = 0; i < phase->item_count; i++)
        count = c->e.items[phase->first_item + i].running ? i + 1 : count;
    return count;
}

/* True if the team can execute the phase: it has nothing before its running sums, which are of
 * integers, no check behind them, and adds integers to memory, or nothing. */
static bool may_scan(const sc_cuda_printer *c, uint32_t phase_index)
{
    const sc_kernel *k = c->e.k;
    const sc_kernel_phase *phase = &k->phases.data[phase_index];
    uint32_t running = running_items(c, phase_index);
    for (uint32_t i = 0; i < phase->item_count; i++) {
        const uint32_t number = phase->first_item + i;
        const sc_kernel_item *item = &k->items.data[number];
        bool sums = c->e.items[number].running && item->kind == SC_ITEM_SUM &&
                    is_whole(sc_printer_dtype_of(&c->e, number));
        if (i < running ? !sums : running > 0 && item->kind == SC_ITEM_CHECK)
            return false;
        if (item->kind == SC_ITEM_ADD && !is_whole(k->args.data[item->arg].dtype))
            return false;
    }
    return true;
}

bool sc_cuda_plan_scan(sc_cuda_printer *c, int64_t columns)
{
    const sc_kernel *k = c->e.k;
    int64_t longest = 0;
    for (uint32_t p = 0; p < k->phases.count; p++) {
        int64_t points = 1;
        for (uint32_t d = 0; d < k->phases.data[p].dim_count; d++)
            points *= sc_printer_size_of(&c->e, k->phases.data[p].dims[d]);
        bool runs = running_items(c, p) > 0;
        if (!may_scan(c, p))
            return false;
        longest = runs && points > longest ? points : longest;
    }
    if (longest / c->limits->row <= columns)
        return false;
    c->scans = true;
    return true;
}

bool sc_cuda_scans(const sc_cuda_printer *c, uint32_t phase_index)
{
    return c->scans && c->e.k->phases.data[phase_index].dim_count > 0 &&
           running_items(c, phase_index) > 0;
}

/* True if some thread has no point the last time. */
static bool is_cut(const sc_cuda_printer *c, uint32_t phase_index)
{
    return c->phases[phase_index].points % c->stage.form.team_threads != 0;
}

void sc_cuda_open_scan(sc_cuda_printer *c, uint32_t phase_index)
{
    sc_kernel_printer *e = &c->e;
    const char *type = sc_cuda_index_type(c);
    const long long points = c->phases[phase_index].points;
    sc_write_line(e->out, "int slot = %d;", sc_cuda_next_slot(c));
    sc_write_open(e->out, "for (%s first = 0; first < %lld; first += %d)", type, points,
                  c->stage.form.team_threads);
    if (is_cut(c, phase_index)) {
        sc_write_line(e->out, "const bool live = first + thread < %lld;", points);
        sc_write_line(e->out, "const %s point = live ? first + thread : %lld;", type, points - 1);
    } else {
        sc_write_line(e->out, "const %s point = first + thread;", type);
    }
    sc_cuda_point_indices(c, phase_index);
}

static void running_sum(sc_cuda_printer *c, uint32_t item)
{
    sc_kernel_printer *e = &c->e;
    const uint32_t phase_index = e->items[item].phase;
    const char *type = sc_printer_type(sc_printer_dtype_of(e, item));
    bool cut = is_cut(c, phase_index);
    sc_write_indent(e->out);
    sc_strbuf_printf(e->out->text, "r%u = sc_running_sum<%d>(%s(%s)(", item,
                     c->stage.form.team_threads, cut ? "live ? " : "", type);
    sc_printer_value(e, e->k->items.data[item].value, true);
    sc_strbuf_printf(e->out->text, ")%s, t%u, slot);\n", cut ? " : 0" : "", item);
    if (c->slot_bytes > 0)
        sc_write_line(e->out, "slot = %d - slot;", c->slot_bytes);
    const uint32_t end = e->k->phases.data[phase_index].first_item + running_items(c, phase_index);
    if (cut && item + 1 == end) {
        sc_write_line(e->out, "if (!live)");
        sc_write_line(e->out, "    break;");
    }
}

static void add_atomically(sc_cuda_printer *c, uint32_t id)
{
    sc_kernel_printer *e = &c->e;
    const sc_kernel_item *item = &e->k->items.data[id];
    sc_write_indent(e->out);
    if (item->guard != SC_NONE) {
        sc_strbuf_add(e->out->text, "if (");
        sc_printer_value(e, item->guard, true);
        sc_strbuf_add(e->out->text, ")\n");
        sc_write_indent(e->out);
        sc_strbuf_add(e->out->text, "    ");
    }
    sc_strbuf_add(e->out->text, "sc_add_atomically(&");
    e->target->stored(e, &e->items[id].access, e->items[id].depth, id);
    sc_strbuf_printf(e->out->text, ", (%s)(", sc_printer_stored(e->k->args.data[item->arg].dtype));
    sc_printer_value(e, item->value, true);
    sc_strbuf_add(e->out->text, "));\n");
}

bool sc_cuda_scan_item(sc_kernel_printer *e, uint32_t item)
{
    sc_cuda_printer *c = (sc_cuda_printer *)e;
    bool adds = c->scans && e->k->items.data[item].kind == SC_ITEM_ADD;
    bool sums = e->items[item].running && sc_cuda_scans(c, e->items[item].phase);
    if (adds)
        add_atomically(c, item);
    else if (sums)
        running_sum(c, item);
    return adds || sums;
}
