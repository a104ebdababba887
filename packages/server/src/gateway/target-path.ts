/**
 * The path of a request, and every way in which a service could read it. Services differ: some decode `%2F` or decode
 * twice, some drop `;parameters`, merge slashes, or treat a backslash as a slash. The gateway chooses the rule by the
 * plain reading; `readings` lists the others, so that a path that hides a guarded one can be refused.
 */
import { NevertwiceError } from "nevertwice";
import { parseHost } from "../host-header.ts";

export interface TargetPath {
  /** The segments as sent. */
  readonly raw: readonly string[];
  /** Decoded once, in lower case, without the empty segment after a trailing slash. */
  readonly segments: readonly string[];
  /** Whether every service reads the same segments. */
  readonly isPlain: boolean;
}

/** No escapes, no parameters, no empty or dot segments: all services read it the same way. */
const PLAIN = /^(?:\/[\w~!$&'()*+,=:@-][\w.~!$&'()*+,=:@-]*)*\/?$/;
/** A text that is escaped more often than this is refused: it probably hides something. */
const MAX_DECODINGS = 3;

/** Path and query of the target. If the client sent a whole address, its host must equal the Host header. */
export function originForm(target: string, host: string | undefined): string {
  if (/[^!-~]|#/.test(target)) throw unclearPath("has a character that must be escaped");
  if (target.startsWith("/")) return target;
  const [start, authority = ""] = /^https?:\/\/([^/?]*)/i.exec(target) ?? [];
  if (start === undefined) throw unclearPath("is neither a path nor an address");
  const [named, called] = [parseHost(authority), parseHost(host ?? "")];
  if (named === undefined || named.name !== called?.name || named.port !== called.port)
    throw unclearPath("names a host other than the Host header");
  const rest = target.slice(start.length);
  return rest.startsWith("/") ? rest : `/${rest}`;
}

/** Throws `request-invalid` for an ambiguous path: invalid escapes, control characters, dot segments. */
export function readPath(path: string): TargetPath {
  const raw = path.split("/").slice(1);
  if (PLAIN.test(path)) return { raw, segments: foldCase(raw), isPlain: true };
  const segments = raw.map((segment) => decodeSegment(segment));
  for (const reading of readings({ raw, segments })) {
    if (reading.some((segment) => /\p{Cc}/u.test(segment))) throw unclearPath("contains a control character");
    if (reading.some((segment) => segment === "." || segment === ".."))
      throw unclearPath("has a dot segment; send the resolved path");
  }
  return { raw, segments: foldCase(segments), isPlain: false };
}

function foldCase(segments: readonly string[]): readonly string[] {
  const lower = segments.map((segment) => segment.toLowerCase());
  return lower.at(-1) === "" ? lower.slice(0, -1) : lower;
}

/** Every list of segments, in lower case, that a service may read from the path. */
export function* readings({
  raw,
  segments,
}: Pick<TargetPath, "raw" | "segments">): Generator<readonly string[]> {
  const withoutParameters = raw.map((segment) => decodeSegment(segment.split(";", 1)[0] as string));
  for (const start of [segments.join("/"), withoutParameters.join("/")]) {
    let text = start;
    for (let times = 0; ; times++) {
      const parts = text
        .toLowerCase()
        .split(/[/\\]+/)
        .filter((part) => part !== "");
      yield parts;
      yield parts.map((part) => part.split(";", 1)[0] as string).filter((part) => part !== "");
      const next = decodeAgain(text);
      if (next === text) break;
      if (times === MAX_DECODINGS) throw unclearPath("is escaped too many times");
      text = next;
    }
  }
}

function decodeSegment(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch (error) {
    throw unclearPath("has an escape that is not UTF-8 text", error);
  }
}

/** Decodes a text again. Invalid escapes stay as they were, and do not keep escapes next to them from being decoded. */
function decodeAgain(text: string): string {
  return text.replace(/%[0-7][0-9a-f]|(?:%[89a-f][0-9a-f])+/gi, (escapes) => {
    try {
      return decodeURIComponent(escapes);
    } catch {
      return escapes;
    }
  });
}

export function unclearPath(why: string, cause?: unknown): NevertwiceError {
  return new NevertwiceError("request-invalid", `the address of the request ${why}. Nothing was done.`, {
    cause,
  });
}
