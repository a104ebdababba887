/** A store's URL: its scheme, the parameters that are ours, and how errors show it without telling its password. */
import { NevertwiceError } from "../../core/errors.ts";

/** What a URL says, taken apart. Errors show `shown`, which has no password in it. */
export interface Address {
  readonly url: string;
  readonly shown: string;
  /** Parameters of ours, taken out of the URL; all others are the driver's. */
  take(name: string): string | undefined;
  /** The URL without what was taken. */
  rest(): string;
}

/** What opens this URL, by its scheme. `whose` URL it should be is for the error. */
export function byScheme<T>(schemes: Readonly<Record<string, T>>, url: string, whose: string): T {
  const scheme = /^([a-z+]+):/.exec(url)?.[1] ?? "";
  const found = Object.hasOwn(schemes, scheme) ? schemes[scheme] : undefined;
  if (found !== undefined) return found;
  throw new NevertwiceError(
    "options-invalid",
    `${withoutSecrets(url)} is no ${whose} URL: it must begin with ${Object.keys(schemes).join(":, ")}:`,
  );
}

export function addressOf(url: string): Address {
  const [path = "", query = ""] = url.split(/\?(.*)/s);
  const parameters = new URLSearchParams(query);
  return {
    url,
    shown: withoutSecrets(url),
    take(name) {
      const value = parameters.get(name);
      parameters.delete(name);
      return value ?? undefined;
    },
    rest: () => (parameters.size === 0 ? path : `${path}?${parameters}`),
  };
}

/** The URL for the driver, whose own error about a malformed one would tell all of it. */
export function serverUrl(address: Address): string {
  const url = address.rest();
  if (URL.canParse(url)) return url;
  throw wrong(address, "is malformed; what is special in a user or password is written %40, %2F, %3F, %23");
}

/** The scheme and the host: what is enough to tell which URL it was. A password may hold what it should not, raw. */
function withoutSecrets(url: string): string {
  const shown = url.replace(/\/\/.*@/s, "//…@").replace(/\?.*$/s, "");
  return JSON.stringify(shown.includes("@") && !shown.includes("//") ? shown.replace(/:.*$/s, ":…") : shown);
}

export function flag(address: Address, name: string): boolean | undefined {
  const value = oneOf(address, name, ["true", "false"] as const);
  return value === undefined ? undefined : value === "true";
}

export function oneOf<const T extends string>(
  address: Address,
  name: string,
  allowed: readonly T[],
): T | undefined {
  const value = address.take(name);
  if (value === undefined || allowed.includes(value as T)) return value as T | undefined;
  throw wrong(address, `has ${name}=${value}; it must be ${allowed.join(" or ")}`);
}

export function wrong(address: Address, what: string): NevertwiceError {
  return new NevertwiceError("options-invalid", `${address.shown} ${what}.`);
}

export function sqliteFile(address: Address): string {
  const file = decodeURIComponent(address.rest().replace(/^sqlite:(\/\/(?=\/))?/, ""));
  if (file === "" || file.includes("?")) throw wrong(address, "names no file: sqlite:./nevertwice.db");
  return file;
}
