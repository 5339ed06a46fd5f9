#include "runtime/tokenizer/bpe.h"

#include <string.h>

#include "runtime/tokenizer/characters.h"

uint32_t sc_bpe_rank(const sc_bpe *bpe, uint32_t left, uint32_t right)
{
    const uint32_t *rank = sc_map_find(&bpe->merges, (uint64_t)left << 32 | right);
    return rank == NULL ? SC_NONE : *rank;
}

/* ---- merging ---- */

static void push(sc_encoder *e, uint64_t key)
{
    *sc_vec_push(&e->arena, &e->heap) = key;
    uint64_t *heap = e->heap.data;
    uint32_t at = e->heap.count - 1;
    while (at > 0 && heap[(at - 1) / 2] > key) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = key;
}

static void sift_down(uint64_t *heap, uint32_t count, uint32_t at)
{
    uint64_t key = heap[at];
    for (uint32_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
        child += child + 1 < count && heap[child + 1] < heap[child];
        if (heap[child] >= key)
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = key;
}

static uint64_t pop(sc_encoder *e)
{
    uint64_t *heap = e->heap.data, least = heap[0];
    heap[0] = heap[--e->heap.count];
    if (e->heap.count > 0)
        sift_down(heap, e->heap.count, 0);
    return least;
}

static void push_pair(sc_encoder *e, int32_t left)
{
    const sc_symbol *list = e->list.data;
    if (left < 0 || list[left].next < 0)
        return;
    uint32_t rank = sc_bpe_rank(&e->tokenizer->bpe, list[left].id, list[list[left].next].id);
    if (rank != SC_NONE)
        push(e, (uint64_t)rank << 32 | (uint32_t)left);
}

static void make_list(sc_encoder *e, const uint32_t *symbols, uint32_t count)
{
    const sc_bpe *bpe = &e->tokenizer->bpe;
    e->list.count = e->heap.count = 0;
    sc_vec_reserve(&e->arena, &e->list, count);
    sc_vec_reserve(&e->arena, &e->heap, count);
    e->list.count = count;
    for (uint32_t i = 0; i < count; i++) {
        e->list.data[i] =
            (sc_symbol){symbols[i], (int32_t)i - 1, i + 1 < count ? (int32_t)i + 1 : -1};
        uint32_t rank = i + 1 < count ? sc_bpe_rank(bpe, symbols[i], symbols[i + 1]) : SC_NONE;
        if (rank != SC_NONE)
            e->heap.data[e->heap.count++] = (uint64_t)rank << 32 | i;
    }
    for (uint32_t i = e->heap.count / 2; i > 0; i--)
        sift_down(e->heap.data, e->heap.count, i - 1);
}

/* Merges the symbols in e->list until no pair has a rank. An entry of the heap is out of date if
 * its pair no longer makes the same token. Each merge removes a symbol and adds at most two
 * entries. */
static void merge_list(sc_encoder *e)
{
    const sc_bpe *bpe = &e->tokenizer->bpe;
    sc_symbol *list = e->list.data;
    while (e->heap.count > 0) {
        uint64_t key = pop(e);
        int32_t left = (int32_t)(uint32_t)key;
        uint32_t result = bpe->results[key >> 32];
        if (list[left].id == SC_NONE || list[left].next < 0)
            continue;
        int32_t right = list[left].next;
        uint32_t rank = sc_bpe_rank(bpe, list[left].id, list[right].id);
        if (rank == SC_NONE || bpe->results[rank] != result)
            continue;
        list[left].id = result;
        list[left].next = list[right].next;
        list[right].id = SC_NONE;
        if (list[left].next >= 0)
            list[list[left].next].previous = left;
        push_pair(e, list[left].previous);
        push_pair(e, left);
    }
}

/* Leaves the tokens at the beginning of e->list and returns their number. */
static uint32_t merge(sc_encoder *e, const uint32_t *symbols, uint32_t count)
{
    uint32_t kept = 0;
    make_list(e, symbols, count);
    merge_list(e);
    for (uint32_t i = 0; i < count; i++) {
        if (e->list.data[i].id != SC_NONE)
            e->list.data[kept++].id = e->list.data[i].id;
    }
    return kept;
}

static void add_merged(sc_encoder *e, const uint32_t *symbols, uint32_t count)
{
    uint32_t ids[64], kept = merge(e, symbols, count);
    for (uint32_t i = 0; i < kept;) {
        uint32_t some = 0;
        for (; some < 64 && i < kept; some++, i++)
            ids[some] = e->list.data[i].id;
        sc_encoder_add(e, ids, some);
    }
}

static void add_cached(sc_encoder *e, const uint32_t *symbols, uint32_t count)
{
    uint32_t hash = (uint32_t)sc_hash_bytes(symbols, count * sizeof *symbols, 0);
    sc_cached_piece *piece = &e->cache[hash & (SC_CACHED_PIECES - 1)];
    if (piece->symbol_count != count || piece->hash != hash ||
        memcmp(piece->symbols, symbols, count * sizeof *symbols) != 0) {
        uint32_t kept = merge(e, symbols, count);
        piece->hash = hash;
        piece->symbol_count = (uint16_t)count;
        piece->id_count = (uint16_t)kept;
        memcpy(piece->symbols, symbols, count * sizeof *symbols);
        for (uint32_t i = 0; i < kept; i++)
            piece->ids[i] = e->list.data[i].id;
    }
    sc_encoder_add(e, piece->ids, piece->id_count);
}

static void add_part(sc_encoder *e, const uint32_t *symbols, uint32_t count)
{
    if (count == 1)
        sc_encoder_add(e, symbols, 1);
    else if (count <= SC_CACHED_SYMBOLS)
        add_cached(e, symbols, count);
    else
        add_merged(e, symbols, count);
}

/* ---- symbols ---- */

static void add_symbol(sc_encoder *e, uint32_t id)
{
    if (e->symbols.count == INT32_MAX)
        sc_arena_fail(&e->arena);
    *sc_vec_push(&e->arena, &e->symbols) = id;
}

/* Characters without an id since the last symbol that had one: they are unknown tokens, which wait
 * while bytes stand for other characters. */
typedef struct unknowns {
    bool is_waiting;
} unknowns;

static void flush(sc_encoder *e, unknowns *u)
{
    if (u->is_waiting)
        add_symbol(e, e->tokenizer->unknown);
    u->is_waiting = false;
}

static bool add_fallbacks(sc_encoder *e, sc_span symbol)
{
    const sc_bpe *bpe = &e->tokenizer->bpe;
    for (size_t i = 0; i < symbol.length; i++) {
        if (bpe->fallbacks[(unsigned char)symbol.data[i]] == SC_NONE)
            return false;
    }
    for (size_t i = 0; i < symbol.length; i++)
        add_symbol(e, bpe->fallbacks[(unsigned char)symbol.data[i]]);
    return true;
}

/* Adds the symbol of a character, `id` if it has one. */
static void add_character(sc_encoder *e, sc_span symbol, uint32_t id, unknowns *u)
{
    const sc_bpe *bpe = &e->tokenizer->bpe;
    if (id != SC_NONE) {
        flush(e, u);
        add_symbol(e, id);
        return;
    }
    if ((bpe->has_fallbacks && add_fallbacks(e, symbol)) || e->tokenizer->unknown == SC_NONE)
        return;
    if (!bpe->fuses_unknown)
        flush(e, u);
    u->is_waiting = true;
}

static uint32_t find_character(const sc_encoder *e, const char *text, unsigned *out_length)
{
    uint32_t c = sc_utf8_decode(text, out_length);
    if (c < SC_DIRECT_CHARACTERS)
        return e->tokenizer->bpe.characters[c];
    return sc_vocabulary_find(&e->tokenizer->vocabulary, text, *out_length);
}

/* The character with the prefix of those that continue a piece and the suffix of the last. */
static sc_span affixed(sc_encoder *e, sc_span character, bool is_first, bool is_last)
{
    const sc_bpe *bpe = &e->tokenizer->bpe;
    e->symbol.length = 0;
    if (!is_first)
        sc_strbuf_add_bytes(&e->symbol, bpe->prefix.data, bpe->prefix.length);
    sc_strbuf_add_bytes(&e->symbol, character.data, character.length);
    if (is_last)
        sc_strbuf_add_bytes(&e->symbol, bpe->suffix.data, bpe->suffix.length);
    return (sc_span){e->symbol.data, e->symbol.length};
}

static void read_characters(sc_encoder *e, sc_span piece)
{
    const sc_bpe *bpe = &e->tokenizer->bpe;
    bool has_affixes = bpe->prefix.length > 0 || bpe->suffix.length > 0;
    unknowns u = {false};
    for (size_t at = 0; at < piece.length;) {
        unsigned length;
        uint32_t id = find_character(e, piece.data + at, &length);
        sc_span symbol = {piece.data + at, length};
        if (has_affixes) {
            symbol = affixed(e, symbol, at == 0, at + length == piece.length);
            id = sc_vocabulary_find(&e->tokenizer->vocabulary, symbol.data, symbol.length);
        }
        add_character(e, symbol, id, &u);
        at += length;
    }
    flush(e, &u);
}

/* ---- pieces ---- */

static uint32_t find_whole(const sc_encoder *e, sc_span piece, bool is_bytes)
{
    const sc_bpe *bpe = &e->tokenizer->bpe;
    if (!bpe->ignores_merges)
        return SC_NONE;
    return sc_vocabulary_find(is_bytes ? &bpe->raw : &e->tokenizer->vocabulary, piece.data,
                              piece.length);
}

void sc_bpe_encode(sc_encoder *encoder, sc_span piece, bool is_bytes)
{
    const sc_bpe *bpe = &encoder->tokenizer->bpe;
    uint32_t whole = find_whole(encoder, piece, is_bytes), start = 0;
    if (whole != SC_NONE) {
        sc_encoder_add(encoder, &whole, 1);
        return;
    }
    encoder->symbols.count = 0;
    if (is_bytes) {
        for (size_t i = 0; i < piece.length; i++)
            add_symbol(encoder, bpe->bytes[(unsigned char)piece.data[i]]);
    } else {
        read_characters(encoder, piece);
    }
    const uint32_t *symbols = encoder->symbols.data;
    uint32_t count = encoder->symbols.count;
    uint32_t end = bpe->has_cuts && count > SC_CACHED_SYMBOLS ? count : 0;
    for (uint32_t i = 1; i < end; i++) {
        if (sc_map_find(&bpe->cuts, (uint64_t)symbols[i - 1] << 32 | symbols[i]) == NULL) {
            add_part(encoder, symbols + start, i - start);
            start = i;
        }
    }
    if (start < count)
        add_part(encoder, symbols + start, count - start);
}

/* ---- cuts ---- */

typedef struct ends {
    uint32_t *first, *last; /* by token; SC_NONE: not yet known */
} ends;

static bool set_end(uint32_t *end, uint32_t symbol)
{
    if (*end == SC_NONE)
        *end = symbol;
    return *end == symbol;
}

static bool set_symbol(ends *of, uint32_t id)
{
    return id == SC_NONE || (set_end(&of->first[id], id) && set_end(&of->last[id], id));
}

/* Symbols before any merge: characters, bytes and the unknown token. */
static bool set_symbols(const sc_bpe *bpe, const sc_vocabulary *vocabulary, uint32_t unknown,
                        ends *of)
{
    bool ok = set_symbol(of, unknown);
    for (uint32_t i = 0; i < vocabulary->size; i++) {
        const sc_token *token = sc_vocabulary_token(vocabulary, i);
        unsigned length;
        if (token == NULL || token->length == 0 || token->length > 4)
            continue;
        sc_utf8_decode(token->content, &length);
        if (length == token->length)
            ok = set_symbol(of, i) && ok;
    }
    uint32_t fallbacks = bpe->has_fallbacks ? 256 : 0;
    for (uint32_t i = 0; i < fallbacks; i++)
        ok = set_symbol(of, bpe->fallbacks[i]) && ok;
    return ok;
}

/* Ranks by the length of their result, so that a token's parts come before it. */
static uint32_t *ranks_by_length(const sc_bpe *bpe, sc_arena *arena,
                                 const sc_vocabulary *vocabulary)
{
    uint32_t *begins = sc_arena_array(arena, vocabulary->longest + 2, sizeof *begins);
    uint32_t *ranks = sc_arena_array(arena, bpe->merge_count, sizeof *ranks);
    for (uint32_t i = 0; i < bpe->merge_count; i++)
        begins[vocabulary->tokens[bpe->results[i]].length + 1]++;
    for (uint32_t i = 1; i <= vocabulary->longest; i++)
        begins[i] += begins[i - 1];
    for (uint32_t i = 0; i < bpe->merge_count; i++)
        ranks[begins[vocabulary->tokens[bpe->results[i]].length]++] = i;
    return ranks;
}

void sc_bpe_find_cuts(sc_bpe *bpe, sc_arena *arena, const sc_vocabulary *vocabulary,
                      uint32_t unknown)
{
    ends of = {sc_arena_array(arena, vocabulary->size, sizeof *of.first),
               sc_arena_array(arena, vocabulary->size, sizeof *of.last)};
    uint64_t *pairs = sc_arena_array(arena, bpe->merge_count, sizeof *pairs);
    if (vocabulary->size > 0) {
        memset(of.first, 0xff, vocabulary->size * sizeof *of.first);
        memset(of.last, 0xff, vocabulary->size * sizeof *of.last);
    }
    for (uint32_t i = 0; i < bpe->merges.capacity; i++) {
        if (bpe->merges.slots[i].used)
            pairs[bpe->merges.slots[i].value] = bpe->merges.slots[i].key;
    }
    bool ok = bpe->prefix.length == 0 && bpe->suffix.length == 0 &&
              set_symbols(bpe, vocabulary, unknown, &of);
    const uint32_t *ranks = ranks_by_length(bpe, arena, vocabulary);
    bpe->cuts.arena = arena;
    for (uint32_t i = 0; i < bpe->merge_count; i++) {
        uint32_t left = (uint32_t)(pairs[ranks[i]] >> 32), right = (uint32_t)pairs[ranks[i]];
        uint32_t result = bpe->results[ranks[i]];
        if (pairs[ranks[i]] == 0 && sc_bpe_rank(bpe, 0, 0) != ranks[i])
            continue; /* a later merge has the same pair */
        if (of.last[left] == SC_NONE || of.first[right] == SC_NONE)
            continue; /* never made */
        sc_map_insert(&bpe->cuts, (uint64_t)of.last[left] << 32 | of.first[right], 1, NULL);
        ok =
            set_end(&of.first[result], of.first[left]) && set_end(&of.last[result], of.last[right]);
    }
    bpe->has_cuts = ok;
}
