/** Scenarios about HTTP: clients that leave, answers that must come back as they were, and hostile headers. */
import { request as httpRequest } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { check, Failure } from "../judgement.js";

const TENANT = "tenant-a";

/** Every byte and every value of Set-Cookie, as they arrived. */
export function send(
  url,
  { method = "POST", headers = {}, body = "{}", abortAfterMs, timeoutMs = 40_000 } = {},
) {
  return new Promise((resolve, reject) => {
    const request = httpRequest(url, {
      method,
      agent: false,
      headers: {
        authorization: TENANT,
        ...(method !== "HEAD" && { "content-type": "application/json" }),
        ...headers,
      },
    });
    const late = setTimeout(() => request.destroy(new Error("no answer in time")), timeoutMs);
    request.on("error", (error) => {
      clearTimeout(late);
      reject(error);
    });
    request.on("response", (response) => {
      const chunks = [];
      response.on("data", (chunk) => chunks.push(chunk));
      response.on("error", reject);
      response.on("end", () => {
        clearTimeout(late);
        resolve({ status: response.statusCode, headers: response.headers, body: Buffer.concat(chunks) });
      });
    });
    if (abortAfterMs !== undefined)
      setTimeout(() => request.destroy(new Error("the client left")), abortAfterMs);
    request.end(method === "HEAD" ? undefined : body);
  });
}

const COOKIES = ["a=1; Path=/", "b=2; Path=/"];
const EVERY_BYTE = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
const PNG = { "content-type": "image/png" };
const TEXT = { "content-type": "text/plain; charset=utf-8" };

/** What the handler sends, and the bytes of its body. */
const ANSWERS = {
  json: { status: 201, headers: { location: "/orders/1" }, json: { id: 1 }, bytes: Buffer.from('{"id":1}') },
  binary: { status: 200, headers: PNG, body: EVERY_BYTE, bytes: EVERY_BYTE },
  chunks: {
    status: 200,
    headers: TEXT,
    chunks: ["one ", "two ", "three"],
    bytes: Buffer.from("one two three"),
  },
  empty: { status: 200, headers: TEXT, body: "", bytes: Buffer.alloc(0) },
  "no-content": { status: 204, body: undefined, bytes: Buffer.alloc(0) },
  "see-other": {
    status: 303,
    headers: { ...TEXT, location: "/orders/2" },
    body: "see other",
    bytes: Buffer.from("see other"),
  },
  cookies: { status: 200, headers: { ...TEXT, "set-cookie": COOKIES }, body: "ok", bytes: Buffer.from("ok") },
};

/** What differs from what the handler sent; undefined if nothing does. */
function differenceIn({ status, headers, body }, answer, isReplay) {
  if (status !== answer.status) return `status ${status} instead of ${answer.status}`;
  if (!body.equals(answer.bytes))
    return `a body of ${body.length} other bytes (${JSON.stringify(body.toString("latin1").slice(0, 40))})`;
  const wanted = answer.headers ?? {};
  for (const name of ["content-type", "location"])
    if (wanted[name] !== undefined && headers[name] !== wanted[name])
      return `${name} ${headers[name]} instead of ${wanted[name]}`;
  const cookies = headers["set-cookie"];
  // A cookie belongs to one client, so a library may leave all of them out of a replay.
  const isLeftOut = isReplay && cookies === undefined;
  const values = wanted["set-cookie"];
  if (values !== undefined && !isLeftOut && JSON.stringify(cookies) !== JSON.stringify(values))
    return `Set-Cookie ${JSON.stringify(cookies)}`;
  return undefined;
}

export const responses = [
  {
    number: 3,
    title: "A client that leaves and retries gets the answer of one run",
    async run(t) {
      const server = await t.openHttp({
        isScoped: true,
        async handle() {
          t.record("e");
          await sleep(1_200);
          return { status: 200, json: { done: true } };
        },
      });
      const headers = { "idempotency-key": "k" };
      await send(`${server.url}/charge`, { headers, abortAfterMs: 300 }).catch((error) => {
        if (error.message !== "the client left") throw error;
      });
      let retry;
      const giveUpAt = performance.now() + 10_000;
      do {
        retry = await send(`${server.url}/charge`, { headers });
        if (retry.status === 409) await sleep(200);
      } while (retry.status === 409 && performance.now() < giveUpAt);
      check(
        t.effects("e") === 1,
        `the client left after 0.3 s of a handler of 1.2 s, and its retry ran it again: ${t.effects("e")} runs`,
      );
      check(retry.status === 200, `10 s later a retry was answered ${retry.status} ${retry.body}`);
      return "one run, and the retry got its answer";
    },
  },
  {
    number: 14,
    title: "First answers and replays are what the handler sent, byte for byte",
    async run(t) {
      const server = await t.openHttp({
        isScoped: true,
        handle({ path }) {
          const name = path.slice(1);
          t.record(name);
          return name === "head" ? { status: 200, headers: TEXT, body: "head" } : ANSWERS[name];
        },
      });
      const problems = [];
      for (const [name, answer] of Object.entries(ANSWERS)) {
        const headers = { "idempotency-key": `key-${name}` };
        for (const turn of ["first answer", "replay"]) {
          const got = await send(`${server.url}/${name}`, { headers }).catch((error) => error);
          const difference =
            got instanceof Error ? got.message : differenceIn(got, answer, turn === "replay");
          if (difference !== undefined) problems.push(`${name}: the ${turn} had ${difference}`);
        }
        if (t.effects(name) !== 1) problems.push(`${name}: it ran ${t.effects(name)} times`);
      }
      const heads = [];
      for (let i = 0; i < 2; i++)
        heads.push(
          await send(`${server.url}/head`, { method: "HEAD", headers: { "idempotency-key": "head" } }),
        );
      if (heads.some(({ status, body }) => status !== 200 || body.length > 0))
        problems.push("HEAD: not answered as twice 200 without a body");
      if (problems.length > 0) throw new Failure(problems.join("; "));
      return "JSON, binary, chunks, empty, 204, 303, two cookies and HEAD came as they were sent";
    },
  },
  {
    number: 15,
    title: "Large and streamed answers do not repeat the effect, and their replay says what is missing",
    async run(t) {
      const large = Buffer.alloc(2 * 1024 * 1024, "x");
      const answers = {
        large: { status: 200, headers: TEXT, body: large },
        stream: {
          status: 200,
          headers: { "content-type": "text/event-stream" },
          chunks: ["data: 1\n\n", "data: 2\n\n"],
        },
      };
      const server = await t.openHttp({
        isScoped: true,
        handle({ path }) {
          t.record(path.slice(1));
          return answers[path.slice(1)];
        },
      });
      const notes = [];
      for (const name of Object.keys(answers)) {
        const headers = { "idempotency-key": name };
        const first = await send(`${server.url}/${name}`, { headers });
        await sleep(300);
        const retry = await send(`${server.url}/${name}`, { headers });
        check(t.effects(name) === 1, `${name}: the effect ran ${t.effects(name)} times`);
        const isSame = retry.status === first.status && retry.body.equals(first.body);
        const isMarked = retry.status >= 400 && !/progress|outstanding/i.test(retry.body.toString());
        const text = `${retry.status} ${retry.body.toString("latin1").slice(0, 60)}`;
        check(isSame || isMarked, `${name}: a retry after the end was answered ${text}`);
        notes.push(`${name}: ${isSame ? "the same bytes" : `${retry.status}, and the body says why`}`);
      }
      return notes.join("; ");
    },
  },
  {
    number: 22,
    title: "Forged headers, long keys, separators, quotes and repeated keys do no harm",
    async run(t) {
      const server = await t.openHttp({
        isScoped: true,
        handle({ headers }) {
          t.record(headers["x-effect"] ?? "e");
          return { status: 200, json: { for: headers["x-effect"] } };
        },
      });
      const ask = (effect, headers) =>
        send(`${server.url}/charge`, {
          headers: { ...headers, "x-effect": effect },
          timeoutMs: 15_000,
        }).catch((error) => ({
          status: 0,
          body: Buffer.from(error.message),
        }));
      const problems = [];
      const forged = await ask("forged", {
        "idempotency-key": "forged",
        "x-hit": "true",
        "idempotent-replayed": "true",
      });
      if (forged.status !== 200 || t.effects("forged") !== 1)
        problems.push(
          `with a forged x-hit header: ${forged.status} ${forged.body}, ${t.effects("forged")} runs`,
        );
      for (let i = 0; i < 2; i++) {
        const long = await ask("long", { "idempotency-key": "k".repeat(5_000) });
        if (long.status === 0 || t.effects("long") > 1)
          problems.push(
            `a key of 5,000 characters: ${long.status} ${long.body.toString().slice(0, 80)}, ${t.effects("long")} runs`,
          );
      }
      for (const [effect, authorization, key] of [
        ["left", "a", "b:c"],
        ["right", "a:b", "c"],
      ]) {
        const answer = await ask(effect, { authorization, "idempotency-key": key });
        if (t.effects(effect) !== 1)
          problems.push(`tenant ${authorization} with key ${key}: ${answer.status} ${answer.body}`);
      }
      for (const [effect, header] of [
        ["quoted", '"quoted"'],
        ["double", ["one", "two"]],
      ])
        for (let i = 0; i < 2; i++) {
          const answer = await ask(effect, { "idempotency-key": header });
          if (answer.status === 0 || t.effects(effect) > 1)
            problems.push(`${effect} key: ${answer.status} ${answer.body}, ${t.effects(effect)} runs`);
        }
      if (problems.length > 0) throw new Failure(problems.join("; "));
      return "every request was answered, and no key ran twice or met another one";
    },
  },
];
