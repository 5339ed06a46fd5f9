#include "support/checksum.h"

#include <string.h>

enum { BLOCK = 32 };

static const uint64_t prime1 = 0x9e3779b185ebca87, prime2 = 0xc2b2ae3d27d4eb4f,
                      prime3 = 0x165667b19e3779f9, prime4 = 0x85ebca77c2b2ae63,
                      prime5 = 0x27d4eb2f165667c5;

static uint64_t rotate(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

/* Little-endian, like every supported machine. */
static uint64_t read_64(const uint8_t *bytes)
{
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    return word;
}

static uint64_t read_32(const uint8_t *bytes)
{
    uint32_t word;
    memcpy(&word, bytes, sizeof word);
    return word;
}

static uint64_t step(uint64_t lane, uint64_t word)
{
    return rotate(lane + word * prime2, 31) * prime1;
}

static void add_block(uint64_t lanes[4], const uint8_t *block)
{
    for (int i = 0; i < 4; i++)
        lanes[i] = step(lanes[i], read_64(block + 8 * i));
}

void sc_checksum_begin(sc_checksum *sum)
{
    *sum = (sc_checksum){.lanes = {prime1 + prime2, prime2, 0, 0 - prime1}};
}

void sc_checksum_add(sc_checksum *sum, const void *bytes, size_t length)
{
    const uint8_t *at = bytes;
    size_t held = sum->length % BLOCK;
    sum->length += length;
    if (held + length < BLOCK) {
        if (length > 0)
            memcpy(sum->block + held, at, length);
        return;
    }
    if (held > 0) {
        memcpy(sum->block + held, at, BLOCK - held);
        add_block(sum->lanes, sum->block);
        at += BLOCK - held;
        length -= BLOCK - held;
    }
    for (; length >= BLOCK; at += BLOCK, length -= BLOCK)
        add_block(sum->lanes, at);
    if (length > 0)
        memcpy(sum->block, at, length);
}

static uint64_t join_lanes(const uint64_t lanes[4])
{
    uint64_t value =
        rotate(lanes[0], 1) + rotate(lanes[1], 7) + rotate(lanes[2], 12) + rotate(lanes[3], 18);
    for (int i = 0; i < 4; i++)
        value = (value ^ step(0, lanes[i])) * prime1 + prime4;
    return value;
}

uint64_t sc_checksum_value(const sc_checksum *sum)
{
    uint64_t value = sum->length >= BLOCK ? join_lanes(sum->lanes) : prime5;
    const uint8_t *at = sum->block, *end = at + sum->length % BLOCK;
    value += sum->length;
    for (; end - at >= 8; at += 8)
        value = rotate(value ^ step(0, read_64(at)), 27) * prime1 + prime4;
    for (; end - at >= 4; at += 4)
        value = rotate(value ^ read_32(at) * prime1, 23) * prime2 + prime3;
    for (; at < end; at++)
        value = rotate(value ^ *at * prime5, 11) * prime1;
    value = (value ^ value >> 33) * prime2;
    value = (value ^ value >> 29) * prime3;
    return value ^ value >> 32;
}

uint64_t sc_checksum_of(const void *bytes, size_t length)
{
    sc_checksum sum;
    sc_checksum_begin(&sum);
    sc_checksum_add(&sum, bytes, length);
    return sc_checksum_value(&sum);
}
