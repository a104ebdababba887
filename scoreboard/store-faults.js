/** The same faults as network-faults.js for stores without a server: around the methods of a store object. */

const UNREACHABLE = "the store cannot be reached";

export function createStoreFaults() {
  let mode = "ok";
  let hit = () => {};
  return {
    set(next) {
      mode = next;
    },
    /** Resolves when the present fault has met a call. */
    met: () =>
      new Promise((resolve) => {
        hit = resolve;
      }),
    close() {},
    /** A store with the same methods, which fails as the mode says. */
    wrap(store) {
      return new Proxy(store, {
        get(target, name) {
          const value = Reflect.get(target, name);
          if (typeof value !== "function") return value;
          return (...args) => {
            if (mode === "ok" || SYNCHRONOUS.has(name)) return value.apply(target, args);
            hit();
            if (mode === "refuse") return Promise.reject(new Error(UNREACHABLE));
            if (mode === "hang") return new Promise(() => {});
            return Promise.resolve(value.apply(target, args)).then(() => {
              throw new Error("the connection was lost before the answer");
            });
          };
        },
      });
    },
  };
}

/** They return no promise: a watch returns its end, and closing is not a call to the store. */
const SYNCHRONOUS = new Set(["watch", "close"]);
