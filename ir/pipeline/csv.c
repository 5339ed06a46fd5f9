/* Schedules as PyTorch's compute-only CSV. */
#include "ir/pipeline/schedule.h"

#include <inttypes.h>
#include <string.h>

#include "support/none.h"

char sc_action_letter(sc_action_kind kind)
{
    return "FBIW"[kind];
}

const char *sc_action_text(sc_arena *arena, sc_action action)
{
    return sc_arena_printf(arena, "%" PRIu32 "%c%" PRIu32, action.chunk,
                           sc_action_letter(action.kind), action.micro_batch);
}

void sc_schedule_write(const sc_pipeline_schedule *schedule, sc_strbuf *out)
{
    for (uint32_t r = 0; r < schedule->ranks; r++) {
        const sc_actions *actions = &schedule->actions[r];
        for (uint32_t i = 0; i < actions->list.count; i++) {
            sc_action action = actions->list.data[i];
            sc_strbuf_printf(out, "%s%" PRIu32 "%c%" PRIu32, i > 0 ? "," : "", action.chunk,
                             sc_action_letter(action.kind), action.micro_batch);
        }
        sc_strbuf_add_char(out, '\n');
    }
}

/* ---- reading ---- */
typedef struct reader {
    sc_arena *arena;
    const char *text, *end;
    const char *at;
    uint32_t column;
    SC_VEC(sc_actions) rows;
    SC_VEC(sc_action_places) places;
} reader;

/* Reads a number of at most nine digits; schedules are far smaller. */
static bool read_number(const reader *r, const char **at, uint32_t *out)
{
    const char *begin = *at;
    *out = 0;
    for (; *at < r->end && **at >= '0' && **at <= '9'; ++*at)
        *out = *at - begin < 9 ? *out * 10 + (uint32_t)(**at - '0') : *out;
    return *at > begin && *at - begin <= 9;
}

static bool read_action(reader *r, const char **at)
{
    const char *begin = *at, *letters = "FBIW";
    sc_action action;
    if (!read_number(r, at, &action.chunk) || *at == r->end || memchr(letters, **at, 4) == NULL)
        return false;
    action.kind = (sc_action_kind)(strchr(letters, **at) - letters);
    ++*at;
    if (!read_number(r, at, &action.micro_batch))
        return false;
    *sc_vec_push(r->arena, &r->rows.data[r->rows.count - 1].list) = action;
    *sc_vec_push(r->arena, &r->places.data[r->places.count - 1].list) =
        (sc_action_place){(uint32_t)(begin - r->text), (uint32_t)(*at - begin), r->column};
    return true;
}

static bool skip(const reader *r, const char **at, const char *word)
{
    size_t length = strlen(word);
    if ((size_t)(r->end - *at) < length || memcmp(*at, word, length) != 0)
        return false;
    *at += length;
    return true;
}

/* A forward action and a backward one that overlap: `(0F1;7B0)OVERLAP_F_B`. */
static bool read_pair(reader *r, const char **at)
{
    if (!skip(r, at, "(") || !read_action(r, at) || !skip(r, at, ";") || !read_action(r, at) ||
        !skip(r, at, ")OVERLAP_F_B"))
        return false;
    const sc_actions *row = &r->rows.data[r->rows.count - 1];
    return row->list.data[row->list.count - 2].kind == SC_ACTION_F &&
           row->list.data[row->list.count - 1].kind != SC_ACTION_F;
}

static const char *skip_blanks(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\r'))
        at++;
    return at;
}

static const char *drop_blanks(const char *begin, const char *end)
{
    while (end > begin && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r'))
        end--;
    return end;
}

/* Shows a cell in a message: its first bytes, those that are not printable as dots. */
static const char *cell_text(const reader *r, const char *begin, const char *end)
{
    enum { SHOWN = 40 };
    size_t length = end - begin > SHOWN ? SHOWN : (size_t)(end - begin);
    char *text = sc_arena_copy_text(r->arena, begin, length);
    for (size_t i = 0; i < length; i++) {
        if (text[i] < ' ' || text[i] > '~')
            text[i] = '.';
    }
    return text;
}

/* Reads one cell, from r->at to the next comma or line end. */
static bool read_cell(reader *r, sc_schedule_fault *fault, sc_action_place *bad)
{
    const char *stop = r->at;
    while (stop < r->end && *stop != ',' && *stop != '\n')
        stop++;
    const char *at = skip_blanks(r->at, stop), *begin = at, *end = drop_blanks(at, stop);
    r->column++;
    r->at = stop;
    bool fine = at == end || (*at == '(' ? read_pair(r, &at) : read_action(r, &at));
    if (fine && at == end)
        return true;
    *bad = (sc_action_place){(uint32_t)(begin - r->text), (uint32_t)(end - begin), r->column};
    fault->rank = r->rows.count - 1;
    fault->text =
        sc_arena_printf(r->arena, "row %" PRIu32 ", column %" PRIu32 ": '%s' is not an action",
                        r->rows.count, r->column, cell_text(r, begin, end));
    *sc_vec_push(r->arena, &fault->why) =
        "a cell is <chunk><F|B|I|W><micro-batch>, as in 2F1, or (0F1;7B0)OVERLAP_F_B, or empty";
    return false;
}

static bool read_rows(reader *r, sc_schedule_fault *fault, sc_action_place *bad)
{
    while (r->at < r->end) {
        *sc_vec_push(r->arena, &r->rows) = (sc_actions){0};
        *sc_vec_push(r->arena, &r->places) = (sc_action_places){0};
        r->column = 0;
        bool more = true;
        while (more) {
            if (!read_cell(r, fault, bad))
                return false;
            more = r->at < r->end && *r->at == ',';
            r->at += r->at < r->end;
        }
    }
    return true;
}

/* Fails if a chunk below the highest has no action, which also bounds the number of chunks. */
static bool chunks_are_dense(reader *r, sc_pipeline_schedule *schedule, sc_schedule_fault *fault,
                             sc_action_place *bad)
{
    uint64_t actions = 0;
    sc_action highest = {SC_ACTION_F, 0, 0};
    for (uint32_t k = 0; k < r->rows.count; k++)
        actions += r->rows.data[k].list.count;
    schedule->rank_of = sc_arena_array(r->arena, actions + 1, sizeof *schedule->rank_of);
    for (uint64_t c = 0; c <= actions; c++)
        schedule->rank_of[c] = SC_NONE;
    for (uint32_t k = 0; k < r->rows.count; k++) {
        for (uint32_t i = 0; i < r->rows.data[k].list.count; i++) {
            sc_action action = r->rows.data[k].list.data[i];
            if (action.chunk < actions && schedule->rank_of[action.chunk] == SC_NONE)
                schedule->rank_of[action.chunk] = k;
            if (schedule->chunks == 0 || action.chunk > highest.chunk) {
                highest = action;
                *bad = r->places.data[k].list.data[i];
                fault->rank = k;
            }
            schedule->chunks = highest.chunk + 1;
            if (action.micro_batch >= schedule->micro_batches)
                schedule->micro_batches = action.micro_batch + 1;
        }
    }
    uint32_t missing = 0;
    while (missing < actions && schedule->rank_of[missing] != SC_NONE)
        missing++;
    if (missing >= schedule->chunks)
        return true;
    fault->text = sc_arena_printf(
        r->arena, "there is an action %s, but none of chunk %" PRIu32 ": %" PRIu32 "F0 is missing",
        sc_action_text(r->arena, highest), missing, missing);
    return false;
}

sc_pipeline_schedule *sc_schedule_read(sc_arena *arena, const char *text, size_t length,
                                       sc_action_places **places, sc_schedule_fault *fault,
                                       sc_action_place *bad)
{
    reader r = {.arena = arena, .text = text, .end = text + length, .at = text};
    sc_pipeline_schedule *schedule = sc_arena_alloc(arena, sizeof *schedule);
    *fault = (sc_schedule_fault){.index = SC_NONE};
    *bad = (sc_action_place){.column = 1};
    if (!read_rows(&r, fault, bad) || !chunks_are_dense(&r, schedule, fault, bad))
        return NULL;
    schedule->ranks = r.rows.count;
    schedule->actions = r.rows.data;
    if (places != NULL)
        *places = r.places.data;
    if (schedule->chunks > 0)
        return schedule;
    fault->text = "the file has no actions";
    return NULL;
}
