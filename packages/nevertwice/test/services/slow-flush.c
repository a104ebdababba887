/* A disk whose flushes take long: preloaded into a server, each fdatasync takes half a second more. */
#include <sys/syscall.h>
#include <unistd.h>

int fdatasync(int file) {
  usleep(500000);
  return (int)syscall(SYS_fdatasync, file);
}
