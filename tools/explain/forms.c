#include "tools/explain/forms.h"

#include "support/units.h"

/* ---- which ---- */
static bool has_dim(const sc_form_dims *dims, sc_dim dim)
{
    for (uint32_t d = 0; d < dims->count; d++) {
        if (dims->list[d] == dim)
            return true;
    }
    return false;
}

/* True if the op splits one of the dims over the sub-axis. */
static bool op_splits(const sc_op *op, const sc_form_dims *dims, uint32_t sub_axis)
{
    const sc_attr *split = sc_op_attr(op, SC_ATTR_split);
    bool found = false;
    if (split == NULL)
        return false;
    for (uint32_t i = 0; i < split->count; i++) {
        const sc_sub_axis_list *list = &split->splits[i].sub_axes;
        for (uint32_t a = 0; a < list->count; a++)
            found = found || (list->sub_axes[a] == sub_axis && has_dim(dims, split->splits[i].dim));
    }
    return found;
}

/* True if the form's mark, where it has one, names the sub-axis. */
static bool is_marked(const sc_op *op, const sc_form *form, uint32_t sub_axis)
{
    const sc_attr *mark = form->mark < 0 ? NULL : sc_op_attr(op, (sc_attr_key)form->mark);
    bool found = false;
    if (mark == NULL)
        return false;
    for (uint32_t a = 0; a < mark->count; a++)
        found = found || mark->sub_axes[a] == sub_axis;
    return found;
}

static void add_axis(const sc_module *m, const sc_placing *placing, sc_op_id id, uint32_t axis,
                     const bool *of_inputs, sc_form_choices *out)
{
    const sc_op *op = sc_op_at(m, id);
    uint32_t first = m->mesh.axes[axis].first_sub_axis;
    sc_form_choice choice = {.axis = axis, .form = SC_FORM_COUNT, .rule = SC_NONE};
    if (placing != NULL && id < placing->op_count) {
        uint32_t rule = placing->lock_rules[(size_t)id * placing->sub_axis_count + first];
        choice.rule = rule != SC_NONE && placing->is_form[rule] ? rule : SC_NONE;
    }
    uint32_t forms = sc_forms_of((sc_op_kind)op->kind);
    for (uint32_t f = 0; f < SC_FORM_COUNT; f++) {
        sc_form_dims dims;
        if ((forms >> f & 1) == 0 || sc_forms[f].dims == NULL)
            continue;
        sc_forms[f].dims(m, op, of_inputs, &dims);
        if (sc_forms[f].sent(m, op, &dims, m->mesh.axes[axis].size, &choice.sent[f]))
            choice.possible |= 1u << f;
        /* a form without a mark gives way to one that is marked */
        bool is_split = op_splits(op, &dims, first);
        if (is_split && (choice.form == SC_FORM_COUNT || is_marked(op, &sc_forms[f], first)) &&
            (sc_forms[f].mark < 0 || is_marked(op, &sc_forms[f], first)))
            choice.form = (sc_form_id)f;
    }
    if (choice.form != SC_FORM_COUNT)
        *sc_vec_push(&m->context->arena, out) = choice;
}

void sc_find_forms(const sc_module *m, const sc_placing *placing, sc_op_id op,
                   const bool *of_inputs, sc_form_choices *out)
{
    const sc_type_info *type = sc_type_of(m, sc_result(m, op, 0));
    uint32_t form = 0, forms = sc_forms_of((sc_op_kind)sc_op_at(m, op)->kind);
    sc_form_dims dims;
    if (forms == 0)
        return;
    while ((forms >> form & 1) == 0)
        form++;
    if (sc_forms[form].dims == NULL)
        return;
    sc_forms[form].dims(m, sc_op_at(m, op), of_inputs, &dims);
    for (uint32_t x = 0; x < m->mesh.axis_count; x++) {
        const sc_axis *axis = &m->mesh.axes[x];
        if (axis->size == 1 || axis->sub_axis_count == 0)
            continue;
        uint8_t on = type->placement.on[axis->first_sub_axis];
        if (on < type->rank && has_dim(&dims, type->dims[on].dim))
            add_axis(m, placing, op, x, of_inputs, out);
    }
}

static bool is_rotation(const sc_op *op)
{
    return sc_op_has(op, SC_COLLECTIVE) && !sc_op_has(op, SC_RESHARD);
}

/* True if the op is a product of such pieces as the call rotates. */
static bool multiplies_pieces(const sc_op *op, const sc_type_info *rotated)
{
    const sc_attr *piece = sc_op_attr(op, SC_ATTR_piece);
    return piece != NULL && sc_type_find_dim(rotated, piece->dims[0]) >= 0;
}

double sc_flops_behind(const sc_module *m, sc_op_id call)
{
    double flops = 0;
    if (!is_rotation(sc_op_at(m, call)))
        return 0;
    const sc_type_info *rotated = sc_type_of(m, sc_op_at(m, call)->operands[0]);
    for (sc_op_id id = sc_op_at(m, call)->next; id != SC_NONE; id = sc_op_at(m, id)->next) {
        const sc_op *op = sc_op_at(m, id);
        if (is_rotation(op))
            break;
        if (multiplies_pieces(op, rotated))
            flops += sc_op_flops(m, op, sc_type_local_size);
    }
    return flops;
}

/* ---- as text ---- */
static void print_sent(sc_arena *arena, const sc_form_choice *choice, uint32_t form, bool trains,
                       sc_strbuf *out)
{
    const sc_form_sent *sent = &choice->sent[form];
    sc_strbuf_printf(out, "%s %s", sc_forms[form].name, sc_bytes_text(arena, sent->forward));
    if (trains)
        sc_strbuf_printf(out, " + %s", sc_bytes_text(arena, sent->backward));
}

void sc_print_forms(const sc_module *m, const sc_form_choices *forms, bool trains, sc_strbuf *out)
{
    sc_arena *arena = &m->context->arena;
    for (uint32_t i = 0; i < forms->count; i++) {
        const sc_form_choice *choice = &forms->data[i];
        const sc_rule_ref *rule = choice->rule == SC_NONE ? NULL : &m->rules.data[choice->rule];
        const char *axis = sc_text(m->context, m->mesh.axes[choice->axis].name);
        sc_strbuf_printf(out, "    form over %s: %s", axis, sc_forms[choice->form].name);
        if (rule == NULL)
            sc_strbuf_add(out, " (no line says so)");
        else
            sc_strbuf_printf(out, " (line %u: %s)", rule->line, sc_text(m->context, rule->text));
        sc_strbuf_printf(out, "\n      a rank sends, forward%s: ", trains ? " + backward" : "");
        const char *between = "";
        for (uint32_t f = 0; f < SC_FORM_COUNT; f++) {
            if ((choice->possible >> f & 1) == 0)
                continue;
            sc_strbuf_add(out, between);
            print_sent(arena, choice, f, trains, out);
            between = ", ";
        }
        sc_strbuf_add_char(out, '\n');
    }
}

/* ---- JSON ---- */
json_t *sc_forms_json(const sc_module *m, const sc_form_choices *forms, bool trains)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < forms->count; i++) {
        const sc_form_choice *choice = &forms->data[i];
        json_t *sent = json_object();
        for (uint32_t f = 0; f < SC_FORM_COUNT; f++) {
            if ((choice->possible >> f & 1) == 0)
                continue;
            json_object_set_new(
                sent, sc_forms[f].name,
                json_pack("{s:I,s:I}", "forward", (json_int_t)(choice->sent[f].forward + 0.5),
                          "backward", (json_int_t)(trains ? choice->sent[f].backward + 0.5 : 0)));
        }
        json_t *line = choice->rule == SC_NONE
                           ? json_null()
                           : json_integer((json_int_t)m->rules.data[choice->rule].line);
        json_array_append_new(list, json_pack("{s:s,s:s,s:o,s:o}", "axis",
                                              sc_text(m->context, m->mesh.axes[choice->axis].name),
                                              "form", sc_forms[choice->form].name, "line", line,
                                              "sent", sent));
    }
    return list;
}
