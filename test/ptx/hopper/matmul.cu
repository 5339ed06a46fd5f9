// C = A B in bf16 as kernels for sm_90a compute it: a thread loads tiles by TMA into a ring that mbarriers guard, two warpgroups multiply
// them by wgmma, and each warp stores its rows by stmatrix and TMA. What the interpreter of PTX knows of sm_90 is tried on it.
//
// Macros: SWIZZLE (bytes: 0, 32, 64, 128), A_M_MAJOR (A is [K, M] instead of [M, K]), B_K_MAJOR (B is [N, K] instead of [K, N]),
// A_IN_REGISTERS (of A in rows, swizzled by 128 bytes).
#define ROWS 128     // of a block's tile; 64 of each warpgroup
#define COLUMNS 128
#define DEPTH 64
#define STAGES 2
#define WIDTH (SWIZZLE == 0 ? 16 : SWIZZLE) // bytes of a row of a box
#define A_BYTES (ROWS * DEPTH * 2)
#define B_BYTES (COLUMNS * DEPTH * 2)
#define STAGE_BYTES (A_BYTES + B_BYTES)
#define C_BYTES (16 * 64 * 2) // of a warp, half of its columns

typedef unsigned long long u64;
typedef unsigned int u32;
struct alignas(64) tensor_map {
    char bytes[128];
};
extern __shared__ __align__(1024) char memory[];

__device__ u32 address(const void *p) { return (u32)__cvta_generic_to_shared(p); }

__device__ void init(u32 barrier, u32 count) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory"); }

__device__ void arrive(u32 barrier) { asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory"); }

__device__ void expect(u32 barrier, u32 bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

__device__ void wait(u32 barrier, u32 parity)
{
    asm volatile("{\n.reg .pred done;\nagain:\n"
                 "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 done, [%0], %1;\n"
                 "@done bra over;\nbra again;\nover:\n}" ::"r"(barrier), "r"(parity) : "memory");
}

__device__ void load(u32 to, const tensor_map *map, int x, int y, u32 barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                 ::"r"(to), "l"(map), "r"(x), "r"(y), "r"(barrier) : "memory");
}

// Boxes of WIDTH bytes next to each other, of `rows` rows.
__device__ void load_tile(u32 to, const tensor_map *map, int x, int y, int across, int rows, u32 barrier)
{
    for (int k = 0; k < across * 2 / WIDTH; k++)
        load(to + k * WIDTH * rows, map, x + k * WIDTH / 2, y, barrier);
}

// PTX ISA, "Matrix Descriptor Format".
__device__ u64 descriptor(u32 at, u32 lead, u32 stride)
{
    u64 mode = SWIZZLE == 128 ? 1 : SWIZZLE == 64 ? 2 : SWIZZLE == 32 ? 3 : 0;
    return (u64)(at >> 4 & 0x3fff) | (u64)(lead >> 4 & 0x3fff) << 16 | (u64)(stride >> 4 & 0x3fff) << 32 | mode << 62;
}

// Step `k` of 16 of a tile whose rows of `rows` (M or N) hold K.
__device__ u64 rows_of_k(u32 tile, int rows, int first, int k)
{
    int block = 32 * k / WIDTH;
    u32 at = tile + block * WIDTH * rows + 32 * k % WIDTH + first * WIDTH;
    return descriptor(at, SWIZZLE == 0 ? WIDTH * rows : 16, 8 * WIDTH);
}

// The same of a tile whose rows are those of K.
__device__ u64 columns_of_k(u32 tile, int first, int k)
{
    u32 at = tile + first * 2 / WIDTH * WIDTH * DEPTH + 16 * k * WIDTH, box = WIDTH * DEPTH, rows = 8 * WIDTH;
    return SWIZZLE == 0 ? descriptor(at, rows, box) : descriptor(at, box, rows);
}

#define D8(k) "+f"(d[k]), "+f"(d[k + 1]), "+f"(d[k + 2]), "+f"(d[k + 3]), "+f"(d[k + 4]), "+f"(d[k + 5]), "+f"(d[k + 6]), "+f"(d[k + 7])
#define D64 D8(0), D8(8), D8(16), D8(24), D8(32), D8(40), D8(48), D8(56)
#define NAMES                                                                                                                              \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, " \
    "%28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, "   \
    "%54, %55, %56, %57, %58, %59, %60, %61, %62, %63}"
#ifdef A_M_MAJOR
#define A_MAJOR "1"
#else
#define A_MAJOR "0"
#endif
#ifdef B_K_MAJOR
#define B_MAJOR "0"
#else
#define B_MAJOR "1"
#endif

__device__ void multiply(float (&d)[64], u64 a, u64 b, int adds)
{
    asm volatile("{\n.reg .pred adds;\nsetp.ne.b32 adds, %66, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 " NAMES ", %64, %65, adds, 1, 1, " A_MAJOR ", " B_MAJOR ";\n}"
                 : D64 : "l"(a), "l"(b), "r"(adds));
}

__device__ void multiply_registers(float (&d)[64], const u32 (&a)[4], u64 b, int adds)
{
    asm volatile("{\n.reg .pred adds;\nsetp.ne.b32 adds, %69, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 " NAMES ", {%64, %65, %66, %67}, %68, adds, 1, 1, " B_MAJOR ";\n}"
                 : D64 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds));
}

// Rows of a warp, columns 16 k on, of a tile of A swizzled by 128 bytes.
__device__ void load_fragment(u32 (&a)[4], u32 tile, int row, int k)
{
    int lane = threadIdx.x % 32;
    u32 at = tile + (row + lane % 16) * 128 + 32 * k + lane / 16 * 16;
    at ^= (at >> 7 & 7) << 4;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared::cta.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3]) : "r"(at) : "memory");
}

__device__ void produce(const tensor_map *a, const tensor_map *b, u32 tiles, u32 full, u32 empty, int steps)
{
    int m = blockIdx.x / 2 * ROWS, n = blockIdx.x % 2 * COLUMNS;
    for (int step = 0; step < steps; step++) {
        int stage = step % STAGES, k = step * DEPTH;
        u32 at = tiles + stage * STAGE_BYTES, barrier = full + 8 * stage;
        wait(empty + 8 * stage, (step / STAGES & 1) ^ 1);
        expect(barrier, STAGE_BYTES);
#ifdef A_M_MAJOR
        load_tile(at, a, m, k, ROWS, DEPTH, barrier);
#else
        load_tile(at, a, k, m, DEPTH, ROWS, barrier);
#endif
#ifdef B_K_MAJOR
        load_tile(at + A_BYTES, b, k, n, DEPTH, COLUMNS, barrier);
#else
        load_tile(at + A_BYTES, b, n, k, COLUMNS, DEPTH, barrier);
#endif
    }
}

__device__ void multiply_stage(float (&d)[64], u32 tile, int group, bool adds)
{
#ifdef A_IN_REGISTERS
    u32 a[4][4];
    for (int k = 0; k < 4; k++)
        load_fragment(a[k], tile, 64 * group + threadIdx.x / 32 % 4 * 16, k);
#endif
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int k = 0; k < 4; k++) {
#ifdef B_K_MAJOR
        u64 b = rows_of_k(tile + A_BYTES, COLUMNS, 0, k);
#else
        u64 b = columns_of_k(tile + A_BYTES, 0, k);
#endif
#ifdef A_IN_REGISTERS
        multiply_registers(d, a[k], b, adds || k > 0);
#elif defined A_M_MAJOR
        multiply(d, columns_of_k(tile, 64 * group, k), b, adds || k > 0);
#else
        multiply(d, rows_of_k(tile, ROWS, 64 * group, k), b, adds || k > 0);
#endif
    }
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

__device__ void store(float (&d)[64], const tensor_map *c, u32 room, int group)
{
    int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32, row = blockIdx.x / 2 * ROWS + 64 * group + 16 * warp;
    for (int half = 0; half < 2; half++) {
        u32 to = room + ((4 * group + warp) * 2 + half) * C_BYTES;
        for (int k = 0; k < 4; k++) {
            u32 r[4];
            for (int q = 0; q < 4; q++) {
                const float *from = d + 32 * half + 8 * k + 2 * q;
                asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r[q]) : "f"(from[1]), "f"(from[0]));
            }
            asm volatile("stmatrix.sync.aligned.m8n8.x4.shared::cta.b16 [%0], {%1, %2, %3, %4};"
                         ::"r"(to + lane % 16 * 128 + 32 * k + lane / 16 * 16), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
        }
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncwarp();
        if (lane == 0)
            asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];\ncp.async.bulk.commit_group;"
                         ::"l"(c), "r"((int)(blockIdx.x % 2 * COLUMNS + 64 * half)), "r"(row), "r"(to) : "memory");
    }
    if (lane == 0)
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

extern "C" __global__ void __launch_bounds__(384, 1) matmul(const __grid_constant__ tensor_map a, const __grid_constant__ tensor_map b,
                                                            const __grid_constant__ tensor_map c, int depth)
{
    u32 tiles = address(memory), room = tiles + STAGES * STAGE_BYTES, full = room + 16 * C_BYTES, empty = full + 8 * STAGES;
    int steps = (depth + DEPTH - 1) / DEPTH, group = threadIdx.x / 128;
    if (threadIdx.x == 0) {
        for (int k = 0; k < STAGES; k++) {
            init(full + 8 * k, 1);
            init(empty + 8 * k, 2 * 4);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (group == 2) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        u32 leads = 0;
        if (threadIdx.x / 32 % 4 == 0)
            asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.b32 %0, 1, 0, p;\n}" : "=r"(leads));
        if (leads)
            produce(&a, &b, tiles, full, empty, steps);
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    float d[64];
    for (int step = 0; step < steps; step++) {
        int stage = step % STAGES;
        wait(full + 8 * stage, step / STAGES & 1);
        multiply_stage(d, tiles + stage * STAGE_BYTES, group, step > 0);
        asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
#ifdef A_IN_REGISTERS
        __syncwarp(); // all lanes read A, one says so
#endif
        if (step > 0 && threadIdx.x % 32 == 0)
            arrive(empty + 8 * ((step - 1) % STAGES));
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    store(d, &c, room, group);
}
