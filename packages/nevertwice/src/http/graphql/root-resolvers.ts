/**
 * Notes what the resolvers of the mutation's root fields throw. The errors of a result do not tell: a value that cannot be
 * serialized, or null where the schema forbids it, has the same path as an error of the resolver, but comes after the effect.
 */

type Resolve = (
  source: unknown,
  args: unknown,
  context: unknown,
  info: { readonly fieldName: string },
) => unknown;

export interface SchemaLike {
  getMutationType(): { getFields(): Readonly<Record<string, object>> } | null | undefined;
}

const watched = new WeakSet<object>();
const started = new WeakSet<object>();
const failed = new WeakSet<object>();

/** Wraps each root resolver of the schema, once. */
export function watchRootResolvers(schema: SchemaLike): void {
  for (const field of Object.values(schema.getMutationType()?.getFields() ?? {})) {
    if (watched.has(field)) continue;
    watched.add(field);
    const resolvable = field as { resolve?: Resolve };
    resolvable.resolve = watch(resolvable.resolve ?? resolveByName);
  }
}

/** Whether a root resolver has got this context. Until then, nothing can have happened. */
export function hasRootStarted(context: object): boolean {
  return started.has(context);
}

/** Whether a root resolver that got this context has thrown. */
export function hasRootFailed(context: object): boolean {
  return failed.has(context);
}

function watch(resolve: Resolve): Resolve {
  return function resolveWatched(source, args, context, info) {
    const execution = typeof context === "object" && context !== null ? context : {};
    started.add(execution);
    const note = (error: unknown) => {
      failed.add(execution);
      throw error;
    };
    try {
      const result = resolve(source, args, context, info);
      return result instanceof Promise ? result.catch(note) : result;
    } catch (error) {
      return note(error);
    }
  };
}

/** What GraphQL does for a field without a resolver. */
const resolveByName: Resolve = (source, args, context, info) => {
  if (typeof source !== "object" || source === null) return undefined;
  const property: unknown = (source as Readonly<Record<string, unknown>>)[info.fieldName];
  return typeof property === "function" ? property.call(source, args, context, info) : property;
};
