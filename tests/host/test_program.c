/* libqbench in programs of other habits: the same bytes come out, and what is the program's
 * (locale, floating-point environment, signals, descriptors, folder, limits) is as it was. Each
 * program is a process of its own that opens the library, so that none has what another one left.
 */
#include "qb_test.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fenv.h>
#include <locale.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <qbench/qbench.h>

#define SIDE 32
#define SMALLEST_STACK ((size_t)256 << 10)
enum { INPUT = 3 * SIDE * SIDE, CLASSES = 10, SIGNALS = 65 };

/* What a program came to, in memory that it shares with the test. */
typedef struct result {
    float output[2][CLASSES]; /* of the model as it is built, and from its file */
    float input[INPUT];
    uint64_t file, n_file; /* the engine file */
    char error[256];       /* the text of a call that must fail */
    char trouble[512];     /* what is wrong; empty: nothing */
} result;

static result *shared, usual;
static char folder[QB_TEST_PATH], german[QB_TEST_PATH];

static void say(const char *format, ...) {
    va_list args;
    if (shared->trouble[0]) return;
    va_start(args, format);
    vsnprintf(shared->trouble, sizeof shared->trouble, format, args);
    va_end(args);
}

/* ---- what is the program's ------------------------------------------------------------------- */

typedef struct host {
    char locale[256], cwd[512], descriptors[256];
    fenv_t floats;
    sigset_t mask;
    struct sigaction action[SIGNALS];
    struct rlimit limit[RLIM_NLIMITS];
    struct itimerval timer[3];
    cpu_set_t processors;
    mode_t mask_of_files;
    int priority;
} host;

static void list_descriptors(char *text, size_t n) {
    DIR *list = opendir("/proc/self/fd");
    const struct dirent *entry;
    text[0] = '\0';
    while (list && (entry = readdir(list)))
        if (entry->d_name[0] != '.' && atoi(entry->d_name) != dirfd(list))
            snprintf(text + strlen(text), n - strlen(text), " %s", entry->d_name);
    if (list) closedir(list);
}

static void look(host *h) {
    memset(h, 0, sizeof *h);
    fegetenv(&h->floats); /* first and last: looking must change nothing either */
    snprintf(h->locale, sizeof h->locale, "%s", setlocale(LC_ALL, NULL));
    if (!getcwd(h->cwd, sizeof h->cwd)) h->cwd[0] = '\0';
    pthread_sigmask(SIG_SETMASK, NULL, &h->mask);
    for (int i = 1; i < SIGNALS; i++) sigaction(i, NULL, &h->action[i]);
    for (int i = 0; i < (int)RLIM_NLIMITS; i++) getrlimit((__rlimit_resource_t)i, &h->limit[i]);
    for (int i = 0; i < 3; i++) {
        getitimer((__itimer_which_t)i, &h->timer[i]);
        h->timer[i].it_value = (struct timeval){0}; /* runs on */
    }
    sched_getaffinity(0, sizeof h->processors, &h->processors);
    h->mask_of_files = umask(022);
    umask(h->mask_of_files);
    h->priority = getpriority(PRIO_PROCESS, 0);
    list_descriptors(h->descriptors, sizeof h->descriptors);
    fesetenv(&h->floats);
}

static void compare(const host *before, const char *when) {
    host now;
    look(&now);
#define SAME(field)                                                                                \
    if (memcmp(&before->field, &now.field, sizeof now.field) != 0) say("%s: other " #field, when)
    SAME(locale);
    SAME(cwd);
    SAME(floats);
    SAME(mask);
    SAME(limit);
    SAME(timer);
    SAME(processors);
    SAME(mask_of_files);
    SAME(priority);
#undef SAME
    for (int i = 1; i < SIGNALS; i++)
        if (before->action[i].sa_handler != now.action[i].sa_handler ||
            before->action[i].sa_flags != now.action[i].sa_flags)
            say("%s: another action of signal %d", when, i);
}

static void compare_descriptors(const host *before, const char *when) {
    host now;
    look(&now);
    if (strcmp(before->descriptors, now.descriptors) != 0)
        say("%s: descriptors%s, before%s", when, now.descriptors, before->descriptors);
}

/* ---- what the program does with the library -------------------------------------------------- */

/* X(RETURNS, NAME, PARAMETERS) */
#define FUNCTIONS(X)                                                                               \
    X(qbench_session *, session_create, (void))                                                    \
    X(void, session_free, (qbench_session *))                                                      \
    X(const char *, error, (const qbench_session *))                                               \
    X(qbench_status, engine_load, (qbench_session *, const char *, qbench_engine **))              \
    X(qbench_status, engine_build,                                                                 \
      (qbench_session *, const char *, const qbench_build_options *, qbench_engine **))            \
    X(qbench_status, engine_save, (qbench_session *, const qbench_engine *, const char *))         \
    X(void, engine_free, (qbench_engine *))                                                        \
    X(qbench_status, context_create, (qbench_session *, const qbench_engine *, qbench_context **)) \
    X(void, context_free, (qbench_context *))                                                      \
    X(qbench_status, context_run,                                                                  \
      (qbench_session *, qbench_context *, const void *const *, void *const *))                    \
    X(qbench_status, inputs_load, (qbench_session *, const char *, qbench_inputs **))              \
    X(void, inputs_free, (qbench_inputs *))                                                        \
    X(qbench_status, inputs_image,                                                                 \
      (qbench_session *, const qbench_inputs *, const char *, int32_t, int32_t, float *, size_t))

typedef struct library {
    void *handle;
#define X(returns, name, parameters) returns(*name) parameters;
    FUNCTIONS(X)
#undef X
} library;

static bool library_open(library *l) {
    l->handle = dlopen(QB_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!l->handle) say("%s", dlerror());
#define X(returns, name, parameters)                                                               \
    if (l->handle) *(void **)(void *)&l->name = dlsym(l->handle, "qbench_" #name);                 \
    if (l->handle && !l->name) say("no qbench_" #name);
    FUNCTIONS(X)
#undef X
    return shared->trouble[0] == '\0';
}

typedef struct program {
    library l;
    host before;
    qbench_session *session;
    const char *backends; /* NULL: the default */
    bool may_fail;        /* for want of something: then nothing else may have changed */
} program;

static bool checked(program *p, const char *call, qbench_status status) {
    compare(&p->before, call);
    if (status != QBENCH_OK && !p->may_fail) say("%s: %s", call, p->l.error(p->session));
    return status == QBENCH_OK && shared->trouble[0] == '\0';
}
#define CALL(call) checked(p, #call, p->l.call)

static bool infer(program *p, const qbench_engine *engine, float *out) {
    const void *inputs[] = {shared->input};
    void *outputs[] = {out};
    qbench_context *context;
    bool good = CALL(context_create(p->session, engine, &context));
    if (!good) return false;
    for (int i = 0; i < 3 && good; i++)
        good = CALL(context_run(p->session, context, inputs, outputs));
    p->l.context_free(context);
    return good;
}

static bool prepare(program *p) {
    qbench_inputs *inputs;
    if (!CALL(inputs_load(p->session, "model.json", &inputs))) return false;
    const bool good =
        CALL(inputs_image(p->session, inputs, "image.png", SIDE, SIDE, shared->input, INPUT));
    p->l.inputs_free(inputs);
    return good;
}

static void hash_file(const char *path) {
    unsigned char bytes[4096];
    ssize_t n;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    shared->file = 14695981039346656037u;
    while (fd >= 0 && (n = read(fd, bytes, sizeof bytes)) > 0)
        for (ssize_t i = 0; i < n; i++, shared->n_file++)
            shared->file = (shared->file ^ bytes[i]) * 1099511628211u;
    if (fd >= 0) close(fd);
}

/* Builds, runs, saves, loads, runs; and one call that fails. */
static void flow(program *p) {
    const qbench_build_options options = {.threads = 3, .backends = p->backends};
    qbench_engine *built = NULL, *loaded = NULL, *none = NULL;
    char path[QB_TEST_PATH + 32];
    snprintf(path, sizeof path, "%s/%d.qbe", folder, (int)getpid());
    if (prepare(p) && CALL(engine_build(p->session, "model.onnx", &options, &built)) &&
        infer(p, built, shared->output[0]) && CALL(engine_save(p->session, built, path)) &&
        CALL(engine_load(p->session, path, &loaded)) && infer(p, loaded, shared->output[1])) {
        hash_file(path);
        p->l.engine_build(p->session, "no_range.onnx", NULL, &none);
        compare(&p->before, "a call that fails");
        snprintf(shared->error, sizeof shared->error, "%s", p->l.error(p->session));
    }
    p->l.engine_free(loaded);
    p->l.engine_free(built);
    compare(&p->before, "engine_free");
    unlink(path);
}

static void use(program *p) {
    look(&p->before);
    if (!library_open(&p->l)) return;
    p->session = p->l.session_create();
    flow(p);
    p->l.session_free(p->session);
    dlclose(p->l.handle);
    compare(&p->before, "the end");
    compare_descriptors(&p->before, "the end");
}

/* ---- programs -------------------------------------------------------------------------------- */

typedef void (*program_fn)(void);

static void run_program(program_fn fn) {
    int how = 0;
    fflush(NULL);
    memset(shared, 0, sizeof *shared);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(120);
        fn();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    if (shared->trouble[0]) fail_msg("%s", shared->trouble);
    if (how != 0) fail_msg("the program ended with status %#x", (unsigned)how);
}

static void expect_usual(program_fn fn) {
    run_program(fn);
    assert_memory_equal(shared->input, usual.input, sizeof usual.input);
    assert_memory_equal(shared->output, usual.output, sizeof usual.output);
    assert_int_equal(shared->n_file, usual.n_file);
    assert_int_equal(shared->file, usual.file);
    assert_string_equal(shared->error, usual.error);
}

static void plain(void) {
    program p = {0};
    use(&p);
}

static void opened_again(void **state) {
    (void)state;
    expect_usual(plain);
}

static void many_times(void) {
    for (int i = 0; i < 4; i++) {
        program p = {.backends = i % 2 ? "cpu,dnnl,ref" : NULL};
        shared->n_file = 0;
        use(&p);
        const pid_t child = fork(); /* nothing of what is gone may run in it */
        int how = 0;
        if (child == 0) _exit(0);
        if (waitpid(child, &how, 0) != child || how != 0) say("a child ended with %#x", how);
    }
}

static void opened_and_closed(void **state) {
    (void)state;
    run_program(many_times);
}

static void before_fork(void) {
    program p = {0};
    look(&p.before);
    if (!library_open(&p.l)) return;
    p.session = p.l.session_create();
    const pid_t child = fork();
    if (child == 0) {
        flow(&p);
        _exit(0);
    }
    int how = 0;
    if (waitpid(child, &how, 0) != child || how != 0) say("the child ended with %#x", how);
    p.l.session_free(p.session);
}

static void opened_before_a_fork(void **state) {
    (void)state;
    expect_usual(before_fork);
}

/* ---- numbers */

static void with_commas(void) {
    char text[16];
    program p = {0};
    if (!setlocale(LC_ALL, "de_DE.UTF-8")) say("no German locale");
    snprintf(text, sizeof text, "%.1f", 1.5);
    if (strcmp(text, "1,5") != 0) say("%s is no German number", text);
    use(&p);
}

static void decimal_commas(void **state) {
    (void)state;
    if (german[0] == '\0') qb_test_skip("no German locale can be made here");
    expect_usual(with_commas);
}

static int rounding;
static unsigned flushing; /* bits of MXCSR */

static void with_floats(void) {
    program p = {0};
#if defined(__x86_64__)
    __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | flushing);
#endif
    fesetround(rounding);
    feraiseexcept(FE_OVERFLOW); /* flags are the program's, too */
    use(&p);
    if (!fetestexcept(FE_OVERFLOW)) say("a flag of the program is gone");
}

static void floating_point_environments(void **state) {
    static const int modes[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    static const unsigned flushes[] = {0, 0x8040}; /* FTZ and DAZ */
    (void)state;
    for (size_t i = 0; i < 4; i++)
        for (size_t k = 0; k < 2; k++) {
            rounding = modes[i];
            flushing = flushes[k];
            expect_usual(with_floats);
        }
}

static void with_traps(void) {
    program p = {0};
    feenableexcept(FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW);
    use(&p);
}

static void trapping_floats(void **state) {
    (void)state;
    expect_usual(with_traps);
}

/* ---- signals */

static volatile sig_atomic_t handled_elsewhere;
static pthread_t first_thread;

static void on_signal(int number) {
    (void)number;
    if (!pthread_equal(pthread_self(), first_thread)) handled_elsewhere++;
}

static void on_child(int number) {
    const int error = errno;
    (void)number;
    while (waitpid(-1, NULL, WNOHANG) > 0) continue;
    errno = error;
}

static void all_blocked(void) {
    sigset_t all;
    program p = {0};
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    use(&p);
}

static void children_ignored(void) {
    program p = {0};
    signal(SIGCHLD, SIG_IGN);
    use(&p);
}

static void children_reaped(void) {
    program p = {0};
    signal(SIGCHLD, on_child);
    use(&p);
}

/* A signal every 300 us, after which system calls are not begun anew. */
static void interrupted(void) {
    const struct itimerval often = {{0, 300}, {0, 300}};
    const struct sigaction action = {.sa_handler = on_signal};
    program p = {0};
    first_thread = pthread_self();
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    use(&p);
    if (handled_elsewhere) say("threads of the library took %d signals", (int)handled_elsewhere);
}

static void signals_of_the_program(void **state) {
    (void)state;
    expect_usual(all_blocked);
    expect_usual(children_ignored);
    expect_usual(children_reaped);
    expect_usual(interrupted);
}

/* Who blocks a signal to wait for it gets it: no thread of the library may take it. */
static void waits_for_signals(void) {
    static const char *const backends[] = {NULL, "dnnl,ref"};
    for (int i = 0; i < 2; i++) {
        float out[CLASSES];
        const void *inputs[] = {shared->input};
        void *outputs[] = {out};
        sigset_t one, pending;
        library l;
        qbench_engine *engine = NULL;
        qbench_context *context = NULL;
        const qbench_build_options options = {.threads = 3, .backends = backends[i]};
        const struct sigaction action = {.sa_handler = on_signal};
        if (!library_open(&l)) return;
        first_thread = pthread_self();
        sigaction(SIGUSR1, &action, NULL);
        qbench_session *session = l.session_create();
        if (l.engine_build(session, "model.onnx", &options, &engine) != QBENCH_OK ||
            l.context_create(session, engine, &context) != QBENCH_OK ||
            l.context_run(session, context, inputs, outputs) != QBENCH_OK) {
            say("%s", l.error(session));
            return;
        }
        sigemptyset(&one);
        sigaddset(&one, SIGUSR1);
        pthread_sigmask(SIG_BLOCK, &one, NULL);
        kill(getpid(), SIGUSR1);
        if (l.context_run(session, context, inputs, outputs) != QBENCH_OK)
            say("%s", l.error(session));
        sigpending(&pending);
        if (!sigismember(&pending, SIGUSR1) || handled_elsewhere)
            say("a thread of the library took the program's signal (%s)",
                backends[i] ? backends[i] : "default");
        int number = 0;
        sigwait(&one, &number);
        pthread_sigmask(SIG_UNBLOCK, &one, NULL);
        l.context_free(context);
        l.engine_free(engine);
        l.session_free(session);
    }
}

static void signals_reach_who_waits(void **state) {
    (void)state;
    run_program(waits_for_signals);
}

/* ---- descriptors and limits */

static void without_streams(void) {
    program p = {0};
    for (int fd = 0; fd < 3; fd++) close(fd);
    use(&p);
}

static void standard_streams_closed(void **state) {
    (void)state;
    expect_usual(without_streams);
}

static int most_descriptors;

static void few_descriptors(void) {
    struct rlimit limit;
    program p = {.may_fail = true};
    host before;
    look(&before);
    if (!library_open(&p.l)) return;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = (rlim_t)most_descriptors;
    setrlimit(RLIMIT_NOFILE, &limit);
    look(&p.before);
    p.session = p.l.session_create();
    flow(&p);
    p.l.session_free(p.session);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    compare_descriptors(&before, "few descriptors");
    if (shared->error[0] != '\0') return; /* these were enough */
    p.may_fail = false;
    p.session = p.l.session_create();
    look(&p.before);
    flow(&p); /* the same library, now that there is room */
    p.l.session_free(p.session);
}

static void limits_of_descriptors(void **state) {
    (void)state;
    for (most_descriptors = 0; most_descriptors < 12; most_descriptors++)
        expect_usual(few_descriptors);
}

static size_t stack;

static void *thread_main(void *argument) {
    (void)argument;
    plain();
    return NULL;
}

static void in_thread(void) {
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    if (pthread_attr_setstacksize(&attributes, stack) != 0 ||
        pthread_create(&thread, &attributes, thread_main, NULL) != 0)
        say("no thread with a stack of %zu bytes", stack);
    else
        pthread_join(thread, NULL);
}

static void small_stacks(void **state) {
    (void)state;
    for (stack = SMALLEST_STACK; stack <= (size_t)4 << 20; stack *= 4) expect_usual(in_thread);
}

/* ---- the current folder */

/* Names are of the folder that is the current one in the call, and of no later one. */
static void moving(void) {
    const qbench_build_options options = {.threads = 3};
    program own = {0}, *p = &own;
    library *l = &p->l;
    qbench_engine *engine = NULL, *saved = NULL;
    qbench_inputs *inputs = NULL;
    if (!library_open(l)) return;
    p->session = l->session_create();
    look(&p->before);
    if (!CALL(inputs_load(p->session, "model.json", &inputs)) ||
        !CALL(engine_build(p->session, "model.onnx", &options, &engine)) ||
        !CALL(engine_save(p->session, engine, "moved.qbe")) ||
        !CALL(engine_load(p->session, "moved.qbe", &saved)))
        return;
    if (chdir("/") != 0) say("chdir: %s", strerror(errno));
    look(&p->before);
    char image[QB_TEST_PATH + 16];
    snprintf(image, sizeof image, "%s/image.png", folder);
    if (CALL(inputs_image(p->session, inputs, image, SIDE, SIDE, shared->input, INPUT)) &&
        infer(p, engine, shared->output[0]))
        infer(p, saved, shared->output[1]);
    if (l->engine_load(p->session, "moved.qbe", &engine) == QBENCH_OK) say("it is not here");
}

static void folder_changes(void **state) {
    (void)state;
    run_program(moving);
    assert_memory_equal(shared->output, usual.output, sizeof usual.output);
}

/* ---- files of the programs ------------------------------------------------------------------- */

static void copy(const char *from, const char *to) {
    char source[QB_TEST_PATH], target[QB_TEST_PATH], bytes[4096];
    ssize_t n;
    qb_test_source(source, from);
    qb_test_join(target, folder, to);
    const int in = open(source, O_RDONLY | O_CLOEXEC),
              out = open(target, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(in >= 0 && out >= 0);
    while ((n = read(in, bytes, sizeof bytes)) > 0)
        assert_int_equal(write(out, bytes, (size_t)n), n);
    close(in);
    close(out);
}

/* Numbers that no other point than a decimal one, and no other rounding, gives. */
static const char sidecar[] =
    "{\"shape\": [1, 3, 32, 32], \"color\": \"RGB\", \"mean\": [123.675, 116.28, 103.53],"
    " \"std\": [58.395, 57.12, 57.375],"
    " \"resize\": {\"mode\": \"stretch\", \"size\": 32, \"filter\": \"bicubic\"}}\n";

/* Range from 0.5 to 1.5 by 0, which there is none of: an error with fractions in its text. */
static const uint8_t no_range[] = {
    0x08, 0x08, 0x3a, 0xb9, 0x01, 0x0a, 0x25, 0x12, 0x01, 0x61, 0x22, 0x08, 0x43, 0x6f, 0x6e, 0x73,
    0x74, 0x61, 0x6e, 0x74, 0x2a, 0x16, 0x0a, 0x05, 0x76, 0x61, 0x6c, 0x75, 0x65, 0x2a, 0x0a, 0x10,
    0x01, 0x22, 0x04, 0x00, 0x00, 0x00, 0x3f, 0x42, 0x00, 0xa0, 0x01, 0x04, 0x0a, 0x25, 0x12, 0x01,
    0x62, 0x22, 0x08, 0x43, 0x6f, 0x6e, 0x73, 0x74, 0x61, 0x6e, 0x74, 0x2a, 0x16, 0x0a, 0x05, 0x76,
    0x61, 0x6c, 0x75, 0x65, 0x2a, 0x0a, 0x10, 0x01, 0x22, 0x04, 0x00, 0x00, 0xc0, 0x3f, 0x42, 0x00,
    0xa0, 0x01, 0x04, 0x0a, 0x25, 0x12, 0x01, 0x64, 0x22, 0x08, 0x43, 0x6f, 0x6e, 0x73, 0x74, 0x61,
    0x6e, 0x74, 0x2a, 0x16, 0x0a, 0x05, 0x76, 0x61, 0x6c, 0x75, 0x65, 0x2a, 0x0a, 0x10, 0x01, 0x22,
    0x04, 0x00, 0x00, 0x00, 0x00, 0x42, 0x00, 0xa0, 0x01, 0x04, 0x0a, 0x13, 0x0a, 0x01, 0x61, 0x0a,
    0x01, 0x62, 0x0a, 0x01, 0x64, 0x12, 0x01, 0x72, 0x22, 0x05, 0x52, 0x61, 0x6e, 0x67, 0x65, 0x0a,
    0x0e, 0x0a, 0x01, 0x78, 0x0a, 0x01, 0x72, 0x12, 0x01, 0x79, 0x22, 0x03, 0x41, 0x64, 0x64, 0x12,
    0x01, 0x67, 0x5a, 0x0f, 0x0a, 0x01, 0x78, 0x12, 0x0a, 0x0a, 0x08, 0x08, 0x01, 0x12, 0x04, 0x0a,
    0x02, 0x08, 0x01, 0x62, 0x09, 0x0a, 0x01, 0x79, 0x12, 0x04, 0x0a, 0x02, 0x08, 0x01, 0x42, 0x04,
    0x0a, 0x00, 0x10, 0x11};

static void write_file(const char *name, const void *bytes, size_t size) {
    char path[QB_TEST_PATH];
    qb_test_join(path, folder, name);
    const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, bytes, size), size);
    close(fd);
}

/* A locale that writes 1.5 as 1,5, where this machine can make one. */
static void make_locale(void) {
    char command[3 * QB_TEST_PATH];
    qb_test_join(german, folder, "de_DE.UTF-8");
    snprintf(command, sizeof command,
             "localedef -c --no-archive -i de_DE -f UTF-8 '%s' >/dev/null 2>&1", german);
    if (system(command) != 0 || setenv("LOCPATH", folder, 1) != 0) german[0] = '\0';
}

static int prepare_files(void **state) {
    (void)state;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    qb_test_temp_dir(folder);
    copy("demo/model.onnx", "model.onnx");
    copy("docs/examples/report-light.png", "image.png");
    write_file("model.json", sidecar, sizeof sidecar - 1);
    write_file("no_range.onnx", no_range, sizeof no_range);
    make_locale();
    assert_int_equal(chdir(folder), 0);
    run_program(plain);
    usual = *shared;
    assert_non_null(strstr(usual.error, "no range from 0.5 to 1.5 by 0"));
    assert_true(usual.n_file > 1000);
    assert_memory_equal(usual.output[0], usual.output[1], sizeof usual.output[0]);
    return 0;
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(opened_again),
    cmocka_unit_test(opened_and_closed),
    cmocka_unit_test(opened_before_a_fork),
    cmocka_unit_test(decimal_commas),
    cmocka_unit_test(floating_point_environments),
    cmocka_unit_test(trapping_floats),
    cmocka_unit_test(signals_of_the_program),
    cmocka_unit_test(signals_reach_who_waits),
    cmocka_unit_test(standard_streams_closed),
    cmocka_unit_test(limits_of_descriptors),
    cmocka_unit_test(small_stacks),
    cmocka_unit_test(folder_changes),
};

int main(void) {
    return qb_test_exit_code(cmocka_run_group_tests(tests, prepare_files, NULL),
                             sizeof tests / sizeof *tests);
}
