/* Makes one call on the files below a folder fail, in a process that has this preloaded.
 *
 * DORAN_SHIM_DIR    the folder
 * DORAN_SHIM_CALL   "sync" (fsync, fdatasync) or "write" (write, pwrite)
 * DORAN_SHIM_NTH    which of those calls fails, from 1
 * DORAN_SHIM_ERRNO  with which number
 * DORAN_SHIM_MARK   a file outside the folder that is made when it did
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_long calls;

static int below(int fd) {
    const char *dir = getenv("DORAN_SHIM_DIR");
    char link[64], path[4096];
    if (!dir) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size <= 0) return 0;
    path[size] = 0;
    /* Of the folder itself SQLite syncs on a best-effort basis, so only what lies in it counts. */
    return strncmp(path, dir, strlen(dir)) == 0 && path[strlen(dir)] == '/';
}

static int fails(int fd, const char *call) {
    const char *wanted = getenv("DORAN_SHIM_CALL"), *nth = getenv("DORAN_SHIM_NTH");
    if (!wanted || !nth || strcmp(wanted, call) != 0 || !below(fd)) return 0;
    if (atomic_fetch_add(&calls, 1) + 1 != atol(nth)) return 0;
    const char *mark = getenv("DORAN_SHIM_MARK"), *number = getenv("DORAN_SHIM_ERRNO");
    if (mark) close(open(mark, O_CREAT | O_WRONLY, 0600));
    errno = number ? atoi(number) : EIO;
    return 1;
}

#define NEXT(name) \
    static __typeof__(name) *next; \
    if (!next) next = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

int fsync(int fd) {
    NEXT(fsync);
    return fails(fd, "sync") ? -1 : next(fd);
}

int fdatasync(int fd) {
    NEXT(fdatasync);
    return fails(fd, "sync") ? -1 : next(fd);
}

ssize_t write(int fd, const void *bytes, size_t size) {
    NEXT(write);
    return fails(fd, "write") ? -1 : next(fd, bytes, size);
}

ssize_t pwrite(int fd, const void *bytes, size_t size, off_t at) {
    NEXT(pwrite);
    return fails(fd, "write") ? -1 : next(fd, bytes, size, at);
}

ssize_t pwrite64(int fd, const void *bytes, size_t size, off64_t at) {
    NEXT(pwrite64);
    return fails(fd, "write") ? -1 : next(fd, bytes, size, at);
}
