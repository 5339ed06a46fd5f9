/* An executable is an image in an arena of its own. */
#ifndef SHARDC_RUNTIME_SESSION_EXECUTABLE_H
#define SHARDC_RUNTIME_SESSION_EXECUTABLE_H

#include "program/format.h"
#include "shardc/runtime.h"

struct shardc_executable {
    sc_arena arena;
    sc_image *image;
};

/* Fills `error`, which may be NULL, and returns the status. */
shardc_status sc_fail(shardc_error *error, shardc_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
