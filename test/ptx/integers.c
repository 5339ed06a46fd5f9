/* Integers, bits and moves: integer_forms.def's rows. */
#include "test/ptx/decode.h"
#include "test/ptx/lanes.h"

__extension__ typedef unsigned __int128 wide;
__extension__ typedef __int128 wide_signed;

/* ---- carries ---- */

static inline uint32_t carry(const sc_ptx_warp *w, uint32_t l)
{
    return w->carry >> l & 1;
}

static inline void set_carry(sc_ptx_warp *w, uint32_t l, bool is_set)
{
    uint32_t bit = (uint32_t)1 << l & w->active;
    w->carry = is_set ? w->carry | bit : w->carry & ~bit;
}

static inline uint32_t add32(sc_ptx_warp *w, uint32_t l, uint32_t a, uint32_t b, uint32_t in,
                             bool sets)
{
    uint64_t sum = (uint64_t)a + b + in;
    if (sets)
        set_carry(w, l, sum >> 32 != 0);
    return (uint32_t)sum;
}

static inline uint64_t add64(sc_ptx_warp *w, uint32_t l, uint64_t a, uint64_t b, uint32_t in,
                             bool sets)
{
    wide sum = (wide)a + b + in;
    if (sets)
        set_carry(w, l, sum >> 64 != 0);
    return (uint64_t)sum;
}

/* What is borrowed is CC.CF. */
static inline uint32_t sub32(sc_ptx_warp *w, uint32_t l, uint32_t a, uint32_t b, uint32_t in,
                             bool sets)
{
    if (sets)
        set_carry(w, l, a < (uint64_t)b + in);
    return a - b - in;
}

/* ---- bits ---- */

/* bfi: `count` bits of a, from bit `at` of b on. */
static inline uint64_t insert(uint64_t a, uint64_t b, uint32_t at, uint32_t count, uint32_t width)
{
    at &= 0xff;
    count &= 0xff;
    if (at >= width || count == 0)
        return b;
    uint64_t ones = count >= width ? ~(uint64_t)0 : ((uint64_t)1 << count) - 1, mask = ones << at;
    return (b & ~mask) | (a << at & mask);
}

/* bfe: `count` bits from `at` on; beyond the register are its sign's, or zeros. */
static inline uint64_t extract(uint64_t a, uint32_t at, uint32_t count, uint32_t width,
                               bool is_signed)
{
    at &= 0xff;
    count &= 0xff;
    if (count == 0)
        return 0;
    uint32_t last = at + count - 1 < width - 1 ? at + count - 1 : width - 1;
    uint64_t sign = is_signed && (a >> last & 1) != 0 ? ~(uint64_t)0 : 0, r = sign;
    for (uint32_t k = 0; k < count && k < width; k++) {
        uint64_t bit = at + k < width ? a >> (at + k) & 1 : sign & 1;
        r = (r & ~((uint64_t)1 << k)) | bit << k;
    }
    return r;
}

/* prmt, without a mode: each half byte of c picks one of 8 bytes, or with bit 3 its sign. */
static inline uint32_t permute(uint32_t a, uint32_t b, uint32_t c)
{
    uint64_t bytes = (uint64_t)b << 32 | a;
    uint32_t r = 0;
    for (uint32_t k = 0; k < 4; k++) {
        uint32_t pick = c >> (4 * k) & 0xf, byte = (uint32_t)(bytes >> (8 * (pick & 7))) & 0xff;
        r |= ((pick & 8) != 0 ? (byte >> 7) * 0xffu : byte) << (8 * k);
    }
    return r;
}

static inline uint64_t reversed(uint64_t a)
{
    uint64_t r = 0;
    for (uint32_t k = 0; k < 64; k++)
        r |= (a >> k & 1) << (63 - k);
    return r;
}

/* dp2a: the two halves of a times two bytes of b, from bit `first` on, and c. */
static inline uint32_t dot2(uint32_t a, uint32_t b, uint32_t c, uint32_t first, bool a_signed,
                            bool b_signed)
{
    for (uint32_t k = 0; k < 2; k++) {
        uint32_t x = a >> (16 * k) & 0xffff, y = b >> (first + 8 * k) & 0xff;
        x = a_signed ? (uint32_t)(int32_t)(int16_t)x : x;
        y = b_signed ? (uint32_t)(int32_t)(int8_t)y : y;
        c += x * y;
    }
    return c;
}

#define FORM1  SC_PTX_FORM1
#define FORM2  SC_PTX_FORM2
#define FORM3  SC_PTX_FORM3
#define FORM4  SC_PTX_FORM4
#define SELECT SC_PTX_SELECT
#define BITS1  SC_PTX_BITS1
#define BITS2  SC_PTX_BITS2
#include "test/ptx/integer_forms.def"
#undef FORM1
#undef FORM2
#undef FORM3
#undef FORM4
#undef SELECT
#undef BITS1
#undef BITS2

#define FORM1  SC_PTX_ROW1
#define FORM2  SC_PTX_ROW2
#define FORM3  SC_PTX_ROW3
#define FORM4  SC_PTX_ROW4
#define SELECT SC_PTX_SELECT_ROW
#define BITS1  SC_PTX_BITS1_ROW
#define BITS2  SC_PTX_BITS2_ROW
const sc_ptx_form sc_ptx_integer_forms[] = {
#include "test/ptx/integer_forms.def"
};
const uint32_t sc_ptx_integer_form_count =
    sizeof sc_ptx_integer_forms / sizeof *sc_ptx_integer_forms;

/* ---- several widths ---- */

/* The lanes of `count` narrower operands, the first in the low bits. NVRTC packs what it will only
 * read the lower half of, and leaves the other operand without a value. */
void sc_ptx_pack(sc_ptx_warp *w, const sc_ptx_inst *i)
{
    uint32_t bytes = i->in[0].bytes, whole = i->out[0].bytes;
    unsigned char r[SC_PTX_LANES * sizeof(uint64_t)];
    w->half = SC_PTX_ALL;
    for (uint32_t k = 0; k < i->in_count; k++) {
        const unsigned char *from = sc_ptx_in(w, i, k);
        w->half &= (k + 1) * bytes <= sizeof(uint32_t) ? sc_ptx_in_set(w, i, k) : SC_PTX_ALL;
        SC_PTX_EACH memcpy(r + (size_t)l * whole + (size_t)k * bytes, from + (size_t)l * bytes,
                           bytes);
    }
    sc_ptx_out(w, i, 0, r);
}

void sc_ptx_unpack(sc_ptx_warp *w, const sc_ptx_inst *i)
{
    uint32_t bytes = i->out[0].bytes, whole = i->in[0].bytes;
    unsigned char from[SC_PTX_LANES * sizeof(uint64_t)], r[SC_PTX_LANES * sizeof(uint32_t)];
    memcpy(from, sc_ptx_in(w, i, 0), (size_t)whole * SC_PTX_LANES);
    uint32_t set = sc_ptx_in_set(w, i, 0), low = sc_ptx_in_low(w, i, 0);
    for (uint32_t k = 0; k < i->out_count; k++) {
        SC_PTX_EACH memcpy(r + (size_t)l * bytes, from + (size_t)l * whole + (size_t)k * bytes,
                           bytes);
        w->defined = (k + 1) * bytes <= sizeof(uint32_t) ? low : set;
        sc_ptx_out(w, i, k, r);
    }
}

/* cvt between integers: what is wider is filled with the sign, or zeros; a register that is wider
 * than the result's type, too. */
void sc_ptx_convert_integer(sc_ptx_warp *w, const sc_ptx_inst *i)
{
    uint32_t from_bits = 8u * sc_ptx_types[i->from_type].bytes,
             to_bits = 8u * sc_ptx_types[i->type].bytes, in = i->in[0].bytes, out = i->out[0].bytes;
    bool from_signed = sc_ptx_types[i->from_type].name[0] == 's',
         to_signed = sc_ptx_types[i->type].name[0] == 's';
    const unsigned char *from = sc_ptx_in(w, i, 0);
    unsigned char r[SC_PTX_LANES * sizeof(uint64_t)];
    if (to_bits <= 32)
        w->defined = sc_ptx_in_low(w, i, 0);
    SC_PTX_EACH
    {
        uint64_t value = 0;
        memcpy(&value, from + (size_t)l * in, in);
        value <<= 64 - from_bits;
        value = from_signed ? (uint64_t)((int64_t)value >> (64 - from_bits))
                            : value >> (64 - from_bits);
        value <<= 64 - to_bits;
        value = to_signed ? (uint64_t)((int64_t)value >> (64 - to_bits)) : value >> (64 - to_bits);
        memcpy(r + (size_t)l * out, &value, out);
    }
    sc_ptx_out(w, i, 0, r);
}
