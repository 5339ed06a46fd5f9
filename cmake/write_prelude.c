/* Writes the helpers that epilogues of contractions compute with: the text that emitted kernels have, as a header for the runtime. So an
 * activation has the same bits wherever the compiler put it. */
#include <setjmp.h>
#include <stdio.h>

#include "codegen/printer/helpers.h"
#include "support/context.h"

static void write_helpers(sc_context *context, void *user)
{
    sc_strbuf out;
    sc_strbuf_init(&out, &context->arena);
    sc_helpers_emit(&out, SC_HELPER(bf16_to_f32) | SC_HELPER(f32_to_bf16) | SC_HELPER(f16_to_f32) | SC_HELPER(f32_to_f16) |
                              SC_HELPER(f64_to_bf16) | SC_HELPER(f64_to_f16) | SC_HELPER(tanh_f32) | SC_HELPER(sigmoid_f32) |
                              SC_HELPER(erf_f32) | SC_HELPER(exp_f32));
    fwrite(out.data, 1, out.length, user);
}

int main(int argc, char **argv)
{
    FILE *file = argc == 2 ? fopen(argv[1], "w") : NULL;
    sc_context context;
    if (file == NULL)
        return 1;
    bool ok = sc_context_run(&context, 0, write_helpers, file);
    sc_context_free(&context);
    return fclose(file) == 0 && ok ? 0 : 1;
}
