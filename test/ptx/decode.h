/* What decoders share: an opcode's parts, and operands of a type. */
#ifndef SHARDC_TEST_PTX_DECODE_H
#define SHARDC_TEST_PTX_DECODE_H

#include "test/ptx/internal.h"

#define ROOT(name, decoder) bool sc_ptx_decode_##decoder(sc_ptx_parser *p, sc_ptx_statement *s);
#include "test/ptx/roots.def"
#undef ROOT

/* ---- the opcode's parts, from left to right ---- */
/* Whether the next part is that (with its dot); then it is behind. */
bool sc_ptx_part(sc_ptx_statement *s, const char *part);
/* The next part's number in a NULL-terminated list, or -1. */
int sc_ptx_part_of(sc_ptx_statement *s, const char *const *parts);
/* The part is a type: SC_PTX_NO_TYPE where it is none. */
sc_ptx_type sc_ptx_part_type(sc_ptx_statement *s);
/* Nothing is left of it, and there are as many operands; false after a report. */
bool sc_ptx_is_whole(sc_ptx_parser *p, sc_ptx_statement *s, uint32_t operands);
bool sc_ptx_not_known(sc_ptx_parser *p, const sc_ptx_statement *s);

/* Behind cp.async.bulk. */
bool sc_ptx_decode_bulk(sc_ptx_parser *p, sc_ptx_statement *s);

/* ---- operands ---- */
/* How wide a register may be: as the type, or (of memory and conversions) wider, too. */
typedef enum sc_ptx_width { SC_PTX_EXACT, SC_PTX_OR_WIDER } sc_ptx_width;
bool sc_ptx_add_out(sc_ptx_parser *p, sc_ptx_statement *s, const char *name, sc_ptx_type type,
                    sc_ptx_width width);
bool sc_ptx_add_in(sc_ptx_parser *p, sc_ptx_statement *s, const char *text, sc_ptx_type type,
                   sc_ptx_width width);
/* A word or a number alone. */
bool sc_ptx_add_in_raw(sc_ptx_parser *p, sc_ptx_statement *s, const sc_ptx_raw *raw,
                       sc_ptx_type type, sc_ptx_width width);
bool sc_ptx_add_out_raw(sc_ptx_parser *p, sc_ptx_statement *s, const sc_ptx_raw *raw,
                        sc_ptx_type type, sc_ptx_width width);
/* All parts of a vector, so many. */
bool sc_ptx_add_vector(sc_ptx_parser *p, sc_ptx_statement *s, const sc_ptx_raw *raw, uint32_t count,
                       sc_ptx_type type, bool is_out);
/* The base is an operand, the offset the instruction's. `space`: what the opcode says; a variable's
 * must be the same. */
bool sc_ptx_add_address(sc_ptx_parser *p, sc_ptx_statement *s, const sc_ptx_raw *raw,
                        sc_ptx_space space);
/* The number that an operand is. */
bool sc_ptx_number(sc_ptx_parser *p, const sc_ptx_raw *raw, int64_t *out);

/* ---- what instructions do ---- */
sc_ptx_do sc_ptx_pack, sc_ptx_unpack, sc_ptx_convert_integer;

#endif
