/* Emits the helpers of kernels after the team text. */
#include "codegen/cuda/emit.h"

void sc_cuda_helpers_emit(sc_strbuf *out, sc_helper_set helpers)
{
    const sc_helper_set machine = SC_CUDA_MACHINE_HELPERS | SC_HELPER(f32_to_bf16) |
                                  SC_HELPER(f32_to_f16) | SC_HELPER(div_int) | SC_HELPER(mod_int) |
                                  SC_HELPER(exp_below_f32) | SC_HELPER(tanh_f32) |
                                  SC_HELPER(sigmoid_f32);
    helpers = sc_helpers_closed(helpers & ~machine) & ~machine;
    sc_strbuf_add(out, sc_cuda_team_text);
    sc_strbuf_add_char(out, '\n');
    for (int i = 0; i < SC_HELPER_COUNT; i++) {
        if ((helpers >> i & 1) == 0)
            continue;
        sc_strbuf_add(out, sc_helper_text((sc_helper)i));
        sc_strbuf_add_char(out, '\n');
    }
}
