/* Reads values of a checkpoint: any box of a tensor, whatever boxes the ranks' files hold. Blocks
 * that are read completely are compared with their checksums on the way; the others at the end,
 * each by one process, so that a checkpoint is checked although a process reads only what it needs.
 */
#ifndef SHARDC_RUNTIME_DRIVE_STATE_READER_H
#define SHARDC_RUNTIME_DRIVE_STATE_READER_H

#include "runtime/drive/executor.h"
#include "runtime/drive/state_index.h"

typedef struct sc_state_reader sc_state_reader;

/* `path`: the folder of the checkpoint. Both stay the caller's and must outlive the reader. NULL:
 * out of memory. */
sc_state_reader *sc_state_reader_new(sc_context *context, const char *path,
                                     const sc_saved_index *index);
void sc_state_reader_free(sc_state_reader *reader); /* NULL is allowed */

/* Reads the box at `place` into `local`, an array of place->local elements of this type; padding is
 * left alone. False after a message that names the file. */
bool sc_state_reader_box(sc_state_reader *reader, const sc_saved_tensor *tensor,
                         const sc_shard_place *place, sc_element element, void *local);

/* Checks this process's part of the blocks that some process has read and none has checked; all
 * processes of the executor call it. NULL: there is one process. False after a message. */
bool sc_state_reader_check(sc_state_reader *reader, const sc_executor *executor);

/* Bytes read so far from the ranks' files, and by sc_state_reader_check alone. */
uint64_t sc_state_reader_bytes(const sc_state_reader *reader);
uint64_t sc_state_reader_check_bytes(const sc_state_reader *reader);

/* True if every file is there and has its checksums. Reports nothing. */
bool sc_saved_files_are_whole(sc_context *context, const char *path, const sc_saved_index *index);

#endif
