#include "program/format.h"

const char *const sc_image_buffer_kind_names[SC_BUFFER_KINDS] = {
    [SC_BUFFER_PARAM] = "param",
    [SC_BUFFER_GRAD] = "grad",
    [SC_BUFFER_OPT] = "opt",
    [SC_BUFFER_CACHE] = "cache",
    [SC_BUFFER_OTHER_STATE] = "state",
    [SC_BUFFER_SLOT] = "slot",
    [SC_BUFFER_ACT] = "act",
    [SC_BUFFER_COMM] = "comm",
    [SC_BUFFER_WORKSPACE] = "workspace",
};

const char *const sc_image_reduce_names[SC_IMAGE_REDUCES] = {"whole", "sum", "max", "min"};
