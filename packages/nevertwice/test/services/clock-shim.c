/*
 * Loaded before libc, it adds an offset to the wall clock that a server reads. The offset, in nanoseconds, is the first
 * eight bytes of the file that NEVERTWICE_CLOCK_OFFSET names, mapped once and read at every call, so that a test can move
 * the clock while the server runs. Monotonic clocks stay as they are, as they do when an operator sets the time.
 *
 * Nothing here allocates: a server's allocator may ask for the time before it is ready itself.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL

static const int64_t zero = 0;
static const int64_t *offset;

static int64_t current_offset(void) {
  const int64_t *known = __atomic_load_n(&offset, __ATOMIC_ACQUIRE);
  if (known == NULL) {
    const char *name = getenv("NEVERTWICE_CLOCK_OFFSET");
    int file = name == NULL ? -1 : open(name, O_RDONLY | O_CLOEXEC);
    void *mapped = file < 0 ? MAP_FAILED : mmap(NULL, sizeof zero, PROT_READ, MAP_SHARED, file, 0);
    if (file >= 0) close(file);
    known = mapped == MAP_FAILED ? &zero : mapped;
    /* Two threads may both map it; both mappings show the same file. */
    __atomic_store_n(&offset, known, __ATOMIC_RELEASE);
  }
  return __atomic_load_n(known, __ATOMIC_RELAXED);
}

int clock_gettime(clockid_t id, struct timespec *now) {
  int failed = (int)syscall(SYS_clock_gettime, id, now);
  if (failed || (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE)) return failed;
  int64_t ns = now->tv_sec * SECOND + now->tv_nsec + current_offset();
  now->tv_sec = ns / SECOND;
  now->tv_nsec = ns % SECOND;
  return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  struct timespec precise;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &precise);
  now->tv_sec = precise.tv_sec;
  now->tv_usec = precise.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *now) {
  struct timespec precise;
  clock_gettime(CLOCK_REALTIME, &precise);
  if (now != NULL) *now = precise.tv_sec;
  return precise.tv_sec;
}
