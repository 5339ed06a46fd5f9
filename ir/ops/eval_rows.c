/* Rows on their way to the ranks of their experts, and back: row_slots, pack_rows, unpack_rows.
 * Each is about the rows of one rank, which has one member M. */
#include "ir/ops/eval_walk.h"

#include <math.h>

#include "ir/ops/capacity.h"
#include "support/number.h"

/* Dims of rows, taken out of a walk: a row's number is row-major over them. */
typedef struct row_dims {
    uint32_t count;
    sc_walk_dim list[SC_MAX_RANK];
} row_dims;

/* The dims of slots. */
typedef struct slot_dims {
    sc_walk_dim member, part, slot;
} slot_dims;

static bool take_rows(sc_eval *eval, sc_walk *walk, sc_attr_key key, row_dims *rows)
{
    const sc_attr *dims = sc_op_attr(eval->op, key);
    *rows = (row_dims){.count = dims->count};
    for (uint32_t d = 0; d < dims->count; d++) {
        if (!sc_walk_take(eval, walk, dims->dims[d], &rows->list[d]))
            return false;
    }
    return true;
}

static bool take_slots(sc_eval *eval, sc_walk *walk, sc_attr_key key, slot_dims *slots)
{
    const sc_attr *dims = sc_op_attr(eval->op, key);
    return sc_walk_take(eval, walk, dims->dims[0], &slots->member) &&
           sc_walk_take(eval, walk, dims->dims[1], &slots->part) &&
           sc_walk_take(eval, walk, dims->dims[2], &slots->slot);
}

static int64_t row_count(const row_dims *rows)
{
    int64_t count = 1;
    for (uint32_t d = 0; d < rows->count; d++)
        count *= rows->list[d].size;
    return count;
}

/* Where row number `row` begins in an array of the walk. */
static int64_t row_at(const row_dims *rows, uint32_t array, int64_t row)
{
    int64_t at = 0;
    for (uint32_t d = rows->count; d-- > 0;) {
        at += row % rows->list[d].size * rows->list[d].strides[array];
        row /= rows->list[d].size;
    }
    return at;
}

static int64_t slot_at(const slot_dims *slots, uint32_t array, int64_t part, int64_t slot)
{
    return part * slots->part.strides[array] + slot * slots->slot.strides[array];
}

/* Whether one of the row's choices is in the part: *out. `may_lack`: -1 is an id of no row. */
static bool find_choice(sc_eval *eval, sc_walk *choices, int64_t at, int64_t part, bool may_lack,
                        bool *out)
{
    const int64_t each = sc_op_int(eval->op, SC_ATTR_each, 1),
                  below = sc_op_int(eval->op, SC_ATTR_below, 0);
    *out = false;
    sc_walk_start(choices);
    do {
        double id = eval->operands[0]->data[at + choices->at[0]];
        if (id == SC_NO_ID || (may_lack && id == -1))
            continue;
        if (!(id >= 0 && id < (double)below))
            return sc_eval_fail(eval, "id %.17g is outside 0 <= id < %lld", id, (long long)below);
        *out = *out || floor(id / (double)each) == (double)part;
    } while (sc_walk_next(choices));
    return true;
}

/* Fails, with the most rows or choices that go to one part, if there are too few slots. */
static bool check_room(sc_eval *eval, int64_t most, int64_t room, const char *what)
{
    char value[32], capacity[32];
    if (most <= room)
        return true;
    sc_snprintf(value, sizeof value, "%lld", (long long)most);
    sc_snprintf(capacity, sizeof capacity, SC_CAPACITY_FORMAT,
                sc_capacity_for(most, sc_op_number(eval->op, SC_ATTR_share, 1)));
    return sc_eval_fail(eval, SC_TOO_MANY_ROWS, value, what, (long long)room, capacity);
}

/* The number of this rank's first part, of as many as each rank has. */
static int64_t first_part(const sc_eval *eval, int64_t parts)
{
    const sc_attr *over = sc_op_attr(eval->op, SC_ATTR_over);
    sc_sub_axis_list list = {0};
    const uint32_t count = over == NULL ? 0 : over->count;
    for (uint32_t a = 0; a < count; a++)
        list.sub_axes[list.count++] = over->sub_axes[a];
    return sc_shard_number(&eval->m->mesh, &list, eval->rank) * parts;
}

bool eval_row_slots(sc_eval *eval)
{
    enum { IDS, SLOTS, PLACES, COUNTS };
    sc_walk walk;
    row_dims rows;
    slot_dims slots;
    sc_walk_init(&walk);
    if (!sc_walk_add_operand(eval, &walk, 0) || !sc_walk_add_result(eval, &walk, 0) ||
        !sc_walk_add_result(eval, &walk, 1) || !sc_walk_add_result(eval, &walk, 2) ||
        !take_rows(eval, &walk, SC_ATTR_dims, &rows) ||
        !take_slots(eval, &walk, SC_ATTR_to, &slots))
        return false;
    if (slots.member.size != 1)
        return sc_eval_fail(eval, "rows are sent by the ranks of a mesh only");
    double *const row_of = eval->results[0].data, *const slot_of = eval->results[1].data;
    const int64_t first = first_part(eval, slots.part.size);
    bool is_apart = slots.part.strides[IDS] != 0; /* each part has ids of its own */
    int64_t most = 0;
    for (int64_t part = 0; part < slots.part.size; part++) {
        int64_t count = 0;
        for (int64_t row = 0; row < row_count(&rows); row++) {
            bool is_chosen;
            double *slot = &slot_of[row_at(&rows, PLACES, row) + part * slots.part.strides[PLACES]];
            if (!find_choice(eval, &walk, row_at(&rows, IDS, row) + part * slots.part.strides[IDS],
                             first + part, is_apart, &is_chosen))
                return false;
            *slot = !is_chosen ? -1 : count < slots.slot.size ? (double)count : SC_NO_ROOM;
            if (*slot >= 0)
                row_of[slot_at(&slots, SLOTS, part, count)] = (double)row;
            count += is_chosen;
        }
        if (count > slots.slot.size)
            row_of[slot_at(&slots, SLOTS, part, slots.slot.size - 1)] += SC_SPOILT_ROW;
        most = count > most ? count : most;
        eval->results[2].data[part * slots.part.strides[COUNTS]] =
            (double)(count < slots.slot.size ? count : slots.slot.size);
        for (; count < slots.slot.size; count++)
            row_of[slot_at(&slots, SLOTS, part, count)] = -1;
    }
    bool is_split = sc_op_attr(eval->op, SC_ATTR_over) != NULL;
    return check_room(eval, most, slots.slot.size,
                      is_split ? SC_CHOICES_WITHOUT_ROOM : SC_ROWS_WITHOUT_ROOM);
}

/* Walks over the dims that rows and slots share: of the result, of what is copied, and of where to.
 */
static bool open_copy(sc_eval *eval, sc_attr_key of_rows, sc_attr_key of_slots, sc_walk *walk,
                      row_dims *rows, slot_dims *slots)
{
    sc_walk_init(walk);
    return sc_walk_add_result(eval, walk, 0) && sc_walk_add_operand(eval, walk, 0) &&
           sc_walk_add_operand(eval, walk, 1) && take_rows(eval, walk, of_rows, rows) &&
           take_slots(eval, walk, of_slots, slots);
}

bool eval_pack_rows(sc_eval *eval)
{
    enum { OUT, X, SLOTS };
    sc_walk walk;
    row_dims rows;
    slot_dims slots;
    if (!open_copy(eval, SC_ATTR_dims, SC_ATTR_to, &walk, &rows, &slots))
        return false;
    const double fill = sc_op_number(eval->op, SC_ATTR_value, 0);
    for (int64_t i = 0; i < slots.part.size * slots.slot.size; i++) {
        const int64_t part = i / slots.slot.size, slot = i % slots.slot.size;
        const double found = eval->operands[1]->data[slot_at(&slots, SLOTS, part, slot)];
        const bool is_spoilt = found >= SC_SPOILT_ROW;
        const double row = is_spoilt ? found - SC_SPOILT_ROW : found;
        const int64_t from = (row < 0 ? 0 : row_at(&rows, X, (int64_t)row)) +
                             part * slots.part.strides[X],
                      to = slot_at(&slots, OUT, part, slot);
        sc_walk_start(&walk);
        do {
            double element = row < 0 ? fill : eval->operands[0]->data[from + walk.at[X]];
            bool is_float = sc_dtype_is_float(eval->result_types[0]->dtype);
            eval->results[0].data[to + walk.at[OUT]] =
                is_spoilt && is_float ? (double)NAN : element;
        } while (sc_walk_next(&walk));
    }
    return true;
}

/* Takes the dims that only places have out of the walk: the choices of a row. */
static bool take_choices(sc_eval *eval, sc_walk *walk, row_dims *choices)
{
    const sc_type_info *places = eval->operand_types[1], *result = eval->result_types[0];
    choices->count = 0;
    for (uint32_t i = 0; i < places->rank; i++) {
        sc_dim dim = places->dims[i].dim;
        if (sc_type_find_dim(result, dim) < 0 &&
            dim != sc_op_attr(eval->op, SC_ATTR_dims)->dims[1] &&
            !sc_walk_take(eval, walk, dim, &choices->list[choices->count++]))
            return false;
    }
    return true;
}

/* The slots of a row are added in the order of parts, and in a part of choices. */
bool eval_unpack_rows(sc_eval *eval)
{
    enum { OUT, Y, PLACES };
    sc_walk walk;
    row_dims rows, choices;
    slot_dims slots;
    if (!open_copy(eval, SC_ATTR_to, SC_ATTR_dims, &walk, &rows, &slots) ||
        !take_choices(eval, &walk, &choices))
        return false;
    const int64_t each = row_count(&choices), of_row = slots.part.size * each;
    for (int64_t i = 0; i < row_count(&rows) * of_row; i++) {
        const int64_t row = i / of_row, part = i % of_row / each;
        const double slot =
            eval->operands[1]
                ->data[row_at(&rows, PLACES, row) + row_at(&choices, PLACES, i % each) +
                       part * slots.part.strides[PLACES]];
        const bool has_room = slot != SC_NO_ROOM;
        if (has_room && !(slot >= 0 && slot < (double)slots.slot.size)) /* none, or padding */
            continue;
        const int64_t from = slot_at(&slots, Y, part, has_room ? (int64_t)slot : 0),
                      to = row_at(&rows, OUT, row) + part * slots.part.strides[OUT];
        sc_walk_start(&walk);
        do {
            eval->results[0].data[to + walk.at[OUT]] +=
                has_room ? eval->operands[0]->data[from + walk.at[Y]] : (double)NAN;
        } while (sc_walk_next(&walk));
    }
    return true;
}
