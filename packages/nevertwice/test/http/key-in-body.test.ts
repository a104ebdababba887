/** Tests `keyField`: the key as a member of JSON or a field of a form, and what happens to bodies that hide it. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import express from "express";
import { afterEach, describe, expect, it } from "vitest";
import { createGuard } from "../../src/functions/guard.ts";
import { idempotency } from "../../src/http/express.ts";
import type { HttpOptions } from "../../src/http/options.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { scene } from "./profile-scene.ts";
import { REPLAYED } from "./replayed-header.ts";

const FORM = { "content-type": "application/x-www-form-urlencoded" };
const KEY = "8e03978e-40d5-43e8-bc93-6894a57f9324";
const CRLF = "\r\n";

/** The body of RunInstances, byte for byte as the AWS SDK for EC2 sends it. */
const RUN_INSTANCES = [
  "Action=RunInstances&Version=2016-11-15&MaxCount=1&MinCount=1&ImageId=ami-0abcdef1234567890&InstanceType=t3.micro",
  "TagSpecification.1.ResourceType=instance&TagSpecification.1.Tag.1.Key=Name&TagSpecification.1.Tag.1.Value=web%20one",
  `ClientToken=${KEY}`,
].join("&");

interface Sent {
  readonly headers?: Record<string, string>;
  readonly body: unknown;
}

async function codes(options: Partial<HttpOptions<Request>>, sent: readonly Sent[]) {
  const { send, runs } = scene({ keyField: "ClientToken", ...options });
  const seen: unknown[] = [];
  for (const one of sent) {
    const response = await send(one);
    const isProblem = response.headers.get("content-type") === "application/problem+json";
    const { code, detail } = (isProblem ? await response.json() : {}) as { code?: string; detail?: string };
    seen.push(
      isProblem ? `${response.status} ${code}: ${detail}` : (response.headers.get(REPLAYED) ?? "ran"),
    );
  }
  return { seen, runs: runs() };
}

/** The only answer to one request. */
async function answer(options: Partial<HttpOptions<Request>>, sent: Sent): Promise<unknown> {
  const { seen } = await codes(options, [sent]);
  return seen[0];
}

function part(content: string, { name = "ClientToken", more = "", head = "" } = {}): string {
  return `--b${CRLF}Content-Disposition: form-data; name="${name}"${more}${CRLF}${head}${CRLF}${content}${CRLF}`;
}
const PARTS = { "content-type": "multipart/form-data; boundary=b" };
const AMOUNT = part("5", { name: "amount" });
const multipart = (...parts: readonly string[]) => ({
  headers: PARTS,
  body: `${parts.join("")}--b--${CRLF}`,
});
const urlencoded = (body: string) => ({ headers: FORM, body });

describe("a key in a urlencoded body", () => {
  it("lets EC2's request run once", async () => {
    const again = urlencoded(RUN_INSTANCES);
    const other = urlencoded(RUN_INSTANCES.replace("MaxCount=1", "MaxCount=2"));
    const { seen, runs } = await codes({ required: true }, [again, again, other]);
    expect(seen).toEqual(["ran", "true", expect.stringContaining("422 conflict")]);
    expect(runs).toBe(1);
  });

  it.each([
    ["ClientToken=a&x=1&ClientToken=a", "occurs more than once"],
    ["ClientToken=a&Client%54oken=b", "occurs more than once"],
    ["ClientToken=&x=1", "is empty"],
    ["ClientToken", "is empty"],
    ["ClientToken=%ff&x=1", "is not UTF-8 text"],
    ["ClientToken=a%zz", "is not UTF-8 text"],
  ])("is refused in %s", async (body, problem) => {
    expect(await answer({}, urlencoded(body))).toBe(`400 key-invalid: The field ClientToken ${problem}.`);
  });

  it("is decoded like the rest of the form", async () => {
    const sent = ["ClientToken=a%20b&x=1", "x=1&ClientToken=a+b"].map(urlencoded);
    expect((await codes({ fingerprint: "none" }, sent)).seen).toEqual(["ran", "true"]);
  });

  it("is missing if no field has the name", async () => {
    expect(await answer({}, urlencoded("clienttoken=a"))).toBe("ran");
    expect(await answer({ required: true }, urlencoded("clienttoken=a"))).toContain(
      "400 key-missing: This operation requires the field ClientToken",
    );
  });

  it("is found in JSON that curl has sent as a form", async () => {
    const sent = urlencoded(`{"ClientToken":"${KEY}","amount":5}`);
    expect((await codes({}, [sent, sent])).seen).toEqual(["ran", "true"]);
  });
});

describe("a key in a multipart body", () => {
  it("is a text part of that name, whatever the boundary is", async () => {
    const body = () => {
      const form = new FormData();
      form.set("amount", "5");
      form.set("ClientToken", KEY);
      form.set("slip", new Blob([new Uint8Array([0, 255, 13, 10])]), "slip.bin");
      return form;
    };
    const sent = async () => {
      const request = new Request("http://service.test/", { method: "POST", body: body() });
      return {
        headers: { "content-type": request.headers.get("content-type") as string },
        body: Buffer.from(await request.arrayBuffer())
          .toString("latin1")
          .replaceAll("\u00ff", "?"),
      };
    };
    const { seen, runs } = await codes({ required: true }, [await sent(), await sent()]);
    expect(seen).toEqual(["ran", "true"]);
    expect(runs).toBe(1);
  });

  it("may say that it is text", async () => {
    const head = `Content-Type: text/plain; charset=ISO-8859-1${CRLF}Content-Transfer-Encoding: 8bit${CRLF}`;
    expect(await answer({ required: true }, multipart(AMOUNT, part(KEY, { head })))).toBe("ran");
  });

  it.each([
    [multipart(part("a"), part("b")), "occurs more than once"],
    [multipart(part("")), "is empty"],
    [multipart(part("a", { more: '; filename="a.txt"' })), "is a file"],
    [multipart(part("a", { head: `Content-Type: application/json${CRLF}` })), "is not text"],
    [multipart(part("YQ==", { head: `Content-Transfer-Encoding: base64${CRLF}` })), "is not text"],
  ])("is refused in part %#", async (sent, problem) => {
    expect(await answer({}, sent)).toBe(`400 key-invalid: The field ClientToken ${problem}.`);
  });

  it("is limited in its length", async () => {
    expect(await answer({}, multipart(part("a".repeat(256))))).toContain("has 256 characters");
  });

  it("is refused if parsers could split the body differently", async () => {
    const body = `preamble${CRLF}${part(KEY)}--b--${CRLF}`;
    expect(await answer({}, { headers: PARTS, body })).toContain("400 key-invalid: The body cannot be read");
    const headers = { "content-type": "multipart/form-data" };
    expect(await answer({}, { headers, body: `${part(KEY)}--b--${CRLF}` })).toContain("cannot be read");
  });
});

describe("a key in JSON", () => {
  it("is found behind a byte order mark, and without a type", async () => {
    const json = `{"ClientToken":"${KEY}"}`;
    expect((await codes({}, [{ body: `\ufeff${json}` }, { body: `\ufeff${json}` }])).seen).toEqual([
      "ran",
      "true",
    ]);
    const headers = { "content-type": "text/plain" };
    expect(
      (
        await codes({}, [
          { headers, body: json },
          { headers, body: json },
        ])
      ).seen,
    ).toEqual(["ran", "true"]);
  });
});

describe("a body that may hide its key", () => {
  it("is refused, even if keys are optional", async () => {
    for (const body of [`{"ClientToken":"${KEY}",}`, `{"ClientToken":"${KEY}"`])
      expect(await answer({}, { body })).toBe(
        "400 key-invalid: The body cannot be read as JSON, so its member ClientToken is not known.",
      );
  });

  it("runs unguarded only if it cannot carry a key and needs none", async () => {
    const others = [
      { headers: { "content-type": "text/xml" }, body: "<run/>" },
      { headers: { "content-type": "application/json" }, body: "[1]" },
      { headers: { "content-type": "application/json" }, body: "" },
    ];
    for (const sent of others) {
      expect(await answer({}, sent)).toBe("ran");
      expect(await answer({ required: true }, sent)).toContain(
        "400 key-missing: This operation requires the field ClientToken in a body of JSON or of a form",
      );
    }
  });
});

describe("behind a parser", () => {
  const servers: ReturnType<typeof createServer>[] = [];
  afterEach(() => {
    for (const server of servers.splice(0)) server.close();
  });

  it.each([
    ["an object", express.urlencoded({ extended: true })],
    ["text", express.text({ type: "*/*" })],
  ])(
    "that leaves %s, the key is the parsed field, and one that occurs twice is refused",
    async (_left, parser) => {
      const guard = createGuard({ store: memoryStore(), purgeEveryMs: 0 });
      const app = express();
      let runs = 0;
      app.use(parser);
      app.post(
        "/",
        idempotency(guard, { scope: "anyone", keyField: "ClientToken" }),
        (_request, response) => {
          response.status(201).send(`run ${++runs}`);
        },
      );
      const server = createServer(app);
      servers.push(server);
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
      const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
      const send = (body: string) => fetch(url, { method: "POST", headers: FORM, body });
      expect(await (await send(RUN_INSTANCES)).text()).toBe("run 1");
      expect(await (await send(RUN_INSTANCES)).text()).toBe("run 1");
      expect((await send("ClientToken=a&ClientToken=b")).status).toBe(400);
      expect(runs).toBe(1);
    },
  );
});
