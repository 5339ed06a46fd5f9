/* An executable is a compiled program together with the arena that holds it. */
#ifndef SHARDC_RUNTIME_SESSION_EXECUTABLE_H
#define SHARDC_RUNTIME_SESSION_EXECUTABLE_H

#include "program/format.h"
#include "shardc/runtime.h"
#include "support/error.h"

struct shardc_executable {
    sc_arena arena;
    sc_image *image;
};

#endif
