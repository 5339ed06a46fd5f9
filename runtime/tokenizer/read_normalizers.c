#include <string.h>

#include "runtime/tokenizer/read.h"

static sc_normalizer *add(sc_reader *r, const char *where, sc_normalizer_kind kind)
{
    shardc_tokenizer *t = r->tokenizer;
    if (t->normalizer_count == SC_STEPS) {
        sc_read_fail(r, where, "is more than %d normalizers", SC_STEPS);
        return NULL;
    }
    sc_normalizer *step = &t->normalizers[t->normalizer_count++];
    step->kind = kind;
    return step;
}

static bool read_sequence(sc_reader *r, const char *where, const json_t *value)
{
    return sc_read_keys(r, where, value, "type normalizers") &&
           sc_read_parts(r, where, value, "normalizers", sc_read_normalizer);
}

static bool read_form(sc_reader *r, const char *where, const json_t *value)
{
    const char *type = json_string_value(json_object_get(value, "type"));
    if (!sc_read_keys(r, where, value, "type"))
        return false;
    sc_normalizer *step = add(r, where, SC_NORMALIZE_FORM);
    if (step == NULL)
        return false;
    step->is_compatible = strchr(type, 'K') != NULL;
    step->is_composed = type[strlen(type) - 1] == 'C';
    return true;
}

static bool read_plain(sc_reader *r, const char *where, const json_t *value,
                       sc_normalizer_kind kind)
{
    return sc_read_keys(r, where, value, "type") && add(r, where, kind) != NULL;
}

static bool read_lowercase(sc_reader *r, const char *where, const json_t *value)
{
    return read_plain(r, where, value, SC_NORMALIZE_LOWER);
}

static bool read_strip_accents(sc_reader *r, const char *where, const json_t *value)
{
    return read_plain(r, where, value, SC_NORMALIZE_STRIP_ACCENTS);
}

static bool read_byte_level(sc_reader *r, const char *where, const json_t *value)
{
    return read_plain(r, where, value, SC_NORMALIZE_BYTES);
}

static bool read_prepend(sc_reader *r, const char *where, const json_t *value)
{
    if (!sc_read_keys(r, where, value, "type prepend"))
        return false;
    sc_normalizer *step = add(r, where, SC_NORMALIZE_PREPEND);
    return step != NULL && sc_read_text(r, where, value, "prepend", &step->text);
}

static bool read_replace(sc_reader *r, const char *where, const json_t *value)
{
    if (!sc_read_keys(r, where, value, "type pattern content"))
        return false;
    sc_normalizer *step = add(r, where, SC_NORMALIZE_REPLACE);
    return step != NULL && sc_read_text(r, where, value, "content", &step->text) &&
           sc_read_pattern(r, where, value, "pattern", &step->pattern);
}

static bool read_strip(sc_reader *r, const char *where, const json_t *value)
{
    if (!sc_read_keys(r, where, value, "type strip_left strip_right"))
        return false;
    sc_normalizer *step = add(r, where, SC_NORMALIZE_STRIP);
    return step != NULL &&
           sc_read_bool(r, where, value, "strip_left", SC_REQUIRED, &step->at_left) &&
           sc_read_bool(r, where, value, "strip_right", SC_REQUIRED, &step->at_right);
}

static bool read_bert(sc_reader *r, const char *where, const json_t *value)
{
    bool cleans, spaces, lowers, strips;
    const json_t *accents = json_object_get(value, "strip_accents");
    if (!sc_read_keys(r, where, value,
                      "type clean_text handle_chinese_chars strip_accents lowercase") ||
        !sc_read_bool(r, where, value, "clean_text", SC_REQUIRED, &cleans) ||
        !sc_read_bool(r, where, value, "handle_chinese_chars", SC_REQUIRED, &spaces) ||
        !sc_read_bool(r, where, value, "lowercase", SC_REQUIRED, &lowers))
        return false;
    strips = lowers; /* what null stands for */
    if (accents != NULL && !json_is_null(accents) &&
        !sc_read_bool(r, where, value, "strip_accents", SC_REQUIRED, &strips))
        return false;
    return (!cleans || add(r, where, SC_NORMALIZE_CLEAN) != NULL) &&
           (!spaces || add(r, where, SC_NORMALIZE_IDEOGRAPHS) != NULL) &&
           (!strips || add(r, where, SC_NORMALIZE_NONSPACING) != NULL) &&
           (!lowers || add(r, where, SC_NORMALIZE_LOWER) != NULL);
}

bool sc_read_normalizer(sc_reader *reader, const char *where, const json_t *value)
{
    static const sc_part_type types[] = {{"Sequence", read_sequence},
                                         {"NFC", read_form},
                                         {"NFD", read_form},
                                         {"NFKC", read_form},
                                         {"NFKD", read_form},
                                         {"Lowercase", read_lowercase},
                                         {"Prepend", read_prepend},
                                         {"Replace", read_replace},
                                         {"Strip", read_strip},
                                         {"StripAccents", read_strip_accents},
                                         {"BertNormalizer", read_bert},
                                         {"ByteLevel", read_byte_level}};
    return sc_read_part_of(reader, where, value, types, sizeof types / sizeof *types);
}
