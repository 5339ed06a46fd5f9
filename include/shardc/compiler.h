/* Compiling models from within an application: a model's text in memory becomes an executable, as
 * `shardc build` makes one, which runtime.h runs.
 *
 *     #include <stdio.h>
 *     #include <shardc/compiler.h>
 *     #include <shardc/runtime.h>
 *
 *     shardc_status compile(const char *text, size_t length, shardc_executable **out,
 *                           shardc_error *error)
 *     {
 *         void *program = NULL;
 *         size_t size = 0;
 *         char *messages = NULL;
 *         shardc_compile_options options = {.plan = "tp2"};
 *
 *         shardc_status status = shardc_compile("model.shard", text, length, &options, &program,
 *                                               &size, &messages, error);
 *         if (messages != NULL)
 *             fputs(messages, stderr);
 *         if (status == SHARDC_OK)
 *             status = shardc_executable_read(program, size, out, error);
 *         shardc_compile_free(messages);
 *         shardc_compile_free(program);
 *         return status;
 *     }
 *
 * Kernels are compiled by the system's C compiler and cached in a folder of the user's
 * (SHARDC_CACHE, SHARDC_CC: docs/embedding.md). Threads: any number at once; calls share nothing.
 * Ownership: the caller frees what a call returns, with shardc_compile_free. */
#ifndef SHARDC_COMPILER_H
#define SHARDC_COMPILER_H

#include <stdbool.h>
#include <stddef.h>

#include "shardc/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* As the options of the command line; NULL: the option is not set. */
typedef struct shardc_compile_options {
    const char *plan; /* the file's only one by default; "none": one device */
    /* the plan's default entry; of the entry that `minimize` names, the train step */
    const char *entry;
    const char *bind; /* "B=4,S=256" */
    const char *mesh; /* "tp=2" */
    bool forward;     /* the entry itself instead of its train step */
    bool allow_padding;
} shardc_compile_options;

/* `name` is the file name in messages; imports are found relative to it. `options` may be NULL.
 * *out_messages gets errors, warnings and notes with their places, or NULL when there are none;
 * out_messages may be NULL. SHARDC_ERROR_DATA: the model or the plan is invalid, as the messages
 * say; SHARDC_ERROR_UNAVAILABLE: no C compiler could be run; SHARDC_ERROR_MEMORY. */
SHARDC_API shardc_status shardc_compile(const char *name, const char *text, size_t length,
                                        const shardc_compile_options *options, void **out_program,
                                        size_t *out_size, char **out_messages, shardc_error *error);

/* Frees what shardc_compile returned; NULL is allowed. */
SHARDC_API void shardc_compile_free(void *given);

/* "0.1.0" */
SHARDC_API const char *shardc_version(void);

#ifdef __cplusplus
}
#endif

#endif
