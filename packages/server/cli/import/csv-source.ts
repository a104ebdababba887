/**
 * Reads a CSV file (RFC 4180) record by record. The first record names the columns. A position is the offset of the next
 * record in bytes, so that an import can continue there.
 */
import { isUtf8 } from "node:buffer";
import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { Refused, UsageError } from "../command.ts";
import { PAGE, type Source, type SourceEntry } from "./source.ts";

/** A record that is longer has probably lost a quote. */
const MAX_RECORD_BYTES = 8 * 1_024 * 1_024;
const LINE_FEED = 0x0a;
const QUOTE = 0x22;

export async function csvSource(file: string): Promise<Source> {
  const { size } = await stat(file).catch((cause: unknown) => {
    throw new UsageError(`there is no file ${JSON.stringify(file)}.`, { cause });
  });
  const head = await recordsFrom(file, 0).next();
  if (head.done) throw new UsageError(`${file} is empty; its first line must name the columns.`);
  const columns = readFields(head.value.text.replace(/^\uFEFF/, "")).map((name) => name.trim());
  if (!columns.includes("key")) throw new UsageError(`${file} has no column "key" in its first line.`);
  const start = head.value.end;
  let reading = recordsFrom(file, start);
  let position = start;
  return {
    total: size,
    columns,
    async page(after) {
      const from = after === undefined ? start : Number(after);
      if (from !== position) {
        reading = recordsFrom(file, from);
        position = from;
      }
      const entries: SourceEntry[] = [];
      while (entries.length < PAGE) {
        const { done, value } = await reading.next();
        if (done) return { entries, next: undefined, position };
        position = value.end;
        if (value.text !== "") entries.push(toEntry(columns, value.text));
      }
      return { entries, next: String(position), position };
    },
    close: async () => void (await reading.return(undefined)),
  };
}

function toEntry(columns: readonly string[], text: string): SourceEntry {
  const fields = readFields(text);
  const value = Object.fromEntries(columns.map((name, index) => [name, fields[index] ?? ""]));
  const entry = { key: value.key ?? "", leftMs: null };
  // A missing or additional field shifts the others, so nothing of the record can be trusted.
  return { ...entry, value: fields.length === columns.length ? value : { fields: fields.length } };
}

interface CsvRecord {
  readonly text: string;
  /** The offset of the byte after the record. */
  readonly end: number;
}

/** A record ends at a line feed outside of quotes. A doubled quote inside of quotes counts as two, which changes nothing. */
async function* recordsFrom(file: string, start: number): AsyncGenerator<CsvRecord, undefined> {
  let parts: Buffer[] = [];
  let length = 0;
  let end = start;
  let isQuoted = false;
  for await (const chunk of createReadStream(file, { start }) as AsyncIterable<Buffer>) {
    let from = 0;
    for (let at = 0; at < chunk.length; at++) {
      if (chunk[at] === QUOTE) isQuoted = !isQuoted;
      if (chunk[at] !== LINE_FEED || isQuoted) continue;
      parts.push(chunk.subarray(from, at));
      end += length + at + 1 - from;
      yield { text: toText(parts, end), end };
      parts = [];
      length = 0;
      from = at + 1;
    }
    parts.push(chunk.subarray(from));
    length += chunk.length - from;
    if (length > MAX_RECORD_BYTES) throw new Refused("csv-invalid", problem(end, "is too long"));
  }
  if (isQuoted) throw new Refused("csv-invalid", problem(end, "has a quote that does not end"));
  if (length > 0) yield { text: toText(parts, end), end: end + length };
  return undefined;
}

function problem(offset: number, what: string): string {
  return `the record at byte ${offset} ${what}.`;
}

function toText(parts: readonly Buffer[], offset: number): string {
  const bytes = Buffer.concat(parts);
  if (!isUtf8(bytes)) throw new Refused("csv-invalid", `the record before byte ${offset} is not UTF-8.`);
  const text = bytes.toString("utf8");
  return text.endsWith("\r") ? text.slice(0, -1) : text;
}

const FIELD = /(?:"((?:[^"]|"")*)"|([^",]*))(,|$)/gy;

/** The fields of a record. A record that is not CSV has no fields. */
function readFields(text: string): readonly string[] {
  const fields: string[] = [];
  FIELD.lastIndex = 0;
  for (;;) {
    const found = FIELD.exec(text);
    if (found === null) return [];
    const [, quoted, bare = "", separator] = found;
    fields.push(quoted === undefined ? bare : quoted.replaceAll('""', '"'));
    if (separator === "") return fields;
  }
}
