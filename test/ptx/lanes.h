/* Rows of the .def files that each lane does by itself become functions over 32 lanes: all are
 * computed, those that are active are kept. */
#ifndef SHARDC_TEST_PTX_LANES_H
#define SHARDC_TEST_PTX_LANES_H

#include "test/ptx/internal.h"

typedef uint16_t c_u16, c_b16, c_f16, c_bf16;
typedef int16_t c_s16;
typedef uint32_t c_u32, c_b32, c_f16x2, c_bf16x2;
typedef int32_t c_s32;
typedef uint64_t c_u64, c_b64;
typedef int64_t c_s64;
typedef float c_f32;
typedef double c_f64;

/* A second version for CPUs with AVX2, which is chosen when the program starts. */
#if defined __x86_64__ && defined __GNUC__ && !defined __clang__ &&                                \
    !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
#define SC_PTX_WIDE __attribute__((target_clones("arch=haswell", "default")))
#else
#define SC_PTX_WIDE
#endif

#define SC_PTX_JOIN_(a, b) a##b
#define SC_PTX_JOIN(a, b)  SC_PTX_JOIN_(a, b)
#define SC_PTX_ROW         SC_PTX_JOIN(row_, __LINE__)
#define SC_PTX_EACH        for (uint32_t l = 0; l < SC_PTX_LANES; l++)

/* A function for a row; `a` .. `d` are the operands' lanes, `l` the lane, `w` the warp. */
#define SC_PTX_FORM1(name, to, ta, ...)                                                            \
    SC_PTX_WIDE static void SC_PTX_ROW(sc_ptx_warp *w, const sc_ptx_inst *i)                       \
    {                                                                                              \
        const c_##ta *pa = sc_ptx_in(w, i, 0);                                                     \
        c_##to r[SC_PTX_LANES];                                                                    \
        SC_PTX_EACH                                                                                \
        {                                                                                          \
            const c_##ta a = pa[l];                                                                \
            r[l] = (c_##to)(__VA_ARGS__);                                                          \
        }                                                                                          \
        sc_ptx_out(w, i, 0, r);                                                                    \
    }
#define SC_PTX_FORM2(name, to, ta, tb, ...)                                                        \
    SC_PTX_WIDE static void SC_PTX_ROW(sc_ptx_warp *w, const sc_ptx_inst *i)                       \
    {                                                                                              \
        const c_##ta *pa = sc_ptx_in(w, i, 0);                                                     \
        const c_##tb *pb = sc_ptx_in(w, i, 1);                                                     \
        c_##to r[SC_PTX_LANES];                                                                    \
        SC_PTX_EACH                                                                                \
        {                                                                                          \
            const c_##ta a = pa[l];                                                                \
            const c_##tb b = pb[l];                                                                \
            r[l] = (c_##to)(__VA_ARGS__);                                                          \
        }                                                                                          \
        sc_ptx_out(w, i, 0, r);                                                                    \
    }
#define SC_PTX_FORM3(name, to, ta, tb, tc, ...)                                                    \
    SC_PTX_WIDE static void SC_PTX_ROW(sc_ptx_warp *w, const sc_ptx_inst *i)                       \
    {                                                                                              \
        const c_##ta *pa = sc_ptx_in(w, i, 0);                                                     \
        const c_##tb *pb = sc_ptx_in(w, i, 1);                                                     \
        const c_##tc *pc = sc_ptx_in(w, i, 2);                                                     \
        c_##to r[SC_PTX_LANES];                                                                    \
        SC_PTX_EACH                                                                                \
        {                                                                                          \
            const c_##ta a = pa[l];                                                                \
            const c_##tb b = pb[l];                                                                \
            const c_##tc c = pc[l];                                                                \
            r[l] = (c_##to)(__VA_ARGS__);                                                          \
        }                                                                                          \
        sc_ptx_out(w, i, 0, r);                                                                    \
    }
#define SC_PTX_FORM4(name, to, ta, tb, tc, td, ...)                                                \
    SC_PTX_WIDE static void SC_PTX_ROW(sc_ptx_warp *w, const sc_ptx_inst *i)                       \
    {                                                                                              \
        const c_##ta *pa = sc_ptx_in(w, i, 0);                                                     \
        const c_##tb *pb = sc_ptx_in(w, i, 1);                                                     \
        const c_##tc *pc = sc_ptx_in(w, i, 2);                                                     \
        const c_##td *pd = sc_ptx_in(w, i, 3);                                                     \
        c_##to r[SC_PTX_LANES];                                                                    \
        SC_PTX_EACH                                                                                \
        {                                                                                          \
            const c_##ta a = pa[l];                                                                \
            const c_##tb b = pb[l];                                                                \
            const c_##tc c = pc[l];                                                                \
            const c_##td d = pd[l];                                                                \
            r[l] = (c_##to)(__VA_ARGS__);                                                          \
        }                                                                                          \
        sc_ptx_out(w, i, 0, r);                                                                    \
    }
/* selp: the third operand is a predicate. */
#define SC_PTX_SELECT(name, type)                                                                  \
    SC_PTX_WIDE static void SC_PTX_ROW(sc_ptx_warp *w, const sc_ptx_inst *i)                       \
    {                                                                                              \
        const c_##type *pa = sc_ptx_in(w, i, 0), *pb = sc_ptx_in(w, i, 1);                         \
        const uint32_t bits = sc_ptx_in_bits(w, i, 2);                                             \
        c_##type r[SC_PTX_LANES];                                                                  \
        SC_PTX_EACH r[l] = (bits >> l & 1) != 0 ? pa[l] : pb[l];                                   \
        w->defined = sc_ptx_in_set(w, i, 2) &                                                      \
                     ((bits & sc_ptx_in_set(w, i, 0)) | (~bits & sc_ptx_in_set(w, i, 1)));         \
        sc_ptx_out(w, i, 0, r);                                                                    \
    }
/* Of predicates, all lanes at once: `sa`, `sb` are the lanes that have a value in a, in b; `set`
 * those whose result is known. */
#define SC_PTX_BITS1(name, ...)                                                                    \
    static void SC_PTX_ROW(sc_ptx_warp *w, const sc_ptx_inst *i)                                   \
    {                                                                                              \
        const uint32_t a = sc_ptx_in_bits(w, i, 0);                                                \
        sc_ptx_out_bits(w, i, 0, __VA_ARGS__);                                                     \
    }
#define SC_PTX_BITS2(name, set, ...)                                                               \
    static void SC_PTX_ROW(sc_ptx_warp *w, const sc_ptx_inst *i)                                   \
    {                                                                                              \
        const uint32_t a = sc_ptx_in_bits(w, i, 0), b = sc_ptx_in_bits(w, i, 1),                   \
                       sa = sc_ptx_in_set(w, i, 0), sb = sc_ptx_in_set(w, i, 1);                   \
        w->defined = (set);                                                                        \
        sc_ptx_out_bits(w, i, 0, __VA_ARGS__);                                                     \
    }

/* The rows as a table. */
#define SC_PTX_NO SC_PTX_NO_TYPE
#define SC_PTX_ROW1(name, to, ta, ...)                                                             \
    {name, SC_PTX_ROW, SC_PTX_##to, {SC_PTX_##ta, SC_PTX_NO, SC_PTX_NO, SC_PTX_NO}},
#define SC_PTX_ROW2(name, to, ta, tb, ...)                                                         \
    {name, SC_PTX_ROW, SC_PTX_##to, {SC_PTX_##ta, SC_PTX_##tb, SC_PTX_NO, SC_PTX_NO}},
#define SC_PTX_ROW3(name, to, ta, tb, tc, ...)                                                     \
    {name, SC_PTX_ROW, SC_PTX_##to, {SC_PTX_##ta, SC_PTX_##tb, SC_PTX_##tc, SC_PTX_NO}},
#define SC_PTX_ROW4(name, to, ta, tb, tc, td, ...)                                                 \
    {name, SC_PTX_ROW, SC_PTX_##to, {SC_PTX_##ta, SC_PTX_##tb, SC_PTX_##tc, SC_PTX_##td}},
#define SC_PTX_SELECT_ROW(name, type) SC_PTX_ROW3(name, type, type, type, pred, 0)
#define SC_PTX_BITS1_ROW(name, ...)   SC_PTX_ROW1(name, pred, pred, 0)
#define SC_PTX_BITS2_ROW(name, ...)   SC_PTX_ROW2(name, pred, pred, pred, 0)

#endif
