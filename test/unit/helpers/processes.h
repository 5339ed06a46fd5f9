/* Ranks as processes that find each other over TCP, started by a test. A port is held for them,
 * bound and not listened on, so that nobody else gets it in between; SO_REUSEADDR lets rank 0
 * listen there all the same. */
#ifndef SHARDC_TEST_PROCESSES_H
#define SHARDC_TEST_PROCESSES_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* The socket that holds it. */
static inline int hold_port(uint32_t *out_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int on = 1, holder = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (holder < 0 || setsockopt(holder, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(holder, (const struct sockaddr *)&address, sizeof address) != 0 ||
        getsockname(holder, (struct sockaddr *)&address, &length) != 0) {
        perror("a port of the loopback");
        exit(1);
    }
    *out_port = ntohs(address.sin_port);
    return holder;
}

/* What a launcher sets, in this process. */
static inline void be_rank(uint32_t rank, uint32_t size, uint32_t port)
{
    char text[16];
    snprintf(text, sizeof text, "%u", rank);
    setenv("RANK", text, 1);
    snprintf(text, sizeof text, "%u", size);
    setenv("WORLD_SIZE", text, 1);
    snprintf(text, sizeof text, "%u", port);
    setenv("MASTER_PORT", text, 1);
    unsetenv("MASTER_ADDR");
}

/* A process that is a rank: 0 in it, and it ends with its parent. */
static inline pid_t fork_rank(uint32_t rank, uint32_t size, uint32_t port)
{
    pid_t parent = getpid(), child = fork();
    if (child < 0) {
        perror("fork");
        exit(1);
    }
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        be_rank(rank, size, port);
    }
    return child;
}

/* This program again, with the same arguments, as every rank of a world: 0 when all end with 0. */
static inline int run_program(char **argv, uint32_t size)
{
    uint32_t port;
    int holder = hold_port(&port), failures = 0;
    for (uint32_t r = 0; r < size; r++) {
        if (fork_rank(r, size, port) == 0) {
            execv("/proc/self/exe", argv);
            _exit(127);
        }
    }
    for (uint32_t r = 0; r < size; r++) {
        int how = 0;
        if (wait(&how) < 0 || !WIFEXITED(how) || WEXITSTATUS(how) != 0)
            failures++;
    }
    close(holder);
    return failures;
}

#endif
