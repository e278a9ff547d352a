/* peak_memory FILE COMMAND...: runs it, writes the most memory that it had (MiB) into FILE, and
 * ends with its exit code. */
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    const pid_t child = fork();
    if (child == 0) {
        execvp(argv[2], argv + 2);
        _exit(127);
    }
    int status;
    struct rusage usage;
    if (child < 0 || wait4(child, &status, 0, &usage) < 0) return 126;
    FILE *out = fopen(argv[1], "w");
    if (!out) return 126;
    fprintf(out, "%ld\n", usage.ru_maxrss / 1024);
    if (fclose(out) != 0) return 126;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
