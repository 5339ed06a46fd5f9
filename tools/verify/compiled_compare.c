#include <math.h>
#include <string.h>

#include "passes/comm_report.h"
#include "program/collective.h"
#include "support/float16.h"
#include "tools/verify/compiled_internal.h"

/* Constants of the rule in compiled.h: the factors of its terms, and the share of a tensor beyond
 * which it is undecided. */
static const double stability = 8, flipped = 2, cancelled = 4, undecided_share = 0.1;

/* ---- values ---- */

static double norm_of(const sc_array *array)
{
    double sum = 0;
    if (array->data != NULL) {
        for (int64_t i = 0; i < array->count; i++)
            sum += isfinite(array->data[i]) ? array->data[i] * array->data[i] : 0;
    }
    return sqrt(sum);
}

/* Computes the root mean square of the largest tensor of each kind of state, and last of
 * outputs. */
static void find_scales(const sc_compiled_check *c, double scales[SC_STATE_KINDS + 1])
{
    memset(scales, 0, (SC_STATE_KINDS + 1) * sizeof *scales);
    for (uint32_t p = 0; p < c->places.count; p++) {
        const sc_compiled_place *at = &c->places.data[p];
        const sc_array *values = &c->expected.values[p];
        double *scale =
            &scales[at->state == SC_NONE ? SC_STATE_KINDS : c->global->state.data[at->state].kind];
        if (values->data != NULL && values->count > 0)
            *scale = fmax(*scale, norm_of(values) / sqrt((double)values->count));
    }
}

static double tolerance_of(double unit)
{
    return unit >= 0x1p-11 ? 2e-2 : unit >= 0x1p-24 ? 1e-5 : unit > 0 ? 1e-9 : 0;
}

typedef struct comparison {
    /* norm of the expected value; of the difference; distance to the perturbed runs */
    double norm, error, spread;
    double flips;     /* distance to the further runs, with open decisions taken differently */
    int64_t worst;    /* index of the element, -1: none differs */
    bool is_hopeless; /* that element is non-finite on one side only */
} comparison;

/* True for elements that overflow in perturbed runs: they are out of the dtype's range and not
 * informative. */
static bool is_beyond(const sc_compiled_check *c, uint32_t p, int64_t i)
{
    bool is_finite = isfinite(c->expected.values[p].data[i]);
    for (uint32_t n = 0; n < SC_NEARBY; n++) {
        if ((bool)isfinite(c->near[n].values[p].data[i]) != is_finite)
            return true;
    }
    return false;
}

/* True if a place's value depends on what the micro-batches left, whatever the update itself
 * does. */
static bool is_of_step(const sc_compiled_check *c, const sc_compiled_place *at)
{
    return c->limit == SC_LIMIT_NONE && c->has_step && at->func == c->last && at->bounds.unit > 0;
}

static bool hangs_on_decision(const sc_compiled_check *c, const sc_compiled_place *at)
{
    return at->bounds.decided || (is_of_step(c, at) && c->decided);
}

static comparison compare(const sc_compiled_check *c, uint32_t p)
{
    const double *expected = c->expected.values[p].data, *found = c->found.values[p].data;
    comparison result = {.worst = -1};
    uint32_t nears = hangs_on_decision(c, &c->places.data[p]) ? c->nears : SC_NEARBY;
    double norm = 0, error = 0, largest = 0, spread[SC_NEARBY_MOST] = {0};
    for (int64_t i = 0; i < c->found.values[p].count && !result.is_hopeless; i++) {
        if (is_beyond(c, p, i) || (isnan(expected[i]) && isnan(found[i])))
            continue;
        double distance = expected[i] == found[i] ? 0 : fabs(expected[i] - found[i]);
        result.is_hopeless = !isfinite(distance);
        if (result.is_hopeless || distance > largest)
            result.worst = i;
        largest = fmax(largest, distance);
        norm += isfinite(expected[i]) ? expected[i] * expected[i] : 0;
        error += distance * distance;
        for (uint32_t n = 0; n < nears; n++) {
            double away = expected[i] - c->near[n].values[p].data[i];
            spread[n] += isfinite(away) ? away * away : 0;
        }
    }
    result.norm = sqrt(norm);
    result.error = sqrt(error);
    for (uint32_t n = 0; n < nears; n++)
        *(n < SC_NEARBY ? &result.spread : &result.flips) =
            fmax(n < SC_NEARBY ? result.spread : result.flips, sqrt(spread[n]));
    return result;
}

static void count(sc_compiled_check *c, const sc_compiled_place *at, const comparison *one,
                  double allowed)
{
    sc_compiled_result *result = c->result;
    double relative = one->error == 0 ? 0 : one->norm > 0 ? one->error / one->norm : 0;
    double spread = fmax(one->spread, one->flips);
    bool is_decided = spread <= undecided_share * one->norm || spread == 0;
    result->undecided += !is_decided;
    result->states += c->limit == SC_LIMIT_NONE && at->state != SC_NONE;
    result->outputs += c->limit == SC_LIMIT_NONE && at->state == SC_NONE;
    result->limits += c->limit != SC_LIMIT_NONE;
    result->max_error = fmax(result->max_error, allowed > 0 ? one->error / allowed : 0);
    if (is_decided && relative > result->max_relative_error) {
        result->max_relative_error = relative;
        result->worst = at->what.path;
    }
}

static sc_type type_here(const sc_compiled_check *c, const sc_compiled_place *at, bool local)
{
    const sc_module *m = local ? c->local : c->global;
    if (at->state == SC_NONE)
        return m->values
            .data[sc_returned(m, local ? c->local_last : c->last)->operands[at->what.output]]
            .type;
    return m->state.data[sc_module_find_state(m, at->what.path)].type;
}

/* Checks that both programs return the same number of values. */
static bool same_outputs(sc_compiled_check *c)
{
    uint32_t global = sc_output_count(c->global, c->last),
             local = sc_output_count(c->local, c->local_last);
    if (global != local)
        sc_differ_because(&c->differences,
                          "the per-rank program returns %u values, the global one %u", local,
                          global);
    return global == local;
}

/* Also returns the allowed difference. */
static comparison compare_within(const sc_compiled_check *c, uint32_t p, const double *scales,
                                 double *allowed)
{
    const sc_compiled_place *at = &c->places.data[p];
    double unit = is_of_step(c, at) ? c->unit : at->bounds.unit;
    double count = (double)c->found.values[p].count;
    double scale =
        scales[at->state == SC_NONE ? SC_STATE_KINDS : c->global->state.data[at->state].kind] *
        sqrt(count);
    comparison one = compare(c, p);
    *allowed = unit == 0 ? 0
                         : tolerance_of(unit) * one.norm + stability * one.spread +
                               flipped * one.flips + cancelled * unit * scale;
    return one;
}

static bool is_within(const comparison *one, double allowed)
{
    return !one->is_hopeless && one->error <= allowed;
}

static bool is_comparable(const sc_compiled_check *c, uint32_t p)
{
    const sc_array *expected = &c->expected.values[p], *found = &c->found.values[p];
    return expected->data != NULL && found->data != NULL && expected->count == found->count;
}

bool sc_compiled_is_open(const sc_compiled_check *c)
{
    double scales[SC_STATE_KINDS + 1], allowed;
    find_scales(c, scales);
    for (uint32_t p = 0; p < c->places.count; p++) {
        const sc_compiled_place *at = &c->places.data[p];
        if (!is_comparable(c, p) || !hangs_on_decision(c, at))
            continue;
        comparison one = compare_within(c, p, scales, &allowed);
        if (!is_within(&one, allowed))
            return true;
    }
    return false;
}

static void compare_place(sc_compiled_check *c, uint32_t p, const double *scales)
{
    const sc_compiled_place *at = &c->places.data[p];
    const sc_array *expected = &c->expected.values[p], *found = &c->found.values[p];
    if (expected->data == NULL) /* not run at this limit */
        return;
    if (found->data == NULL) {
        sc_differ_whole(&c->differences, &at->what, "the per-rank program lacks it");
        return;
    }
    sc_type global = type_here(c, at, false), local = type_here(c, at, true);
    if (!sc_same_dims(c->global, global, c->local, local) ||
        c->global->types.data[global].dtype != c->local->types.data[local].dtype) {
        sc_differ_whole(&c->differences, &at->what, "it has a different shape or dtype");
        return;
    }
    double allowed;
    comparison one = compare_within(c, p, scales, &allowed);
    if (!is_within(&one, allowed))
        sc_differ_at(&c->differences, &at->what, expected, found, one.worst);
    else
        count(c, at, &one, allowed);
}

bool sc_compiled_compare_values(sc_compiled_check *c)
{
    double scales[SC_STATE_KINDS + 1];
    find_scales(c, scales);
    if (!same_outputs(c))
        return false;
    for (uint32_t p = 0; p < c->places.count; p++) {
        if (!c->result->equal)
            break;
        compare_place(c, p, scales);
    }
    return true;
}

static bool same_bits(double a, double b)
{
    return (isnan(a) && isnan(b)) || sc_bits_of_f64(a) == sc_bits_of_f64(b);
}

void sc_compiled_compare_bits(sc_compiled_check *c)
{
    for (uint32_t p = 0; p < c->places.count; p++) {
        const sc_array *a = &c->found.values[p], *b = &c->again.values[p];
        if (a->data != NULL && b->data != NULL) {
            for (int64_t i = 0; i < a->count; i++) {
                if (!same_bits(a->data[i], b->data[i])) {
                    sc_differ_at(&c->differences, &c->places.data[p].what, a, b, i);
                    return;
                }
            }
        }
    }
}

/* ---- collectives ---- */

enum { KINDS = SC_IMAGE_COLLECTIVES };

typedef struct traffic {
    uint64_t calls[KINDS];
    double sent[KINDS]; /* at most */
    bool varies[KINDS]; /* with the rows that there are */
} traffic;

static traffic traffic_of(const sc_compiled_check *c, const sc_comm_rows *rows, sc_func_id func)
{
    traffic sum = {0};
    for (uint32_t r = 0; r < rows->count; r++) {
        const sc_comm_row *row = &rows->data[r];
        if (sc_op_at(c->local, row->op)->func != func)
            continue;
        for (int k = 0; k < KINDS; k++) {
            bool is_kind = strcmp(sc_collectives[k].name, row->name) == 0;
            sum.calls[k] += is_kind ? row->count : 0;
            sum.sent[k] += is_kind ? row->most * row->count : 0;
            sum.varies[k] = sum.varies[k] || (is_kind && row->most > row->sent);
        }
    }
    return sum;
}

/* What a rank sends is a multiple of 1/n bytes, n the size of a group: 4 bytes reduced by three
 * ranks are 16/3. Sums of such numbers are rounded, so numbers closer than a quarter of the
 * smallest part are equal. */
static double slack_of(const sc_compiled_check *c, double bytes)
{
    return fmax(0.25 / (double)c->result->ranks, 1e-12 * bytes);
}

/* Compares bytes sent with the report, which has the maximum over ranks: the ranks at the end of a
 * line have no target for a permutation, and rows that are not there are not sent. */
static bool is_as_told(const sc_compiled_check *c, int kind, double sent, const traffic *told)
{
    bool may_be_less = kind == SC_IMAGE_PERMUTE || told->varies[kind];
    double most = told->sent[kind];
    return sent <= most + slack_of(c, most) && (may_be_less || sent >= most - slack_of(c, most));
}

void sc_compiled_compare_joined_traffic(sc_compiled_check *c)
{
    const sc_call *last = &c->local->schedule.data[c->local->schedule.count - 1];
    sc_func_id funcs[] = {sc_runner_last(c->code), last[-1].func, last[0].func};
    c->differences.run = "collectives";
    for (uint32_t rank = 0; rank < c->result->ranks; rank++) {
        shardc_func_profile of[3];
        for (int i = 0; i < 3; i++)
            shardc_session_profile(sc_runner_session(c->code), funcs[i], rank, &of[i]);
        for (int k = 0; k < KINDS; k++) {
            uint64_t calls =
                of[1].collectives[k] / of[1].calls + of[2].collectives[k] / of[2].calls;
            double sent = of[1].sent[k] / (double)of[1].calls + of[2].sent[k] / (double)of[2].calls;
            if (of[0].collectives[k] != calls || fabs(of[0].sent[k] - sent) > slack_of(c, sent))
                sc_differ_because(&c->differences,
                                  "'%s' of rank %u calls %s %llu times and sends %.15g bytes, its "
                                  "halves %llu times, %.15g bytes",
                                  shardc_executable_func(sc_runner_program(c->code), funcs[0]),
                                  rank, sc_collectives[k].name,
                                  (unsigned long long)of[0].collectives[k], of[0].sent[k],
                                  (unsigned long long)calls, sent);
        }
    }
}

void sc_compiled_compare_traffic(sc_compiled_check *c)
{
    sc_comm_rows rows = {0};
    sc_comm_report(c->local, &rows);
    c->differences.run = "collectives";
    for (sc_func_id func = 0; func < c->local->funcs.count; func++) {
        traffic told = traffic_of(c, &rows, func);
        double most = 0;
        for (uint32_t rank = 0; rank < c->result->ranks; rank++) {
            shardc_func_profile profile;
            double sent = 0;
            shardc_session_profile(sc_runner_session(c->code), func, rank, &profile);
            for (int k = 0; k < KINDS; k++) {
                if (profile.collectives[k] != told.calls[k] ||
                    !is_as_told(c, k, profile.sent[k], &told))
                    sc_differ_because(&c->differences,
                                      "in '%s' rank %u calls %s %llu times and sends %.15g bytes; "
                                      "`shardc comm` says %llu times, %.15g bytes",
                                      sc_text(c->context, c->local->funcs.data[func].name), rank,
                                      sc_collectives[k].name,
                                      (unsigned long long)profile.collectives[k], profile.sent[k],
                                      (unsigned long long)told.calls[k], told.sent[k]);
                sent += profile.sent[k];
                c->result->collectives += rank == 0 ? profile.collectives[k] : 0;
            }
            most = fmax(most, sent);
        }
        c->result->sent += most;
    }
}

/* ---- programs of stages ---- */

/* What the report says of all functions of a stage. */
static traffic traffic_of_stage(const sc_compiled_check *c, const sc_comm_rows *rows,
                                uint32_t stage)
{
    traffic sum = {0};
    for (sc_func_id func = 0; func < c->local->funcs.count; func++) {
        if (c->local->funcs.data[func].stage != stage)
            continue;
        traffic one = traffic_of(c, rows, func);
        for (int k = 0; k < KINDS; k++) {
            sum.calls[k] += one.calls[k];
            sum.sent[k] += one.sent[k];
            sum.varies[k] = sum.varies[k] || one.varies[k];
        }
    }
    return sum;
}

static traffic traffic_of_rank(const sc_compiled_check *c, uint32_t rank)
{
    traffic sum = {0};
    uint32_t funcs = shardc_executable_func_count(sc_runner_program(c->code));
    for (uint32_t f = 0; f < funcs; f++) {
        shardc_func_profile profile;
        shardc_session_profile(sc_runner_session(c->code), f, rank, &profile);
        for (int k = 0; k < KINDS; k++) {
            sum.calls[k] += (uint32_t)profile.collectives[k];
            sum.sent[k] += profile.sent[k];
        }
    }
    return sum;
}

/* Values that one function sends to another are one message: its calls are not compared. */
void sc_compiled_compare_stage_traffic(sc_compiled_check *c)
{
    sc_comm_rows rows = {0};
    sc_comm_report(c->local, &rows);
    c->differences.run = "collectives";
    uint64_t ranks = sc_mesh_stage_ranks(&c->local->mesh);
    for (uint32_t stage = 0; stage < sc_mesh_stages(&c->local->mesh); stage++) {
        traffic told = traffic_of_stage(c, &rows, stage);
        for (uint64_t r = 0; r < ranks; r++) {
            uint32_t rank = (uint32_t)sc_mesh_world_rank(&c->local->mesh, stage, r);
            traffic found = traffic_of_rank(c, rank);
            double sent = 0;
            for (int k = 0; k < KINDS; k++) {
                bool is_message = k == SC_IMAGE_SEND || k == SC_IMAGE_RECV;
                if ((!is_message && found.calls[k] != told.calls[k]) ||
                    !is_as_told(c, k, found.sent[k], &told))
                    sc_differ_because(&c->differences,
                                      "rank %u of stage %u calls %s %llu times and sends %.15g "
                                      "bytes; `shardc comm` says %llu times, %.15g bytes",
                                      rank, stage, sc_collectives[k].name,
                                      (unsigned long long)found.calls[k], found.sent[k],
                                      (unsigned long long)told.calls[k], told.sent[k]);
                sent += found.sent[k];
                c->result->collectives += stage == 0 && r == 0 ? found.calls[k] : 0;
            }
            c->result->sent = fmax(c->result->sent, sent);
        }
    }
}
