/* A block of the product: up to 64 rows of one id, and 64 columns. How many blocks an id has is
 * known only here: those that are too many have nothing to do. Rows of ids that other ranks have
 * are the last, and give 0. */
/*@ text */
SC_KERNEL(256, 2) void NAME_1(PARAMETERS)
{
    const int64_t *const starts = (const int64_t *)scratch,
                         *const first = starts + 2 * (COUNT_EXPERTS + 2),
                         *const second = first + COUNT_ROWS;
    int64_t number = sc_block() / COUNT_CHUNKS, e = 0;
    const int64_t column = sc_block() % COUNT_CHUNKS * 64,
                  n = COUNT_N - column < 64 ? COUNT_N - column : 64;
    while (e <= COUNT_EXPERTS && number >= (starts[e + 1] - starts[e] + 63) / 64) {
        number -= (starts[e + 1] - starts[e] + 63) / 64;
        e++;
    }
    if (e > COUNT_EXPERTS)
        return;
    const int64_t row = starts[e] + number * 64,
                  m = starts[e + 1] - row < 64 ? starts[e + 1] - row : 64;
    if (e < COUNT_EXPERTS) {
        NAME_tile(x, y + e * STEP_EXPERT + column * STEP_B_N, out + column * STEP_C_N, first + row,
                  second + row, m, n, COUNT_K);
        return;
    }
    for (int64_t i = sc_thread(); i < m * n; i += 256)
        out[NAME_c(second + row, i / n, column + i % n)] = 0;
}
