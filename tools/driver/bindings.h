/* Sizes by name, `D=64,E=8`, as given to --bind and --mesh. */
#ifndef SHARDC_TOOLS_DRIVER_BINDINGS_H
#define SHARDC_TOOLS_DRIVER_BINDINGS_H

#include "tools/driver/driver.h"

/* Appends to the list; reports invalid text with the option's name. */
void sc_parse_bindings(sc_context *context, const char *option, const char *text,
                       sc_binding_list *list);

#endif
