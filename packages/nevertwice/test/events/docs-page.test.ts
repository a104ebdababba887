/** Tests that docs/events.md and the pages of brokers list the statuses, verdicts, events and senders that the code has. */
import { readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { consumer, type Delivery, RETRY_HORIZONS_MS } from "../../src/events/index.ts";
import type { NatsEvent } from "../../src/events/nats.ts";
import type { RabbitmqEvent } from "../../src/events/rabbitmq.ts";
import type { StreamEvent } from "../../src/events/redis-streams.ts";
import { createGuard } from "../../src/index.ts";
import { memoryStore } from "../../src/stores/memory.ts";

const DOCS = new URL("../../../../docs/", import.meta.url);
const read = (name: string) => readFileSync(new URL(name, DOCS), "utf8");

/** The cells of each row of a table below a heading. */
function rowsUnder(markdown: string, heading: string): string[][] {
  const section = markdown.split(/^#+ /m).find((text) => text.startsWith(`${heading}\n`)) ?? "";
  return section
    .split("\n")
    .filter((line) => line.startsWith("| "))
    .slice(2)
    .map((line) => line.slice(2, -2).split(" | "));
}

type Verdicts<Status> = Extract<Delivery, { readonly status: Status }>["verdict"];

/** The compiler requires every status here, and refuses a verdict that a status cannot have. */
const VERDICTS: { readonly [Status in Delivery["status"]]: readonly Verdicts<Status>[] } = {
  done: ["acknowledge"],
  "done-before": ["acknowledge"],
  pending: ["later"],
  conflict: ["acknowledge", "later"],
  unknown: ["later"],
  unavailable: ["later"],
  "lease-lost": ["later"],
  failed: ["later", "reject"],
  "failed-before": ["reject"],
  refused: ["reject"],
};

test("docs/events.md has every status with its verdicts", () => {
  const said = rowsUnder(read("events.md"), "Results of a delivery").map(([status = "", verdict = ""]) => [
    status.replaceAll("`", ""),
    verdict.split(", or "),
  ]);
  expect(Object.fromEntries(said)).toEqual(VERDICTS);
});

const EVENTS: Readonly<Record<string, readonly string[]>> = {
  RabbitMQ: Object.keys({ cancelled: 0, rejected: 0, unanswered: 0 } satisfies Kinds<RabbitmqEvent>),
  "NATS JetStream": Object.keys({ rejected: 0, unanswered: 0, ended: 0 } satisfies Kinds<NatsEvent>),
  "Redis Streams": Object.keys({
    "group-created": 0,
    interrupted: 0,
    resumed: 0,
    claimed: 0,
    rejected: 0,
    "left-pending": 0,
  } satisfies Kinds<StreamEvent>),
};

type Kinds<Event extends { readonly kind: string }> = Readonly<Record<Event["kind"], 0>>;

const BROKERS = ["brokers.md", "brokers-streams.md", "brokers-aws.md"].map(read).join("\n");

test.each(Object.entries(EVENTS))("the pages of brokers name every event of %s", (broker, kinds) => {
  const row = rowsUnder(BROKERS, broker).find(([name]) => name === "`onEvent`");
  for (const kind of kinds) expect(row?.at(-1)).toContain(`\`${kind}\``);
});

test("docs/events.md shows the members of the retrying event", async () => {
  const events: object[] = [];
  const guard = createGuard({ store: memoryStore(), purgeEveryMs: 0 });
  const flaky = consumer(guard, {
    name: "billing",
    key: () => "1",
    work: (_, __, { number }) => (number === 1 ? Promise.reject(new Error("busy")) : "done"),
    retry: { max: 1, baseMs: 1 },
    onEvent: (event) => events.push(event),
  });
  await flaky.handle("message");
  await guard.close();
  const [retrying, done] = events.map((event) => Object.keys(event));
  expect([retrying, done]).toEqual([
    ["kind", "consumer", "tries", "afterMs", "error"],
    ["kind", "consumer", "keyHash", "verdict"],
  ]);
  const row = rowsUnder(read("events.md"), "Options").find(([name]) => name === "`onEvent`");
  expect(row?.at(-1)).toContain('`{ kind: "retrying", consumer, tries, afterMs, error }`');
  expect(row?.at(-1)).toContain("`{ kind, consumer, keyHash?, verdict, error? }`");
});

test("docs/events.md lists all senders, and every page names only known senders", () => {
  const names = rowsUnder(read("events.md"), "Retention and senders").flatMap((row) =>
    [...row.join().matchAll(/`([a-z-]+)`/g)].map(([, name]) => name),
  );
  expect(names.sort()).toEqual(Object.keys(RETRY_HORIZONS_MS).sort());
  for (const page of readdirSync(DOCS).filter((name) => name.endsWith(".md")))
    for (const [, sender = ""] of read(page).matchAll(/\bsender: "([^"]+)"/g))
      expect(Object.keys(RETRY_HORIZONS_MS), `${page} names ${sender}`).toContain(sender);
});
