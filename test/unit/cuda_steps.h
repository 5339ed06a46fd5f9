/* Sessions of the step program (cuda_case.h) on cards. */
#ifndef SHARDC_TEST_CUDA_STEPS_H
#define SHARDC_TEST_CUDA_STEPS_H

#include "test/unit/cuda_case.h"
#include "test/unit/step_case.h"

static cuda_standin standin; /* set by main */

static inline sc_session *session_of(const sc_executable *program)
{
    sc_session *session = NULL;
    SUCCEED(sc_session_new(program, &(sc_session_options){.threads = 1}, &session, &error));
    return session;
}

/* Nothing is left, nothing was written where nobody should. */
static inline void expect_clean(void)
{
    char text[1024];
    if (!standin.sc_standin_check(text, sizeof text))
        fail_msg("%s", text);
    if (standin.sc_standin_live(text, sizeof text) != 0)
        fail_msg("left: %s", text);
}

#endif
