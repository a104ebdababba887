/** A promise that a test settles from outside. */
export interface Deferred<T> {
  readonly promise: Promise<T>;
  readonly resolve: (value: T) => void;
  readonly reject: (reason: unknown) => void;
}

export function deferred<T = void>(): Deferred<T> {
  let resolve: (value: T) => void = () => {};
  let reject: (reason: unknown) => void = () => {};
  const promise = new Promise<T>((done, failed) => {
    resolve = done;
    reject = failed;
  });
  return { promise, resolve, reject };
}

/** A gate that work waits for until the test opens it. */
export function gate(): { readonly opened: Promise<void>; open(): void } {
  const { promise: opened, resolve: open } = deferred();
  return { opened, open };
}
