/* What emitted CUDA asks of the machine: the only place with its names, its intrinsics and raw asm. A second file of the same names
 * (test/cuda_on_cpu/machine.h) runs the same kernels on a CPU, a fiber a thread, and watches what they do.
 *
 * A kernel is a grid of blocks in one dimension of sc_threads() threads each, a multiple of 32. Shared memory is one piece, sc_shared<T>(at)
 * the array of T from its byte `at`; a pointer into it is an sc_shared_ptr<T>, never a T *. Whole warps, converged, call what exchanges
 * between lanes; whole blocks call sc_sync. */

typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;

/* What helpers of CPUs have from math.h and from their compilers. */
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
#define INT32_MIN (-2147483647 - 1)
#define INT32_MAX 2147483647
#define INT64_MIN (-9223372036854775807ll - 1)
#define INT64_MAX 9223372036854775807ll
#define __builtin_inff() INFINITY
#define __builtin_inf() ((double)INFINITY)
#define __builtin_nanf(text) NAN

#define SC_DEVICE static __device__ __forceinline__
#define SC_CALLED static __device__ __noinline__
#define SC_MEMBER __device__ __forceinline__
/* A kernel's entry: SC_KERNEL(threads of a block, blocks that should fit on a multiprocessor) void name(..) */
#define SC_KERNEL(threads, blocks) extern "C" __global__ __launch_bounds__(threads, blocks)

SC_DEVICE int sc_thread() { return (int)threadIdx.x; }
SC_DEVICE int sc_threads() { return (int)blockDim.x; }
SC_DEVICE int64_t sc_block() { return (int64_t)blockIdx.x; }
SC_DEVICE int sc_lane() { return (int)(threadIdx.x & 31u); }
SC_DEVICE int sc_warp() { return (int)(threadIdx.x >> 5); }

/* ---- order ---- */
SC_DEVICE void sc_sync() { __syncthreads(); }
SC_DEVICE void sc_sync_warp() { __syncwarp(); }

/* ---- between lanes of a warp: T of 4 or 8 bytes ---- */
template <typename T> SC_DEVICE T sc_shuffle(T value, int lane) { return __shfl_sync(0xffffffffu, value, lane); }
template <typename T> SC_DEVICE T sc_shuffle_xor(T value, int mask) { return __shfl_xor_sync(0xffffffffu, value, mask); }
template <typename T> SC_DEVICE T sc_shuffle_up(T value, int by) { return __shfl_up_sync(0xffffffffu, value, (unsigned)by); }
SC_DEVICE uint32_t sc_ballot(bool value) { return __ballot_sync(0xffffffffu, value); }

/* ---- several elements at once: the address is a multiple of N * sizeof(T), which is at most 16 ---- */
template <typename T, int N> struct alignas(sizeof(T) * N) sc_vec {
    T v[N];
    SC_MEMBER T &operator[](int i) { return v[i]; }
    SC_MEMBER const T &operator[](int i) const { return v[i]; }
};
template <int N, typename T> SC_DEVICE sc_vec<T, N> sc_load(const T *from) { return *reinterpret_cast<const sc_vec<T, N> *>(from); }
template <int N, typename T> SC_DEVICE void sc_store(T *to, sc_vec<T, N> value) { *reinterpret_cast<sc_vec<T, N> *>(to) = value; }

/* ---- shared memory ---- */
extern __shared__ __align__(128) unsigned char sc_shared_memory[];

template <typename T> struct sc_shared_ptr {
    T *p;
    SC_MEMBER T &operator[](int64_t i) const { return p[i]; }
    SC_MEMBER sc_shared_ptr operator+(int64_t i) const { return {p + i}; }
    template <int N> SC_MEMBER sc_vec<T, N> load(int64_t i) const { return *reinterpret_cast<const sc_vec<T, N> *>(p + i); }
    template <int N> SC_MEMBER void store(int64_t i, sc_vec<T, N> value) const { *reinterpret_cast<sc_vec<T, N> *>(p + i) = value; }
    SC_MEMBER uint32_t address() const { return (uint32_t)__cvta_generic_to_shared(p); }
};
template <typename T> SC_DEVICE sc_shared_ptr<T> sc_shared(int at) { return {reinterpret_cast<T *>(sc_shared_memory + at)}; }

/* ---- copies from global to shared memory that go on while the thread does: both addresses are multiples of 16; of 16 bytes the first
 * `bytes` are read (0 .. 16), the others become 0. A thread's copies since its last commit are a group; wait<N> returns when all but its
 * newest N groups have arrived - those of this thread: others see them behind sc_sync. ---- */
template <typename T> SC_DEVICE void sc_copy_async(sc_shared_ptr<T> to, const T *from, int bytes)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to.address()), "l"(__cvta_generic_to_global(from)), "r"(bytes)
                 : "memory");
}
SC_DEVICE void sc_copy_commit() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }
template <int N> SC_DEVICE void sc_copy_wait() { asm volatile("cp.async.wait_group %0;\n" ::"n"(N) : "memory"); }

/* ---- matrices of 16-bit elements, by a warp (PTX ISA, "Matrix fragments for mma.m16n8k16") ----
 * A of 16x16: lane l holds, in r[0..3], the pairs of columns 2 (l % 4) + {0, 1} of row l / 4 (r0), row l / 4 + 8 (r1), the same of columns + 8
 * (r2, r3). B of 16x8 (k, n): r[0] rows 2 (l % 4) + {0, 1} of column l / 4, r[1] the same of rows + 8. C of 16x8: c[0], c[1] row l / 4,
 * columns 2 (l % 4) + {0, 1}; c[2], c[3] row l / 4 + 8. */
/* Four matrices of 8x8: lanes 8 i .. 8 i + 7 give the addresses of the rows of matrix i (16 bytes, a multiple of 16); r[i] of lane l is the
 * pair of columns 2 (l % 4) + {0, 1} of row l / 4; transposed: the pair of rows of column l / 4. */
SC_DEVICE void sc_load_matrices(uint32_t (&r)[4], sc_shared_ptr<uint16_t> row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(row.address())
                 : "memory");
}
SC_DEVICE void sc_load_matrices_transposed(uint32_t (&r)[4], sc_shared_ptr<uint16_t> row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(row.address())
                 : "memory");
}
/* c += A B, in f32. */
SC_DEVICE void sc_mma_bf16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
SC_DEVICE void sc_mma_f16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* ---- conversions: to nearest even; of a pair, `low` in the low half ---- */
SC_DEVICE float sc_f32_of_bits(uint32_t bits) { return __uint_as_float(bits); }
SC_DEVICE uint32_t sc_bits_of_f32(float value) { return __float_as_uint(value); }
SC_DEVICE double sc_f64_of_bits(uint64_t bits) { return __longlong_as_double((long long)bits); }
SC_DEVICE uint64_t sc_bits_of_f64(double value) { return (uint64_t)__double_as_longlong(value); }
SC_DEVICE uint32_t sc_pack_bf16(float low, float high)
{
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;\n" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}
SC_DEVICE uint32_t sc_pack_f16(float low, float high)
{
    uint32_t pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;\n" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}
SC_DEVICE float sc_f16_to_f32(uint16_t bits)
{
    float value;
    asm("cvt.f32.f16 %0, %1;\n" : "=f"(value) : "h"(bits));
    return value;
}

/* ---- mathematics that the machine does itself ---- */
/* 2^x within 2 ulp; 0 below -149, subnormal results may be 0. */
SC_DEVICE float sc_exp2_fast(float x)
{
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(result) : "f"(x));
    return result;
}
SC_DEVICE float sc_log2_fast(float x)
{
    float result;
    asm("lg2.approx.f32 %0, %1;\n" : "=f"(result) : "f"(x));
    return result;
}

/* The larger, the smaller: NaN if either is. */
SC_DEVICE float sc_max_f32(float x, float y)
{
    float result;
    asm("max.NaN.f32 %0, %1, %2;\n" : "=f"(result) : "f"(x), "f"(y));
    return result;
}
SC_DEVICE float sc_min_f32(float x, float y)
{
    float result;
    asm("min.NaN.f32 %0, %1, %2;\n" : "=f"(result) : "f"(x), "f"(y));
    return result;
}
/* x / y within 2 ulp, without the branch that rounding to nearest takes; subnormal operands and results may be 0. */
SC_DEVICE float sc_divide_f32(float x, float y)
{
    float result;
    asm("div.full.ftz.f32 %0, %1, %2;\n" : "=f"(result) : "f"(x), "f"(y));
    return result;
}
/* 1 / x within 1 ulp; subnormal operands and results are 0. */
SC_DEVICE float sc_reciprocal_fast(float x)
{
    float result;
    asm("rcp.approx.ftz.f32 %0, %1;\n" : "=f"(result) : "f"(x));
    return result;
}
/* Both within 2 ulp. */
SC_DEVICE float sc_sqrt_f32(float x)
{
    float result;
    asm("sqrt.approx.f32 %0, %1;\n" : "=f"(result) : "f"(x));
    return result;
}
SC_DEVICE float sc_rsqrt_f32(float x)
{
    float result;
    asm("rsqrt.approx.f32 %0, %1;\n" : "=f"(result) : "f"(x));
    return result;
}
/* e^x within 5 ulp for x in -16 .. 16, 12 beyond; subnormal results are 0. What t lacks of x log2(e), x - t log 2, is less than 2^-17 either
 * way where the result is a number; the saturation makes 0 of the NaN that infinities give. */
SC_DEVICE float sc_exp_f32(float x)
{
    const float t = __fmul_rn(x, 1.44269504f), rest = __fmaf_rn(t, -0.693147182f, x);
    return sc_exp2_fast(t) * (0.99999237060546875f + __saturatef(rest + 0.00000762939453125f));
}

/* ---- sums in global memory: of any threads, in any order, modulo 2^32 or 2^64 ---- */
SC_DEVICE void sc_add_atomically(int32_t *to, int32_t value) { atomicAdd(to, value); }
SC_DEVICE void sc_add_atomically(int64_t *to, int64_t value)
{
    atomicAdd(reinterpret_cast<unsigned long long *>(to), (unsigned long long)value);
}

/* ---- failures of checks: the least of all ---- */
SC_DEVICE void sc_fail(uint64_t *failure, uint64_t value) { atomicMin(reinterpret_cast<unsigned long long *>(failure), value); }
