/* PTX on a CPU: the texts that NVRTC makes of shardc's kernels are parsed, and executed a warp at a
 * time, as the PTX ISA says. What a GPU would do silently wrong, or not always, ends a launch with
 * a report of the kernel, the line of the text, the thread and the cause:
 *  - registers that are read before anything was written to them, in the widths that they were
 * declared with;
 *  - memory: bytes outside of every array, addresses that the width does not divide, shared and
 * local bytes that nobody wrote, global ones that are still the poison of sc_machine_alloc;
 *  - races by byte, in shared and in global memory: two threads, one of which writes, with no
 * bar.sync (within a warp: bar.warp.sync) between; two blocks of a launch;
 *  - cp.async: bytes that are touched while a copy to them is under way, whoever waits;
 *  - what warps and blocks do together without all lanes, or at different instructions;
 *  - on sm_90a: shared memory whose order only mbarriers can give and do not, waits that are never
 * over, data that no fence.proxy.async published, registers of matmuls under way, bulk copies that
 * are under way when the block ends.
 *
 * Everything here may be called from several threads at once, with launches of their own. */
#ifndef SHARDC_TEST_PTX_PTX_H
#define SHARDC_TEST_PTX_PTX_H

#include "test/cuda_on_cpu/harness.h"

typedef struct sc_ptx_module sc_ptx_module;

/* NULL after a report: the line, and what is no PTX or not in the tables (roots.def, *_forms.def).
 */
sc_ptx_module *sc_ptx_load(const char *text, size_t bytes, sc_machine_report *report);
void sc_ptx_unload(sc_ptx_module *module);

/* Of the .target: 80; 0: none. */
int sc_ptx_capability(const sc_ptx_module *module);
uint32_t sc_ptx_kernel_count(const sc_ptx_module *module);
const sc_machine_kernel *sc_ptx_kernel_at(const sc_ptx_module *module, uint32_t index);
/* NULL: no such kernel. */
const sc_machine_kernel *sc_ptx_kernel_named(const sc_ptx_module *module, const char *name);

/* How far ex2.approx and its like are off: as far as the PTX ISA allows, of the same operand always
 * in the same way. Sums of mma round to nearest, or (BELOW, EITHER) towards 0. */
typedef enum sc_ptx_errors {
    SC_PTX_NEAREST,
    SC_PTX_ABOVE,
    SC_PTX_BELOW,
    SC_PTX_EITHER, /* by the operand's bits */
    SC_PTX_ERRORS
} sc_ptx_errors;

/* `launch`: its module is not looked at. */
bool sc_ptx_run(const sc_ptx_module *module, const sc_machine_launch *launch, sc_ptx_errors errors,
                sc_machine_report *report);

#endif
