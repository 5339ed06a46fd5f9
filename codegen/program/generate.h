/* From the fused per-rank module to a program (program/format.h): the last step of the compiler.
 *
 * Every kernel of the module becomes a call of an emitted function, every contraction a gemm, every collective a start and, where its first
 * reader stands, a finish; names are places of other values. A value that a state is to have after the call is computed where the state
 * stands, as soon as nobody reads the old one any more; else it is copied at the end. Equal functions are emitted once.
 *
 * A train step's last micro-batch and its update are one more function, `micro+update`, which the schedule calls instead (join_update.c),
 * and in every function collectives are under way while others compute (overlap.h). */
#ifndef SHARDC_CODEGEN_PROGRAM_GENERATE_H
#define SHARDC_CODEGEN_PROGRAM_GENERATE_H

#include "codegen/cuda/launch.h"
#include "codegen/memory/plan.h"
#include "codegen/toolchain/objects.h"
#include "ir/ops/ops.h"
#include "ir/train.h"
#include "program/target.h"

typedef struct sc_generate_options {
    const char *facts;               /* for the image; NULL: {} */
    const sc_target *target;         /* NULL: this CPU */
    const sc_object_options *object; /* how functions are compiled; NULL: as the environment says */
    bool no_object;                  /* sources only: the image has no object */
} sc_generate_options;

/* An emitted function, as `shardc kernels` shows it. */
typedef struct sc_generated_kernel {
    const char *symbol, *title;
    const char *text;       /* C or, for a target of CUDA, its stages, with comments */
    const char *ir;         /* the kernel IR that it was printed from; NULL: attention */
    const char *why_simple; /* NULL: it has a fast form */
    sc_helper_set helpers;
    sc_cuda_code code; /* its scratch; of CUDA its stages, too */
    uint32_t calls;    /* in all functions of the program, once through each */
} sc_generated_kernel;

typedef struct sc_generated {
    sc_image *image;
    sc_memory_plan memory;
    SC_VEC(sc_generated_kernel) kernels; /* as image->kernels */
    SC_VEC(sc_loc) buffer_locs;          /* as image->buffers: of the op that each is for */
    uint32_t compiled;                   /* functions that were not in the cache */
} sc_generated;

/* The module is FUSED. False after a message. Everything is in the module's arena. */
bool sc_generate(sc_module *m, const sc_generate_options *options, sc_generated *out);

/* A module of a program that has several. */
typedef struct sc_generate_part {
    sc_module *m;
    const char *name;          /* of its functions; NULL: their own */
    const sc_train_step *step; /* NULL: it is none */
} sc_generate_part;

/* Several modules of one context and mesh: a program with the functions of all, in order, and the first one's schedule. A state is one
 * for all that have it, by its path; that it looks different in two of them is a message. */
bool sc_generate_parts(const sc_generate_part *parts, uint32_t count, const sc_generate_options *options, sc_generated *out);

#endif
