/* What the ranks of a world know and strangers do not. */
#ifndef SHARDC_RUNTIME_COMM_SECRET_H
#define SHARDC_RUNTIME_COMM_SECRET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shardc/status.h"

enum { SC_SECRET_BYTES = 32 };

/* From SHARDC_SECRET, any text; without it, where all ranks are on one machine, from /tmp/shardc-secret-UID, a file of random bytes that
 * whoever comes first makes. It must be the user's own, a plain file, and closed to everybody else: SHARDC_ERROR_ARGUMENT if not, or when
 * there are several machines and no SHARDC_SECRET. */
shardc_status sc_secret_read(bool is_one_machine, uint8_t out[SC_SECRET_BYTES], shardc_error *error);

/* Bytes that nobody can guess. */
shardc_status sc_secret_random(void *out, size_t size, shardc_error *error);

#endif
