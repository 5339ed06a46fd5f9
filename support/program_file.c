#include "support/program_file.h"

#include <string.h>

#include "support/hash.h"

static const char magic[8] = {'s', 'h', 'a', 'r', 'd', 'c', 'p', '1'};

static void write_u64(uint8_t *out, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        out[i] = (uint8_t)(value >> 8 * i);
}

static uint64_t read_u64(const uint8_t *from)
{
    uint64_t value = 0;
    for (int i = 0; i < 8; i++)
        value |= (uint64_t)from[i] << 8 * i;
    return value;
}

void sc_program_trailer_write(const sc_program_trailer *trailer, uint8_t out[SC_PROGRAM_TRAILER_BYTES])
{
    write_u64(out, trailer->offset);
    write_u64(out + 8, trailer->length);
    write_u64(out + 16, trailer->hash);
    memcpy(out + 24, magic, sizeof magic);
}

const char *sc_program_trailer_read(const void *file, size_t size, sc_program_trailer *out)
{
    const uint8_t *bytes = file;
    if (size < SC_PROGRAM_TRAILER_BYTES || memcmp(bytes + size - sizeof magic, magic, sizeof magic) != 0)
        return "it has no program: its end is missing, or 'shardc build' did not make it";
    bytes += size - SC_PROGRAM_TRAILER_BYTES;
    *out = (sc_program_trailer){read_u64(bytes), read_u64(bytes + 8), read_u64(bytes + 16)};
    size -= SC_PROGRAM_TRAILER_BYTES;
    if (out->length > size || out->offset != size - out->length)
        return "its program is not where it says";
    if (sc_fnv1a64((const char *)file + out->offset, (size_t)out->length) != out->hash)
        return "its program is damaged";
    return NULL;
}
