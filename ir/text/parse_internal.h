/* Shared by the files of the IR parser: the parser state, token access, and readers of names,
 * numbers, sub-axes, dims and types. A reader reports errors and returns false; the parser then
 * abandons the statement and continues at the next line. */
#ifndef SHARDC_IR_TEXT_PARSE_INTERNAL_H
#define SHARDC_IR_TEXT_PARSE_INTERNAL_H

#include "ir/text/text_internal.h"
#include "ir/text/text_lex.h"

/* Upper limit of products of shards. */
#define SC_TEXT_MAX_RANKS ((uint64_t)INT32_MAX)

/* The parts of a composite as named in its `dim` line; resolved once all dims are known. */
typedef struct sc_dim_line {
    sc_sym alias, of;
    sc_loc alias_loc, of_loc;
    uint32_t part_count;
    sc_sym *parts;
    sc_loc *part_locs;
    int64_t *sizes; /* NULL if not given */
} sc_dim_line;

typedef struct sc_parser {
    sc_context *context;
    sc_module *m;
    sc_text_lexer lexer;
    uint32_t base; /* offset of the text among all sources */
    sc_token token;
    int stage;       /* kind of the last statement: statements have a fixed order */
    uint32_t errors; /* errors of the context before this text */
    bool lost;       /* the last line began with no statement, which has been reported */
    SC_VEC(sc_dim_line) dim_lines;
    sc_map op_names, attr_names; /* symbol -> kind, key */
    sc_map funcs;                /* symbol -> index */
    /* function and symbol -> value; SC_NONE if its definition had an error */
    sc_map values;
    sc_func_id func; /* the function being read */
    uint16_t chunk;  /* of its next ops */
    /* parts of the op being read */
    SC_VEC(sc_token) results;
    SC_VEC(sc_sym) paths;
    SC_VEC(sc_value) operands;
    SC_VEC(sc_type) types;
    uint32_t attr_count;
    sc_attr attrs[SC_ATTR_COUNT];
    SC_VEC(sc_dim) dims; /* list elements being read */
    SC_VEC(sc_split) splits;
    SC_VEC(int64_t) ints;
    SC_VEC(double) numbers;
    SC_VEC(sc_sym) words;
} sc_parser;

/* ---- cursor.c: tokens ---- */
enum { SC_PARSE_SHOWN = 40 }; /* bytes of a token shown in a message */
void sc_parse_advance(sc_parser *p);
sc_loc sc_parse_loc(const sc_parser *p); /* location of the current token */
bool sc_parse_at_word(const sc_parser *p, const char *word);
bool sc_parse_accept(sc_parser *p, int kind);
bool sc_parse_accept_word(sc_parser *p, const char *word);
bool sc_parse_expect(sc_parser *p, int kind);
/* All three return false. */
bool sc_parse_fail(sc_parser *p, sc_loc loc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool sc_parse_expected(sc_parser *p, const char *what); /* "expected {what}, found {token}" */
bool sc_parse_unknown(sc_parser *p, sc_loc loc, const char *what, sc_sym name,
                      const char *const *candidates, size_t count);

/* ---- names and numbers ---- */
bool sc_parse_name(sc_parser *p, const char *what, sc_sym *out_name); /* a word or a string */
bool sc_parse_string(sc_parser *p, const char *what, sc_sym *out_text);
bool sc_parse_integer(sc_parser *p, int64_t low, int64_t high, int64_t *out_value);
bool sc_parse_number(sc_parser *p, double *out_value);

/* ---- mesh, dims, types ---- */
/* up to and including the closing token */
bool sc_parse_sub_axis_items(sc_parser *p, int end, sc_sub_axis_list *list);
bool sc_parse_sub_axis_list(sc_parser *p, sc_sub_axis_list *list); /* tp or (x, y) */
bool sc_parse_leaf(sc_parser *p, sc_dim *out_dim);
/* comma-separated names, appended to p->dims; composites as their leaves */
bool sc_parse_dims(sc_parser *p);
bool sc_parse_type(sc_parser *p, sc_type *out_type);

/* ---- ops ---- */
void sc_parse_op_start(sc_parser *p); /* builds the name tables */
bool sc_parse_op(sc_parser *p, sc_sym scope);

#endif
