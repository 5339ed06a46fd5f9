/* The real cuBLASLt, where it is installed: descriptions of products need no GPU, and the library
 * refuses an attribute that it does not know or that has another size. test/cuda/signatures.c has
 * the numbers; this has what they are set to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "runtime/cuda/libcublaslt.h"

static sc_cublaslt lt;

/* Whatever stands in for it elsewhere is not meant. */
static int open_library(void **state)
{
    shardc_error error;
    (void)state;
    unsetenv("SHARDC_CUBLASLT");
    if (!sc_cublaslt_open(&lt, &error)) {
        lt.library = NULL;
        print_message("not here: %s\n", error.text);
    }
    return 0;
}

static int close_library(void **state)
{
    (void)state;
    if (lt.library != NULL)
        sc_cublaslt_close(&lt);
    return 0;
}

/* The library takes the value, and not with a byte less. */
#define TAKES(set, object, which, type, value)                                                     \
    do {                                                                                           \
        type taken = (value);                                                                      \
        assert_int_equal(lt.set(object, which, &taken, sizeof taken), SC_LT_SUCCESS);              \
        assert_int_equal(lt.set(object, which, &taken, sizeof taken - 1), SC_LT_INVALID_VALUE);    \
    } while (0)

static void products_are_described(void **state)
{
    (void)state;
    static const sc_lt_compute computes[][2] = {{SC_LT_COMPUTE_32F, SC_LT_F32},
                                                {SC_LT_COMPUTE_64F, SC_LT_F64}};
    static const uint32_t epilogues[] = {
        SC_LT_EPILOGUE_NONE,      SC_LT_EPILOGUE_RELU,          SC_LT_EPILOGUE_BIAS,
        SC_LT_EPILOGUE_RELU_BIAS, SC_LT_EPILOGUE_GELU,          SC_LT_EPILOGUE_GELU_BIAS,
        SC_LT_EPILOGUE_GELU_AUX,  SC_LT_EPILOGUE_GELU_AUX_BIAS, SC_LT_EPILOGUE_DGELU,
        SC_LT_EPILOGUE_BGRAD_A,   SC_LT_EPILOGUE_BGRAD_B};
    if (lt.library == NULL)
        skip();
    assert_true(lt.cublasLtGetVersion() >= 120000);
    for (int c = 0; c < 2; c++) {
        sc_lt_desc desc = NULL;
        assert_int_equal(lt.cublasLtMatmulDescCreate(&desc, computes[c][0], computes[c][1]),
                         SC_LT_SUCCESS);
        TAKES(cublasLtMatmulDescSetAttribute, desc, SC_LT_DESC_TRANSPOSE_A, int32_t,
              SC_LT_TRANSPOSED);
        TAKES(cublasLtMatmulDescSetAttribute, desc, SC_LT_DESC_TRANSPOSE_B, int32_t, SC_LT_AS_IS);
        for (size_t e = 0; e < sizeof epilogues / sizeof *epilogues; e++)
            TAKES(cublasLtMatmulDescSetAttribute, desc, SC_LT_DESC_EPILOGUE, uint32_t,
                  epilogues[e]);
        TAKES(cublasLtMatmulDescSetAttribute, desc, SC_LT_DESC_BIAS, const void *, &lt);
        TAKES(cublasLtMatmulDescSetAttribute, desc, SC_LT_DESC_AUX, const void *, &lt);
        TAKES(cublasLtMatmulDescSetAttribute, desc, SC_LT_DESC_AUX_STRIDE, int64_t, 64);
        TAKES(cublasLtMatmulDescSetAttribute, desc, SC_LT_DESC_AUX_BATCH_STRIDE, int64_t, 640);
        assert_int_equal(lt.cublasLtMatmulDescDestroy(desc), SC_LT_SUCCESS);
    }
}

static void matrices_are_described(void **state)
{
    (void)state;
    static const sc_lt_dtype dtypes[] = {SC_LT_F32, SC_LT_F64, SC_LT_F16, SC_LT_BF16};
    if (lt.library == NULL)
        skip();
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        sc_lt_layout layout = NULL;
        assert_int_equal(lt.cublasLtMatrixLayoutCreate(&layout, dtypes[d], 64, 10, 72),
                         SC_LT_SUCCESS);
        TAKES(cublasLtMatrixLayoutSetAttribute, layout, SC_LT_LAYOUT_BATCH_COUNT, int32_t, 3);
        TAKES(cublasLtMatrixLayoutSetAttribute, layout, SC_LT_LAYOUT_BATCH_STRIDE, int64_t, 720);
        assert_int_equal(lt.cublasLtMatrixLayoutDestroy(layout), SC_LT_SUCCESS);
    }
}

static void preferences_are_described(void **state)
{
    (void)state;
    sc_lt_preference preference = NULL;
    if (lt.library == NULL)
        skip();
    assert_int_equal(lt.cublasLtMatmulPreferenceCreate(&preference), SC_LT_SUCCESS);
    TAKES(cublasLtMatmulPreferenceSetAttribute, preference, SC_LT_PREFER_WORKSPACE_BYTES, uint64_t,
          32 << 20);
    TAKES(cublasLtMatmulPreferenceSetAttribute, preference, SC_LT_PREFER_REDUCTIONS, uint32_t,
          SC_LT_REDUCE_AS_COMPUTED);
    for (sc_lt_preference_attribute which = SC_LT_PREFER_ALIGN_A; which <= SC_LT_PREFER_ALIGN_D;
         which++)
        TAKES(cublasLtMatmulPreferenceSetAttribute, preference, which, uint32_t, 16);
    assert_int_equal(lt.cublasLtMatmulPreferenceDestroy(preference), SC_LT_SUCCESS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(products_are_described),
                                       cmocka_unit_test(matrices_are_described),
                                       cmocka_unit_test(preferences_are_described)};
    return cmocka_run_group_tests(tests, open_library, close_library);
}
