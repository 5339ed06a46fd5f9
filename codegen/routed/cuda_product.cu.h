/* Where a routed product on GPUs has its elements. */
/*@ text */
SC_DEVICE REAL NAME_a(const X_TYPE *x, const int64_t *first, int64_t i, int64_t p)
{
    return FROM_X(x[first[i] + p * STEP_A]);
}
SC_DEVICE REAL NAME_b(const Y_TYPE *y, const int64_t *second, int64_t p, int64_t j)
{
    return FROM_Y(y[p * STEP_B_K + j * STEP_B_N]);
}
SC_DEVICE int64_t NAME_c(const int64_t *second, int64_t i, int64_t j)
{
    return second[i] + j * STEP_C_N;
}
