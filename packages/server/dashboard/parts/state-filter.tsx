/** Buttons that choose one state of a list, or all of them. */
import type { JSX } from "preact";

export function StateFilter(props: {
  readonly states: readonly string[];
  /** Empty for all. */
  readonly chosen: string;
  choose(state: string): void;
}): JSX.Element {
  return (
    <fieldset class="choices">
      <legend class="unseen">State</legend>
      {["", ...props.states].map((state) => (
        <button
          key={state}
          type="button"
          aria-pressed={props.chosen === state}
          onClick={() => props.choose(state)}
        >
          {state === "" ? "All" : state.charAt(0).toUpperCase() + state.slice(1)}
        </button>
      ))}
    </fieldset>
  );
}
