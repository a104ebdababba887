/** Reads CloudEvents from an HTTP request: binary mode (headers), structured mode (body), or batched mode (a list in the body). */
import { NevertwiceError } from "../../core/errors.ts";
import type { Received } from "../receiver.ts";
import { type CloudEvent, flaw, toCloudEvent } from "./event.ts";

/** An event that is checked when it is read. */
export type ReadEvent = () => CloudEvent;

const JSON_TYPE = /^(application|text)\/([^;]*\+)?json$/;

/** Throws `key-missing` or `key-invalid` if the request contains no CloudEvents. */
export function readEvents(received: Received): readonly ReadEvent[] {
  const type = mediaType(received.header("content-type"));
  if (type.startsWith("application/cloudevents-batch")) {
    const events = parsed(received, type, "application/cloudevents-batch+json");
    if (!Array.isArray(events)) throw flaw("the batch is not a list");
    return events.map((event) => () => toCloudEvent(event));
  }
  if (type.startsWith("application/cloudevents")) {
    const event = parsed(received, type, "application/cloudevents+json");
    return [() => toCloudEvent(event)];
  }
  if (received.header("ce-specversion") === undefined && received.header("ce-id") === undefined)
    throw new NevertwiceError("key-missing", "the request contains no CloudEvent.");
  return [() => binaryEvent(received, type)];
}

function parsed(received: Received, type: string, expected: string): unknown {
  if (type !== expected) throw flaw("its format is not JSON");
  return parseJson(received);
}

function parseJson(received: Received): unknown {
  try {
    return received.json();
  } catch (cause) {
    throw flaw("it is not valid JSON", cause);
  }
}

function binaryEvent(received: Received, type: string): CloudEvent {
  const attributes: Record<string, unknown> = {};
  for (const name of received.headerNames()) {
    if (!name.startsWith("ce-")) continue;
    const attribute = name.slice("ce-".length);
    if (attribute === "data" || attribute === "data_base64" || attribute === "datacontenttype")
      throw flaw(`it has the header ${name}, which is not allowed`);
    attributes[attribute] = headerText(received.header(name) ?? "");
  }
  const contentType = received.header("content-type");
  if (contentType !== undefined) attributes.datacontenttype = contentType;
  if (received.body.byteLength === 0) return toCloudEvent(attributes);
  return toCloudEvent({ ...attributes, data: readData(received, type) });
}

function readData(received: Received, type: string): unknown {
  if (JSON_TYPE.test(type)) return parseJson(received);
  return type.startsWith("text/") ? received.text() : received.body;
}

/** As the HTTP binding specifies: a quoted string is unquoted, then percent-encoded characters are decoded as UTF-8. */
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
