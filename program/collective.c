#include "program/collective.h"

#include <string.h>

const sc_collective_row sc_collectives[SC_IMAGE_COLLECTIVES] = {
#define COLLECTIVE(name, NAME, traits, shares, whole)                                              \
    [SC_IMAGE_##NAME] = {#name, traits, shares, whole},
#include "program/collectives.def"
};

sc_image_collective_kind sc_collective_find(const char *name)
{
    int kind = 0;
    while (kind < SC_IMAGE_COLLECTIVES && strcmp(sc_collectives[kind].name, name) != 0)
        kind++;
    return (sc_image_collective_kind)kind;
}

double sc_collective_sent(sc_image_collective_kind kind, double buffer, double n)
{
    const sc_collective_row *row = &sc_collectives[kind];
    return n <= 1 ? 0 : row->shares * buffer * (n - 1) / n + row->whole * buffer;
}
