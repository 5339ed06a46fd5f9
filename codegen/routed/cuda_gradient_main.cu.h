/* A block of the gradient: 64 x 64 elements of the weights of one id. An id without rows gets 0. */
/*@ text */
SC_KERNEL(256, 2) void NAME_1(PARAMETERS)
{
    const int64_t *const starts = (const int64_t *)scratch,
                         *const first = starts + 2 * (COUNT_EXPERTS + 2),
                         *const second = first + COUNT_ROWS;
    const int64_t e = sc_block() / (COUNT_PIECES * COUNT_CHUNKS),
                  row = sc_block() / COUNT_CHUNKS % COUNT_PIECES * 64,
                  column = sc_block() % COUNT_CHUNKS * 64;
    const int64_t m = COUNT_M - row < 64 ? COUNT_M - row : 64,
                  n = COUNT_N - column < 64 ? COUNT_N - column : 64;
    NAME_tile(x + row * STEP_A, y + column * STEP_B_N,
              out + e * STEP_EXPERT + row * STEP_C_M + column * STEP_C_N, first + starts[e],
              second + starts[e], m, n, starts[e + 1] - starts[e]);
}
