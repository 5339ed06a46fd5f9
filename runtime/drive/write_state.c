#include "runtime/drive/write_state.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/files/durable.h"
#include "runtime/files/safetensors.h"

static bool fail(sc_context *context, const char *path, int reason)
{
    sc_report(&context->diag, SC_D_cannot_write, (sc_loc){0}, path, strerror(reason), NULL);
    return false;
}

static bool failed(sc_context *context, const char *text)
{
    sc_report(&context->diag, SC_D_run_failed, (sc_loc){0}, text, NULL);
    return false;
}

/* ---- the file of a rank ---- */

static char *header_of(sc_context *context, const sc_state_set *set, uint32_t rank,
                       const sc_train_state *state, size_t *length)
{
    sc_arena *arena = &context->arena;
    uint32_t count = 0;
    sc_safetensors_item *items = sc_arena_array(arena, set->count + 1u, sizeof *items);
    sc_safetensors_error error = {0};
    sc_shard_place place;
    const sc_safetensors_pair metadata[] = {
        {"format", SC_STATE_FORMAT},
        {"id", state->id},
        {"step", sc_arena_printf(arena, "%" PRIu64, state->steps)}};
    for (uint32_t i = 0; i < set->count; i++) {
        if (!sc_state_gives(set, i, rank, &place))
            continue;
        uint64_t *shape = sc_arena_array(arena, place.rank + 1u, sizeof *shape);
        for (uint32_t d = 0; d < place.rank; d++)
            shape[d] = (uint64_t)place.sizes[d];
        items[count++] = (sc_safetensors_item){.name = sc_state_info(set, i)->name,
                                               .element = sc_state_element(set, i),
                                               .rank = place.rank,
                                               .shape = shape};
    }
    char *header =
        count == 0 ? NULL : sc_safetensors_header(items, count, metadata, 3, length, &error);
    if (error.count > 0)
        failed(context, sc_arena_copy_text(arena, error.text, strcspn(error.text, "\n")));
    return header;
}

static void add_row(void *file, const void *bytes, size_t length)
{
    sc_durable_add(file, bytes, length);
}

static bool add_shards(sc_context *context, const sc_state_set *set, uint32_t rank,
                       const char *copy, void *room, sc_durable *file)
{
    sc_shard_place place;
    for (uint32_t i = 0; i < set->count; i++) {
        if (file->reason != 0)
            break;
        if (!sc_state_gives(set, i, rank, &place))
            continue;
        if (copy != NULL) {
            uint64_t bytes = sc_place_bytes(&place, sc_state_element(set, i));
            sc_durable_add(file, copy, bytes);
            copy += bytes;
        } else if (!sc_state_each_row(context, set, i, rank, &place, room, add_row, file)) {
            return false;
        }
    }
    return file->reason == 0;
}

bool sc_state_write_rank(sc_context *context, const sc_state_set *set, uint32_t rank,
                         const char *folder, const sc_train_state *state, const char *copy,
                         void *room, sc_state_file *out)
{
    uint32_t errors = context->diag.errors;
    size_t length;
    *out = (sc_state_file){0};
    char *header = header_of(context, set, rank, state, &length);
    if (header == NULL)
        return context->diag.errors == errors; /* this rank writes nothing */
    const char *path = sc_arena_printf(&context->arena, "%s/%s", folder,
                                       sc_state_rank_file(&context->arena, rank));
    sc_durable file;
    bool ok = sc_durable_create(&file, path);
    file.is_checked = true;
    sc_durable_add(&file, header, length);
    free(header);
    ok = ok && add_shards(context, set, rank, copy, room, &file);
    ok = sc_durable_end(&file) && ok;
    *out = (sc_state_file){file.bytes, file.sums};
    return ok || (context->diag.errors > errors ? false : fail(context, path, file.reason));
}

/* ---- files common to all ranks ---- */

/* The receiver frees out->sums. */
static bool write_text(sc_context *context, const char *folder, const char *name, const char *text,
                       sc_state_file *out)
{
    const char *path = sc_arena_printf(&context->arena, "%s/%s", folder, name);
    sc_durable file;
    *out = (sc_state_file){0};
    if (text == NULL)
        return failed(context, "there is not enough memory to write the state");
    if (sc_durable_create(&file, path)) {
        file.is_checked = true;
        sc_durable_add(&file, text, strlen(text));
    }
    bool ok = sc_durable_end(&file);
    *out = (sc_state_file){file.bytes, file.sums};
    return ok || fail(context, path, file.reason);
}

static void add_tensor(sc_arena *arena, const sc_state_set *set, uint32_t index,
                       const uint32_t *files, uint64_t *ends, sc_saved_index *out)
{
    const shardc_tensor_info *info = sc_state_info(set, index);
    sc_saved_tensor *tensor = sc_vec_push(arena, &out->tensors);
    sc_shard_place place;
    *tensor = (sc_saved_tensor){
        .name = info->name, .element = sc_state_element(set, index), .rank = info->rank};
    for (uint32_t d = 0; d < info->rank; d++)
        tensor->sizes[d] = info->dims[d].size;
    for (uint32_t rank = 0; rank < set->executor->rank_count; rank++) {
        if (!sc_state_gives(set, index, rank, &place))
            continue;
        sc_saved_shard *shard = sc_vec_push(arena, &tensor->shards);
        *shard = (sc_saved_shard){.file = files[rank], .begin = ends[rank]};
        memcpy(shard->first, place.first, sizeof shard->first);
        memcpy(shard->sizes, place.sizes, sizeof shard->sizes);
        ends[rank] += sc_place_bytes(&place, tensor->element);
    }
}

static const char *index_text(sc_arena *arena, const sc_state_set *set, const sc_train_state *state,
                              uint64_t save, const sc_state_file *counts,
                              const sc_state_file *written)
{
    sc_saved_index index = {.id = state->id,
                            .step = state->steps,
                            .save = save,
                            .has_held_out = state->has_held_out,
                            .held_out = state->held_out};
    uint32_t ranks = set->executor->rank_count;
    uint32_t *files = sc_arena_array(arena, ranks, sizeof *files);
    uint64_t *ends = sc_arena_array(arena, ranks, sizeof *ends);
    *sc_vec_push(arena, &index.files) =
        (sc_saved_file){SC_STATE_COUNTS_NAME, counts->bytes, counts->sums};
    for (uint32_t rank = 0; rank < ranks; rank++) {
        if (written[rank].bytes == 0)
            continue;
        files[rank] = index.files.count;
        *sc_vec_push(arena, &index.files) = (sc_saved_file){
            sc_state_rank_file(arena, rank), written[rank].bytes, written[rank].sums};
    }
    for (uint32_t i = 0; i < set->count; i++)
        add_tensor(arena, set, i, files, ends, &index);
    return sc_state_index_text(arena, &index);
}

bool sc_state_write_common(sc_context *context, const sc_state_set *set, const char *folder,
                           const sc_train_state *state, uint64_t save, const sc_state_file *files)
{
    sc_arena *arena = &context->arena;
    sc_state_file counts, index = {0};
    bool ok = write_text(context, folder, SC_STATE_COUNTS_NAME, sc_state_counts_text(arena, state),
                         &counts);
    ok = ok && write_text(context, folder, SC_STATE_INDEX_NAME,
                          index_text(arena, set, state, save, &counts, files), &index);
    free(counts.sums);
    free(index.sums);
    return ok;
}
