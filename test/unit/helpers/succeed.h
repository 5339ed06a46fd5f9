/* Calls of the API that must succeed. After cmocka.h. */
#ifndef SHARDC_TEST_SUCCEED_H
#define SHARDC_TEST_SUCCEED_H

#include <shardc/status.h>

/* The call may name `error`. */
#define SUCCEED(call)                                                                              \
    do {                                                                                           \
        shardc_error error = {.status = SHARDC_OK};                                                \
        if ((call) != SHARDC_OK)                                                                   \
            fail_msg("%s", error.text);                                                            \
    } while (0)

#endif
