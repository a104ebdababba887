/**
 * The figures of the outbox for metrics. They are read one namespace at a time and at most every few seconds, and no
 * collection of metrics waits long for them: a database that is slow or down leaves the figures out.
 */
import type { Outbox, OutboxFigures } from "nevertwice/outbox";

export interface OutboxGauges {
  /** The figures by namespace. A namespace is missing if its figures could not be read lately. Never rejects. */
  read(namespaces: readonly string[]): Promise<ReadonlyMap<string, OutboxFigures>>;
}

/** OutboxFigures that are older than this are read again. */
const FRESH_MS = 5_000;
/** OutboxFigures that are older than this are not shown. */
const SHOWN_MS = 30_000;
/** How long one collection of metrics waits for newer figures. */
const WAIT_MS = 250;

export function createOutboxGauges(
  findOutbox: (namespace: string) => Pick<Outbox, "figures"> | undefined,
): OutboxGauges {
  const known = new Map<string, { readonly figures: OutboxFigures; readonly at: number }>();
  let reading: Promise<void> | undefined;

  function isYoungerThan(ageMs: number, namespace: string): boolean {
    const found = known.get(namespace);
    return found !== undefined && performance.now() - found.at < ageMs;
  }

  async function readAll(namespaces: readonly string[]): Promise<void> {
    for (const namespace of namespaces) {
      try {
        const figures = await findOutbox(namespace)?.figures();
        if (figures !== undefined) known.set(namespace, { figures, at: performance.now() });
      } catch {
        // The next collection tries again. The routes of the outbox report what is wrong.
      }
    }
  }

  return {
    async read(namespaces) {
      for (const namespace of known.keys()) if (!isYoungerThan(SHOWN_MS, namespace)) known.delete(namespace);
      const stale = namespaces.filter((namespace) => !isYoungerThan(FRESH_MS, namespace));
      if (stale.length > 0) {
        reading ??= readAll(stale).finally(() => {
          reading = undefined;
        });
        await atMost(WAIT_MS, reading);
      }
      return new Map(
        namespaces.flatMap((namespace) => {
          const found = known.get(namespace);
          return found === undefined ? [] : [[namespace, found.figures] as const];
        }),
      );
    },
  };
}

async function atMost(ms: number, work: Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  await Promise.race([work, late]);
  clearTimeout(timer);
}
