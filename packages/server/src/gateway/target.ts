/**
 * The path of a request, and everything that a service could read it as. Services differ: some decode `%2F` or decode
 * twice, some drop `;parameters`, merge slashes or take a backslash for one. A rule is chosen by what the path says;
 * `readings` tells what else it could say, so that a path that hides a guarded one can be refused.
 */
import { NevertwiceError } from "nevertwice";
import { parseHost } from "../host-header.ts";

export interface TargetPath {
  /** As sent, between the slashes. */
  readonly raw: readonly string[];
  /** Decoded once, in lower case. An empty last one, after a trailing slash, is left out. */
  readonly segments: readonly string[];
  /** Whether every service reads the same segments. */
  readonly isPlain: boolean;
}

/** No escapes, no parameters, no empty or dot segments: there is one way to read it. */
const PLAIN = /^(?:\/[\w~!$&'()*+,=:@-][\w.~!$&'()*+,=:@-]*)*\/?$/;
/** Text that was escaped this often was escaped to hide something. */
const MAX_DECODINGS = 3;

/** Path and query of the target, also where the client sent a whole address; that address must name the Host. */
export function originForm(target: string, host: string | undefined): string {
  if (/[^!-~]|#/.test(target)) throw refused("has a character that must be escaped");
  if (target.startsWith("/")) return target;
  const [start, authority = ""] = /^https?:\/\/([^/?]*)/i.exec(target) ?? [];
  if (start === undefined) throw refused("is neither a path nor an address");
  const [named, called] = [parseHost(authority), parseHost(host ?? "")];
  if (named === undefined || named.name !== called?.name || named.port !== called.port)
    throw refused("names another host than the Host header");
  const rest = target.slice(start.length);
  return rest.startsWith("/") ? rest : `/${rest}`;
}

/** Throws `request-invalid` for a path that has no one meaning: bad escapes, control characters, dot segments. */
export function readPath(path: string): TargetPath {
  const raw = path.split("/").slice(1);
  if (PLAIN.test(path)) return { raw, segments: folded(raw), isPlain: true };
  const segments = raw.map((segment) => decoded(segment));
  for (const reading of readings({ raw, segments })) {
    if (reading.some((segment) => /\p{Cc}/u.test(segment))) throw refused("has a control character in it");
    if (reading.some((segment) => segment === "." || segment === ".."))
      throw refused("has a dot segment; send the path that it stands for");
  }
  return { raw, segments: folded(segments), isPlain: false };
}

function folded(segments: readonly string[]): readonly string[] {
  const lower = segments.map((segment) => segment.toLowerCase());
  return lower.at(-1) === "" ? lower.slice(0, -1) : lower;
}

/** Every list of segments, in lower case, that a service may make of the path. */
export function* readings({
  raw,
  segments,
}: Pick<TargetPath, "raw" | "segments">): Generator<readonly string[]> {
  const withoutParameters = raw.map((segment) => decoded(segment.split(";", 1)[0] as string));
  for (const start of [segments.join("/"), withoutParameters.join("/")]) {
    let text = start;
    for (let times = 0; ; times++) {
      const parts = text
        .toLowerCase()
        .split(/[/\\]+/)
        .filter((part) => part !== "");
      yield parts;
      yield parts.map((part) => part.split(";", 1)[0] as string).filter((part) => part !== "");
      const next = decodedAgain(text);
      if (next === text) break;
      if (times === MAX_DECODINGS) throw refused("is escaped too many times");
      text = next;
    }
  }
}

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch (error) {
    throw refused("has an escape that is not UTF-8 text", error);
  }
}

/** What decoding a second time makes of the text; escapes that mean nothing stay, and hide none that stand beside them. */
function decodedAgain(text: string): string {
  return text.replace(/%[0-7][0-9a-f]|(?:%[89a-f][0-9a-f])+/gi, (escapes) => {
    try {
      return decodeURIComponent(escapes);
    } catch {
      return escapes;
    }
  });
}

export function refused(why: string, cause?: unknown): NevertwiceError {
  return new NevertwiceError("request-invalid", `the address of the request ${why}. Nothing was done.`, {
    cause,
  });
}
