#include <string.h>

#include "runtime/tokenizer/read.h"

/* What a post-processor says of offsets and type ids is read, but nothing here has these. */

static bool read_sequence(sc_reader *r, const char *where, const json_t *value)
{
    return sc_read_keys(r, where, value, "type processors") &&
           sc_read_parts(r, where, value, "processors", sc_read_post_processor);
}

static bool read_byte_level(sc_reader *r, const char *where, const json_t *value)
{
    bool ignored;
    return sc_read_keys(r, where, value, "type add_prefix_space trim_offsets use_regex") &&
           sc_read_bool(r, where, value, "add_prefix_space", 1, &ignored) &&
           sc_read_bool(r, where, value, "trim_offsets", 1, &ignored) &&
           sc_read_bool(r, where, value, "use_regex", 1, &ignored);
}

static bool is_taken(sc_reader *r, const char *where)
{
    const shardc_tokenizer *t = r->tokenizer;
    return t->before.count + t->after.count > 0 &&
           !sc_read_fail(r, where, "is the second that adds tokens; only one is supported");
}

static bool add_id(sc_reader *r, const char *where, const json_t *id, bool is_before)
{
    shardc_tokenizer *t = r->tokenizer;
    if (!json_is_integer(id) || json_integer_value(id) < 0 ||
        json_integer_value(id) >= SC_TOKEN_IDS)
        return sc_read_fail(r, where, "an id must be an integer from 0 to %d", SC_TOKEN_IDS - 1);
    if (is_before)
        *sc_vec_push(r->arena, &t->before) = (uint32_t)json_integer_value(id);
    else
        *sc_vec_push(r->arena, &t->after) = (uint32_t)json_integer_value(id);
    return true;
}

/* ["[SEP]", 102] */
static bool read_pair(sc_reader *r, const char *where, const json_t *value, const char *key,
                      bool is_before)
{
    const json_t *pair = json_object_get(value, key);
    if (json_array_size(pair) != 2 || !json_is_string(json_array_get(pair, 0)))
        return sc_read_fail(r, where, "'%s' must be a token and its id", key);
    return add_id(r, where, json_array_get(pair, 1), is_before);
}

static bool read_bert(sc_reader *r, const char *where, const json_t *value)
{
    return !is_taken(r, where) && sc_read_keys(r, where, value, "type sep cls") &&
           read_pair(r, where, value, "cls", true) && read_pair(r, where, value, "sep", false);
}

static bool read_roberta(sc_reader *r, const char *where, const json_t *value)
{
    bool ignored;
    return !is_taken(r, where) &&
           sc_read_keys(r, where, value, "type sep cls trim_offsets add_prefix_space") &&
           sc_read_bool(r, where, value, "trim_offsets", 1, &ignored) &&
           sc_read_bool(r, where, value, "add_prefix_space", 1, &ignored) &&
           read_pair(r, where, value, "cls", true) && read_pair(r, where, value, "sep", false);
}

static bool add_special(sc_reader *r, const char *where, const json_t *value, const json_t *piece,
                        bool is_before)
{
    const char *name = json_string_value(json_object_get(piece, "id"));
    const json_t *token =
        name == NULL ? NULL : json_object_get(json_object_get(value, "special_tokens"), name);
    const json_t *ids = json_object_get(token, "ids"), *id;
    size_t i;
    if (!json_is_array(ids))
        return sc_read_fail(r, where, "'special_tokens' has no ids of '%.60s'",
                            name == NULL ? "" : name);
    json_array_foreach (ids, i, id) {
        if (!add_id(r, where, id, is_before))
            return false;
    }
    return true;
}

static bool read_template(sc_reader *r, const char *where, const json_t *value)
{
    const json_t *list = json_object_get(value, "single"), *piece;
    unsigned texts = 0;
    size_t i;
    if (is_taken(r, where) || !sc_read_keys(r, where, value, "type single pair special_tokens"))
        return false;
    if (!json_is_array(list))
        return sc_read_fail(r, where, "'single' must be a list");
    json_array_foreach (list, i, piece) {
        const json_t *text = json_object_get(piece, "Sequence");
        const json_t *special = json_object_get(piece, "SpecialToken");
        const char *id = json_string_value(json_object_get(text, "id"));
        if (id != NULL && strcmp(id, "A") == 0)
            texts++;
        else if (special == NULL)
            return sc_read_fail(r, where, "'single' may have SpecialToken and the Sequence A");
        else if (!add_special(r, where, value, special, texts == 0))
            return false;
    }
    return texts == 1 || sc_read_fail(r, where, "'single' must have the Sequence A once");
}

bool sc_read_post_processor(sc_reader *reader, const char *where, const json_t *value)
{
    static const sc_part_type types[] = {{"Sequence", read_sequence},
                                         {"ByteLevel", read_byte_level},
                                         {"TemplateProcessing", read_template},
                                         {"BertProcessing", read_bert},
                                         {"RobertaProcessing", read_roberta}};
    return sc_read_part_of(reader, where, value, types, sizeof types / sizeof *types);
}
