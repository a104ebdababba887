/** A state as a word with a colour. The word alone carries the meaning. */
import type { JSX } from "preact";

const TONES: Readonly<Record<string, string>> = {
  completed: "good",
  confirmed: "good",
  holds: "good",
  acknowledge: "good",
  pending: "busy",
  running: "busy",
  held: "busy",
  delivering: "busy",
  lapsed: "warn",
  full: "warn",
  later: "warn",
  expired: "warn",
  elapsed: "warn",
  broken: "bad",
  parked: "bad",
  reject: "bad",
  released: "plain",
  "given back": "plain",
};

export function Badge({ state }: { readonly state: string }): JSX.Element {
  return <span class={`badge is-${TONES[state] ?? "plain"}`}>{state}</span>;
}
