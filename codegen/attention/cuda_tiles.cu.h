/* Functions of emitted CUDA: copies of rows to shared memory, matmuls of tiles by a warp. NAME is
 * the kernel's name, MMA and PACK are functions of machine.cu.h for the kernel's dtype.
 *
 * Fragments (codegen/cuda/machine.cu.h): lane l holds, of the sums c, rows l / 4 and l / 4 + 8 of a
 * strip of 16, and columns 2 (l % 4) + {0, 1} of each group of 8. Two adjacent groups of columns,
 * rounded, form a 16 x 16 A fragment, so weights pass from one matmul to the next in registers.
 * Rows of shared memory load as an A, or as a B of which they are the columns; loaded transposed
 * they are the rows of a B. */
/*@ text */
/* Rows low .. high of `rows` rows to shared memory, `from` being row 0; the others, and elements
 * beyond `size`, become 0. */
template <int rows, int size, int width, int threads>
SC_DEVICE void NAME_copy(sc_shared_ptr<uint16_t> to, const uint16_t *from, int64_t stride, int low,
                         int high)
{
    constexpr int chunks = width / 8, each = threads % chunks == 0 ? threads / chunks : 0,
                  step = width + 8;
#pragma unroll
    for (int i = 0; i < rows * chunks; i += threads) {
        const int number = i + sc_thread(),
                  row = each > 0 ? sc_thread() / chunks + i / chunks : number / chunks;
        const int at = (each > 0 ? sc_thread() % chunks : number % chunks) * 8;
        if (rows * chunks % threads != 0 && number >= rows * chunks)
            break;
        const bool is_there = row >= low && row < high && (size == width || at < size);
        sc_copy_async(to + (row * step + at), from + row * stride + at,
                      is_there ? 16 : 0); /* of nothing, from anywhere */
    }
}

/* The same of rows that begin at places[row]; those below 0 become 0. */
template <int rows, int size, int width, int threads>
SC_DEVICE void NAME_gather(sc_shared_ptr<uint16_t> to, const uint16_t *from,
                           sc_shared_ptr<int64_t> places)
{
    constexpr int chunks = width / 8, each = threads % chunks == 0 ? threads / chunks : 0,
                  step = width + 8;
#pragma unroll
    for (int i = 0; i < rows * chunks; i += threads) {
        const int number = i + sc_thread(),
                  row = each > 0 ? sc_thread() / chunks + i / chunks : number / chunks;
        const int at = (each > 0 ? sc_thread() % chunks : number % chunks) * 8;
        if (rows * chunks % threads != 0 && number >= rows * chunks)
            break;
        const int64_t place = places[row];
        const bool is_there = place >= 0 && (size == width || at < size);
        sc_copy_async(to + (row * step + at), is_there ? from + place + at : from,
                      is_there ? 16 : 0);
    }
}

/* c[row][column] += the product of row of a, of `strips` strips, and row `column` of b, over
 * `width` elements. */
template <int strips, int columns, int width>
SC_DEVICE void NAME_matmul(float (&c)[strips][columns / 8][4], sc_shared_ptr<uint16_t> a,
                           sc_shared_ptr<uint16_t> b)
{
    constexpr int step = width + 8;
    const int lane = sc_lane();
    const sc_shared_ptr<uint16_t> a_of_lane = a + ((lane & 15) * step + (lane >> 4) * 8);
    const sc_shared_ptr<uint16_t> b_of_lane =
        b + (((lane & 7) + (lane >> 4) * 8) * step + (lane >> 3 & 1) * 8);
#pragma unroll
    for (int x = 0; x < width; x += 16) {
        uint32_t left[strips][4], right[4];
#pragma unroll
        for (int i = 0; i < strips; i++)
            sc_load_matrices(left[i], a_of_lane + (16 * i * step + x));
#pragma unroll
        for (int j = 0; j < columns / 8; j += 2) {
            sc_load_matrices(right, b_of_lane + (8 * j * step + x));
#pragma unroll
            for (int i = 0; i < strips; i++) {
                MMA(c[i][j], left[i], right[0], right[1]);
                MMA(c[i][j + 1], left[i], right[2], right[3]);
            }
        }
    }
}

/* c[row][x] += the sum over i of a[row][i], rounded, and element x of row i of b. */
template <int strips, int count, int width>
SC_DEVICE void NAME_add_weighted(float (&c)[strips][width / 8][4],
                                 const float (&a)[strips][count / 8][4], sc_shared_ptr<uint16_t> b)
{
    constexpr int step = width + 8;
    const int lane = sc_lane();
    const sc_shared_ptr<uint16_t> b_of_lane =
        b + (((lane & 7) + (lane >> 3 & 1) * 8) * step + (lane >> 4) * 8);
#pragma unroll
    for (int j = 0; j < count / 8; j += 2) {
        uint32_t left[strips][4], right[4];
#pragma unroll
        for (int i = 0; i < strips; i++) {
            left[i][0] = PACK(a[i][j][0], a[i][j][1]);
            left[i][1] = PACK(a[i][j][2], a[i][j][3]);
            left[i][2] = PACK(a[i][j + 1][0], a[i][j + 1][1]);
            left[i][3] = PACK(a[i][j + 1][2], a[i][j + 1][3]);
        }
#pragma unroll
        for (int x = 0; x < width / 8; x += 2) {
            sc_load_matrices_transposed(right, b_of_lane + (8 * j * step + 8 * x));
#pragma unroll
            for (int i = 0; i < strips; i++) {
                MMA(c[i][x], left[i], right[0], right[1]);
                MMA(c[i][x + 1], left[i], right[2], right[3]);
            }
        }
    }
}

/* The warp's strips, each row times its factor, rounded, to shared memory, where row 0 begins at
 * byte `at`. */
template <int strips, int width>
SC_DEVICE void NAME_round(int at, const float (&c)[strips][width / 8][4],
                          const float (&factors)[2 * strips])
{
    constexpr int step = (width + 8) / 2;
    const sc_shared_ptr<uint32_t> to =
        sc_shared<uint32_t>(at) + ((sc_lane() >> 2) * step + (sc_lane() & 3));
#pragma unroll
    for (int i = 0; i < strips; i++) {
#pragma unroll
        for (int x = 0; x < width / 8; x++) {
            to[16 * i * step + 4 * x] =
                PACK(c[i][x][0] * factors[2 * i], c[i][x][1] * factors[2 * i]);
            to[(16 * i + 8) * step + 4 * x] =
                PACK(c[i][x][2] * factors[2 * i + 1], c[i][x][3] * factors[2 * i + 1]);
        }
    }
}
