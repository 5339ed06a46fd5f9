/* Finds tensors of a weights file that no parameter reads, a sign of another model's file. */
#ifndef SHARDC_RUNTIME_DRIVE_UNREAD_TENSORS_H
#define SHARDC_RUNTIME_DRIVE_UNREAD_TENSORS_H

#include "runtime/drive/facts.h"
#include "runtime/files/safetensors.h"
#include "support/context.h"

/* Names that differ only in numbers are one line: layers.0..31.q_proj.bias. */
typedef struct sc_unread_tensors {
    size_t count;
    SC_VEC(const char *) lines;
} sc_unread_tensors;

/* Finds the tensors of the file that `weights` neither reads nor ignores. Adds a note for an
 * 'ignore' line that matches nothing. */
void sc_unread_find(sc_context *context, const sc_fact_weights *weights, const sc_safetensors *file,
                    const char *path, sc_unread_tensors *out);
/* Returns the number of lines of the report; 0: no unread tensors. */
uint32_t sc_unread_lines(const sc_unread_tensors *unread);
/* Reports an error of at most `most` lines, plus a line that counts the rest. */
void sc_unread_report(sc_context *context, const sc_fact_weights *weights, const char *path,
                      const sc_unread_tensors *unread, uint32_t most_lines);

#endif
