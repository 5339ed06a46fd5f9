/* Compiling models from within a program: a model's text in memory becomes an executable, as `shardc build` makes one, which runtime.h
 * runs.
 *
 *     void *program;
 *     size_t size;
 *     char *messages;
 *     shardc_error error;
 *     shardc_status status = shardc_compile("model.shard", text, length, &(shardc_compile_options){.plan = "tp2"}, &program, &size,
 * &messages, &error); if (messages != NULL) fputs(messages, stderr); if (status == SHARDC_OK) status = shardc_executable_read(program,
 * size, &executable, &error);
 *
 * Kernels are compiled by the system's C compiler and kept in a folder of the user's (SHARDC_CACHE, SHARDC_CC: see docs/embedding.md).
 * Threads: any number at once; calls share nothing. Ownership: what a call gives is the caller's, for shardc_compile_free. */
#ifndef SHARDC_COMPILER_H
#define SHARDC_COMPILER_H

#include <stdbool.h>
#include <stddef.h>

#include "shardc/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* As the options of the command line; NULL: not given. */
typedef struct shardc_compile_options {
    const char *plan;  /* the file's only one by default; "none": one device */
    const char *entry; /* the plan's default: of a minimised entry, its train step */
    const char *bind;  /* "B=4,S=256" */
    const char *mesh;  /* "tp=2" */
    bool forward;      /* the entry itself, never its train step */
    bool allow_padding;
} shardc_compile_options;

/* `name` stands in messages, and imports are looked for beside it. `options` may be NULL. *out_messages: errors, warnings and notes with
 * their places, or NULL when there are none; it may be NULL itself. SHARDC_ERROR_DATA: the model or the plan is wrong, and the messages say
 * what; SHARDC_ERROR_UNAVAILABLE: no C compiler could be run; SHARDC_ERROR_MEMORY. */
SHARDC_API shardc_status shardc_compile(const char *name, const char *text, size_t length, const shardc_compile_options *options,
                                        void **out_program, size_t *out_size, char **out_messages, shardc_error *error);

/* Of what shardc_compile gave; NULL is allowed. */
SHARDC_API void shardc_compile_free(void *given);

/* "0.1.0" */
SHARDC_API const char *shardc_version(void);

#ifdef __cplusplus
}
#endif

#endif
