/** Tests how multipart bodies are compared: by their parts, or by their bytes if two parsers could disagree. */
import { createHash } from "node:crypto";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { toFingerprint } from "../../src/core/fingerprint.ts";
import { requestMeaning } from "../../src/http/request-meaning.ts";

function meaning(body: string | Uint8Array, contentType = "multipart/form-data; boundary=b") {
  const bytes = typeof body === "string" ? Buffer.from(body) : body;
  const request = { method: "POST", target: "/uploads", contentType };
  return requestMeaning(request, { kind: "bytes", bytes }, "json") as [string, string, string, unknown];
}
const print = (...given: Parameters<typeof meaning>) => toFingerprint(meaning(...given));
const kindOf = (...given: Parameters<typeof meaning>) => meaning(...given)[2];
const sha256 = (data: string | Uint8Array) => createHash("sha256").update(data).digest("base64");

const part = (head: string, content = "x") => `--b\r\n${head}\r\n\r\n${content}\r\n`;
const TITLE = 'Content-Disposition: form-data; name="title"';
const FILE = 'Content-Disposition: form-data; name="file"; filename="a.txt"\r\nContent-Type: text/plain';
const BODY = `${part(TITLE)}${part(FILE, "hello")}--b--\r\n`;

/** A form as `fetch` sends it, with a new boundary each time. */
async function sent(form: FormData) {
  const response = new Response(form);
  const contentType = response.headers.get("content-type") ?? "";
  return { contentType, bytes: new Uint8Array(await response.arrayBuffer()) };
}

/** The result of an independent parser: what the handler will see, or undefined for an invalid body. */
async function seen(body: string) {
  const headers = { "content-type": "multipart/form-data; boundary=b" };
  const form = await new Response(body, { headers }).formData().catch(() => undefined);
  if (form === undefined) return undefined;
  const entries = [...form].map(async ([name, value]) =>
    typeof value === "string"
      ? [name, value]
      : [name, value.name, value.type, sha256(new Uint8Array(await value.arrayBuffer()))],
  );
  return Promise.all(entries);
}

describe("a multipart body", () => {
  it("means its parts in their order, each by its headers and its content's digest", () => {
    expect(meaning(BODY)).toEqual([
      "POST",
      "/uploads",
      "parts",
      [
        [{ name: "title" }, {}, sha256("x")],
        [{ name: "file", filename: "a.txt" }, { "content-type": "text/plain" }, sha256("hello")],
      ],
    ]);
  });

  it("FP-10 means the same with another boundary", () => {
    const other = BODY.replaceAll("--b", "------WebKitFormBoundary7MA4YWxkTrZu0gW");
    expect(print(other, "multipart/form-data; boundary=----WebKitFormBoundary7MA4YWxkTrZu0gW")).toBe(
      print(BODY),
    );
    expect(print(other)).not.toBe(print(BODY));
  });

  it("FP-10 means the same each time a client sends it", async () => {
    const form = new FormData();
    form.append("title", "caf\u00e9 \u{1f600}\r\n--");
    form.append("title", "");
    form.append(
      'na"me',
      new Blob([Buffer.from([0, 255, 13, 10, 45, 45])], { type: "image/png" }),
      'a"b\u00e9.png',
    );
    const [first, second] = [await sent(form), await sent(form)];
    expect(first.contentType).not.toBe(second.contentType);
    expect(kindOf(first.bytes, first.contentType)).toBe("parts");
    expect(print(second.bytes, second.contentType)).toBe(print(first.bytes, first.contentType));
    form.append("more", "1");
    const third = await sent(form);
    expect(print(third.bytes, third.contentType)).not.toBe(print(first.bytes, first.contentType));
  });

  it("FP-10 means the same with a part's headers in another order or case, or a value without its quotes", () => {
    for (const head of [
      'Content-Type: text/plain\r\nContent-Disposition: form-data; name="file"; filename="a.txt"',
      'content-type:text/plain\r\nCONTENT-DISPOSITION:\tForm-Data;filename="a.txt" ; NAME="file" ',
      "Content-Disposition: form-data; name=file; filename=a.txt\r\nContent-Type:  text/plain",
    ])
      expect(print(`${part(TITLE)}${part(head, "hello")}--b--\r\n`)).toBe(print(BODY));
  });

  it("means the same without the line break after its last delimiter", () => {
    expect(print(BODY.slice(0, -2))).toBe(print(BODY));
  });

  it("differs by any part of its content, and by the order of the parts", () => {
    const bodies = [
      BODY,
      BODY.replace('"title"', '"subject"'),
      BODY.replace("a.txt", "b.txt"),
      BODY.replace('; filename="a.txt"', ""),
      BODY.replace('filename="a.txt"', 'filename=""'),
      BODY.replace("filename=", "filename*="),
      BODY.replace("text/plain", "text/html"),
      BODY.replace("\r\nContent-Type: text/plain", ""),
      BODY.replace("hello", "hello "),
      BODY.replace("hello", ""),
      BODY.replace("hello", "hello\r\n"),
      BODY.replace(
        "Content-Type: text/plain",
        "Content-Type: text/plain\r\nContent-Transfer-Encoding: base64",
      ),
      `${part(FILE, "hello")}${part(TITLE)}--b--\r\n`,
      `${part(TITLE)}${part(TITLE)}${part(FILE, "hello")}--b--\r\n`,
      `${part(TITLE)}--b--\r\n`,
      "--b--\r\n",
    ];
    expect(bodies.map((body) => kindOf(body))).toEqual(bodies.map(() => "parts"));
    expect(new Set(bodies.map((body) => print(body))).size).toBe(bodies.length);
  });

  it("keeps a backslash in a name as sent, since clients use it differently", () => {
    const names = ['"a\\b"', '"ab"', '"a\\\\b"', '"a\\"b"', '"a%22b"'];
    const bodies = names.map((name) => `${part(`Content-Disposition: form-data; name=${name}`)}--b--\r\n`);
    expect(bodies.map((body) => kindOf(body))).toEqual(bodies.map(() => "parts"));
    expect(new Set(bodies.map((body) => print(body))).size).toBe(bodies.length);
  });

  it("keeps a header called __proto__ as data", () => {
    const body = `${part(`${TITLE}\r\n__proto__: 1`)}--b--\r\n`;
    expect(JSON.stringify(meaning(body)[3])).toContain('{"__proto__":"1"}');
    expect(print(body)).not.toBe(print(body.replace(": 1", ": 2")));
  });

  it("may contain any content that is not a delimiter", () => {
    for (const content of [
      "x--b--",
      "\r\n",
      "\r\n-",
      "\r\n--",
      "\n--b",
      "\r--b\r\n",
      "\r\n\r\n",
      "\r\n--c--",
      "\r\r\n-b",
    ]) {
      const body = `${part(TITLE, content)}--b--`;
      expect([content, meaning(body)[3]]).toEqual([content, [[{ name: "title" }, {}, sha256(content)]]]);
    }
  });
});

describe("a boundary", () => {
  const body = (boundary: string) => BODY.replaceAll("--b", `--${boundary}`);
  it.each([
    ["x".repeat(70), "parts"],
    ["0'()+_,-./:=?9", "parts"],
    ["a b", "parts"],
    ["-", "parts"],
    ["x".repeat(71), "bytes"],
    ["a ", "bytes"],
    ["", "bytes"],
    ["a\\b", "bytes"],
    ["a*b", "bytes"],
    ["\u00e9", "bytes"],
    ["a\tb", "bytes"],
  ])("%j is read as %s", (boundary, kind) => {
    expect(kindOf(body(boundary), `multipart/form-data; boundary="${boundary}"`)).toBe(kind);
  });

  it.each([
    ["multipart/form-data; boundary=b", "parts"],
    ["Multipart/Form-Data;charset=utf-8; BOUNDARY=b", "parts"],
    ["multipart/form-data", "bytes"],
    ["multipart/form-data; boundary=", "bytes"],
    ["multipart/form-data; boundary=b; boundary=b", "bytes"],
    ["multipart/form-data; boundary=B", "bytes"],
    ["multipart/mixed; boundary=b", "bytes"],
    ["multipart/form-data, boundary=b", "bytes"],
  ])("in %s makes it %s", (contentType, kind) => {
    expect(kindOf(BODY, contentType)).toBe(kind);
  });
});

describe("a multipart body is compared by its bytes", () => {
  const HEAD = "Content-Disposition: form-data";
  it.each([
    ["is cut off", BODY.slice(0, -4)],
    ["is cut off in its last delimiter", BODY.slice(0, -3)],
    ["has text before its first part", `preamble\r\n${BODY}`],
    ["has a line end before its first part", `\r\n${BODY}`],
    ["has text behind its last part", `${BODY}epilogue`],
    ["has a part behind its last part", `${BODY}${BODY}`],
    ["has another line end than CRLF", BODY.replaceAll("\r\n", "\n")],
    ["has one delimiter with a bare line feed", BODY.replace("--b\r\n", "--b\n")],
    ["has a padded delimiter", BODY.replace("--b\r\n", "--b \r\n")],
    ["has a delimiter and a header in one line", BODY.replace("--b\r\n", "--bxx")],
    ["has a longer line that begins as a delimiter does", BODY.replace("hello", "hello\r\n--bc\r\n")],
    ["has no parts but its headers' end", "--b\r\n\r\n\r\n--b--\r\n"],
    ["has an empty part", "--b\r\n--b--\r\n"],
    ["has a part without headers", "--b\r\n\r\nx\r\n--b--\r\n"],
    ["has headers that nothing ends", `--b\r\n${TITLE}\r\n--b--\r\n`],
    ["has headers that only a delimiter ends", `--b\r\n${TITLE}\r\n\r\n--b--\r\n`],
    ["has a part that begins as a delimiter does", `${part(TITLE, "--b")}--b--`],
    ["has a part without a disposition", `${part("Content-Type: text/plain")}--b--`],
    ["has a part of another disposition", `${part('Content-Disposition: attachment; name="a"')}--b--`],
    ["has a part without a name", `${part(`${HEAD}; filename="a"`)}--b--`],
    ["has a part with two names", `${part(`${HEAD}; name="a"; NAME="b"`)}--b--`],
    ["has an open quote", `${part(`${HEAD}; name="a`)}--b--`],
    ["has a quote that a backslash keeps open", `${part(`${HEAD}; name="a\\"`)}--b--`],
    ["has text behind a parameter", `${part(`${HEAD}; name="a" b`)}--b--`],
    ["has a header twice", `${part(`${TITLE}\r\n${TITLE}`)}--b--`],
    ["has a folded header", `${part(`${HEAD};\r\n name="a"`)}--b--`],
    ["has a header without a colon", `${part(`${TITLE}\r\nContent-Type`)}--b--`],
    ["has a space before a colon", `${part(`${TITLE}\r\nContent-Type : a`)}--b--`],
    ["has a control character in a header", `${part(`${TITLE}\r\nX-A: a\u0000b`)}--b--`],
    ["has a bare carriage return in a header", `${part(`${TITLE}\r\nX-A: a\rb`)}--b--`],
    ["has a bare line feed in a header", `${part(`${HEAD}; name="a\nb"`)}--b--`],
    ["is nothing of the kind", "title=x"],
  ])("if it %s", (_, body) => {
    expect(meaning(body).slice(2)).toEqual(["bytes", sha256(body)]);
  });

  it("if a part's headers are not UTF-8", () => {
    const body = Buffer.from(BODY.replace("a.txt", "\u00e9.txt"), "latin1");
    expect(meaning(body).slice(2)).toEqual(["bytes", sha256(body)]);
  });
});

it("a multipart body is split into parts if its parts' headers have up to 16 KiB", () => {
  const body = (length: number) => `${part(`${TITLE}\r\nX-A: `.padEnd(length, "x"))}--b--`;
  expect([kindOf(body(16_384)), kindOf(body(16_385))]).toEqual(["parts", "bytes"]);
});

describe("a hostile multipart body", () => {
  const flood = (count: number, text: string) => text.repeat(count);
  it.each([
    ["carriage returns", () => `${part(TITLE, flood(1_000_000, "\r"))}--b--`, "parts"],
    [
      "delimiters without their last character",
      () => `${part(TITLE, flood(250_000, "\r\n--"))}--b--`,
      "parts",
    ],
    ["parts", () => `${flood(15_000, part(TITLE))}--b--`, "parts"],
    ["blanks in a header", () => `${part(`${TITLE}${flood(1_000_000, " ")}; a=b`)}--b--`, "bytes"],
    ["blanks that lead nowhere", () => `${part(`${TITLE}${flood(1_000_000, " ")}x`)}--b--`, "bytes"],
    ["semicolons", () => `${part(TITLE + flood(1_000_000, ";"))}--b--`, "bytes"],
    ["escapes in an open quote", () => `${part(`${TITLE}; a="${flood(500_000, "\\a")}`)}--b--`, "bytes"],
    [
      "headers",
      () => `${part(TITLE + Array.from(new Array(60_000).keys(), (i) => `\r\na${i}: b`).join(""))}--b--`,
      "bytes",
    ],
    ["text in quotes", () => `${part(`${TITLE}; a="${flood(1_000_000, "a")}"`)}--b--`, "bytes"],
    ["a header's name", () => `${part(`${flood(1_000_000, "a")}\r\n${TITLE}`)}--b--`, "bytes"],
  ])("of a megabyte of %s is still read", (_, body, kind) => {
    expect(kindOf(body())).toBe(kind);
  });

  it("that equals another one is equal for the handler's parser too", async () => {
    const lines = ["\r\n", "--b", "\r\n--b\r\n", "\r\n--b--"];
    const noise = fc.constantFrom(...lines, ...'"\\;\r\n-: \t=x\u0000');
    const change = fc.record({ at: fc.nat({ max: BODY.length }), removed: fc.nat({ max: 3 }), added: noise });
    const original = await seen(BODY);
    expect(original).toHaveLength(2);
    const expected = print(BODY);
    await fc.assert(
      fc.asyncProperty(change, async ({ at, removed, added }) => {
        const changed = BODY.slice(0, at) + added + BODY.slice(at + removed);
        if (print(changed) === expected) expect([original, undefined]).toContainEqual(await seen(changed));
      }),
      { numRuns: 2000 },
    );
  });
});
