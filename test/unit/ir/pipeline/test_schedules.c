/* The schedules by name: complete, deadlock-free, as long and as full as their papers' formulas
 * say; their files; and that every damaged schedule is refused. */
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <math.h>
#include <string.h>

#include "ir/pipeline/schedule.h"
#include "test/unit/helpers/in_context.h"

#define TOLERANCE 1e-9

typedef struct shape {
    sc_schedule_kind kind;
    uint32_t p, v, m;
} shape;

static sc_pipeline_schedule *make(sc_context *context, shape s)
{
    return sc_schedule_generate(&context->arena, s.kind, s.p, s.v, s.m);
}

static bool is_proved(sc_context *context, const sc_pipeline_schedule *schedule)
{
    sc_schedule_fault fault;
    return sc_schedule_prove(&context->arena, schedule, &fault);
}

/* ---- formulas ---- */
static double least(double a, double b)
{
    return a < b ? a : b;
}

/* The makespan with unit costs, of which 3m is work; negative: no formula is known. */
static double makespan(shape s)
{
    double p = s.p, v = s.v, m = s.m;
    switch (s.kind) {
    case SC_SCHEDULE_gpipe:
    case SC_SCHEDULE_one_f_one_b:
        return 3 * m + 3 * (p - 1);
    case SC_SCHEDULE_interleaved:
    case SC_SCHEDULE_looped_bfs:
        return 3 * m + 3 * (p - 1) / v;
    case SC_SCHEDULE_zero_bubble:
        return s.m >= s.p ? 3 * m + p - 1 : 2 * m + 2 * p - 1;
    case SC_SCHEDULE_zero_bubble_v:
    case SC_SCHEDULE_dual_pipe_v:
        return s.m >= 2 * s.p ? 3 * m + (p - 1) / 2 : -1;
    default:
        return -1;
    }
}

static double live(shape s, uint32_t rank)
{
    double p = s.p, v = s.v, m = s.m, r = rank;
    uint32_t groups = s.m / s.p;
    double first = groups == 0 ? m : ceil(m / groups);
    switch (s.kind) {
    case SC_SCHEDULE_gpipe:
    case SC_SCHEDULE_looped_bfs:
        return m;
    case SC_SCHEDULE_one_f_one_b:
        return least(p - r, m);
    case SC_SCHEDULE_interleaved:
        return least(v * m, 2 * (p - r - 1) + (v - 1) * first + 1) / v;
    case SC_SCHEDULE_dual_pipe_v:
        return p + 0.5;
    default:
        return least(p, m);
    }
}

static void check_shape(sc_context *context, shape s)
{
    sc_arena_mark mark = sc_arena_mark_here(&context->arena);
    const sc_pipeline_schedule *schedule = make(context, s);
    sc_schedule_fault fault;
    sc_schedule_cost cost;
    const char *name = sc_schedule_rows[s.kind].name;
    if (!sc_schedule_prove(&context->arena, schedule, &fault))
        fail_msg("%s p=%u v=%u m=%u: %s", name, s.p, s.v, s.m, fault.text);
    sc_schedule_simulate(&context->arena, schedule, NULL, &cost);
    double wanted = makespan(s);
    if (wanted >= 0 && fabs(cost.makespan - wanted) > TOLERANCE)
        fail_msg("%s p=%u v=%u m=%u: makespan %g, not %g", name, s.p, s.v, s.m, cost.makespan,
                 wanted);
    if (fabs(cost.bubble - (1 - 3.0 * s.m / cost.makespan)) > TOLERANCE ||
        fabs(cost.imbalance) > TOLERANCE || fabs(cost.idle - cost.bubble) > TOLERANCE)
        fail_msg("%s p=%u v=%u m=%u: bubble %g", name, s.p, s.v, s.m, cost.bubble);
    for (uint32_t r = 0; r < s.p; r++) {
        bool is_short = s.kind == SC_SCHEDULE_zero_bubble_v && s.m < 2 * s.p - 1;
        if (is_short ? cost.live[r] > live(s, r) : fabs(cost.live[r] - live(s, r)) > TOLERANCE)
            fail_msg("%s p=%u v=%u m=%u rank %u: live %g, not %g", name, s.p, s.v, s.m, r,
                     cost.live[r], live(s, r));
    }
    sc_arena_release(&context->arena, mark);
}

static void schedules_are_as_long_and_full_as_their_formulas_say(sc_context *context)
{
    for (int kind = 0; kind < SC_SCHEDULE_COUNT; kind++) {
        const sc_schedule_row *row = &sc_schedule_rows[kind];
        for (uint32_t p = 2; p <= 8; p++) {
            uint32_t first = row->chunks == 0 ? 2 : row->chunks,
                     last = row->chunks == 0 ? 4 : row->chunks;
            for (uint32_t v = first; v <= last; v++) {
                uint32_t m = (uint32_t)sc_schedule_least((sc_schedule_kind)kind, p);
                for (; m <= 4 * p + 2; m++)
                    check_shape(context, (shape){(sc_schedule_kind)kind, p, v, m});
            }
        }
    }
}

/* ---- work ---- */
static void work_tells_imbalance_from_bubble(sc_context *context)
{
    const double work[] = {1, 3};
    sc_schedule_cost cost;
    const sc_pipeline_schedule *schedule = make(context, (shape){SC_SCHEDULE_gpipe, 2, 1, 2});
    sc_schedule_simulate(&context->arena, schedule, work, &cost);
    /* rank 1 works from 1 to 19 of 21, rank 0 does a third of that; a full stage is 2 */
    assert_true(fabs(cost.makespan - 21 / 2.0) < TOLERANCE);
    assert_true(fabs(cost.imbalance - (1 - 12.0 / 18)) < TOLERANCE);
    assert_true(fabs(cost.idle - (1 - 18.0 / 21)) < TOLERANCE);
    assert_true(fabs(cost.start[0][2] - 13 / 2.0) < TOLERANCE);
}

/* ---- files ---- */
static sc_pipeline_schedule *read_text(sc_context *context, const char *text,
                                       sc_schedule_fault *fault)
{
    sc_action_place bad;
    sc_action_places *places;
    return sc_schedule_read(&context->arena, text, strlen(text), &places, fault, &bad);
}

static const char *written(sc_context *context, const sc_pipeline_schedule *schedule)
{
    sc_strbuf text;
    sc_strbuf_init(&text, &context->arena);
    sc_schedule_write(schedule, &text);
    return text.data;
}

static void what_is_written_is_read_back(sc_context *context)
{
    for (int kind = 0; kind < SC_SCHEDULE_COUNT; kind++) {
        uint32_t v = sc_schedule_rows[kind].chunks == 0 ? 3 : sc_schedule_rows[kind].chunks;
        const sc_pipeline_schedule *schedule =
            make(context, (shape){(sc_schedule_kind)kind, 4, v, 9});
        sc_schedule_fault fault;
        const char *text = written(context, schedule);
        const sc_pipeline_schedule *again = read_text(context, text, &fault);
        assert_non_null(again);
        assert_int_equal(again->chunks, schedule->chunks);
        assert_int_equal(again->micro_batches, 9);
        assert_memory_equal(again->rank_of, schedule->rank_of,
                            schedule->chunks * sizeof *schedule->rank_of);
        assert_string_equal(written(context, again), text);
        assert_true(is_proved(context, again));
    }
}

static void cells_may_be_idle_or_overlap(sc_context *context)
{
    sc_schedule_fault fault;
    const sc_pipeline_schedule *schedule =
        read_text(context, "0F0, 0F1 ,,,(0F2;0B0)OVERLAP_F_B,0B1,0B2,\r\n", &fault);
    assert_non_null(schedule);
    assert_string_equal(written(context, schedule), "0F0,0F1,0F2,0B0,0B1,0B2\n");
    assert_int_equal(schedule->ranks, 1);
}

static void other_cells_are_refused(sc_context *context)
{
    static const char *const texts[] = {
        "0F0,0X0",           "0F0,0F",        "0F0,F0",      "0F0,0F0x",
        "0F0,0 F0",          "0F0,(0F0;0B0)", "0F0,-1F0",    "0F0,(0B0;0F0)OVERLAP_F_B",
        "0F0,0F99999999999", "0F0,0SEND_F1",  "0F0,\"0F0\"", "0F0,0f0"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        sc_schedule_fault fault;
        assert_null(read_text(context, texts[i], &fault));
        assert_non_null(strstr(fault.text, "row 1, column 2: '"));
    }
}

static void files_without_some_chunk_are_refused(sc_context *context)
{
    sc_schedule_fault fault;
    assert_null(read_text(context, "", &fault));
    assert_null(read_text(context, ",,\n,\n", &fault));
    assert_null(read_text(context, "0F0,0B0\n2F0,2B0\n", &fault));
    assert_non_null(strstr(fault.text, "1F0"));
    assert_null(read_text(context, "0F0,0B0\n999999999F0,1B0\n", &fault));
}

/* ---- proof ---- */
static const char *fault_of(sc_context *context, const char *text)
{
    sc_schedule_fault fault;
    sc_pipeline_schedule *schedule = read_text(context, text, &fault);
    sc_strbuf all;
    assert_non_null(schedule);
    sc_strbuf_init(&all, &context->arena);
    if (sc_schedule_prove(&context->arena, schedule, &fault))
        return "";
    sc_strbuf_printf(&all, "%s\n", fault.text);
    for (uint32_t i = 0; i < fault.why.count; i++)
        sc_strbuf_printf(&all, "%s\n", fault.why.data[i]);
    return all.data;
}

static void faults_name_the_action(sc_context *context)
{
    assert_non_null(strstr(fault_of(context, "0F0,0F1,0B0\n1F0,1B0,1F1,1B1\n"), "0B1 is missing"));
    assert_non_null(strstr(fault_of(context, "0F0,0I0\n1F0,1B0\n"), "0W0 is missing"));
    assert_non_null(strstr(fault_of(context, "0F0,0W0\n1F0,1B0\n"), "0I0 is missing"));
    assert_non_null(strstr(fault_of(context, "0B0\n1F0,1B0\n"), "0F0 is missing"));
    assert_non_null(strstr(fault_of(context, "0F0,0B0,0F0\n1F0,1B0\n"), "0F0 is there twice"));
    assert_non_null(strstr(fault_of(context, "0F0,0B0,0W0\n"), "0B0 and 0W0 are both there"));
    assert_non_null(strstr(fault_of(context, "0F0,0B0\n1F0,1B0,0F1,0B1,1F1,1B1\n"),
                           "chunk 0 is on two ranks, this one and rank 0"));
}

static void cycles_are_shown_as_chains(sc_context *context)
{
    assert_string_equal(fault_of(context, "0F0,0F1,0B1,0B0\n1F1,1B1,1F0,1B0\n"),
                        "the schedule never ends: 1F1 waits for itself\n"
                        "rank 1: 1F1 waits for rank 0: 0SEND_F1\n"
                        "rank 0: 0SEND_F1 waits for rank 0: 0SEND_F0, which is sent before it\n"
                        "rank 0: 0SEND_F0 waits for rank 1: 1RECV_F0\n"
                        "rank 1: 1RECV_F0 waits for rank 1: 1F1, which comes before it\n");
    assert_string_equal(fault_of(context, "0F0,0B0,0F1,0B1\n1F1,1F0,1B0,1B1\n"),
                        "the schedule never ends: 0B0 waits for itself\n"
                        "rank 0: 0B0 waits for rank 1: 1SEND_B0\n"
                        "rank 1: 1SEND_B0 waits for rank 1: 1F1, which comes before it\n"
                        "rank 1: 1F1 waits for rank 0: 0SEND_F1\n"
                        "rank 0: 0SEND_F1 waits for rank 0: 0B0, which comes before it\n");
    assert_string_equal(fault_of(context, "0W0,0F0,0I0\n"),
                        "the schedule never ends: 0W0 waits for itself\n"
                        "rank 0: 0W0 waits for rank 0: 0I0, which comes after it\n");
}

/* ---- mutations ---- */
static sc_pipeline_schedule *copy_of(sc_context *context, const sc_pipeline_schedule *schedule)
{
    sc_pipeline_schedule *copy = sc_arena_alloc(&context->arena, sizeof *copy);
    *copy = *schedule;
    copy->actions = sc_arena_array(&context->arena, copy->ranks, sizeof *copy->actions);
    for (uint32_t r = 0; r < copy->ranks; r++) {
        for (uint32_t i = 0; i < schedule->actions[r].list.count; i++)
            *sc_vec_push(&context->arena, &copy->actions[r].list) =
                schedule->actions[r].list.data[i];
    }
    return copy;
}

static void drop(sc_actions *actions, uint32_t index)
{
    sc_action *data = actions->list.data;
    memmove(&data[index], &data[index + 1], (actions->list.count - index - 1) * sizeof *data);
    actions->list.count--;
}

static void swap(sc_actions *actions, uint32_t a, uint32_t b)
{
    sc_action kept = actions->list.data[a];
    actions->list.data[a] = actions->list.data[b];
    actions->list.data[b] = kept;
}

typedef enum mutation { DROP, DOUBLE, CHANGE, MOVE, SWAP, REORDER, MUTATIONS } mutation;

/* Damages the schedule at one action. Returns false if this mutation does not apply there. */
static bool mutate(sc_context *context, sc_pipeline_schedule *s, mutation how, uint32_t rank,
                   uint32_t index)
{
    sc_actions *actions = &s->actions[rank];
    sc_action action = actions->list.data[index];
    switch (how) {
    case DROP:
        drop(actions, index);
        return true;
    case DOUBLE:
        *sc_vec_push(&context->arena, &actions->list) = action;
        return true;
    case CHANGE:
        actions->list.data[index].kind = action.kind == SC_ACTION_W ? SC_ACTION_B : SC_ACTION_W;
        return true;
    case MOVE: /* the chunk is then on two ranks */
        drop(actions, index);
        *sc_vec_push(&context->arena, &s->actions[(rank + 1) % s->ranks].list) = action;
        return true;
    case SWAP: /* with the action of the same chunk and micro-batch that needs it */
        for (uint32_t i = index + 1; i < actions->list.count; i++) {
            if (actions->list.data[i].chunk == action.chunk &&
                actions->list.data[i].micro_batch == action.micro_batch) {
                swap(actions, index, i);
                return true;
            }
        }
        return false;
    case REORDER: /* with the next of its kind: the other side of the boundary keeps its order */
        if (action.kind == SC_ACTION_W)
            return false;
        for (uint32_t i = index + 1; i < actions->list.count; i++) {
            if (actions->list.data[i].chunk == action.chunk &&
                actions->list.data[i].kind == action.kind) {
                swap(actions, index, i);
                return true;
            }
        }
        return false;
    default:
        return false;
    }
}

static uint32_t mutate_everywhere(sc_context *context, shape s)
{
    const sc_pipeline_schedule *schedule = make(context, s);
    uint32_t tried = 0;
    for (uint32_t r = 0; r < schedule->ranks; r++) {
        for (uint32_t i = 0; i < schedule->actions[r].list.count; i++) {
            for (int how = 0; how < MUTATIONS; how++) {
                sc_arena_mark mark = sc_arena_mark_here(&context->arena);
                sc_pipeline_schedule *copy = copy_of(context, schedule);
                if (mutate(context, copy, (mutation)how, r, i)) {
                    tried++;
                    if (is_proved(context, copy))
                        fail_msg("%s p=%u m=%u: mutation %d at rank %u, action %u is not seen",
                                 sc_schedule_rows[s.kind].name, s.p, s.m, how, r, i);
                }
                sc_arena_release(&context->arena, mark);
            }
        }
    }
    return tried;
}

static void every_damage_is_seen(sc_context *context)
{
    uint32_t schedules = 0, tried = 0;
    for (int kind = 0; kind < SC_SCHEDULE_COUNT; kind++) {
        for (uint32_t p = 2; p <= 6; p++) {
            uint32_t v = sc_schedule_rows[kind].chunks == 0 ? 2 : sc_schedule_rows[kind].chunks;
            tried += mutate_everywhere(context, (shape){(sc_schedule_kind)kind, p, v, 2 * p + 1});
            schedules++;
        }
    }
    assert_true(schedules >= 30);
    assert_true(tried > 10000);
}

#define IN_CONTEXT(test)                                                                           \
    {                                                                                              \
#test, in_context, NULL, NULL, &(void (*[])(sc_context *))                                 \
        {                                                                                          \
            test                                                                                   \
        }                                                                                          \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_CONTEXT(schedules_are_as_long_and_full_as_their_formulas_say),
        IN_CONTEXT(work_tells_imbalance_from_bubble),
        IN_CONTEXT(what_is_written_is_read_back),
        IN_CONTEXT(cells_may_be_idle_or_overlap),
        IN_CONTEXT(other_cells_are_refused),
        IN_CONTEXT(files_without_some_chunk_are_refused),
        IN_CONTEXT(faults_name_the_action),
        IN_CONTEXT(cycles_are_shown_as_chains),
        IN_CONTEXT(every_damage_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
