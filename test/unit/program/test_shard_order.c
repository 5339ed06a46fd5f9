/* How shards lie in a dim: every element is in one shard, positions and places are each other's
 * reverse, and a zigzag makes causal work even. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "program/shard_order.h"

enum { MOST = 512 };

/* Checks that the shards of a dim of this size hold each element once, in ascending runs. */
static void check_order(const sc_shard_order *order, int64_t size)
{
    int64_t shards = order->outer * order->members * order->inner, local = size / shards;
    int seen[MOST] = {0};
    for (int64_t shard = 0; shard < shards; shard++) {
        int64_t before = -1;
        for (int64_t i = 0; i < local; i++) {
            int64_t position = sc_shard_position(order, shard, local, i);
            assert_true(position > before && position < size);
            assert_int_equal(sc_shard_find(order, shard, local, position), i);
            seen[position]++;
            before = position;
        }
    }
    for (int64_t i = 0; i < size; i++)
        assert_int_equal(seen[i], 1);
}

static void every_element_is_in_one_shard(void **state)
{
    (void)state;
    for (int64_t outer = 1; outer <= 3; outer++) {
        for (int64_t members = 1; members <= 5; members++) {
            for (int64_t inner = 1; inner <= 4; inner++) {
                sc_shard_order order = {outer, members, inner};
                for (int64_t chunk = 1; chunk <= 3; chunk++)
                    check_order(&order, 2 * outer * members * inner * chunk);
            }
        }
    }
}

static void others_do_not_have_it(void **state)
{
    (void)state;
    sc_shard_order order = {1, 3, 1};
    assert_int_equal(sc_shard_find(&order, 0, 4, 2), -1);
    assert_int_equal(sc_shard_find(&order, 0, 4, 11), 3);
    assert_int_equal(sc_shard_find(&order, 1, 4, 2), 0);
    assert_int_equal(sc_shard_find(&order, 2, 4, 0), -1);
}

/* Pairs of a query and a key that is not behind it: the same number on every member, S (S + 1) /
 * (2 n). Contiguous shards have from 1 / n to 2 - 1 / n times as many. */
static void causal_work_is_even(void **state)
{
    (void)state;
    for (int64_t members = 1; members <= 8; members++) {
        for (int64_t chunk = 1; chunk <= 6; chunk++) {
            int64_t local = 2 * chunk, size = local * members;
            sc_shard_order order = {1, members, 1};
            for (int64_t member = 0; member < members; member++) {
                int64_t pairs = 0;
                for (int64_t i = 0; i < local; i++)
                    pairs += sc_shard_position(&order, member, local, i) + 1;
                assert_int_equal(2 * members * pairs, size * (size + 1));
            }
        }
    }
}

/* Some of a zigzag's members, and the others within what these hold, are the whole zigzag. */
static void zigzags_nest(void **state)
{
    (void)state;
    enum { MAJOR = 3, MINOR = 2, LOCAL = 4, SIZE = MAJOR * MINOR * LOCAL };
    const sc_shard_order all = {1, MAJOR * MINOR, 1}, major = {1, MAJOR, 1}, minor = {1, MINOR, 1};
    for (int64_t a = 0; a < MAJOR; a++) {
        for (int64_t b = 0; b < MINOR; b++) {
            for (int64_t i = 0; i < LOCAL; i++) {
                int64_t within = sc_shard_position(&minor, b, LOCAL, i);
                assert_int_equal(sc_shard_position(&major, a, SIZE / MAJOR, within),
                                 sc_shard_position(&all, a * MINOR + b, LOCAL, i));
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_element_is_in_one_shard),
        cmocka_unit_test(others_do_not_have_it),
        cmocka_unit_test(causal_work_is_even),
        cmocka_unit_test(zigzags_nest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
