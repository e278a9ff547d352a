#include <string.h>

#include "base/status.h"
#include "qb_test.h"

static void every_status_has_its_own_text(void **state) {
    (void)state;
    for (int i = 0; i < QB_STATUS_COUNT; i++) {
        const char *text = qb_status_text((qb_status)i);
        assert_non_null(text);
        assert_true(strlen(text) > 1);
        for (int j = 0; j < i; j++) assert_string_not_equal(text, qb_status_text((qb_status)j));
    }
    assert_string_equal(qb_status_text(QB_STATUS_MISMATCH), "artifacts do not belong together");
}

static void values_outside_the_enumeration_have_a_text(void **state) {
    (void)state;
    assert_string_equal(qb_status_text((qb_status)-1), "unknown status");
    assert_string_equal(qb_status_text(QB_STATUS_COUNT), "unknown status");
    assert_string_equal(qb_status_text((qb_status)100000), "unknown status");
}

static void ok_is_zero(void **state) {
    (void)state;
    assert_int_equal(QB_OK, 0);
    assert_int_equal(QB_STATUS_OK, QB_OK);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_status_has_its_own_text),
    cmocka_unit_test(values_outside_the_enumeration_have_a_text),
    cmocka_unit_test(ok_is_zero),
};
QB_TEST_MAIN(tests)
