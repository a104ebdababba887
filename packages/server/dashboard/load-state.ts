/** Hooks that load a value from the server and track whether it is loading, loaded or failed. */
import { useCallback, useEffect, useRef, useState } from "preact/hooks";

export interface LoadState<T> {
  readonly value: T | undefined;
  readonly error: Error | undefined;
  readonly isLoading: boolean;
  /** When the value arrived, by the browser's clock. */
  readonly at: number;
  reload(): void;
}

/** An answer that takes longer is lost: the server answers, or refuses, much sooner. */
const LOST_MS = 30_000;

/**
 * Loads at once, again when `asked` changes, and every `everyMs` if given and the last answer has arrived. The last value stays
 * until the next arrives.
 */
export function useLoaded<T>(load: () => Promise<T>, asked: string, everyMs?: number): LoadState<T> {
  const [state, setState] = useState<Omit<LoadState<T>, "reload">>({
    value: undefined,
    error: undefined,
    isLoading: true,
    at: 0,
  });
  const latest = useRef(load);
  latest.current = load;
  const turn = useRef(0);
  /** When the request was sent whose answer has not arrived; 0 if there is none. */
  const sentAt = useRef(0);

  const reload = useCallback(() => {
    turn.current++;
    const mine = turn.current;
    sentAt.current = Date.now();
    const settle = (change: (before: typeof state) => typeof state) => {
      if (mine !== turn.current) return;
      sentAt.current = 0;
      setState(change);
    };
    setState((before) => ({ ...before, isLoading: true }));
    latest.current().then(
      (value) => settle(() => ({ value, error: undefined, isLoading: false, at: Date.now() })),
      (error: Error) => settle((before) => ({ ...before, error, isLoading: false })),
    );
  }, []);

  useEffect(() => {
    setState({ value: undefined, error: undefined, isLoading: true, at: 0 });
    reload();
    return () => {
      turn.current++;
    };
  }, [asked, reload]);

  useEffect(() => {
    if (everyMs === undefined) return undefined;
    const timer = setInterval(() => {
      // A new request drops the answer of the last one, so answers that take longer than the interval would never be shown.
      const isAwaited = Date.now() - sentAt.current < LOST_MS;
      if (document.visibilityState === "visible" && !isAwaited) reload();
    }, everyMs);
    return () => clearInterval(timer);
  }, [everyMs, reload]);

  return { ...state, reload };
}

/** The current time, updated every `everyMs`. */
export function useNow(everyMs = 1_000): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now;
}
