/* Tensors of a weights file that no parameter reads: a file of another model has such. */
#ifndef SHARDC_RUNTIME_DRIVE_UNREAD_TENSORS_H
#define SHARDC_RUNTIME_DRIVE_UNREAD_TENSORS_H

#include "runtime/drive/facts.h"
#include "runtime/files/safetensors.h"
#include "support/context.h"

/* Names that differ in numbers alone are one line: layers.0..31.q_proj.bias. */
typedef struct sc_unread_tensors {
    size_t count;
    SC_VEC(const char *) lines;
} sc_unread_tensors;

/* Those of the file that nothing in `weights` reads or lets stay unread. An 'ignore' line that lets none stay unread gets a note. */
void sc_unread_find(sc_context *context, const sc_fact_weights *weights, const sc_safetensors *file, const char *path,
                    sc_unread_tensors *out);
/* How many lines the report of them would have; 0 when there are none. */
uint32_t sc_unread_lines(const sc_unread_tensors *unread);
/* An error in at most so many lines, a line that counts the rest besides. */
void sc_unread_report(sc_context *context, const sc_fact_weights *weights, const char *path, const sc_unread_tensors *unread,
                      uint32_t most_lines);

#endif
