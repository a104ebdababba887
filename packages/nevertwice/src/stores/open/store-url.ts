/** The URL of a store: its scheme, the parameters that are ours, and a form for error messages without its password. */
import { didYouMean } from "../../core/did-you-mean.ts";
import { NevertwiceError } from "../../core/errors.ts";

export interface StoreUrl {
  readonly url: string;
  /** For error messages: without the password. */
  readonly shown: string;
  /** Returns a parameter and removes it from the URL. Parameters that remain are for the driver. */
  take(name: string): string | undefined;
  /** The names of the parameters that were not taken. */
  names(): readonly string[];
  /** The URL without the parameters that were taken. */
  rest(): string;
}

/** The entry of `schemes` for this URL. `whose` is for the error message. */
export function byScheme<T>(schemes: Readonly<Record<string, T>>, url: string, whose: string): T {
  const scheme = /^([a-z+]+):/.exec(url)?.[1] ?? "";
  const found = Object.hasOwn(schemes, scheme) ? schemes[scheme] : undefined;
  if (found !== undefined) return found;
  const known = Object.keys(schemes).map((name) => `${name}:`);
  const given = url.slice(0, url.indexOf(":") + 1);
  throw new NevertwiceError(
    "options-invalid",
    `${withoutSecrets(url)} is not a ${whose} URL: it must begin with ${known.join(", ")}.${didYouMean(given, known)}`,
  );
}

export function parseStoreUrl(url: string): StoreUrl {
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
    names: () => [...parameters.keys()],
    rest: () => (parameters.size === 0 ? path : `${path}?${parameters}`),
  };
}

/** The URL for the driver. Checked here, since the driver's error about a malformed URL would contain its password. */
export function serverUrl(url: StoreUrl): string {
  const rest = url.rest();
  if (URL.canParse(rest)) return rest;
  throw malformed(url);
}

/** The password of such a URL contains an unescaped `?`, so that what looks like a parameter is a part of it. */
export function isCutByPassword(url: StoreUrl): boolean {
  return /^[^@?]*\?.*@/s.test(url.url);
}

export function malformed(url: StoreUrl): NevertwiceError {
  return urlError(url, "is malformed; in a user or password write @ / ? # as %40, %2F, %3F, %23");
}

/** The scheme and the host, which are enough to recognise the URL. A password may contain unescaped special characters. */
function withoutSecrets(url: string): string {
  const shown = url.replace(/\/\/.*@/s, "//…@").replace(/\?.*$/s, "");
  return JSON.stringify(shown.includes("@") && !shown.includes("//") ? shown.replace(/:.*$/s, ":…") : shown);
}

export function flag(url: StoreUrl, name: string): boolean | undefined {
  const value = oneOf(url, name, ["true", "false"] as const);
  return value === undefined ? undefined : value === "true";
}

export function oneOf<const T extends string>(
  url: StoreUrl,
  name: string,
  allowed: readonly T[],
): T | undefined {
  const value = url.take(name);
  if (value === undefined || allowed.includes(value as T)) return value as T | undefined;
  throw urlError(url, `has ${name}=${value}; it must be ${allowed.join(" or ")}`);
}

/** `hint` is a sentence of its own, or empty. */
export function urlError(url: StoreUrl, problem: string, hint = ""): NevertwiceError {
  return new NevertwiceError("options-invalid", `${url.shown} ${problem}.${hint}`);
}

export function sqliteFile(url: StoreUrl): string {
  const file = decodeURIComponent(url.rest().replace(/^sqlite:(\/\/(?=\/))?/, ""));
  if (file === "") throw urlError(url, "names no file; expected sqlite:./nevertwice.db");
  return file;
}
