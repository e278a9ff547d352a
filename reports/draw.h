/* Figures by gnuplot: four files each, NAME.tsv (data), NAME.gp (script), NAME.svg and NAME.png, so
 * that a figure can be redrawn or restyled by hand. */
#ifndef QB_REPORTS_DRAW_H
#define QB_REPORTS_DRAW_H

#include <stdio.h>

#include "base/ctx.h"

typedef struct qb_drawing {
    const char *name;
    int height; /* pixels of the SVG, which is 640 wide; the PNG has half as many again */
    /* Writes the data as TSV (with a header line). */
    qb_status (*data)(qb_ctx *cx, const void *user, FILE *stream);
    /* Writes the script's body: it plots `tsv`; terminal and output are set. */
    qb_status (*script)(qb_ctx *cx, const void *user, const char *tsv, FILE *stream);
    const void *user;
} qb_drawing;

/* Draws into a folder that exists. Pictures appear whole or not at all. No gnuplot:
 * QB_STATUS_NOTFOUND once data and script are written; gnuplot failing: QB_STATUS_IO with what it
 * said. */
qb_status qb_draw(qb_ctx *cx, const qb_drawing *figure, const char *folder);

/* A gnuplot string constant. Names come from files: a quote in one must not end the string. */
void qb_gnuplot_string(FILE *stream, const char *text);
#endif
