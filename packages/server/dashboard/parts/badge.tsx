/** A state as a word with a colour. The word alone carries the meaning. */
import type { JSX } from "preact";

const TONES: Readonly<Record<string, string>> = {
  completed: "good",
  confirmed: "good",
  holds: "good",
  pending: "busy",
  held: "busy",
  delivering: "busy",
  lapsed: "warn",
  expired: "warn",
  elapsed: "warn",
  broken: "bad",
  parked: "bad",
  released: "plain",
  "given back": "plain",
};

export function Badge({ state }: { readonly state: string }): JSX.Element {
  return <span class={`badge is-${TONES[state] ?? "plain"}`}>{state}</span>;
}
