/* Words of PTX, and what a parser holds. */
#ifndef SHARDC_TEST_PTX_LEX_H
#define SHARDC_TEST_PTX_LEX_H

#include "test/ptx/internal.h"

/* Registers of a declaration are one family: NAME, or NAME0 .. NAME(count - 1). */
typedef enum sc_ptx_symbol_kind { SC_PTX_A_REGISTER, SC_PTX_A_VARIABLE } sc_ptx_symbol_kind;

typedef struct sc_ptx_symbol {
    sc_ptx_symbol_kind kind;
    const char *name;
    uint32_t count;     /* registers; 0: a single one without a number */
    uint32_t reg, at;   /* the first */
    uint8_t bytes;      /* 0: predicates */
    sc_ptx_space space; /* of a variable */
    uint64_t address;
    uint32_t size;
} sc_ptx_symbol;

/* Of the scope that it is in: labels of inner ones hide those of outer ones. */
typedef struct sc_ptx_label {
    const char *name;
    uint32_t inst, line, scope;
} sc_ptx_label;

struct sc_ptx_parser {
    sc_ptx_module *module;
    sc_machine_report *report;
    const char *next;
    uint32_t line;                 /* of the word */
    char word[256];                /* empty: the end */
    SC_VEC(sc_ptx_symbol) symbols; /* the innermost last */
    SC_VEC(sc_ptx_label) labels, wanted;
    SC_VEC(uint32_t) scopes; /* of the function, by number: the one around it */
    uint32_t scope;
    uint32_t file_bytes, reg_count, frame_bytes; /* of the function */
    bool failed;
};

/* The next multiple of a power of 2. */
static inline uint64_t sc_ptx_aligned(uint64_t at, uint64_t align)
{
    return (at + align - 1) & ~(align - 1);
}

/* ---- lex.c ---- */
/* The next word, which is empty at the end. */
void sc_ptx_next(sc_ptx_parser *p);
bool sc_ptx_is(const sc_ptx_parser *p, const char *word);
/* Whether it is the word; then the next one. */
bool sc_ptx_take(sc_ptx_parser *p, const char *word);
/* The same, false after a report. */
bool sc_ptx_want(sc_ptx_parser *p, const char *word);
const char *sc_ptx_take_text(sc_ptx_parser *p);
bool sc_ptx_is_name(const sc_ptx_parser *p);
bool sc_ptx_is_number(const sc_ptx_parser *p);
bool sc_ptx_want_number(sc_ptx_parser *p, uint64_t *out);
sc_ptx_type sc_ptx_type_named(const char *name);

/* ---- body.c ---- */
bool sc_ptx_parse_body(sc_ptx_parser *p, sc_ptx_function *function);
/* `.param .u64 NAME` and the like, behind the state space: a variable of the space. */
typedef struct sc_ptx_declared {
    sc_ptx_type type;
    const char *name;
    uint64_t align, bytes;
    bool is_open; /* NAME[] */
} sc_ptx_declared;
bool sc_ptx_parse_declared(sc_ptx_parser *p, sc_ptx_declared *out);
/* Of .local and .param of functions: a place in the frame. */
uint32_t sc_ptx_frame_place(sc_ptx_parser *p, const sc_ptx_declared *declared);
void sc_ptx_add_variable(sc_ptx_parser *p, const char *name, sc_ptx_space space, uint64_t address,
                         uint64_t bytes);

#endif
