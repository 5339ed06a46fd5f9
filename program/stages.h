/* Whole programs: one image, or one per pipeline stage (program/format.h). */
#ifndef SHARDC_PROGRAM_STAGES_H
#define SHARDC_PROGRAM_STAGES_H

#include "program/format.h"

typedef struct sc_program {
    uint32_t stage_count; /* of images, at least 1 */
    sc_image **stages;
    /* What the program has as one: of a single image, that image. Of several, an image without
     * instructions, buffers and tables: states, functions, inputs and outputs of all stages, those
     * with the same path or name once (its tensors' `holders` tell which stages have them); the
     * calls of all stages, in their order, each once; the largest arena; a hash over all images */
    sc_image *whole;
    /* by function of `whole` and stage: the function's index in that image, or SC_NONE */
    uint32_t **funcs;
} sc_program;

/* Writes the images in order. Each must pass sc_image_check, all together sc_program_check. */
void sc_program_write(const sc_image *const *stages, uint32_t count, sc_strbuf *out);

/* Reads a program from untrusted bytes into the arena, like sc_image_read. Images of several stages
 * pass sc_program_check. */
bool sc_program_read(const void *data, size_t size, sc_arena *arena, sc_program *out,
                     shardc_error *error);

/* Checks images of several stages against each other: the same mesh, target and facts, each stage
 * once and in order; every boundary has both ends, where the n-th message sent and the n-th
 * received have equal parts; and the schedule ends, as does every function that it does not call:
 * no stage waits for a message that another one cannot start before. Before the last call of the
 * schedule all ranks meet; both ends have then started the same messages. Returns NULL, or a
 * description of the fault in the arena. */
const char *sc_program_check(sc_image *const *stages, uint32_t count, sc_arena *arena);

#endif
