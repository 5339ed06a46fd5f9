#ifdef SHARDC_ONEDNN
#include "runtime/onednn.h"

#include <dlfcn.h>
#include <string.h>

bool sc_onednn_open(sc_onednn *out)
{
    memset(out, 0, sizeof *out);
    out->library = dlopen("libdnnl.so.2", RTLD_NOW | RTLD_LOCAL);
    bool ok = out->library != NULL;
#define SYMBOL(name)                                                                                                                       \
    *(void **)(&out->name) = ok ? dlsym(out->library, #name) : NULL;                                                                       \
    ok = ok && out->name != NULL;
#include "runtime/onednn.def"
#undef SYMBOL
    if (!ok)
        sc_onednn_close(out);
    return ok;
}

void sc_onednn_close(sc_onednn *onednn)
{
    if (onednn->library != NULL)
        dlclose(onednn->library);
    memset(onednn, 0, sizeof *onednn);
}
#else
typedef int sc_onednn_is_not_there; /* a file is never empty */
#endif
