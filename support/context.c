#include "support/context.h"

#include <string.h>

static void on_failure(void *user)
{
    sc_context *context = user;
    longjmp(context->out_of_memory, 1);
}

bool sc_context_run(sc_context *context, uint64_t fail_at, void (*work)(sc_context *, void *),
                    void *user)
{
    memset(context, 0, sizeof *context);
    sc_arena_init(&context->arena, on_failure, context);
    context->arena.fail_at = fail_at;
    sc_arena_init(&context->scratch, on_failure, context);
    if (setjmp(context->out_of_memory) != 0)
        return false;
    sc_interner_init(&context->names, &context->arena);
    sc_sources_init(&context->sources, &context->arena);
    sc_diag_init(&context->diag, &context->arena);
    work(context, user);
    return true;
}

void sc_context_free(sc_context *context)
{
    sc_arena_free(&context->arena);
    sc_arena_free(&context->scratch);
}
