/** A URL for people: what lets somebody in is not in it. */

const HIDDEN = "(hidden)";
const SECRET_NAME = /pass|pwd|secret|token|key/i;
/** A file's name may hold an `@`; nobody logs in to one. */
const FILE = /^(sqlite|memory):/;
/** By the text itself: drivers take addresses that are no URL to others. */
const LOGIN = /^([a-z0-9+.-]+:\/\/)?(?:([^:/@]+):)?.*@/is;

export function withoutPassword(url: string): string {
  return withoutQuery(FILE.test(url) ? url : url.replace(LOGIN, shownLogin));
}

function shownLogin(_: string, scheme = "", user?: string): string {
  return `${scheme}${user === undefined ? "" : `${user}:`}${HIDDEN}@`;
}

/** Some drivers take a password in the query. */
function withoutQuery(url: string): string {
  return url.replace(/([?&;])([^=&#]*)=([^&#]*)/g, (whole, sign: string, name: string) =>
    SECRET_NAME.test(name) ? `${sign}${name}=${HIDDEN}` : whole,
  );
}
