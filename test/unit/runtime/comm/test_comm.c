/* What runtime/comm/comm.h promises, held by every backend: this program runs its tests on ranks in
 * threads, as `test_comm mpi` under mpirun on the ranks of the job, and as `test_comm tcp 3` on
 * three processes that it starts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "test/unit/helpers/comm_case.h"
#include "test/unit/helpers/comm_ranks.h"
#include "test/unit/helpers/processes.h"

enum { FLIGHT = 6 };

/* Every kind with every dtype and reduction, one call at a time. */
static void body_each_kind(rank_state *r)
{
    sc_comm_group *world = sc_comm_world(r->comm);
    uint32_t rank = sc_comm_rank(r->comm), n = sc_comm_size(r->comm);
    char text[512];
    shardc_error error;
    uint64_t seed = r->seed * 1000;
    for (int kind = 0; kind < SC_COMM_SEND; kind++) {
        bool reduces = kind == SC_COMM_ALL_REDUCE || kind == SC_COMM_REDUCE_SCATTER;
        for (int reduce = reduces ? SC_COMM_SUM : SC_COMM_NONE;
             reduce < (reduces ? SC_COMM_REDUCES : SC_COMM_SUM); reduce++) {
            for (int dtype = 0; dtype < SC_DTYPE_COUNT; dtype++) {
                comm_case c = draw_case(++seed, n, (sc_comm_kind)kind);
                comm_buffers b;
                c.part_count = 1;
                c.reduce = (sc_comm_reduce)reduce;
                c.dtypes[0] = (sc_dtype)dtype;
                c.counts[0] = n * (1 + draw(seed, 50, 700));
                if (kind == SC_COMM_ALL_REDUCE || kind == SC_COMM_PERMUTE ||
                    kind == SC_COMM_BROADCAST)
                    c.counts[0] |= 1;
                make_buffers(&c, rank, &b);
                sc_comm_call call = call_of(&c, rank, &b, NULL);
                shardc_status status = sc_comm_run(world, &call, &error);
                const char *wrong = status == SHARDC_OK
                                        ? check_buffers(&c, rank, &b, text, sizeof text)
                                        : error.text;
                free_buffers(&b);
                CHECK(r, wrong == NULL, "%s", wrong);
            }
        }
    }
}

static void each_kind_moves_each_dtype(void **state)
{
    (void)state;
    run_all(1, body_each_kind, 1, 0);
}

/* Groups that a seed gives: the world, its reverse, and random lists, of which some are equal. */
typedef struct group_set {
    sc_comm_group *groups[4]; /* NULL where this rank is not in */
    uint32_t ranks[4][CASE_RANKS], sizes[4];
} group_set;

static shardc_status make_groups(rank_state *r, group_set *set, shardc_error *error)
{
    uint32_t n = sc_comm_size(r->comm);
    shardc_status status = SHARDC_OK;
    for (uint32_t g = 0; g < 4; g++) {
        uint32_t count = 0;
        bool is_in = false;
        for (uint32_t i = 0; i < n; i++) {
            uint32_t rank = g % 2 == 0 ? n - 1 - i : i;
            if (g > 0 && draw(r->seed, 300 + 20 * g + rank, 3) == 0)
                continue;
            set->ranks[g][count++] = rank;
            is_in = is_in || rank == sc_comm_rank(r->comm);
        }
        set->sizes[g] = count;
        set->groups[g] = NULL;
        if (is_in && status == SHARDC_OK)
            status = sc_comm_group_new(r->comm, set->ranks[g], count, &set->groups[g], error);
    }
    return status;
}

/* Random calls in random groups, several in flight, waited for in an order of each rank's own. */
static void body_in_flight(rank_state *r)
{
    group_set set;
    shardc_error error;
    char text[512];
    CHECK(r, make_groups(r, &set, &error) == SHARDC_OK, "%s", error.text);
    for (uint64_t round = 0; round < 40; round++) {
        uint64_t seed = r->seed * 100000 + round * 100;
        uint32_t flight = 1 + draw(seed, 0, FLIGHT), started = 0;
        comm_case cases[FLIGHT];
        comm_buffers buffers[FLIGHT];
        uint32_t members[FLIGHT];
        sc_comm_request *requests[FLIGHT];
        for (uint32_t i = 0; i < flight; i++) {
            uint32_t g = draw(seed + i, 7, 4);
            if (set.groups[g] == NULL)
                continue;
            members[started] = sc_comm_group_rank(set.groups[g]);
            cases[started] =
                draw_case(seed + i, set.sizes[g],
                          draw(seed + i, 8, 10) == 0 ? SC_COMM_BARRIER : SC_COMM_KINDS);
            make_buffers(&cases[started], members[started], &buffers[started]);
            sc_comm_call call =
                call_of(&cases[started], members[started], &buffers[started], "in flight");
            CHECK(r, sc_comm_start(set.groups[g], &call, &requests[started], &error) == SHARDC_OK,
                  "%s", error.text);
            started++;
        }
        for (uint32_t left = started; left > 0; left--) {
            uint32_t i = draw(seed + sc_comm_rank(r->comm), 400 + left, left);
            CHECK(r, sc_comm_wait(requests[i], &error) == SHARDC_OK, "%s", error.text);
            const char *wrong =
                check_buffers(&cases[i], members[i], &buffers[i], text, sizeof text);
            free_buffers(&buffers[i]);
            CHECK(r, wrong == NULL, "%s", wrong);
            requests[i] = requests[left - 1];
            cases[i] = cases[left - 1];
            buffers[i] = buffers[left - 1];
            members[i] = members[left - 1];
        }
    }
}

static void calls_in_flight_end_in_any_order(void **state)
{
    (void)state;
    run_all(1, body_in_flight, 2, 0);
}

/* Every rank sends some messages to every other one, and receives them; half of the ranks wait for
 * their sends first. */
static void body_messages(rank_state *r)
{
    enum { MESSAGES = 3 };
    uint32_t n = sc_comm_size(r->comm), rank = sc_comm_rank(r->comm), count = 0;
    static _Thread_local comm_case cases[2 * MOST_RANKS * MESSAGES];
    static _Thread_local comm_buffers buffers[2 * MOST_RANKS * MESSAGES];
    sc_comm_request *requests[2 * MOST_RANKS * MESSAGES];
    char text[512];
    shardc_error error;
    CHECK(r, n <= MOST_RANKS, "too many ranks for this test");
    for (int direction = 0; direction < 2; direction++) {
        for (uint32_t peer = 0; peer < n; peer++) {
            for (uint32_t k = 0; k < MESSAGES && peer != rank; k++) {
                uint32_t from = direction == 0 ? rank : peer, to = direction == 0 ? peer : rank;
                comm_case c = draw_case(r->seed * 1000 + (from * n + to) * MESSAGES + k, n,
                                        SC_COMM_BROADCAST);
                c.kind = direction == 0 ? SC_COMM_SEND : SC_COMM_RECV;
                c.in_place = false;
                c.to[rank] = (int32_t)to;
                c.from[rank] = (int32_t)from;
                cases[count] = c;
                make_buffers(&c, rank, &buffers[count]);
                sc_comm_call call = call_of(&c, rank, &buffers[count], NULL);
                CHECK(r,
                      sc_comm_start(sc_comm_world(r->comm), &call, &requests[count], &error) ==
                          SHARDC_OK,
                      "%s", error.text);
                count++;
            }
        }
    }
    for (uint32_t k = 0; k < count; k++) {
        uint32_t i = rank % 2 == 0 ? k : count - 1 - k;
        CHECK(r, sc_comm_wait(requests[i], &error) == SHARDC_OK, "%s", error.text);
        const char *wrong = check_buffers(&cases[i], rank, &buffers[i], text, sizeof text);
        free_buffers(&buffers[i]);
        CHECK(r, wrong == NULL, "%s", wrong);
    }
}

static void messages_arrive_in_order(void **state)
{
    (void)state;
    run_all(2, body_messages, 3, 0);
}

/* Boundaries between neighbours, as pipelines have them: in each direction two FIFOs, each a group
 * of its own of sender and receiver; of all of them several messages are in flight at once, of no
 * byte, one byte and 4 MiB, and their starts are interleaved differently on every rank. */
enum { BOUNDARY_FIFOS = 4, BOUNDARY_MESSAGES = 5 };

typedef struct boundary_end {
    sc_comm_group *group;
    bool is_receive;
    uint32_t started;
    uint8_t *bytes[BOUNDARY_MESSAGES];
    sc_comm_request *requests[BOUNDARY_MESSAGES];
} boundary_end;

static int64_t boundary_bytes(uint32_t fifo, uint32_t message)
{
    static const int64_t sizes[] = {1, 0, 4 << 20, 1000};
    return sizes[(fifo + message) % 4];
}

static uint8_t boundary_byte(uint32_t from, uint32_t fifo, uint32_t message, int64_t at)
{
    return (uint8_t)(from * 31 + fifo * 17 + message * 7 + (uint64_t)at % 251);
}

static bool start_message(boundary_end *end, uint32_t from, uint32_t fifo, shardc_error *error)
{
    uint32_t message = end->started;
    int64_t size = boundary_bytes(fifo, message);
    uint8_t *bytes = end->bytes[message] = calloc((size_t)size + 1, 1);
    for (int64_t i = 0; i < (end->is_receive ? 0 : size); i++)
        bytes[i] = boundary_byte(from, fifo, message, i);
    sc_comm_part part = {.count = size, .dtype = SC_DTYPE_u8};
    if (end->is_receive)
        part.destination = bytes;
    else
        part.source = bytes;
    sc_comm_call call = {.kind = end->is_receive ? SC_COMM_RECV : SC_COMM_SEND,
                         .part_count = 1,
                         .parts = &part,
                         .to = 1,
                         .from = 0,
                         .what = "boundary"};
    return sc_comm_start(end->group, &call, &end->requests[end->started++], error) == SHARDC_OK;
}

/* Towards one neighbour: FIFOs 0 and 1 send, 2 and 3 receive. */
static void open_boundary(rank_state *r, uint32_t peer, boundary_end *ends)
{
    uint32_t rank = sc_comm_rank(r->comm);
    shardc_error error;
    for (uint32_t f = 0; f < BOUNDARY_FIFOS; f++) {
        bool is_receive = f >= BOUNDARY_FIFOS / 2;
        uint32_t ranks[2] = {is_receive ? peer : rank, is_receive ? rank : peer};
        ends[f] = (boundary_end){.is_receive = is_receive};
        CHECK(r, sc_comm_group_new(r->comm, ranks, 2, &ends[f].group, &error) == SHARDC_OK, "%s",
              error.text);
    }
}

static void end_boundary(rank_state *r, uint32_t peer, boundary_end *ends)
{
    shardc_error error;
    for (uint32_t f = 0; f < BOUNDARY_FIFOS; f++) {
        for (uint32_t m = 0; m < BOUNDARY_MESSAGES; m++) {
            int64_t size = boundary_bytes(f % 2, m), i = 0;
            CHECK(r, sc_comm_wait(ends[f].requests[m], &error) == SHARDC_OK, "%s", error.text);
            while (ends[f].is_receive && i < size &&
                   ends[f].bytes[m][i] == boundary_byte(peer, f % 2, m, i))
                i++;
            CHECK(r, !ends[f].is_receive || i == size, "message %u of FIFO %u: byte %lld", m, f,
                  (long long)i);
            free(ends[f].bytes[m]);
        }
    }
}

static void body_boundaries(rank_state *r)
{
    uint32_t n = sc_comm_size(r->comm), rank = sc_comm_rank(r->comm);
    boundary_end ends[2][BOUNDARY_FIFOS];
    uint32_t peers[2] = {rank > 0 ? rank - 1 : n, rank + 1};
    shardc_error error;
    for (int side = 0; side < 2; side++) {
        if (peers[side] < n)
            open_boundary(r, peers[side], ends[side]);
    }
    for (uint32_t k = 0; k < 2 * BOUNDARY_FIFOS * BOUNDARY_MESSAGES; k++) {
        uint32_t place =
            (k * 3 + rank * 5) % (2 * BOUNDARY_FIFOS); /* 3 and 8 have no common factor */
        uint32_t side = place / BOUNDARY_FIFOS, f = place % BOUNDARY_FIFOS;
        if (peers[side] < n)
            CHECK(r, start_message(&ends[side][f], rank, f % 2, &error), "%s", error.text);
    }
    for (int side = 0; side < 2; side++) {
        if (peers[side] < n)
            end_boundary(r, peers[side], ends[side]);
    }
}

static void boundaries_are_fifos(void **state)
{
    (void)state;
    run_all(1, body_boundaries, 0, 60000);
}

/* A barrier lets nobody through before the last one came. */
static void body_barrier(rank_state *r)
{
    uint32_t rank = sc_comm_rank(r->comm), n = sc_comm_size(r->comm);
    shardc_error error;
    for (uint32_t late = 0; late < n; late++) {
        double times[CASE_RANKS], mine;
        if (rank == late)
            sleep_ms(40);
        mine = now_ms();
        CHECK(r, sc_comm_barrier(sc_comm_world(r->comm), &error) == SHARDC_OK, "%s", error.text);
        double out = now_ms();
        sc_comm_part part = {
            .source = &mine, .destination = times, .count = n, .dtype = SC_DTYPE_f64};
        sc_comm_call call = {.kind = SC_COMM_ALL_GATHER, .part_count = 1, .parts = &part};
        CHECK(r, sc_comm_run(sc_comm_world(r->comm), &call, &error) == SHARDC_OK, "%s", error.text);
        CHECK(r, out >= times[late], "left the barrier %g ms before rank %u came",
              times[late] - out, late);
    }
}

static void barriers_wait_for_the_last(void **state)
{
    (void)state;
    run_all(1, body_barrier, 4, 0);
}

/* Large and uneven: several units or rounds a member, and parts of very different sizes. */
static void body_large(rank_state *r)
{
    static const sc_comm_kind kinds[] = {SC_COMM_ALL_REDUCE, SC_COMM_REDUCE_SCATTER,
                                         SC_COMM_ALL_GATHER, SC_COMM_ALL_TO_ALL, SC_COMM_BROADCAST};
    uint32_t n = sc_comm_size(r->comm), rank = sc_comm_rank(r->comm);
    char text[512];
    shardc_error error;
    for (uint32_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        comm_case c = draw_case(r->seed + k, n, kinds[k]);
        comm_buffers b;
        c.part_count = 3;
        c.counts[0] = n;
        /* several rounds of a reduction between processes */
        c.counts[1] = n * (process_world == NULL ? 50021 : 400009);
        c.counts[2] = n * 17;
        c.dtypes[1] = k % 2 == 0 ? SC_DTYPE_f32 : SC_DTYPE_bf16;
        make_buffers(&c, rank, &b);
        sc_comm_call call = call_of(&c, rank, &b, "large");
        shardc_status status = sc_comm_run(sc_comm_world(r->comm), &call, &error);
        const char *wrong =
            status == SHARDC_OK ? check_buffers(&c, rank, &b, text, sizeof text) : error.text;
        free_buffers(&b);
        CHECK(r, wrong == NULL, "%s", wrong);
    }
}

static void large_calls_are_cut_without_a_seam(void **state)
{
    (void)state;
    run_all(2, body_large, 5, 0);
}

/* Runs `call` and wants the status, and all the texts in the message. */
static const char *wants(sc_comm_group *group, const sc_comm_call *call, shardc_status wanted,
                         const char *const texts[3], shardc_error *error)
{
    shardc_status status = sc_comm_run(group, call, error);
    if (status == SHARDC_OK)
        return "it worked";
    if (status != wanted || error->status != wanted)
        return "another status";
    for (int i = 0; i < 3; i++) {
        if (texts[i] != NULL && strstr(error->text, texts[i]) == NULL)
            return texts[i];
    }
    return NULL;
}

/* Before a failure that is meant. Of processes one may hear of it when it has not yet heard the
 * last of who came: it ends every call. */
static bool all_meet(rank_state *r, shardc_error *error)
{
    shardc_status status = sc_comm_barrier(sc_comm_world(r->comm), error);
    return status == SHARDC_OK || (process_world != NULL && status == SHARDC_ERROR_COMM);
}

/* Rank 1 does something else than the others. By seed % 8: what. */
static void body_mismatch(rank_state *r)
{
    static const char *const texts[8][3] = {
        {"call 1 of group 0, 1", "all_reduce(sum) of f32[12] (the others)",
         "rank 1 calls all_gather of f32[12] (the odd one)"},
        {"rank 1 calls all_reduce(max)", "all_reduce(sum)", NULL},
        {"rank 1 calls all_reduce(sum) of f32[24]", "f32[12]", NULL},
        {"rank 1 calls all_reduce(sum) of f64[12]", "f32[12]", NULL},
        {"rank 1 calls all_reduce(sum) of f32[12], f32[12]", NULL, NULL},
        {"rank 1 calls broadcast of f32[12] from rank 1", " calls broadcast of f32[12] from rank 0",
         NULL},
        {"rank 1 calls barrier (the odd one)", NULL, NULL},
        {"permute", "from rank", NULL},
    };
    float in[24] = {0}, out[24], more[24];
    sc_comm_part parts[2] = {
        {.source = in, .destination = out, .count = 12, .dtype = SC_DTYPE_f32},
        {.source = in, .destination = more, .count = 12, .dtype = SC_DTYPE_f32}};
    double wide[24] = {0};
    uint32_t rank = sc_comm_rank(r->comm), n = sc_comm_size(r->comm),
             which = (uint32_t)(r->seed % 8);
    bool is_odd = rank == 1;
    sc_comm_call call = {.kind = SC_COMM_ALL_REDUCE,
                         .reduce = SC_COMM_SUM,
                         .part_count = 1,
                         .parts = parts,
                         .what = "the others"};
    shardc_error error;
    /* counts divide by the ranks, so that nothing but the disagreement is wrong */
    if (12 % n != 0) {
        which = 6;
    }
    if (which == 5 || which == 7)
        call = (sc_comm_call){.kind = which == 5 ? SC_COMM_BROADCAST : SC_COMM_PERMUTE,
                              .part_count = 1,
                              .parts = parts};
    if (which == 7) { /* a ring, of which rank 1 forgets that it receives */
        call.to = (int32_t)((rank + 1) % n);
        call.from = is_odd ? SC_COMM_NOBODY : (int32_t)((rank + n - 1) % n);
    }
    if (is_odd) {
        call.what = "the odd one";
        switch (which) {
        case 0:
            call.kind = SC_COMM_ALL_GATHER;
            call.reduce = SC_COMM_NONE;
            break;
        case 1:
            call.reduce = SC_COMM_MAX;
            break;
        case 2:
            parts[0].count = 24;
            break;
        case 3:
            parts[0] = (sc_comm_part){
                .source = wide, .destination = wide, .count = 12, .dtype = SC_DTYPE_f64};
            break;
        case 4:
            call.part_count = 2;
            break;
        case 5:
            call.from = 1;
            break;
        case 6:
            call = (sc_comm_call){.kind = SC_COMM_BARRIER, .what = "the odd one"};
            break;
        default:
            break;
        }
    }
    CHECK(r, all_meet(r, &error), "%s", error.text);
    const char *wrong =
        wants(sc_comm_world(r->comm), &call, SHARDC_ERROR_COMM, texts[which], &error);
    CHECK(r, wrong == NULL, "%s: %s", wrong, error.text);
    wrong = wants(sc_comm_world(r->comm), &(sc_comm_call){.kind = SC_COMM_BARRIER},
                  SHARDC_ERROR_COMM, texts[which], &error);
    CHECK(r, wrong == NULL, "after the mismatch: %s: %s", wrong, error.text);
}

static void members_that_disagree_are_named(void **state)
{
    (void)state;
    for (uint64_t which = 0; which < 8; which++)
        run_all(2, body_mismatch, which, 20000);
}

/* A message that is taken for another one. */
static void body_message_mismatch(rank_state *r)
{
    float buffer[8] = {0};
    sc_comm_part part = {.source = buffer,
                         .destination = buffer,
                         .count = sc_comm_rank(r->comm) == 0 ? 8 : 7,
                         .dtype = SC_DTYPE_f32};
    sc_comm_call call = {.kind = sc_comm_rank(r->comm) == 0 ? SC_COMM_SEND : SC_COMM_RECV,
                         .part_count = 1,
                         .parts = &part,
                         .to = 1};
    static const char *const texts[3] = {"message 0 in group 0, 1",
                                         "rank 0 calls send of f32[8] to rank 1",
                                         "rank 1 calls recv of f32[7]"};
    shardc_error error;
    if (sc_comm_rank(r->comm) > 1)
        call = (sc_comm_call){.kind = SC_COMM_BARRIER}; /* wakes with the others' error */
    const char *wrong = wants(sc_comm_world(r->comm), &call, SHARDC_ERROR_COMM, texts, &error);
    CHECK(r, wrong == NULL, "%s: %s", wrong, error.text);
}

static void messages_that_differ_are_named(void **state)
{
    (void)state;
    run_all(2, body_message_mismatch, 0, 20000);
}

/* Nothing is buffered: a send ends when it is received, however small it is. The receive comes when
 * the sender's time is up. */
static void body_rendezvous(rank_state *r)
{
    uint32_t rank = sc_comm_rank(r->comm);
    uint8_t byte = 7;
    sc_comm_part part = {.source = &byte, .destination = &byte, .count = 1, .dtype = SC_DTYPE_u8};
    sc_comm_call call = {.kind = SC_COMM_SEND, .part_count = 1, .parts = &part, .to = 1};
    static const char *const texts[3] = {"message 0 in group 0, 1",
                                         "rank 0 calls send of u8[1] to rank 1",
                                         "but rank 1 did not within 2000 ms"};
    shardc_error error;
    if (sc_comm_size(r->comm) == 1)
        return;
    if (rank != 0) {
        sleep_ms(6000);
        call = (sc_comm_call){.kind = SC_COMM_BARRIER}; /* finds the error */
    }
    const char *wrong = wants(sc_comm_world(r->comm), &call, SHARDC_ERROR_TIMEOUT, texts, &error);
    CHECK(r, wrong == NULL, "%s: %s", wrong, error.text);
}

static void a_send_ends_when_it_is_received(void **state)
{
    (void)state;
    run_slow(body_rendezvous, 2000);
}

/* The last rank does not come. It finds the error when it comes at last. */
static void body_deadline(rank_state *r)
{
    static const char *const texts[3] = {
        "call 0 of group 0, 1", "calls all_reduce(max) of i32[1] (norm)", "did not within 2000 ms"};
    uint32_t rank = sc_comm_rank(r->comm), n = sc_comm_size(r->comm);
    char last[64];
    int32_t value = 1;
    sc_comm_part part = {
        .source = &value, .destination = &value, .count = 1, .dtype = SC_DTYPE_i32};
    sc_comm_call call = {.kind = SC_COMM_ALL_REDUCE,
                         .reduce = SC_COMM_MAX,
                         .part_count = 1,
                         .parts = &part,
                         .what = "norm"};
    shardc_error error;
    /* worlds open at slightly different times, and busy machines let ranks wait for a CPU */
    if (rank == n - 1)
        sleep_ms(6000);
    const char *wrong = wants(sc_comm_world(r->comm), &call, SHARDC_ERROR_TIMEOUT, texts, &error);
    CHECK(r, wrong == NULL, "%s: %s", wrong, error.text);
    snprintf(last, sizeof last, "but rank %u did not", n - 1);
    CHECK(r, strstr(error.text, last) != NULL, "%s: %s", last, error.text);
}

static void a_deadline_names_who_is_missing(void **state)
{
    (void)state;
    run_slow(body_deadline, 2000);
}

/* Rank 0 gives up while the others wait for it, with calls in flight. */
static void body_abort(rank_state *r)
{
    static const char *const texts[3] = {"rank 0 gave up: the disk is full", NULL, NULL};
    shardc_error error;
    float data[3] = {1, 2, 3};
    sc_comm_part part = {.source = data, .destination = data, .count = 3, .dtype = SC_DTYPE_f32};
    sc_comm_call call = {
        .kind = SC_COMM_ALL_REDUCE, .reduce = SC_COMM_SUM, .part_count = 1, .parts = &part};
    sc_comm_request *requests[2];
    CHECK(r, all_meet(r, &error), "%s", error.text);
    if (sc_comm_rank(r->comm) == 0) {
        sleep_ms(50);
        sc_comm_abort(r->comm, "the disk is full");
        sc_comm_abort(r->comm, "and more");
    } else {
        /* the error is there at the latest in the second wait */
        shardc_status status = sc_comm_start(sc_comm_world(r->comm), &call, &requests[0], &error);
        shardc_status second =
            status == SHARDC_OK ? sc_comm_start(sc_comm_world(r->comm), &call, &requests[1], &error)
                                : status;
        if (second == SHARDC_OK) {
            second = sc_comm_wait(requests[1], &error);
            CHECK(r, strcmp(error.text, texts[0]) == 0, "%s", error.text);
        }
        if (status == SHARDC_OK)
            status = sc_comm_wait(requests[0], &error);
        CHECK(r, status == SHARDC_ERROR_COMM && second == SHARDC_ERROR_COMM,
              "the calls end with %d and %d", (int)status, (int)second);
        CHECK(r, strcmp(error.text, texts[0]) == 0, "%s", error.text);
    }
    const char *wrong = wants(sc_comm_world(r->comm), &(sc_comm_call){.kind = SC_COMM_BARRIER},
                              SHARDC_ERROR_COMM, texts, &error);
    CHECK(r, wrong == NULL, "%s: %s", wrong, error.text);
}

static void who_gives_up_wakes_the_others(void **state)
{
    (void)state;
    run_all(2, body_abort, 0, 20000);
}

/* One rank gives up while large calls run. Who has the error has its buffers back: nobody writes to
 * them any more. */
static void body_abort_midway(rank_state *r)
{
    enum { COUNT = 1 << 17 };
    uint32_t rank = sc_comm_rank(r->comm), n = sc_comm_size(r->comm), changed = 0;
    float *data = malloc(COUNT * sizeof *data);
    sc_comm_part part = {
        .source = data, .destination = data, .count = COUNT, .dtype = SC_DTYPE_f32};
    sc_comm_call call = {
        .kind = SC_COMM_ALL_REDUCE, .reduce = SC_COMM_MAX, .part_count = 1, .parts = &part};
    sc_comm_request *request;
    shardc_status status = SHARDC_OK;
    shardc_error error;
    if (data == NULL)
        abort();
    for (int i = 0; i < COUNT; i++)
        data[i] = (float)i;
    for (uint32_t round = 0; status == SHARDC_OK; round++) {
        status = sc_comm_start(sc_comm_world(r->comm), &call, &request, &error);
        if (status == SHARDC_OK && rank == r->seed % n && round == draw(r->seed, 1, 20))
            sc_comm_abort(r->comm, "enough");
        if (status == SHARDC_OK)
            status = sc_comm_wait(request, &error);
    }
    memset(data, 0x5a, COUNT * sizeof *data);
    sleep_ms(1);
    for (int i = 0; i < COUNT; i++)
        changed += ((const unsigned char *)data)[4 * i + 3] != 0x5a;
    free(data);
    CHECK(r, changed == 0, "%u elements have changed after the end", changed);
    CHECK(r, status == SHARDC_ERROR_COMM && strstr(error.text, "gave up: enough") != NULL, "%d: %s",
          (int)status, error.text);
}

static void failed_calls_give_buffers_back(void **state)
{
    (void)state;
    for (uint64_t seed = 0; process_world == NULL && seed < 60; seed++)
        run_threads(2 + (uint32_t)(seed % 4), body_abort_midway, seed, 0);
}

/* Rank 0 leaves without a word; the others wait for it without a deadline. */
static void body_closed(rank_state *r)
{
    shardc_error error;
    if (sc_comm_rank(r->comm) == 0)
        return;
    shardc_status status = sc_comm_barrier(sc_comm_world(r->comm), &error);
    CHECK(r, status == SHARDC_ERROR_COMM, "the barrier ends with %d", (int)status);
    CHECK(r, strstr(error.text, "but rank 0 closed its communicator") != NULL, "%s", error.text);
}

static void who_left_is_not_waited_for(void **state)
{
    (void)state;
    run_all(2, body_closed, 0, 0);
}

/* Closing with calls in flight gives them up, and ends the world for the others. */
static void body_closed_in_flight(rank_state *r)
{
    float data[3] = {1, 2, 3};
    sc_comm_part part = {.source = data, .destination = data, .count = 3, .dtype = SC_DTYPE_f32};
    sc_comm_call call = {
        .kind = SC_COMM_ALL_REDUCE, .reduce = SC_COMM_SUM, .part_count = 1, .parts = &part};
    sc_comm_request *request;
    shardc_error error;
    CHECK(r, all_meet(r, &error), "%s", error.text);
    if (sc_comm_rank(r->comm) == 0) {
        CHECK(r, sc_comm_start(sc_comm_world(r->comm), &call, &request, &error) == SHARDC_OK, "%s",
              error.text);
        return;
    }
    sleep_ms(50);
    shardc_status status = sc_comm_barrier(sc_comm_world(r->comm), &error);
    CHECK(r,
          status == SHARDC_ERROR_COMM &&
              strstr(error.text,
                     "rank 0 gave up: it closed its communicator with calls in flight") != NULL,
          "%d: %s", (int)status, error.text);
}

static void closing_gives_calls_up(void **state)
{
    (void)state;
    run_all(2, body_closed_in_flight, 0, 20000);
}

/* Wrong arguments are the rank's own affair: the next call works. */
static void body_arguments(rank_state *r)
{
    _Alignas(8) char bytes[64] = {0};
    double data[8] = {0};
    uint32_t n = sc_comm_size(r->comm), rank = sc_comm_rank(r->comm);
    sc_comm_part good = {.source = data, .destination = data, .count = 8, .dtype = SC_DTYPE_f64};
    sc_comm_part uneven = good, negative = good, untyped = good, absent = good, crooked = good,
                 huge = good;
    uneven.count = n + 1;
    negative.count = -1;
    untyped.dtype = SC_DTYPE_COUNT;
    absent.destination = NULL;
    crooked.source = bytes + 4;
    huge.count = INT64_MAX / 4;
    const struct wrong {
        sc_comm_call call;
        const char *text;
    } wrongs[] = {
        {{.kind = SC_COMM_KINDS}, "no such kind"},
        {{.kind = SC_COMM_ALL_REDUCE, .part_count = 1, .parts = &good}, "no such reduction"},
        {{.kind = SC_COMM_ALL_GATHER, .reduce = SC_COMM_SUM, .part_count = 1, .parts = &good},
         "it reduces nothing"},
        {{.kind = SC_COMM_ALL_REDUCE, .reduce = SC_COMM_SUM, .part_count = 1, .parts = &negative},
         "-1 elements"},
        {{.kind = SC_COMM_ALL_REDUCE, .reduce = SC_COMM_SUM, .part_count = 1, .parts = &huge},
         "elements"},
        {{.kind = SC_COMM_ALL_REDUCE, .reduce = SC_COMM_SUM, .part_count = 1, .parts = &untyped},
         "no known dtype"},
        {{.kind = SC_COMM_ALL_REDUCE, .reduce = SC_COMM_SUM, .part_count = 1, .parts = &absent},
         "no destination"},
        {{.kind = SC_COMM_ALL_REDUCE, .reduce = SC_COMM_SUM, .part_count = 1, .parts = &crooked},
         "not aligned"},
        {{.kind = SC_COMM_ALL_REDUCE, .reduce = SC_COMM_SUM, .part_count = 1},
         "the parts are missing"},
        {{.kind = SC_COMM_BARRIER, .part_count = 1, .parts = &good}, "it has no parts"},
        {{.kind = SC_COMM_BROADCAST, .part_count = 1, .parts = &good, .from = (int32_t)n},
         "`from` is"},
        {{.kind = SC_COMM_PERMUTE, .part_count = 1, .parts = &good, .from = 0, .to = -2},
         "`to` is -2"},
        {{.kind = SC_COMM_SEND, .part_count = 1, .parts = &good, .to = (int32_t)rank},
         "`to` is the rank itself"},
        {{.kind = SC_COMM_ALL_TO_ALL, .part_count = n > 1, .parts = &uneven},
         "do not divide by the"},
    };
    uint32_t ranks[] = {0, 1, 0, n};
    sc_comm_group *group;
    shardc_error error;
    for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs - (n == 1); i++) {
        const char *texts[3] = {wrongs[i].text};
        const char *wrong =
            wants(sc_comm_world(r->comm), &wrongs[i].call, SHARDC_ERROR_ARGUMENT, texts, &error);
        CHECK(r, wrong == NULL, "case %zu: %s: %s", i, wrong, error.text);
    }
    CHECK(r, sc_comm_group_new(r->comm, ranks + 3, 1, &group, &error) == SHARDC_ERROR_ARGUMENT,
          "a rank beyond the world");
    CHECK(r,
          n == 1 || sc_comm_group_new(r->comm, ranks, 3, &group, &error) == SHARDC_ERROR_ARGUMENT,
          "a rank twice");
    CHECK(r,
          n == 1 || sc_comm_group_new(r->comm, ranks + (rank == 0), 1, &group, &error) ==
                        SHARDC_ERROR_ARGUMENT,
          "a group of others");
    CHECK(r, sc_comm_group_new(r->comm, ranks, 0, &group, &error) == SHARDC_ERROR_ARGUMENT,
          "a group of nobody");
    CHECK(r, sc_comm_barrier(sc_comm_world(r->comm), &error) == SHARDC_OK, "%s", error.text);
}

static void wrong_arguments_end_nothing(void **state)
{
    (void)state;
    run_all(1, body_arguments, 0, 20000);
}

/* Calls and bytes by the convention of `shardc comm`. */
static void body_counters(rank_state *r)
{
    uint32_t n = sc_comm_size(r->comm), rank = sc_comm_rank(r->comm);
    static _Thread_local double from[MOST_RANKS * 10], to[MOST_RANKS * 10];
    static _Thread_local uint8_t small[MOST_RANKS * 2];
    int32_t next = (int32_t)((rank + 1) % n), previous = (int32_t)((rank + n - 1) % n);
    sc_comm_part parts[2] = {
        {.source = from, .destination = to, .count = n * 10, .dtype = SC_DTYPE_f64},
        {.source = small, .destination = small + n, .count = n, .dtype = SC_DTYPE_u8}};
    double
        b = n * 81.0,
        sent[SC_COMM_KINDS] = {
            [SC_COMM_ALL_GATHER] = b * (n - 1) / n,     [SC_COMM_REDUCE_SCATTER] = b * (n - 1) / n,
            [SC_COMM_ALL_REDUCE] = 2 * b * (n - 1) / n, [SC_COMM_ALL_TO_ALL] = b * (n - 1) / n,
            [SC_COMM_PERMUTE] = n > 1 ? b : 0,          [SC_COMM_BROADCAST] = n > 1 ? b : 0,
        };
    shardc_error error;
    CHECK(r, n <= MOST_RANKS, "too many ranks for this test");
    for (int round = 0; round < 2; round++) {
        for (int kind = 0; kind <= SC_COMM_BARRIER; kind++) {
            bool reduces = kind == SC_COMM_ALL_REDUCE || kind == SC_COMM_REDUCE_SCATTER;
            sc_comm_call call = {.kind = (sc_comm_kind)kind,
                                 .reduce = reduces ? SC_COMM_SUM : SC_COMM_NONE,
                                 .part_count = kind == SC_COMM_BARRIER ? 0 : 2,
                                 .parts = parts,
                                 .to = kind == SC_COMM_PERMUTE ? next : 0,
                                 .from = kind == SC_COMM_PERMUTE ? previous : 0};
            if (kind != SC_COMM_SEND && kind != SC_COMM_RECV)
                CHECK(r, sc_comm_run(sc_comm_world(r->comm), &call, &error) == SHARDC_OK, "%s",
                      error.text);
        }
    }
    for (int kind = 0; kind <= SC_COMM_BARRIER; kind++) {
        const sc_comm_counter *c = &sc_comm_counters(r->comm)[kind];
        bool is_message = kind == SC_COMM_SEND || kind == SC_COMM_RECV;
        CHECK(r, c->calls == (is_message ? 0 : 2), "%s: %llu calls", sc_comm_kind_names[kind],
              (unsigned long long)c->calls);
        CHECK(r, c->bytes == (is_message || kind == SC_COMM_BARRIER ? 0 : (uint64_t)(2 * b)),
              "%s: %llu bytes", sc_comm_kind_names[kind], (unsigned long long)c->bytes);
        CHECK(r, fabs(c->sent - 2 * sent[kind]) < 1e-9, "%s: %g bytes sent, not %g",
              sc_comm_kind_names[kind], c->sent, 2 * sent[kind]);
    }
    sc_comm_reset_counters(r->comm);
    CHECK(r, sc_comm_counters(r->comm)[SC_COMM_ALL_REDUCE].calls == 0, "not reset");
}

static void counters_are_those_of_the_report(void **state)
{
    (void)state;
    run_all(1, body_counters, 0, 0);
}

/* Two groups of the same list are two: what is started in one does not meet the other. */
static void body_twins(rank_state *r)
{
    uint32_t n = sc_comm_size(r->comm), rank = sc_comm_rank(r->comm), ranks[CASE_RANKS];
    sc_comm_group *twins[2];
    sc_comm_request *requests[2];
    int32_t values[2] = {(int32_t)rank, (int32_t)(100 * rank)}, sums[2];
    shardc_error error;
    for (uint32_t i = 0; i < n; i++)
        ranks[i] = i;
    for (int i = 0; i < 2; i++)
        CHECK(r, sc_comm_group_new(r->comm, ranks, n, &twins[i], &error) == SHARDC_OK, "%s",
              error.text);
    for (int k = 0; k < 2; k++) { /* odd ranks start the other one first */
        int i = rank % 2 == 0 ? k : 1 - k;
        sc_comm_part part = {
            .source = &values[i], .destination = &sums[i], .count = 1, .dtype = SC_DTYPE_i32};
        sc_comm_call call = {
            .kind = SC_COMM_ALL_REDUCE, .reduce = SC_COMM_SUM, .part_count = 1, .parts = &part};
        CHECK(r, sc_comm_start(twins[i], &call, &requests[i], &error) == SHARDC_OK, "%s",
              error.text);
    }
    for (int i = 0; i < 2; i++)
        CHECK(r, sc_comm_wait(requests[i], &error) == SHARDC_OK, "%s", error.text);
    CHECK(r, sums[0] == (int32_t)(n * (n - 1) / 2) && sums[1] == 100 * sums[0],
          "the sums are %d and %d", sums[0], sums[1]);
}

static void groups_of_one_list_are_different(void **state)
{
    (void)state;
    run_all(1, body_twins, 0, 20000);
}

/* The wait of another thread than the one that computes. */
typedef struct waiter {
    sc_comm_request *request;
    shardc_error error;
    shardc_status status;
} waiter;

static void *wait_main(void *user)
{
    waiter *w = user;
    w->status = sc_comm_wait(w->request, &w->error);
    return NULL;
}

static void body_waiting_threads(rank_state *r)
{
    enum { WAITERS = 4 };
    uint32_t n = sc_comm_size(r->comm), rank = sc_comm_rank(r->comm);
    waiter waiters[WAITERS];
    pthread_t threads[WAITERS];
    comm_case cases[WAITERS];
    comm_buffers buffers[WAITERS];
    char text[512];
    shardc_error error;
    for (uint32_t i = 0; i < WAITERS; i++) {
        cases[i] = draw_case(r->seed + i, n, SC_COMM_KINDS);
        make_buffers(&cases[i], rank, &buffers[i]);
        sc_comm_call call = call_of(&cases[i], rank, &buffers[i], NULL);
        CHECK(r,
              sc_comm_start(sc_comm_world(r->comm), &call, &waiters[i].request, &error) ==
                  SHARDC_OK,
              "%s", error.text);
        CHECK(r, pthread_create(&threads[i], NULL, wait_main, &waiters[i]) == 0, "no thread");
    }
    for (uint32_t i = 0; i < WAITERS; i++)
        pthread_join(threads[i], NULL);
    for (uint32_t i = 0; i < WAITERS; i++) {
        CHECK(r, waiters[i].status == SHARDC_OK, "%s", waiters[i].error.text);
        const char *wrong = check_buffers(&cases[i], rank, &buffers[i], text, sizeof text);
        free_buffers(&buffers[i]);
        CHECK(r, wrong == NULL, "%s", wrong);
    }
}

static void other_threads_may_wait(void **state)
{
    (void)state;
    run_all(1, body_waiting_threads, 11, 20000);
}

/* Rank 1 starts a call and does not wait for it. Between threads and over TCP that holds nobody up;
 * a process of MPI that does not look at its messages does. */
static void body_lazy(rank_state *r)
{
    enum { COUNT = 1 << 20 };
    bool moves_by_itself = strcmp(sc_comm_backend_name(r->comm), "mpi") != 0;
    uint32_t n = sc_comm_size(r->comm), rank = sc_comm_rank(r->comm);
    sc_comm_request *request;
    shardc_error error;
    float *data = malloc(COUNT * sizeof *data);
    if (data == NULL)
        abort();
    r->kept = data;
    for (int i = 0; i < COUNT; i++)
        data[i] = (float)(rank + 1);
    sc_comm_part part = {
        .source = data, .destination = data, .count = COUNT, .dtype = SC_DTYPE_f32};
    sc_comm_call call = {
        .kind = SC_COMM_ALL_REDUCE, .reduce = SC_COMM_SUM, .part_count = 1, .parts = &part};
    shardc_status started = sc_comm_start(sc_comm_world(r->comm), &call, &request, &error);
    if (rank == 1)
        sleep_ms(6000);
    double start = now_ms();
    shardc_status status = started == SHARDC_OK ? sc_comm_wait(request, &error) : started;
    double waited = now_ms() - start;
    bool is_right = data[0] == (float)n * (float)(n + 1) / 2 && data[COUNT - 1] == data[0];
    if (moves_by_itself) {
        CHECK(r, status == SHARDC_OK, "%s", error.text);
        CHECK(r, is_right, "another sum");
        CHECK(r, waited < 5000, "waited for %g ms", waited);
    } else {
        CHECK(r,
              status == SHARDC_ERROR_TIMEOUT &&
                  strstr(error.text, "rank 1 started it and made no progress for 2000 ms") != NULL,
              "%d: %s", (int)status, error.text);
    }
}

static void who_starts_and_does_not_wait(void **state)
{
    (void)state;
    run_slow(body_lazy, 2000);
}

/* ---- polls ---- */
static void go_on(rank_state *r)
{
    enum { COUNT = 3000001 }; /* several rounds between processes */
    uint32_t n = sc_comm_size(r->comm);
    float *values = r->kept = malloc(2 * COUNT * sizeof *values), sum = (float)(n * (n + 1) / 2);
    CHECK(r, values != NULL, "no memory");
    volatile float *out = values + COUNT;
    /* others move bytes in waits, or by themselves */
    bool is_pushed = strcmp(sc_comm_backend_name(r->comm), "mpi") == 0;
    for (int i = 0; i < COUNT; i++) {
        values[i] = (float)(sc_comm_rank(r->comm) + 1);
        out[i] = 0;
    }
    sc_comm_part part = {
        .source = values, .destination = values + COUNT, .count = COUNT, .dtype = SC_DTYPE_f32};
    sc_comm_call call = {.kind = SC_COMM_ALL_REDUCE,
                         .reduce = SC_COMM_SUM,
                         .part_count = 1,
                         .parts = &part,
                         .what = "polled"};
    sc_comm_request *request = NULL;
    shardc_error error;
    CHECK(r, sc_comm_start(sc_comm_world(r->comm), &call, &request, &error) == SHARDC_OK, "%s",
          error.text);
    double since = now_ms();
    int done = 0;
    sc_comm_progress(r->comm);
    /* no thread writes there but this one */
    while (is_pushed && done < COUNT && now_ms() - since < 60000) {
        sc_comm_progress(r->comm);
        while (done < COUNT && out[done] == sum)
            done++;
    }
    bool is_done = done == COUNT || !is_pushed; /* before anybody has waited */
    CHECK(r, sc_comm_wait(request, &error) == SHARDC_OK, "%s", error.text);
    CHECK(r, is_done, "polls moved %d elements of %d", done, (int)COUNT);
    for (int i = 0; i < COUNT; i++)
        CHECK(r, out[i] == sum, "element %d is %g, not %g", i, (double)out[i], (double)sum);
}

static void polls_move_what_processes_started(void **state)
{
    (void)state;
    run_slow(go_on, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_moves_each_dtype),
        cmocka_unit_test(calls_in_flight_end_in_any_order),
        cmocka_unit_test(messages_arrive_in_order),
        cmocka_unit_test(boundaries_are_fifos),
        cmocka_unit_test(a_send_ends_when_it_is_received),
        cmocka_unit_test(barriers_wait_for_the_last),
        cmocka_unit_test(large_calls_are_cut_without_a_seam),
        cmocka_unit_test(members_that_disagree_are_named),
        cmocka_unit_test(messages_that_differ_are_named),
        cmocka_unit_test(a_deadline_names_who_is_missing),
        cmocka_unit_test(who_gives_up_wakes_the_others),
        cmocka_unit_test(failed_calls_give_buffers_back),
        cmocka_unit_test(who_left_is_not_waited_for),
        cmocka_unit_test(closing_gives_calls_up),
        cmocka_unit_test(wrong_arguments_end_nothing),
        cmocka_unit_test(counters_are_those_of_the_report),
        cmocka_unit_test(groups_of_one_list_are_different),
        cmocka_unit_test(other_threads_may_wait),
        cmocka_unit_test(who_starts_and_does_not_wait),
        cmocka_unit_test(polls_move_what_processes_started),
    };
    shardc_error error;
    bool is_mpi = argc == 2 && strcmp(argv[1], "mpi") == 0,
         is_tcp = argc == 3 && strcmp(argv[1], "tcp") == 0;
    if (is_tcp && getenv("RANK") == NULL)
        return run_program(argv, (uint32_t)strtoul(argv[2], NULL, 10));
    shardc_status status = is_mpi   ? sc_comm_open_mpi(NULL, &process_world, &error)
                           : is_tcp ? sc_comm_open_tcp(NULL, NULL, &process_world, &error)
                                    : SHARDC_OK;
    if (status != SHARDC_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    sc_comm_close(process_world);
    return failures;
}
