/** One name and its value, inside a `<dl class="facts">`. */
import type { ComponentChildren, JSX } from "preact";

export function Fact(props: { readonly name: string; readonly children: ComponentChildren }): JSX.Element {
  return (
    <div>
      <dt>{props.name}</dt>
      <dd>{props.children}</dd>
    </div>
  );
}
