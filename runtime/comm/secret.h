/* The secret shared by the ranks of a world, by which strangers are refused. */
#ifndef SHARDC_RUNTIME_COMM_SECRET_H
#define SHARDC_RUNTIME_COMM_SECRET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shardc/status.h"

enum { SC_SECRET_BYTES = 32 };

/* Reads the secret from SHARDC_SECRET, any text. If it is not set and all ranks are on one machine,
 * from /tmp/shardc-secret-UID, a file of random bytes that the first rank creates.
 * SHARDC_ERROR_ARGUMENT if that is not a plain file owned by the user and closed to everybody else,
 * or if there are several machines and no SHARDC_SECRET; SHARDC_ERROR_UNAVAILABLE if the file
 * cannot be created. */
shardc_status sc_secret_read(bool is_one_machine, uint8_t out[SC_SECRET_BYTES],
                             shardc_error *error);

/* Fills `out` with cryptographically random bytes. */
shardc_status sc_secret_random(void *out, size_t size, shardc_error *error);

#endif
