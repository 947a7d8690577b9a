/* Calls of the system that fail, or in which the process dies: loaded before the C library by LD_PRELOAD.

   klazy_arm(moment, what, lasts): from now on, at the call of this number, counted from one, do `what`:
   an errno to fail with, or one of the codes below. If it lasts, so do all calls after it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

enum { DIE_IN = -1, DIE_AFTER = -2, SHORT = -3 };

static long moment, calls, syncs;
static int what, lasts;

void klazy_arm(long at, int fault, int stays) { moment = at; what = fault; lasts = stays; calls = 0; syncs = 0; }
long klazy_calls(void) { return calls; }
long klazy_syncs(void) { return syncs; }

static int strikes(void) {
    calls++;
    return moment > 0 && (calls == moment || (lasts && calls > moment));
}

static void die(void) { kill(getpid(), SIGKILL); }

#define REAL(name, ...) \
    static __typeof__(name) *real; \
    if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name);

#define WRITE(name, offset) \
    ssize_t name(int fd, const void *data, size_t size, offset at) { \
        REAL(name) \
        if (!strikes()) return real(fd, data, size, at); \
        if (what == DIE_IN) { real(fd, data, size / 2, at); die(); } \
        if (what == DIE_AFTER) { real(fd, data, size, at); die(); } \
        if (what == SHORT) return real(fd, data, size > 1 ? size / 2 : size, at); \
        errno = what; \
        return -1; \
    }

#define OTHER(name, parameters, arguments, sync) \
    int name parameters { \
        REAL(name) \
        syncs += sync; \
        if (!strikes() || what == SHORT) return real arguments; \
        if (what == DIE_IN) die(); \
        if (what == DIE_AFTER) { real arguments; die(); } \
        errno = what; \
        return -1; \
    }

/* Only writes to files count: pipes, sockets and terminals are not what is tested. */
static int is_file(int fd) {
    int before = errno;
    struct stat about;
    int found = fstat(fd, &about) == 0 && S_ISREG(about.st_mode);
    errno = before;
    return found;
}

ssize_t write(int fd, const void *data, size_t size) {
    REAL(write)
    if (!is_file(fd) || !strikes()) return real(fd, data, size);
    if (what == DIE_IN) { real(fd, data, size / 2); die(); }
    if (what == DIE_AFTER) { real(fd, data, size); die(); }
    if (what == SHORT) return real(fd, data, size > 1 ? size / 2 : size);
    errno = what;
    return -1;
}

WRITE(pwrite, off_t)
WRITE(pwrite64, off64_t)
OTHER(fsync, (int fd), (fd), 1)
OTHER(fdatasync, (int fd), (fd), 1)
OTHER(ftruncate, (int fd, off_t size), (fd, size), 0)
OTHER(ftruncate64, (int fd, off64_t size), (fd, size), 0)
OTHER(rename, (const char *from, const char *to), (from, to), 0)
OTHER(unlink, (const char *path), (path), 0)
