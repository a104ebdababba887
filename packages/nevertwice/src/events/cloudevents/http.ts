/** CloudEvents in an HTTP request: in its headers (binary), in its body (structured), or many in one body (batched). */
import { NevertwiceError } from "../../core/errors.ts";
import type { Received } from "../incoming.ts";
import { type CloudEvent, eventOf, flaw } from "./event.ts";

/** An event as it came; what is wrong with it is said when it is read. */
export type ReadEvent = () => CloudEvent;

const JSON_TYPE = /^(application|text)\/([^;]*\+)?json$/;

/** Fails with `key-missing` or `key-invalid` on what holds no CloudEvents. */
export function eventsIn(received: Received): readonly ReadEvent[] {
  const type = mediaType(received.header("content-type"));
  if (type.startsWith("application/cloudevents-batch")) {
    const events = parsed(received, type, "application/cloudevents-batch+json");
    if (!Array.isArray(events)) throw flaw("the batch is no list");
    return events.map((event) => () => eventOf(event));
  }
  if (type.startsWith("application/cloudevents")) {
    const event = parsed(received, type, "application/cloudevents+json");
    return [() => eventOf(event)];
  }
  if (received.header("ce-specversion") === undefined && received.header("ce-id") === undefined)
    throw new NevertwiceError("key-missing", "the request holds no CloudEvent.");
  return [() => binaryEvent(received, type)];
}

function parsed(received: Received, type: string, wanted: string): unknown {
  if (type !== wanted) throw flaw("it is not written as JSON");
  return parseJson(received);
}

function parseJson(received: Received): unknown {
  try {
    return received.json();
  } catch (cause) {
    throw flaw("what should be JSON is none", cause);
  }
}

function binaryEvent(received: Received, type: string): CloudEvent {
  const attributes: Record<string, unknown> = {};
  for (const name of received.headerNames()) {
    if (!name.startsWith("ce-")) continue;
    const attribute = name.slice("ce-".length);
    if (attribute === "data" || attribute === "data_base64" || attribute === "datacontenttype")
      throw flaw(`there is no header ${name}`);
    attributes[attribute] = headerText(received.header(name) ?? "");
  }
  const contentType = received.header("content-type");
  if (contentType !== undefined) attributes.datacontenttype = contentType;
  if (received.body.byteLength === 0) return eventOf(attributes);
  return eventOf({ ...attributes, data: dataOf(received, type) });
}

function dataOf(received: Received, type: string): unknown {
  if (JSON_TYPE.test(type)) return parseJson(received);
  return type.startsWith("text/") ? received.text() : received.body;
}

/** As the HTTP binding has it: a quoted string is unquoted, then what is percent-encoded is decoded as UTF-8. */
function headerText(value: string): string {
  const text = /^".*"$/s.test(value) ? value.slice(1, -1).replace(/\\(.)/gs, "$1") : value;
  const encoded = /(?:%[0-9a-f]{2})+/gi;
  return text.replace(encoded, (run) => {
    try {
      return decodeURIComponent(run);
    } catch (cause) {
      throw flaw("a header is not well-formed UTF-8", cause);
    }
  });
}

function mediaType(header: string | undefined): string {
  return (header ?? "").split(";", 1)[0]?.trim().toLowerCase() ?? "";
}
