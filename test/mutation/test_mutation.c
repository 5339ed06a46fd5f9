/* Miscompiles on purpose: every row of mutations.def breaks a finished program in one way, and the
 * verifier, validation or both have to refuse it. The unbroken programs pass both, so it is the
 * mutation that they refuse. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/ops/verify.h"
#include "ir/text/text.h"
#include "mutation.h"
#include "tools/driver/driver.h"
#include "tools/verify/validate.h"

static const mutation mutations[] = {
#define MUTATION(name, file, plan, entry, killer, summary)                                         \
    {#name, #file, #plan, #entry, KILLED_BY_##killer, name, summary},
#include "mutations.def"
#undef MUTATION
};
enum { MUTATION_COUNT = sizeof mutations / sizeof *mutations };

typedef struct trial {
    const mutation *row;
    bool compiled, found, changed, verified, equal;
} trial;

static const char *print(const sc_module *m)
{
    sc_strbuf text;
    sc_strbuf_init(&text, &m->context->arena);
    sc_print_module(m, &(sc_print_options){0}, &text);
    return text.data;
}

static bool compile(sc_context *context, const mutation *row, sc_compiled *out)
{
    const sc_plan *plan;
    sc_options options = {.plan = row->plan, .entry = row->entry, .trains = true};
    options.file = sc_arena_printf(&context->arena, "%s/test/mutation/Inputs/%s.shard",
                                   SHARDC_SOURCE_DIR, row->file);
    sc_declarations *program = sc_driver_load(context, &options);
    return program != NULL && sc_driver_choose_plan(context, program, &options, &plan) &&
           sc_driver_compile(context, program, plan, &options, NULL, NULL, NULL, out);
}

static void show_messages(sc_context *context)
{
    sc_strbuf text;
    sc_strbuf_init(&text, &context->arena);
    sc_diag_render_text(&context->diag, &context->sources, &text);
    fputs(text.data, stderr);
}

static void compile_and_judge(sc_context *context, trial *t, bool breaks)
{
    sc_compiled c;
    t->compiled = compile(context, t->row, &c);
    if (!t->compiled) {
        show_messages(context);
        return;
    }
    const char *before = print(c.local);
    t->found = breaks && t->row->apply(c.local, c.func);
    t->changed = strcmp(before, print(c.local)) != 0;
    if (!breaks || t->row->killer != KILLED_BY_VALIDATION)
        t->verified = sc_verify_module(c.local, t->row->name);
    sc_validate_result result;
    if (!breaks || t->row->killer != KILLED_BY_VERIFIER)
        t->equal =
            sc_validate(c.global, c.local, c.func, &(sc_validate_options){.seed = 1}, &result);
}

static void work_broken(sc_context *context, void *user)
{
    compile_and_judge(context, user, true);
}

static void work_unbroken(sc_context *context, void *user)
{
    compile_and_judge(context, user, false);
}

static void run(trial *t, void (*work)(sc_context *, void *))
{
    sc_context context = {0};
    assert_true(sc_context_run(&context, 0, work, t));
    sc_context_free(&context);
    assert_true(t->compiled);
}

static void is_killed(void **state)
{
    trial t = {.row = *state};
    run(&t, work_broken);
    if (!t.found || !t.changed)
        fail_msg("%s found nothing to break in plan %s of %s", t.row->name, t.row->plan,
                 t.row->file);
    if (t.verified)
        fail_msg("the verifier lets %s pass: %s", t.row->name, t.row->summary);
    if (t.equal)
        fail_msg("validation lets %s pass: %s", t.row->name, t.row->summary);
}

/* The program of the row without its mutation. */
static void unbroken_passes(void **state)
{
    trial t = {.row = *state};
    run(&t, work_unbroken);
    assert_false(t.changed);
    assert_true(t.verified);
    assert_true(t.equal);
}

static bool same_program(const mutation *a, const mutation *b)
{
    return strcmp(a->file, b->file) == 0 && strcmp(a->plan, b->plan) == 0 &&
           strcmp(a->entry, b->entry) == 0;
}

int main(void)
{
    struct CMUnitTest tests[2 * MUTATION_COUNT];
    char names[MUTATION_COUNT][128];
    size_t count = 0;
    for (size_t i = 0; i < MUTATION_COUNT; i++) {
        void *row = (void *)&mutations[i];
        size_t first = 0;
        while (!same_program(&mutations[first], &mutations[i]))
            first++;
        if (first == i) {
            snprintf(names[i], sizeof names[i], "unbroken: %s, plan %s, entry %s",
                     mutations[i].file, mutations[i].plan, mutations[i].entry);
            tests[count++] = (struct CMUnitTest){
                .name = names[i], .test_func = unbroken_passes, .initial_state = row};
        }
        tests[count++] = (struct CMUnitTest){
            .name = mutations[i].name, .test_func = is_killed, .initial_state = row};
    }
    return _cmocka_run_group_tests("mutation", tests, count, NULL, NULL);
}
