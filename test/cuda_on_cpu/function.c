/* Emitted functions: their stages one after the other, again under every schedule, and the same
 * bytes each time. */
#include <stdlib.h>
#include <string.h>

#include "test/cuda_on_cpu/engine.h"

typedef struct sc_machine_trial {
    const sc_machine_function *function;
    sc_machine_memory *memory;
    sc_machine_place place;
    /* of arguments, then scratch, call, failure where there are such */
    void *pointers[SC_MACHINE_MAX_PARAMS];
    void *params[SC_MACHINE_MAX_PARAMS];
    uint32_t param_count;
    int64_t values[SC_MACHINE_MAX_PARAMS];
    uint64_t *failure;
} sc_machine_trial;

static void *copy_in(sc_machine_trial *trial, const char *name, const void *data, size_t bytes,
                     bool read_only)
{
    void *array = sc_machine_alloc(trial->memory, bytes, trial->place, name);
    if (array != NULL && data != NULL && bytes > 0)
        memcpy(array, data, bytes);
    if (array != NULL && read_only)
        sc_machine_read_only(trial->memory, array, true);
    return array;
}

static bool add_param(sc_machine_trial *trial, void *value)
{
    trial->params[trial->param_count++] = value;
    return *(void **)value != NULL;
}

/* False: memory ran out. */
static bool place_arguments(sc_machine_trial *trial)
{
    const sc_machine_function *f = trial->function;
    bool ok = true;
    for (uint32_t i = 0; i < f->argument_count && ok; i++) {
        const sc_machine_argument *a = &f->arguments[i];
        trial->pointers[i] =
            a->shares > 0 ? trial->pointers[a->shares - 1]
                          : copy_in(trial, a->name, a->kind == SC_MACHINE_OUT ? NULL : a->data,
                                    a->bytes, a->kind == SC_MACHINE_IN);
        ok = add_param(trial, &trial->pointers[i]);
    }
    void **next = &trial->pointers[f->argument_count];
    if (ok && f->scratch_bytes > 0) {
        *next = copy_in(trial, "the scratch", NULL, f->scratch_bytes, false);
        ok = add_param(trial, next++);
    }
    for (uint32_t i = 0; i < f->value_count; i++) {
        trial->values[i] = f->values[i];
        trial->params[trial->param_count++] = &trial->values[i];
    }
    uint64_t none = UINT64_MAX;
    *next = copy_in(trial, "sc_call", &f->step, sizeof f->step, true);
    ok = ok && add_param(trial, next++);
    *next = trial->failure = copy_in(trial, "sc_failure", &none, sizeof none, false);
    return ok && add_param(trial, next);
}

static bool run_stages(sc_machine_trial *trial, uint32_t run, sc_machine_report *report)
{
    static const sc_machine_order orders[] = {SC_MACHINE_FORWARD, SC_MACHINE_REVERSED,
                                              SC_MACHINE_SHUFFLED};
    const sc_machine_function *f = trial->function;
    for (uint32_t i = 0; i < f->stage_count; i++) {
        const sc_machine_stage *stage = &f->stages[i];
        const sc_machine_kernel *kernel = sc_machine_kernel_named(f->module, stage->entry);
        if (kernel != NULL && kernel->param_count != (int)trial->param_count) {
            report->text[0] = 0;
            sc_machine_report_add(report, "%s has %d parameters: the function's are %u",
                                  stage->entry, kernel->param_count, trial->param_count);
            return false;
        }
        sc_machine_launch launch = {
            .module = f->module,
            .entry = stage->entry,
            .blocks = stage->blocks,
            .threads = stage->threads,
            .shared_bytes = stage->shared_bytes,
            .params = trial->params,
            .memory = trial->memory,
            .schedule = (sc_machine_schedule)(run % SC_MACHINE_SCHEDULE_COUNT),
            .copies = run % 2 == 0 ? SC_MACHINE_COPY_AT_WAIT : SC_MACHINE_COPY_AT_ISSUE,
            .order = orders[run / 2],
            .seed = run};
        if (!sc_machine_run(&launch, report))
            return false;
    }
    return sc_machine_memory_check(trial->memory, report);
}

/* The first run's results stay in `results`, the others' must equal them. */
static bool compare(const sc_machine_trial *trial, uint32_t run, char **results, uint64_t *failure,
                    sc_machine_report *report)
{
    const sc_machine_function *f = trial->function;
    for (uint32_t i = 0; i < f->argument_count; i++) {
        const sc_machine_argument *a = &f->arguments[i];
        const char *now = trial->pointers[i];
        char *first = results[i];
        if (a->kind == SC_MACHINE_IN || first == NULL)
            continue;
        if (run == 0 && a->bytes > 0)
            memcpy(first, now, a->bytes);
        for (size_t k = 0; k < a->bytes; k++) {
            if (now[k] != first[k]) {
                sc_machine_report_add(
                    report,
                    "%s: byte %zu of %s depends on the schedule: run %u gives another than run 0",
                    f->stages[0].entry, k, a->name, run);
                return false;
            }
        }
    }
    *failure = run == 0 ? *trial->failure : *failure;
    if (*failure != *trial->failure)
        sc_machine_report_add(report, "%s: the failure depends on the schedule",
                              f->stages[0].entry);
    return *failure == *trial->failure;
}

static bool run_once(const sc_machine_function *f, uint32_t run, char **results, uint64_t *failure,
                     sc_machine_report *report)
{
    sc_machine_trial *trial = calloc(1, sizeof *trial);
    bool ok = trial != NULL;
    report->text[0] = 0;
    if (ok) {
        trial->function = f;
        trial->place = run % 2 == 0 ? SC_MACHINE_AT_END : SC_MACHINE_AT_START;
        trial->memory = sc_machine_memory_new();
        ok = trial->memory != NULL && place_arguments(trial);
    }
    if (!ok)
        sc_machine_report_add(report, "memory ran out");
    ok = ok && run_stages(trial, run, report) && compare(trial, run, results, failure, report);
    if (trial != NULL)
        sc_machine_memory_free(trial->memory);
    free(trial);
    return ok;
}

bool sc_machine_run_function(const sc_machine_function *f, uint64_t *failure,
                             sc_machine_report *report)
{
    uint32_t runs = f->runs == 0 || f->runs > SC_MACHINE_RUNS ? SC_MACHINE_RUNS : f->runs;
    report->text[0] = 0;
    if (f->argument_count + f->value_count + 3 > SC_MACHINE_MAX_PARAMS) {
        sc_machine_report_add(report, "too many parameters");
        return false;
    }
    char **results = calloc(f->argument_count + (size_t)1, sizeof *results);
    bool ok = results != NULL;
    for (uint32_t i = 0; i < f->argument_count && ok; i++)
        ok = (results[i] = malloc(f->arguments[i].bytes + 1)) != NULL;
    if (!ok)
        sc_machine_report_add(report, "memory ran out");
    for (uint32_t run = 0; run < runs && ok; run++)
        ok = run_once(f, run, results, failure, report);
    for (uint32_t i = 0; i < f->argument_count && results != NULL; i++) {
        if (ok && results[i] != NULL && f->arguments[i].kind != SC_MACHINE_IN &&
            f->arguments[i].bytes > 0)
            memcpy(f->arguments[i].data, results[i], f->arguments[i].bytes);
        free(results[i]);
    }
    free(results);
    return ok;
}
