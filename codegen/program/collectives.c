/* Collectives. Pieces are sent as contiguous memory, so if a dim other than the slowest is split, a
 * kernel packs the pieces before the collective or unpacks them after it:
 *
 *     all_gather of [B, S/n, D] along S       pieces [n, B, S/n, D]  ->  [B, S, D]
 *     reduce_scatter of [B, S, D] along S     [B, S, D]  ->  pieces [n, B, S/n, D]
 *     all_to_all                              both
 *
 * If n does not divide the dim, the last pieces are padded: packing writes zeros there, unpacking
 * drops them. */
#include <assert.h>
#include <string.h>

#include "codegen/program/internal.h"

/* ---- groups ---- */
static uint32_t group_of(sc_generator *g, const sc_op *op, int64_t *size)
{
    const sc_mesh *mesh = &g->m->mesh;
    const sc_attr *over = sc_op_attr(op, SC_ATTR_over);
    sc_image_group group = {.digits = sc_arena_array(g->arena, over->count, sizeof *group.digits)};
    sc_strbuf axes;
    sc_strbuf_init(&axes, g->arena);
    sc_strbuf_add(&axes, "");
    *size = 1;
    uint32_t last = SC_NONE;
    for (uint32_t i = 0; i < over->count; i++) {
        const sc_sub_axis *sub_axis = &mesh->sub_axes[over->sub_axes[i]];
        if (sub_axis->axis != last)
            sc_strbuf_printf(&axes, "%s%s", axes.length > 0 ? ", " : "",
                             sc_text(g->m->context, mesh->axes[sub_axis->axis].name));
        last = sub_axis->axis;
        *size *= (int64_t)sub_axis->size;
        if (sub_axis->size > 1)
            group.digits[group.digit_count++] =
                (sc_image_digit){sc_mesh_world_stride(mesh, over->sub_axes[i]), sub_axis->size};
    }
    group.axes = axes.data;
    for (uint32_t i = 0; i < g->groups.count; i++) {
        const sc_image_group *known = &g->groups.data[i];
        if (known->digit_count == group.digit_count &&
            (group.digit_count == 0 ||
             memcmp(known->digits, group.digits, group.digit_count * sizeof *group.digits) == 0))
            return i;
    }
    *sc_vec_push(g->arena, &g->groups) = group;
    return g->groups.count - 1;
}

/* ---- one collective ---- */
typedef struct move {
    sc_generator *g;
    sc_op_id op;
    int64_t members;
    sc_image_collective collective;
    sc_image_ref *args;
    sc_in_flight in_flight;
} move;

static void local_sizes(const sc_generator *g, const sc_type_info *type, int64_t *sizes)
{
    for (uint32_t i = 0; i < type->rank; i++)
        sizes[i] = sc_type_local_size(g->m, type, i);
}

static int64_t product(const int64_t *sizes, uint32_t rank)
{
    int64_t n = 1;
    for (uint32_t i = 0; i < rank; i++)
        n *= sizes[i];
    return n;
}

/* How a group's pieces lie in what they make up. */
static sc_shard_order order_of_pieces(const move *mv, const sc_type_info *type, uint32_t cut)
{
    const sc_attr *over = sc_op_attr(sc_op_at(mv->g->m, mv->op), SC_ATTR_over);
    sc_sub_axis_list list = {.count = (uint8_t)over->count};
    memcpy(list.sub_axes, over->sub_axes, over->count);
    return sc_shard_order_of(mv->g->m, type->dims[cut].dim, &list);
}

/* True if pieces along the dim are contiguous in the whole, one after the other. */
static bool in_order(const sc_shard_order *order, const int64_t *whole, const int64_t *piece,
                     uint32_t cut, int64_t members)
{
    if (order->members > 1)
        return false;
    for (uint32_t i = 0; i < cut; i++) {
        if (whole[i] != 1)
            return false;
    }
    return piece[cut] * members == whole[cut];
}

static move begin(sc_generator *g, sc_op_id op, sc_image_collective_kind kind)
{
    const sc_op *o = sc_op_at(g->m, op);
    sc_context *context = g->m->context;
    move mv = {.g = g, .op = op};
    const char *word = sc_text(context, sc_op_word(o, SC_ATTR_reduce));
    const sc_attr *why = sc_op_attr(o, SC_ATTR_why);
    mv.collective = (sc_image_collective){
        .kind = kind,
        .reduce = strcmp(word, "sum") == 0   ? SC_IMAGE_SUM
                  : strcmp(word, "max") == 0 ? SC_IMAGE_MAX
                  : strcmp(word, "min") == 0 ? SC_IMAGE_MIN
                                             : SC_IMAGE_WHOLE,
        .group = group_of(g, o, &mv.members),
        .part_count = o->result_count,
        .dtypes = sc_arena_array(g->arena, o->result_count, sizeof *mv.collective.dtypes),
        .counts = sc_arena_array(g->arena, o->result_count, sizeof *mv.collective.counts),
        .why = why == NULL ? "" : sc_text(context, why->text),
    };
    mv.collective.axes = g->groups.data[mv.collective.group].axes;
    mv.args = sc_arena_array(g->arena, 2 * (size_t)o->result_count + 2, sizeof *mv.args);
    mv.in_flight = (sc_in_flight){
        .op = op,
        .received = sc_arena_array(g->arena, o->result_count, sizeof *mv.in_flight.received),
        .unpack = sc_arena_array(g->arena, o->result_count, sizeof *mv.in_flight.unpack)};
    for (uint32_t i = 0; i < o->result_count; i++)
        mv.collective.dtypes[i] = sc_type_of(g->m, o->operands[i])->dtype;
    return mv;
}

static sc_image_ref buffer_of(sc_generator *g, sc_value value, int64_t elements, sc_dtype dtype)
{
    const char *name = sc_arena_printf(g->arena, "pieces of %s", sc_generator_name(g, value));
    return (sc_image_ref){
        sc_generator_buffer(g, SC_BUFFER_COMM, elements * sc_dtypes[dtype].bytes, name), 0};
}

/* The most collectives in flight at once: their operands and results stay live until they
 * finish. */
enum { MAX_IN_FLIGHT = 4 };

bool sc_generator_bound_in_flight(sc_generator *g)
{
    uint32_t count = 0;
    bool ok = true;
    while (g->func.finished < g->func.in_flight.count &&
           g->func.in_flight.data[g->func.finished].instr == SC_NONE)
        g->func.finished++;
    for (uint32_t f = g->func.in_flight.count; f-- > g->func.finished;) {
        if (!ok)
            break;
        if (g->func.in_flight.data[f].instr != SC_NONE && ++count >= MAX_IN_FLIGHT)
            ok = sc_generator_finish(g, f);
    }
    return ok;
}

static bool start(move *mv)
{
    sc_generator *g = mv->g;
    if (!sc_generator_bound_in_flight(g))
        return false;
    const sc_op *o = sc_op_at(g->m, mv->op);
    *sc_vec_push(g->arena, &g->collectives) = mv->collective;
    mv->in_flight.instr = g->func.instrs.count;
    const uint32_t counts = mv->collective.row_count > 0 ? 2 : 0;
    sc_generator_instr(g, SC_INSTR_COLLECTIVE, mv->op, g->collectives.count - 1, mv->args,
                       2 * o->result_count + counts);
    for (uint32_t r = 0; r < o->result_count; r++)
        g->func.in_flight_of[o->first_result + r] = g->func.in_flight.count + 1;
    *sc_vec_push(g->arena, &g->func.in_flight) = mv->in_flight;
    return true;
}

/* Where a result that needs no unpacking arrives. Units up to its first reader are not known yet,
 * so it goes to a state's buffer only if the state has no later reader. */
static sc_image_ref receive(move *mv, uint32_t i)
{
    return sc_generator_write(mv->g, sc_op_at(mv->g->m, mv->op)->first_result + i, SC_BUFFER_COMM,
                              false);
}

/* True if it is a copy between device and host memory. */
static bool is_transfer(const sc_generator *g, uint32_t index)
{
    return sc_op_copies_memory((sc_op_kind)sc_op_at(g->m, g->func.in_flight.data[index].op)->kind);
}

bool sc_generator_finish(sc_generator *g, uint32_t index)
{
    sc_in_flight *in_flight = &g->func.in_flight.data[index];
    if (in_flight->instr == SC_NONE)
        return true;
    const sc_op *o = sc_op_at(g->m, in_flight->op);
    const sc_loc loc = g->unit.loc;
    bool ok = true;
    /* transfers run in order: with this one, earlier ones end */
    for (uint32_t f = g->func.finished; f < index; f++) {
        if (!ok)
            break;
        if (is_transfer(g, index) && is_transfer(g, f))
            ok = sc_generator_finish(g, f);
    }
    g->unit.loc = o->loc;
    sc_generator_instr(g, SC_INSTR_FINISH, in_flight->op, in_flight->instr, NULL, 0);
    in_flight->instr = SC_NONE;
    for (uint32_t r = 0; r < o->result_count; r++) {
        if (!ok)
            break;
        g->func.in_flight_of[o->first_result + r] = 0;
        if (in_flight->unpack[r] != NULL)
            ok = sc_generator_call_checked(
                g, in_flight->op, in_flight->unpack[r], in_flight->received[r],
                sc_generator_write(g, o->first_result + r, SC_BUFFER_COMM, false));
    }
    g->unit.loc = loc;
    return ok;
}

bool sc_generator_finish_value(sc_generator *g, sc_value value)
{
    sc_value root = g->func.root[value];
    uint32_t in_flight = g->func.in_flight_of[root];
    if (g->exchanges != NULL && !sc_generator_wait_for_message(g, root))
        return false;
    return in_flight == 0 || sc_generator_finish(g, in_flight - 1);
}

bool sc_generator_finish_operands(sc_generator *g, const sc_op_id *ops, uint32_t count)
{
    bool ok = true;
    for (uint32_t i = 0; i < count; i++) {
        const sc_op *op = sc_op_at(g->m, ops[i]);
        for (uint32_t o = 0; o < op->operand_count; o++) {
            if (!ok)
                break;
            ok = sc_generator_finish_value(g, op->operands[o]);
        }
    }
    return ok;
}

static uint32_t dim_of(const sc_generator *g, const sc_op *o, sc_attr_key key, uint32_t i)
{
    return (uint32_t)sc_type_find_dim(sc_type_of(g->m, o->operands[i]),
                                      sc_op_attr(o, key)->dims[i]);
}

/* Sends pieces of the operand along `cut`, packed first if they are not contiguous. */
static bool give_pieces(move *mv, uint32_t i, uint32_t cut, const int64_t *whole,
                        const int64_t *piece)
{
    sc_generator *g = mv->g;
    sc_value value = sc_op_at(g->m, mv->op)->operands[i];
    const sc_type_info *type = sc_type_of(g->m, value);
    sc_image_ref source = sc_generator_read(g, value);
    mv->args[2 * i] = source;
    const sc_shard_order order = order_of_pieces(mv, type, cut);
    if (in_order(&order, whole, piece, cut, mv->members))
        return true;
    mv->args[2 * i] = buffer_of(g, value, mv->collective.counts[i], type->dtype);
    return sc_generator_call_checked(
        g, mv->op, sc_generator_rearrange(g, type, cut, &order, whole, piece, true), source,
        mv->args[2 * i]);
}

/* Receives pieces along `cut`: directly in the result, or in a buffer that is unpacked later. */
static void take_pieces(move *mv, uint32_t i, uint32_t cut, const int64_t *whole,
                        const int64_t *piece)
{
    sc_generator *g = mv->g;
    sc_value value = sc_op_at(g->m, mv->op)->operands[i];
    const sc_type_info *type = sc_type_of(g->m, value);
    const sc_shard_order order = order_of_pieces(mv, type, cut);
    if (in_order(&order, whole, piece, cut, mv->members)) {
        mv->args[2 * i + 1] = receive(mv, i);
        return;
    }
    mv->args[2 * i + 1] = mv->in_flight.received[i] =
        buffer_of(g, value, mv->collective.counts[i], type->dtype);
    mv->in_flight.unpack[i] = sc_generator_rearrange(g, type, cut, &order, whole, piece, false);
}

bool sc_generate_all_gather(sc_generator *g, sc_op_id op)
{
    move mv = begin(g, op, SC_IMAGE_ALL_GATHER);
    const sc_op *o = sc_op_at(g->m, op);
    for (uint32_t i = 0; i < o->operand_count; i++) {
        const sc_type_info *from = sc_type_of(g->m, o->operands[i]);
        int64_t whole[SC_MAX_RANK] = {0}, piece[SC_MAX_RANK] = {0};
        local_sizes(g, from, piece);
        local_sizes(g, sc_type_of(g->m, o->first_result + i), whole);
        mv.collective.counts[i] = mv.members * product(piece, from->rank);
        mv.args[2 * i] = sc_generator_read(g, o->operands[i]);
        take_pieces(&mv, i, dim_of(g, o, SC_ATTR_gather, i), whole, piece);
    }
    return start(&mv);
}

bool sc_generate_reduce_scatter(sc_generator *g, sc_op_id op)
{
    move mv = begin(g, op, SC_IMAGE_REDUCE_SCATTER);
    const sc_op *o = sc_op_at(g->m, op);
    for (uint32_t i = 0; i < o->operand_count; i++) {
        const sc_type_info *from = sc_type_of(g->m, o->operands[i]);
        int64_t whole[SC_MAX_RANK] = {0}, piece[SC_MAX_RANK] = {0};
        local_sizes(g, from, whole);
        local_sizes(g, sc_type_of(g->m, o->first_result + i), piece);
        mv.collective.counts[i] = mv.members * product(piece, from->rank);
        if (!give_pieces(&mv, i, dim_of(g, o, SC_ATTR_gather, i), whole, piece))
            return false;
        mv.args[2 * i + 1] = receive(&mv, i);
    }
    return start(&mv);
}

bool sc_generate_all_reduce(sc_generator *g, sc_op_id op)
{
    move mv = begin(g, op, SC_IMAGE_ALL_REDUCE);
    const sc_op *o = sc_op_at(g->m, op);
    for (uint32_t i = 0; i < o->operand_count; i++) {
        mv.collective.counts[i] = sc_type_local_elements(g->m, sc_type_of(g->m, o->operands[i]));
        mv.args[2 * i] = sc_generator_read(g, o->operands[i]);
        mv.args[2 * i + 1] = receive(&mv, i);
    }
    return start(&mv);
}

static bool exchange(move *mv)
{
    sc_generator *g = mv->g;
    const sc_op *o = sc_op_at(g->m, mv->op);
    for (uint32_t i = 0; i < o->result_count; i++) {
        const sc_type_info *from = sc_type_of(g->m, o->operands[i]);
        uint32_t gather = dim_of(g, o, SC_ATTR_gather, i),
                 scatter = dim_of(g, o, SC_ATTR_scatter, i);
        int64_t source[SC_MAX_RANK] = {0}, target[SC_MAX_RANK] = {0}, piece[SC_MAX_RANK] = {0};
        local_sizes(g, from, source);
        local_sizes(g, sc_type_of(g->m, o->first_result + i), target);
        local_sizes(g, from, piece);
        piece[scatter] = target[scatter];
        mv->collective.counts[i] = mv->members * product(piece, from->rank);
        if (!give_pieces(mv, i, scatter, source, piece))
            return false;
        take_pieces(mv, i, gather, target, piece);
    }
    return true;
}

bool sc_generate_all_to_all(sc_generator *g, sc_op_id op)
{
    move mv = begin(g, op, SC_IMAGE_ALL_TO_ALL);
    return exchange(&mv) && start(&mv);
}

/* ---- exchange_rows ---- */
/* Elements of a row: of the value's dims behind the last of those that pieces and slots are of.
 * Zero if rows are not contiguous in a piece. */
static int64_t row_elements(const sc_generator *g, const sc_type_info *type, sc_dim slot)
{
    int64_t elements = 1;
    uint32_t at = (uint32_t)sc_type_find_dim(type, slot);
    for (uint32_t i = at + 1; i < type->rank; i++)
        elements *= sc_type_local_size(g->m, type, i);
    return elements;
}

bool sc_generate_exchange_rows(sc_generator *g, sc_op_id op)
{
    move mv = begin(g, op, SC_IMAGE_ALL_TO_ALL);
    const sc_op *o = sc_op_at(g->m, op);
    const sc_attr *fills = sc_op_attr(o, SC_ATTR_fills), *dims = sc_op_attr(o, SC_ATTR_dims);
    sc_image_collective *c = &mv.collective;
    if (!exchange(&mv))
        return false;
    c->row_count = o->result_count;
    c->rows = sc_arena_array(g->arena, c->row_count, sizeof *c->rows);
    c->fills = sc_arena_array(g->arena, c->row_count, sizeof *c->fills);
    for (uint32_t i = 0; i < o->result_count; i++) {
        c->rows[i] = row_elements(g, sc_type_of(g->m, o->operands[i]), dims->dims[0]);
        c->fills[i] = (int64_t)fills->numbers[i];
    }
    for (uint32_t i = 0; i < 2; i++)
        mv.args[2 * o->result_count + i] = sc_generator_read(g, o->operands[o->result_count + i]);
    return start(&mv);
}

/* ---- collective_permute ---- */
/* The content of a member's value of this type, as a number that identifies its shards. Digits
 * outside the group are equal for all members. */
static int64_t content_of(const sc_generator *g, const sc_type_info *type, const sc_attr *over,
                          const uint64_t *digits)
{
    int64_t content = 0;
    for (uint32_t i = 0; i < type->rank; i++) {
        sc_sub_axis_list list = sc_placement_dim(&type->placement, i);
        for (uint32_t a = 0; a < list.count; a++) {
            uint64_t digit = 0;
            for (uint32_t d = 0; d < over->count; d++)
                digit = over->sub_axes[d] == list.sub_axes[a] ? digits[d] : digit;
            content =
                content * (int64_t)g->m->mesh.sub_axes[list.sub_axes[a]].size + (int64_t)digit;
        }
    }
    return content;
}

static void digits_of(const sc_generator *g, const sc_attr *over, uint64_t member, uint64_t *digits)
{
    for (uint32_t d = over->count; d-- > 0;) {
        digits[d] = member % g->m->mesh.sub_axes[over->sub_axes[d]].size;
        member /= g->m->mesh.sub_axes[over->sub_axes[d]].size;
    }
}

/* The source of each member: itself if it has the shard it needs, else one of the members that have
 * it, each of which sends to one. */
static uint32_t *find_sources(const sc_generator *g, const sc_op *o, uint32_t members)
{
    const sc_attr *over = sc_op_attr(o, SC_ATTR_over);
    const sc_type_info *from = sc_type_of(g->m, o->operands[0]),
                       *to = sc_type_of(g->m, o->first_result);
    int64_t *has = sc_arena_array(g->arena, members, sizeof *has),
            *wants = sc_arena_array(g->arena, members, sizeof *wants);
    uint32_t *source = sc_arena_array(g->arena, members, sizeof *source);
    bool *serves = sc_arena_array(g->arena, members, sizeof *serves);
    for (uint32_t m = 0; m < members; m++) {
        uint64_t digits[SC_MAX_SUB_AXES];
        digits_of(g, over, m, digits);
        has[m] = content_of(g, from, over, digits);
        wants[m] = content_of(g, to, over, digits);
        serves[m] = has[m] == wants[m];
        source[m] = serves[m] ? m : SC_NONE;
    }
    for (uint32_t m = 0; m < members; m++) {
        for (uint32_t j = 0; j < members && source[m] == SC_NONE; j++) {
            if (!serves[j] && has[j] == wants[m]) {
                serves[j] = true;
                source[m] = j;
            }
        }
        if (source[m] == SC_NONE)
            return NULL;
    }
    return source;
}

/* Each operand goes whole from one member to another. */
static bool move_whole(move *mv)
{
    sc_generator *g = mv->g;
    const sc_op *o = sc_op_at(g->m, mv->op);
    mv->collective.source_count = (uint32_t)mv->members;
    for (uint32_t i = 0; i < o->operand_count; i++) {
        mv->collective.counts[i] = sc_type_local_elements(g->m, sc_type_of(g->m, o->operands[i]));
        mv->args[2 * i] = sc_generator_read(g, o->operands[i]);
        mv->args[2 * i + 1] = receive(mv, i);
    }
    return start(mv);
}

/* ---- rotate ---- */
bool sc_generate_rotate(sc_generator *g, sc_op_id op)
{
    move mv = begin(g, op, SC_IMAGE_PERMUTE);
    int64_t shift = sc_op_int(sc_op_at(g->m, op), SC_ATTR_shift, 0);
    mv.collective.sources =
        sc_arena_array(g->arena, (size_t)mv.members, sizeof *mv.collective.sources);
    for (int64_t i = 0; i < mv.members; i++)
        mv.collective.sources[i] = (uint32_t)((i + mv.members - shift) % mv.members);
    return move_whole(&mv);
}

bool sc_generate_collective_permute(sc_generator *g, sc_op_id op)
{
    move mv = begin(g, op, SC_IMAGE_PERMUTE);
    const sc_op *o = sc_op_at(g->m, op);
    mv.collective.sources = find_sources(g, o, (uint32_t)mv.members);
    if (mv.collective.sources == NULL) {
        sc_report(&g->m->context->diag, SC_D_ir_invalid, o->loc, "code generation",
                  "a permutation that nobody can serve", NULL);
        return false;
    }
    return move_whole(&mv);
}
