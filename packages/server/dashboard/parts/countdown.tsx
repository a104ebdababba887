/** The time until a deadline and the time since a moment, both updated every second. */
import type { JSX } from "preact";
import { durationWords, momentWords } from "../formats.ts";
import { useNow } from "../load-state.ts";
import { serverNow } from "../server.ts";

/** `until` is a time of the browser's clock. */
export function Countdown(props: {
  readonly until: number;
  readonly over: string;
  readonly label?: string;
}): JSX.Element {
  const left = props.until - useNow();
  if (left <= 0) return <span class="is-over">{props.over}</span>;
  return (
    <span class={left < 10_000 ? "figure is-short" : "figure"} role="timer" aria-label={props.label}>
      {durationWords(left)}
    </span>
  );
}

/** `at` is a time of the server's clock. */
export function Age({ at }: { readonly at: number }): JSX.Element {
  useNow();
  return (
    <time class="figure" dateTime={new Date(at).toISOString()} title={momentWords(at)}>
      {durationWords(Math.max(0, serverNow() - at))}
    </time>
  );
}
