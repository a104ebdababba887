/** One name and its value, inside a `<dl class="facts">`. */
import type { ComponentChildren, JSX } from "preact";

export function Fact(props: {
  readonly name: string;
  /** Takes the whole width. */
  readonly isWide?: boolean;
  readonly children: ComponentChildren;
}): JSX.Element {
  return (
    <div class={props.isWide === true ? "is-wide" : undefined}>
      <dt>{props.name}</dt>
      <dd>{props.children}</dd>
    </div>
  );
}
