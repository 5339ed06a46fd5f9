/* The table of collectives (program/collectives.def), which compiler, programs and communicators
 * share. */
#ifndef SHARDC_PROGRAM_COLLECTIVE_H
#define SHARDC_PROGRAM_COLLECTIVE_H

#include <stdbool.h>
#include <stdint.h>

typedef enum sc_image_collective_kind {
#define COLLECTIVE(name, NAME, traits, shares, whole) SC_IMAGE_##NAME,
#include "program/collectives.def"
    SC_IMAGE_COLLECTIVES
} sc_image_collective_kind;

enum {
    SC_COLLECTIVE_REDUCES = 1u << 0,
    SC_COLLECTIVE_DIVIDES = 1u << 1,
    SC_COLLECTIVE_TO = 1u << 2,
    SC_COLLECTIVE_FROM = 1u << 3
};

typedef struct sc_collective_row {
    const char *name;
    uint32_t traits;
    double shares, whole;
} sc_collective_row;

extern const sc_collective_row sc_collectives[SC_IMAGE_COLLECTIVES];

/* Whether the kind has the trait; false for numbers beyond the table, which communicators use for
 * calls of their own. */
static inline bool sc_collective_has(uint32_t kind, uint32_t trait)
{
    return kind < SC_IMAGE_COLLECTIVES && (sc_collectives[kind].traits & trait) != 0;
}

/* The kind with this name; SC_IMAGE_COLLECTIVES: none. */
sc_image_collective_kind sc_collective_find(const char *name);
/* Bytes that one of n ranks sends in a call of a buffer of so many bytes: the full buffer of
 * all_gather, reduce_scatter and all_reduce, the local one of the others. A permute, send counts as
 * one that goes to another rank. */
double sc_collective_sent(sc_image_collective_kind kind, double buffer, double n);

#endif
