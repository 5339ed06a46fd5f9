#ifdef SHARDC_ONEDNN
#include "runtime/onednn.h"

#include "support/dynlib.h"

static const sc_dynlib_symbol symbols[] = {
#define SYMBOL(name) {#name, offsetof(sc_onednn, name)},
#include "runtime/onednn.def"
#undef SYMBOL
};
static const char *const names[] = {"libdnnl.so.2", NULL};
static const sc_dynlib library = {
    .title = "oneDNN", .remedy = "install oneDNN 2", .names = names, .symbols = symbols, .symbol_count = sizeof symbols / sizeof *symbols};

bool sc_onednn_open(sc_onednn *out)
{
    shardc_error error;
    return sc_dynlib_open(&library, out, &error);
}

void sc_onednn_close(sc_onednn *onednn)
{
    sc_dynlib_close(&library, onednn);
}
#else
typedef int sc_onednn_is_not_there; /* a file is never empty */
#endif
