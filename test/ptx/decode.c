/* Statements become instructions: the opcode's parts, then operands of the types that they say. */
#include <stdlib.h>

#include "test/ptx/decode.h"

static const sc_ptx_root roots[] = {
#define ROOT(name, decoder) {#name, sc_ptx_decode_##decoder},
#include "test/ptx/roots.def"
#undef ROOT
};

/* ---- parts ---- */

/* Its length, with the dot. */
static size_t part_length(const sc_ptx_statement *s)
{
    return s->dot[0] == 0 ? 0 : 1 + strcspn(s->dot + 1, ".");
}

bool sc_ptx_part(sc_ptx_statement *s, const char *part)
{
    size_t length = part_length(s);
    if (length == 0 || length != strlen(part) || strncmp(s->dot, part, length) != 0)
        return false;
    s->dot += length;
    return true;
}

int sc_ptx_part_of(sc_ptx_statement *s, const char *const *parts)
{
    for (int i = 0; parts[i] != NULL; i++) {
        if (sc_ptx_part(s, parts[i]))
            return i;
    }
    return -1;
}

sc_ptx_type sc_ptx_part_type(sc_ptx_statement *s)
{
    size_t length = part_length(s);
    for (int t = 0; length > 1 && t < SC_PTX_TYPES; t++) {
        const char *name = sc_ptx_types[t].name;
        if (strlen(name) == length - 1 && strncmp(name, s->dot + 1, length - 1) == 0) {
            s->dot += length;
            return (sc_ptx_type)t;
        }
    }
    return SC_PTX_NO_TYPE;
}

bool sc_ptx_not_known(sc_ptx_parser *p, const sc_ptx_statement *s)
{
    return sc_ptx_wrong(p, "%s is not in the interpreter's tables (test/ptx/*.def)", s->opcode);
}

bool sc_ptx_is_whole(sc_ptx_parser *p, sc_ptx_statement *s, uint32_t operands)
{
    if (s->dot[0] != 0)
        return sc_ptx_not_known(p, s);
    if (s->count != operands)
        return sc_ptx_wrong(p, "%s has %u operands, here are %u", s->opcode, operands, s->count);
    return true;
}

/* ---- constants ---- */

sc_ptx_operand sc_ptx_constant(sc_ptx_module *m, uint64_t bits, uint8_t bytes)
{
    uint32_t size = bytes == 0 ? (uint32_t)sizeof(uint32_t) : (uint32_t)bytes * SC_PTX_LANES;
    for (uint32_t i = 0; i < m->known.count; i++) {
        const sc_ptx_known *k = &m->known.data[i];
        if (k->bits == bits && k->bytes == bytes)
            return (sc_ptx_operand){k->at, SC_PTX_CONSTANT, bytes};
    }
    if (m->constant_bytes + size > m->constant_room) {
        m->constant_room = 2 * m->constant_room + 4096;
        m->constants = realloc(m->constants, m->constant_room);
        if (m->constants == NULL)
            abort();
    }
    uint32_t at = m->constant_bytes;
    for (uint32_t i = 0; i < size; i += bytes == 0 ? size : bytes)
        memcpy(m->constants + at + i, &bits, bytes == 0 ? size : bytes);
    m->constant_bytes += (size + 63) / 64 * 64;
    *sc_vec_push(&m->arena, &m->known) = (sc_ptx_known){bits, at, bytes};
    return (sc_ptx_operand){at, SC_PTX_CONSTANT, bytes};
}

static bool is_float(sc_ptx_type type)
{
    return type == SC_PTX_f32 || type == SC_PTX_f64;
}

/* 0fHHHHHHHH and 0dHHHHHHHHHHHHHHHH are a float's bits, of either width. */
static bool float_bits(const char *text, sc_ptx_type type, uint64_t *out)
{
    bool is_negative = text[0] == '-';
    text += is_negative;
    bool is_single = text[0] == '0' && (text[1] == 'f' || text[1] == 'F'),
         is_double = text[0] == '0' && (text[1] == 'd' || text[1] == 'D');
    char *end;
    uint64_t bits = strtoull(text + 2 * (is_single || is_double), &end, 16);
    if ((!is_single && !is_double) || *end != 0)
        return false;
    double value;
    float narrow;
    uint32_t low = (uint32_t)bits;
    memcpy(&narrow, &low, sizeof narrow);
    memcpy(&value, &bits, sizeof value);
    value = is_single ? (double)narrow : value;
    narrow = is_single ? narrow : (float)value;
    value = is_negative ? -value : value;
    narrow = is_negative ? -narrow : narrow;
    *out = 0;
    if (type == SC_PTX_f64 || sc_ptx_types[type].bytes == 8)
        memcpy(out, &value, sizeof value);
    else
        memcpy(out, &narrow, sizeof narrow);
    return sc_ptx_types[type].bytes >= 4;
}

bool sc_ptx_immediate(sc_ptx_parser *p, const char *text, sc_ptx_type type, uint64_t *out)
{
    bool is_hex = strncmp(text + (text[0] == '-'), "0x", 2) == 0;
    if (!is_hex && float_bits(text, type, out))
        return true;
    char *end;
    *out = text[0] == '-' ? (uint64_t)strtoll(text, &end, 0) : strtoull(text, &end, 0);
    if ((*end != 0 && strcmp(end, "U") != 0) || is_float(type))
        return sc_ptx_wrong(p, "`%s` is no %s", text, sc_ptx_types[type].name);
    if (type == SC_PTX_pred)
        *out = *out != 0 ? SC_PTX_ALL : 0;
    uint8_t bytes = sc_ptx_types[type].bytes;
    if (bytes > 0 && bytes < 8)
        *out &= ((uint64_t)1 << (8 * bytes)) - 1;
    return true;
}

bool sc_ptx_number(sc_ptx_parser *p, const sc_ptx_raw *raw, int64_t *out)
{
    uint64_t bits;
    if (raw->kind != SC_PTX_RAW_NUMBER)
        return sc_ptx_wrong(p, "an operand must be a number");
    if (!sc_ptx_immediate(p, raw->text, SC_PTX_s64, &bits))
        return false;
    *out = (int64_t)bits;
    return true;
}

/* ---- operands ---- */

static bool fits(const sc_ptx_operand *o, sc_ptx_type type, sc_ptx_width width)
{
    uint8_t bytes = sc_ptx_types[type].bytes;
    return o->bytes == bytes ||
           (width == SC_PTX_OR_WIDER && o->bytes > bytes && type != SC_PTX_pred);
}

bool sc_ptx_add_out(sc_ptx_parser *p, sc_ptx_statement *s, const char *name, sc_ptx_type type,
                    sc_ptx_width width)
{
    sc_ptx_operand *o = &s->out[s->inst.out_count];
    bool found;
    if (s->inst.out_count == SC_PTX_MAX_OPERANDS)
        return sc_ptx_wrong(p, "there are too many operands");
    if (!sc_ptx_find_register(p, name, o, &found))
        return false;
    if (!found || o->reg < SC_PTX_SPECIALS)
        return sc_ptx_wrong(p, "%s cannot be written to", name);
    if (!fits(o, type, width))
        return sc_ptx_wrong(p, "the register %s is not as wide as a %s", name,
                            sc_ptx_types[type].name);
    s->inst.out_count++;
    return true;
}

bool sc_ptx_add_in(sc_ptx_parser *p, sc_ptx_statement *s, const char *text, sc_ptx_type type,
                   sc_ptx_width width)
{
    sc_ptx_operand *o = &s->in[s->inst.in_count];
    bool found = false;
    uint64_t bits;
    if (s->inst.in_count == SC_PTX_MAX_OPERANDS)
        return sc_ptx_wrong(p, "there are too many operands");
    if ((text[0] >= '0' && text[0] <= '9') || text[0] == '-') {
        if (!sc_ptx_immediate(p, text, type, &bits))
            return false;
        *o = sc_ptx_constant(sc_ptx_parser_module(p), bits, sc_ptx_types[type].bytes);
    } else if (!sc_ptx_find_register(p, text, o, &found)) {
        return false;
    } else if (!found) {
        sc_ptx_space space;
        uint32_t size;
        if (!sc_ptx_find_variable(p, text, &space, &bits, &size))
            return false;
        *o = sc_ptx_constant(sc_ptx_parser_module(p), bits, sc_ptx_types[type].bytes);
    } else if (!fits(o, type, width)) {
        return sc_ptx_wrong(p, "the register %s is not as wide as a %s", text,
                            sc_ptx_types[type].name);
    }
    s->inst.in_count++;
    return true;
}

bool sc_ptx_add_in_raw(sc_ptx_parser *p, sc_ptx_statement *s, const sc_ptx_raw *raw,
                       sc_ptx_type type, sc_ptx_width width)
{
    if ((raw->kind != SC_PTX_RAW_WORD && raw->kind != SC_PTX_RAW_NUMBER) || raw->second != NULL)
        return sc_ptx_wrong(p, "an operand of %s must be a register or a number", s->opcode);
    return sc_ptx_add_in(p, s, raw->text, type, width);
}

bool sc_ptx_add_out_raw(sc_ptx_parser *p, sc_ptx_statement *s, const sc_ptx_raw *raw,
                        sc_ptx_type type, sc_ptx_width width)
{
    if (raw->kind != SC_PTX_RAW_WORD)
        return sc_ptx_wrong(p, "what %s writes to must be a register", s->opcode);
    return sc_ptx_add_out(p, s, raw->text, type, width);
}

bool sc_ptx_add_vector(sc_ptx_parser *p, sc_ptx_statement *s, const sc_ptx_raw *raw, uint32_t count,
                       sc_ptx_type type, bool is_out)
{
    if (raw->kind != SC_PTX_RAW_VECTOR || raw->part_count != count)
        return sc_ptx_wrong(p, "an operand of %s must be a vector of %u", s->opcode, count);
    for (uint32_t i = 0; i < count; i++) {
        bool fine = is_out ? sc_ptx_add_out(p, s, raw->parts[i], type, SC_PTX_OR_WIDER)
                           : sc_ptx_add_in(p, s, raw->parts[i], type, SC_PTX_OR_WIDER);
        if (!fine)
            return false;
    }
    return true;
}

bool sc_ptx_add_address(sc_ptx_parser *p, sc_ptx_statement *s, const sc_ptx_raw *raw,
                        sc_ptx_space space)
{
    sc_ptx_operand *o = &s->in[s->inst.in_count];
    bool found;
    if (raw->kind != SC_PTX_RAW_ADDRESS)
        return sc_ptx_wrong(p, "an operand of %s must be an address", s->opcode);
    if (raw->text[0] >= '0' && raw->text[0] <= '9') {
        s->inst.space = (uint8_t)space;
        s->inst.offset = raw->offset;
        return sc_ptx_add_in(p, s, raw->text, SC_PTX_u64, SC_PTX_EXACT);
    }
    if (!sc_ptx_find_register(p, raw->text, o, &found))
        return false;
    if (!found) {
        sc_ptx_space its;
        uint32_t size;
        uint64_t at;
        if (!sc_ptx_find_variable(p, raw->text, &its, &at, &size))
            return false;
        bool is_param = space == SC_PTX_KERNEL_PARAM && its == SC_PTX_LOCAL;
        if (its != space && !is_param)
            return sc_ptx_wrong(p, "%s is in another state space", raw->text);
        space = its;
        *o = sc_ptx_constant(sc_ptx_parser_module(p), at, 8);
    }
    bool is_short = space == SC_PTX_SHARED || space == SC_PTX_LOCAL;
    if (o->bytes != 8 && !(is_short && o->bytes == 4))
        return sc_ptx_wrong(p, "%s is no address: a register of 64 bits", raw->text);
    s->inst.space = (uint8_t)space;
    s->inst.offset = raw->offset;
    s->inst.in_count++;
    return true;
}

/* ---- forms ---- */

static const sc_ptx_form *form_named(const char *name)
{
    for (uint32_t i = 0; i < sc_ptx_integer_form_count; i++) {
        if (strcmp(sc_ptx_integer_forms[i].name, name) == 0)
            return &sc_ptx_integer_forms[i];
    }
    for (uint32_t i = 0; i < sc_ptx_float_form_count; i++) {
        if (strcmp(sc_ptx_float_forms[i].name, name) == 0)
            return &sc_ptx_float_forms[i];
    }
    return NULL;
}

bool sc_ptx_decode_form(sc_ptx_parser *p, sc_ptx_statement *s)
{
    const sc_ptx_form *form = form_named(s->opcode);
    uint32_t count = 0;
    if (form == NULL)
        return sc_ptx_not_known(p, s);
    while (count < 4 && form->in[count] != SC_PTX_NO_TYPE)
        count++;
    s->dot = "";
    if (!sc_ptx_is_whole(p, s, 1 + count) ||
        !sc_ptx_add_out_raw(p, s, &s->operands[0], (sc_ptx_type)form->out, SC_PTX_EXACT))
        return false;
    for (uint32_t k = 0; k < count; k++) {
        if (s->operands[1 + k].is_not)
            return sc_ptx_wrong(p, "%s takes no !", s->opcode);
        if (!sc_ptx_add_in_raw(p, s, &s->operands[1 + k], (sc_ptx_type)form->in[k], SC_PTX_EXACT))
            return false;
    }
    s->inst.run = form->run;
    return true;
}

bool sc_ptx_decode_move(sc_ptx_parser *p, sc_ptx_statement *s)
{
    if (s->count != 2)
        return sc_ptx_is_whole(p, s, 2);
    const sc_ptx_raw *to = &s->operands[0], *from = &s->operands[1];
    bool packs = from->kind == SC_PTX_RAW_VECTOR;
    if (!packs && to->kind != SC_PTX_RAW_VECTOR)
        return sc_ptx_decode_form(p, s);
    sc_ptx_type type = sc_ptx_part_type(s);
    uint32_t count = packs ? from->part_count : to->part_count;
    if (!sc_ptx_is_whole(p, s, 2))
        return false;
    uint8_t bytes =
        type == SC_PTX_NO_TYPE || count == 0 ? 0 : (uint8_t)(sc_ptx_types[type].bytes / count);
    sc_ptx_type part = bytes == 4 ? SC_PTX_b32 : bytes == 2 ? SC_PTX_b16 : SC_PTX_NO_TYPE;
    if (part == SC_PTX_NO_TYPE)
        return sc_ptx_not_known(p, s);
    s->inst.run = packs ? sc_ptx_pack : sc_ptx_unpack;
    bool fine = packs ? sc_ptx_add_out_raw(p, s, to, type, SC_PTX_EXACT) &&
                            sc_ptx_add_vector(p, s, from, count, part, false)
                      : sc_ptx_add_vector(p, s, to, count, part, true) &&
                            sc_ptx_add_in_raw(p, s, from, type, SC_PTX_EXACT);
    for (uint32_t k = 0; fine && k < count; k++) {
        if ((packs ? s->in : s->out)[k].bytes != bytes)
            return sc_ptx_wrong(p, "a part of the vector is too wide");
    }
    return fine;
}

bool sc_ptx_decode_convert(sc_ptx_parser *p, sc_ptx_statement *s)
{
    sc_ptx_type to = sc_ptx_part_type(s), from = SC_PTX_NO_TYPE;
    if (to != SC_PTX_NO_TYPE)
        from = sc_ptx_part_type(s);
    const char *names = "us";
    if (from == SC_PTX_NO_TYPE || strchr(names, sc_ptx_types[to].name[0]) == NULL ||
        strchr(names, sc_ptx_types[from].name[0]) == NULL)
        return sc_ptx_decode_form(p, s);
    s->inst.run = sc_ptx_convert_integer;
    s->inst.type = (uint8_t)to;
    s->inst.from_type = (uint8_t)from;
    return sc_ptx_is_whole(p, s, 2) &&
           sc_ptx_add_out_raw(p, s, &s->operands[0], to, SC_PTX_OR_WIDER) &&
           sc_ptx_add_in_raw(p, s, &s->operands[1], from, SC_PTX_OR_WIDER);
}

/* setp.CMP{.and, .or, .xor}{.ftz}.type p{|q}, a, b{, {!}c}: `what` is 0 or the connective's number,
 * + 4 with a !. */
bool sc_ptx_decode_compare(sc_ptx_parser *p, sc_ptx_statement *s)
{
    static const char *const connectives[] = {".and", ".or", ".xor", NULL};
    const char *compare = s->dot;
    size_t length = part_length(s);
    s->dot += length;
    int connective = sc_ptx_part_of(s, connectives);
    const char *type_name = s->dot;
    sc_ptx_type type = sc_ptx_part_type(s);
    if (type == SC_PTX_NO_TYPE)
        return sc_ptx_not_known(p, s);
    for (uint32_t i = 0; i < sc_ptx_compare_count; i++) {
        const sc_ptx_compare *c = &sc_ptx_compares[i];
        if (strlen(c->name) + 1 == length && strncmp(c->name, compare + 1, length - 1) == 0 &&
            strcmp(c->type, type_name + 1) == 0)
            s->inst.run = c->run;
    }
    if (s->inst.run == NULL)
        return sc_ptx_not_known(p, s);
    const sc_ptx_raw *to = &s->operands[0], *with = &s->operands[3];
    if (!sc_ptx_is_whole(p, s, connective < 0 ? 3 : 4) ||
        !sc_ptx_add_out_raw(p, s, to, SC_PTX_pred, SC_PTX_EXACT) ||
        (to->second != NULL && !sc_ptx_add_out(p, s, to->second, SC_PTX_pred, SC_PTX_EXACT)) ||
        !sc_ptx_add_in_raw(p, s, &s->operands[1], type, SC_PTX_EXACT) ||
        !sc_ptx_add_in_raw(p, s, &s->operands[2], type, SC_PTX_EXACT))
        return false;
    if (connective < 0)
        return true;
    s->inst.what = (uint8_t)(connective + 1 + (with->is_not ? 4 : 0));
    return sc_ptx_add_in_raw(p, s, with, SC_PTX_pred, SC_PTX_EXACT);
}

/* ---- all ---- */

bool sc_ptx_decode(sc_ptx_parser *p, sc_ptx_statement *s)
{
    sc_ptx_module *m = sc_ptx_parser_module(p);
    size_t length = strcspn(s->opcode, ".");
    s->dot = s->opcode + length;
    s->inst.kind = SC_PTX_LANE;
    const sc_ptx_root *root = NULL;
    for (size_t i = 0; i < sizeof roots / sizeof *roots; i++) {
        if (strlen(roots[i].name) == length && strncmp(roots[i].name, s->opcode, length) == 0)
            root = &roots[i];
    }
    if (root == NULL)
        return sc_ptx_not_known(p, s);
    if (!root->decode(p, s))
        return false;
    sc_ptx_operand *operands =
        sc_arena_array(&m->arena, (size_t)s->inst.out_count + s->inst.in_count, sizeof *operands);
    memcpy(operands, s->out, s->inst.out_count * sizeof *operands);
    memcpy(operands + s->inst.out_count, s->in, s->inst.in_count * sizeof *operands);
    s->inst.out = operands;
    s->inst.in = operands + s->inst.out_count;
    *sc_vec_push(&m->arena, &m->code) = s->inst;
    return true;
}
