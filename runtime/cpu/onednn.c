/* Opens oneDNN and looks up its functions. */
#ifdef SHARDC_ONEDNN
#include "runtime/cpu/onednn.h"

#include "program/cpu_level.h"
#include "support/dynlib.h"

static const sc_dynlib_symbol symbols[] = {
#define SYMBOL(name) {#name, offsetof(sc_onednn, name)},
#include "runtime/cpu/onednn.def"
#undef SYMBOL
};
static const char *const names[] = {"libdnnl.so.2", NULL};
static const sc_dynlib library = {.title = "oneDNN",
                                  .remedy = "install oneDNN 2",
                                  .names = names,
                                  .symbols = symbols,
                                  .symbol_count = sizeof symbols / sizeof *symbols};

#if defined(__x86_64__)
/* Limits the library to the instructions that $SHARDC_CPU allows. That only works before its first
 * use in the process; false if it is too late. */
static bool is_allowed(const sc_onednn *onednn)
{
    static const dnnl_cpu_isa_t isas[] = {[SC_CPU_BASE] = dnnl_cpu_isa_sse41,
                                          [SC_CPU_AVX2] = dnnl_cpu_isa_avx2,
                                          [SC_CPU_AVX512] = dnnl_cpu_isa_avx512_core,
                                          [SC_CPU_AVX512_BF16] = dnnl_cpu_isa_avx512_core_bf16};
    sc_cpu_level allowed;
    sc_cpu_allowed(&allowed, NULL, 0);
    if (allowed == SC_CPU_NATIVE)
        return true;
    onednn->dnnl_set_max_cpu_isa(isas[allowed]);
    return ((unsigned)onednn->dnnl_get_effective_cpu_isa() & ~(unsigned)isas[allowed]) == 0;
}
#else
static bool is_allowed(const sc_onednn *onednn)
{
    (void)onednn;
    return true;
}
#endif

bool sc_onednn_open(sc_onednn *out)
{
    shardc_error error;
    if (!sc_dynlib_open(&library, out, &error))
        return false;
    if (is_allowed(out))
        return true;
    sc_onednn_close(out);
    return false;
}

void sc_onednn_close(sc_onednn *onednn)
{
    sc_dynlib_close(&library, onednn);
}
#else
typedef int sc_onednn_is_not_there; /* ISO C forbids an empty file */
#endif
