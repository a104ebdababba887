/** Scenarios about what a key belongs to: its body, its route, its tenant, its application. */
import { check, describeAnswer } from "../judgement.js";

export const requests = [
  {
    number: 8,
    title: "Another body under a finished key is refused, and the record stays",
    async run(t) {
      const subject = await t.open({ comparesBodies: true });
      await subject.call({ key: "k", body: { amount: 1 } }, t.work("e"));
      const other = await subject.call({ key: "k", body: { amount: 2 } }, t.work("e"));
      const same = await subject.call({ key: "k", body: { amount: 1 } }, t.work("e"));
      check(other.refusal === "conflict", `the other body was ${describeAnswer(other)}`);
      check(same.value === "e", `the honest retry was ${describeAnswer(same)}`);
      check(t.effects("e") === 1, `the work ran ${t.effects("e")} times`);
      return "refused as a conflict; the honest retry still got its value";
    },
  },
  {
    number: 9,
    title: "Another body under a running key is refused as a conflict, not as running",
    async run(t) {
      const subject = await t.open({ comparesBodies: true });
      const first = { key: "k", body: { amount: 1 } };
      const { answer: owner } = await t.begin(subject, first, t.work("e", { ms: 1_200 }));
      const other = await subject.call(
        { key: "k", body: { amount: 2 }, waitMs: 4_000, polls: false },
        t.work("e"),
      );
      await owner;
      check(other.refusal === "conflict", `the other body was ${describeAnswer(other)}`);
      check(t.effects("e") === 1, `the work ran ${t.effects("e")} times`);
      return "refused as a conflict";
    },
  },
  {
    number: 10,
    title: "Refused duplicates never change the record",
    async run(t) {
      const subject = await t.open({ comparesBodies: true });
      const right = { key: "k", body: { amount: 1 } };
      const wrong = { key: "k", body: { amount: 2 } };
      const { answer: owner } = await t.begin(subject, right, t.work("e", { ms: 1_500 }));
      await Promise.all([
        ...Array.from({ length: 5 }, () => subject.call({ ...wrong, waitMs: 0 }, t.work("e"))),
        ...Array.from({ length: 5 }, () => subject.call({ ...right, waitMs: 0 }, t.work("e"))),
      ]);
      await owner;
      await subject.call(wrong, t.work("e"));
      const after = await subject.call(right, t.work("e"));
      check(t.effects("e") === 1, `after refused duplicates, the work ran ${t.effects("e")} times`);
      check(after.value === "e", `after refused duplicates, an honest retry was ${describeAnswer(after)}`);
      return "11 refused duplicates: one run, and the honest retry got its value";
    },
  },
  {
    number: 11,
    title: "The same body under different keys runs for each key",
    async run(t) {
      const subject = await t.open({ comparesBodies: true });
      const calls = [
        { key: "a", body: { drink: "coffee" } },
        { key: "b", body: { drink: "coffee" } },
        { key: "c", operation: "cancel" },
        { key: "d", operation: "refund" },
      ];
      for (const request of calls) {
        const answer = await subject.call(request, t.work(request.key));
        check(
          answer.value === request.key && t.effects(request.key) === 1,
          `key ${request.key} was ${describeAnswer(answer)}`,
        );
      }
      return "two equal orders and two empty bodies: four runs";
    },
  },
  {
    number: 12,
    title: "The same key on two routes, methods or tenants is independent",
    async run(t) {
      const subject = await t.open();
      const places = [
        { operation: "charge", tenant: "tenant-a" },
        { operation: "refund", tenant: "tenant-a" },
        { operation: "charge", tenant: "tenant-b" },
      ];
      for (const [i, each] of places.entries()) {
        const answer = await subject.call({ key: "k", body: { amount: 1 }, ...each }, t.work(`e${i}`));
        check(answer.value === `e${i}`, `${each.operation} of ${each.tenant} was ${describeAnswer(answer)}`);
      }
      if (t.library.openHttp === undefined) return "two operations and two tenants: three runs";
      const server = await t.openHttp({
        isScoped: true,
        handle: ({ method }) => {
          t.record(method);
          return { status: 200, json: { method } };
        },
      });
      for (const method of ["POST", "PUT"]) {
        const headers = {
          "idempotency-key": "m",
          authorization: "tenant-a",
          "content-type": "application/json",
        };
        const response = await fetch(`${server.url}/things`, { method, headers, body: "{}" });
        const text = await response.text();
        check(
          t.effects(method) === 1,
          `${method} after the same key on another method was answered ${response.status} ${text}`,
        );
      }
      return "two operations, two tenants and two methods: five runs";
    },
  },
  {
    number: 13,
    title: "By default, no caller gets the answer of another one",
    async run(t) {
      let server;
      try {
        server = await t.openHttp({
          handle: ({ headers }) => ({ status: 200, json: { secret: `of ${headers.authorization}` } }),
        });
      } catch (error) {
        if (t.library.refusesWithoutTenant !== true || error.code !== "options-invalid") throw error;
        return `it does not start without a decision: ${error.message.split("\n")[0]}`;
      }
      const ask = async (authorization) => {
        const headers = { "idempotency-key": "k", authorization, "content-type": "application/json" };
        const response = await fetch(`${server.url}/accounts`, { method: "POST", headers, body: "{}" });
        return `${response.status} ${await response.text()}`;
      };
      const first = await ask("alice");
      const second = await ask("mallory");
      check(first.includes("of alice"), `alice was answered ${first}`);
      check(!second.includes("alice"), `mallory, with alice's key, was answered ${second}`);
      return `mallory, with alice's key, was answered ${second}`;
    },
  },
  {
    number: 16,
    title: "Work that changes its input completes the key that it was called with",
    async run(t) {
      const subject = await t.open();
      const order = () => ({ key: "k", body: { amount: 1, items: ["a"] } });
      const work = async (body, event) => {
        t.record("e");
        body.amount = 999;
        body.items.push("b");
        if (event !== undefined) event.key = "changed";
        return "e";
      };
      await subject.call(order(), work);
      const retry = await subject.call({ ...order(), waitMs: 1_000 }, work);
      check(t.effects("e") === 1, `the work ran ${t.effects("e")} times`);
      check(retry.value === "e", `the retry was ${describeAnswer(retry)}`);
      return "the retry got the value of the first call";
    },
  },
  {
    number: 28,
    title: "Two applications on one store do not meet",
    async run(t) {
      const applications = ["one", "two"];
      for (const [i, application] of applications.entries()) {
        const subject = await t.open({ application, comparesBodies: true });
        const answer = await subject.call({ key: "k", body: { n: i } }, t.work(application));
        check(answer.value === application, `application ${application} was ${describeAnswer(answer)}`);
      }
      return "the same key with other bodies in two applications: two runs";
    },
  },
];
