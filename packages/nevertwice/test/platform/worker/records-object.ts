/**
 * A store whose every step is a request of its own to a Durable Object, so that nothing of it may be shared by two requests
 * of a Worker. The object keeps the records in a memory store. This is a store for tests: it loses its records with the
 * object.
 */
import { env } from "cloudflare:workers";
import { memoryStore } from "nevertwice/stores/memory";

/** What a test asks of the object before a step: wait, or fail. */
interface Trouble {
  readonly step: string;
  readonly delayMs?: number;
  readonly failures?: number;
}

interface Bindings {
  readonly RECORDS: {
    idFromName(name: string): unknown;
    get(id: unknown): { fetch(url: string, init?: RequestInit): Promise<Response> };
  };
}

type Step = (...args: unknown[]) => Promise<unknown>;

export class Records {
  readonly #store = memoryStore() as unknown as Readonly<Record<string, Step>>;
  readonly #counts: Record<string, number> = {};
  #trouble: Trouble | undefined;
  #failures = 0;

  async fetch(request: Request): Promise<Response> {
    const step = new URL(request.url).pathname.slice(1);
    if (step === "counts") return Response.json(this.#counts);
    const args = (await request.json()) as unknown[];
    if (step === "trouble") {
      this.#trouble = args[0] as Trouble | undefined;
      this.#failures = this.#trouble?.failures ?? 0;
      return Response.json(null);
    }
    this.#counts[step] = (this.#counts[step] ?? 0) + 1;
    if (this.#trouble?.step === step) {
      if (this.#failures > 0) {
        this.#failures--;
        return new Response("trouble", { status: 503 });
      }
      await new Promise((resolve) => setTimeout(resolve, this.#trouble?.delayMs ?? 0));
    }
    return Response.json((await this.#store[step]?.(...args)) ?? null);
  }
}

/** Takes one step in the object of this name. */
export async function callObject(
  name: string,
  step: string,
  args: unknown[] = [],
  signal?: AbortSignal,
): Promise<unknown> {
  const { RECORDS } = env as unknown as Bindings;
  const stub = RECORDS.get(RECORDS.idFromName(name));
  const body = JSON.stringify(args);
  const response = await stub.fetch(`http://records/${step}`, {
    method: "POST",
    body,
    signal: signal ?? null,
  });
  if (!response.ok) throw new Error(`the object answered ${response.status}`);
  return (await response.json()) ?? undefined;
}

/** Like the options of a store's step: its signal is not sent, but ends the request. */
interface Cancellable {
  readonly signal?: AbortSignal | undefined;
}

export function objectStore(name: string) {
  const step = (one: string) => async (request: Cancellable) => {
    const { signal, ...sent } = request;
    return (await callObject(name, one, [sent], signal)) as never;
  };
  return {
    usesSignal: true,
    claim: step("claim"),
    complete: step("complete"),
    abandon: step("abandon"),
    renew: step("renew"),
    keepStep: step("keepStep"),
    read: async (id: string, { signal }: Cancellable = {}) =>
      (await callObject(name, "read", [id], signal)) as never,
    purge: async (limit: number) => (await callObject(name, "purge", [limit])) as never,
    close: async () => {},
    async settings() {
      await callObject(name, "counts");
      await new Promise((resolve) => setTimeout(resolve, 200));
      const yes = { survives: "yes", because: "nothing ends the object during a test" } as const;
      const survives = { "our-crash": yes, "store-crash": yes, "power-loss": yes, failover: yes };
      return { title: "records of a test", survives, notes: [] };
    },
  };
}
