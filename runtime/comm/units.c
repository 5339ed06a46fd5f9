/* Splits a call into units of work and runs them, with copies that use caches well. */
#include "runtime/comm/units.h"

#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "program/collective.h"
#include "runtime/comm/reduce.h"

enum {
    COPY_BYTES = 16 << 10, /* stays in the L1 cache between reading and the last write */
    LEAST_UNIT = 16 << 10, /* bytes */
    MOST_UNIT = 256 << 10,
    UNITS_A_RANK = 4,
    /* from this size on a call with all members' buffers does not fit the caches */
    STREAM_BYTES = 4 << 20
};

/* Returns the number of blocks of a part: what one member sends or receives, depending on the kind.
 * Each block is divided into pieces of unit_bytes. */
static int64_t block_count(const sc_comm_units *units, sc_comm_kind kind)
{
    int64_t n = units->group_size;
    switch (kind) {
    case SC_COMM_ALL_GATHER:
    case SC_COMM_REDUCE_SCATTER:
    case SC_COMM_PERMUTE:
        return n;
    case SC_COMM_ALL_TO_ALL:
        return n * n;
    default:
        return 1;
    }
}

static int64_t block_length(const sc_comm_units *units, sc_comm_kind kind, const sc_comm_part *part)
{
    bool is_divided = sc_collective_has(kind, SC_COLLECTIVE_DIVIDES);
    return is_divided ? part->count / units->group_size : part->count;
}

static int64_t piece_length(const sc_comm_units *units, const sc_comm_part *part)
{
    return units->unit_bytes / sc_dtypes[part->dtype].bytes;
}

static int64_t pieces_a_block(const sc_comm_units *units, sc_comm_kind kind,
                              const sc_comm_part *part)
{
    int64_t piece = piece_length(units, part);
    return (block_length(units, kind, part) + piece - 1) / piece;
}

void sc_comm_units_init(sc_comm_units *units, const sc_comm_request *request,
                        sc_comm_request *const *members)
{
    const sc_comm_call *c = &request->call;
    units->members = members;
    units->group_size = request->group->size;
    int64_t share = request->summary.bytes / ((int64_t)units->group_size * UNITS_A_RANK) / 64 * 64;
    units->unit_bytes = share < LEAST_UNIT ? LEAST_UNIT : share > MOST_UNIT ? MOST_UNIT : share;
    units->streams = request->summary.bytes >= STREAM_BYTES;
    units->count = 0;
    for (uint32_t i = 0; i < c->part_count; i++)
        units->count += pieces_a_block(units, c->kind, &c->parts[i]) * block_count(units, c->kind);
}

static char *destination_at(const sc_comm_units *units, uint32_t member, uint32_t part,
                            int64_t element)
{
    const sc_comm_part *p = &units->members[member]->parts[part];
    return (char *)p->destination + element * sc_dtypes[p->dtype].bytes;
}

static const char *source_at(const sc_comm_units *units, uint32_t member, uint32_t part,
                             int64_t element)
{
    const sc_comm_part *p = &units->members[member]->parts[part];
    return (const char *)p->source + element * sc_dtypes[p->dtype].bytes;
}

/* Copies with non-temporal stores: the destination is not read first, which saves a third of the
 * traffic. */
static void stream(char *to, const char *from, int64_t bytes)
{
#ifdef __SSE2__
    int64_t head = (int64_t)(-(uintptr_t)to & 15);
    head = head < bytes ? head : bytes;
    memcpy(to, from, (size_t)head);
    for (; head + 64 <= bytes; head += 64) {
        const __m128i *source = (const __m128i *)(const void *)(from + head);
        __m128i a = _mm_loadu_si128(source), b = _mm_loadu_si128(source + 1),
                c = _mm_loadu_si128(source + 2), d = _mm_loadu_si128(source + 3),
                *target = (__m128i *)(void *)(to + head);
        _mm_stream_si128(target, a);
        _mm_stream_si128(target + 1, b);
        _mm_stream_si128(target + 2, c);
        _mm_stream_si128(target + 3, d);
    }
    memcpy(to + head, from + head, (size_t)(bytes - head));
#else
    memcpy(to, from, (size_t)bytes);
#endif
}

/* `is_cold`: the destination is in no cache. */
static void copy(const sc_comm_units *units, char *to, const char *from, int64_t bytes,
                 bool is_cold)
{
    if (to == from)
        return;
    if (units->streams && is_cold)
        stream(to, from, bytes);
    else
        memcpy(to, from, (size_t)bytes);
}

/* Copies `source` to element `at` of every member's destination. The source is one of them, or
 * overlaps none. */
static void copy_to_all(const sc_comm_units *units, uint32_t part, const char *source, int64_t at,
                        int64_t bytes)
{
    for (int64_t done = 0; done < bytes; done += COPY_BYTES) {
        int64_t some = bytes - done < COPY_BYTES ? bytes - done : COPY_BYTES;
        for (uint32_t i = 0; i < units->group_size; i++)
            copy(units, destination_at(units, i, part, at) + done, source + done, some, true);
    }
}

/* Reduces elements from `at` on, of all sources, to element `to` on of the destinations of members
 * first_member .. end_member - 1, a range at a time. All sources of a range are read before any
 * destination of it is written, because they may be the same. */
static void reduce_to(const sc_comm_units *units, const sc_comm_call *c, uint32_t part, int64_t at,
                      int64_t to, int64_t length, uint32_t first_member, uint32_t end_member)
{
    const void *sources[SC_COMM_MAX_LOCAL_RANKS];
    _Alignas(64) char result[COPY_BYTES];
    sc_dtype dtype = c->parts[part].dtype;
    int64_t bytes = sc_dtypes[dtype].bytes, step = COPY_BYTES / bytes;
    for (int64_t done = 0; done < length; done += step) {
        int64_t some = length - done < step ? length - done : step;
        for (uint32_t i = 0; i < units->group_size; i++)
            sources[i] = source_at(units, i, part, at + done);
        char *first =
            units->streams ? result : destination_at(units, first_member, part, to + done);
        sc_comm_reduce_arrays(dtype, c->reduce, first, sources, units->group_size, some);
        for (uint32_t i = first_member; i < end_member; i++) {
            char *destination = destination_at(units, i, part, to + done);
            copy(units, destination, first, some * bytes, destination != sources[i]);
        }
    }
}

/* Runs elements first .. first + length - 1 of a block. */
static void run_piece(const sc_comm_units *units, const sc_comm_request *request, uint32_t part,
                      int64_t block, int64_t first, int64_t length)
{
    const sc_comm_call *c = &request->call;
    uint32_t n = units->group_size, member = (uint32_t)block;
    int64_t m = block_length(units, c->kind, &c->parts[part]),
            bytes = length * sc_dtypes[c->parts[part].dtype].bytes;
    int64_t at = block * m + first;
    switch (c->kind) {
    case SC_COMM_ALL_GATHER:
        copy_to_all(units, part, source_at(units, member, part, first), at, bytes);
        return;
    case SC_COMM_REDUCE_SCATTER:
        reduce_to(units, c, part, at, first, length, member, member + 1);
        return;
    case SC_COMM_ALL_REDUCE:
        reduce_to(units, c, part, first, first, length, 0, n);
        return;
    case SC_COMM_ALL_TO_ALL: {
        uint32_t to = (uint32_t)(block % n), from = (uint32_t)(block / n);
        const sc_comm_part *p = &units->members[from]->parts[part];
        int64_t given = p->gives == NULL ? m : p->gives[to];
        int64_t most = (given - first) * sc_dtypes[p->dtype].bytes;
        if (most > 0)
            copy(units, destination_at(units, to, part, from * m + first),
                 source_at(units, from, part, to * m + first), bytes < most ? bytes : most, true);
        return;
    }
    case SC_COMM_BROADCAST:
        copy_to_all(units, part, source_at(units, (uint32_t)c->from, part, first), first, bytes);
        return;
    case SC_COMM_PERMUTE: {
        int32_t to = units->members[member]->call.to;
        if (to != SC_COMM_NOBODY)
            copy(units, destination_at(units, (uint32_t)to, part, first),
                 source_at(units, member, part, first), bytes, true);
        return;
    }
    case SC_COMM_SEND:
    case SC_COMM_RECV: {
        uint32_t from = (uint32_t)((request->lane - 1) / n),
                 to = (uint32_t)((request->lane - 1) % n);
        copy(units, destination_at(units, to, part, first), source_at(units, from, part, first),
             bytes, true);
        return;
    }
    default:
        return;
    }
}

void sc_comm_units_run(const sc_comm_units *units, const sc_comm_request *request,
                       sc_comm_cursor *cursor, int64_t unit)
{
    const sc_comm_call *c = &request->call;
    int64_t blocks = block_count(units, c->kind),
            pieces = pieces_a_block(units, c->kind, &c->parts[cursor->part]);
    while (unit - cursor->before >= pieces * blocks) {
        cursor->before += pieces * blocks;
        pieces = pieces_a_block(units, c->kind, &c->parts[++cursor->part]);
    }
    const sc_comm_part *part = &c->parts[cursor->part];
    int64_t block = (unit - cursor->before) / pieces, piece = piece_length(units, part),
            first = (unit - cursor->before) % pieces * piece,
            rest = block_length(units, c->kind, part) - first;
    run_piece(units, request, cursor->part, block, first, rest < piece ? rest : piece);
#ifdef __SSE2__
    if (units->streams)
        _mm_sfence(); /* non-temporal stores must be visible before the unit counts as done */
#endif
}
