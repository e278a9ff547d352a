#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/opt.h"
#include "qb_test.h"

typedef struct options {
    bool quiet, verbose, samples_given;
    int64_t samples, axis;
    double drop;
    const char *data, *shapes, *batches;
    qb_opt_list method;
} options;

static const qb_opt table[] = {
    QB_FLAG(options, "quiet", quiet, "no progress", .letter = 'q'),
    QB_FLAG(options, "verbose", verbose, "more messages", .letter = 'v'),
    QB_INT(
        options, "samples", samples, "N", 1, 1000000,
        "images to read, and a text so long that it has to be broken into lines to stay readable",
        .letter = 'n', .given_offset = offsetof(options, samples_given)),
    QB_INT(options, "axis", axis, "N", 0, 0, NULL),
    QB_DOUBLE(options, "max-drop", drop, "PERCENT", 0, INFINITY, "allowed loss"),
    QB_TEXT(options, "data", data, "FOLDER", "images", .letter = 'd'),
    QB_LIST(options, "method", method, "NAME", "calibration method", .letter = 'm'),
    QB_TEXT(options, "shapes", shapes, "NAME:AxB,...", "sizes"),
    QB_TEXT(options, "batches", batches, "LIST", "sizes"),
    QB_TEXT(options, "config", data, "FILE", "settings", .or_none = true),
    QB_FLAG(options, "no-color", verbose, "plain text"),
    QB_TEXT(options, "a-rather-long-option-name", data, NULL, "x"),
    {0},
};

typedef struct fixture {
    qb_ctx cx;
    options o;
    qb_opt_list rest;
} fixture;

static int setup(void **state) {
    static fixture f;
    memset(&f, 0, sizeof f);
    qb_ctx_init(&f.cx);
    f.o.samples = 500;
    *state = &f;
    return 0;
}

#define MAX_WORDS 16
/* Parses the words of one line, separated by single spaces. */
static qb_status parse(fixture *f, const char *line) {
    static char copy[1024];
    static char *argv[MAX_WORDS + 2];
    int argc = 1;
    argv[0] = (char[]){"qbench"};
    snprintf(copy, sizeof copy, "%s", line);
    for (char *p = copy; *p && argc <= MAX_WORDS;) {
        argv[argc++] = p;
        p += strcspn(p, " ");
        if (*p) *p++ = '\0';
    }
    argv[argc] = NULL;
    return qb_opt_parse(&f->cx, table, NULL, argc, argv, &f->o, &f->rest);
}

static void all_spellings_mean_the_same(void **state) {
    fixture *f = *state;
    static const char *const lines[] = {"--samples 20", "--samples=20", "-n 20",
                                        "-n20",         "-qn20",        "--samples 10 --samples 20",
                                        "--samples +20"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        f->o.samples = 500;
        f->o.samples_given = false;
        assert_ok(&f->cx, parse(f, lines[i]));
        assert_int_equal(f->o.samples, 20);
        assert_true(f->o.samples_given);
    }
    assert_int_equal(f->rest.n, 0);
}

static void defaults_stay_without_options(void **state) {
    fixture *f = *state;
    assert_ok(&f->cx, parse(f, ""));
    assert_int_equal(f->o.samples, 500);
    assert_false(f->o.samples_given);
    assert_null(f->o.data);
    assert_int_equal(f->rest.n, 0);
}

static void flags_can_be_switched_and_bundled(void **state) {
    fixture *f = *state;
    assert_ok(&f->cx, parse(f, "-qv"));
    assert_true(f->o.quiet && f->o.verbose);
    assert_ok(&f->cx, parse(f, "--no-quiet --verbose --no-verbose"));
    assert_false(f->o.quiet || f->o.verbose);
    assert_ok(&f->cx, parse(f, "--no-color")); /* a name of its own */
    assert_true(f->o.verbose);
    assert_ok(&f->cx, parse(f, "--no-no-color"));
    assert_false(f->o.verbose);
    assert_fails(&f->cx, parse(f, "--quiet=yes"), QB_STATUS_USAGE);
    assert_message(&f->cx, "--quiet: expected no value, got 'yes'");
    assert_fails(&f->cx, parse(f, "--no-samples"), QB_STATUS_USAGE);
}

static void positional_arguments_mix_with_options(void **state) {
    fixture *f = *state;
    assert_ok(&f->cx, parse(f, "fp32 -d dir fp16 - -- int8 --quiet --"));
    assert_int_equal(f->rest.n, 6);
    assert_string_equal(f->rest.item[0], "fp32");
    assert_string_equal(f->rest.item[1], "fp16");
    assert_string_equal(f->rest.item[2], "-");
    assert_string_equal(f->rest.item[3], "int8");
    assert_string_equal(f->rest.item[4], "--quiet");
    assert_string_equal(f->rest.item[5], "--");
    assert_false(f->o.quiet);
    assert_string_equal(f->o.data, "dir");
}

static void command_without_arguments_refuses_them(void **state) {
    fixture *f = *state;
    char program[] = "qbench", word[] = "model.onnx";
    char *argv[] = {program, word, NULL};
    assert_fails(&f->cx, qb_opt_parse(&f->cx, table, NULL, 2, argv, &f->o, NULL), QB_STATUS_USAGE);
    assert_message(&f->cx, "model.onnx");
}

static void lists_gather_in_order(void **state) {
    fixture *f = *state;
    assert_ok(&f->cx, parse(f, "-m entropy --method=minmax --method percentile"));
    assert_int_equal(f->o.method.n, 3);
    assert_string_equal(f->o.method.item[0], "entropy");
    assert_string_equal(f->o.method.item[1], "minmax");
    assert_string_equal(f->o.method.item[2], "percentile");
    f->o.method.n = QB_OPT_LIST_MAX;
    assert_fails(&f->cx, parse(f, "-m one-too-many"), QB_STATUS_USAGE);
    assert_message(&f->cx, "at most");
}

static void values_may_look_odd(void **state) {
    fixture *f = *state;
    assert_ok(&f->cx, parse(f, "--axis -1 --max-drop 1e-3"));
    assert_int_equal(f->o.axis, -1);
    assert_float_equal(f->o.drop, 1e-3, 0);
    assert_ok(&f->cx, parse(f, "--data a=b"));
    assert_string_equal(f->o.data, "a=b");
    assert_ok(&f->cx, parse(f, "--data=x=y"));
    assert_string_equal(f->o.data, "x=y");
    assert_ok(&f->cx, parse(f, "--data --unknown")); /* a folder may be called so */
    assert_string_equal(f->o.data, "--unknown");
    assert_ok(&f->cx, parse(f, "--data=--quiet"));
    assert_string_equal(f->o.data, "--quiet");
    assert_ok(&f->cx, parse(f, "--data -"));
    assert_string_equal(f->o.data, "-");
    assert_ok(&f->cx, parse(f, "--axis 9223372036854775807"));
    assert_true(f->o.axis == INT64_MAX);
}

/* --data "$UNSET" */
static void empty_texts_are_refused(void **state) {
    fixture *f = *state;
    for (int i = 0; i < 3; i++) {
        const char *lines[] = {"--data=", "--method=", "--shapes=1 --a-rather-long-option-name="};
        const char *texts[] = {"--data: expected FOLDER, got ''", "--method: expected NAME, got ''",
                               "expected VALUE, got ''"};
        assert_fails(&f->cx, parse(f, lines[i]), QB_STATUS_USAGE);
        assert_message(&f->cx, texts[i]);
    }
    assert_fails(&f->cx, parse(f, "a.onnx  b.onnx"), QB_STATUS_USAGE);
    assert_message(&f->cx, "argument 2 is empty");
    assert_ok(&f->cx, parse(f, "--config="));
    assert_string_equal(f->o.data, "");
}

static void forgotten_value_is_noticed(void **state) {
    fixture *f = *state;
    assert_fails(&f->cx, parse(f, "--data --method entropy"), QB_STATUS_USAGE);
    assert_message(&f->cx, "--data: expected FOLDER, got the option --method");
    assert_fails(&f->cx, parse(f, "fp32 --data"), QB_STATUS_USAGE);
    assert_message(&f->cx, "--data: expected FOLDER, got the end");
    assert_fails(&f->cx, parse(f, "-n"), QB_STATUS_USAGE);
    assert_message(&f->cx, "--samples: expected N");
}

/* What one option takes several values of in one text: the second text would be all. */
static void whole_lists_are_given_once(void **state) {
    fixture *f = *state;
    f->o.batches = "1,8"; /* a default is replaced */
    assert_ok(&f->cx, parse(f, "--shapes x:1x2,y:3 --batches 4 --data a --data b"));
    assert_string_equal(f->o.batches, "4");
    assert_string_equal(f->o.data, "b"); /* one value: the last */
    f->o.shapes = f->o.batches = NULL;
    assert_ok(&f->cx, parse(f, "--shapes x:1x2 --shapes=x:1x2"));
    f->o.shapes = NULL;
    assert_fails(&f->cx, parse(f, "--shapes x:1x2 --data a --shapes=y:3"), QB_STATUS_USAGE);
    assert_message(&f->cx, "--shapes: 'y:3' would replace 'x:1x2': give one list");
    assert_fails(&f->cx, parse(f, "--batches=1 --batches 2"), QB_STATUS_USAGE);
    assert_message(&f->cx, "--batches: '2' would replace '1'");
}

static void bad_numbers_are_refused(void **state) {
    fixture *f = *state;
    static const struct {
        const char *line, *message;
    } bad[] = {
        {"--samples many", "--samples: expected an integer, got 'many'"},
        {"--samples 5x", "expected an integer, got '5x'"},
        {"--samples=", "expected an integer, got ''"},
        {"--samples 1.5", "expected an integer, got '1.5'"},
        {"--samples 0", "--samples: expected 1 to 1000000, got 0"},
        {"--samples 1000001", "expected 1 to 1000000"},
        {"--axis 9223372036854775808", "does not fit"},
        {"--max-drop nan", "expected a finite number, got 'nan'"},
        {"--max-drop inf", "expected a finite number"},
        {"--max-drop 1,5", "expected a finite number"},
        {"--max-drop -1", "--max-drop: expected at least 0, got -1"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_fails(&f->cx, parse(f, bad[i].line), QB_STATUS_USAGE);
        assert_message(&f->cx, bad[i].message);
    }
    assert_int_equal(f->o.samples, 500);
    assert_float_equal(f->o.drop, 0, 0);
}

static void unknown_options_name_the_nearest(void **state) {
    fixture *f = *state;
    static const struct {
        const char *line, *message;
    } bad[] = {
        {"--sampels 3", "unknown option --sampels; did you mean --samples?"},
        {"--sample=3", "unknown option --sample; did you mean --samples?"},
        {"--max_drop 1", "did you mean --max-drop?"},
        {"--MAX-DROP 1", "did you mean --max-drop?"},
        {"--meth x", "did you mean --method?"},
        {"-x", "unknown option -x"},
        {"-qx", "unknown option -x"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_fails(&f->cx, parse(f, bad[i].line), QB_STATUS_USAGE);
        assert_message(&f->cx, bad[i].message);
    }
    assert_fails(&f->cx, parse(f, "--zzzzzzzz"), QB_STATUS_USAGE);
    assert_string_equal(f->cx.message, "unknown option --zzzzzzzz");
    assert_fails(&f->cx, parse(f, "--=5"), QB_STATUS_USAGE);
}

static void very_long_words_are_harmless(void **state) {
    fixture *f = *state;
    char line[900];
    memset(line, 'a', sizeof line);
    memcpy(line, "--", 2);
    line[sizeof line - 1] = '\0';
    assert_fails(&f->cx, parse(f, line), QB_STATUS_USAGE);
}

static void nearest_is_a_slip_not_a_guess(void **state) {
    (void)state;
    static const char *const names[] = {"entropy", "minmax", "percentile", "mse", NULL};
    assert_string_equal(qb_nearest("entrpoy", names), "entropy");
    assert_string_equal(qb_nearest("minmx", names), "minmax");
    assert_string_equal(qb_nearest("percent", names), "percentile");
    assert_string_equal(qb_nearest("MSE", names), "mse");
    assert_string_equal(qb_nearest("mes", names), "mse");
    assert_null(qb_nearest("histogram", names));
    assert_null(qb_nearest("", names));
    assert_null(qb_nearest("xyz", names));
    static const char *const none[] = {NULL};
    assert_null(qb_nearest("x", none));
    static const char *const twins[] = {"export-times", "export-profile", NULL};
    assert_null(qb_nearest("export", twins)); /* could be either */
    assert_string_equal(qb_nearest("export-t", twins), "export-times");
}

static void long_names_are_near_by_their_ends(void **state) {
    (void)state;
    static const char head[] = "/model/decoder/layers.11/encoder_attn_layer_norm/",
                      *const names[] = {
                          "/model/decoder/layers.11/encoder_attn_layer_norm/Add_1_output_0",
                          "short", NULL};
    char word[128];
    snprintf(word, sizeof word, "%sAdd_1_ouput_0", head);
    assert_string_equal(qb_nearest(word, names), names[0]);
    snprintf(word, sizeof word, "%sQuiteAnother_thing", head);
    assert_null(qb_nearest(word, names));
}

static void the_nearest_few_come_in_order(void **state) {
    (void)state;
    static const char *const names[] = {"/conv1/Conv_output_0", "conv2", "relu", "cnov1",
                                        "conv1_bias",           "pool",  NULL};
    const char *few[QB_NEAREST_MAX];
    assert_int_equal(qb_nearest_few("conv1", names, few, 5), 4);
    assert_string_equal(few[0], "/conv1/Conv_output_0");
    assert_string_equal(few[1], "conv1_bias");
    assert_string_equal(few[2], "conv2");
    assert_string_equal(few[3], "cnov1");
    assert_int_equal(qb_nearest_few("conv1", names, few, 1), 1);
    assert_string_equal(few[0], "/conv1/Conv_output_0");
    assert_int_equal(qb_nearest_few("softmax", names, few, 5), 0);
}

static void help_is_aligned_and_wrapped(void **state) {
    (void)state;
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    assert_non_null(stream);
    qb_opt_help(stream, table);
    assert_int_equal(fclose(stream), 0);
    assert_memory_equal(text, "  -q, --quiet                 no progress\n", 42);
    assert_non_null(strstr(text, "\n  -n, --samples N             images to read, and"));
    assert_non_null(strstr(text, "\n      --max-drop PERCENT      allowed loss\n"));
    assert_non_null(strstr(text, "\n      --a-rather-long-option-name VALUE\n"
                                 "                              x\n"));
    for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
        assert_true(strcspn(line, "\n") <= 80);
    free(text);
}

static void no_memory_for_a_suggestion_is_an_error(void **state) {
    fixture *f = *state;
    f->cx.fail_alloc_at = 1;
    assert_fails(&f->cx, parse(f, "--sampels 3"), QB_STATUS_NOMEM);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup(all_spellings_mean_the_same, setup),
    cmocka_unit_test_setup(defaults_stay_without_options, setup),
    cmocka_unit_test_setup(flags_can_be_switched_and_bundled, setup),
    cmocka_unit_test_setup(positional_arguments_mix_with_options, setup),
    cmocka_unit_test_setup(command_without_arguments_refuses_them, setup),
    cmocka_unit_test_setup(lists_gather_in_order, setup),
    cmocka_unit_test_setup(values_may_look_odd, setup),
    cmocka_unit_test_setup(empty_texts_are_refused, setup),
    cmocka_unit_test_setup(forgotten_value_is_noticed, setup),
    cmocka_unit_test_setup(whole_lists_are_given_once, setup),
    cmocka_unit_test_setup(bad_numbers_are_refused, setup),
    cmocka_unit_test_setup(unknown_options_name_the_nearest, setup),
    cmocka_unit_test_setup(very_long_words_are_harmless, setup),
    cmocka_unit_test(nearest_is_a_slip_not_a_guess),
    cmocka_unit_test(long_names_are_near_by_their_ends),
    cmocka_unit_test(the_nearest_few_come_in_order),
    cmocka_unit_test(help_is_aligned_and_wrapped),
    cmocka_unit_test_setup(no_memory_for_a_suggestion_is_an_error, setup),
};
QB_TEST_MAIN(tests)
