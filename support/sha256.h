/* SHA-256 (FIPS 180-4) and HMAC-SHA-256 (RFC 2104), which proves knowledge of a secret without
 * revealing it. */
#ifndef SHARDC_SUPPORT_SHA256_H
#define SHARDC_SUPPORT_SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SC_SHA256_BYTES = 32 };

typedef struct sc_sha256 {
    uint32_t state[8];
    uint64_t length; /* bytes so far */
    uint8_t block[64];
} sc_sha256;

void sc_sha256_begin(sc_sha256 *hash);
void sc_sha256_add(sc_sha256 *hash, const void *bytes, size_t length);
void sc_sha256_end(sc_sha256 *hash, uint8_t out[SC_SHA256_BYTES]);

typedef struct sc_hmac {
    sc_sha256 inner, outer;
} sc_hmac;

/* The key may have any length. */
void sc_hmac_begin(sc_hmac *mac, const void *key, size_t length);
void sc_hmac_add(sc_hmac *mac, const void *bytes, size_t length);
void sc_hmac_end(sc_hmac *mac, uint8_t out[SC_SHA256_BYTES]);

/* Compares in constant time. */
bool sc_sha256_equal(const uint8_t a[SC_SHA256_BYTES], const uint8_t b[SC_SHA256_BYTES]);

#endif
