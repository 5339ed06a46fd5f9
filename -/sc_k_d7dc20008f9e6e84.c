/*
kernel @kernel "f: add" {
  from "examples/mlp.shard:5: return dot[F](gelu(dot[D](x, w1) + b1), w2) + b2;"
  dim "B*S" = 64
  dim D = 32
  arg t_0: f32[64, 32] in
  arg b2_1: f32[32] in
  arg out_2: f32[64, 32] out
  outer "B*S", D
  %0 = index D : i64
  %1 = index "B*S" : i64
  %2 = load t_0 %1, %0 : f32
  %3 = load b2_1 %0 : f32
  %4 = add %2, %3 : f32
  phase {
    store out_2 %1, %0 = %4
  }
}
*/

#include <stddef.h>
#include <stdint.h>


/* f: add
 * examples/mlp.shard:5: return dot[F](gelu(dot[D](x, w1) + b1), w2) + b2; */
int64_t sc_k_d7dc20008f9e6e84(void *const *args, const int64_t *params)
{
    const float *const t_0 = args[0];
    const float *restrict const b2_1 = args[1];
    float *const out_2 = args[2];
    (void)params;
    for (int64_t B_S = 0; B_S < 64; B_S++) {
        const int64_t o0 = B_S * 32;
#pragma omp simd
        for (int64_t D = 0; D < 32; D++) {
            const float v2 = t_0[o0 + D];
            out_2[o0 + D] = v2 + b2_1[D];
        }
    }
    return 0;
}
