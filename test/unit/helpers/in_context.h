/* Tests that get a context of the compiler; a test's state is the address of its function. After
 * cmocka.h. */
#ifndef SHARDC_TEST_IN_CONTEXT_H
#define SHARDC_TEST_IN_CONTEXT_H

#include "support/context.h"

typedef struct context_test {
    void (*test)(sc_context *);
    bool done;
} context_test;

static inline void call_context_test(sc_context *context, void *user)
{
    context_test *t = user;
    t->test(context);
    t->done = true;
}

static inline void in_context(void **state)
{
    sc_context context;
    context_test t = {.test = *(void (**)(sc_context *)) * state};
    assert_true(sc_context_run(&context, 0, call_context_test, &t));
    assert_true(t.done);
    sc_context_free(&context);
}

#endif
