#include "support/units.h"

#include "support/number.h"

enum { UNITS = 7 };

static const char *const byte_units[UNITS] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
static const char *const flop_units[UNITS] = {"FLOP",  "kFLOP", "MFLOP", "GFLOP",
                                              "TFLOP", "PFLOP", "EFLOP"};

/* Three digits; a value that rounds up to the next unit is written in that unit. */
static void in_units(double value, double step, const char *const units[UNITS],
                     char out[SC_UNITS_TEXT])
{
    size_t unit = 0;
    for (; value >= step - 0.5 && unit + 1 < UNITS; unit++)
        value /= step;
    /* e.g. 4 bytes reduced by three ranks: 5.33 B */
    if (value >= 99.95)
        sc_snprintf(out, SC_UNITS_TEXT, "%.0f %s", value, units[unit]);
    else
        sc_snprintf(out, SC_UNITS_TEXT, "%.3g %s", value, units[unit]);
}

void sc_bytes_print(double bytes, char out[SC_UNITS_TEXT])
{
    in_units(bytes, 1024, byte_units, out);
}

const char *sc_bytes_text(sc_arena *arena, double bytes)
{
    char text[SC_UNITS_TEXT];
    sc_bytes_print(bytes, text);
    return sc_arena_printf(arena, "%s", text);
}

void sc_flops_print(double flops, char out[SC_UNITS_TEXT])
{
    in_units(flops, 1000, flop_units, out);
}

const char *sc_flops_text(sc_arena *arena, double flops)
{
    char text[SC_UNITS_TEXT];
    sc_flops_print(flops, text);
    return sc_arena_printf(arena, "%s", text);
}
