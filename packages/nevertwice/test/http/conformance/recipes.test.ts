/** Tests rules for duplicates from other standards, each with a few lines on a guard: conditional creates, request ids, business messages. */
import { describe, expect, test } from "vitest";
import { eventKey } from "../../../src/core/key.ts";
import { createGuard } from "../../../src/functions/guard.ts";
import { memoryStore } from "../../../src/stores/memory.ts";
import { serve } from "./service.ts";

interface Patient {
  readonly id: number;
  readonly identifier: string;
}

/**
 * A conditional create like that of FHIR. The search is the key, so equal searches run one at a time. Nothing is stored, so
 * each request searches again.
 */
async function conditionalCreates(patients: Patient[] = []) {
  const service = await serve({
    options: {
      header: "If-None-Exist",
      operation: "create Patient",
      keep: "release",
      onPending: "wait",
      fingerprint: "none",
    },
    handler: async ({ res, attempt }) => {
      const identifier = attempt?.key ?? "";
      const found = patients.filter((patient) => patient.identifier === identifier);
      // Another request may arrive between the search and the create.
      await new Promise((resolve) => void setImmediate(resolve));
      if (found.length > 1) return res.writeHead(412).end();
      if (found[0] === undefined) patients.push({ id: patients.length + 1, identifier });
      const { id } = found[0] ?? (patients.at(-1) as Patient);
      return res.writeHead(found[0] === undefined ? 201 : 200, { Location: `/Patient/${id}` }).end();
    },
  });
  const create = () =>
    service.send({
      path: "/Patient",
      headers: [["If-None-Exist", "identifier=sys|1"]],
      body: { name: "Ann" },
    });
  return { create, patients };
}

describe("a conditional create", () => {
  test("FH-01 without a match creates the resource, and returns its location", async () => {
    const { create, patients } = await conditionalCreates();
    const answer = await create();
    expect([answer.status, answer.header("location")]).toEqual([201, "/Patient/1"]);
    expect(patients).toHaveLength(1);
  });

  test("FH-02 with one match returns that resource, and creates nothing", async () => {
    const { create, patients } = await conditionalCreates();
    await create();
    const again = await create();
    expect([again.status, again.header("location")]).toEqual([200, "/Patient/1"]);
    expect(patients).toHaveLength(1);
  });

  test("FH-03 with several matches is refused", async () => {
    const identifier = "identifier=sys|1";
    const { create, patients } = await conditionalCreates([
      { id: 1, identifier },
      { id: 2, identifier },
    ]);
    expect((await create()).status).toBe(412);
    expect(patients).toHaveLength(2);
  });

  test("FH-04 that is sent many times at once creates one resource", async () => {
    const { create, patients } = await conditionalCreates();
    const answers = await Promise.all(Array.from({ length: 10 }, create));
    expect(answers.map(({ status }) => status).sort()).toEqual([
      ...Array.from({ length: 9 }, () => 200),
      201,
    ]);
    expect(new Set(answers.map((answer) => answer.header("location")))).toEqual(new Set(["/Patient/1"]));
    expect(patients).toHaveLength(1);
  });
});

describe("a request message", () => {
  interface CreateBook {
    readonly title: string;
    readonly request_id?: string;
  }

  function library() {
    const guard = createGuard({ store: memoryStore(), purgeEveryMs: 0 });
    const books: string[] = [];
    const shelve = ({ title }: CreateBook) => ({ name: `books/${books.push(title)}` });
    const shelveOnce = guard.wrap(shelve, { operation: "CreateBook", keyFrom: ["0.request_id"] });
    const create = async (request: CreateBook) =>
      request.request_id === undefined ? shelve(request) : shelveOnce(request);
    return { books, create };
  }

  test("AP-01 with a request_id that is sent twice gets the first success again", async () => {
    const { create, books } = library();
    const request = { title: "Emma", request_id: "8e03978e-40d5-43e8-bc93-6894a57f9324" };
    expect([await create(request), await create(request)]).toEqual([
      { name: "books/1" },
      { name: "books/1" },
    ]);
    expect(books).toEqual(["Emma"]);
  });

  test("AP-02 without a request_id runs each time", async () => {
    const { create, books } = library();
    expect([await create({ title: "Emma" }), await create({ title: "Emma" })]).toEqual([
      { name: "books/1" },
      { name: "books/2" },
    ]);
    expect(books).toHaveLength(2);
  });
});

describe("a business message of ISO 20022", () => {
  interface Header {
    readonly sender: string;
    readonly BizMsgIdr: string;
    readonly PssblDplct?: boolean;
  }

  /** The sender and its id of the message are the key. The duplicate flag is a hint that changes nothing. */
  function inbox() {
    const guard = createGuard({ store: memoryStore(), purgeEveryMs: 0 });
    const processed: string[] = [];
    const receive = async ({ sender, BizMsgIdr }: Header) => {
      const request = { operation: "pacs.008", key: eventKey({ source: sender, id: BizMsgIdr }) };
      const { status } = await guard.tryRun(request, () => processed.push(BizMsgIdr));
      return status;
    };
    return { processed, receive };
  }

  test("IS-01 that is flagged as a possible duplicate but is new is processed", async () => {
    const { receive, processed } = inbox();
    expect(await receive({ sender: "BANKDEFF", BizMsgIdr: "M1", PssblDplct: true })).toBe("ran");
    expect(processed).toEqual(["M1"]);
  });

  test("IS-02 that is flagged as a possible duplicate and is known is not processed again", async () => {
    const { receive, processed } = inbox();
    await receive({ sender: "BANKDEFF", BizMsgIdr: "M1" });
    expect(await receive({ sender: "BANKDEFF", BizMsgIdr: "M1", PssblDplct: true })).toBe("replayed");
    expect(processed).toEqual(["M1"]);
  });

  test("IS-03 that is known is a duplicate without the flag too", async () => {
    const { receive, processed } = inbox();
    await receive({ sender: "BANKDEFF", BizMsgIdr: "M1" });
    expect(await receive({ sender: "BANKDEFF", BizMsgIdr: "M1" })).toBe("replayed");
    expect(processed).toEqual(["M1"]);
  });

  test("IS-04 of another sender is another message, even with the same id", async () => {
    const { receive, processed } = inbox();
    await receive({ sender: "BANKDEFF", BizMsgIdr: "M1" });
    expect(await receive({ sender: "BANKFRPP", BizMsgIdr: "M1" })).toBe("ran");
    expect(processed).toEqual(["M1", "M1"]);
  });
});
