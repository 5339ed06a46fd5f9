/* Loads a checkpoint's values into the ranks' shards, whatever mesh and precision it was written
 * with. */
#include <stdlib.h>
#include <string.h>

#include "program/optimizer.h"
#include "runtime/drive/state_reader.h"
#include "runtime/drive/train_state.h"
#include "support/checksum.h"

typedef struct restoring {
    sc_context *context;
    const sc_saved_state *saved;
    const sc_state_set *set;
    const sc_executor *executor;
    sc_state_reader *reader;
    void *room;
} restoring;

static bool refuse(const restoring *r, const char *reason)
{
    return sc_state_refuse(r->context, r->saved->path, reason);
}

/* ---- which saved tensor has a state's values ---- */

/* Returns the tensor called `name` and then `suffix`, or NULL. */
static const sc_saved_tensor *find(sc_context *context, const sc_saved_index *index,
                                   const char *name, const char *suffix)
{
    const char *whole = sc_arena_printf(&context->arena, "%s%s", name, suffix);
    const uint32_t *at = sc_map_find(&index->by_name, sc_intern_text(&context->names, whole));
    return at == NULL ? NULL : &index->tensors.data[*at];
}

/* Returns the parameter of a master copy, or NULL. */
static const char *parameter_of(sc_context *context, const char *name)
{
    size_t length = strlen(name), suffix = strlen(SC_MASTER_SUFFIX);
    if (length <= suffix || strcmp(name + length - suffix, SC_MASTER_SUFFIX) != 0)
        return NULL;
    return sc_arena_copy_text(&context->arena, name, length - suffix);
}

/* In another precision a parameter is rounded from its master copy, if the checkpoint has one, and
 * a master copy takes the parameter's values. */
const sc_saved_tensor *sc_saved_tensor_for(sc_context *context, const sc_saved_index *index,
                                           const char *name, sc_element element)
{
    const sc_saved_tensor *own = find(context, index, name, "");
    if (own != NULL && own->element == element)
        return own;
    const sc_saved_tensor *master = find(context, index, name, SC_MASTER_SUFFIX);
    const char *param = parameter_of(context, name);
    if (own == NULL && param != NULL)
        return find(context, index, param, "");
    return master != NULL ? master : own;
}

/* Loss scaling begins anew in a run that had none. */
static bool is_of_scaling(const char *name)
{
    return strncmp(name, SC_SCALE_STATES, strlen(SC_SCALE_STATES)) == 0;
}

/* ---- values ---- */

typedef struct source {
    sc_state_reader *reader;
    const sc_saved_tensor *tensor;
} source;

static bool read_box(void *user, const sc_shard_place *place, sc_element element, void *local)
{
    const source *from = user;
    return sc_state_reader_box(from->reader, from->tensor, place, element, local);
}

static bool has_shape(const sc_saved_tensor *tensor, const shardc_tensor_info *info)
{
    bool fits = tensor->rank == info->rank;
    for (uint32_t d = 0; fits && d < info->rank; d++)
        fits = tensor->sizes[d] == info->dims[d].size;
    return fits;
}

static bool restore_tensor(restoring *r, uint32_t index)
{
    const shardc_tensor_info *info = sc_state_info(r->set, index);
    const sc_saved_tensor *tensor = sc_saved_tensor_for(r->context, &r->saved->index, info->name,
                                                        sc_state_element(r->set, index));
    if (tensor == NULL)
        return true; /* of scaling */
    if (!has_shape(tensor, info))
        return refuse(r, sc_arena_printf(&r->context->arena, "'%s' is not of this program's shape",
                                         info->name));
    source from = {r->reader, tensor};
    return sc_state_fill(r->context, r->set, index, r->room, read_box, &from);
}

/* Reports the first of the states that the checkpoint lacks. */
static bool has_all(restoring *r)
{
    const char *first = NULL;
    uint32_t others = 0;
    for (uint32_t i = 0; i < r->set->count; i++) {
        const char *name = sc_state_info(r->set, i)->name;
        if (is_of_scaling(name) || sc_saved_tensor_for(r->context, &r->saved->index, name,
                                                       sc_state_element(r->set, i)) != NULL)
            continue;
        others += first != NULL;
        first = first == NULL ? name : first;
    }
    if (first == NULL)
        return true;
    const char *more =
        others == 0 ? "" : sc_arena_printf(&r->context->arena, " (nor %u others)", others);
    return refuse(r, sc_arena_printf(&r->context->arena,
                                     "it has no '%s'%s, which this program needs", first, more));
}

bool sc_saved_state_has_no_more(sc_context *context, const sc_saved_state *saved,
                                const sc_state_set *set)
{
    sc_map known = {.arena = &context->arena};
    for (uint32_t i = 0; i < set->count; i++)
        sc_map_insert(&known, sc_intern_text(&context->names, sc_state_info(set, i)->name), 0,
                      NULL);
    for (uint32_t i = 0; i < saved->index.tensors.count; i++) {
        const char *name = saved->index.tensors.data[i].name, *param = parameter_of(context, name);
        sc_sym key = sc_intern_text(&context->names, param != NULL ? param : name);
        if (!is_of_scaling(name) && sc_map_find(&known, key) == NULL)
            return sc_state_refuse(
                context, saved->path,
                sc_arena_printf(&context->arena, "it has '%s', which this program lacks", name));
    }
    return true;
}

static bool restore_values(restoring *r)
{
    int64_t room = r->executor->room_bytes;
    r->reader = sc_state_reader_new(r->context, r->saved->path, &r->saved->index);
    bool ok = r->reader != NULL && (room == 0 || (r->room = malloc((size_t)room)) != NULL);
    if (!ok)
        refuse(r, "there is not enough memory for its largest shard");
    ok = ok && has_all(r);
    for (uint32_t i = 0; i < r->set->count; i++) {
        if (!ok)
            break;
        ok = restore_tensor(r, i);
    }
    return ok;
}

/* ---- restoring ---- */

/* Checks that all processes resume from the same checkpoint, the first one's. */
static bool same_everywhere(restoring *r)
{
    int64_t id = (int64_t)sc_checksum_of(r->saved->index.id, SC_STATE_ID),
            first = r->executor->is_first ? id : 0;
    shardc_error error = {.text = ""};
    if (r->executor->verbs->sum == NULL)
        return true;
    if (!r->executor->verbs->sum(r->executor->self, &first, 1, "which state is resumed", &error))
        return refuse(r, sc_arena_printf(&r->context->arena, "%s", error.text));
    return first == id || refuse(r, "rank 0 resumes from another state");
}

/* True if all processes succeeded. */
static bool agree(restoring *r, bool ok)
{
    int64_t failures = !ok;
    shardc_error error = {.text = ""};
    if (r->executor->verbs->sum == NULL)
        return ok;
    if (!r->executor->verbs->sum(r->executor->self, &failures, 1, "whether the state is whole",
                                 &error))
        return refuse(r, sc_arena_printf(&r->context->arena, "%s", error.text));
    return failures == 0 ||
           (ok && refuse(r, "another rank cannot resume from it: its message says why"));
}

/* After a file that is wrong: names an older checkpoint that is whole. */
static bool noted(restoring *r, bool ok)
{
    if (!ok)
        sc_saved_state_note_whole(r->context, r->saved);
    return ok;
}

static void free_restoring(restoring *r)
{
    sc_state_reader_free(r->reader);
    free(r->room);
}

bool sc_saved_state_load(sc_context *context, const sc_saved_state *saved, const sc_state_set *set)
{
    restoring r = {.context = context, .saved = saved, .set = set, .executor = set->executor};
    bool ok = agree(&r, same_everywhere(&r)) && agree(&r, noted(&r, restore_values(&r)));
    ok = ok && agree(&r, noted(&r, sc_state_reader_check(r.reader, r.executor)));
    free_restoring(&r);
    return ok;
}
