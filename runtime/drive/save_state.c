/* Each process writes the files of its ranks, straight from where the shards lie; then the first writes what they have in common. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/drive/train_state.h"
#include "runtime/files/durable.h"
#include "runtime/files/safetensors.h"
#include "runtime/session/shard.h"

struct sc_state_saver {
    sc_context *context;
    const sc_trainer *trainer;
    const sc_machine *machine;
    sc_state_folder folder; /* held by the first process */
    const char *path;
    uint32_t keep;
    bool best;
    void *room;       /* for shards that lie elsewhere */
    uint64_t bytes;   /* of all values */
    int64_t *numbers; /* that processes add up */
};

static bool fail(sc_state_saver *s, const char *path, int reason)
{
    sc_report(&s->context->diag, SC_D_cannot_write, (sc_loc){0}, path, strerror(reason), NULL);
    return false;
}

static bool failed(sc_state_saver *s, const char *text)
{
    sc_report(&s->context->diag, SC_D_run_failed, (sc_loc){0}, sc_arena_printf(&s->context->arena, "%s", text), NULL);
    return false;
}

/* ---- among processes ---- */

enum { AGREED = 2 }; /* numbers that say who failed */

/* Sums the numbers, `count` of them behind those that say whether this process failed. False where any did; who did not says who. */
static bool agree(sc_state_saver *s, bool ok, uint32_t count, const char *what)
{
    shardc_error error = {.text = ""};
    s->numbers[0] = !ok;
    s->numbers[1] = ok ? 0 : s->machine->first_rank;
    if (s->machine->verbs->sum != NULL && !s->machine->verbs->sum(s->machine->self, s->numbers, AGREED + count, what, &error))
        return failed(s, error.text);
    if (s->numbers[0] == 0 || !ok)
        return ok;
    if (s->numbers[0] == 1)
        return failed(
            s, sc_arena_printf(&s->context->arena, "rank %lld cannot save the state: its message says why", (long long)s->numbers[1]));
    return failed(s, "several ranks cannot save the state: their messages say why");
}

/* A number that the first process draws. */
static bool share_id(sc_state_saver *s, char id[SC_STATE_ID + 1], bool ok)
{
    char drawn[2][SC_DURABLE_ID + 1] = {"0", "0"};
    bool first = s->machine->is_first;
    if (first && ok && !(sc_draw_id(drawn[0]) && sc_draw_id(drawn[1])))
        ok = failed(s, "there are no random numbers");
    for (int i = 0; i < 2; i++)
        s->numbers[AGREED + i] = first ? (int64_t)strtoull(drawn[i], NULL, 16) : 0;
    if (!agree(s, ok, 2, "the name of a state"))
        return false;
    snprintf(id, SC_STATE_ID + 1, "%016" PRIx64 "%016" PRIx64, (uint64_t)s->numbers[AGREED], (uint64_t)s->numbers[AGREED + 1]);
    return true;
}

/* ---- where shards go ---- */

static sc_element element_of(const sc_state_saver *s, uint32_t index)
{
    const shardc_tensor_info *info = &s->machine->states[sc_trainer_state(s->trainer, index)];
    return sc_element_of_dtype(sc_dtype_find(info->dtype));
}

/* Whether the rank writes part of the state; which. */
static bool gives(const sc_state_saver *s, uint32_t index, uint32_t rank, sc_shard_place *place)
{
    s->machine->verbs->place(s->machine->self, sc_trainer_state(s->trainer, index), rank, place);
    bool has = place->is_given;
    for (uint32_t d = 0; d < place->rank; d++)
        has = has && place->sizes[d] > 0;
    return has;
}

static uint64_t place_bytes(const sc_shard_place *place, sc_element element)
{
    uint64_t bytes = sc_element_size(element);
    for (uint32_t d = 0; d < place->rank; d++)
        bytes *= (uint64_t)place->sizes[d];
    return bytes;
}

/* ---- the file of a rank ---- */

static char *header_of(sc_state_saver *s, sc_arena *arena, uint32_t rank, const sc_train_state *state, size_t *length)
{
    uint32_t count = 0, all = sc_trainer_state_count(s->trainer);
    sc_safetensors_item *items = sc_arena_array(arena, all + 1u, sizeof *items);
    sc_safetensors_error error = {0};
    sc_shard_place place;
    const sc_safetensors_pair metadata[] = {
        {"format", SC_STATE_FORMAT}, {"id", state->id}, {"step", sc_arena_printf(arena, "%" PRIu64, state->steps)}};
    for (uint32_t i = 0; i < all; i++) {
        if (!gives(s, i, rank, &place))
            continue;
        uint64_t *shape = sc_arena_array(arena, place.rank + 1u, sizeof *shape);
        for (uint32_t d = 0; d < place.rank; d++)
            shape[d] = (uint64_t)place.sizes[d];
        items[count++] = (sc_safetensors_item){
            .name = sc_trainer_state_name(s->trainer, i), .element = element_of(s, i), .rank = place.rank, .shape = shape};
    }
    char *header = count == 0 ? NULL : sc_safetensors_header(items, count, metadata, 3, length, &error);
    if (error.count > 0)
        failed(s, sc_arena_copy_text(arena, error.text, strcspn(error.text, "\n")));
    return header;
}

/* The shard without its padding. */
static bool add_shard(sc_state_saver *s, uint32_t index, uint32_t rank, const sc_shard_place *place, sc_durable *file)
{
    shardc_error error = {.text = ""};
    const char *local;
    size_t size = sc_element_size(element_of(s, index));
    const void *read;
    if (!s->machine->verbs->read_shard(s->machine->self, sc_trainer_state(s->trainer, index), rank, s->room, &read, &error))
        return failed(s, error.text);
    local = read;
    sc_rows rows = sc_rows_begin(place->rank, place->sizes, (sc_rows_place){place->local, NULL}, (sc_rows_place){place->sizes, NULL});
    for (; !rows.is_done && file->reason == 0; sc_rows_next(&rows))
        sc_durable_add(file, local + (size_t)rows.a_at * size, (size_t)rows.length * size);
    return file->reason == 0;
}

static bool write_rank(sc_state_saver *s, sc_arena *arena, const char *folder, uint32_t rank, const sc_train_state *state)
{
    uint32_t errors = s->context->diag.errors;
    size_t length;
    char *header = header_of(s, arena, rank, state, &length);
    if (header == NULL)
        return s->context->diag.errors == errors; /* it gives nothing */
    const char *path = sc_arena_printf(arena, "%s/%s", folder, sc_state_rank_file(arena, rank));
    sc_durable file;
    bool ok = sc_durable_create(&file, path);
    sc_durable_add(&file, header, length);
    free(header);
    for (uint32_t i = 0; ok && i < sc_trainer_state_count(s->trainer); i++) {
        sc_shard_place place;
        ok = !gives(s, i, rank, &place) || add_shard(s, i, rank, &place, &file);
    }
    ok = sc_durable_end(&file) && ok;
    s->numbers[AGREED + 2 * rank] = (int64_t)file.bytes;
    s->numbers[AGREED + 2 * rank + 1] = (int64_t)sc_checksum_value(&file.sum);
    return ok || (s->context->diag.errors > errors ? false : fail(s, path, file.reason));
}

/* ---- what the ranks' files have in common ---- */

static bool write_text(sc_state_saver *s, const char *folder, const char *name, const char *text, sc_saved_file *out)
{
    sc_arena *arena = &s->context->arena;
    sc_durable file;
    if (text == NULL)
        return failed(s, "there is not enough memory to write the state");
    if (sc_durable_create(&file, sc_arena_printf(arena, "%s/%s", folder, name)))
        sc_durable_add(&file, text, strlen(text));
    bool ok = sc_durable_end(&file);
    *out = (sc_saved_file){.name = name, .bytes = file.bytes, .sum = sc_checksum_value(&file.sum)};
    return ok || fail(s, sc_arena_printf(arena, "%s/%s", folder, name), file.reason);
}

static void add_tensor(sc_state_saver *s, sc_arena *arena, uint32_t index, const uint32_t *files, uint64_t *ends, sc_saved_index *out)
{
    const shardc_tensor_info *info = &s->machine->states[sc_trainer_state(s->trainer, index)];
    sc_saved_tensor *tensor = sc_vec_push(arena, &out->tensors);
    sc_shard_place place;
    *tensor = (sc_saved_tensor){.name = info->name, .element = element_of(s, index), .rank = info->rank};
    for (uint32_t d = 0; d < info->rank; d++)
        tensor->sizes[d] = info->dims[d].size;
    for (uint32_t rank = 0; rank < s->machine->rank_count; rank++) {
        if (!gives(s, index, rank, &place))
            continue;
        sc_saved_shard *shard = sc_vec_push(arena, &tensor->shards);
        *shard = (sc_saved_shard){.file = files[rank], .begin = ends[rank]};
        memcpy(shard->first, place.first, sizeof shard->first);
        memcpy(shard->sizes, place.sizes, sizeof shard->sizes);
        ends[rank] += place_bytes(&place, tensor->element);
    }
}

static const char *index_text(sc_state_saver *s, sc_arena *arena, const sc_train_state *state, const sc_saved_file *counts)
{
    sc_saved_index index = {
        .id = state->id, .step = state->steps, .save = s->folder.save, .has_held_out = state->has_held_out, .held_out = state->held_out};
    uint32_t *files = sc_arena_array(arena, s->machine->rank_count, sizeof *files);
    uint64_t *ends = sc_arena_array(arena, s->machine->rank_count, sizeof *ends);
    *sc_vec_push(arena, &index.files) = *counts;
    for (uint32_t rank = 0; rank < s->machine->rank_count; rank++) {
        const int64_t *numbers = &s->numbers[AGREED + 2 * rank];
        if (numbers[0] == 0)
            continue;
        files[rank] = index.files.count;
        *sc_vec_push(arena, &index.files) = (sc_saved_file){sc_state_rank_file(arena, rank), (uint64_t)numbers[0], (uint64_t)numbers[1]};
    }
    for (uint32_t i = 0; i < sc_trainer_state_count(s->trainer); i++)
        add_tensor(s, arena, i, files, ends, &index);
    return sc_state_index_text(arena, &index);
}

static bool write_common(sc_state_saver *s, sc_arena *arena, const sc_train_state *state)
{
    sc_saved_file counts, index;
    const char *folder = s->folder.made;
    return write_text(s, folder, SC_STATE_COUNTS_NAME, sc_state_counts_text(arena, state), &counts) &&
           write_text(s, folder, SC_STATE_INDEX_NAME, index_text(s, arena, state, &counts), &index) &&
           sc_state_folder_publish(s->context, &s->folder, state->steps, s->keep, s->best);
}

/* ---- a state ---- */

static bool save(sc_state_saver *s, const sc_train_state *given)
{
    sc_arena *arena = &s->context->arena;
    const sc_machine *machine = s->machine;
    char id[SC_STATE_ID + 1] = "";
    sc_train_state state = *given;
    if (!share_id(s, id, true))
        return false;
    state.id = id;
    if (!agree(s, !machine->is_first || sc_state_folder_begin(s->context, &s->folder, id), 0, "the folder of a state"))
        return false;
    const char *folder = sc_arena_printf(arena, "%s/tmp-%.*s", s->path, SC_DURABLE_ID, id);
    bool ok = true;
    memset(s->numbers, 0, (AGREED + 2 * (size_t)machine->rank_count) * sizeof *s->numbers);
    for (uint32_t i = 0; ok && i < machine->local_ranks; i++)
        ok = write_rank(s, arena, folder, machine->first_rank + i, &state);
    if (!agree(s, ok, 2 * machine->rank_count, "the files of a state"))
        return false;
    return agree(s, !machine->is_first || write_common(s, arena, &state), 0, "the index of a state");
}

typedef struct save_call {
    sc_state_saver *saver;
    const sc_train_state *state;
    bool ok;
} save_call;

static void save_here(sc_context *context, void *user)
{
    save_call *call = user;
    call->saver->context = context;
    call->ok = save(call->saver, call->state);
}

/* In memory of its own, which is given back: a run may write many. */
bool sc_state_saver_save(sc_state_saver *s, const sc_train_state *state)
{
    sc_context own, *whole = s->context;
    save_call call = {.saver = s, .state = state};
    bool fine = sc_context_run(&own, 0, save_here, &call);
    s->context = whole;
    if (fine)
        sc_diag_append(&whole->diag, &own.diag);
    else
        failed(s, "there is not enough memory to write the state");
    sc_context_free(&own);
    sc_state_folder_drop(&s->folder);
    return fine && call.ok;
}

/* ---- before the first step ---- */

/* Of the states that will be written the disk holds one more than stays, for a while. */
static bool check_room(sc_state_saver *s, uint64_t saves)
{
    double free_bytes;
    uint64_t stay = s->keep + (s->best ? 1u : 0u) + 1u, there = s->folder.states;
    uint64_t more = stay > there ? stay - there : 1;
    more = saves < more ? saves : more;
    if (!sc_free_bytes(s->path, &free_bytes))
        return fail(s, s->path, errno);
    double needed = (double)s->bytes * (double)more;
    if (needed <= free_bytes)
        return true;
    sc_report(&s->context->diag, SC_D_cannot_write, (sc_loc){0}, s->path,
              sc_arena_printf(&s->context->arena, "%llu state%s of %.0f bytes will be there, but the disk has %.0f free",
                              (unsigned long long)more, more == 1 ? "" : "s", (double)s->bytes, free_bytes),
              NULL);
    return false;
}

static bool hold_folder(sc_state_saver *s, const char *token, uint64_t saves, bool goes_on)
{
    if (!sc_state_folder_open(s->context, s->path, token, &s->folder) || !check_room(s, saves))
        return false;
    if (s->folder.states > 0 && !goes_on)
        sc_report(&s->context->diag, SC_D_other_states, (sc_loc){0}, s->path, NULL);
    return true;
}

static bool see_folder(sc_state_saver *s, const char *token)
{
    if (sc_state_folder_has(s->path, token))
        return true;
    sc_report(&s->context->diag, SC_D_cannot_write, (sc_loc){0}, s->path,
              sc_arena_printf(&s->context->arena, "rank %u does not see the folder that rank 0 has opened", s->machine->first_rank), NULL);
    sc_report_note(&s->context->diag, (sc_loc){0}, "all ranks write their shards there: it must be on a file system that they share");
    return false;
}

static bool list_states(sc_state_saver *s)
{
    for (uint32_t i = 0; i < sc_trainer_state_count(s->trainer); i++) {
        const shardc_tensor_info *info = &s->machine->states[sc_trainer_state(s->trainer, i)];
        if (info->is_partial)
            return failed(s, sc_arena_printf(&s->context->arena, "'%s' is a sum that is not done: it cannot be saved", info->name));
        s->bytes += (uint64_t)info->count * sc_element_size(element_of(s, i));
    }
    return true;
}

static bool open_saver(sc_state_saver *s, uint64_t saves, bool goes_on)
{
    char id[SC_STATE_ID + 1];
    bool ok = s->numbers != NULL;
    if (!ok)
        return failed(s, "there is not enough memory to write states");
    if (s->machine->room_bytes > 0)
        s->room = malloc((size_t)s->machine->room_bytes);
    if (s->machine->room_bytes > 0 && s->room == NULL)
        ok = failed(s, sc_arena_printf(&s->context->arena, "there is not enough memory to write states: %lld bytes for the largest shard",
                                       (long long)s->machine->room_bytes));
    return share_id(s, id, ok && list_states(s)) &&
           agree(s, !s->machine->is_first || hold_folder(s, id, saves, goes_on), 0, "the folder of states") &&
           agree(s, s->machine->is_first || see_folder(s, id), 0, "the folder of states");
}

sc_state_saver *sc_state_saver_open(sc_context *context, const char *path, const sc_trainer *trainer, uint32_t keep, bool best,
                                    uint64_t saves, bool goes_on)
{
    size_t length = strlen(path);
    sc_state_saver *s = sc_arena_alloc(&context->arena, sizeof *s);
    while (length > 1 && path[length - 1] == '/')
        length--;
    *s = (sc_state_saver){.context = context,
                          .trainer = trainer,
                          .machine = sc_trainer_machine(trainer),
                          .folder = {.lock = -1},
                          .path = sc_arena_copy_text(&context->arena, path, length),
                          .keep = keep,
                          .best = best};
    s->numbers = calloc(AGREED + 2 + 2 * (size_t)s->machine->rank_count, sizeof *s->numbers);
    if (open_saver(s, saves, goes_on))
        return s;
    sc_state_saver_close(s);
    return NULL;
}

void sc_state_saver_close(sc_state_saver *s)
{
    if (s == NULL)
        return;
    sc_state_folder_close(&s->folder);
    free(s->room);
    free(s->numbers);
}
