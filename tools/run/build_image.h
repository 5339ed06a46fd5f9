/* Serialises a compiled entry or train step as a program with its facts (how to drive it). */
#ifndef SHARDC_TOOLS_RUN_BUILD_IMAGE_H
#define SHARDC_TOOLS_RUN_BUILD_IMAGE_H

#include "tools/driver/driver.h"

/* Generates the program of an entry compiled up to `fuse`, with its facts and its second function:
 * for a train step the forward entry, for a cached entry the prefill. Initialises *image. Returns
 * false after reporting errors. */
bool sc_build_image(sc_context *context, const sc_options *options, const sc_compiled *c,
                    sc_strbuf *image);

#endif
