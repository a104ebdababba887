/** Adds `"replayed": true` to the JSON object in a replay, and changes no other byte of it. */
import { ABOUT_THE_BYTES } from "../content-coding.ts";
import type { HeaderLine, HttpReply } from "../http-message.ts";

const MEMBER = "replayed";
const TOKEN = /"(?:[^"\\]+|\\.)*"|[{}[\],:]|[^"{}[\],:\s]+/gs;

/** A body that is not a JSON object, or is compressed, stays unchanged. The replay's header still marks it. */
export function withReplayedMember(reply: HttpReply): HttpReply {
  const text = jsonText(reply);
  const body = text === undefined ? undefined : addMember(text);
  if (body === undefined) return reply;
  return { ...reply, headers: reply.headers.filter(([name]) => !ABOUT_THE_BYTES.has(name)), body };
}

function jsonText({ headers, body }: HttpReply): string | undefined {
  if (!/[/+]json\b/i.test(lineValue(headers, "content-type") ?? "")) return undefined;
  if (typeof body === "string") return body;
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(body);
  } catch {
    return undefined;
  }
}

function lineValue(headers: readonly HeaderLine[], name: string): string | undefined {
  return headers.find(([line]) => line === name)?.[1];
}

function addMember(text: string): string | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
  if (Object.hasOwn(value, MEMBER)) return replaceMember(text);
  const start = text.indexOf("{") + 1;
  const comma = Object.keys(value).length === 0 ? "" : ",";
  return `${text.slice(0, start)}"${MEMBER}":true${comma}${text.slice(start)}`;
}

/** The first response already has a member `replayed`. A second one would be ambiguous, so its value is replaced. */
function replaceMember(text: string): string {
  let result = "";
  let at = 0;
  let depth = 0;
  let name: string | undefined;
  let isNamed = false;
  let valueAt = -1;
  for (const { 0: token, index } of text.matchAll(TOKEN)) {
    const isClosing = token === "}" || token === "]";
    if (depth === 1 && valueAt !== -1 && (isClosing || token === ",")) {
      const value = text.slice(valueAt, index);
      result += text.slice(at, valueAt) + value.replace(value.trim(), "true");
      at = index;
      valueAt = -1;
    }
    if (depth === 1 && token === ":" && name === MEMBER) valueAt = index + 1;
    if (depth === 1 && !isNamed && token.startsWith('"')) {
      name = JSON.parse(token) as string;
      isNamed = true;
    }
    if (token === "{" || token === "[") depth++;
    if (isClosing) depth--;
    if (token === ",") isNamed = false;
  }
  return result + text.slice(at);
}
