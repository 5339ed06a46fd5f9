/* What kernels are made of besides the machine: elements in a row, reductions over the threads that share an iteration, integers that wrap.
 * Built on the machine's wrappers alone. Every order of additions is fixed. */

/* The texts of values are those of C. */
#define _Bool bool

/* ---- conversions ---- */
SC_DEVICE uint16_t sc_f32_to_bf16(float x) { return (uint16_t)sc_pack_bf16(x, 0.0f); }
SC_DEVICE uint16_t sc_f32_to_f16(float x) { return (uint16_t)sc_pack_f16(x, 0.0f); }

/* ---- what C computes by polynomials alone: here exponentials and reciprocals cost an instruction each ---- */
SC_DEVICE float sc_exp_below_f32(float x) { return sc_exp_f32(x); }
SC_DEVICE float sc_sigmoid_f32(float x) { return sc_reciprocal_fast(1.0f + sc_exp_f32(-x)); }
/* tanh(x) = 1 - 2 / (exp(2x) + 1), its error 2e-7 also where tanh(x) is small. */
SC_DEVICE float sc_tanh_near_one_f32(float x) { return 1.0f - 2.0f * sc_reciprocal_fast(sc_exp2_fast(x * 2.88539008f) + 1.0f); }
/* |x| < 0.6: an odd polynomial, within 2 ulp. */
SC_DEVICE float sc_tanh_f32(float x)
{
    const float z = x * x, far = sc_tanh_near_one_f32(x);
    const float p = ((0.0156126281f * z - 0.0522118025f) * z + 0.133131161f) * z - 0.333325979f;
    return z < 0.36f ? (p * z) * x + x : far;
}

/* ---- integers: quotients and remainders as nodes.def has them, sums and products modulo 2^32 or 2^64 ---- */
template <int BYTES> struct sc_unsigned { using type = uint32_t; };
template <> struct sc_unsigned<8> { using type = uint64_t; };
template <typename X, typename Y> SC_DEVICE auto sc_wrap_add(X x, Y y)
{
    using T = decltype(x + y);
    using U = typename sc_unsigned<sizeof(T)>::type;
    return (T)((U)x + (U)y);
}
template <typename X, typename Y> SC_DEVICE auto sc_wrap_sub(X x, Y y)
{
    using T = decltype(x - y);
    using U = typename sc_unsigned<sizeof(T)>::type;
    return (T)((U)x - (U)y);
}
template <typename X, typename Y> SC_DEVICE auto sc_wrap_mul(X x, Y y)
{
    using T = decltype(x * y);
    using U = typename sc_unsigned<sizeof(T)>::type;
    return (T)((U)x * (U)y);
}
template <typename X, typename Y> SC_DEVICE auto sc_div_int(X x, Y y)
{
    using T = decltype(x / y);
    T zero = 0, divisor = (T)y;
    return divisor == zero ? zero : divisor == (T)-1 ? sc_wrap_sub(zero, (T)x) : (T)((T)x / divisor);
}
template <typename X, typename Y> SC_DEVICE auto sc_mod_int(X x, Y y)
{
    using T = decltype(x % y);
    T zero = 0, divisor = (T)y;
    T rest = divisor == zero || divisor == (T)-1 ? zero : (T)((T)x % divisor);
    return rest != zero && (rest < zero) != (divisor < zero) ? (T)(rest + divisor) : rest;
}

/* The number of the lowest bit that is set: its power of 2 is exact as a float. */
SC_DEVICE int sc_lowest_bit(uint32_t bits) { return (int)(sc_bits_of_f32((float)(bits & (0u - bits))) >> 23) - 127; }

/* ---- N elements in a row, of any number of bytes: the address is a multiple of these, or of 16 ---- */
template <typename T, int N> struct sc_run {
    T v[N];
    SC_MEMBER T &operator[](int i) { return v[i]; }
    SC_MEMBER const T &operator[](int i) const { return v[i]; }
};
template <int N, typename T> SC_DEVICE sc_run<T, N> sc_load_run(const T *from)
{
    constexpr int PART = N * sizeof(T) <= 16 ? N : 16 / (int)sizeof(T);
    sc_run<T, N> run;
#pragma unroll
    for (int at = 0; at < N; at += PART) {
        const sc_vec<T, PART> part = sc_load<PART>(from + at);
#pragma unroll
        for (int i = 0; i < PART; i++)
            run[at + i] = part[i];
    }
    return run;
}
template <int N, typename T> SC_DEVICE void sc_store_run(T *to, const sc_run<T, N> &run)
{
    constexpr int PART = N * sizeof(T) <= 16 ? N : 16 / (int)sizeof(T);
#pragma unroll
    for (int at = 0; at < N; at += PART) {
        sc_vec<T, PART> part;
#pragma unroll
        for (int i = 0; i < PART; i++)
            part[i] = run[at + i];
        sc_store<PART>(to + at, part);
    }
}

/* ---- reductions; NaN if any is ---- */
struct sc_sum {
    template <typename T> static SC_MEMBER T of(T a, T b) { return a + b; }
    static SC_MEMBER int32_t of(int32_t a, int32_t b) { return sc_wrap_add(a, b); }
    static SC_MEMBER int64_t of(int64_t a, int64_t b) { return sc_wrap_add(a, b); }
};
struct sc_max {
    template <typename T> static SC_MEMBER T of(T a, T b) { return a > b || a != a ? a : b; }
    static SC_MEMBER float of(float a, float b) { return sc_max_f32(a, b); }
};
struct sc_min {
    template <typename T> static SC_MEMBER T of(T a, T b) { return a < b || a != a ? a : b; }
    static SC_MEMBER float of(float a, float b) { return sc_min_f32(a, b); }
};

/* Over groups of THREADS lanes, a power of 2: by halves; all of them get it. */
template <typename OP, int THREADS, typename T> SC_DEVICE T sc_over_lanes(T value)
{
#pragma unroll
    for (int mask = THREADS / 2; mask > 0; mask /= 2)
        value = OP::of(value, sc_shuffle_xor(value, mask));
    return value;
}

/* Over a team of THREADS neighbours, a power of 2; of more than a warp the team is the block, and shared memory has a T for each warp at
 * `slots`, which nobody else uses before the next barrier but one. */
template <typename OP, int THREADS, typename T> SC_DEVICE T sc_over_team(T value, int slots)
{
    value = sc_over_lanes<OP, (THREADS < 32 ? THREADS : 32)>(value);
    if constexpr (THREADS > 32) {
        const sc_shared_ptr<T> of_warps = sc_shared<T>(slots);
        if (sc_lane() == 0)
            of_warps[sc_warp()] = value;
        sc_sync();
        const T of_warp = of_warps[sc_lane() % (THREADS / 32)];
        value = sc_over_lanes<OP, THREADS / 32>(of_warp);
    }
    return value;
}

/* The same, called: where kernels of a hundred phases are to be compiled in seconds. */
template <typename OP, int THREADS, typename T> SC_CALLED T sc_over_team_called(T value, int slots)
{
    return sc_over_team<OP, THREADS>(value, slots);
}

/* The sum of all before this thread's value, and of this, in the order of a team's THREADS, at least 32; `total`: before them all, then with
 * them all. Integers only. Of more than a warp the team is the block, and slots are as above. Also a barrier: what some thread has read
 * others may write. */
template <int THREADS, typename T> SC_DEVICE T sc_running_sum(T value, T &total, int slots)
{
    const int lane = sc_lane();
#pragma unroll
    for (int by = 1; by < 32; by *= 2) {
        const T below = sc_shuffle_up(value, by);
        value = lane < by ? value : sc_wrap_add(value, below);
    }
    T before = total, all = sc_shuffle(value, 31);
    if constexpr (THREADS > 32) {
        const sc_shared_ptr<T> of_warps = sc_shared<T>(slots);
        if (lane == 31)
            of_warps[sc_warp()] = value;
        sc_sync();
        T of_warp = of_warps[lane % (THREADS / 32)];
#pragma unroll
        for (int by = 1; by < THREADS / 32; by *= 2) {
            const T below = sc_shuffle_up(of_warp, by);
            of_warp = lane < by ? of_warp : sc_wrap_add(of_warp, below);
        }
        const T of_others = sc_shuffle(of_warp, (sc_warp() + 31) % 32);
        before = sc_warp() == 0 ? before : sc_wrap_add(before, of_others);
        all = sc_shuffle(of_warp, THREADS / 32 - 1);
    } else {
        sc_sync_warp();
    }
    total = sc_wrap_add(total, all);
    return sc_wrap_add(before, value);
}

/* Over the block's WARPS, N values of each lane: in their order. Shared memory has WARPS * 32 * N T at `slots`, which nobody else uses
 * before the next barrier but one. */
template <typename OP, int WARPS, int N, typename T> SC_DEVICE void sc_over_warps(T (&value)[N], int slots)
{
    const sc_shared_ptr<T> all = sc_shared<T>(slots);
#pragma unroll
    for (int i = 0; i < N; i++)
        all[(sc_warp() * N + i) * 32 + sc_lane()] = value[i];
    sc_sync();
#pragma unroll
    for (int i = 0; i < N; i++) {
        T sum = all[i * 32 + sc_lane()];
        for (int warp = 1; warp < WARPS; warp++) {
            const T next = all[(warp * N + i) * 32 + sc_lane()];
            sum = OP::of(sum, next);
        }
        value[i] = sum;
    }
}
template <typename OP, int WARPS, typename T> SC_DEVICE T sc_over_warps(T value, int slots)
{
    T one[1] = {value};
    sc_over_warps<OP, WARPS, 1>(one, slots);
    return one[0];
}
