/* Marks of an arena: what is asked for behind a mark is freed, what stood before it stays, and
 * memory that comes again is zero. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "support/arena.h"

enum { SMALL = 100, LARGE = 1 << 20, MANY = 5000 };

static void no_memory(void *user)
{
    (void)user;
    fail();
}

static void all_zero(const char *block, size_t size)
{
    for (size_t i = 0; i < size; i++)
        assert_int_equal(block[i], 0);
}

static void *taken(sc_arena *arena, size_t size)
{
    void *block = sc_arena_alloc(arena, size);
    all_zero(block, size);
    memset(block, 0xab, size);
    return block;
}

static void released_memory_comes_again_as_zeros(void **state)
{
    (void)state;
    sc_arena own, *arena = &own;
    sc_arena_init(arena, no_memory, NULL);
    char *before = taken(arena, SMALL);
    const size_t total = arena->total;
    for (int round = 0; round < 3; round++) {
        const sc_arena_mark mark = sc_arena_mark_here(arena);
        char *first = taken(arena, SMALL);
        for (int i = 0; i < MANY; i++)
            taken(arena, SMALL);
        taken(arena, LARGE);
        sc_arena_release(arena, mark);
        assert_int_equal(arena->total, total);
        assert_ptr_equal(sc_arena_alloc(arena, SMALL), first);
        all_zero(first, SMALL);
        sc_arena_release(arena, mark);
    }
    for (int i = 0; i < SMALL; i++)
        assert_int_equal((unsigned char)before[i], 0xab);
    sc_arena_free(arena);
}

static void marks_nest(void **state)
{
    (void)state;
    sc_arena own, *arena = &own;
    sc_arena_init(arena, no_memory, NULL);
    const sc_arena_mark outer = sc_arena_mark_here(arena);
    unsigned char *kept = taken(arena, SMALL);
    const sc_arena_mark inner = sc_arena_mark_here(arena);
    taken(arena, LARGE);
    sc_arena_release(arena, inner);
    for (int i = 0; i < SMALL; i++)
        assert_int_equal(kept[i], 0xab);
    sc_arena_release(arena, outer);
    assert_int_equal(arena->total, 0);
    taken(arena, LARGE);
    sc_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(released_memory_comes_again_as_zeros),
                                       cmocka_unit_test(marks_nest)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
