/** Removes passwords and secrets from a URL before it is shown. */

const HIDDEN = "(hidden)";
const SECRET_NAME = /pass|pwd|secret|token|key/i;
/** A file name may contain an `@`, which is not a login. */
const FILE = /^(sqlite|memory):/;
/** A pattern instead of a URL parser: some drivers accept addresses that are not valid URLs. */
const LOGIN = /^([a-z0-9+.-]+:\/\/)?(?:([^:/@]+):)?.*@/is;

export function redactUrl(url: string): string {
  return withoutQuery(FILE.test(url) ? url : url.replace(LOGIN, shownLogin));
}

function shownLogin(_: string, scheme = "", user?: string): string {
  return `${scheme}${user === undefined ? "" : `${user}:`}${HIDDEN}@`;
}

/** Some drivers accept a password in the query. */
function withoutQuery(url: string): string {
  return url.replace(/([?&;])([^=&#]*)=([^&#]*)/g, (whole, sign: string, name: string) =>
    SECRET_NAME.test(name) ? `${sign}${name}=${HIDDEN}` : whole,
  );
}
