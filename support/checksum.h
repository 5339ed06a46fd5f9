/* XXH64 with seed 0, for files: detects damage, not tampering. Algorithm:
 * https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md */
#ifndef SHARDC_SUPPORT_CHECKSUM_H
#define SHARDC_SUPPORT_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

typedef struct sc_checksum {
    uint64_t lanes[4];
    uint64_t length; /* bytes so far */
    uint8_t block[32];
} sc_checksum;

void sc_checksum_begin(sc_checksum *sum);
void sc_checksum_add(sc_checksum *sum, const void *bytes, size_t length);
/* Returns the checksum so far; more bytes may be added afterwards. */
uint64_t sc_checksum_value(const sc_checksum *sum);

uint64_t sc_checksum_of(const void *bytes, size_t length);

#endif
