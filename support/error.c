#include "support/error.h"

#include <stdarg.h>

#include "support/number.h"

shardc_status sc_fail(shardc_error *error, shardc_status status, const char *format, ...)
{
    va_list args;
    if (error == NULL)
        return status;
    error->status = status;
    va_start(args, format);
    sc_vsnprintf(error->text, sizeof error->text, format, args);
    va_end(args);
    return status;
}
