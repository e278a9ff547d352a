/* Boxes as YOLO's and PASCAL VOC's files have them: what is no box is an error with file and line.
 */
#include <stdio.h>
#include <string.h>

#include "base/strbuf.h"
#include "datasets/truth_internal.h"
#include "qb_test.h"

typedef struct fixture {
    qb_ctx cx;
    qb_dataset dataset;
} fixture;

/* An empty ground truth with one image of 100 x 200. */
static qb_coco *begin(fixture *f) {
    *f = (fixture){.dataset = {.path = "set"}};
    qb_ctx_init(&f->cx);
    assert_ok(&f->cx, qb_truth_begin(&f->cx, &f->dataset));
    const qb_coco_image image = {.width = 100, .height = 200, .file_name = "x.jpg"};
    assert_ok(&f->cx, qb_truth_put_image(&f->cx, f->dataset.truth, &image));
    return f->dataset.truth;
}

static void end(fixture *f) {
    qb_coco_release(f->dataset.truth);
    qb_free(f->dataset.truth);
    qb_ctx_clear(&f->cx);
}

#define BOX "<bndbox><xmin>11</xmin><ymin>21</ymin><xmax>20</xmax><ymax>40</ymax></bndbox>"
#define DOG "<object><name>dog</name>" BOX "</object>"
#define WHOLE(TEXT) "<annotation>" TEXT "</annotation>"

static qb_status parse_voc(fixture *f, const char *text) {
    return qb_voc_objects_parse(&f->cx, "a.xml", text, strlen(text), f->dataset.truth);
}

static void objects_are_where_voc_has_them(void **state) {
    (void)state;
    fixture f;
    qb_coco *t = begin(&f);
    assert_ok(&f.cx,
              parse_voc(&f,
                        "<?xml version=\"1.0\"?><!DOCTYPE annotation>\n"
                        "<annotation verified='yes>'><!-- " DOG " --><size><width>9</width></size>"
                        "<object a=\"/\"><part><name>head</name><bndbox><xmin>1</xmin></bndbox>"
                        "</part><name> cat &amp; d&#111;g&#x21; </name><difficult>1</difficult>" BOX
                        "<pose/></object><object><name><![CDATA[dog]]></name>" BOX "</object>" DOG
                        "</annotation>\n"));
    assert_int_equal(t->n_categories, 2);
    assert_string_equal(t->category[0].name, "cat & dog!");
    assert_string_equal(t->category[1].name, "dog");
    assert_int_equal(t->objects.n, 3);
    const qb_coco_object *o = t->objects.item;
    assert_true(o[0].crowd && !o[1].crowd);
    assert_int_equal(o[0].category, 0);
    assert_int_equal(o[1].category, 1);
    assert_int_equal(o[2].category, 1);
    const double box[] = {10, 20, 10, 20};
    assert_memory_equal(o[0].box, box, sizeof box);
    end(&f);
}

static void annotations_that_are_none_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "a.xml:1: expected an <annotation>"},
        {"no annotation", "expected an <annotation>"},
        {"<html></html>", "expected one <annotation>"},
        {WHOLE(DOG) WHOLE(DOG), "expected one <annotation>"},
        {"<annotation>\n" DOG, "a.xml:2: annotation is without its end: the file is cut short"},
        {"<annotation>\n<object><name>dog", "name is without its end"},
        {"<annotation><object", "a tag without its '>'"},
        {"<annotation><!-- x", "a comment without end"},
        {"<annotation><![CDATA[ x", "without its ']]>'"},
        {"<? x", "without its '?>'"},
        {"<annotation><", "a '<' without a tag"},
        {"<annotation></object>", "</object>, but open is annotation"},
        {"</object>", "</object>, but open is nothing"},
        {"<!DOCTYPE a [<!ENTITY a \"b\">]>" WHOLE(DOG), "declarations of its own"},
        {WHOLE("<object><name>&b;</name></object>"), "'&b;"},
        {WHOLE("<object><name>&#0;</name></object>"), "an entity that is not known"},
        {WHOLE("<object><name>&#1114112;</name></object>"), "an entity that is not known"},
        {WHOLE("<object><name>&#12"), "an entity that is not known"},
        {WHOLE("<object>" BOX "</object>"), "an object without name"},
        {WHOLE("<object><name> </name>" BOX "</object>"), "an object without name"},
        {WHOLE("<object><name>a</name><name>b</name>" BOX "</object>"), "with two names"},
        {WHOLE("<object><name><b>a</b></name>" BOX "</object>"), "name: expected a text"},
        {WHOLE("<object><name>a</name></object>"), "an object without xmin in its bndbox"},
        {WHOLE("<object><name>a</name><bndbox><xmin>1</xmin><xmin>1</xmin></bndbox></object>"),
         "xmin is given twice"},
        {WHOLE("<object><name>a</name><bndbox><xmin>1a</xmin></bndbox></object>"),
         "xmin: expected a number, got '1a'"},
        {WHOLE("<object><name>a</name><bndbox><ymax>nan</ymax></bndbox></object>"),
         "ymax: expected a number, got 'nan'"},
        {WHOLE("<object><difficult>maybe</difficult></object>"), "difficult: expected a number"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fixture f;
        begin(&f);
        assert_fails(&f.cx, parse_voc(&f, cases[i].text), QB_STATUS_FORMAT);
        assert_message(&f.cx, cases[i].message);
        end(&f);
    }
}

static void sizes_that_no_annotation_has_are_refused(void **state) {
    (void)state;
    fixture f;
    QB_RELEASED(qb_strbuf_release) qb_strbuf deep = {0}, named = {0};
    qb_strbuf_add(&deep, "<annotation>");
    for (int i = 0; i < 100000; i++) qb_strbuf_add(&deep, "<a>");
    begin(&f);
    assert_fails(&f.cx, parse_voc(&f, deep.data), QB_STATUS_FORMAT);
    assert_message(&f.cx, "elements nested more than 32 deep");
    end(&f);
    qb_strbuf_add(&named, "<annotation><object><name>");
    for (int i = 0; i < 100000; i++) qb_strbuf_add(&named, "a&amp;");
    qb_strbuf_add(&named, "</name>");
    begin(&f);
    assert_fails(&f.cx, parse_voc(&f, named.data), QB_STATUS_FORMAT);
    assert_message(&f.cx, "name: expected a text");
    end(&f);
}

/* Names that differ at their ends alone are two categories; control characters are shown. */
static void each_name_is_a_category_of_its_own(void **state) {
    (void)state;
    fixture f;
    qb_coco *t = begin(&f);
    QB_RELEASED(qb_strbuf_release) qb_strbuf text = {0};
    qb_strbuf_add(&text, "<annotation>");
    for (int i = 0; i < 300; i++)
        qb_strbuf_addf(&text, "<object><name>\x1b[31m%0300d</name>" BOX "</object>", i % 150);
    qb_strbuf_add(&text, "</annotation>");
    assert_ok(&f.cx, parse_voc(&f, text.data));
    assert_int_equal(t->n_categories, 150);
    assert_int_equal(t->objects.n, 300);
    for (int i = 0; i < 300; i++) assert_int_equal(t->objects.item[i].category, i % 150);
    assert_memory_equal(t->category[0].name, "\\x1b[31m0", 9);
    end(&f);
}

static qb_status parse_yolo(fixture *f, const char *text) {
    return qb_yolo_labels_parse(&f->cx, "a.txt", text, strlen(text), 0, f->dataset.truth);
}

static void lines_that_are_no_boxes_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"0 .5 .5 .1 .1\n0 .5 .5 -.1 .1\n", "a.txt:2: a box of negative size"},
        {"0 .5 .5 .1 -1e-9\n", "a.txt:1: a box of negative size"},
        {"0 .5 .5 .1 .1 x\n", "a.txt:1: expected numbers"},
        {"0 .5 .5 .1\n", "a.txt:1: expected a class and four numbers"},
    };
    fixture f;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin(&f);
        assert_fails(&f.cx, parse_yolo(&f, cases[i].text), QB_STATUS_FORMAT);
        assert_message(&f.cx, cases[i].message);
        end(&f);
    }
    QB_RELEASED(qb_strbuf_release) qb_strbuf polygon = {0}, blanks = {0};
    qb_strbuf_add(&polygon, "0");
    for (int i = 0; i < 5000; i++) qb_strbuf_add(&polygon, " 0.5");
    begin(&f);
    assert_fails(&f.cx, parse_yolo(&f, polygon.data), QB_STATUS_UNSUPPORTED);
    assert_message(&f.cx, "a.txt:1: more than 4096 numbers");
    end(&f);
    qb_strbuf_add(&blanks, "0 .5 .5 .1 .1");
    for (int i = 0; i < 1 << 17; i++) qb_strbuf_add(&blanks, "        ");
    qb_strbuf_add(&blanks, "junk\n");
    begin(&f);
    assert_fails(&f.cx, parse_yolo(&f, blanks.data), QB_STATUS_UNSUPPORTED);
    assert_message(&f.cx, "a.txt:1: a line of more than 1048576 bytes");
    end(&f);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(objects_are_where_voc_has_them),
    cmocka_unit_test(annotations_that_are_none_are_refused),
    cmocka_unit_test(sizes_that_no_annotation_has_are_refused),
    cmocka_unit_test(each_name_is_a_category_of_its_own),
    cmocka_unit_test(lines_that_are_no_boxes_are_refused),
};
QB_TEST_MAIN(tests)
