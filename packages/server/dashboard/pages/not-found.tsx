/** Shown for an address that has no page. */
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { Mark } from "../parts/icons.tsx";

export interface Link {
  readonly path: string;
  readonly name: string;
}

export function NotFoundPage(props: { readonly path: string; readonly pages: readonly Link[] }): JSX.Element {
  useEffect(() => {
    document.title = "Page not found · nevertwice";
  }, []);
  return (
    <main class="article">
      <a class="brand" href="/">
        <Mark /> nevertwice
      </a>
      <h1>Page not found</h1>
      <p class="muted">
        This server has nothing at <code>{props.path}</code>. These are its pages:
      </p>
      <ul>
        {props.pages.map(({ path, name }) => (
          <li key={path}>
            <a href={path}>{name}</a>
          </li>
        ))}
      </ul>
      <p class="muted">
        The HTTP API is described in <code>/openapi.json</code>.
      </p>
    </main>
  );
}
