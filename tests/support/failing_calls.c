/* failing_calls MODE COMMAND...: runs a command as its tracer and meddles with its system calls on
 * files, whichever library makes them.
 *
 *   count        writes to the file that FAIL_COUNT names how many there were
 *   N:ERRNO      the call of number N fails so, once (5: EIO, 116: ESTALE as NFS has it)
 *   short        each read and write of more than a byte moves half of what it was asked for
 *
 * Counting begins with the program's first sigaction (main's): the loader's calls are not its own.
 * Exit code: the command's, 128 and the number of the signal that ended it, 77 where tracing is not
 * possible. */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__) && defined(__linux__)
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>

static const int calls[] = {
    SYS_rt_sigaction, SYS_read,      SYS_pread64,    SYS_write,      SYS_pwrite64, SYS_writev,
    SYS_open,         SYS_openat,
#ifdef SYS_openat2
    SYS_openat2,
#endif
    SYS_fstat,        SYS_stat,      SYS_lstat,      SYS_newfstatat, SYS_statx,    SYS_lseek,
    SYS_fsync,        SYS_ftruncate, SYS_rename,     SYS_renameat,   SYS_mkdir,    SYS_unlink,
    SYS_flock,        SYS_fcntl,     SYS_getdents64, SYS_close,      SYS_mmap};
enum { N_CALLS = sizeof calls / sizeof *calls };

static struct {
    bool short_ones, counting;
    long at, error, made;
} mode;

/* Only these calls stop: everything else runs at its own speed. */
static int filter_calls(void) {
    struct sock_filter code[N_CALLS + 3];
    size_t n = 0;
    code[n++] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (int i = 0; i < N_CALLS; i++)
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i],
                                                 (unsigned char)(N_CALLS - i), 0);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE);
    const struct sock_fprog program = {(unsigned short)n, code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* The messages about a failure must get out; memory without a file is the allocator's. */
static bool is_ours(const struct user_regs_struct *r) {
    const bool writes =
        r->orig_rax == SYS_write || r->orig_rax == SYS_writev || r->orig_rax == SYS_close;
    if (r->orig_rax == SYS_mmap) return (int)r->r8 >= 0;
    return !(writes && r->rdi <= STDERR_FILENO);
}

static void meddle(pid_t thread) {
    struct user_regs_struct r;
    if (ptrace(PTRACE_GETREGS, thread, NULL, &r) != 0) return;
    if (r.orig_rax == SYS_rt_sigaction) {
        mode.counting = true;
        return;
    }
    if (!mode.counting || !is_ours(&r)) return;
    const bool moves = r.orig_rax == SYS_read || r.orig_rax == SYS_pread64 ||
                       r.orig_rax == SYS_write || r.orig_rax == SYS_pwrite64;
    if (++mode.made == mode.at) {
        r.orig_rax = (unsigned long long)-1; /* none is made */
        r.rax = (unsigned long long)-mode.error;
    } else if (mode.short_ones && moves && r.rdx > 1) {
        r.rdx -= r.rdx / 2;
    } else {
        return;
    }
    (void)ptrace(PTRACE_SETREGS, thread, NULL, &r);
}

static int trace(pid_t child) {
    enum {
        OPTIONS = PTRACE_O_TRACESECCOMP | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK |
                  PTRACE_O_TRACEVFORK | PTRACE_O_EXITKILL
    };
    int status;
    if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) return 77;
    if (ptrace(PTRACE_SETOPTIONS, child, NULL, (void *)(long)OPTIONS) != 0) return 77;
    (void)ptrace(PTRACE_CONT, child, NULL, NULL);
    for (;;) {
        const pid_t who = waitpid(-1, &status, __WALL);
        if (who < 0) return 77;
        if (who == child && WIFEXITED(status)) return WEXITSTATUS(status);
        if (who == child && WIFSIGNALED(status)) return 128 + WTERMSIG(status);
        if (!WIFSTOPPED(status)) continue;
        const int event = status >> 16;
        if (event == PTRACE_EVENT_SECCOMP) meddle(who);
        /* A new thread starts with a stop, an event is none of its signals. */
        const int number = event || WSTOPSIG(status) == SIGSTOP || WSTOPSIG(status) == SIGTRAP
                               ? 0
                               : WSTOPSIG(status);
        (void)ptrace(PTRACE_CONT, who, NULL, (void *)(long)number);
    }
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    mode.short_ones = strcmp(argv[1], "short") == 0;
    if (strchr(argv[1], ':')) {
        mode.at = atol(argv[1]);
        mode.error = atol(strchr(argv[1], ':') + 1);
    }
    const pid_t child = fork();
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) _exit(77);
        raise(SIGSTOP);
        if (filter_calls() != 0) _exit(77);
        execv(argv[2], argv + 2);
        _exit(127);
    }
    const int code = child < 0 ? 77 : trace(child);
    const char *path = getenv("FAIL_COUNT");
    FILE *out = path ? fopen(path, "w") : NULL;
    if (out) {
        fprintf(out, "%ld\n", mode.made);
        fclose(out);
    }
    return code;
}
#else
int main(void) { return 77; }
#endif
