/** A shop as a network of nodes: routes, retries, failures, duplicates and a held key, for the pages of pipelines. */
import { definePipeline, type NodeManifest, type Pipeline, type ShellContext } from "nevertwice/pipeline";
import type { NevertwiceServer } from "../src/server.ts";

interface Order {
  readonly id: string;
  readonly fate?: "refuse" | "retry" | "hang" | "large";
}

const node = (
  id: string,
  kind: "transform" | "router" | "sink",
  out: readonly string[],
  effect_shell: (order: Order, context: ShellContext) => unknown,
  more: Partial<NodeManifest["contract"]> = {},
): { readonly use: NodeManifest } => ({
  use: {
    node: { id, version: "1.0.0", kind },
    doc: { intent: `Does the work of ${id}.`, owner: "shop" },
    ports: { in: { in: {} }, out: Object.fromEntries(out.map((port) => [port, {}])) },
    contract: { pure_core: (order: Order) => order, effect_shell: effect_shell as never, ...more },
  },
});

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

export const SHOP = definePipeline({
  network: { id: "shop orders", version: "2.1.0" },
  nodes: {
    price: node("price", "transform", ["priced"], (order, { emit }) => emit("priced", order)),
    size: node("size", "router", ["small", "large"], (order, { emit }) =>
      emit(order.fate === "large" ? "large" : "small", order),
    ),
    charge: node(
      "charge",
      "transform",
      ["charged"],
      async (order, { emit, attempt }) => {
        if (order.fate === "hang") await pause(60_000);
        await pause(1);
        if (order.fate === "refuse")
          throw Object.assign(new Error("card 4242 refused"), { tag: "card-refused" });
        if (order.fate === "retry" && attempt === 0)
          throw Object.assign(new Error("busy"), { tag: "bank-busy" });
        return emit("charged", order);
      },
      {
        timeout: "300ms",
        retry: { max: 2, base: "5ms", on: ["bank-busy"] },
        idempotency: { key: "id", on_lapsed: "hold" },
      },
    ),
    review: node("review", "sink", [], () => undefined, { idempotency: { key: "id" } }),
    ship: node("ship", "transform", ["parcel"], (order, { emit }) => emit("parcel", order), {
      idempotency: { key: "id" },
    }),
    "send-the-confirmation-by-mail": node("mail", "sink", [], () => pause(2)),
  },
  edges: [
    { from: "price.priced", to: "size.in" },
    { from: "size.small", to: "charge.in" },
    { from: "size.large", to: "review.in" },
    { from: "charge.charged", to: ["ship.in", "send-the-confirmation-by-mail.in"] },
  ],
  expose: { in: { orders: "price.in" }, out: { parcels: "ship.parcel" } },
  deploy: { concurrency: { charge: 4, price: 2 } },
});

export function startShop(server: NevertwiceServer): Promise<Pipeline> {
  return server.startPipeline(SHOP);
}

/** One message of each fate, all with ids that name it. */
export async function pushFates(pipeline: Pipeline): Promise<void> {
  for (const fate of [undefined, "large", "refuse", "retry", "hang"] as const)
    await pipeline.push("orders", { id: `o-${fate ?? "fine"}`, fate }, { id: `m-${fate ?? "fine"}` });
  await pipeline.push("orders", { id: "o-fine" }, { id: "m-again" });
}

/** Orders until it is stopped: every tenth is large, some are tried twice, refused or sent twice. */
export function keepOrdering(pipeline: Pipeline): () => void {
  let number = 0;
  const timer = setInterval(() => {
    for (let index = 0; index < 8; index++) {
      number++;
      const fate =
        number % 10 === 0 ? "large" : number % 37 === 0 ? "refuse" : number % 23 === 0 ? "retry" : undefined;
      const id = `order-${number % 50 === 1 ? 1 : number}`;
      void pipeline.push("orders", { id, fate }, { id: `message-${number}` });
    }
  }, 50);
  return () => clearInterval(timer);
}
