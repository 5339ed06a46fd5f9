/* cp.async.bulk and cp.async.bulk.tensor (PTX ISA, "Data Movement and Conversion Instructions: Bulk
 * copy"): loads complete bytes of an mbarrier, stores are groups of the thread that issues them.
 * They run when they are issued, or as late as somebody waits for them. */
#include <stdlib.h>

#include "test/ptx/async.h"

enum { CHUNK = 16 };

/* ---- one copy ---- */

/* The issuing thread's view, with the async proxy's hands. */
static sc_ptx_actor issuer(const sc_ptx_warp *w, uint32_t lane)
{
    sc_ptx_actor actor = sc_ptx_thread(w, lane);
    actor.is_async = true;
    return actor;
}

/* PTX ISA, "Swizzling modes": chunks of 16 bytes are exchanged within a row of the pattern, by the
 * row's number: bits 4.. of the address ^= bits 7.. . */
static uint64_t swizzled(const sc_ptx_bulk *k, uint64_t at)
{
    uint64_t mask = k->is_tensor && k->map.swizzle != 0 ? k->map.swizzle / CHUNK - 1u : 0;
    return at ^ (at >> 7 & mask) << 4;
}

static sc_ptx_byte *shadows(sc_ptx_warp *w, const sc_ptx_bulk *k, uint64_t at,
                            unsigned char **memory)
{
    sc_ptx_space space = SC_PTX_SHARED;
    sc_ptx_byte *bytes;
    *memory = sc_ptx_resolve(w, k->inst, k->lane, &space, at, CHUNK, &bytes);
    return *memory == NULL ? NULL : bytes;
}

/* An element's address in global memory; false: it is outside of the tensor. */
static bool element_at(const sc_ptx_bulk *k, uint32_t number, uint64_t *at)
{
    const sc_ptx_tensor_map *m = &k->map;
    *at = m->address;
    for (uint32_t d = 0; d < m->rank; d++) {
        int64_t place = k->place[d] + (int64_t)(number % m->box[d]);
        number /= m->box[d];
        if (place < 0 || (uint64_t)place >= m->sizes[d])
            return false;
        *at += (uint64_t)place * (d == 0 ? m->element_bytes : m->strides[d - 1]);
    }
    return true;
}

/* The chunk's 16 bytes in global memory, an element at a time. */
static bool move_chunk(sc_ptx_warp *w, const sc_ptx_bulk *k, uint32_t offset, unsigned char *chunk)
{
    const sc_ptx_actor actor = issuer(w, k->lane);
    uint32_t size = k->is_tensor ? k->map.element_bytes : CHUNK;
    for (uint32_t part = 0; part < CHUNK; part += size) {
        uint64_t at = k->global + offset;
        bool inside = !k->is_tensor || element_at(k, (offset + part) / size, &at);
        if (!inside && !k->is_store)
            memset(chunk + part, k->map.nan_fill ? 0xff : 0, size);
        if (!inside)
            continue;
        unsigned char *to = NULL;
        const unsigned char *from = NULL;
        if (k->is_store)
            to = sc_ptx_write_as(w, k->inst, k->lane, &actor, SC_PTX_GLOBAL, at, size);
        else
            from = sc_ptx_read_as(w, k->inst, k->lane, &actor, SC_PTX_GLOBAL, at, size);
        if (to != NULL)
            memcpy(to, chunk + part, size);
        else if (from != NULL)
            memcpy(chunk + part, from, size);
        else
            return false;
    }
    return true;
}

static void load(sc_ptx_warp *w, const sc_ptx_bulk *k)
{
    sc_ptx_async *a = w->b->async;
    a->copies++;
    const sc_ptx_actor agent = {
        .self = sc_ptx_bulk_agent(w->b), .clock = a->copies, .is_async = true};
    for (uint32_t offset = 0; offset < k->bytes; offset += CHUNK) {
        unsigned char *to, chunk[CHUNK];
        sc_ptx_byte *bytes = shadows(w, k, swizzled(k, k->shared + offset), &to);
        if (bytes == NULL || !move_chunk(w, k, offset, chunk))
            return;
        memcpy(to, chunk, CHUNK);
        for (uint32_t n = 0; n < CHUNK; n++)
            bytes[n].copying = 0;
        sc_ptx_note_write(w, k->inst, &agent, bytes, CHUNK);
    }
    sc_ptx_mbarrier *m = sc_ptx_mbarrier_at(w, k->inst, k->lane, k->mbarrier);
    if (m != NULL)
        sc_ptx_mbarrier_complete(w, k->inst, k->lane, m, k->bytes);
}

static void store(sc_ptx_warp *w, sc_ptx_bulk *k)
{
    sc_ptx_async *a = w->b->async;
    k->clock = ++a->copies;
    const sc_ptx_actor agent = {
        .self = sc_ptx_bulk_agent(w->b), .clock = k->clock, .known = k->known, .is_async = true};
    for (uint32_t offset = 0; offset < k->bytes; offset += CHUNK) {
        unsigned char chunk[CHUNK];
        const unsigned char *from = sc_ptx_read_as(w, k->inst, k->lane, &agent, SC_PTX_SHARED,
                                                   swizzled(k, k->shared + offset), CHUNK);
        if (from == NULL)
            return;
        memcpy(chunk, from, CHUNK);
        if (!move_chunk(w, k, offset, chunk))
            return;
    }
}

/* ---- issue ---- */

static sc_ptx_bulk *add(sc_ptx_async *a, const sc_ptx_bulk *k)
{
    if (a->bulk_count == a->bulk_room) {
        a->bulk_room = 2 * a->bulk_room + 16;
        a->bulks = realloc(a->bulks, a->bulk_room * sizeof *a->bulks);
        if (a->bulks == NULL)
            abort();
    }
    sc_ptx_bulk *to = &a->bulks[a->bulk_count++];
    *to = *k;
    return to;
}

static bool read_map(sc_ptx_warp *w, const sc_ptx_inst *i, uint32_t lane, uint64_t at,
                     sc_ptx_tensor_map *out)
{
    unsigned char bytes[SC_PTX_TENSOR_MAP_BYTES];
    for (uint32_t k = 0; k < SC_PTX_TENSOR_MAP_BYTES; k += 64) {
        const unsigned char *from = sc_ptx_read(w, i, lane, SC_PTX_GENERIC, at + k, 64);
        if (from == NULL)
            return false;
        memcpy(bytes + k, from, 64);
    }
    memcpy(out, bytes, sizeof *out);
    const char *why = out->magic != SC_PTX_TENSOR_MAGIC ? "cuTensorMapEncodeTiled did not write it"
                                                        : sc_ptx_tensor_map_check(out);
    if (why != NULL)
        sc_ptx_fail(w, i, lane, "this is no tensor map: %s", why);
    else if (out->rank != i->vector)
        sc_ptx_fail(w, i, lane, "the tensor map has %u dims, not %u", out->rank, i->vector);
    return !w->b->failed;
}

/* Operands: a load has the place in shared memory, its source, and the mbarrier last; a store its
 * goal and the place in shared memory. A tensor's side is a map and coordinates, else an address,
 * and behind both the size is. `vector`: dims of the tensor, 0: none. */
static bool describe(sc_ptx_warp *w, const sc_ptx_inst *i, uint32_t lane, bool is_store,
                     sc_ptx_bulk *k)
{
    uint32_t dims = i->vector, side = is_store ? 0 : 1, shared = is_store ? 1 + dims : 0;
    uint64_t given = sc_ptx_in_lane(w, i, side, lane);
    *k = (sc_ptx_bulk){.inst = i,
                       .warp = w->index,
                       .lane = lane,
                       .is_store = is_store,
                       .is_tensor = dims > 0,
                       .group = w->bulk_groups[lane],
                       .shared = sc_ptx_in_lane(w, i, shared, lane),
                       .global = given};
    if (!is_store)
        k->mbarrier = sc_ptx_in_lane(w, i, i->in_count - 1u, lane);
    if (dims == 0) {
        k->bytes = (uint32_t)sc_ptx_in_lane(w, i, 2, lane);
    } else {
        if (!read_map(w, i, lane, given, &k->map))
            return false;
        k->bytes = k->map.element_bytes;
        for (uint32_t d = 0; d < dims; d++) {
            k->place[d] = (int32_t)sc_ptx_in_lane(w, i, side + 1 + d, lane);
            k->bytes *= k->map.box[d];
        }
    }
    uint32_t align = dims > 0 ? 128 : CHUNK;
    if (k->bytes == 0 || k->bytes % CHUNK != 0)
        sc_ptx_fail(w, i, lane, "%u bytes are no multiple of 16", k->bytes);
    else if (k->shared % align != 0 || (dims == 0 && k->global % CHUNK != 0))
        sc_ptx_fail(w, i, lane, "an address of a bulk copy is no multiple of %u", align);
    return !w->b->failed;
}

/* The bytes that it writes are nobody's from now on. */
static bool claim(sc_ptx_warp *w, const sc_ptx_bulk *k)
{
    const sc_ptx_actor actor = issuer(w, k->lane);
    for (uint32_t offset = 0; offset < k->bytes; offset += CHUNK) {
        unsigned char *to;
        sc_ptx_byte *bytes = shadows(w, k, k->shared + offset, &to);
        if (bytes == NULL ||
            !sc_ptx_order_write_as(w, k->inst, k->lane, &actor, bytes, CHUNK, true))
            return false;
        for (uint32_t n = 0; n < CHUNK; n++)
            bytes[n].copying = (uint16_t)sc_ptx_bulk_agent(w->b);
        memset(to, 0xff, CHUNK);
    }
    return true;
}

void sc_ptx_bulk_load(sc_ptx_warp *w, const sc_ptx_inst *i)
{
    for (uint32_t l = 0; l < SC_PTX_LANES && !w->b->failed; l++) {
        sc_ptx_bulk k;
        if ((w->active >> l & 1) == 0)
            continue;
        if (!describe(w, i, l, false, &k) || sc_ptx_mbarrier_at(w, i, l, k.mbarrier) == NULL ||
            !claim(w, &k))
            return;
        if (w->b->launch->copies == SC_MACHINE_COPY_AT_ISSUE)
            load(w, &k);
        else
            (void)add(w->b->async, &k);
    }
}

void sc_ptx_bulk_store(sc_ptx_warp *w, const sc_ptx_inst *i)
{
    const sc_ptx_async *a = w->b->async;
    for (uint32_t l = 0; l < SC_PTX_LANES && !w->b->failed; l++) {
        sc_ptx_bulk k;
        if ((w->active >> l & 1) == 0)
            continue;
        if (!describe(w, i, l, true, &k))
            return;
        k.known = malloc(a->agents * sizeof *k.known);
        if (k.known == NULL)
            abort();
        memcpy(k.known, issuer(w, l).known, a->agents * sizeof *k.known);
        sc_ptx_bulk *kept = add(w->b->async, &k);
        if (w->b->launch->copies == SC_MACHINE_COPY_AT_ISSUE)
            store(w, kept);
    }
}

/* ---- the end ---- */

static void drop(sc_ptx_async *a, uint32_t index)
{
    free(a->bulks[index].known);
    a->bulk_count--;
    memmove(a->bulks + index, a->bulks + index + 1, (a->bulk_count - index) * sizeof *a->bulks);
}

bool sc_ptx_bulk_arrive_one(sc_ptx_block *b)
{
    sc_ptx_async *a = b->async;
    bool last_first = b->launch->schedule == SC_MACHINE_WARPS_REVERSED;
    for (uint32_t n = 0; n < a->bulk_count; n++) {
        uint32_t index = last_first ? a->bulk_count - 1 - n : n;
        if (a->bulks[index].is_store)
            continue;
        const sc_ptx_bulk k = a->bulks[index];
        drop(a, index);
        load(&b->warps[k.warp], &k);
        return true;
    }
    return false;
}

void sc_ptx_bulk_commit(sc_ptx_warp *w, const sc_ptx_inst *i)
{
    (void)i;
    for (uint32_t l = 0; l < SC_PTX_LANES; l++)
        w->bulk_groups[l] += w->active >> l & 1;
}

/* All of the lane's stores but its newest `offset` groups are done; with .read only their sources
 * are read, and the goal is written then, too, which is allowed. */
void sc_ptx_bulk_wait(sc_ptx_warp *w, const sc_ptx_inst *i)
{
    sc_ptx_async *a = w->b->async;
    for (uint32_t n = 0; n < a->bulk_count && !w->b->failed;) {
        sc_ptx_bulk *k = &a->bulks[n];
        bool ends = k->is_store && k->warp == w->index && (w->active >> k->lane & 1) != 0 &&
                    k->group + i->offset < w->bulk_groups[k->lane];
        if (!ends) {
            n++;
            continue;
        }
        if (k->clock == 0)
            store(w, k);
        uint32_t thread = w->index * SC_PTX_LANES + k->lane,
                 *known = a->known + (size_t)thread * a->agents + sc_ptx_bulk_agent(w->b) - 1;
        *known = *known > k->clock ? *known : k->clock;
        drop(a, n);
    }
}
