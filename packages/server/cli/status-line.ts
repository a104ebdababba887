/**
 * One line at the end of standard error that changes while a command works. It is drawn only on a terminal, and removed
 * before anything else is printed.
 */

let isDrawn = false;

/** Replaces the line. `text` must not contain line breaks. */
export function showStatus(text: string): void {
  const stream = process.stderr;
  if (!stream.isTTY) return;
  isDrawn = true;
  stream.write(`\r\x1b[K${text}`);
}

export function clearStatus(): void {
  if (!isDrawn) return;
  isDrawn = false;
  process.stderr.write("\r\x1b[K");
}

/** A command that has printed nothing for this long says that it is still working. */
export const QUIET_MS = 2_000;
const EVERY_MS = 1_000;

/** Runs the work. From `QUIET_MS` on, the line says what is being done and for how long. */
export async function withElapsedTime<T>(what: string, work: () => Promise<T>): Promise<T> {
  const startedAt = performance.now();
  const show = () => {
    const seconds = Math.floor((performance.now() - startedAt) / 1_000);
    showStatus(`${what}: still working, ${seconds} s`);
  };
  let ticking: NodeJS.Timeout | undefined;
  const first = setTimeout(() => {
    show();
    ticking = setInterval(show, EVERY_MS);
    ticking.unref();
  }, QUIET_MS);
  first.unref();
  try {
    return await work();
  } finally {
    clearTimeout(first);
    clearInterval(ticking);
    clearStatus();
  }
}
