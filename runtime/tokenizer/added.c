#include "runtime/tokenizer/added.h"

#include <string.h>

#include "runtime/tokenizer/characters.h"

void sc_trie_init(sc_trie *trie, sc_arena *arena)
{
    memset(trie, 0, sizeof *trie);
    trie->edges.arena = arena;
    *sc_vec_push(arena, &trie->ends) = SC_NONE;
}

void sc_trie_add(sc_trie *trie, sc_arena *arena, sc_span content, uint32_t index)
{
    uint32_t node = 0;
    trie->begins[(unsigned char)content.data[0]] = true;
    for (size_t i = 0; i < content.length; i++) {
        bool is_new;
        uint64_t key = (uint64_t)node << 8 | (unsigned char)content.data[i];
        node = *sc_map_insert(&trie->edges, key, trie->ends.count, &is_new);
        if (is_new)
            *sc_vec_push(arena, &trie->ends) = SC_NONE;
    }
    if (trie->ends.data[node] == SC_NONE)
        trie->ends.data[node] = index;
}

/* Returns the length of the longest content at the beginning, 0 if there is none. */
static size_t longest_at(const sc_trie *trie, sc_span text, uint32_t *out_index)
{
    size_t longest = 0;
    uint32_t node = 0;
    for (size_t i = 0; i < text.length; i++) {
        const uint32_t *next =
            sc_map_find(&trie->edges, (uint64_t)node << 8 | (unsigned char)text.data[i]);
        if (next == NULL)
            break;
        node = *next;
        if (trie->ends.data[node] != SC_NONE) {
            *out_index = trie->ends.data[node];
            longest = i + 1;
        }
    }
    return longest;
}

static bool is_alone(sc_span text, size_t begin, size_t end)
{
    unsigned length;
    if (begin > 0 && sc_char_is_in(sc_utf8_decode_before(text.data + begin, &length), SC_CHAR_WORD))
        return false;
    return end == text.length ||
           !sc_char_is_in(sc_utf8_decode(text.data + end, &length), SC_CHAR_WORD);
}

static size_t white_before(sc_span text, size_t end, size_t least)
{
    unsigned length;
    while (end > least && sc_char_is_white(sc_utf8_decode_before(text.data + end, &length)))
        end -= length;
    return end > least ? end : least;
}

static size_t white_behind(sc_span text, size_t begin)
{
    unsigned length;
    while (begin < text.length && sc_char_is_white(sc_utf8_decode(text.data + begin, &length)))
        begin += length;
    return begin;
}

bool sc_added_next(sc_added_search *search)
{
    sc_span text = search->text;
    while (search->from < text.length) {
        uint32_t index = 0;
        size_t begin = search->from, length = 0;
        if (search->trie->begins[(unsigned char)text.data[begin]])
            length =
                longest_at(search->trie, (sc_span){text.data + begin, text.length - begin}, &index);
        search->from += length == 0 ? 1 : length;
        if (length == 0)
            continue;
        const sc_added_token *token = &search->tokenizer->added.data[index];
        size_t end = begin + length;
        if (token->is_single_word && !is_alone(text, begin, end))
            continue;
        if (token->strips_left)
            begin = white_before(text, begin, search->done);
        if (token->strips_right) /* what is done beyond the token is white */
            end = white_behind(text, end > search->done ? end : search->done);
        search->token = token;
        search->begin = begin > search->done ? begin : search->done;
        search->end = end;
        search->done = end;
        return true;
    }
    return false;
}
