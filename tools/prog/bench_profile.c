/* bench --profile: what every instruction of rank 0 of this process took, summed over the same work in different places. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/drive/json.h"
#include "runtime/session.h"
#include "support/gemm_blocks.h"
#include "tools/prog/bench.h"

enum { MOST_ROWS = 10 /* as text; JSON has all */ };

/* Over all timed steps. */
struct sc_bench_spent {
    sc_work work;
    double seconds;
    uint64_t calls;
};

static void note(void *user, const sc_trace_event *event)
{
    sc_bench *b = user;
    if (event->rank != b->first_rank || b->prog->session->gemms_only)
        return;
    sc_bench_spent *s = &b->spent[event->func][event->instr];
    s->work = event->work;
    s->seconds += event->end - event->begin;
    s->calls++;
}

void sc_bench_begin_profile(sc_bench *b)
{
    const sc_image *image = b->prog->program->image;
    sc_arena *arena = &b->prog->context->arena;
    sc_session_local_ranks(b->prog->session, &b->first_rank);
    b->spent = sc_arena_array(arena, image->func_count + 1u, sizeof *b->spent);
    for (uint32_t f = 0; f < image->func_count; f++)
        b->spent[f] = sc_arena_array(arena, image->funcs[f].instr_count + 1u, sizeof **b->spent);
    sc_session_set_trace(b->prog->session, note, b);
}

/* Instructions that do the same work in different places. */
typedef struct profile_row {
    const char *what, *unit;
    double seconds, amount; /* amount: of one call, in 1e9 of the unit */
    uint64_t calls;
} profile_row;

typedef SC_VEC(profile_row) profile_rows;

static double kernel_bytes(const sc_image_kernel *kernel)
{
    double bytes = 0;
    for (uint32_t i = 0; i < kernel->arg_count; i++)
        bytes += (double)kernel->args[i].bytes * (kernel->args[i].access == SC_ACCESS_INOUT ? 2 : 1);
    return bytes;
}

/* Products of a few rows are as fast as what they read comes. */
static bool is_skinny(const sc_gemm *gemm)
{
    bool swapped;
    sc_gemm canonical = sc_gemm_canonical(gemm, &swapped);
    return sc_gemm_size(&canonical, SC_GEMM_M) <= SC_GEMM_SKINNY;
}

static double gemm_bytes(const sc_gemm *gemm)
{
    double bytes = 0;
    for (int o = 0; o < SC_GEMM_OPERANDS; o++)
        bytes += (double)sc_gemm_extent(gemm, (sc_gemm_operand)o) * sc_dtypes[gemm->dtypes[o]].bytes;
    return bytes;
}

static profile_row describe(sc_bench *b, const sc_image_func *func, const sc_image_instr *instr)
{
    const sc_image *image = b->prog->program->image;
    sc_strbuf text;
    switch (instr->kind) {
    case SC_INSTR_KERNEL:
        return (profile_row){image->kernels[instr->index].title, "GB/s", 0, 1e-9 * kernel_bytes(&image->kernels[instr->index]), 0};
    case SC_INSTR_GEMM:
        sc_strbuf_init(&text, &b->prog->context->arena);
        sc_gemm_print(&image->gemms[instr->index], &text);
        if (is_skinny(&image->gemms[instr->index]))
            return (profile_row){text.data, "GB/s", 0, 1e-9 * gemm_bytes(&image->gemms[instr->index]), 0};
        return (profile_row){text.data, "GFLOP/s", 0, 1e-9 * sc_gemm_flops(&image->gemms[instr->index]), 0};
    case SC_INSTR_COLLECTIVE:
        return (profile_row){sc_image_collective_names[image->collectives[instr->index].kind], NULL, 0, 0, 0};
    case SC_INSTR_FINISH:
        return (profile_row){sc_arena_printf(&b->prog->context->arena, "wait for %s", describe(b, func, &func->instrs[instr->index]).what),
                             NULL, 0, 0, 0};
    default:
        return (profile_row){"copy", NULL, 0, 0, 0};
    }
}

static int slower_first(const void *a, const void *b)
{
    double left = ((const profile_row *)a)->seconds, right = ((const profile_row *)b)->seconds;
    return (left < right) - (left > right);
}

static profile_rows add_up(sc_bench *b, double works[SC_WORK_KINDS])
{
    const sc_image *image = b->prog->program->image;
    profile_rows rows = {0};
    for (uint32_t f = 0; f < image->func_count; f++) {
        for (uint32_t i = 0; i < image->funcs[f].instr_count; i++) {
            const sc_bench_spent *s = &b->spent[f][i];
            if (s->calls == 0)
                continue;
            profile_row row = describe(b, &image->funcs[f], &image->funcs[f].instrs[i]);
            uint32_t at = 0;
            while (at < rows.count && (strcmp(rows.data[at].what, row.what) != 0 || fabs(rows.data[at].amount - row.amount) > 0))
                at++;
            if (at == rows.count)
                *sc_vec_push(&b->prog->context->arena, &rows) = row;
            rows.data[at].seconds += s->seconds;
            rows.data[at].calls += s->calls;
            works[s->work] += s->seconds;
        }
    }
    if (rows.count > 0)
        qsort(rows.data, rows.count, sizeof *rows.data, slower_first);
    return rows;
}

static const char *const work_names[SC_WORK_KINDS] = {
    [SC_WORK_KERNEL] = "kernel", [SC_WORK_ATTENTION] = "attention", [SC_WORK_GEMM] = "gemm",
    [SC_WORK_COMM] = "comm",     [SC_WORK_WAIT] = "wait",           [SC_WORK_COPY] = "copy"};

void sc_bench_print_profile(sc_bench *b, sc_strbuf *out)
{
    double works[SC_WORK_KINDS] = {0}, total = 0;
    profile_rows rows = add_up(b, works);
    for (int k = 0; k < SC_WORK_KINDS; k++)
        total += works[k];
    total = total > 0 ? total : 1;
    sc_strbuf_add(out, "time of the first rank here:");
    for (int k = 0; k < SC_WORK_KINDS; k++)
        sc_strbuf_printf(out, "%s %s %.1f%%", k > 0 ? "," : "", work_names[k], 100 * works[k] / total);
    sc_strbuf_add(out, "\n");
    for (uint32_t i = 0; i < rows.count && i < MOST_ROWS; i++) {
        const profile_row *row = &rows.data[i];
        sc_strbuf_printf(out, "%5.1f%% %9.3f ms %6llu calls ", 100 * row->seconds / total, 1e3 * row->seconds / (double)row->calls,
                         (unsigned long long)row->calls);
        if (row->unit != NULL && row->seconds > 0)
            sc_strbuf_printf(out, "%8.4g %-7s ", row->amount * (double)row->calls / row->seconds, row->unit);
        sc_strbuf_printf(out, "%s\n", row->what);
    }
}

json_t *sc_bench_profile_json(sc_bench *b)
{
    double works[SC_WORK_KINDS] = {0};
    profile_rows rows = add_up(b, works);
    json_t *object = json_object(), *kinds = json_object(), *list = json_array();
    for (int k = 0; k < SC_WORK_KINDS; k++)
        json_object_set_new(kinds, work_names[k], sc_number_json(works[k]));
    for (uint32_t i = 0; i < rows.count; i++) {
        const profile_row *row = &rows.data[i];
        json_t *item = json_pack("{s:s, s:I, s:f}", "what", row->what, "calls", (json_int_t)row->calls, "total", row->seconds);
        if (row->unit != NULL && row->seconds > 0)
            json_object_set_new(item, row->unit, sc_number_json(row->amount * (double)row->calls / row->seconds));
        json_array_append_new(list, item);
    }
    json_object_set_new(object, "kinds", kinds);
    json_object_set_new(object, "slowest", list);
    return object;
}
