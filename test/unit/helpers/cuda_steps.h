/* Sessions of the step program (cuda_case.h) on GPUs. */
#ifndef SHARDC_TEST_CUDA_STEPS_H
#define SHARDC_TEST_CUDA_STEPS_H

#include "test/unit/helpers/cuda_case.h"
#include "test/unit/helpers/step_case.h"

static cuda_stub stub; /* set by main */

static inline shardc_session *session_of(const shardc_executable *program)
{
    shardc_session *session = NULL;
    SUCCEED(shardc_session_new(program, &(shardc_session_options){.threads = 1}, &session, &error));
    return session;
}

/* Nothing is left, nothing was written where nobody should. */
static inline void expect_clean(void)
{
    char text[1024];
    if (!stub.sc_stub_check(text, sizeof text))
        fail_msg("%s", text);
    if (stub.sc_stub_live(text, sizeof text) != 0)
        fail_msg("left: %s", text);
}

/* Steps on dp x tp ranks give what is expected, in so many orders that streams leave open. */
static inline void expect_steps(uint64_t dp, uint64_t tp, uint64_t seeds)
{
    step_data d = make_data();
    for (uint64_t seed = 0; seed < seeds; seed++) {
        image_case c;
        stub.sc_stub_seed(seed);
        shardc_executable *program = cuda_step_program(&c, dp, tp);
        shardc_session *session = session_of(program);
        set_weights(session, &d);
        for (int run = 0; run < 4; run++)
            assert_true(run_step(session, &d) == d.total);
        shardc_session_free(session);
        shardc_executable_free(program);
        sc_arena_free(&c.arena);
        expect_clean();
    }
}

#endif
