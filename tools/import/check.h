/* import --check: the imported model on given inputs, compared with given logits. */
#ifndef SHARDC_TOOLS_IMPORT_CHECK_H
#define SHARDC_TOOLS_IMPORT_CHECK_H

#include "tools/driver/driver.h"

/* `model` is the text of the model file, options->check a safetensors file with `input_ids`, of two
 * dims, and `logits`; of an encoder and decoder also `decoder_input_ids`; further inputs of the
 * entry have their own names. The weights are those of
 * the folder. Reports the largest difference, as an error if it is more than the precision
 * explains. */
void sc_import_check(sc_context *context, const sc_options *options, const char *precision,
                     const sc_strbuf *model);

#endif
