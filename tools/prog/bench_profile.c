/* bench --profile: the time of every instruction of rank 0 of this process, summed over
 * instructions that do the same work in different places. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "program/gemm_blocks.h"
#include "program/lookup.h"
#include "runtime/drive/json.h"
#include "runtime/session/session.h"
#include "tools/prog/bench.h"

enum { MOST_ROWS = 10 /* in text output; JSON has all rows */ };

/* Over all timed steps. */
struct sc_bench_spent {
    shardc_work work;
    double seconds, least; /* least: minimum of one call */
    uint64_t calls;
};

static void note(void *user, const shardc_trace_event *event)
{
    sc_bench *b = user;
    if (event->rank != b->first_rank || b->prog->session->gemms_only)
        return;
    uint32_t stage = sc_image_stage_of(b->image, b->first_rank),
             func = b->prog->program->all.funcs[event->func][stage];
    sc_bench_spent *s = &b->spent[func][event->instr];
    double seconds = event->end - event->begin;
    s->work = event->work;
    s->seconds += seconds;
    s->least = s->calls == 0 || seconds < s->least ? seconds : s->least;
    s->calls++;
}

void sc_bench_begin_profile(sc_bench *b)
{
    sc_arena *arena = &b->prog->context->arena;
    shardc_session_local_ranks(b->prog->session, &b->first_rank);
    const sc_image *image = b->image = sc_session_image_of(b->prog->session, b->first_rank);
    b->spent = sc_arena_array(arena, image->func_count + 1u, sizeof *b->spent);
    for (uint32_t f = 0; f < image->func_count; f++)
        b->spent[f] = sc_arena_array(arena, image->funcs[f].instr_count + 1u, sizeof **b->spent);
    shardc_session_set_trace(b->prog->session, note, b);
}

/* Instructions that do the same work in different places. */
typedef struct profile_row {
    const char *what;
    shardc_work work;
    bool is_bound_by_bytes; /* limited by memory rather than FLOPs */
    double seconds, least;  /* least: minimum of one call */
    double bytes, flops;    /* of one call: bytes to move and FLOPs; 0: unknown */
    uint64_t calls;
} profile_row;

typedef SC_VEC(profile_row) profile_rows;

static double kernel_bytes(const sc_image_kernel *kernel)
{
    double bytes = 0;
    for (uint32_t i = 0; i < kernel->arg_count; i++)
        bytes += (double)kernel->args[i].moved;
    return bytes;
}

/* True for GEMMs with few rows, which are memory-bound. */
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
        bytes +=
            (double)sc_gemm_extent(gemm, (sc_gemm_operand)o) * sc_dtypes[gemm->dtypes[o]].bytes;
    return bytes;
}

/* Returns the larger of the bytes a rank sends and receives. */
static double collective_bytes(const sc_image *image, const sc_image_collective *collective)
{
    double bytes = 0;
    for (uint32_t p = 0; p < collective->part_count; p++) {
        int64_t gives = sc_image_source_count(image, collective, p),
                gets = sc_image_destination_count(image, collective, p);
        bytes += (double)(gives > gets ? gives : gets) * sc_dtypes[collective->dtypes[p]].bytes;
    }
    return bytes;
}

static profile_row describe_message(sc_bench *b, const sc_image_message *message)
{
    const sc_image_boundary *boundary = &b->image->boundaries[message->boundary];
    profile_row row = {.is_bound_by_bytes = true};
    row.what = sc_arena_printf(&b->prog->context->arena, "%s stage %u",
                               boundary->is_receive ? "recv from" : "send to", boundary->peer);
    for (uint32_t p = 0; p < message->part_count; p++)
        row.bytes += (double)message->counts[p] * sc_dtypes[message->dtypes[p]].bytes;
    return row;
}

static profile_row describe_wait(sc_bench *b, const sc_image_instr *instr)
{
    const sc_image_boundary *boundary = &b->image->boundaries[instr->index];
    return (profile_row){.what = sc_arena_printf(&b->prog->context->arena, "wait for %s stage %u",
                                                 boundary->is_receive ? "recv from" : "send to",
                                                 boundary->peer),
                         .is_bound_by_bytes = true};
}

static profile_row describe(sc_bench *b, const sc_image_func *func, const sc_image_instr *instr)
{
    const sc_image *image = b->image;
    profile_row row = {.what = "copy", .is_bound_by_bytes = true};
    const sc_gemm *gemm;
    sc_strbuf text;
    switch (instr->kind) {
    case SC_INSTR_KERNEL:
        row.what = image->kernels[instr->index].title;
        row.bytes = kernel_bytes(&image->kernels[instr->index]);
        return row;
    case SC_INSTR_GEMM:
        gemm = &image->gemms[instr->index];
        sc_strbuf_init(&text, &b->prog->context->arena);
        sc_gemm_print(gemm, &text);
        row.what = text.data;
        row.is_bound_by_bytes = is_skinny(gemm);
        row.bytes = gemm_bytes(gemm);
        row.flops = sc_gemm_flops(gemm);
        return row;
    case SC_INSTR_COLLECTIVE:
        row.what = sc_collectives[image->collectives[instr->index].kind].name;
        row.bytes = collective_bytes(image, &image->collectives[instr->index]);
        return row;
    case SC_INSTR_FINISH:
        row.what = sc_arena_printf(&b->prog->context->arena, "wait for %s",
                                   describe(b, func, &func->instrs[instr->index]).what);
        return row;
    case SC_INSTR_MESSAGE:
        return describe_message(b, &image->messages[instr->index]);
    case SC_INSTR_WAIT:
    case SC_INSTR_ROOM:
        return describe_wait(b, instr);
    default:
        row.bytes = 2.0 * (double)sc_image_copy_bytes(image, &instr->args[0]);
        return row;
    }
}

/* Returns the unit of a row's speed and the speed in 1e9 of it per second; NULL if it has none. */
static const char *speed_of(const profile_row *row, double *out)
{
    bool has_speed = row->seconds > 0 && row->work != SHARDC_WORK_COMM &&
                     row->work != SHARDC_WORK_WAIT && row->work != SHARDC_WORK_COPY;
    double amount = row->is_bound_by_bytes ? row->bytes : row->flops;
    *out = has_speed ? 1e-9 * amount * (double)row->calls / row->seconds : 0;
    return !has_speed ? NULL : row->is_bound_by_bytes ? "GB/s" : "GFLOP/s";
}

static bool same_work(const profile_row *a, const profile_row *b)
{
    return a->work == b->work && strcmp(a->what, b->what) == 0 &&
           !(fabs(a->bytes - b->bytes) > 0) && !(fabs(a->flops - b->flops) > 0);
}

static int slower_first(const void *a, const void *b)
{
    double left = ((const profile_row *)a)->seconds, right = ((const profile_row *)b)->seconds;
    return (left < right) - (left > right);
}

static profile_rows add_up(sc_bench *b, double works[SHARDC_WORK_KINDS])
{
    const sc_image *image = b->image;
    profile_rows rows = {0};
    for (uint32_t f = 0; f < image->func_count; f++) {
        for (uint32_t i = 0; i < image->funcs[f].instr_count; i++) {
            const sc_bench_spent *s = &b->spent[f][i];
            if (s->calls == 0)
                continue;
            profile_row row = describe(b, &image->funcs[f], &image->funcs[f].instrs[i]);
            uint32_t at = 0;
            row.work = s->work;
            row.least = s->least;
            while (at < rows.count && !same_work(&rows.data[at], &row))
                at++;
            if (at == rows.count)
                *sc_vec_push(&b->prog->context->arena, &rows) = row;
            rows.data[at].least = fmin(rows.data[at].least, s->least);
            rows.data[at].seconds += s->seconds;
            rows.data[at].calls += s->calls;
            works[s->work] += s->seconds;
        }
    }
    if (rows.count > 0)
        qsort(rows.data, rows.count, sizeof *rows.data, slower_first);
    return rows;
}

static const char *const work_names[SHARDC_WORK_KINDS] = {
    [SHARDC_WORK_KERNEL] = "kernel", [SHARDC_WORK_ATTENTION] = "attention",
    [SHARDC_WORK_GEMM] = "gemm",     [SHARDC_WORK_COMM] = "comm",
    [SHARDC_WORK_WAIT] = "wait",     [SHARDC_WORK_COPY] = "copy"};

/* True if the work overlaps computation: a GPU moves data on a separate stream. */
static bool is_beside(const sc_bench *b, int work)
{
    return work == SHARDC_WORK_COMM &&
           strcmp(shardc_executable_target(b->prog->program), "cpu") != 0;
}

void sc_bench_print_profile(sc_bench *b, sc_strbuf *out)
{
    double works[SHARDC_WORK_KINDS] = {0}, total = 0, speed;
    profile_rows rows = add_up(b, works);
    for (int k = 0; k < SHARDC_WORK_KINDS; k++)
        total += is_beside(b, k) ? 0 : works[k];
    total = total > 0 ? total : 1;
    sc_strbuf_add(out, "time of the first rank here:");
    for (int k = 0; k < SHARDC_WORK_KINDS; k++)
        sc_strbuf_printf(out, "%s %s %.1f%%%s", k > 0 ? "," : "", work_names[k],
                         100 * works[k] / total,
                         is_beside(b, k) && works[k] > 0 ? " beside the others" : "");
    sc_strbuf_add(out, "\n");
    for (uint32_t i = 0; i < rows.count && i < MOST_ROWS; i++) {
        const profile_row *row = &rows.data[i];
        sc_strbuf_printf(out, "%5.1f%% %9.3f ms %6llu calls ", 100 * row->seconds / total,
                         1e3 * row->seconds / (double)row->calls, (unsigned long long)row->calls);
        const char *unit = speed_of(row, &speed);
        if (unit != NULL)
            sc_strbuf_printf(out, "%8.4g %-7s ", speed, unit);
        sc_strbuf_printf(out, "%s\n", row->what);
    }
}

/* Units: seconds, bytes and FLOPs. `total` is over all calls, the others per call. */
static json_t *row_json(const profile_row *row)
{
    json_t *item =
        json_pack("{s:s, s:s, s:I, s:f, s:f}", "kind", work_names[row->work], "what", row->what,
                  "calls", (json_int_t)row->calls, "total", row->seconds, "least", row->least);
    double speed;
    const char *unit = speed_of(row, &speed);
    if (row->bytes > 0)
        json_object_set_new(item, "bytes", sc_number_json(row->bytes));
    if (row->flops > 0)
        json_object_set_new(item, "flops", sc_number_json(row->flops));
    if (unit != NULL)
        json_object_set_new(item, unit, sc_number_json(speed));
    return item;
}

json_t *sc_bench_profile_json(sc_bench *b)
{
    double works[SHARDC_WORK_KINDS] = {0};
    profile_rows rows = add_up(b, works);
    json_t *object = json_object(), *kinds = json_object(), *slowest = json_array(),
           *all = json_array();
    for (int k = 0; k < SHARDC_WORK_KINDS; k++)
        json_object_set_new(kinds, work_names[k], sc_number_json(works[k]));
    for (uint32_t i = 0; i < rows.count; i++) {
        json_t *item = row_json(&rows.data[i]);
        if (i < MOST_ROWS)
            json_array_append(slowest, item);
        json_array_append_new(all, item);
    }
    json_object_set_new(object, "kinds", kinds);
    json_object_set_new(object, "slowest", slowest);
    json_object_set_new(object, "all", all);
    return object;
}
