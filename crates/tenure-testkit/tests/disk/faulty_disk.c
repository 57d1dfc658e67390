/* A disk that fails on command, for a process that is started with this library preloaded.
 *
 * FAULTY_DISK names a folder. While it holds a file named
 *   sync   syncing fails with EIO,
 *   space  writing to a regular file fails with ENOSPC,
 *   io     writing to a regular file fails with EIO. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static int ordered(const char *fault) {
  const char *folder = getenv("FAULTY_DISK");
  char path[4096];
  if (!folder) return 0;
  snprintf(path, sizeof path, "%s/%s", folder, fault);
  return access(path, F_OK) == 0;
}

static int write_fails(int fd) {
  struct stat file;
  int error = ordered("space") ? ENOSPC : ordered("io") ? EIO : 0;
  if (!error || fstat(fd, &file) || !S_ISREG(file.st_mode)) return 0;
  errno = error;
  return 1;
}

static int sync_fails(void) {
  if (!ordered("sync")) return 0;
  errno = EIO;
  return 1;
}

#define REAL(type, name, ...) ((type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name))

int fsync(int fd) { return sync_fails() ? -1 : REAL(int, "fsync", int)(fd); }

int fdatasync(int fd) { return sync_fails() ? -1 : REAL(int, "fdatasync", int)(fd); }

ssize_t write(int fd, const void *data, size_t size) {
  return write_fails(fd) ? -1 : REAL(ssize_t, "write", int, const void *, size_t)(fd, data, size);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at) {
  if (write_fails(fd)) return -1;
  return REAL(ssize_t, "pwrite", int, const void *, size_t, off_t)(fd, data, size, at);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
  if (write_fails(fd)) return -1;
  return REAL(ssize_t, "pwrite64", int, const void *, size_t, off64_t)(fd, data, size, at);
}
