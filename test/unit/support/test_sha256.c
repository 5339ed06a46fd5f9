/* Known answers: FIPS 180-4's examples and RFC 4231's cases, whole and in pieces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "support/sha256.h"

static void to_text(const uint8_t *digest, char *out)
{
    for (int i = 0; i < SC_SHA256_BYTES; i++)
        snprintf(out + 2 * i, 3, "%02x", digest[i]);
}

static void digests_are_those_of_the_standard(void **state)
{
    (void)state;
    static const struct {
        const char *text, *digest;
        int repeat;
    } cases[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", 1},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", 1},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1", 1},
        {"a", "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0", 1000000},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t digest[SC_SHA256_BYTES];
        char text[2 * SC_SHA256_BYTES + 1];
        sc_sha256 hash;
        sc_sha256_begin(&hash);
        for (int k = 0; k < cases[i].repeat; k++)
            sc_sha256_add(&hash, cases[i].text, strlen(cases[i].text));
        sc_sha256_end(&hash, digest);
        to_text(digest, text);
        assert_string_equal(text, cases[i].digest);
    }
}

static void codes_are_those_of_the_standard(void **state)
{
    (void)state;
    uint8_t keys[3][131], code[SC_SHA256_BYTES], other[SC_SHA256_BYTES];
    memset(keys[0], 0x0b, 20);
    memcpy(keys[1], "Jefe", 4);
    memset(keys[2], 0xaa, 131);
    static const struct {
        size_t key_length;
        const char *text, *code;
    } cases[] = {
        {20, "Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
        {4, "what do ya want for nothing?",
         "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
        {131, "Test Using Larger Than Block-Size Key - Hash Key First",
         "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"},
    };
    for (size_t i = 0; i < 3; i++) {
        char text[2 * SC_SHA256_BYTES + 1];
        sc_hmac mac;
        sc_hmac_begin(&mac, keys[i], cases[i].key_length);
        for (const char *at = cases[i].text; *at != 0; at++)
            sc_hmac_add(&mac, at, 1);
        sc_hmac_end(&mac, code);
        to_text(code, text);
        assert_string_equal(text, cases[i].code);
    }
    memcpy(other, code, sizeof other);
    assert_true(sc_sha256_equal(code, other));
    other[31] ^= 1;
    assert_false(sc_sha256_equal(code, other));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(digests_are_those_of_the_standard),
        cmocka_unit_test(codes_are_those_of_the_standard),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
