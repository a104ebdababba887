/** Checks the URLs of the members of a cluster. */
import { NevertwiceError } from "../../core/errors.ts";

const asList = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [value]);

/** `options-invalid` unless it is one HTTP URL or a list of them. */
export function isEndpoints(name: string, value: unknown): void {
  const urls = asList(value);
  const wrong = urls.findIndex((url) => !isHttpUrl(url));
  if (urls.length > 0 && wrong === -1) return;
  const which = urls.length > 1 ? `${name}[${wrong}]` : name;
  throw new NevertwiceError(
    "options-invalid",
    `${which} must be the client URL of a member, such as "http://127.0.0.1:2379", without a path, a user or a password.`,
  );
}

/** A user or a password in the URL would be logged by others; they have options of their own. */
function isHttpUrl(value: unknown): boolean {
  if (typeof value !== "string" || !URL.canParse(value)) return false;
  const { protocol, pathname, search, username, password } = new URL(value);
  return /^https?:$/.test(protocol) && pathname === "/" && search === "" && username + password === "";
}

/** The URLs without a slash at the end. */
export function checkedEndpoints(endpoints: string | readonly string[]): readonly string[] {
  return (asList(endpoints) as readonly string[]).map((url) => url.replace(/\/$/, ""));
}
