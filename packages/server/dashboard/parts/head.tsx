/** The head of a page: what it is, in one line what it is for, and what can be done on it. */
import type { ComponentChildren, JSX } from "preact";

export function Head(props: {
  readonly title: string;
  /** The title is somebody's text, to be read character by character. */
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
