/* Writes down what a process does to the files below a folder, in the order in which it does it, and what it reads from
 * and says to its driver in between.
 *
 * DORAN_TRACE_DIR   the folder
 * DORAN_TRACE_FILE  where to write it down, a file outside the folder
 * DORAN_TRACE_END   ends the process when it begins this sync, counted from 1: what is under way then is never half
 *                   written down
 *
 * A record is: a letter, three numbers of eight bytes (offset, length of the path, length of the data), path, data.
 *
 *   L a process begins           W bytes written           T cut or grown to `offset`
 *   S a sync of a file begins, number `offset`      D of a folder      E it ended      M a folder was made
 *   U a file or folder removed   R renamed to `data`       I read from stdin         O written to stdout
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *folder;
static int trace = -1;
static atomic_ulong syncs;
static unsigned long end_at;

/* Records are written with writev, which is not traced. */
static void note(char kind, uint64_t offset, const char *path, const void *data, uint64_t size) {
    uint64_t numbers[3] = {offset, path ? strlen(path) : 0, size};
    struct iovec parts[4] = {
        {&kind, 1}, {numbers, sizeof numbers}, {(void *)path, numbers[1]}, {(void *)data, size},
    };
    ssize_t whole = 1 + (ssize_t)sizeof numbers + (ssize_t)numbers[1] + (ssize_t)size;
    /* A trace with a hole proves nothing. */
    if (writev(trace, parts, 4) != whole) abort();
}

__attribute__((constructor)) static void begin(void) {
    const char *file = getenv("DORAN_TRACE_FILE");
    folder = getenv("DORAN_TRACE_DIR");
    const char *end = getenv("DORAN_TRACE_END");
    if (!file || !folder) return;
    end_at = end ? strtoul(end, NULL, 10) : 0;
    trace = open(file, O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
    if (trace < 0) abort();
    note('L', 0, NULL, NULL, 0);
}

static int is_below(const char *path) {
    size_t size = strlen(folder);
    return strncmp(path, folder, size) == 0 && (path[size] == '/' || path[size] == 0);
}

/* The path of an open file below the folder. What SQLite maps into memory is made anew after a crash. */
static int path_of(int fd, char *path, size_t room) {
    char link[64];
    if (trace < 0) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, room - 1);
    if (size <= 0) return 0;
    path[size] = 0;
    return is_below(path) && !strstr(path, "-shm") && !strstr(path, " (deleted)");
}

#define NEXT(name) \
    static __typeof__(name) *next; \
    if (!next) next = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

/* The order of the trace is the order of the calls, so a call and its record are one. */
#define TRACED(path_expression, record, call) \
    char path[4096]; \
    if (!(path_expression)) return call; \
    pthread_mutex_lock(&lock); \
    __auto_type result = call; \
    if (result >= 0) record; \
    pthread_mutex_unlock(&lock); \
    return result

/* A sync keeps what was written before it began, once it has ended. Others go on meanwhile. */
static int traced_sync(int fd, int (*next)(int)) {
    char path[4096];
    struct stat about;
    if (!path_of(fd, path, sizeof path)) return next(fd);
    int is_folder = fstat(fd, &about) == 0 && S_ISDIR(about.st_mode);
    unsigned long number = atomic_fetch_add(&syncs, 1);
    pthread_mutex_lock(&lock);
    note(is_folder ? 'D' : 'S', number, path, NULL, 0);
    if (end_at && number + 1 >= end_at) _exit(86);
    pthread_mutex_unlock(&lock);
    /* The folder may lie in memory. A disk takes its time, and what goes on meanwhile is what matters. */
    usleep(2000);
    int result = next(fd);
    if (result != 0) return result;
    pthread_mutex_lock(&lock);
    note('E', number, path, NULL, 0);
    pthread_mutex_unlock(&lock);
    return result;
}

int fsync(int fd) {
    NEXT(fsync);
    return traced_sync(fd, next);
}

int fdatasync(int fd) {
    NEXT(fdatasync);
    return traced_sync(fd, next);
}

ssize_t write(int fd, const void *bytes, size_t size) {
    NEXT(write);
    if (fd == STDOUT_FILENO && trace >= 0) {
        /* What is said counts from the moment in which the process decides to say it. */
        pthread_mutex_lock(&lock);
        note('O', 0, NULL, bytes, size);
        pthread_mutex_unlock(&lock);
        return next(fd, bytes, size);
    }
    struct stat about;
    off_t at = 0;
    if (trace >= 0) {
        int appends = fcntl(fd, F_GETFL) & O_APPEND;
        at = appends && fstat(fd, &about) == 0 ? about.st_size : lseek(fd, 0, SEEK_CUR);
    }
    TRACED(path_of(fd, path, sizeof path), note('W', (uint64_t)at, path, bytes, (uint64_t)result), next(fd, bytes, size));
}

ssize_t pwrite(int fd, const void *bytes, size_t size, off_t at) {
    NEXT(pwrite);
    TRACED(path_of(fd, path, sizeof path), note('W', (uint64_t)at, path, bytes, (uint64_t)result), next(fd, bytes, size, at));
}

ssize_t pwrite64(int fd, const void *bytes, size_t size, off64_t at) {
    NEXT(pwrite64);
    TRACED(path_of(fd, path, sizeof path), note('W', (uint64_t)at, path, bytes, (uint64_t)result), next(fd, bytes, size, at));
}

int ftruncate(int fd, off_t size) {
    NEXT(ftruncate);
    TRACED(path_of(fd, path, sizeof path), note('T', (uint64_t)size, path, NULL, 0), next(fd, size));
}

int ftruncate64(int fd, off64_t size) {
    NEXT(ftruncate64);
    TRACED(path_of(fd, path, sizeof path), note('T', (uint64_t)size, path, NULL, 0), next(fd, size));
}

static int named_below(const char *name, char *path, size_t room) {
    snprintf(path, room, "%s", name);
    return trace >= 0 && is_below(path) && !strstr(path, "-shm");
}

int unlink(const char *name) {
    NEXT(unlink);
    TRACED(named_below(name, path, sizeof path), note('U', 0, path, NULL, 0), next(name));
}

int rmdir(const char *name) {
    NEXT(rmdir);
    TRACED(named_below(name, path, sizeof path), note('U', 0, path, NULL, 0), next(name));
}

/* The path of a name that is relative to an open folder. */
static int named_at(int folder_fd, const char *name, char *path, size_t room) {
    if (trace < 0) return 0;
    if (name[0] == '/' || folder_fd == AT_FDCWD) return named_below(name, path, room);
    if (!path_of(folder_fd, path, room)) return 0;
    size_t size = strlen(path);
    snprintf(path + size, room - size, "/%s", name);
    return 1;
}

int unlinkat(int folder_fd, const char *name, int flags) {
    NEXT(unlinkat);
    TRACED(named_at(folder_fd, name, path, sizeof path), note('U', 0, path, NULL, 0), next(folder_fd, name, flags));
}

int mkdir(const char *name, mode_t mode) {
    NEXT(mkdir);
    TRACED(named_below(name, path, sizeof path), note('M', 0, path, NULL, 0), next(name, mode));
}

/* A file that is made or emptied has a name and no content. */
int open64(const char *name, int flags, ...) {
    NEXT(open64);
    va_list more;
    va_start(more, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;
    va_end(more);
    int is_new = trace >= 0 && (flags & O_CREAT) && access(name, F_OK) != 0;
    if (!is_new && !(flags & O_TRUNC)) return next(name, flags, mode);
    TRACED(named_below(name, path, sizeof path), note('T', 0, path, NULL, 0), next(name, flags, mode));
}

int rename(const char *from, const char *to) {
    NEXT(rename);
    TRACED(named_below(from, path, sizeof path), note('R', 0, path, to, strlen(to)), next(from, to));
}

ssize_t read(int fd, void *bytes, size_t size) {
    NEXT(read);
    ssize_t result = next(fd, bytes, size);
    if (fd == STDIN_FILENO && trace >= 0 && result > 0) {
        pthread_mutex_lock(&lock);
        note('I', 0, NULL, bytes, (uint64_t)result);
        pthread_mutex_unlock(&lock);
    }
    return result;
}
