#include <math.h>
#include <string.h>

#include "reports/report.h"

enum { CELL = 96, COLUMNS = 13 }; /* CELL: longer names are cut */

typedef struct column {
    const char *title;
    bool left;
    void (*cell)(const qb_run_row *row, char text[CELL]);
} column;

/* A number, or "-" where nothing was measured. */
static void put(char text[CELL], const char *format, double value) {
    if (isnan(value))
        snprintf(text, CELL, "-");
    else if (isinf(value))
        snprintf(text, CELL, value > 0 ? "inf" : "-inf");
    else
        snprintf(text, CELL, format, value);
}

static void put_bytes(char text[CELL], int64_t bytes) {
    const char *unit[] = {"B", "KiB", "MiB", "GiB"};
    double value = (double)bytes;
    int u = 0;
    for (; value >= 1024 && u < 3; u++) value /= 1024;
    snprintf(text, CELL, u ? "%.1f %s" : "%.0f %s", value, unit[u]);
}

static void c_precision(const qb_run_row *r, char *t) { snprintf(t, CELL, "%s", r->precision); }
static void c_top1(const qb_run_row *r, char *t) { put(t, "%.2f", r->top1); }
static void c_top5(const qb_run_row *r, char *t) { put(t, "%.2f", r->top5); }
static void c_drop(const qb_run_row *r, char *t) { put(t, "%+.2f", r->drop); }
static void c_agree(const qb_run_row *r, char *t) { put(t, "%.2f", r->agreement_top1); }
static void c_sqnr(const qb_run_row *r, char *t) { put(t, "%.1f", r->sqnr_db); }
static void c_median(const qb_run_row *r, char *t) { put(t, "%.3f", r->latency.median); }
static void c_p99(const qb_run_row *r, char *t) { put(t, "%.3f", r->latency.p99); }
static void c_speedup(const qb_run_row *r, char *t) { put(t, "%.2fx", r->speedup); }
static void c_rate(const qb_run_row *r, char *t) { put(t, "%.1f", r->throughput); }
static void c_weights(const qb_run_row *r, char *t) { put_bytes(t, r->weights_bytes); }
static void c_arena(const qb_run_row *r, char *t) { put_bytes(t, r->arena_bytes); }
static void c_engine(const qb_run_row *r, char *t) { put_bytes(t, r->engine_bytes); }

static const column columns[COLUMNS] = {
    {"precision", true, c_precision}, {"top-1 %", false, c_top1},    {"top-5 %", false, c_top5},
    {"drop", false, c_drop},          {"agree %", false, c_agree},   {"SQNR dB", false, c_sqnr},
    {"median ms", false, c_median},   {"p99 ms", false, c_p99},      {"speed-up", false, c_speedup},
    {"items/s", false, c_rate},       {"weights", false, c_weights}, {"arena", false, c_arena},
    {"engine", false, c_engine},
};

static void print_cell(FILE *stream, const column *c, int width, const char *text) {
    fprintf(stream, c->left ? "%s%-*s" : "%s%*s", c == columns ? "" : "  ", width, text);
}

static int column_width(const qb_run *run, const column *c) {
    size_t width = strlen(c->title);
    char text[CELL];
    for (int32_t r = 0; r < run->n_rows; r++) {
        c->cell(&run->row[r], text);
        if (strlen(text) > width) width = strlen(text);
    }
    return (int)width;
}

void qb_report_table(FILE *stream, const qb_run *run) {
    fprintf(stream, "model %s, data %s: %lld samples", run->model, run->dataset,
            (long long)run->samples);
    if (run->skipped > 0) fprintf(stream, " (%lld skipped)", (long long)run->skipped);
    fprintf(stream, "\n%s, %d thread%s, batch %lld, %s\n\n", run->cpu, run->threads,
            run->threads == 1 ? "" : "s", (long long)run->row[0].batch, run->libraries);
    int width[COLUMNS];
    for (int c = 0; c < COLUMNS; c++) {
        width[c] = column_width(run, &columns[c]);
        print_cell(stream, &columns[c], width[c], columns[c].title);
    }
    fputc('\n', stream);
    for (int32_t r = 0; r < run->n_rows; r++) {
        for (int c = 0; c < COLUMNS; c++) {
            char text[CELL];
            columns[c].cell(&run->row[r], text);
            print_cell(stream, &columns[c], width[c], text);
        }
        fputc('\n', stream);
    }
    fprintf(stream,
            "\ndrop: points of top-1 lost against %s; agree: samples with its top-1 class;\n"
            "SQNR: 10 log10(sum ref^2 / sum err^2) on the value before a final Softmax;\n"
            "median, p99: milliseconds a run of one batch after warm-up, engines alternating;\n"
            "speed-up: its median over this one's; items/s: batch over mean latency.\n",
            run->row[0].precision);
}
