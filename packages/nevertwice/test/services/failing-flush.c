/*
 * A disk whose flushes fail: loaded before libc, every fsync and fdatasync fails with EIO while the first byte of the file
 * that NEVERTWICE_FAILING_FLUSH names is 1.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char whole = 0;
static const char *gate;

static int fails(void) {
  const char *known = __atomic_load_n(&gate, __ATOMIC_ACQUIRE);
  if (known == NULL) {
    const char *name = getenv("NEVERTWICE_FAILING_FLUSH");
    int file = name == NULL ? -1 : open(name, O_RDONLY | O_CLOEXEC);
    void *mapped = file < 0 ? MAP_FAILED : mmap(NULL, 1, PROT_READ, MAP_SHARED, file, 0);
    if (file >= 0) close(file);
    known = mapped == MAP_FAILED ? &whole : mapped;
    __atomic_store_n(&gate, known, __ATOMIC_RELEASE);
  }
  return __atomic_load_n(known, __ATOMIC_RELAXED) != 0;
}

static int flush(long call, int file) {
  if (!fails()) return (int)syscall(call, file);
  errno = EIO;
  return -1;
}

int fsync(int file) { return flush(SYS_fsync, file); }

int fdatasync(int file) { return flush(SYS_fdatasync, file); }
