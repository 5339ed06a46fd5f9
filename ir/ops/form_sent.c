/* What a rank sends because of a form: prices by which a form is chosen, and that `explain` shows.
 *
 * Values are priced as they are placed: what the axis does not split is not gathered. Of the
 * operands of attention after queries, keys and values, masks and biases, what a form gathers or
 * exchanges counts as well. */
#include "ir/ops/form_sent.h"

#include "ir/ops/capacity.h"
#include "ir/ops/expand.h"
#include "program/collective.h"

#include <inttypes.h>
#include <math.h>

enum { QUERIES, KEYS, VALUES, FIXED };    /* operands of attention */
enum { ROWS, WEIGHTS, IDS };              /* of routed products */
enum { MAX_WALK = 64 /* ops between */ }; /* two routed products */

static uint32_t ranks_of(const sc_form_site *site)
{
    return site->m->mesh.axes[site->axis].size;
}

/* The dim of the type that the axis splits; SC_NONE: none. */
static sc_dim split_dim(const sc_form_site *site, const sc_type_info *type)
{
    uint8_t on = type->placement.on[site->m->mesh.axes[site->axis].first_sub_axis];
    return on < type->rank ? type->dims[on].dim : SC_NONE;
}

static double bytes_of(const sc_form_site *site, const sc_type_info *type)
{
    return (double)sc_type_local_bytes(site->m, type);
}

/* As many elements in f32 or wider. */
static double wide_bytes_of(const sc_form_site *site, const sc_type_info *type)
{
    sc_type_info wide = *type;
    wide.dtype = wide.dtype != SC_DTYPE_f64 ? SC_DTYPE_f32 : wide.dtype;
    return bytes_of(site, &wide);
}

static bool has_cotangent(const sc_type_info *type)
{
    return sc_dtype_is_float(type->dtype);
}

/* ---- attention ---- */
static sc_dim keys_dim(const sc_form_site *site)
{
    const sc_attr *dims = sc_op_attr(site->op, SC_ATTR_dims);
    return dims == NULL || dims->count == 0 ? SC_NONE : dims->dims[0];
}

/* Adds what gathering a value costs that the axis splits, whose cotangent is scattered. */
static void add_gather(const sc_form_site *site, const sc_type_info *type, sc_form_sent *out)
{
    const uint32_t ranks = ranks_of(site);
    const double all = ranks * bytes_of(site, type);
    out->forward += sc_collective_sent(SC_IMAGE_ALL_GATHER, all, ranks);
    if (has_cotangent(type))
        out->backward += sc_collective_sent(SC_IMAGE_REDUCE_SCATTER, all, ranks);
}

/* Keys and values are kept for the backward pass, which reduces and scatters their cotangents. */
const char *sent_gather(const sc_form_site *site, const sc_form_dims *dims, sc_form_sent *out)
{
    const sc_dim keys = keys_dim(site);
    (void)dims;
    *out = (sc_form_sent){0};
    for (uint32_t o = KEYS; o < site->op->operand_count; o++) {
        const sc_type_info *type = &site->operands[o];
        if (split_dim(site, type) == keys)
            add_gather(site, type, out);
        else if (o < FIXED) /* each rank has a term of its cotangent */
            out->backward +=
                sc_collective_sent(SC_IMAGE_ALL_REDUCE, bytes_of(site, type), ranks_of(site));
    }
    return NULL;
}

/* Every block visits the ranks that need it; in the backward pass with its cotangents, which are
 * added up in f32. What has queries as well as keys is gathered along the keys. */
const char *sent_ring(const sc_form_site *site, const sc_form_dims *dims, sc_form_sent *out)
{
    const sc_module *m = site->m;
    const sc_axis *axis = &m->mesh.axes[site->axis];
    const sc_dim keys = keys_dim(site);
    sc_sub_axis_list split = {0};
    *out = (sc_form_sent){0};
    for (uint32_t a = 0; a < axis->sub_axis_count; a++)
        split.sub_axes[split.count++] = (uint8_t)(axis->first_sub_axis + a);
    const double steps = (double)sc_ring_steps(m, site->op, &split);
    for (uint32_t o = KEYS; o < site->op->operand_count; o++) {
        const sc_type_info *type = &site->operands[o];
        const bool goes_round =
            sc_type_find_dim(type, keys) >= 0 && sc_type_find_dim(type, dims->list[0]) < 0;
        if (o < FIXED && split_dim(site, type) != keys)
            return sc_arena_printf(&m->context->arena, "its keys are not split over %s",
                                   sc_text(m->context, axis->name));
        if (goes_round) {
            out->forward += steps * bytes_of(site, type);
            out->backward += steps * bytes_of(site, type);
            if (has_cotangent(type))
                out->backward += steps * wide_bytes_of(site, type);
        } else if (split_dim(site, type) == keys) {
            add_gather(site, type, out);
        }
    }
    return NULL;
}

bool sc_form_divide(const sc_module *m, const sc_type_info *type, const sc_form_dims *dims,
                    uint32_t ranks, uint32_t *parts)
{
    for (uint32_t d = 0; d < dims->count; d++) {
        int at = sc_type_find_dim(type, dims->list[d]);
        uint32_t size = (uint32_t)sc_type_local_size(m, type, (uint32_t)at);
        parts[d] = size % ranks == 0 ? ranks : size;
        if (ranks % parts[d] != 0)
            return false;
        ranks /= parts[d];
    }
    return ranks == 1;
}

static const char *say_misfit(const sc_form_site *site, const sc_form_dims *dims)
{
    const sc_module *m = site->m;
    const sc_axis *axis = &m->mesh.axes[site->axis];
    const sc_type_info *queries = &site->operands[QUERIES];
    sc_strbuf text;
    sc_strbuf_init(&text, &m->context->arena);
    if (dims->count == 0)
        return "no dim of its queries is one of heads: every other one is a dim of an input";
    sc_strbuf_printf(&text, "%s = %u does not divide what a rank has of its heads,",
                     sc_text(m->context, axis->name), axis->size);
    for (uint32_t d = 0; d < dims->count; d++) {
        int at = sc_type_find_dim(queries, dims->list[d]);
        sc_strbuf_printf(&text, "%s %s = %" PRId64, d > 0 ? "," : "",
                         sc_text(m->context, m->dims.data[dims->list[d]].name),
                         sc_type_local_size(m, queries, (uint32_t)at));
    }
    return text.data;
}

/* Adds the exchange of a value's positions for the parts of one dim of heads. A dim that the value
 * lacks is one of query heads that share keys, or it is no dim of a mask: it is copied. Returns how
 * many bytes a rank then has. */
static double add_exchange(const sc_type_info *type, sc_dim dim, double bytes, uint32_t ranks,
                           sc_form_sent *out)
{
    const bool has = sc_type_find_dim(type, dim) >= 0;
    const double sent = has ? sc_collective_sent(SC_IMAGE_ALL_TO_ALL, bytes, ranks)
                            : sc_collective_sent(SC_IMAGE_ALL_GATHER, bytes * ranks, ranks);
    out->forward += sent;
    if (has_cotangent(type))
        out->backward += sent;
    return has ? bytes : bytes * ranks;
}

/* Minor parts of the positions are exchanged first, so that the rest stays in order. Cotangents go
 * the same ways back. */
const char *sent_heads(const sc_form_site *site, const sc_form_dims *dims, sc_form_sent *out)
{
    const uint32_t count = site->op->operand_count;
    uint32_t parts[SC_MAX_RANK];
    *out = (sc_form_sent){0};
    if (!sc_form_divide(site->m, &site->operands[QUERIES], dims, ranks_of(site), parts))
        return say_misfit(site, dims);
    for (uint32_t o = 0; o <= count; o++) {
        const sc_type_info *type = o < count ? &site->operands[o] : site->result;
        double bytes = bytes_of(site, type);
        if (split_dim(site, type) != SC_NONE) {
            for (uint32_t d = dims->count; d-- > 0;)
                bytes = add_exchange(type, dims->list[d], bytes, parts[d], out);
        } else if (o == KEYS || o == VALUES) { /* whole: a rank has the cotangent of its heads */
            out->backward += sc_collective_sent(SC_IMAGE_ALL_GATHER, bytes, ranks_of(site));
        }
    }
    return NULL;
}

/* ---- routed products ---- */
/* True if elementwise ops make the value from results of a product of the same kind and ids: its
 * rows are where their experts are. `left` limits the walk. */
static bool is_routed_already(const sc_form_site *site, sc_value value, uint32_t *left)
{
    const sc_module *m = site->m;
    const sc_op *op = sc_op_at(m, sc_def(m, value));
    if (*left == 0)
        return false;
    --*left;
    if (op->kind == site->op->kind)
        return op->operands[IDS] == site->op->operands[IDS];
    if (!sc_op_has(op, SC_ELEMENTWISE))
        return false;
    bool found = false;
    for (uint32_t o = 0; o < op->operand_count && !found; o++)
        found = is_routed_already(site, op->operands[o], left);
    return found;
}

/* How many experts a row meets: the dims of the ids that rows lack. */
static uint64_t chosen(const sc_form_site *site)
{
    const sc_type_info *ids = &site->operands[IDS], *rows = &site->operands[ROWS];
    uint64_t product = 1;
    for (uint32_t i = 0; i < ids->rank; i++) {
        if (sc_type_find_dim(rows, ids->dims[i].dim) < 0)
            product *= (uint64_t)ids->dims[i].size;
    }
    return product;
}

/* The price of a product is that of all with its rows: these move before the first one, and results
 * of as many bytes after the last. A later product reads rows that are there. False if nothing
 * moves. */
static bool rows_move(const sc_form_site *site)
{
    uint32_t left = MAX_WALK;
    return !is_routed_already(site, site->op->operands[ROWS], &left);
}

/* All rows come to all ranks, with their ids; results are reduced and scattered. Rows that the axis
 * does not split are there; their results are reduced. */
const char *sent_rows_gather(const sc_form_site *site, const sc_form_dims *dims, sc_form_sent *out)
{
    const uint32_t ranks = ranks_of(site);
    const sc_type_info *rows = &site->operands[ROWS], *ids = &site->operands[IDS];
    const double bytes = bytes_of(site, rows);
    (void)dims;
    *out = (sc_form_sent){0};
    if (!rows_move(site))
        return NULL;
    if (split_dim(site, rows) == SC_NONE) {
        out->forward = sc_collective_sent(SC_IMAGE_ALL_REDUCE, bytes, ranks);
        out->backward = out->forward;
        return NULL;
    }
    const double each_way = sc_collective_sent(SC_IMAGE_ALL_GATHER, ranks * bytes, ranks);
    out->forward =
        2 * each_way + sc_collective_sent(SC_IMAGE_ALL_GATHER, ranks * bytes_of(site, ids), ranks);
    out->backward = 2 * each_way;
    return NULL;
}

/* A row goes once to each rank that has one of its experts, with its ids, and comes back once from
 * it; so do cotangents. Under even routing: the share of rows that meet a rank times the ranks. */
const char *sent_rows_dispatch(const sc_form_site *site, const sc_form_dims *dims,
                               sc_form_sent *out)
{
    const sc_module *m = site->m;
    const sc_axis *axis = &m->mesh.axes[site->axis];
    const sc_type_info *rows = &site->operands[ROWS], *weights = &site->operands[WEIGHTS];
    *out = (sc_form_sent){0};
    if (!rows_move(site))
        return NULL;
    if (split_dim(site, rows) == SC_NONE)
        return sc_arena_printf(&m->context->arena, "every rank of %s has all of its rows",
                               sc_text(m->context, axis->name));
    if (chosen(site) > SC_MOST_CHOICES)
        return sc_arena_printf(&m->context->arena, "a row has more than %d choices",
                               SC_MOST_CHOICES);
    const uint64_t experts = (uint64_t)weights->dims[sc_type_find_dim(weights, dims->list[0])].size;
    const double part = sc_part_share((int64_t)experts, (int64_t)(experts / axis->size),
                                      (int64_t)chosen(site)),
                 met = part * (double)axis->size;
    const double each_way =
        sc_collective_sent(SC_IMAGE_ALL_TO_ALL, met * bytes_of(site, rows), axis->size);
    out->forward =
        2 * each_way + sc_collective_sent(SC_IMAGE_ALL_TO_ALL,
                                          met * bytes_of(site, &site->operands[IDS]), axis->size);
    out->backward = 2 * each_way;
    out->spare = (out->forward + out->backward) * (fmin(SC_DEFAULT_CAPACITY * part, 1) / part - 1);
    return NULL;
}
