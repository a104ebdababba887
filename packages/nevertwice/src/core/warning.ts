/** Process warnings for operators and developers. Each is emitted once. */

const emitted = new Set<string>();
/** The text of a warning may depend on callers, so there is a limit to how many are remembered and emitted. */
const MOST_WARNINGS = 1_000;

interface Platform {
  readonly process?: { emitWarning?(message: string, options: { type: string; code: string }): void };
}

/** Warnings with the same `about` count as the same; by default, those with the same message. */
export function warnOnce(code: string, message: string, about: string = message): void {
  const id = `${code} ${about}`;
  if (emitted.has(id) || emitted.size >= MOST_WARNINGS) return;
  emitted.add(id);
  const { process } = globalThis as Platform;
  if (process?.emitWarning !== undefined) process.emitWarning(message, { type: "NevertwiceWarning", code });
  // biome-ignore lint/suspicious/noConsole: platforms without a process have no other place for a warning.
  else console.warn(`[${code}] ${message}`);
}
