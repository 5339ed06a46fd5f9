/* An entry is 8 bytes length of the name including its zero byte, 8 bytes size, both little-endian,
 * then the name and the piece, each zero-padded to a multiple of SC_ARCHIVE_ALIGN. */
#include "program/archive.h"

#include <string.h>

enum { HEAD = 16 };

static size_t filled(size_t size)
{
    return (size + SC_ARCHIVE_ALIGN - 1) / SC_ARCHIVE_ALIGN * SC_ARCHIVE_ALIGN;
}

static void put_word(sc_strbuf *out, uint64_t value)
{
    for (unsigned i = 0; i < 8; i++)
        sc_strbuf_add_char(out, (char)(value >> 8 * i));
}

static void put_filled(sc_strbuf *out, const void *bytes, size_t size)
{
    sc_strbuf_add_bytes(out, bytes, size);
    for (size_t i = size; i < filled(size); i++)
        sc_strbuf_add_char(out, 0);
}

void sc_archive_write(const sc_archive_entry *entries, uint32_t count, sc_strbuf *out)
{
    for (uint32_t i = 0; i < count; i++) {
        size_t name = strlen(entries[i].name) + 1;
        put_word(out, name);
        put_word(out, entries[i].size);
        put_filled(out, entries[i].name, name);
        put_filled(out, entries[i].bytes, entries[i].size);
    }
}

static uint64_t word(const unsigned char *bytes)
{
    uint64_t value = 0;
    for (unsigned i = 8; i-- > 0;)
        value = value << 8 | bytes[i];
    return value;
}

bool sc_archive_next(const void *bytes, size_t size, size_t *cursor, sc_archive_entry *out,
                     bool *out_broken)
{
    const unsigned char *at = (const unsigned char *)bytes + *cursor;
    size_t left = size - *cursor;
    *out_broken = left != 0;
    if (left < HEAD)
        return false;
    uint64_t name = word(at), piece = word(at + 8);
    left -= HEAD;
    if (name < 2 || name > left || filled(name) > left || piece > left - filled(name) ||
        filled(piece) > left - filled(name) || memchr(at + HEAD, 0, name) != at + HEAD + name - 1)
        return false;
    *out_broken = false;
    *out = (sc_archive_entry){(const char *)at + HEAD, at + HEAD + filled(name), piece};
    *cursor += HEAD + filled(name) + filled(piece);
    return true;
}

bool sc_archive_find(const void *bytes, size_t size, const char *name, sc_archive_entry *out)
{
    size_t cursor = 0;
    bool is_broken;
    while (sc_archive_next(bytes, size, &cursor, out, &is_broken)) {
        if (strcmp(out->name, name) == 0)
            return true;
    }
    return false;
}
