/* State spaces, loads, stores and atomics. */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>

#include "test/ptx/async.h"

/* ---- where a byte is ---- */

static unsigned char *in_shared(sc_ptx_warp *w, const sc_ptx_inst *i, uint32_t lane, uint64_t at,
                                uint32_t count, sc_ptx_byte **bytes)
{
    sc_ptx_block *b = w->b;
    bool is_static = at >= SC_PTX_SHARED_STATIC;
    uint64_t first = is_static ? b->dynamic_bytes : 0,
             end = is_static ? b->all_shared : b->launch->shared_bytes,
             place = at - (is_static ? SC_PTX_SHARED_STATIC : SC_PTX_SHARED_FIRST) + first;
    if (place < first || place > end || count > end - place) {
        sc_ptx_fail(w, i, lane, "%u bytes from %lld on are not in the block's %u of shared memory",
                    count, (long long)(at - SC_PTX_SHARED_FIRST), b->launch->shared_bytes);
        return NULL;
    }
    *bytes = b->shared_bytes + place;
    return b->shared + place;
}

static sc_ptx_byte *shadow_of(sc_ptx_block *b, const sc_machine_array *array)
{
    uint32_t number = (uint32_t)(array - b->arrays);
    if (b->touched[number] == NULL) {
        void *made = mmap(NULL, array->bytes * sizeof(sc_ptx_byte), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        b->touched[number] = made == MAP_FAILED ? NULL : made;
    }
    return b->touched[number];
}

static bool is_in(const sc_machine_array *array, uint64_t at, uint32_t count)
{
    uint64_t place = at - (uint64_t)(uintptr_t)array->data;
    return place <= array->bytes && count <= array->bytes - place;
}

static unsigned char *in_global(sc_ptx_warp *w, const sc_ptx_inst *i, uint32_t lane, uint64_t at,
                                uint32_t count, sc_ptx_byte **bytes)
{
    sc_ptx_block *b = w->b;
    if (is_in(&b->module->variables, at, count)) {
        *bytes = NULL;
        b->last = &b->variables;
        return (unsigned char *)(uintptr_t)at;
    }
    if (b->last == NULL || !is_in(b->last, at, count)) {
        sc_machine_array *array =
            sc_machine_array_of(b->arrays, b->array_count, (const void *)(uintptr_t)at);
        if (array == NULL) {
            sc_ptx_fail(w, i, lane, "the address %llx is in no array", (unsigned long long)at);
            return NULL;
        }
        if (!is_in(array, at, count)) {
            sc_ptx_fail(w, i, lane, "%u bytes from %lld on are not in %s, which has %zu", count,
                        (long long)(at - (uint64_t)(uintptr_t)array->data), array->name,
                        array->bytes);
            return NULL;
        }
        b->last = array;
    }
    *bytes = NULL;
    if (!b->launch->bounds_only) {
        sc_ptx_byte *shadow = shadow_of(b, b->last);
        *bytes = shadow == NULL ? NULL : shadow + (at - (uint64_t)(uintptr_t)b->last->data);
    }
    return (unsigned char *)(uintptr_t)at;
}

static unsigned char *in_small(sc_ptx_warp *w, const sc_ptx_inst *i, uint32_t lane,
                               unsigned char *memory, uint64_t end, uint64_t at, uint32_t count,
                               const char *name)
{
    if (at <= end && count <= end - at)
        return memory + at;
    sc_ptx_fail(w, i, lane, "%u bytes from %llu on are not in %s", count, (unsigned long long)at,
                name);
    return NULL;
}

unsigned char *sc_ptx_resolve(sc_ptx_warp *w, const sc_ptx_inst *i, uint32_t lane,
                              sc_ptx_space *space, uint64_t at, uint32_t count, sc_ptx_byte **bytes)
{
    sc_ptx_block *b = w->b;
    *bytes = NULL;
    if ((at & (count - 1)) != 0) {
        sc_ptx_fail(w, i, lane, "the address %llx of %u bytes is no multiple of that",
                    (unsigned long long)at, count);
        return NULL;
    }
    if (*space == SC_PTX_GENERIC) {
        *space = at >= SC_PTX_PARAM_WINDOW    ? SC_PTX_KERNEL_PARAM
                 : at >= SC_PTX_LOCAL_WINDOW  ? SC_PTX_LOCAL
                 : at >= SC_PTX_SHARED_WINDOW ? SC_PTX_SHARED
                                              : SC_PTX_GLOBAL;
        at -= *space == SC_PTX_KERNEL_PARAM ? SC_PTX_PARAM_WINDOW
              : *space == SC_PTX_LOCAL      ? SC_PTX_LOCAL_WINDOW
              : *space == SC_PTX_SHARED     ? SC_PTX_SHARED_WINDOW
                                            : 0;
    }
    switch (*space) {
    case SC_PTX_SHARED:
        return in_shared(w, i, lane, at, count, bytes);
    case SC_PTX_LOCAL:
        return in_small(w, i, lane, w->frame + (size_t)lane * b->module->frame_bytes,
                        b->module->frame_bytes, at, count, "local memory");
    case SC_PTX_KERNEL_PARAM:
        return in_small(w, i, lane, b->params, b->param_bytes, at, count, "the parameters");
    default:
        return in_global(w, i, lane, at, count, bytes);
    }
}

/* ---- what is there ---- */

static inline void copy_word(void *to, const void *from, uint32_t count)
{
    switch (count) {
    case 2:
        memcpy(to, from, 2);
        return;
    case 4:
        memcpy(to, from, 4);
        return;
    case 8:
        memcpy(to, from, 8);
        return;
    default:
        memcpy(to, from, 1);
    }
}

/* The bytes of sc_machine_alloc, in a number of at least two. */
static bool is_poison(const unsigned char *at, uint32_t count)
{
    uint32_t step = count < 4 ? count : 4, found = count < 2;
    for (uint32_t k = 0; k < count && found == 0; k += step) {
        uint32_t word = 0;
        memcpy(&word, at + k, step);
        found = 2 * (uint32_t)(word == (step == 2 ? 0x7ff5u : 0x7ff57ff5u));
    }
    return found == 2;
}

static bool may_read(sc_ptx_warp *w, const sc_ptx_inst *i, uint32_t lane, const sc_ptx_actor *actor,
                     sc_ptx_space space, const unsigned char *from, uint32_t count,
                     sc_ptx_byte *bytes)
{
    if (space == SC_PTX_LOCAL) {
        size_t at = (size_t)(from - w->frame) % w->b->module->frame_bytes;
        for (uint32_t k = 0; k < count; k++) {
            if ((w->frame_set[at + k] >> lane & 1) == 0) {
                sc_ptx_fail(w, i, lane, "it reads local memory that it has not written");
                return false;
            }
        }
    } else if (space == SC_PTX_GLOBAL && is_poison(from, count)) {
        sc_ptx_fail(w, i, lane, "it reads global memory that nobody wrote, in %s",
                    w->b->last->name);
        return false;
    }
    return bytes == NULL ||
           sc_ptx_order_read_as(w, i, lane, actor, bytes, count, space == SC_PTX_SHARED);
}

static bool may_write(sc_ptx_warp *w, const sc_ptx_inst *i, uint32_t lane,
                      const sc_ptx_actor *actor, sc_ptx_space space, const unsigned char *to,
                      uint32_t count, sc_ptx_byte *bytes)
{
    if (space == SC_PTX_LOCAL) {
        size_t at = (size_t)(to - w->frame) % w->b->module->frame_bytes;
        for (uint32_t k = 0; k < count; k++)
            w->frame_set[at + k] |= (uint32_t)1 << lane;
    } else if (space == SC_PTX_GLOBAL && w->b->last->read_only) {
        sc_ptx_fail(w, i, lane, "it writes to %s, which is read only", w->b->last->name);
        return false;
    }
    return bytes == NULL ||
           sc_ptx_order_write_as(w, i, lane, actor, bytes, count, space == SC_PTX_SHARED);
}

const unsigned char *sc_ptx_read_as(sc_ptx_warp *w, const sc_ptx_inst *i, uint32_t lane,
                                    const sc_ptx_actor *actor, sc_ptx_space space, uint64_t at,
                                    uint32_t count)
{
    sc_ptx_byte *bytes;
    unsigned char *from = sc_ptx_resolve(w, i, lane, &space, at, count, &bytes);
    return from != NULL && may_read(w, i, lane, actor, space, from, count, bytes) ? from : NULL;
}

unsigned char *sc_ptx_write_as(sc_ptx_warp *w, const sc_ptx_inst *i, uint32_t lane,
                               const sc_ptx_actor *actor, sc_ptx_space space, uint64_t at,
                               uint32_t count)
{
    sc_ptx_byte *bytes;
    unsigned char *to = sc_ptx_resolve(w, i, lane, &space, at, count, &bytes);
    return to != NULL && may_write(w, i, lane, actor, space, to, count, bytes) ? to : NULL;
}

const unsigned char *sc_ptx_read(sc_ptx_warp *w, const sc_ptx_inst *i, uint32_t lane,
                                 sc_ptx_space space, uint64_t at, uint32_t count)
{
    const sc_ptx_actor actor = sc_ptx_thread(w, lane);
    return sc_ptx_read_as(w, i, lane, &actor, space, at, count);
}

unsigned char *sc_ptx_write(sc_ptx_warp *w, const sc_ptx_inst *i, uint32_t lane, sc_ptx_space space,
                            uint64_t at, uint32_t count)
{
    const sc_ptx_actor actor = sc_ptx_thread(w, lane);
    return sc_ptx_write_as(w, i, lane, &actor, space, at, count);
}

/* ---- ld, st ---- */

static uint64_t address(const sc_ptx_warp *w, const sc_ptx_inst *i, uint32_t k, uint32_t lane)
{
    return sc_ptx_in_lane(w, i, k, lane) + (uint64_t)i->offset;
}

/* Registers that are wider than the type get its sign, or zeros. */
static void put_loaded(sc_ptx_warp *w, const sc_ptx_inst *i, uint32_t k, uint32_t bytes,
                       unsigned char raw[][16])
{
    uint32_t out = i->out[k].bytes;
    bool is_signed = sc_ptx_types[i->type].name[0] == 's';
    unsigned char r[SC_PTX_LANES * sizeof(uint64_t)];
    for (uint32_t l = 0; l < SC_PTX_LANES; l++) {
        uint64_t value = 0;
        copy_word(&value, raw[l] + (size_t)k * bytes, bytes);
        if (is_signed && bytes < 8 && out > bytes && (value >> (8 * bytes - 1) & 1) != 0)
            value |= ~(uint64_t)0 << (8 * bytes);
        copy_word(r + (size_t)l * out, &value, out);
    }
    sc_ptx_out(w, i, k, r);
}

void sc_ptx_load_memory(sc_ptx_warp *w, const sc_ptx_inst *i)
{
    uint32_t bytes = sc_ptx_types[i->type].bytes, count = bytes * i->vector;
    unsigned char raw[SC_PTX_LANES][16] = {{0}};
    for (uint32_t l = 0; l < SC_PTX_LANES; l++) {
        if ((w->active >> l & 1) == 0)
            continue;
        const unsigned char *from =
            sc_ptx_read(w, i, l, (sc_ptx_space)i->space, address(w, i, 0, l), count);
        if (from == NULL)
            return;
        if (count == 16)
            memcpy(raw[l], from, 16);
        else
            copy_word(raw[l], from, count);
    }
    for (uint32_t k = 0; k < i->vector; k++)
        put_loaded(w, i, k, bytes, raw);
}

void sc_ptx_store_memory(sc_ptx_warp *w, const sc_ptx_inst *i)
{
    uint32_t bytes = sc_ptx_types[i->type].bytes, count = bytes * i->vector;
    for (uint32_t l = 0; l < SC_PTX_LANES; l++) {
        if ((w->active >> l & 1) == 0)
            continue;
        unsigned char *to =
            sc_ptx_write(w, i, l, (sc_ptx_space)i->space, address(w, i, 0, l), count);
        if (to == NULL)
            return;
        for (uint32_t k = 0; k < i->vector; k++) {
            uint64_t value = sc_ptx_in_lane(w, i, 1 + k, l);
            copy_word(to + (size_t)k * bytes, &value, bytes);
        }
    }
}

/* ---- atomics ---- */

enum { ADD, MIN, MAX, AND, OR, XOR, EXCHANGE, COMPARE };

static uint64_t combine(const sc_ptx_inst *i, uint64_t old, uint64_t b, uint64_t c)
{
    bool is_signed = sc_ptx_types[i->type].name[0] == 's';
    uint32_t shift = 64 - 8u * sc_ptx_types[i->type].bytes;
    bool less = is_signed ? (int64_t)(b << shift) < (int64_t)(old << shift) : b < old;
    float x, y;
    uint32_t low = (uint32_t)old, bits = (uint32_t)b;
    switch (i->what) {
    case ADD:
        if (i->type != SC_PTX_f32)
            return old + b;
        memcpy(&x, &low, sizeof x);
        memcpy(&y, &bits, sizeof y);
        x += y;
        memcpy(&low, &x, sizeof low);
        return low;
    case MIN:
        return less ? b : old;
    case MAX:
        return less ? old : b;
    case AND:
        return old & b;
    case OR:
        return old | b;
    case XOR:
        return old ^ b;
    case COMPARE:
        return old == b ? c : old;
    default:
        return b;
    }
}

/* Of no account in races. */
void sc_ptx_atomic(sc_ptx_warp *w, const sc_ptx_inst *i)
{
    uint32_t bytes = sc_ptx_types[i->type].bytes;
    unsigned char r[SC_PTX_LANES * sizeof(uint64_t)] = {0};
    for (uint32_t l = 0; l < SC_PTX_LANES; l++) {
        if ((w->active >> l & 1) == 0)
            continue;
        sc_ptx_byte *shadows;
        sc_ptx_space space = (sc_ptx_space)i->space;
        unsigned char *at = sc_ptx_resolve(w, i, l, &space, address(w, i, 0, l), bytes, &shadows);
        if (at == NULL)
            return;
        uint64_t old = 0, value;
        copy_word(&old, at, bytes);
        value = combine(i, old, sc_ptx_in_lane(w, i, 1, l),
                        i->in_count > 2 ? sc_ptx_in_lane(w, i, 2, l) : 0);
        copy_word(at, &value, bytes);
        copy_word(r + (size_t)l * bytes, &old, bytes);
    }
    sc_ptx_out(w, i, 0, r);
}
