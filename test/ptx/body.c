/* A function's body: scopes, declarations, labels, and statements, which decode.c takes. */
#include <stdlib.h>

#include "test/ptx/lex.h"

/* ---- declarations ---- */

/* `%r<147>`, or `%temp`. */
static bool parse_registers(sc_ptx_parser *p)
{
    sc_ptx_type type = p->word[0] == '.' ? sc_ptx_type_named(p->word + 1) : SC_PTX_NO_TYPE;
    if (type == SC_PTX_NO_TYPE)
        return sc_ptx_wrong(p, "`%s` is no type of registers", p->word);
    uint8_t bytes = sc_ptx_types[type].bytes;
    if (bytes == 1)
        bytes = 2;
    sc_ptx_next(p);
    do {
        sc_ptx_symbol s = {.kind = SC_PTX_A_REGISTER, .bytes = bytes};
        uint64_t count = 0;
        if (!sc_ptx_is_name(p))
            return sc_ptx_wrong(p, "`%s` is no name of registers", p->word);
        s.name = sc_ptx_take_text(p);
        if (sc_ptx_take(p, "<") && (!sc_ptx_want_number(p, &count) || !sc_ptx_want(p, ">")))
            return false;
        if (count > 1 << 16)
            return sc_ptx_wrong(p, "there are too many registers");
        s.count = (uint32_t)count;
        s.reg = p->reg_count;
        s.at = p->file_bytes;
        count = count == 0 ? 1 : count;
        p->reg_count += (uint32_t)count;
        p->file_bytes +=
            (uint32_t)count * (bytes == 0 ? (uint32_t)sizeof(uint32_t) : bytes * SC_PTX_LANES);
        p->file_bytes = (p->file_bytes + 63) / 64 * 64;
        *sc_vec_push(&p->module->arena, &p->symbols) = s;
    } while (sc_ptx_take(p, ","));
    return sc_ptx_want(p, ";");
}

static bool parse_variable(sc_ptx_parser *p)
{
    sc_ptx_declared one;
    bool is_shared = sc_ptx_is(p, ".shared");
    sc_ptx_next(p);
    if (!sc_ptx_parse_declared(p, &one) || !sc_ptx_want(p, ";"))
        return false;
    if (one.is_open)
        return sc_ptx_wrong(p, "%s has no size", one.name);
    if (!is_shared) {
        sc_ptx_add_variable(p, one.name, SC_PTX_LOCAL, sc_ptx_frame_place(p, &one), one.bytes);
        return true;
    }
    uint32_t at = (uint32_t)sc_ptx_aligned(p->module->shared_bytes, one.align);
    p->module->shared_bytes = at + (uint32_t)one.bytes;
    sc_ptx_add_variable(p, one.name, SC_PTX_SHARED, SC_PTX_SHARED_STATIC + at, one.bytes);
    return true;
}

static bool parse_directive(sc_ptx_parser *p)
{
    if (sc_ptx_take(p, ".reg"))
        return parse_registers(p);
    if (sc_ptx_is(p, ".shared") || sc_ptx_is(p, ".local") || sc_ptx_is(p, ".param"))
        return parse_variable(p);
    if (sc_ptx_take(p, ".pragma")) {
        sc_ptx_next(p);
        return sc_ptx_want(p, ";");
    }
    return sc_ptx_wrong(p, "`%s` is not known in a function", p->word);
}

/* ---- names ---- */

static bool is_of_family(const sc_ptx_symbol *s, const char *name, uint32_t *number)
{
    size_t length = strlen(s->name);
    if (s->count == 0 || strncmp(s->name, name, length) != 0 || name[length] < '0' ||
        name[length] > '9')
        return false;
    char *end;
    unsigned long value = strtoul(name + length, &end, 10);
    *number = (uint32_t)value;
    return *end == 0 && value < s->count;
}

static const sc_ptx_symbol *find(const sc_ptx_parser *p, const char *name, uint32_t *number)
{
    *number = 0;
    for (uint32_t i = p->symbols.count; i > 0; i--) {
        const sc_ptx_symbol *s = &p->symbols.data[i - 1];
        if ((s->count == 0 && strcmp(s->name, name) == 0) || is_of_family(s, name, number))
            return s;
    }
    return NULL;
}

bool sc_ptx_find_register(sc_ptx_parser *p, const char *name, sc_ptx_operand *out, bool *found)
{
    static const char *const specials[SC_PTX_SPECIALS] = {"%tid.x", "%ntid.x", "%ctaid.x",
                                                          "%nctaid.x", "%laneid"};
    uint32_t number;
    *found = true;
    for (uint32_t i = 0; i < SC_PTX_SPECIALS; i++) {
        if (strcmp(name, specials[i]) == 0) {
            *out = (sc_ptx_operand){i * SC_PTX_LANES * (uint32_t)sizeof(uint32_t), i, 4};
            return true;
        }
    }
    const sc_ptx_symbol *s = find(p, name, &number);
    *found = s != NULL && s->kind == SC_PTX_A_REGISTER;
    if (*found) {
        uint32_t size = s->bytes == 0 ? (uint32_t)sizeof(uint32_t) : s->bytes * SC_PTX_LANES;
        *out = (sc_ptx_operand){s->at + number * size, s->reg + number, s->bytes};
    } else if (s == NULL && name[0] == '%')
        return sc_ptx_wrong(p, "the register %s is not declared, or not known", name);
    return true;
}

bool sc_ptx_find_variable(sc_ptx_parser *p, const char *name, sc_ptx_space *space, uint64_t *at,
                          uint32_t *bytes)
{
    uint32_t number;
    const sc_ptx_symbol *s = find(p, name, &number);
    if (s == NULL || s->kind != SC_PTX_A_VARIABLE)
        return sc_ptx_wrong(p, "%s is no variable", name);
    *space = s->space;
    *at = s->address;
    *bytes = s->size;
    return true;
}

void sc_ptx_want_label(sc_ptx_parser *p, const char *name)
{
    *sc_vec_push(&p->module->arena, &p->wanted) =
        (sc_ptx_label){name, p->module->code.count, p->line, p->scope};
}

static const sc_ptx_label *label_in(const sc_ptx_parser *p, const char *name, uint32_t scope)
{
    for (uint32_t k = 0; k < p->labels.count; k++) {
        const sc_ptx_label *label = &p->labels.data[k];
        if (label->scope == scope && strcmp(label->name, name) == 0)
            return label;
    }
    return NULL;
}

/* Number 0 is the function's own scope, which is around itself. */
static bool place_labels(sc_ptx_parser *p)
{
    for (uint32_t i = 0; i < p->wanted.count; i++) {
        const sc_ptx_label *w = &p->wanted.data[i], *label = label_in(p, w->name, w->scope);
        for (uint32_t scope = w->scope; label == NULL && scope != 0;) {
            scope = p->scopes.data[scope];
            label = label_in(p, w->name, scope);
        }
        if (label == NULL) {
            p->line = w->line;
            return sc_ptx_wrong(p, "there is no label %s", w->name);
        }
        p->module->code.data[w->inst].target = label->inst;
    }
    return true;
}

/* ---- statements ---- */

/* A number with its sign, or a word. `_`: a result that nobody wants. */
static bool parse_part(sc_ptx_parser *p, const char **out, bool *is_number)
{
    bool is_negative = sc_ptx_take(p, "-");
    *is_number = sc_ptx_is_number(p);
    if (!*is_number && (is_negative || !sc_ptx_is_name(p)))
        return sc_ptx_wrong(p, "`%s` is no operand", p->word);
    const char *text = sc_ptx_take_text(p);
    *out = is_negative ? sc_arena_printf(&p->module->arena, "-%s", text) : text;
    return true;
}

static bool parse_list(sc_ptx_parser *p, const char *end, sc_ptx_raw *out)
{
    bool is_number;
    const char *parts[SC_PTX_MAX_PARTS];
    while (!sc_ptx_take(p, end)) {
        if (out->part_count == SC_PTX_MAX_PARTS)
            return sc_ptx_wrong(p, "a list is too long");
        if (!parse_part(p, &parts[out->part_count++], &is_number))
            return false;
        if (!sc_ptx_take(p, ",") && !sc_ptx_is(p, end))
            return sc_ptx_wrong(p, "`%s` stands in a list", p->word);
    }
    out->parts = sc_arena_array(&p->module->arena, out->part_count + 1u, sizeof *out->parts);
    memcpy(out->parts, parts, out->part_count * sizeof *parts);
    return true;
}

static bool parse_address(sc_ptx_parser *p, sc_ptx_raw *out)
{
    bool is_number;
    out->kind = SC_PTX_RAW_ADDRESS;
    if (!parse_part(p, &out->text, &is_number))
        return false;
    if (sc_ptx_take(p, "+") || sc_ptx_is(p, "-")) {
        const char *text = "";
        if (!parse_part(p, &text, &is_number))
            return false;
        char *end;
        out->offset = strtoll(text, &end, 0);
        if (!is_number || *end != 0)
            return sc_ptx_wrong(p, "`%s` is no offset", text);
    }
    if (sc_ptx_take(p, ",") && (!sc_ptx_want(p, "{") || !parse_list(p, "}", out)))
        return false;
    return sc_ptx_want(p, "]");
}

static bool parse_operand(sc_ptx_parser *p, sc_ptx_raw *out)
{
    bool is_number;
    *out = (sc_ptx_raw){0};
    if (sc_ptx_take(p, "[")) {
        return parse_address(p, out);
    } else if (sc_ptx_take(p, "{")) {
        out->kind = SC_PTX_RAW_VECTOR;
        return parse_list(p, "}", out);
    } else if (sc_ptx_take(p, "(")) {
        out->kind = SC_PTX_RAW_LIST;
        return parse_list(p, ")", out);
    }
    out->is_not = sc_ptx_take(p, "!");
    if (!parse_part(p, &out->text, &is_number))
        return false;
    out->kind = is_number ? SC_PTX_RAW_NUMBER : SC_PTX_RAW_WORD;
    if (sc_ptx_take(p, "|") && !parse_part(p, &out->second, &is_number))
        return false;
    return true;
}

static bool parse_guard(sc_ptx_parser *p, sc_ptx_inst *inst)
{
    sc_ptx_operand reg;
    bool found;
    inst->guard_not = sc_ptx_take(p, "!");
    if (!sc_ptx_find_register(p, p->word, &reg, &found))
        return false;
    if (!found || reg.bytes != 0)
        return sc_ptx_wrong(p, "`%s` is no predicate", p->word);
    inst->guard = reg.reg;
    inst->at = reg.at;
    sc_ptx_next(p);
    return true;
}

static bool parse_statement(sc_ptx_parser *p)
{
    sc_ptx_statement s = {.inst = {.guard = SC_PTX_CONSTANT, .line = p->line}};
    if (sc_ptx_take(p, "@") && !parse_guard(p, &s.inst))
        return false;
    if (!sc_ptx_is_name(p) || strlen(p->word) >= sizeof s.opcode)
        return sc_ptx_wrong(p, "`%s` stands where a statement must", p->word);
    const char *word = sc_ptx_take_text(p);
    if (s.inst.guard == SC_PTX_CONSTANT && sc_ptx_take(p, ":")) {
        *sc_vec_push(&p->module->arena, &p->labels) =
            (sc_ptx_label){word, p->module->code.count, p->line, p->scope};
        return true;
    }
    memcpy(s.opcode, word, strlen(word) + 1);
    while (!sc_ptx_is(p, ";")) {
        if (s.count == sizeof s.operands / sizeof *s.operands)
            return sc_ptx_wrong(p, "there are too many operands");
        if (!parse_operand(p, &s.operands[s.count++]))
            return false;
        if (!sc_ptx_take(p, ",") && !sc_ptx_is(p, ";"))
            return sc_ptx_wrong(p, "`%s` stands behind an operand", p->word);
    }
    uint32_t line = p->line;
    p->line = s.inst.line;
    if (!sc_ptx_decode(p, &s))
        return false;
    p->line = line;
    return sc_ptx_want(p, ";");
}

/* ---- bodies ---- */

/* Its last instruction goes nowhere else. */
static bool check_end(sc_ptx_parser *p, const sc_ptx_function *f)
{
    if (f->first == f->end)
        return sc_ptx_wrong(p, "%s does nothing, not even return", f->name);
    const sc_ptx_inst *last = &p->module->code.data[f->end - 1];
    bool leaves =
        last->kind == SC_PTX_RETURN || last->kind == SC_PTX_EXIT || last->kind == SC_PTX_BRANCH;
    if (!leaves || last->guard != SC_PTX_CONSTANT)
        return sc_ptx_wrong(p, "%s has an end that is no return", f->name);
    return true;
}

bool sc_ptx_parse_body(sc_ptx_parser *p, sc_ptx_function *f)
{
    uint32_t outer = p->symbols.count, scopes[16], depth = 0;
    for (uint32_t i = 0; i < f->params.count + f->results.count; i++) {
        const sc_ptx_param *param =
            i < f->params.count ? &f->params.data[i] : &f->results.data[i - f->params.count];
        sc_ptx_add_variable(p, param->name, f->is_entry ? SC_PTX_KERNEL_PARAM : SC_PTX_LOCAL,
                            param->at, param->bytes);
    }
    p->labels.count = p->wanted.count = p->scopes.count = p->scope = 0;
    *sc_vec_push(&p->module->arena, &p->scopes) = 0;
    p->next = f->body;
    p->line = f->body_line;
    f->first = p->module->code.count;
    sc_ptx_next(p);
    for (;;) {
        if (sc_ptx_take(p, "{")) {
            if (depth == sizeof scopes / sizeof *scopes)
                return sc_ptx_wrong(p, "scopes lie too deep");
            scopes[depth++] = p->symbols.count;
            *sc_vec_push(&p->module->arena, &p->scopes) = p->scope;
            p->scope = p->scopes.count - 1;
        } else if (sc_ptx_is(p, "}")) {
            if (depth == 0)
                break;
            p->symbols.count = scopes[--depth];
            p->scope = p->scopes.data[p->scope];
            sc_ptx_next(p);
        } else if (p->word[0] == '.' ? !parse_directive(p) : !parse_statement(p))
            return false;
    }
    f->end = p->module->code.count;
    p->symbols.count = outer;
    return check_end(p, f) && place_labels(p);
}
