/* One figure: data as TSV, a gnuplot script that reads it, and the SVG and PNG that it draws. */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "reports/draw.h"

/* A drawing on its way to a folder. */
typedef struct drawing {
    qb_ctx *cx;
    const qb_drawing *figure;
    const char *folder;
} drawing;

static qb_status write_text(const drawing *d, const char *suffix,
                            qb_status (*write)(const drawing *d, FILE *stream)) {
    char *name = qb_format(d->cx, "%s%s", d->figure->name, suffix);
    char *path = name ? qb_path_join(d->cx, d->folder, name) : NULL;
    qb_free(name);
    if (!path) return d->cx->code;
    qb_writer writer;
    qb_status status = qb_writer_open(d->cx, path, &writer);
    if (status == QB_OK) {
        status = write(d, writer.stream);
        if (status == QB_OK)
            status = qb_writer_commit(d->cx, &writer);
        else
            qb_writer_abort(&writer);
    }
    qb_free(path);
    return status;
}

static qb_status write_data(const drawing *d, FILE *stream) {
    return d->figure->data(d->cx, d->figure->user, stream);
}

void qb_gnuplot_string(FILE *stream, const char *text) {
    fputc('\'', stream);
    for (; *text; text++) {
        if (*text == '\'') fputc('\'', stream);
        fputc((unsigned char)*text < ' ' ? ' ' : *text, stream);
    }
    fputc('\'', stream);
}

/* The script is run in the figure's folder, so that it holds no paths. One pass draws the SVG, a
 * second one the PNG. */
static qb_status write_script(const drawing *d, FILE *stream) {
    const char *name = d->figure->name;
    const int height = d->figure->height;
    QB_FREED char *tsv = QB_NEW(d->cx, qb_format(d->cx, "%s.tsv", name));
    fprintf(stream,
            "# Redraw with: gnuplot %s.gp\n"
            "if (!exists('svg')) svg = '%s.svg'\n"
            "if (!exists('png')) png = '%s.png'\n"
            "set datafile separator tab\n"
            "set terminal svg noenhanced size 640,%d font 'Helvetica,15' background '#ffffff'\n"
            "set output svg\n",
            name, name, name, height);
    QB_TRY(d->figure->script(d->cx, d->figure->user, tsv, stream));
    fprintf(stream,
            "set terminal pngcairo noenhanced size 960,%d font 'Helvetica,16' background "
            "'#ffffff'\n"
            "set output png\nreplot\nunset output\n",
            height * 3 / 2);
    return QB_OK;
}

/* ---- gnuplot ---- */

/* Starts gnuplot in the figure's folder without the user's own settings; it draws into the files
 * behind `svg` and `png`, and *said is what it prints. Returns 0 or an errno. */
static int start_gnuplot(const drawing *d, int svg, int png, const char *script, pid_t *child,
                         int *said) {
    extern char **environ;
    char setting[64];
    snprintf(setting, sizeof setting, "svg='/dev/fd/%d'; png='/dev/fd/%d'", svg, png);
    /* gnuplot takes these as they are; the vector is not const for historical reasons only. */
    const char *const words[] = {"gnuplot", "--default-settings", "-e", setting, script, NULL};
    posix_spawn_file_actions_t actions;
    int pipe_fd[2], error;
    if (pipe2(pipe_fd, O_CLOEXEC) != 0) return errno;
    error = posix_spawn_file_actions_init(&actions);
    if (error == 0) {
        posix_spawn_file_actions_addchdir_np(&actions, d->folder);
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
        posix_spawn_file_actions_adddup2(&actions, pipe_fd[1], 1);
        posix_spawn_file_actions_adddup2(&actions, pipe_fd[1], 2);
        posix_spawn_file_actions_adddup2(&actions, svg, svg); /* onto itself: inherited */
        posix_spawn_file_actions_adddup2(&actions, png, png);
        error = posix_spawnp(child, "gnuplot", &actions, NULL, (char *const *)(uintptr_t)words,
                             environ);
        posix_spawn_file_actions_destroy(&actions);
    }
    close(pipe_fd[1]);
    *said = pipe_fd[0];
    if (error != 0) close(pipe_fd[0]);
    return error;
}

/* All that gnuplot has to say, of which `n - 1` bytes are kept, and its exit status. */
static int await_gnuplot(pid_t child, int said, char *text, size_t n) {
    char buffer[512];
    size_t used = 0;
    for (;;) {
        const ssize_t got = read(said, buffer, sizeof buffer);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        const size_t keep = (size_t)got < n - 1 - used ? (size_t)got : n - 1 - used;
        memcpy(text + used, buffer, keep);
        used += keep;
    }
    close(said);
    while (used > 0 && (text[used - 1] == '\n' || text[used - 1] == ' ')) used--;
    text[used] = '\0';
    int result = -1;
    while (waitpid(child, &result, 0) < 0 && errno == EINTR) continue;
    return result;
}

static qb_status run_gnuplot(const drawing *d, int svg, int png) {
    const char *name = d->figure->name;
    char *script = qb_format(d->cx, "%s.gp", name);
    pid_t child = -1;
    int said = -1, error = ENOMEM;
    if (script) error = start_gnuplot(d, svg, png, script, &child, &said);
    qb_free(script);
    if (error == ENOENT)
        return qb_fail(
            d->cx, QB_STATUS_NOTFOUND,
            "figure %s: gnuplot is not installed: no chart is drawn, data and script are "
            "in %s/",
            name, d->folder);
    if (error != 0) {
        errno = error;
        return qb_fail_errno(d->cx, "figure %s: gnuplot", name);
    }
    char text[600];
    const int result = await_gnuplot(child, said, text, sizeof text);
    QB_TRY(qb_check_cancel(d->cx));
    if (WIFEXITED(result) && WEXITSTATUS(result) == 0) return QB_OK;
    return qb_fail(d->cx, QB_STATUS_IO, "figure %s: gnuplot failed; data and script are in %s/: %s",
                   name, d->folder, text);
}

/* ---- pictures ---- */

static qb_status open_picture(const drawing *d, const char *suffix, qb_writer *out) {
    char *path = QB_NEW(d->cx, qb_format(d->cx, "%s/%s%s", d->folder, d->figure->name, suffix));
    const qb_status status = qb_writer_open(d->cx, path, out);
    qb_free(path);
    if (status == QB_OK) out->scratch = true;
    return status;
}

/* gnuplot does not notice a full disk: the end of the picture must be there. */
static qb_status check_end(qb_ctx *cx, const qb_writer *picture, const char *end) {
    char tail[64] = "";
    FILE *file = fopen(picture->temp, "rbe");
    if (!file) return qb_fail_errno(cx, "%s", picture->path);
    size_t n = fseek(file, -16, SEEK_END) == 0 ? fread(tail, 1, sizeof tail, file) : 0;
    fclose(file);
    if (memmem(tail, n, end, strlen(end))) return QB_OK;
    return qb_fail(cx, QB_STATUS_IO,
                   "write %s: gnuplot could not write all of it (is the disk full?)",
                   picture->path);
}

static qb_status commit_picture(qb_ctx *cx, qb_writer *picture, const char *end) {
    if (picture->temp) QB_TRY(check_end(cx, picture, end));
    return qb_writer_commit(cx, picture);
}

qb_status qb_draw(qb_ctx *cx, const qb_drawing *figure, const char *folder) {
    const drawing at = {cx, figure, folder}, *d = &at;
    QB_RELEASED(qb_writer_abort) qb_writer svg = {0}, png = {0};
    QB_TRY(qb_check_cancel(d->cx));
    QB_TRY(write_text(d, ".tsv", write_data));
    QB_TRY(write_text(d, ".gp", write_script));
    QB_TRY(open_picture(d, ".svg", &svg));
    QB_TRY(open_picture(d, ".png", &png));
    QB_TRY(run_gnuplot(d, fileno(svg.stream), fileno(png.stream)));
    QB_TRY(commit_picture(cx, &svg, "</svg>"));
    return commit_picture(cx, &png, "IEND");
}
