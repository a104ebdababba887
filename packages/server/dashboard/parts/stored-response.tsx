/**
 * The HTTP response that a key answers with: status, headers and body. The body is shown as text only, whatever its type:
 * the page never renders, runs or loads what a service or a client sent.
 */
import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import type { ResponseJson } from "../../src/api/api-json.ts";
import { bytesWords } from "../formats.ts";
import { indentedJson } from "../indented-json.ts";

/** Longer texts are cut: the page has to stay quick. */
const MAX_SHOWN = 200_000;

export function StoredResponse({ response }: { readonly response: ResponseJson }): JSX.Element {
  const { status, headers } = response;
  return (
    <div class="response">
      <p class="response-status">
        <span class={`badge is-${statusTone(status)}`}>{status}</span> {REASONS[status] ?? ""}
      </p>
      {headers.length > 0 && (
        <dl class="headers" aria-label="Headers">
          {headers.map(([name, value], index) => (
            <div key={index}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ))}
        </dl>
      )}
      <Body response={response} />
    </div>
  );
}

function Body({ response: { headers, body } }: { readonly response: ResponseJson }): JSX.Element {
  const type = headerValue(headers, "content-type");
  const coding = headerValue(headers, "content-encoding");
  const text = body?.text;
  const isText = text !== undefined && isTextType(type);
  const shown = useMemo(() => (isText ? prettyText(text) : ""), [isText, text]);
  if (body === null) return <p class="muted">The body was not stored.</p>;
  if (body.bytes === 0) return <p class="muted">The body is empty.</p>;
  const size = [type?.split(";")[0] ?? "unknown type", coding, bytesWords(body.bytes)]
    .filter(Boolean)
    .join(" · ");
  if (!isText) return <p class="notice">{size}. The body is not text, so it is not shown.</p>;
  return (
    <>
      <p class="response-size muted">{size}</p>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard. */}
      <pre class="code is-wrapping" tabIndex={0}>
        {shown.slice(0, MAX_SHOWN)}
      </pre>
      {shown.length > MAX_SHOWN && (
        <p class="muted">These are the first {bytesWords(MAX_SHOWN)}. The API returns the whole body.</p>
      )}
    </>
  );
}

function headerValue(headers: ResponseJson["headers"], wanted: string): string | undefined {
  return headers.find(([name]) => name === wanted)?.[1];
}

/** A type that is not known counts as text, since the server has found that the bytes are. */
function isTextType(type: string | undefined): boolean {
  return (
    type === undefined ||
    !/^(image\/(?!svg)|audio\/|video\/|font\/|application\/(octet-stream|zip|pdf))/i.test(type)
  );
}

/** JSON is indented whatever its content type says. */
function prettyText(text: string): string {
  return (/^\s*[[{]/.test(text) ? indentedJson(text) : undefined) ?? text;
}

function statusTone(status: number): string {
  if (status < 300) return "good";
  return status < 400 ? "busy" : status < 500 ? "warn" : "bad";
}

const REASONS: Readonly<Record<number, string>> = {
  200: "OK",
  201: "Created",
  202: "Accepted",
  204: "No Content",
  301: "Moved Permanently",
  302: "Found",
  303: "See Other",
  304: "Not Modified",
  307: "Temporary Redirect",
  308: "Permanent Redirect",
  400: "Bad Request",
  402: "Payment Required",
  404: "Not Found",
  409: "Conflict",
  410: "Gone",
  412: "Precondition Failed",
  413: "Content Too Large",
  415: "Unsupported Media Type",
  422: "Unprocessable Content",
  428: "Precondition Required",
  500: "Internal Server Error",
  501: "Not Implemented",
  502: "Bad Gateway",
  503: "Service Unavailable",
  504: "Gateway Timeout",
};
