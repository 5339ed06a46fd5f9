/* What emitted CUDA asks of the machine (codegen/cuda/machine.cu.h, where the meaning of each name
 * is), on a CPU and in C++17: a thread is a fiber of the engine, which sees every access to shared
 * memory and every wrapper that orders. Shared memory has no pointers here, only places:
 * sc_shared_ptr's operator[] gives a reference that asks the engine for each load and store. Lines
 * of reports come from default arguments, which are evaluated where the caller stands. */
#include <math.h>
#include <stddef.h>
#include <string.h>

extern "C" {
int sc_machine_thread(void);
int sc_machine_threads(void);
int64_t sc_machine_block(void);
void sc_machine_sync(int line);
void sc_machine_together(int line, int what, sc_machine_lane *lane);
void sc_machine_shared_load(int line, int64_t at, void *to, int bytes, int align);
void sc_machine_shared_store(int line, int64_t at, const void *from, int bytes, int align);
void sc_machine_global_load(int line, const void *from, void *to, int bytes, int align);
void sc_machine_global_store(int line, void *to, const void *from, int bytes, int align);
void sc_machine_copy_async(int line, int64_t to, const void *from, int bytes);
void sc_machine_copy_commit(int line);
void sc_machine_copy_wait(int line, int newest);
void sc_machine_global_add(int line, void *at, int64_t value, int bytes);
void sc_machine_fail(int line, uint64_t *failure, uint64_t value);
}

#define SC_DEVICE static inline __attribute__((unused))
#define SC_CALLED SC_DEVICE
#define SC_MEMBER inline
/* Its own accesses are not told to the engine: what it hands on and takes is on the stack. */
#define SC_UNWATCHED __attribute__((no_sanitize("thread")))
#define SC_KERNEL(threads, blocks)                                                                 \
    static_assert((threads) % 32 == 0 && (threads) > 0 && (threads) <= 1024 && (blocks) > 0,       \
                  "launch bounds");                                                                \
    extern "C" __attribute__((visibility("default")))
#define SC_LINE int line = __builtin_LINE()

SC_DEVICE int sc_thread()
{
    return sc_machine_thread();
}
SC_DEVICE int sc_threads()
{
    return sc_machine_threads();
}
SC_DEVICE int64_t sc_block()
{
    return sc_machine_block();
}
SC_DEVICE int sc_lane()
{
    return sc_machine_thread() & 31;
}
SC_DEVICE int sc_warp()
{
    return sc_machine_thread() >> 5;
}

/* ---- order ---- */
SC_DEVICE void sc_sync(SC_LINE)
{
    sc_machine_sync(line);
}
SC_UNWATCHED SC_DEVICE void sc_sync_warp(SC_LINE)
{
    sc_machine_lane lane = {};
    sc_machine_together(line, SC_MACHINE_SYNC_WARP, &lane);
}

/* ---- between lanes of a warp ---- */
template <typename T>
SC_UNWATCHED SC_DEVICE T sc_machine_exchange(int line, int what, T value, int argument)
{
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "lanes exchange 4 or 8 bytes");
    sc_machine_lane lane = {};
    memcpy(&lane.value, &value, sizeof value);
    lane.argument = argument;
    sc_machine_together(line, what, &lane);
    memcpy(&value, &lane.value, sizeof value);
    return value;
}
template <typename T> SC_DEVICE T sc_shuffle(T value, int from, SC_LINE)
{
    return sc_machine_exchange(line, SC_MACHINE_SHUFFLE, value, from);
}
template <typename T> SC_DEVICE T sc_shuffle_xor(T value, int mask, SC_LINE)
{
    return sc_machine_exchange(line, SC_MACHINE_SHUFFLE_XOR, value, mask);
}
template <typename T> SC_DEVICE T sc_shuffle_up(T value, int by, SC_LINE)
{
    return sc_machine_exchange(line, SC_MACHINE_SHUFFLE_UP, value, by);
}
SC_DEVICE uint32_t sc_ballot(bool value, SC_LINE)
{
    return sc_machine_exchange(line, SC_MACHINE_BALLOT, (uint32_t)value, 0);
}

/* ---- several elements at once ---- */
template <typename T, int N> struct alignas(sizeof(T) * N) sc_vec {
    static_assert(sizeof(T) * N <= 16, "a vector has at most 16 bytes");
    T v[N];
    SC_MEMBER T &operator[](int i)
    {
        return v[i];
    }
    SC_MEMBER const T &operator[](int i) const
    {
        return v[i];
    }
};
template <int N, typename T> SC_UNWATCHED SC_DEVICE sc_vec<T, N> sc_load(const T *from, SC_LINE)
{
    sc_vec<T, N> value;
    sc_machine_global_load(line, from, &value, (int)sizeof value, (int)sizeof value);
    return value;
}
template <int N, typename T>
SC_UNWATCHED SC_DEVICE void sc_store(T *to, sc_vec<T, N> value, SC_LINE)
{
    sc_machine_global_store(line, to, &value, (int)sizeof value, (int)sizeof value);
}

/* ---- shared memory ---- */
struct sc_machine_index {
    int64_t i;
    int line;
    SC_MEMBER sc_machine_index(int64_t index, SC_LINE) : i(index), line(line) {}
};

template <typename T> struct sc_shared_ref {
    int64_t at;
    int line;
    SC_UNWATCHED SC_MEMBER T get() const
    {
        T value;
        sc_machine_shared_load(line, at, &value, (int)sizeof value, (int)alignof(T));
        return value;
    }
    SC_UNWATCHED SC_MEMBER T put(T value) const
    {
        sc_machine_shared_store(line, at, &value, (int)sizeof value, (int)alignof(T));
        return value;
    }
    SC_MEMBER operator T() const
    {
        return get();
    }
    SC_MEMBER T operator=(T value) const
    {
        return put(value);
    }
    SC_MEMBER T operator=(const sc_shared_ref &value) const
    {
        return put(value.get());
    }
    SC_MEMBER T operator+=(T value) const
    {
        return put((T)(get() + value));
    }
    SC_MEMBER T operator-=(T value) const
    {
        return put((T)(get() - value));
    }
    SC_MEMBER T operator*=(T value) const
    {
        return put((T)(get() * value));
    }
    SC_MEMBER T operator/=(T value) const
    {
        return put((T)(get() / value));
    }
    SC_MEMBER T operator|=(T value) const
    {
        return put((T)(get() | value));
    }
    SC_MEMBER T operator&=(T value) const
    {
        return put((T)(get() & value));
    }
    SC_MEMBER T operator^=(T value) const
    {
        return put((T)(get() ^ value));
    }
    SC_MEMBER T operator++() const
    {
        return put((T)(get() + 1));
    }
    SC_MEMBER T operator--() const
    {
        return put((T)(get() - 1));
    }
};

template <typename T> struct sc_shared_ptr {
    int64_t at;
    SC_MEMBER sc_shared_ref<T> operator[](sc_machine_index i) const
    {
        return {at + i.i * (int64_t)sizeof(T), i.line};
    }
    SC_MEMBER sc_shared_ptr operator+(int64_t i) const
    {
        return {at + i * (int64_t)sizeof(T)};
    }
    template <int N> SC_UNWATCHED SC_MEMBER sc_vec<T, N> load(int64_t i, SC_LINE) const
    {
        sc_vec<T, N> value;
        sc_machine_shared_load(line, at + i * (int64_t)sizeof(T), &value, (int)sizeof value,
                               (int)sizeof value);
        return value;
    }
    template <int N> SC_UNWATCHED SC_MEMBER void store(int64_t i, sc_vec<T, N> value, SC_LINE) const
    {
        sc_machine_shared_store(line, at + i * (int64_t)sizeof(T), &value, (int)sizeof value,
                                (int)sizeof value);
    }
};
template <typename T> SC_DEVICE sc_shared_ptr<T> sc_shared(int at)
{
    return {at};
}

/* ---- copies that go on while the thread does ---- */
template <typename T>
SC_DEVICE void sc_copy_async(sc_shared_ptr<T> to, const T *from, int bytes, SC_LINE)
{
    sc_machine_copy_async(line, to.at, from, bytes);
}
SC_DEVICE void sc_copy_commit(SC_LINE)
{
    sc_machine_copy_commit(line);
}
template <int N> SC_DEVICE void sc_copy_wait(SC_LINE)
{
    sc_machine_copy_wait(line, N);
}

/* ---- matrices of 16-bit elements ---- */
SC_UNWATCHED SC_DEVICE void sc_machine_matrices(int line, int what, uint32_t (&r)[4], int64_t row)
{
    sc_machine_lane lane = {};
    lane.row = row;
    sc_machine_together(line, what, &lane);
    memcpy(r, lane.r, sizeof lane.r);
}
SC_DEVICE void sc_load_matrices(uint32_t (&r)[4], sc_shared_ptr<uint16_t> row, SC_LINE)
{
    sc_machine_matrices(line, SC_MACHINE_LOAD_MATRICES, r, row.at);
}
SC_DEVICE void sc_load_matrices_transposed(uint32_t (&r)[4], sc_shared_ptr<uint16_t> row, SC_LINE)
{
    sc_machine_matrices(line, SC_MACHINE_LOAD_MATRICES_TRANSPOSED, r, row.at);
}
SC_UNWATCHED SC_DEVICE void sc_machine_mma(int line, int what, float (&c)[4],
                                           const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    sc_machine_lane lane = {};
    memcpy(lane.r, a, sizeof lane.r);
    memcpy(lane.c, c, sizeof lane.c);
    lane.b[0] = b0;
    lane.b[1] = b1;
    sc_machine_together(line, what, &lane);
    memcpy(c, lane.c, sizeof lane.c);
}
SC_DEVICE void sc_mma_bf16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, SC_LINE)
{
    sc_machine_mma(line, SC_MACHINE_MMA_BF16, c, a, b0, b1);
}
SC_DEVICE void sc_mma_f16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, SC_LINE)
{
    sc_machine_mma(line, SC_MACHINE_MMA_F16, c, a, b0, b1);
}

/* ---- sums in global memory ---- */
SC_DEVICE void sc_add_atomically(int32_t *to, int32_t value, SC_LINE)
{
    sc_machine_global_add(line, to, value, 4);
}
SC_DEVICE void sc_add_atomically(int64_t *to, int64_t value, SC_LINE)
{
    sc_machine_global_add(line, to, value, 8);
}

/* ---- failures of checks ---- */
SC_DEVICE void sc_fail(uint64_t *failure, uint64_t value, SC_LINE)
{
    sc_machine_fail(line, failure, value);
}

#undef SC_LINE
#undef SC_UNWATCHED
