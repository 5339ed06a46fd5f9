/* Numbers in environment variables: read whole, or refused by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "support/environment.h"

typedef struct reading {
    const char *text;
    int64_t least, most, value;
} reading;

static void what_is_a_number(void **state)
{
    (void)state;
    static const reading readings[] = {{"0", 0, 5, 0},
                                       {"5", 0, 5, 5},
                                       {"00005", 0, 5, 5},
                                       {"-3", -3, 5, -3},
                                       {"9223372036854775807", 0, INT64_MAX, INT64_MAX},
                                       {"-9223372036854775808", INT64_MIN, 0, INT64_MIN}};
    for (size_t i = 0; i < sizeof readings / sizeof *readings; i++) {
        const reading *r = &readings[i];
        char why[SC_ENVIRONMENT_WHY];
        int64_t value = 77;
        setenv("SHARDC_TEST_NUMBER", r->text, 1);
        if (!sc_environment_i64("SHARDC_TEST_NUMBER", r->least, r->most, &value, why))
            fail_msg("%s", why);
        assert_int_equal(value, r->value);
    }
    unsetenv("SHARDC_TEST_NUMBER");
}

static void what_is_none(void **state)
{
    (void)state;
    static const char *const texts[] = {"6",
                                        "-1",
                                        "+1",
                                        " 1",
                                        "1 ",
                                        "1.5",
                                        "1e3",
                                        "0x1",
                                        "x",
                                        "-",
                                        "4294967296",
                                        "18446744073709551617",
                                        "99999999999999999999999999999",
                                        "-9223372036854775809"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char why[SC_ENVIRONMENT_WHY], wanted[SC_ENVIRONMENT_WHY] = "SHARDC_TEST_NUMBER is '";
        int64_t value = 77;
        setenv("SHARDC_TEST_NUMBER", texts[i], 1);
        if (sc_environment_i64("SHARDC_TEST_NUMBER", 0, 5, &value, why))
            fail_msg("'%s' is %lld", texts[i], (long long)value);
        assert_int_equal(value, 77);
        strcat(wanted, texts[i]);
        strcat(wanted, "': not a number from 0 to 5");
        assert_string_equal(why, wanted);
    }
    unsetenv("SHARDC_TEST_NUMBER");
}

static void what_is_not_set_stays(void **state)
{
    (void)state;
    char why[SC_ENVIRONMENT_WHY];
    int64_t value = 77;
    unsetenv("SHARDC_TEST_NUMBER");
    assert_true(sc_environment_i64("SHARDC_TEST_NUMBER", 0, 5, &value, why));
    assert_null(sc_environment_text("SHARDC_TEST_NUMBER"));
    setenv("SHARDC_TEST_NUMBER", "", 1);
    assert_true(sc_environment_i64("SHARDC_TEST_NUMBER", 0, 5, &value, why));
    assert_null(sc_environment_text("SHARDC_TEST_NUMBER"));
    assert_int_equal(value, 77);
    unsetenv("SHARDC_TEST_NUMBER");
}

static void a_long_value_is_cut_in_the_message(void **state)
{
    (void)state;
    char why[SC_ENVIRONMENT_WHY], text[1000];
    int64_t value = 0;
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = 0;
    assert_false(sc_environment_number("NAME", text, 0, 5, &value, why));
    assert_non_null(strstr(why, "aa..': not a number from 0 to 5"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_a_number),
                                       cmocka_unit_test(what_is_none),
                                       cmocka_unit_test(what_is_not_set_stays),
                                       cmocka_unit_test(a_long_value_is_cut_in_the_message)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
