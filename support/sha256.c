#include "support/sha256.h"

#include <string.h>

enum { BLOCK = 64, ROUNDS = 64 };

/* FIPS 180-4, section 4.2.2: the first 32 bits of the fractions of the cube roots of the first 64
 * primes. */
static const uint32_t round_constants[ROUNDS] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate(uint32_t x, int by)
{
    return x >> by | x << (32 - by);
}

static uint32_t read_word(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static void write_word(uint8_t *bytes, uint32_t word)
{
    for (int i = 0; i < 4; i++)
        bytes[i] = (uint8_t)(word >> (24 - 8 * i));
}

/* Section 6.2.2. */
static void compress(uint32_t state[8], const uint8_t *block)
{
    uint32_t w[ROUNDS], a = state[0], b = state[1], c = state[2], d = state[3], e = state[4],
                        f = state[5], g = state[6], h = state[7];
    for (int t = 0; t < 16; t++)
        w[t] = read_word(block + 4 * t);
    for (int t = 16; t < ROUNDS; t++) {
        uint32_t low = rotate(w[t - 15], 7) ^ rotate(w[t - 15], 18) ^ w[t - 15] >> 3;
        uint32_t high = rotate(w[t - 2], 17) ^ rotate(w[t - 2], 19) ^ w[t - 2] >> 10;
        w[t] = w[t - 16] + low + w[t - 7] + high;
    }
    for (int t = 0; t < ROUNDS; t++) {
        uint32_t one = h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & f) ^ (~e & g)) +
                       round_constants[t] + w[t];
        uint32_t two =
            (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        h = g;
        g = f;
        f = e;
        e = d + one;
        d = c;
        c = b;
        b = a;
        a = one + two;
    }
    const uint32_t after[8] = {a, b, c, d, e, f, g, h};
    for (int i = 0; i < 8; i++)
        state[i] += after[i];
}

void sc_sha256_begin(sc_sha256 *hash)
{
    static const uint32_t first[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(hash->state, first, sizeof first);
    hash->length = 0;
}

void sc_sha256_add(sc_sha256 *hash, const void *bytes, size_t length)
{
    const uint8_t *at = bytes;
    for (size_t i = 0; i < length; i++) {
        hash->block[hash->length++ % BLOCK] = at[i];
        if (hash->length % BLOCK == 0)
            compress(hash->state, hash->block);
    }
}

void sc_sha256_end(sc_sha256 *hash, uint8_t out[SC_SHA256_BYTES])
{
    static const uint8_t one = 0x80, zero = 0;
    uint64_t bits = hash->length * 8;
    uint8_t length[8];
    write_word(length, (uint32_t)(bits >> 32));
    write_word(length + 4, (uint32_t)bits);
    sc_sha256_add(hash, &one, 1);
    while (hash->length % BLOCK != BLOCK - sizeof length)
        sc_sha256_add(hash, &zero, 1);
    sc_sha256_add(hash, length, sizeof length);
    for (int i = 0; i < 8; i++)
        write_word(out + 4 * i, hash->state[i]);
}

void sc_hmac_begin(sc_hmac *mac, const void *key, size_t length)
{
    uint8_t block[BLOCK] = {0}, inner[BLOCK], outer[BLOCK];
    if (length > BLOCK) {
        sc_sha256 hash;
        sc_sha256_begin(&hash);
        sc_sha256_add(&hash, key, length);
        sc_sha256_end(&hash, block);
    } else if (length > 0) {
        memcpy(block, key, length);
    }
    for (int i = 0; i < BLOCK; i++) {
        inner[i] = block[i] ^ 0x36;
        outer[i] = block[i] ^ 0x5c;
    }
    sc_sha256_begin(&mac->inner);
    sc_sha256_add(&mac->inner, inner, BLOCK);
    sc_sha256_begin(&mac->outer);
    sc_sha256_add(&mac->outer, outer, BLOCK);
}

void sc_hmac_add(sc_hmac *mac, const void *bytes, size_t length)
{
    sc_sha256_add(&mac->inner, bytes, length);
}

void sc_hmac_end(sc_hmac *mac, uint8_t out[SC_SHA256_BYTES])
{
    sc_sha256_end(&mac->inner, out);
    sc_sha256_add(&mac->outer, out, SC_SHA256_BYTES);
    sc_sha256_end(&mac->outer, out);
}

bool sc_sha256_equal(const uint8_t a[SC_SHA256_BYTES], const uint8_t b[SC_SHA256_BYTES])
{
    uint8_t differs = 0;
    for (int i = 0; i < SC_SHA256_BYTES; i++)
        differs |= a[i] ^ b[i];
    return differs == 0;
}
