/** How a binding of Cloudflare is handed in: itself, or as a function that returns it, for code that gets it late. */

export type BindingSource<Binding> = Binding | (() => Binding);

/** Returns a function that finds the binding for each call. The function throws the error of `notBound` if there is no binding. */
export function bindingFinder<Binding>(
  source: BindingSource<Binding>,
  isBinding: (value: unknown) => value is Binding,
  notBound: () => Error,
): () => Binding {
  const checked = (value: unknown): Binding => {
    if (isBinding(value)) return value;
    throw notBound();
  };
  // The binding is looked for first: it may be a proxy that can be called too.
  if (isBinding(source) || typeof source !== "function") {
    const binding = checked(source);
    return () => binding;
  }
  return () => checked((source as () => unknown)());
}

/** Whether the value has all of these methods. */
export function hasMethods(value: unknown, ...names: readonly string[]): boolean {
  const members = (value ?? {}) as Readonly<Record<string, unknown>>;
  return names.every((name) => typeof members[name] === "function");
}
