/** Reads the path in the target of a request in every way that some service may read it. */

const ADDRESS = /^[a-z][a-z0-9+.-]*:\/\/[^/?#\\]*/i;
const MOST_DECODINGS = 5;

/** From the most literal to the loosest. All are lower case and begin with a slash; none ends with one. */
export function pathReadings(target: string): readonly string[] {
  const readings: string[] = [];
  let [path = ""] = target.replace(ADDRESS, "").split(/[?#]/, 1);
  for (let times = 0; times <= MOST_DECODINGS; times++) {
    readings.push(plain(path), plain(path.replace(/;[^/\\]*/g, "")));
    const decoded = decodedOnce(path);
    if (decoded === path) break;
    path = decoded;
  }
  return readings;
}

/** The question mark and everything after it. */
export function queryOf(target: string): string {
  const start = target.indexOf("?");
  return start < 0 ? "" : target.slice(start);
}

/** Decodes byte by byte, so that escapes which are not UTF-8 are decoded, too. */
function decodedOnce(path: string): string {
  return path.replace(/%([0-9a-f]{2})/gi, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)));
}

function plain(path: string): string {
  const parts: string[] = [];
  for (const part of path.toLowerCase().split(/[/\\]/)) {
    if (part === "..") parts.pop();
    else if (part !== "" && part !== ".") parts.push(part);
  }
  return `/${parts.join("/")}`;
}
