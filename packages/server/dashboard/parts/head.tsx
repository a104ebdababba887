/** The head of a page: its title, one line that says what it is for, and its buttons. */
import type { ComponentChildren, JSX } from "preact";

export function Head(props: {
  readonly title: string;
  /** The title is a key: shown in a fixed-width font. */
  readonly isCode?: boolean;
  readonly children?: ComponentChildren;
  readonly actions?: ComponentChildren;
}): JSX.Element {
  return (
    <div class="page-head">
      <div>
        <h1 tabIndex={-1} class={props.isCode === true ? "is-key" : undefined}>
          {props.title}
        </h1>
        {props.children !== undefined && <p>{props.children}</p>}
      </div>
      {props.actions !== undefined && <div class="row">{props.actions}</div>}
    </div>
  );
}
