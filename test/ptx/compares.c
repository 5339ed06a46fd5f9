/* setp: compare.def's rows. */
#include "test/ptx/lanes.h"

/* 32 bytes of 0 and 1 as bits. */
static inline uint32_t bits_of(const uint8_t *holds)
{
    uint32_t bits = 0;
    for (uint32_t k = 0; k < 4; k++) {
        uint64_t eight;
        memcpy(&eight, holds + (size_t)8 * k, sizeof eight);
        bits |= (uint32_t)(eight * 0x0102040810204080u >> 56) << (8 * k);
    }
    return bits;
}

/* A connective with a third predicate, whose lanes with a value are `set`: the result, and the
 * lanes that have one. */
static uint32_t connect(uint32_t how, uint32_t a, uint32_t sa, uint32_t b, uint32_t sb,
                        uint32_t *set)
{
    enum { AND = 1, OR };
    *set = (sa & sb) | (how == AND ? (sa & ~a) | (sb & ~b) : how == OR ? (sa & a) | (sb & b) : 0);
    return how == AND ? a & b : how == OR ? a | b : a ^ b;
}

/* `what`: the connective, + 4 where the third predicate is negated. */
static void finish(sc_ptx_warp *w, const sc_ptx_inst *i, const uint8_t *holds)
{
    uint32_t bits = bits_of(holds), other = ~bits, set = w->defined, other_set = set;
    if (i->what != 0) {
        uint32_t with = sc_ptx_in_bits(w, i, 2) ^ ((i->what & 4) != 0 ? SC_PTX_ALL : 0),
                 compared = sc_ptx_in_set(w, i, 0) & sc_ptx_in_set(w, i, 1),
                 with_set = sc_ptx_in_set(w, i, 2);
        bits = connect(i->what & 3, bits, compared, with, with_set, &set);
        other = connect(i->what & 3, other, compared, with, with_set, &other_set);
    }
    w->defined = set;
    sc_ptx_out_bits(w, i, 0, bits);
    w->defined = other_set;
    if (i->out_count > 1)
        sc_ptx_out_bits(w, i, 1, other);
}

#define COMPARE(name, type, ...)                                                                   \
    SC_PTX_WIDE static void compare_##name##_##type(sc_ptx_warp *w, const sc_ptx_inst *i)          \
    {                                                                                              \
        const c_##type *pa = sc_ptx_in(w, i, 0), *pb = sc_ptx_in(w, i, 1);                         \
        uint8_t holds[SC_PTX_LANES];                                                               \
        SC_PTX_EACH                                                                                \
        {                                                                                          \
            const c_##type a = pa[l], b = pb[l];                                                   \
            holds[l] = (uint8_t)(__VA_ARGS__);                                                     \
        }                                                                                          \
        finish(w, i, holds);                                                                       \
    }
#include "test/ptx/compare.def"
#undef COMPARE

#define COMPARE(name, type, ...) {#name, #type, compare_##name##_##type},
const sc_ptx_compare sc_ptx_compares[] = {
#include "test/ptx/compare.def"
};
const uint32_t sc_ptx_compare_count = sizeof sc_ptx_compares / sizeof *sc_ptx_compares;
