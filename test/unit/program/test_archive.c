/* Archives: what goes in comes out, and no bytes lead the reader outside. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "program/archive.h"
#include "support/arena.h"

static void on_no_memory(void *user)
{
    (void)user;
    abort();
}

static const sc_archive_entry entries[] = {{"k_0123456789abcdef", "one", 3},
                                           {"a", "", 0},
                                           {"sixteen bytes..", "0123456789abcdef", 16},
                                           {"b", "x\0y", 4}};
enum { COUNT = sizeof entries / sizeof *entries };

static void what_goes_in_comes_out(void **state)
{
    (void)state;
    sc_arena arena;
    sc_strbuf out;
    sc_archive_entry entry;
    bool broken;
    size_t cursor = 0;
    sc_arena_init(&arena, on_no_memory, NULL);
    sc_strbuf_init(&out, &arena);
    sc_archive_write(entries, COUNT, &out);
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_true(sc_archive_next(out.data, out.length, &cursor, &entry, &broken));
        assert_string_equal(entry.name, entries[i].name);
        assert_int_equal(entry.size, entries[i].size);
        assert_memory_equal(entry.bytes, entries[i].bytes, entry.size);
        assert_int_equal(((const char *)entry.bytes - out.data) % SC_ARCHIVE_ALIGN, 0);
        assert_true(sc_archive_find(out.data, out.length, entries[i].name, &entry));
        assert_memory_equal(entry.bytes, entries[i].bytes, entry.size);
    }
    assert_false(sc_archive_next(out.data, out.length, &cursor, &entry, &broken));
    assert_false(broken);
    assert_false(sc_archive_find(out.data, out.length, "c", &entry));
    sc_arena_free(&arena);
}

/* Every prefix, in memory of exactly its size, and every byte changed: either pieces inside, or
 * "broken". */
static void broken_bytes_are_refused(void **state)
{
    (void)state;
    sc_arena arena;
    sc_strbuf out;
    sc_arena_init(&arena, on_no_memory, NULL);
    sc_strbuf_init(&out, &arena);
    sc_archive_write(entries, COUNT, &out);
    uint32_t refused = 0;
    for (size_t i = 0; i < 2 * out.length; i++) {
        size_t size = i < out.length ? i : out.length, cursor = 0;
        unsigned char *bytes = malloc(size + 1);
        sc_archive_entry entry;
        bool broken = false;
        memcpy(bytes, out.data, size);
        if (i >= out.length)
            bytes[i - out.length] ^= 0x81;
        while (sc_archive_next(bytes, size, &cursor, &entry, &broken)) {
            const unsigned char *from = entry.bytes;
            assert_true(from >= bytes && from + entry.size <= bytes + size && cursor <= size);
        }
        refused += broken;
        free(bytes);
    }
    assert_true(refused > out.length);
    sc_arena_free(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_goes_in_comes_out),
                                       cmocka_unit_test(broken_bytes_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
