/* An executable is a compiled program together with the arena that holds it. */
#ifndef SHARDC_RUNTIME_SESSION_EXECUTABLE_H
#define SHARDC_RUNTIME_SESSION_EXECUTABLE_H

#include "program/stages.h"
#include "shardc/runtime.h"
#include "support/error.h"

struct shardc_executable {
    sc_arena arena;
    sc_program all;  /* the images of its stages */
    sc_image *image; /* what they have as one: all.whole */
};

#endif
