/**
 * The one form of `--json`: one line on standard output, whether the command succeeded or not. docs/cli.md describes it.
 * Commands that run for a while (`serve`, `demo`, `prove`, `pipeline run`) print lines of events before it.
 */
import { EXIT, type Exit } from "./command.ts";

interface Envelope {
  /** The command with its action, such as `keys list`; null if there is no such command. */
  readonly command: string | null;
  readonly exit: Exit;
  /** The result; absent if there is none. A check that did not pass has its findings here. */
  readonly data?: unknown;
  /** Why there is no result. */
  readonly error?: { readonly code: string; readonly message: string; readonly details?: unknown };
}

export function envelopeText({ command, exit, ...rest }: Envelope): string {
  return JSON.stringify({ command, ok: exit === EXIT.ok, exit, ...rest });
}

/** One line of a command that is still running. The member `event` tells it from the envelope. */
export function eventText(event: string, content: object): string {
  return JSON.stringify({ event, ...content });
}
