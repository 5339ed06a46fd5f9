/* Status codes and errors of the runtime. */
#ifndef SHARDC_STATUS_H
#define SHARDC_STATUS_H

/* Marks exported symbols; all others are hidden. */
#if defined(__GNUC__)
#define SHARDC_API __attribute__((visibility("default")))
#else
#define SHARDC_API
#endif

typedef enum shardc_status {
    SHARDC_OK,
    SHARDC_ERROR_MEMORY,
    SHARDC_ERROR_ARGUMENT,
    SHARDC_ERROR_DATA,
    SHARDC_ERROR_DEVICE,
    SHARDC_ERROR_COMM,
    SHARDC_ERROR_TIMEOUT,
    SHARDC_ERROR_UNAVAILABLE
} shardc_status;

/* Owned by the caller; filled only by a call that fails. */
typedef struct shardc_error {
    shardc_status status;
    char text[512];
} shardc_error;

#endif
