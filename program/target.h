/* Compilation targets: "cpu", "cuda:sm_90a", .. */
#ifndef SHARDC_PROGRAM_TARGET_H
#define SHARDC_PROGRAM_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct sc_target {
    const char *name;         /* "cuda:sm_90a" */
    const char *architecture; /* "sm_90a"; "": CPU */
    const char *ptx;          /* "compute_90": PTX for GPUs of this capability or later */
    uint32_t capability;      /* minimum compute capability: 90 is 9.0 */
    uint32_t shared_bytes;    /* maximum shared memory of a block */
} sc_target;

/* In the order of target.def. */
extern const sc_target sc_targets[];
extern const size_t sc_target_count;

/* Returns NULL if there is no target of that name. */
const sc_target *sc_target_find(const char *name);
/* Returns the most similar name, or NULL. */
const char *sc_target_nearest(const char *name);
bool sc_target_is_cuda(const sc_target *target);
/* True for PTX-only targets without machine code. */
bool sc_target_is_virtual(const sc_target *target);
/* True for machine code that runs only on GPUs with exactly its capability: "sm_90a". */
bool sc_target_is_special(const sc_target *target);

#endif
