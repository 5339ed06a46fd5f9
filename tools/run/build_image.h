/* A compiled entry or train step as the bytes of a program that knows how it is driven. */
#ifndef SHARDC_TOOLS_RUN_BUILD_IMAGE_H
#define SHARDC_TOOLS_RUN_BUILD_IMAGE_H

#include "tools/driver/driver.h"

/* Of an entry that was compiled up to `fuse`: its image with its facts, and with the function that goes with it: of a train step the
 * forward entry, of a cached entry the prefill. Initialises *image. False after messages. */
bool sc_build_image(sc_context *context, const sc_options *options, const sc_compiled *c, sc_strbuf *image);

#endif
