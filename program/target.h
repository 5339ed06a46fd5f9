/* What programs are compiled for: "cpu", "cuda:sm_90a", .. */
#ifndef SHARDC_PROGRAM_TARGET_H
#define SHARDC_PROGRAM_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct sc_target {
    const char *name;         /* "cuda:sm_90a" */
    const char *architecture; /* "sm_90a"; "": a CPU */
    const char *ptx;          /* "compute_90": what GPUs of the capability and all later ones take */
    uint32_t capability;      /* of the least GPU that runs it: 90 is 9.0 */
    uint32_t shared_bytes;    /* that a block may have */
} sc_target;

/* In the order of target.def. */
extern const sc_target sc_targets[];
extern const size_t sc_target_count;

/* NULL: none has that name. */
const sc_target *sc_target_find(const char *name);
/* The name that is most like it, or NULL. */
const char *sc_target_nearest(const char *name);
bool sc_target_is_cuda(const sc_target *target);
/* PTX alone: there is no machine code of it. */
bool sc_target_is_virtual(const sc_target *target);
/* Machine code of GPUs with exactly its capability: "sm_90a". */
bool sc_target_is_special(const sc_target *target);

#endif
