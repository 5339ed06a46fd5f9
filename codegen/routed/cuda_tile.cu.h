/* A tile of a routed product on GPUs: c[m][n] = sum over k of a[m][k] b[k][n], m and n at most 64,
 * by a block of 256 threads. A thread has sums of 4 x 4 elements; the terms of each are added in
 * the order of k. NAME_a, NAME_b and NAME_c know where elements are. */
/*@ text */
SC_DEVICE void NAME_tile(const X_TYPE *x, const Y_TYPE *y, OUT_TYPE *out, const int64_t *first,
                         const int64_t *second, int64_t m, int64_t n, int64_t k)
{
    const sc_shared_ptr<REAL> a = sc_shared<REAL>(0),
                              b = sc_shared<REAL>(16 * 65 * (int)sizeof(REAL));
    const int row = sc_thread() / 16, column = sc_thread() % 16;
    REAL sums[4][4] = {};
    for (int64_t from = 0; from < k; from += 16) {
        sc_sync();
        for (int i = sc_thread(); i < 16 * 64; i += 256) {
            const int r = ROW_OF_A, p = TERM_OF_A, j = COLUMN_OF_B, q = TERM_OF_B;
            a[p * 65 + r] = r < m && from + p < k ? NAME_a(x, first, r, from + p) : (REAL)0;
            b[q * 65 + j] = j < n && from + q < k ? NAME_b(y, second, from + q, j) : (REAL)0;
        }
        sc_sync();
        for (int p = 0; p < 16; p++) {
            REAL left[4], right[4];
            for (int i = 0; i < 4; i++) {
                left[i] = a[p * 65 + row + 16 * i];
                right[i] = b[p * 65 + column + 16 * i];
            }
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 4; j++)
                    sums[i][j] += left[i] * right[j];
        }
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            if (row + 16 * i < m && column + 16 * j < n)
                out[NAME_c(second, row + 16 * i, column + 16 * j)] = STORED(sums[i][j]);
}
