/* Sends and receives between stages. All calls run in one order, so a value that is received has
 * been sent before; what is under way is kept by name and micro-batch. */
#include <stdlib.h>
#include <string.h>

#include "ir/interp/internal.h"

/* Returns the index of what was sent under the op's name for this micro-batch, or the number of
 * values under way. */
static uint32_t find_sent(const sc_interp *interp, sc_op_id id)
{
    sc_sym name = sc_op_word(sc_op_at(interp->m, id), SC_ATTR_name);
    uint32_t at = 0;
    while (at < interp->sent_count &&
           (interp->sent[at].name != name || interp->sent[at].micro_batch != interp->micro_batch))
        at++;
    return at;
}

static bool fail_transfer(sc_interp *interp, sc_op_id id, const char *what)
{
    return sc_interp_fail(
        interp, id, SC_NO_RANK, "'%s' of micro-batch %d %s",
        sc_text(interp->m->context, sc_op_word(sc_op_at(interp->m, id), SC_ATTR_name)),
        (int)interp->micro_batch, what);
}

bool sc_interp_send(sc_interp *interp, sc_op_id id)
{
    const sc_op *op = sc_op_at(interp->m, id);
    const sc_held *value = &interp->values[op->operands[0]];
    const sc_layout *layout = &interp->layouts[value->type];
    if (find_sent(interp, id) < interp->sent_count)
        return fail_transfer(interp, id, "is already under way");
    if (interp->sent_count == interp->sent_room) {
        uint32_t room = interp->sent_room * 2 + 16;
        sc_sent *sent =
            sc_interp_grown(interp->sent, interp->sent_room, room, sizeof *interp->sent);
        if (sent == NULL)
            return sc_interp_fail(interp, id, SC_NO_RANK, "out of memory");
        interp->sent = sent;
        interp->sent_room = room;
    }
    double *data = sc_interp_new_data(interp, layout);
    if (data == NULL)
        return sc_interp_fail(interp, id, SC_NO_RANK, "out of memory");
    interp->sent[interp->sent_count++] = (sc_sent){
        sc_op_word(op, SC_ATTR_name), interp->micro_batch, {.data = data, .type = value->type}};
    return sc_row_copy(data, value->data, (int64_t)interp->ranks * layout->count);
}

bool sc_interp_recv(sc_interp *interp, sc_op_id id)
{
    const sc_held *result = &interp->values[sc_result(interp->m, id, 0)];
    uint32_t at = find_sent(interp, id);
    if (at == interp->sent_count)
        return fail_transfer(interp, id, "has not been sent, or was received before");
    sc_sent *sent = &interp->sent[at];
    if (!sc_interp_same_shards(interp, sent->value.type, result->type))
        return fail_transfer(interp, id, "was sent with another shape or placement");
    sc_row_copy(result->data, sent->value.data,
                (int64_t)interp->ranks * sc_interp_layout(interp, result->type)->count);
    free(sent->value.data);
    *sent = interp->sent[--interp->sent_count];
    return true;
}
