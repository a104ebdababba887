/** Tests the syntax of the key's header over the wire: an invalid key is refused, and its handler never runs. */
import { once } from "node:events";
import { connect } from "node:net";
import { describe, expect, test } from "vitest";
import { REPLAYED } from "../replayed-header.ts";
import { type Service, type ServiceOptions, serve } from "./service.ts";

const UUID = "8e03978e-40d5-43e8-bc93-6894a57f9324";

const strict = (more: ServiceOptions["options"] = {}) =>
  serve({ options: { strict: true, required: true, ...more } });
const lenient = () => serve({ options: { required: true } });

async function expectRefused(service: Service, key: string): Promise<void> {
  const before = service.runs();
  const answer = await service.send({ key });
  expect([key, answer.status, answer.json().code]).toEqual([key, 400, "key-invalid"]);
  expect(service.runs()).toBe(before);
}

/** The key that the handler gets. */
async function keyTaken(service: Service, key: string): Promise<unknown> {
  const answer = await service.send({ key });
  expect(answer.status).toBe(201);
  return answer.json().key;
}

describe("the header Idempotency-Key", () => {
  test("SF-01 a quoted UUID is accepted, and the key is the text between the quotes", async () => {
    expect(await keyTaken(await strict(), `"${UUID}"`)).toBe(UUID);
  });

  test("SF-02 a bare UUID that begins with a digit is refused in strict mode", async () => {
    await expectRefused(await strict(), UUID);
  });

  test("SF-03 a bare UUID that begins with a letter is a Token, and refused in strict mode", async () => {
    await expectRefused(await strict(), `a${UUID.slice(1)}`);
  });

  test("SF-04 a quoted and a bare key are the same key in lenient mode", async () => {
    const service = await lenient();
    const first = await service.send({ key: '"k-1"' });
    const second = await service.send({ key: "k-1" });
    expect([first.status, second.status, second.text]).toEqual([201, 201, first.text]);
    expect(second.header(REPLAYED)).toBe("true");
    expect(service.runs()).toBe(1);
  });

  test("SF-05 an escaped quote and an escaped backslash are parts of the key", async () => {
    expect(await keyTaken(await strict(), String.raw`"a\"b\\c"`)).toBe(String.raw`a"b\c`);
  });

  test("SF-06 a backslash before anything else is refused", async () => {
    const service = await strict();
    await expectRefused(service, String.raw`"a\n"`);
    await expectRefused(await lenient(), String.raw`"a\n"`);
  });

  test("SF-07 a quote that is not closed is refused", async () => {
    await expectRefused(await strict(), '"abc');
    await expectRefused(await lenient(), '"abc');
  });

  test("SF-08 single quotes do not make a String", async () => {
    await expectRefused(await strict(), "'abc'");
  });

  test("SF-09 a tab, a DEL or any byte outside ASCII between the quotes is refused", async () => {
    const service = await strict();
    await expectRefused(service, '"a\tb"');
    for (let byte = 0x80; byte <= 0xff; byte++)
      await expectRefused(service, `"a${String.fromCharCode(byte)}b"`);
    // Node's own parser refuses the message that carries it.
    expect(await statusOfRaw(service.port, 'Idempotency-Key: "a\u007fb"')).toBe(400);
    expect(service.runs()).toBe(0);
  });

  test("SF-10 parameters behind the key are parsed and ignored", async () => {
    const service = await strict();
    expect(await keyTaken(service, '"k1";v=1;foo')).toBe("k1");
    const again = await service.send({ key: '"k1"' });
    expect(again.header(REPLAYED)).toBe("true");
    expect(service.runs()).toBe(1);
  });

  test("SF-11 spaces around the quoted key are ignored", async () => {
    const service = await strict();
    expect(await keyTaken(service, '  "k1"  ')).toBe("k1");
    expect(await statusOfRaw(service.port, 'Idempotency-Key:    "k1"   ')).toBe(201);
    expect(service.runs()).toBe(1);
  });

  test("SF-12 two header lines are two keys, and refused", async () => {
    for (const service of [await strict(), await lenient()]) {
      const lines = (one: string, other: string) =>
        [
          ["Idempotency-Key", one],
          ["Idempotency-Key", other],
        ] as const;
      for (const headers of [lines('"k1"', '"k2"'), lines('"k1"', '"k1"')]) {
        const answer = await service.send({ headers });
        expect([answer.status, answer.json().code]).toEqual([400, "key-invalid"]);
      }
      expect(service.runs()).toBe(0);
    }
    const service = await lenient();
    const bare = [
      ["Idempotency-Key", "k1"],
      ["idempotency-key", "k2"],
    ] as const;
    expect((await service.send({ headers: bare })).status).toBe(400);
    expect(service.runs()).toBe(0);
  });

  test("SF-13 the case of the header's name does not matter", async () => {
    for (const service of [await strict(), await lenient()]) {
      for (const name of ["idempotency-key", "IDEMPOTENCY-KEY", "Idempotency-key"])
        expect((await service.send({ headers: [[name, '"k1"']] })).status).toBe(201);
      expect(service.runs()).toBe(1);
    }
  });

  test("SF-14 structured fields of other types are refused", async () => {
    const service = await strict();
    for (const value of [
      "42",
      "-1",
      "4.5",
      "?1",
      ":aGVsbG8=:",
      "@1659578233",
      '%"f%c3%bc"',
      "token",
      '("k1")',
    ])
      await expectRefused(service, value);
  });

  test("SF-15 a String of 1024 characters is accepted if the limit allows it", async () => {
    const key = "x".repeat(1_024);
    expect(await keyTaken(await strict({ maxKeyLength: 1_024 }), `"${key}"`)).toBe(key);
  });

  test("SF-16 by default 255 characters are accepted, and 256 are refused", async () => {
    for (const service of [await strict(), await lenient()]) {
      expect(await keyTaken(service, `"${"x".repeat(255)}"`)).toBe("x".repeat(255));
      await expectRefused(service, `"${"x".repeat(256)}"`);
    }
    await expectRefused(await lenient(), "x".repeat(256));
  });

  test("SF-17 an empty key is refused, and does not count as missing", async () => {
    for (const service of [
      await strict(),
      await lenient(),
      await serve(),
      await serve({ options: { strict: true } }),
    ]) {
      for (const key of ['""', "", "   ", '"";v=1']) await expectRefused(service, key);
      expect(service.runs()).toBe(0);
    }
  });
});

/** The status of a request with exactly this header line, which no client library would send. */
async function statusOfRaw(port: number, line: string): Promise<number> {
  const socket = connect(port, "127.0.0.1");
  const body = JSON.stringify({ item: "book", amount: 100 });
  const head = [
    "POST /orders HTTP/1.1",
    "Host: localhost",
    "Connection: close",
    "Content-Type: application/json",
  ];
  socket.end(`${[...head, `Content-Length: ${body.length}`, line].join("\r\n")}\r\n\r\n${body}`, "latin1");
  let answer = "";
  socket.setEncoding("latin1").on("data", (text) => {
    answer += text;
  });
  await once(socket, "close");
  return Number(answer.split(" ")[1]);
}
