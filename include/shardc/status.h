/* How calls of the runtime end. */
#ifndef SHARDC_STATUS_H
#define SHARDC_STATUS_H

/* What the libraries give out; everything else in them is hidden. */
#if defined(__GNUC__)
#define SC_API __attribute__((visibility("default")))
#else
#define SC_API
#endif

typedef enum sc_status {
    SC_OK,
    SC_ERROR_MEMORY,
    SC_ERROR_ARGUMENT,
    SC_ERROR_DATA,
    SC_ERROR_DEVICE,
    SC_ERROR_COMM,
    SC_ERROR_TIMEOUT,
    SC_ERROR_UNAVAILABLE
} sc_status;

/* Owned by the caller; filled by the call that fails. */
typedef struct sc_error {
    sc_status status;
    char text[512];
} sc_error;

#endif
