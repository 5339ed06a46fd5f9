/* Gives every op of a forward entry the chunk of the pipeline that runs it. */
#ifndef SHARDC_PASSES_TAG_CHUNKS_H
#define SHARDC_PASSES_TAG_CHUNKS_H

#include "ir/pipeline/pipeline.h"

/* Runs on the elaborated entry, before it is differentiated. False after reporting an error: an op
 * reads a value of a later chunk. */
bool sc_tag_chunks(sc_module *m, sc_func_id func, const sc_pipeline *pipeline);

#endif
