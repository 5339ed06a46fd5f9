/* Reductions of ranks that share a card (runtime/cuda_comm_local.c): to[i] becomes the reduction of element first + i of each source, in
 * their order; in f32 for bf16 and f16, rounded once, in the dtype itself otherwise. As runtime/comm.h says: of NaN and anything NaN, of
 * several the last; of equals the first. */

#define SC_REDUCE(name, type, wide, load, store, combine)                                                                                  \
    SC_KERNEL(256, 1)                                                                                                                      \
    name(const type *s0, const type *s1, const type *s2, const type *s3, const type *s4, const type *s5, const type *s6, const type *s7,   \
         const type *s8, const type *s9, const type *s10, const type *s11, const type *s12, const type *s13, const type *s14,              \
         const type *s15, int64_t members, type *to, int64_t first, int64_t count)                                                         \
    {                                                                                                                                      \
        const type *const sources[16] = {s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11, s12, s13, s14, s15};                            \
        int64_t i = sc_block() * 256 + sc_thread();                                                                                        \
        if (i >= count)                                                                                                                    \
            return;                                                                                                                        \
        wide x = load(s0[first + i]);                                                                                                      \
        for (int m = 1; m < 16; m++) {                                                                                                     \
            if (m < members) {                                                                                                             \
                wide y = load(sources[m][first + i]);                                                                                      \
                x = combine(x, y);                                                                                                         \
            }                                                                                                                              \
        }                                                                                                                                  \
        to[i] = store(x);                                                                                                                  \
    }
#define SC_SAME(x)    (x)
#define SC_SUM(x, y)  ((x) + (y))
#define SC_OR(x, y)   ((x) | (y))
#define SC_AND(x, y)  ((x) & (y))
#define SC_MOST(x, y) ((y) != (y) ? (y) : (x) != (x) ? (x) : (y) > (x) ? (y) : (x))
#define SC_LEAST(x, y) ((y) != (y) ? (y) : (x) != (x) ? (x) : (y) < (x) ? (y) : (x))

#define SC_REDUCE_DTYPE(dtype, type, wide, load, store)                                                                                    \
    SC_REDUCE(sc_reduce_sum_##dtype, type, wide, load, store, SC_SUM)                                                                      \
    SC_REDUCE(sc_reduce_max_##dtype, type, wide, load, store, SC_MOST)                                                                     \
    SC_REDUCE(sc_reduce_min_##dtype, type, wide, load, store, SC_LEAST)

SC_REDUCE_DTYPE(f32, float, float, SC_SAME, SC_SAME)
SC_REDUCE_DTYPE(f64, double, double, SC_SAME, SC_SAME)
SC_REDUCE_DTYPE(bf16, uint16_t, float, sc_bf16_to_f32, sc_f32_to_bf16)
SC_REDUCE_DTYPE(f16, uint16_t, float, sc_f16_to_f32, sc_f32_to_f16)
SC_REDUCE(sc_reduce_sum_i32, uint32_t, uint32_t, SC_SAME, SC_SAME, SC_SUM)
SC_REDUCE(sc_reduce_max_i32, int32_t, int32_t, SC_SAME, SC_SAME, SC_MOST)
SC_REDUCE(sc_reduce_min_i32, int32_t, int32_t, SC_SAME, SC_SAME, SC_LEAST)
SC_REDUCE(sc_reduce_sum_i64, uint64_t, uint64_t, SC_SAME, SC_SAME, SC_SUM)
SC_REDUCE(sc_reduce_max_i64, int64_t, int64_t, SC_SAME, SC_SAME, SC_MOST)
SC_REDUCE(sc_reduce_min_i64, int64_t, int64_t, SC_SAME, SC_SAME, SC_LEAST)
SC_REDUCE_DTYPE(u8, uint8_t, uint8_t, SC_SAME, SC_SAME)
SC_REDUCE(sc_reduce_sum_bool, uint8_t, uint8_t, SC_SAME, SC_SAME, SC_OR)
SC_REDUCE(sc_reduce_max_bool, uint8_t, uint8_t, SC_SAME, SC_SAME, SC_OR)
SC_REDUCE(sc_reduce_min_bool, uint8_t, uint8_t, SC_SAME, SC_SAME, SC_AND)
