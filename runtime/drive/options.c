/* The option tables, generated from options.def. */
#include "runtime/drive/options.h"

#include <stddef.h>
#include <string.h>

static void set_stop(sc_context *context, void *into, const char *name, const char *value)
{
    sc_run_options *options = into;
    sc_arguments_number(context, name, value, 0, &options->stop);
    options->has_stop = true;
    options->stop_text = value;
}

/* `schedule` also writes csv, which the other commands refuse by sc_run_check_format. */
static void set_format(sc_context *context, void *into, const char *name, const char *value)
{
    sc_run_options *options = into;
    options->format_text = value;
    options->json = strcmp(value, "json") == 0;
    options->csv = strcmp(value, "csv") == 0;
    if (!options->json && !options->csv && strcmp(value, "text") != 0)
        sc_arguments_fail(context, "%s is text or json, not '%s'", name, value);
}

bool sc_run_check_format(sc_context *context, const sc_run_options *options)
{
    if (options->csv)
        sc_arguments_fail(context, "--format is text or json, not 'csv'");
    return !options->csv;
}

const sc_option_row sc_run_option_rows[] = {
#define RUN(name, kind, field, argument, takers, summary)                                          \
    {name, SC_OPTION_##kind, offsetof(sc_run_options, field), argument, takers, summary, NULL},
#define RUN_SET(name, kind, field, set, argument, takers, summary)                                 \
    {name, SC_OPTION_##kind, offsetof(sc_run_options, field), argument, takers, summary, set},
#include "runtime/drive/options.def"
};
const uint32_t sc_run_option_count = sizeof sc_run_option_rows / sizeof *sc_run_option_rows;

const sc_option_relation sc_option_relations[] = {
#define NEEDS(takers, option, others, why)    {takers, option, others, why, false},
#define EXCLUDES(takers, option, others, why) {takers, option, others, why, true},
#include "runtime/drive/options.def"
};
const uint32_t sc_option_relation_count = sizeof sc_option_relations / sizeof *sc_option_relations;
