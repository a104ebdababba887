/** What an operator should know and nobody asked: as a warning of the process, each once. */

const said = new Set<string>();

export function warnOnce(code: string, message: string): void {
  if (said.has(message)) return;
  said.add(message);
  process.emitWarning(message, { type: "NevertwiceWarning", code });
}
