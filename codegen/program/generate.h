/* Generates a program (program/format.h) from the fused per-rank module: the last step of the
 * compiler.
 *
 * Every kernel of the module becomes a call of an emitted function, every contraction a GEMM, every
 * collective a start and, before its first reader, a finish; views are aliases of other values. The
 * new value of a state is computed in the state's buffer if the old one has no later reader, else
 * it is copied at the end. Equal functions are emitted once.
 *
 * The last micro-batch and the update of a train step are one more function, `micro+update`, which
 * the schedule calls instead (join_update.c). In every function collectives overlap computation
 * (overlap.h). */
#ifndef SHARDC_CODEGEN_PROGRAM_GENERATE_H
#define SHARDC_CODEGEN_PROGRAM_GENERATE_H

#include "codegen/cuda/launch.h"
#include "codegen/memory/plan.h"
#include "codegen/toolchain/objects.h"
#include "ir/batches.h"
#include "ir/ops/ops.h"
#include "ir/train.h"
#include "program/target.h"

typedef struct sc_generate_options {
    const char *facts;               /* for the program; NULL: {} */
    const sc_target *target;         /* NULL: this CPU */
    const sc_object_options *object; /* how functions are compiled; NULL: from the environment */
    bool no_object;                  /* sources only: the program has no object */
} sc_generate_options;

/* An emitted function, as shown by `shardc kernels`. */
typedef struct sc_generated_kernel {
    const char *symbol, *title;
    const char *text;       /* C or, for a CUDA target, its stages; with comments */
    const char *ir;         /* the kernel IR that it was printed from; NULL: attention */
    const char *why_simple; /* NULL: it has a fast form */
    sc_helper_set helpers;
    sc_cuda_code code; /* its scratch; for CUDA its stages, too */
    uint32_t calls;    /* static calls, over all functions of the program */
    double flops;      /* of its matmuls that are done: attention, routed products */
} sc_generated_kernel;

typedef struct sc_generated {
    sc_image *image;
    sc_memory_plan memory;
    SC_VEC(sc_generated_kernel) kernels; /* as image->kernels */
    SC_VEC(sc_loc) buffer_locs;          /* as image->buffers: of the op each is for */
    uint32_t compiled;                   /* functions that were not in the cache */
} sc_generated;

/* The module must be FUSED. False after a diagnostic. Allocates in the module's arena. */
bool sc_generate(sc_module *m, const sc_generate_options *options, sc_generated *out);

/* One module of a program with several. */
typedef struct sc_generate_part {
    sc_module *m;
    const char *name;          /* of its functions; NULL: their own names */
    const sc_train_step *step; /* NULL: not a train step */
    /* of an entry in stages that runs as several micro-batches, by its module's schedule; NULL: as
     * one */
    const sc_batches *batches;
} sc_generate_part;

/* A program: of a module that is cut into stages, one of each stage. */
typedef struct sc_generated_program {
    uint32_t stage_count; /* at least 1 */
    sc_generated *stages;
} sc_generated_program;

/* Generates one program from several modules of one context and mesh, cut into stages all or none.
 * Without stages it has the functions of all modules, in order, and the first module's schedule.
 *
 * With stages, it has those of a train step (a part with `step`), the starts of their receives and
 * its schedule; its last function is `update` on every stage. Any other module is an entry: one
 * function on every stage, with the name of its part. If it runs as several micro-batches that
 * function is a list of calls: of those of its chunks, NAME.F0, and of the starts of their
 * receives.
 *
 * Modules share a state by its path; it is an error if its type differs between two of them. */
bool sc_generate_program(const sc_generate_part *parts, uint32_t count,
                         const sc_generate_options *options, sc_generated_program *out);
/* The same, of modules that are not cut. */
bool sc_generate_parts(const sc_generate_part *parts, uint32_t count,
                       const sc_generate_options *options, sc_generated *out);
/* The memory of all ranks, with the host's if `with_host`; *out_host receives the most host memory
 * of a rank. In bytes. */
double sc_generated_needs(const sc_generated_program *program, bool with_host, int64_t *out_host);
/* Writes the images of all stages. */
void sc_generated_write(const sc_generated_program *program, sc_strbuf *out);

#endif
