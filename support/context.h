/* One compile: its memory, names, sources and diagnostics. Contexts share nothing. */
#ifndef SHARDC_SUPPORT_CONTEXT_H
#define SHARDC_SUPPORT_CONTEXT_H

#include <setjmp.h>

#include "support/arena.h"
#include "support/diag.h"
#include "support/intern.h"
#include "support/source.h"

typedef struct sc_context {
    sc_arena arena;
    sc_arena scratch; /* temporary memory, used between a mark and its release (sc_arena_release) */
    sc_interner names;
    sc_sources sources;
    sc_diag diag;
    jmp_buf out_of_memory; /* set by sc_context_run only */
} sc_context;

/* Runs `work(context, user)`. Returns false if memory runs out; then arena memory must not be used,
 * only freed. All use of a context happens inside such a call. `fail_at` makes the n-th allocation
 * fail (tests); 0: none. */
bool sc_context_run(sc_context *context, uint64_t fail_at, void (*work)(sc_context *, void *),
                    void *user);
void sc_context_free(sc_context *context);

static inline const char *sc_text(const sc_context *context, sc_sym sym)
{
    return sc_sym_text(&context->names, sym);
}

#endif
