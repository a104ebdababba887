/** What stands where there is nothing to show: not yet, nothing there, or nothing that could be had. */
import type { ComponentChildren, JSX } from "preact";
import type { Loaded } from "../loading.ts";
import { Refusal } from "../server.ts";
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
  const code = error instanceof Refusal && error.status > 0 ? error.code : undefined;
  return (
    <div class="empty is-failed" role="alert">
      <span class="empty-icon">{ICONS.no}</span>
      <h2>{code === "not-authorized" ? "This is not for your role" : "That did not work"}</h2>
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

/** The value once it is there. That it could not be asked for again is told above it; that it is gone replaces it. */
export function Shown<T>({
  loaded,
  children,
}: {
  readonly loaded: Loaded<T>;
  readonly children: (value: T) => ComponentChildren;
}): JSX.Element {
  const { value, error, reload } = loaded;
  const isGone = error instanceof Refusal && error.status >= 400 && error.status < 500;
  if (value === undefined || isGone)
    return error === undefined ? <Loading /> : <Failed error={error} retry={reload} />;
  return (
    <>
      {error !== undefined && (
        <p class="notice is-warning" role="status">
          This is as it was a moment ago: {error.message}
        </p>
      )}
      {children(value)}
    </>
  );
}
