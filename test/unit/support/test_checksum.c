/* Checksums of files: the algorithm's published values, the same however the bytes come, and any
 * flipped bit is seen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "support/checksum.h"

static void published_values(void **state)
{
    (void)state;
    assert_true(sc_checksum_of("", 0) == 0xef46db3751d8e999);
    assert_true(sc_checksum_of("a", 1) == 0xd24ec4f1a98c6e5b);
    assert_true(sc_checksum_of("abc", 3) == 0x44bc2cf5ad770999);
    /* of the python binding's documentation */
    const char *text = "Nobody inspects the spammish repetition";
    assert_true(sc_checksum_of(text, strlen(text)) == 0xfbcea83c8a378bf1);
}

static void pieces_do_not_matter(void **state)
{
    unsigned char bytes[203];
    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 37 + 11);
    uint64_t whole = sc_checksum_of(bytes, sizeof bytes);
    for (size_t cut = 0; cut <= sizeof bytes; cut++) {
        sc_checksum sum;
        sc_checksum_begin(&sum);
        sc_checksum_add(&sum, bytes, cut / 3);
        sc_checksum_add(&sum, bytes + cut / 3, cut - cut / 3);
        sc_checksum_add(&sum, bytes + cut, sizeof bytes - cut);
        assert_true(sc_checksum_value(&sum) == whole);
    }
}

static void flipped_bits_are_seen(void **state)
{
    unsigned char bytes[101] = {0};
    (void)state;
    uint64_t whole = sc_checksum_of(bytes, sizeof bytes);
    for (size_t bit = 0; bit < 8 * sizeof bytes; bit++) {
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
        assert_true(sc_checksum_of(bytes, sizeof bytes) != whole);
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(published_values),
                                       cmocka_unit_test(pieces_do_not_matter),
                                       cmocka_unit_test(flipped_bits_are_seen)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
