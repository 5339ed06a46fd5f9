/* A rank's host arena: memory beside the device's, or a file. What transfers copy is here while the
 * device does not need it. */
#ifndef SHARDC_RUNTIME_SESSION_HOST_ARENA_H
#define SHARDC_RUNTIME_SESSION_HOST_ARENA_H

#include <stdint.h>

#include "shardc/status.h"

typedef struct sc_host_arena {
    char *memory; /* NULL: none, or a file; aligned to a page */
    int file;     /* -1: memory; has no name, so that it ends with the process */
    int64_t bytes;
    uint32_t rank;
} sc_host_arena;

/* Opens an arena of zeros. `folder` NULL: in memory. A file takes its place on the disk at once, so
 * that a full disk is an error here and not in a step. SHARDC_ERROR_MEMORY, or SHARDC_ERROR_DEVICE
 * for a file. */
shardc_status sc_host_arena_open(const char *folder, int64_t bytes, uint32_t rank,
                                 sc_host_arena *out, shardc_error *error);
void sc_host_arena_close(sc_host_arena *arena);

/* Copy between the arena and memory. Fail with SHARDC_ERROR_DEVICE where the file does. */
shardc_status sc_host_arena_read(const sc_host_arena *arena, int64_t at, void *to, int64_t bytes,
                                 shardc_error *error);
shardc_status sc_host_arena_write(const sc_host_arena *arena, int64_t at, const void *from,
                                  int64_t bytes, shardc_error *error);

#endif
