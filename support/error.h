/* Errors of the runtime's calls (shardc/status.h). */
#ifndef SHARDC_SUPPORT_ERROR_H
#define SHARDC_SUPPORT_ERROR_H

#include "shardc/status.h"

/* Fills `error`, which may be NULL, and returns the status. */
shardc_status sc_fail(shardc_error *error, shardc_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
