/* PROG tune: finds the fastest cuBLASLt algorithm for each matmul on this machine's GPUs, for later
 * runs. */
#include <stdlib.h>

#include "program/target.h"
#include "runtime/drive/json.h"
#include "tools/prog/prog.h"

static void print_json(const shardc_gemm_tuning *p, sc_strbuf *out)
{
    json_t *root = json_object();
    json_object_set_new(root, "matmuls", json_integer(p->gemms));
    json_object_set_new(root, "measured", json_integer(p->measured));
    json_object_set_new(root, "faster", json_integer(p->improved));
    json_object_set_new(root, "apart", json_integer(p->apart));
    json_object_set_new(root, "first", sc_number_json(p->first_seconds));
    json_object_set_new(root, "least", sc_number_json(p->best_seconds));
    sc_print_json(root, out);
}

void sc_prog_tune(sc_prog *prog)
{
    shardc_gemm_tuning p;
    prog->tune = true;
    if (sc_prog_open(prog) == NULL)
        return;
    shardc_session_gemm_tuning(prog->session, &p);
    const sc_target *target = sc_target_find(shardc_executable_target(prog->program));
    if (target == NULL || !sc_target_is_cuda(target))
        sc_prog_fail(prog, SC_D_usage,
                     "this program, for %s, has no matmuls that cuBLASLt computes",
                     shardc_executable_target(prog->program));
    else if (!prog->executor->is_first)
        return;
    else if (p.gemms > 0 && !p.is_saved)
        sc_prog_fail(prog, SC_D_run_failed, "%s",
                     p.write_error[0] != 0 ? p.write_error
                                           : "there is no file to save the algorithms in");
    else if (prog->run.json)
        print_json(&p, &prog->out);
    else
        sc_strbuf_printf(&prog->out,
                         "%u matmul%s measured: %u faster with another algorithm than the "
                         "library's first, %u with the epilogue in kernels; a call of each "
                         "%.4g ms, before %.4g ms\n",
                         p.measured, p.measured == 1 ? "" : "s", p.improved, p.apart,
                         1e3 * p.best_seconds, 1e3 * p.first_seconds);
}
