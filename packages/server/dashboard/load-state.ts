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

/**
 * Loads at once, again when `asked` changes, and every `everyMs` if given. The last value stays until the next arrives.
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

  const reload = useCallback(() => {
    turn.current++;
    const mine = turn.current;
    setState((before) => ({ ...before, isLoading: true }));
    latest.current().then(
      (value) => {
        if (mine === turn.current) setState({ value, error: undefined, isLoading: false, at: Date.now() });
      },
      (error: Error) => {
        if (mine === turn.current) setState((before) => ({ ...before, error, isLoading: false }));
      },
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
      if (document.visibilityState === "visible") reload();
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
