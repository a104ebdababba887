/** Time that runs out, and time that went by: both go on by themselves. */
import type { JSX } from "preact";
import { useNow } from "../loading.ts";
import { serverNow } from "../server.ts";
import { durationWords, momentWords } from "../words.ts";

/** `until` is the browser's clock. */
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

/** `at` is the server's clock. */
export function Age({ at }: { readonly at: number }): JSX.Element {
  useNow();
  return (
    <time class="figure" dateTime={new Date(at).toISOString()} title={momentWords(at)}>
      {durationWords(Math.max(0, serverNow() - at))}
    </time>
  );
}
