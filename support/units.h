/* Human-readable amounts: three digits and a unit. */
#ifndef SHARDC_SUPPORT_UNITS_H
#define SHARDC_SUPPORT_UNITS_H

#include "support/arena.h"

enum { SC_UNITS_TEXT = 32 };

/* 1536 -> 1.5 KiB, in the arena; at most 9 columns. */
const char *sc_bytes_text(sc_arena *arena, double bytes);
void sc_bytes_print(double bytes, char out[SC_UNITS_TEXT]);
/* 1.5e12 -> 1.5 TFLOP. */
const char *sc_flops_text(sc_arena *arena, double flops);
void sc_flops_print(double flops, char out[SC_UNITS_TEXT]);

#endif
