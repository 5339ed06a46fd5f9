#include "tools/explain/forms.h"

#include "support/units.h"

/* ---- which ---- */
/* True if the op splits a dim of the form over the sub-axis. */
static bool op_splits(const sc_module *m, const sc_op *op, sc_form_id form, const bool *of_inputs,
                      uint32_t sub_axis)
{
    const sc_attr *split = sc_op_attr(op, SC_ATTR_split);
    bool found = false;
    if (split == NULL)
        return false;
    for (uint32_t i = 0; i < split->count; i++) {
        const sc_sub_axis_list *list = &split->splits[i].sub_axes;
        for (uint32_t a = 0; a < list->count; a++)
            found = found || (list->sub_axes[a] == sub_axis &&
                              sc_form_splits(m, op, form, of_inputs, split->splits[i].dim));
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

/* The form of the op over the axis of this sub-axis. One without a mark gives way to one that is
 * marked. */
static sc_form_id form_of(const sc_module *m, const sc_op *op, const bool *of_inputs,
                          uint32_t sub_axis)
{
    const uint32_t forms = sc_forms_of((sc_op_kind)op->kind);
    sc_form_id form = SC_FORM_COUNT;
    for (uint32_t f = 0; f < SC_FORM_COUNT; f++) {
        if ((forms >> f & 1) == 0 || sc_forms[f].dims == NULL ||
            !op_splits(m, op, (sc_form_id)f, of_inputs, sub_axis))
            continue;
        bool marked = is_marked(op, &sc_forms[f], sub_axis);
        if (marked || (form == SC_FORM_COUNT && sc_forms[f].mark < 0))
            form = (sc_form_id)f;
    }
    return form;
}

static void add_axis(const sc_form_site *site, const sc_placing *placing, sc_op_id id,
                     const bool *of_inputs, sc_form_choices *out)
{
    const sc_module *m = site->m;
    const uint32_t first = m->mesh.axes[site->axis].first_sub_axis;
    sc_form_choice *choice = sc_vec_push(&m->context->arena, out);
    *choice = (sc_form_choice){.axis = site->axis, .rule = SC_NONE};
    choice->form = form_of(m, site->op, of_inputs, first);
    if (placing != NULL && id < placing->op_count) {
        uint32_t rule = placing->lock_rules[(size_t)id * placing->sub_axis_count + first];
        if (rule != SC_NONE && placing->is_form[rule] && rule < placing->line_count)
            choice->rule = rule;
    }
    sc_form_price(site, of_inputs, &choice->prices);
}

void sc_find_forms(const sc_module *m, const sc_placing *placing, sc_op_id op,
                   const bool *of_inputs, sc_form_choices *out)
{
    const sc_op *o = sc_op_at(m, op);
    const sc_form_id form = sc_first_form((sc_op_kind)o->kind);
    if (form == SC_FORM_COUNT || sc_op_word(o, SC_ATTR_phase) != 0)
        return;
    sc_type_info *types = sc_arena_array(&m->context->arena, o->operand_count, sizeof *types);
    for (uint32_t i = 0; i < o->operand_count; i++)
        types[i] = *sc_type_of(m, o->operands[i]);
    for (uint32_t x = 0; x < m->mesh.axis_count; x++) {
        const sc_form_site site = {m, o, x, types, sc_type_of(m, o->first_result)};
        if (sc_form_is_over(&site, x, of_inputs))
            add_axis(&site, placing, op, of_inputs, out);
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
static bool has_spare(const sc_form_choice *choice)
{
    bool any = false;
    for (uint32_t f = 0; f < SC_FORM_COUNT; f++)
        any = any || ((choice->prices.possible >> f & 1) != 0 && choice->prices.sent[f].spare > 0);
    return any;
}

/* Why the op has the form, where no line asks for it. */
static const char *why_chosen(const sc_form_choice *choice, bool trains)
{
    if (choice->form == SC_FORM_COUNT)
        return "it sends less to gather what the axis splits";
    if (sc_form_cheapest(&choice->prices, trains, true) == choice->form)
        return has_spare(choice) ? "no line asks for one, and no other sends less, spare room "
                                   "counted"
                                 : "no line asks for one, and no other sends less";
    if (sc_form_cheapest(&choice->prices, trains, false) == choice->form)
        return "no line asks for one, and of those that need no line none sends less";
    return "no line asks for one, and its dims are split too far for others";
}

/* Why the op has not this form; NULL: it may have had it. Where a line asks for a form, what needs
 * one is no reason. */
static const char *why_not(const sc_form_choice *choice, uint32_t form)
{
    const bool by_line = choice->rule != SC_NONE && (choice->prices.possible >> form & 1) != 0;
    return by_line || form == choice->form ? NULL : choice->prices.barred[form];
}

static const char *name_of(const sc_form_choice *choice)
{
    return choice->form == SC_FORM_COUNT ? "none" : sc_forms[choice->form].name;
}

static void print_sent(sc_arena *arena, const sc_form_choice *choice, uint32_t form, bool trains,
                       sc_strbuf *out)
{
    const sc_form_sent *sent = &choice->prices.sent[form];
    sc_strbuf_printf(out, "%s %s", sc_forms[form].name, sc_bytes_text(arena, sent->forward));
    if (trains)
        sc_strbuf_printf(out, " + %s", sc_bytes_text(arena, sent->backward));
    double all = sent->forward + sent->backward, shown = trains ? all : sent->forward;
    if (sent->spare > 0 && all > 0)
        sc_strbuf_printf(out, " and room for %s more",
                         sc_bytes_text(arena, sent->spare * shown / all));
}

static void print_prices(sc_arena *arena, const sc_form_choice *choice, bool trains, sc_strbuf *out)
{
    const char *between = "";
    sc_strbuf_printf(out, "\n      a rank sends, forward%s: ", trains ? " + backward" : "");
    for (uint32_t f = 0; f < SC_FORM_COUNT; f++) {
        if ((choice->prices.possible >> f & 1) == 0)
            continue;
        sc_strbuf_add(out, between);
        print_sent(arena, choice, f, trains, out);
        between = ", ";
    }
    sc_strbuf_add_char(out, '\n');
}

void sc_print_forms(const sc_module *m, const sc_form_choices *forms, bool trains, sc_strbuf *out)
{
    sc_arena *arena = &m->context->arena;
    for (uint32_t i = 0; i < forms->count; i++) {
        const sc_form_choice *choice = &forms->data[i];
        const sc_rule_ref *rule = choice->rule == SC_NONE ? NULL : &m->rules.data[choice->rule];
        const char *axis = sc_text(m->context, m->mesh.axes[choice->axis].name);
        sc_strbuf_printf(out, "    form over %s: %s", axis, name_of(choice));
        if (rule == NULL)
            sc_strbuf_printf(out, " (%s)", why_chosen(choice, trains));
        else
            sc_strbuf_printf(out, " (line %u: %s)", rule->line, sc_text(m->context, rule->text));
        print_prices(arena, choice, trains, out);
        for (uint32_t f = 0; f < SC_FORM_COUNT; f++) {
            const char *barred = why_not(choice, f);
            if (barred != NULL)
                sc_strbuf_printf(out, "      not %s: %s\n", sc_forms[f].name, barred);
        }
    }
}

/* ---- JSON ---- */
static json_t *sent_json(const sc_form_choice *choice, bool trains)
{
    json_t *sent = json_object();
    for (uint32_t f = 0; f < SC_FORM_COUNT; f++) {
        const sc_form_sent *one = &choice->prices.sent[f];
        if ((choice->prices.possible >> f & 1) != 0)
            json_object_set_new(sent, sc_forms[f].name,
                                json_pack("{s:I,s:I}", "forward", (json_int_t)(one->forward + 0.5),
                                          "backward",
                                          (json_int_t)(trains ? one->backward + 0.5 : 0)));
    }
    return sent;
}

static json_t *barred_json(const sc_form_choice *choice)
{
    json_t *barred = json_object();
    for (uint32_t f = 0; f < SC_FORM_COUNT; f++) {
        const char *why = why_not(choice, f);
        if (why != NULL)
            json_object_set_new(barred, sc_forms[f].name, json_string(why));
    }
    return barred;
}

json_t *sc_forms_json(const sc_module *m, const sc_form_choices *forms, bool trains)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < forms->count; i++) {
        const sc_form_choice *choice = &forms->data[i];
        const sc_rule_ref *rule = choice->rule == SC_NONE ? NULL : &m->rules.data[choice->rule];
        const char *why =
            rule == NULL ? why_chosen(choice, trains) : sc_text(m->context, rule->text);
        json_t *line = rule == NULL ? json_null() : json_integer((json_int_t)rule->line);
        json_array_append_new(list, json_pack("{s:s,s:s,s:o,s:o,s:s,s:o}", "axis",
                                              sc_text(m->context, m->mesh.axes[choice->axis].name),
                                              "form", name_of(choice), "line", line, "sent",
                                              sent_json(choice, trains), "why", why, "barred",
                                              barred_json(choice)));
    }
    return list;
}
