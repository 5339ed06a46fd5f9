/* A tokenizer in memory: the steps of its file in the order in which they run. Sequences are
 * flattened. Nothing changes once it is open, but the pool of encoders that are not in use. */
#ifndef SHARDC_RUNTIME_TOKENIZER_TYPES_H
#define SHARDC_RUNTIME_TOKENIZER_TYPES_H

#include <pthread.h>

#include "runtime/tokenizer/pattern.h"
#include "runtime/tokenizer/vocabulary.h"
#include "shardc/tokenizer.h"
#include "support/hash.h"
#include "support/vec.h"

/* Valid UTF-8 where nothing else is said. */
typedef struct sc_span {
    const char *data;
    size_t length;
} sc_span;

/* ---- added tokens ---- */

typedef struct sc_added_token {
    sc_span content;
    uint32_t id;
    bool is_single_word, strips_left, strips_right, is_normalized, is_special;
} sc_added_token;

typedef SC_VEC(sc_added_token) sc_added_tokens;

/* Contents to find in a text, as a trie by bytes. */
typedef struct sc_trie {
    sc_map edges;          /* node << 8 | byte -> node; node 0 is the root */
    SC_VEC(uint32_t) ends; /* by node: index of the added token that ends here, SC_NONE: none */
    bool begins[256];      /* some content begins with this byte */
} sc_trie;

/* ---- normalizers ---- */

typedef enum sc_normalizer_kind {
    SC_NORMALIZE_FORM,          /* is_composed, is_compatible: NFD, NFC, NFKD, NFKC */
    SC_NORMALIZE_LOWER,         /* Lowercase */
    SC_NORMALIZE_PREPEND,       /* text */
    SC_NORMALIZE_REPLACE,       /* pattern by text */
    SC_NORMALIZE_STRIP_ACCENTS, /* without combining marks */
    SC_NORMALIZE_STRIP,         /* white space, at_left, at_right */
    SC_NORMALIZE_CLEAN,         /* BERT: no control characters, white space is ' ' */
    SC_NORMALIZE_IDEOGRAPHS,    /* BERT: ' ' around each */
    SC_NORMALIZE_NONSPACING,    /* BERT: without nonspacing marks, after NFD */
    SC_NORMALIZE_BYTES          /* each byte is a character */
} sc_normalizer_kind;

typedef struct sc_normalizer {
    sc_normalizer_kind kind;
    bool is_composed, is_compatible, at_left, at_right;
    sc_span text;
    sc_pattern *pattern;
} sc_normalizer;

/* ---- pre-tokenizers ---- */

typedef enum sc_split_kind {
    SC_SPLIT_PATTERN,     /* at the matches of `pattern` */
    SC_SPLIT_DIGITS,      /* at each number, or run of numbers, by `behavior` */
    SC_SPLIT_PUNCTUATION, /* at each punctuation character */
    SC_SPLIT_WHITE,       /* at each white space character */
    SC_SPLIT_WORDS,       /* into runs of word characters and of what is neither word nor white */
    SC_SPLIT_METASPACE,   /* ' ' becomes `text`, which begins pieces */
    SC_SPLIT_SPACE,       /* nothing: ' ' before a piece that does not begin with it */
    SC_SPLIT_BYTES        /* nothing: each byte becomes a character */
} sc_split_kind;

typedef enum sc_behavior {
    SC_REMOVED,
    SC_ISOLATED,
    SC_MERGED_WITH_PREVIOUS,
    SC_MERGED_WITH_NEXT,
    SC_CONTIGUOUS
} sc_behavior;

typedef enum sc_prepend { SC_PREPEND_NEVER, SC_PREPEND_FIRST, SC_PREPEND_ALWAYS } sc_prepend;

typedef struct sc_splitter {
    sc_split_kind kind;
    sc_behavior behavior;
    bool is_inverted;
    bool splits;        /* METASPACE */
    sc_prepend prepend; /* METASPACE */
    sc_span text;
    sc_pattern *pattern;
} sc_splitter;

/* ---- models ---- */

typedef enum sc_model_kind { SC_MODEL_BPE, SC_MODEL_WORDPIECE } sc_model_kind;

enum { SC_DIRECT_CHARACTERS = 1 << 16 };

typedef struct sc_bpe {
    sc_map merges;     /* left id << 32 | right id -> rank */
    uint32_t *results; /* by rank */
    uint32_t merge_count;
    uint32_t *characters;    /* ids of characters below SC_DIRECT_CHARACTERS; SC_NONE: none */
    uint32_t bytes[256];     /* ids of the characters that stand for bytes */
    uint32_t fallbacks[256]; /* ids of "<0x00>".. */
    bool reads_bytes;        /* the last pre-tokenizer is ByteLevel, and `bytes` has them all */
    bool has_fallbacks, fuses_unknown, ignores_merges;
    bool has_cuts;
    sc_map cuts;       /* left symbol << 32 | right symbol: some merge joins them; see bpe.c */
    sc_vocabulary raw; /* ignores_merges, reads_bytes: tokens by the bytes that they stand for */
    sc_span prefix, suffix; /* of symbols that continue and of those that end a piece */
} sc_bpe;

typedef struct sc_wordpiece {
    sc_vocabulary continuing; /* by content without the prefix */
    uint32_t *continuing_ids; /* ids of these, by their own index */
    uint64_t most_characters;
} sc_wordpiece;

/* ---- decoders ---- */

typedef enum sc_decoder_kind {
    SC_DECODE_BYTES,     /* ByteLevel: characters to bytes, all tokens joined; FUSE is behind it */
    SC_DECODE_FALLBACK,  /* "<0xE2>" to a byte */
    SC_DECODE_FUSE,      /* all tokens joined */
    SC_DECODE_REPLACE,   /* pattern by text */
    SC_DECODE_STRIP,     /* up to `begin` characters `text` at the beginning, `end` at the end */
    SC_DECODE_METASPACE, /* `text` to ' ', none at the beginning if drops_first */
    SC_DECODE_WORDPIECE, /* `text` is the prefix; cleans */
    SC_DECODE_SUFFIX,    /* BPEDecoder: `text` to ' ', none at the end */
    SC_DECODE_JOIN       /* no decoder: ' ' between tokens */
} sc_decoder_kind;

typedef struct sc_decoder {
    sc_decoder_kind kind;
    bool drops_first, cleans;
    size_t begin, end;
    sc_span text;
    sc_pattern *pattern;
} sc_decoder;

enum { SC_STEPS = 32 }; /* of a kind, in a file */

typedef struct sc_encoder sc_encoder;

struct shardc_tokenizer {
    sc_arena arena;
    sc_vocabulary vocabulary; /* of the model */
    sc_vocabulary extra;      /* added tokens that the model does not have */
    sc_added_tokens added;    /* all that are looked for in a text */
    sc_trie raw_trie, normalized_trie;
    bool *is_special; /* by id */
    /* by id: what decoding shows of added tokens that are normalized, NULL: the content; whether it
     * is the content of a special token */
    sc_span *shown;
    bool *is_skipped;
    uint32_t size; /* ids are below */
    sc_normalizer normalizers[SC_STEPS];
    sc_splitter splitters[SC_STEPS];
    sc_decoder decoders[SC_STEPS];
    uint32_t normalizer_count, splitter_count, decoder_count;
    sc_model_kind model;
    uint32_t unknown; /* SC_NONE: none */
    sc_bpe bpe;
    sc_wordpiece wordpiece;
    SC_VEC(uint32_t) before, after; /* ids that the post-processor adds */
    pthread_mutex_t mutex;          /* of `idle` */
    sc_encoder *idle;
};

#endif
