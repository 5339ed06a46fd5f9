/* The file of `schedule = file("..")`: read, proved, and its faults reported where they are. */
#include "frontend/plan/internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/file.h"

enum { MOST_BYTES = 1 << 28 };

/* Resolves a path relative to the folder of the file that has the plan. */
static const char *path_of(sc_resolved_plan *plan, const sc_stage_line *line)
{
    sc_line place = sc_sources_line(&plan->context->sources, line->schedule_loc.begin);
    const char *slash = place.source == NULL ? NULL : strrchr(place.source->name, '/');
    if (slash == NULL || line->file[0] == '/')
        return line->file;
    return sc_arena_printf(&plan->context->arena, "%.*s/%s", (int)(slash - place.source->name),
                           place.source->name, line->file);
}

/* Reads the bytes. Nothing is allocated while the file is open: that may not return. */
static char *read_bytes(sc_context *context, const char *path, size_t *size, const char **reason)
{
    uint64_t length;
    int file = sc_file_open(path, &length, reason);
    if (file < 0)
        return NULL;
    close(file);
    *reason = "it is too large";
    if (length > MOST_BYTES)
        return NULL;
    char *bytes = sc_arena_alloc(&context->arena, length + 1);
    file = sc_file_open(path, &length, reason);
    if (file < 0)
        return NULL;
    *size = (size_t)length;
    bool fine = sc_file_read_at(file, bytes, *size, 0, reason);
    close(file);
    return fine ? bytes : NULL;
}

/* A plan may be resolved several times; its files are read once. */
static const sc_source *find_source(const sc_sources *sources, const char *path)
{
    for (uint32_t i = 0; i < sources->files.count; i++) {
        if (strcmp(sources->files.data[i].name, path) == 0)
            return &sources->files.data[i];
    }
    return NULL;
}

static const sc_source *load(sc_resolved_plan *plan, const sc_stage_line *line)
{
    sc_context *context = plan->context;
    const char *path = path_of(plan, line), *reason = NULL;
    const sc_source *known = find_source(&context->sources, path);
    size_t size = 0;
    if (known != NULL)
        return known;
    char *bytes = read_bytes(context, path, &size, &reason);
    if (bytes != NULL) {
        known = sc_sources_add(&context->sources, path, bytes, size);
        reason = "there is too much source text";
    }
    if (known == NULL)
        sc_report(&context->diag, SC_D_bad_schedule, line->schedule_loc,
                  sc_arena_printf(&context->arena, "cannot read '%s': %s", path, reason), NULL);
    return known;
}

static sc_loc loc_of(const sc_source *source, sc_action_place place)
{
    uint32_t begin = source->base + place.offset;
    return (sc_loc){begin, begin + (place.length == 0 ? 1 : place.length)};
}

/* Returns where a rank's row ends, for an action that it lacks. */
static sc_loc row_loc(const sc_source *source, uint32_t rank)
{
    uint32_t row = 0, begin = 0, at = 0;
    for (; at < source->length; at++) {
        if (source->text[at] == '\n' && row++ < rank)
            begin = at + 1;
        if (row > rank)
            break;
    }
    return (sc_loc){source->base + begin, source->base + (at > begin ? at : begin + 1)};
}

static void report(sc_resolved_plan *plan, const sc_stage_line *line, sc_loc loc,
                   const sc_schedule_fault *fault, const char *text)
{
    sc_diag *diag = &plan->context->diag;
    sc_report(diag, SC_D_bad_schedule, loc, text, NULL);
    for (uint32_t i = 0; i < fault->why.count; i++)
        sc_report_note(diag, (sc_loc){0}, "%s", fault->why.data[i]);
    sc_report_note(diag, line->schedule_loc, "the plan takes its schedule from this file");
}

static bool has_ranks(sc_resolved_plan *plan, const sc_stage_line *line, const sc_source *source,
                      const sc_pipeline_schedule *schedule)
{
    const sc_axis *axis = &plan->mesh.axes[line->axis];
    if (schedule->ranks == axis->size)
        return true;
    sc_report(&plan->context->diag, SC_D_bad_schedule,
              row_loc(source, schedule->ranks < axis->size ? schedule->ranks - 1 : axis->size),
              sc_arena_printf(&plan->context->arena,
                              "the schedule has %" PRIu32 " row%s, but axis '%s' has %" PRIu32
                              " ranks: a row a rank",
                              schedule->ranks, schedule->ranks == 1 ? "" : "s",
                              sc_text(plan->context, axis->name), axis->size),
              NULL);
    sc_report_note(&plan->context->diag, line->schedule_loc,
                   "the plan takes its schedule from this file");
    return false;
}

static void report_fault(sc_resolved_plan *plan, const sc_stage_line *line, const sc_source *source,
                         const sc_action_places *places, const sc_schedule_fault *fault)
{
    sc_arena *arena = &plan->context->arena;
    if (fault->index == SC_NONE) {
        report(plan, line, row_loc(source, fault->rank), fault,
               sc_arena_printf(arena, "row %" PRIu32 ": %s", fault->rank + 1, fault->text));
        return;
    }
    sc_action_place place = places[fault->rank].list.data[fault->index];
    report(plan, line, loc_of(source, place), fault,
           sc_arena_printf(arena, "row %" PRIu32 ", column %" PRIu32 ": %s", fault->rank + 1,
                           place.column, fault->text));
}

sc_pipeline_schedule *sc_plan_read_schedule(sc_resolved_plan *plan, const sc_stage_line *line)
{
    sc_arena *arena = &plan->context->arena;
    const sc_source *source = load(plan, line);
    sc_action_places *places;
    sc_schedule_fault fault;
    sc_action_place bad;
    if (source == NULL)
        return NULL;
    sc_pipeline_schedule *schedule =
        sc_schedule_read(arena, source->text, source->length, &places, &fault, &bad);
    if (schedule == NULL) {
        report(plan, line, loc_of(source, bad), &fault, fault.text);
        return NULL;
    }
    schedule->micro_batches = line->micro_batches;
    if (!has_ranks(plan, line, source, schedule))
        return NULL;
    if (sc_schedule_prove(arena, schedule, &fault))
        return schedule;
    report_fault(plan, line, source, places, &fault);
    return NULL;
}
