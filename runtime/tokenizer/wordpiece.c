#include "runtime/tokenizer/wordpiece.h"

static uint64_t count_characters(sc_span piece)
{
    uint64_t count = 0;
    for (size_t i = 0; i < piece.length; i++)
        count += ((unsigned char)piece.data[i] & 0xc0) != 0x80;
    return count;
}

/* Returns the length of the longest prefix of `rest` in the vocabulary, 0 if there is none, and
 * sets *out_id. */
static size_t longest_prefix(const sc_vocabulary *vocabulary, sc_span rest, uint32_t *out_id)
{
    size_t length = rest.length < vocabulary->longest ? rest.length : vocabulary->longest;
    for (; length > 0; length--) {
        if (length < rest.length && ((unsigned char)rest.data[length] & 0xc0) == 0x80)
            continue; /* inside a character */
        *out_id = sc_vocabulary_find(vocabulary, rest.data, length);
        if (*out_id != SC_NONE)
            break;
    }
    return length;
}

static bool read_tokens(sc_encoder *e, sc_span piece)
{
    const shardc_tokenizer *t = e->tokenizer;
    const sc_wordpiece *model = &t->wordpiece;
    for (size_t at = 0; at < piece.length;) {
        uint32_t id;
        sc_span rest = {piece.data + at, piece.length - at};
        size_t length = longest_prefix(at == 0 ? &t->vocabulary : &model->continuing, rest, &id);
        if (length == 0)
            return false;
        *sc_vec_push(&e->arena, &e->symbols) = at == 0 ? id : model->continuing_ids[id];
        at += length;
    }
    return true;
}

void sc_wordpiece_encode(sc_encoder *encoder, sc_span piece)
{
    const shardc_tokenizer *t = encoder->tokenizer;
    encoder->symbols.count = 0;
    if (count_characters(piece) > t->wordpiece.most_characters || !read_tokens(encoder, piece))
        sc_encoder_add(encoder, &t->unknown, 1);
    else
        sc_encoder_add(encoder, encoder->symbols.data, encoder->symbols.count);
}
