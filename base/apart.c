#include "apart.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "log.h"

#define START_BYTES ((size_t)256 << 20)
#define START_SECONDS 3
/* Sanitizers reserve terabytes; a limit of memory would only stop them. */
#define SANITIZED_FROM ((size_t)1 << 40)
#define LOOK_MS 200 /* between two looks whether the user asked to stop */

/* Memory that both processes map: what an answer is put into. */
typedef struct shared_memory {
    int fd;
    void *data;
    size_t size;
} shared_memory;

struct qb_apart {
    qb_apart_fn fn;
    void *work;
    char *name;
    pid_t pid; /* 0: answers come from this process */
    int socket;
    shared_memory shared;
    bool dead;
    char why[QB_MESSAGE_MAX]; /* of its death */
    pthread_mutex_t mutex;
};

typedef struct question {
    int64_t ask[QB_APART_ASK];
    uint64_t bytes;
} question;

typedef struct answer {
    int32_t status;
    char message[QB_MESSAGE_MAX]; /* sent as far as it goes */
} answer;

/* Of the process that answers. */
static struct {
    bool is_apart;
    size_t before; /* address space at the start */
    size_t bytes;
    int seconds;
    double set; /* when they were set, by the clock that takes no system call */
} limits;

static qb_status map_shared(qb_ctx *cx, shared_memory *m, size_t bytes) {
    if (bytes <= m->size) return QB_OK;
    void *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, m->fd, 0);
    if (data == MAP_FAILED) return qb_fail_errno(cx, "%zu bytes of shared memory", bytes);
    if (m->data) munmap(m->data, m->size);
    m->data = data;
    m->size = bytes;
    limits.set = 0;
    return QB_OK;
}

/* ---- the other process ---- */

static size_t address_space(void) {
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file) return 0;
    const int n = fscanf(file, "%llu", &pages);
    fclose(file);
    return n == 1 ? (size_t)pages * (size_t)sysconf(_SC_PAGESIZE) : 0;
}

void qb_apart_allow(size_t bytes, int seconds) {
    if (!limits.is_apart) return;
    limits.bytes = bytes;
    limits.seconds = seconds;
    limits.set = 0;
}

static void lower(int what, rlim_t most) {
    struct rlimit limit;
    if (getrlimit(what, &limit) != 0) return;
    limit.rlim_cur = most < limit.rlim_max ? most : limit.rlim_max;
    setrlimit(what, &limit);
}

/* The limits of the next answer. Within half a second nobody has used up much of a second. */
static void set_limits(size_t shared) {
    struct rusage used;
    const double now = qb_now();
    if (now - limits.set < 0.5) return;
    limits.set = now;
    getrusage(RUSAGE_SELF, &used);
    lower(RLIMIT_CPU, (rlim_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec + limits.seconds));
    if (limits.before > 0 && limits.before < SANITIZED_FROM)
        lower(RLIMIT_AS, limits.before + limits.bytes + shared);
}

/* HDF5 ends the program where it finds no memory: nobody else's handlers run in this copy. */
static void leave(void) { _exit(EXIT_FAILURE); }

/* Closes the descriptors between two. */
static void close_between(int low, int high) {
    if (high - low < 2 || syscall(SYS_close_range, low + 1, high - 1, 0) == 0) return;
    for (int fd = low + 1; fd < high && fd < 1024; fd++) close(fd);
}

static void become_apart(const qb_apart *a, int socket) {
    static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGALRM, SIGPIPE};
    static const int deadly[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGXCPU};
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++) signal(ignored[i], SIG_IGN);
    for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++) signal(deadly[i], SIG_DFL);
    limits.is_apart = true;
    limits.before = address_space();
    qb_apart_allow(START_BYTES, START_SECONDS);
    lower(RLIMIT_CORE, 0);
    atexit(leave);
    /* The parent's files are not this process's to hold, nor its outputs to write to. No descriptor
     * more than the parent had is needed: it may be the last that the limit allows. */
    const int shared = a->shared.fd, low = socket < shared ? socket : shared,
              high = socket < shared ? shared : socket;
    close_between(STDERR_FILENO, low);
    close_between(low, high);
    close_between(high, INT_MAX);
    close(STDIN_FILENO);
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC); /* the lowest free one: input */
    dup2(null, STDOUT_FILENO);
    if (limits.before < SANITIZED_FROM) dup2(null, STDERR_FILENO); /* libraries' last words */
}

static void serve(qb_apart *a, int socket) {
    shared_memory shared = {.fd = a->shared.fd};
    question q;
    qb_ctx cx;
    qb_ctx_init(&cx);
    while (recv(socket, &q, sizeof q, 0) == (ssize_t)sizeof q) {
        answer out = {0};
        qb_ctx_clear(&cx);
        const qb_status mapped = map_shared(&cx, &shared, q.bytes);
        set_limits(shared.size);
        if (mapped == QB_OK) a->fn(&cx, a->work, q.ask, shared.data, q.bytes);
        out.status = cx.code;
        memcpy(out.message, cx.message, sizeof out.message);
        const size_t n = offsetof(answer, message) + strlen(out.message);
        if (send(socket, &out, n, MSG_NOSIGNAL) != (ssize_t)n) break;
    }
    _exit(EXIT_SUCCESS);
}

/* ---- this process ---- */

static qb_status fork_apart(qb_ctx *cx, qb_apart *a) {
    int pair[2];
    a->shared.fd = memfd_create("qbench", MFD_CLOEXEC);
    if (a->shared.fd < 0) return qb_fail_errno(cx, "%s: shared memory", a->name);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return qb_fail_errno(cx, "%s: a pair of sockets", a->name);
    a->socket = pair[0];
    const struct timeval look = {.tv_usec = LOOK_MS * 1000};
    setsockopt(a->socket, SOL_SOCKET, SO_RCVTIMEO, &look, sizeof look);
    a->pid = fork();
    if (a->pid == 0) {
        become_apart(a, pair[1]);
        serve(a, pair[1]);
    }
    const int error = errno;
    close(pair[1]);
    errno = error;
    if (a->pid > 0) return QB_OK;
    a->pid = 0;
    return qb_fail_errno(cx, "%s: a process to read it", a->name);
}

qb_status qb_apart_start(qb_ctx *cx, const char *name, qb_apart_fn fn, void *work, qb_apart **out) {
    QB_RELEASED(qb_apart_end_at) qb_apart *a = QB_NEW(cx, qb_alloc(cx, 1, sizeof *a));
    *a = (qb_apart){.fn = fn, .work = work, .socket = -1, .shared = {.fd = -1}};
    pthread_mutex_init(&a->mutex, NULL);
    QB_TRY_NEW(cx, a->name = qb_strdup(cx, name));
#ifndef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
    QB_TRY(fork_apart(cx, a));
#endif
    *out = QB_MOVE(a);
    return QB_OK;
}

void qb_apart_end(qb_apart *a) {
    if (!a) return;
    if (a->pid > 0) {
        kill(a->pid, SIGKILL);
        while (waitpid(a->pid, NULL, 0) < 0 && errno == EINTR) continue;
    }
    if (a->shared.data) munmap(a->shared.data, a->shared.size);
    if (a->shared.fd >= 0) close(a->shared.fd);
    if (a->socket >= 0) close(a->socket);
    pthread_mutex_destroy(&a->mutex);
    QB_FREE_ALL(a->name, a);
}

static qb_status has_died(qb_ctx *cx, qb_apart *a) {
    int how = 0;
    pid_t got;
    kill(a->pid, SIGKILL); /* who cannot be talked to ends, too; how the dead died stays */
    while ((got = waitpid(a->pid, &how, 0)) < 0 && errno == EINTR) continue;
    a->pid = 0;
    a->dead = true;
    const int by = got > 0 && WIFSIGNALED(how) ? WTERMSIG(how) : 0;
    qb_fail(cx, QB_STATUS_FORMAT, "%s: the library that reads it ended (%s): the file is damaged",
            a->name,
            by == SIGXCPU || by == SIGKILL ? "too much time"
            : by                           ? strsignal(by)
                                           : "by itself, or for want of memory");
    memcpy(a->why, cx->message, sizeof a->why);
    return cx->code;
}

static qb_status wait_for(qb_ctx *cx, qb_apart *a) {
    answer in = {0};
    ssize_t got;
    while ((got = recv(a->socket, &in, sizeof in, 0)) < 0 &&
           (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK)) {
        if (qb_check_cancel(cx) == QB_OK) continue;
        a->dead = true; /* its answer would be taken for the next one's */
        memcpy(a->why, cx->message, sizeof a->why);
        return cx->code;
    }
    if (got < (ssize_t)offsetof(answer, message)) return has_died(cx, a);
    if (in.status == QB_OK) return QB_OK;
    in.message[sizeof in.message - 1] = '\0';
    return qb_fail(cx, (qb_status)in.status, "%s", in.message);
}

static qb_status ask_apart(qb_ctx *cx, qb_apart *a, const question *q, void *out) {
    if (a->dead) return qb_fail(cx, QB_STATUS_FORMAT, "%s", a->why);
    if (q->bytes > a->shared.size && ftruncate(a->shared.fd, (off_t)q->bytes) != 0)
        return qb_fail_errno(cx, "%s: %llu bytes of shared memory", a->name,
                             (unsigned long long)q->bytes);
    QB_TRY(map_shared(cx, &a->shared, q->bytes));
    if (send(a->socket, q, sizeof *q, MSG_NOSIGNAL) != (ssize_t)sizeof *q) return has_died(cx, a);
    QB_TRY(wait_for(cx, a));
    if (q->bytes > 0) memcpy(out, a->shared.data, q->bytes);
    return QB_OK;
}

qb_status qb_apart_ask(qb_ctx *cx, qb_apart *a, const int64_t ask[QB_APART_ASK], void *out,
                       size_t bytes) {
    question q = {.bytes = bytes};
    memcpy(q.ask, ask, sizeof q.ask);
    pthread_mutex_lock(&a->mutex);
    const qb_status status =
        a->socket < 0 ? a->fn(cx, a->work, ask, out, bytes) : ask_apart(cx, a, &q, out);
    pthread_mutex_unlock(&a->mutex);
    return status;
}

qb_status qb_apart_try(qb_ctx *cx, const char *name, qb_apart_fn fn, void *work) {
    static const int64_t nothing[QB_APART_ASK] = {0};
    QB_RELEASED(qb_apart_end_at) qb_apart *apart = NULL;
    QB_TRY(qb_apart_start(cx, name, fn, work, &apart));
    return qb_apart_ask(cx, apart, nothing, NULL, 0);
}
