/** One store in memory for everything that a scenario opens in its process. */

/** With `losesRecords`, the store can be replaced by an empty one, as if the service that has the records were restarted. */
export function sharedStore(target, { losesRecords = false }, create) {
  if (target.sharedStore !== undefined) return target.sharedStore;
  let current = create();
  target.emptyStore = () => {
    current = create();
  };
  target.sharedStore = !losesRecords
    ? current
    : new Proxy(current, {
        get: (_first, name) => {
          const value = Reflect.get(current, name);
          return typeof value === "function" ? value.bind(current) : value;
        },
      });
  return target.sharedStore;
}
