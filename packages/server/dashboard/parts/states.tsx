/** What a card shows without a value: loading, empty or failed. */
import type { ComponentChildren, JSX } from "preact";
import type { LoadState } from "../load-state.ts";
import { ApiError } from "../server.ts";
import { ICONS, type IconName } from "./icons.tsx";

export function Empty(props: {
  readonly icon: IconName;
  readonly title: string;
  readonly children?: ComponentChildren;
}): JSX.Element {
  return (
    <div class="empty">
      <span class="empty-icon">{ICONS[props.icon]}</span>
      <h2>{props.title}</h2>
      {props.children}
    </div>
  );
}

export function Failed({ error, retry }: { readonly error: Error; readonly retry: () => void }): JSX.Element {
  const code = error instanceof ApiError && error.status > 0 ? error.code : undefined;
  return (
    <div class="empty is-failed" role="alert">
      <span class="empty-icon">{ICONS.no}</span>
      <h2>{code === "not-authorized" ? "Your role does not allow this" : "The request failed"}</h2>
      <p>{error.message}</p>
      <div class="row">
        <button type="button" class="button" onClick={retry}>
          {ICONS.refresh} Try again
        </button>
        {code !== undefined && (
          <a class="quiet-link" href={`/errors/${code}`}>
            What {code} means
          </a>
        )}
      </div>
    </div>
  );
}

export function Loading({ lines = 6 }: { readonly lines?: number }): JSX.Element {
  return (
    <div class="loading" role="status">
      <span class="unseen">Loading…</span>
      {Array.from({ length: lines }, (_, index) => (
        <span key={index} class="loading-line" aria-hidden="true" />
      ))}
    </div>
  );
}

/**
 * Shows the value once it is loaded. If a later load fails, the old value stays, with a notice above it; if the server
 * refuses the request (4xx), the error replaces it.
 */
export function Shown<T>({
  loaded,
  children,
}: {
  readonly loaded: LoadState<T>;
  readonly children: (value: T) => ComponentChildren;
}): JSX.Element {
  const { value, error, reload } = loaded;
  const isGone = error instanceof ApiError && error.status >= 400 && error.status < 500;
  if (value === undefined || isGone)
    return error === undefined ? <Loading /> : <Failed error={error} retry={reload} />;
  return (
    <>
      {error !== undefined && (
        <p class="notice is-warning" role="status">
          These are older values: {error.message}
        </p>
      )}
      {children(value)}
    </>
  );
}
