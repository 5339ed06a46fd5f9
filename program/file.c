#include "program/file.h"

#include <string.h>

#include "support/hash.h"

static const char magic[8] = {'s', 'h', 'a', 'r', 'd', 'c', 'p', '2'};

enum { AT_OFFSET = 0, AT_LENGTH = 8, AT_HASH = 16, AT_MAGIC = 24 };

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

bool sc_program_has_trailer(const void *file, size_t size)
{
    return size >= SC_PROGRAM_TRAILER_BYTES &&
           memcmp((const uint8_t *)file + size - sizeof magic, magic, sizeof magic) == 0;
}

bool sc_program_file_write(FILE *out, const void *stub, size_t stub_size, const void *image,
                           size_t image_size)
{
    uint8_t trailer[SC_PROGRAM_TRAILER_BYTES];
    write_u64(trailer + AT_OFFSET, stub_size);
    write_u64(trailer + AT_LENGTH, image_size);
    uint64_t hash = sc_fnv1a64_more(sc_fnv1a64(stub, stub_size), image, image_size);
    write_u64(trailer + AT_HASH, sc_fnv1a64_more(hash, trailer, AT_HASH));
    memcpy(trailer + AT_MAGIC, magic, sizeof magic);
    return fwrite(stub, 1, stub_size, out) == stub_size &&
           fwrite(image, 1, image_size, out) == image_size &&
           fwrite(trailer, 1, sizeof trailer, out) == sizeof trailer;
}

const char *sc_program_trailer_read(const void *file, size_t size, sc_program_trailer *out)
{
    if (!sc_program_has_trailer(file, size))
        return "it has no program: its end is missing, or 'shardc build' did not write it";
    const uint8_t *trailer = (const uint8_t *)file + size - SC_PROGRAM_TRAILER_BYTES;
    *out = (sc_program_trailer){read_u64(trailer + AT_OFFSET), read_u64(trailer + AT_LENGTH),
                                read_u64(trailer + AT_HASH)};
    if (sc_fnv1a64(file, size - SC_PROGRAM_TRAILER_BYTES + AT_HASH) != out->hash)
        return "it is damaged: its hash does not match";
    size -= SC_PROGRAM_TRAILER_BYTES;
    return out->length > size || out->offset != size - out->length
               ? "its program is not at the offset that it gives"
               : NULL;
}
