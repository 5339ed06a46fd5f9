/* cp.async: a lane's copies since its last commit are a group; wait_group N ends all but its newest
 * N. The bytes arrive when they are issued, or as late as that. */
#include <stdlib.h>

#include "test/ptx/internal.h"

/* Where a copy's bytes go, with their shadows. */
static unsigned char *goal_of(sc_ptx_warp *w, const sc_ptx_inst *i, const sc_ptx_copy *c,
                              sc_ptx_byte **bytes)
{
    sc_ptx_space space = SC_PTX_SHARED;
    return sc_ptx_resolve(w, i, c->lane, &space, c->to, c->size, bytes);
}

/* The first `bytes` of its size come from global memory, the others are zeros. The source is a
 * multiple of the size, so that its pieces, from the largest on, are of theirs. */
static bool arrive(sc_ptx_warp *w, const sc_ptx_inst *i, const sc_ptx_copy *c, unsigned char *to)
{
    unsigned char all[16] = {0};
    uint32_t k = 0;
    for (uint32_t piece = c->size; piece > 0; piece /= 2) {
        if (k + piece > c->bytes)
            continue;
        const unsigned char *from = sc_ptx_read(w, i, c->lane, SC_PTX_GLOBAL, c->from + k, piece);
        if (from == NULL)
            return false;
        memcpy(all + k, from, piece);
        k += piece;
    }
    memcpy(to, all, c->size);
    return true;
}

static void add(sc_ptx_warp *w, const sc_ptx_inst *i, const sc_ptx_copy *c)
{
    if (w->copy_count == w->copy_room) {
        w->copy_room = 2 * w->copy_room + 64;
        w->copies = realloc(w->copies, w->copy_room * sizeof *w->copies);
        if (w->copies == NULL)
            abort();
    }
    sc_ptx_byte *bytes;
    unsigned char *to = goal_of(w, i, c, &bytes);
    if (to == NULL || !sc_ptx_order_write(w, i, c->lane, bytes, c->size, true))
        return;
    for (uint32_t k = 0; k < c->size; k++)
        bytes[k].copying = (uint16_t)(w->index * SC_PTX_LANES + c->lane + 1);
    w->copies[w->copy_count++] = *c;
    if (w->b->launch->copies == SC_MACHINE_COPY_AT_ISSUE)
        (void)arrive(w, i, c, to);
    else
        memset(to, 0xff, c->size);
}

void sc_ptx_copy_async(sc_ptx_warp *w, const sc_ptx_inst *i)
{
    for (uint32_t l = 0; l < SC_PTX_LANES && !w->b->failed; l++) {
        if ((w->active >> l & 1) == 0)
            continue;
        sc_ptx_copy c = {.to = sc_ptx_in_lane(w, i, 0, l),
                         .from = sc_ptx_in_lane(w, i, 1, l),
                         .bytes = i->vector,
                         .group = w->groups[l],
                         .size = i->vector,
                         .lane = (uint8_t)l};
        if (i->in_count > 2)
            c.bytes = (uint32_t)sc_ptx_in_lane(w, i, 2, l);
        if (c.bytes > c.size)
            sc_ptx_fail(w, i, l, "of %u bytes %u are copied", c.size, c.bytes);
        else if (c.from % c.size != 0)
            sc_ptx_fail(w, i, l, "the address %llx of %u bytes is no multiple of that",
                        (unsigned long long)c.from, c.size);
        else
            add(w, i, &c);
    }
}

void sc_ptx_copy_commit(sc_ptx_warp *w, const sc_ptx_inst *i)
{
    (void)i;
    for (uint32_t l = 0; l < SC_PTX_LANES; l++)
        w->groups[l] += w->active >> l & 1;
}

static bool end(sc_ptx_warp *w, const sc_ptx_inst *i, const sc_ptx_copy *c)
{
    sc_ptx_byte *bytes;
    unsigned char *to = goal_of(w, i, c, &bytes);
    if (to == NULL)
        return false;
    for (uint32_t k = 0; k < c->size; k++)
        bytes[k].copying = 0;
    return sc_ptx_order_write(w, i, c->lane, bytes, c->size, true) &&
           (w->b->launch->copies == SC_MACHINE_COPY_AT_ISSUE || arrive(w, i, c, to));
}

/* `what` 1: of all, committed or not; else all but the newest `offset` groups. */
void sc_ptx_copy_wait(sc_ptx_warp *w, const sc_ptx_inst *i)
{
    uint32_t kept = 0;
    for (uint32_t k = 0; k < w->copy_count; k++) {
        const sc_ptx_copy c = w->copies[k];
        bool ends = (w->active >> c.lane & 1) != 0 &&
                    (i->what == 1 || c.group + i->offset < w->groups[c.lane]);
        if (!ends)
            w->copies[kept++] = c;
        else if (!end(w, i, &c))
            return;
    }
    w->copy_count = kept;
}

void sc_ptx_copies_drop(sc_ptx_warp *w)
{
    for (uint32_t k = 0; k < w->copy_count; k++) {
        uint64_t at = w->copies[k].to;
        at -= at >= SC_PTX_SHARED_STATIC ? SC_PTX_SHARED_STATIC - w->b->dynamic_bytes
                                         : SC_PTX_SHARED_FIRST;
        for (uint32_t n = 0; n < w->copies[k].size; n++)
            w->b->shared_bytes[at + n].copying = 0;
    }
    w->copy_count = 0;
}
