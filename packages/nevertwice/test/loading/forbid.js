/**
 * Preloaded: from here on, code of this package that asks for randomness, a clock, a timer or the network fails. What
 * other packages do while they are loaded is their own affair, so the stack says who asked: the frames above the one of
 * Node that loads a module.
 */
import crypto from "node:crypto";
import { syncBuiltinESMExports } from "node:module";
import timers from "node:timers";
import { fileURLToPath } from "node:url";

Error.stackTraceLimit = 100;
const BUILD = new URL("../../dist/", import.meta.url);
/** How the frames of ES modules and of CommonJS modules name a file. */
const PLACES = [BUILD.href, fileURLToPath(BUILD)];

/**
 * @param {any} owner
 * @param {string} name
 * @param {string} shown
 */
function forbid(owner, name, shown) {
  const original = owner[name];
  const refuse = () => {
    const { stack = "" } = new Error(`${shown} was asked for`);
    const [asking = ""] = stack.split("node:internal/modules/");
    if (PLACES.some((place) => asking.includes(place))) throw new Error(stack);
  };
  const value = new Proxy(original, {
    apply(target, self, given) {
      refuse();
      return Reflect.apply(target, self, given);
    },
    construct(target, given, newTarget) {
      // A date of a given moment reads no clock.
      if (name !== "Date" || given.length === 0) refuse();
      return Reflect.construct(target, given, newTarget);
    },
  });
  Object.defineProperty(owner, name, { value, writable: true, configurable: true });
}

for (const name of ["setTimeout", "setInterval", "setImmediate", "fetch", "Date"])
  forbid(globalThis, name, name);
for (const name of ["setTimeout", "setInterval", "setImmediate"]) forbid(timers, name, `timers.${name}`);
forbid(Date, "now", "Date.now");
forbid(Math, "random", "Math.random");
forbid(performance, "now", "performance.now");
for (const name of ["getRandomValues", "randomUUID"]) forbid(globalThis.crypto, name, `crypto.${name}`);
for (const name of ["randomBytes", "randomFillSync", "randomFill", "randomInt", "randomUUID"])
  forbid(crypto, name, `node:crypto ${name}`);
syncBuiltinESMExports();
