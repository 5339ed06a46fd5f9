/* Where the gradient of a routed product on GPUs has its elements. */
/*@ text */
SC_DEVICE REAL NAME_a(const X_TYPE *x, const int64_t *first, int64_t i, int64_t p)
{
    return FROM_X(x[first[p] + i * STEP_A]);
}
SC_DEVICE REAL NAME_b(const Y_TYPE *y, const int64_t *second, int64_t p, int64_t j)
{
    return FROM_Y(y[second[p] + j * STEP_B_N]);
}
SC_DEVICE int64_t NAME_c(const int64_t *second, int64_t i, int64_t j)
{
    return i * STEP_C_M + j * STEP_C_N;
}
