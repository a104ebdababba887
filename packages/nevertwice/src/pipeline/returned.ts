/** What a node's effect shell returned, read once: what is kept for its key, and goes on from there. */
import type { Drop, Emit, NodeModel, Reply } from "./model.ts";

/** As it is kept: plain, and with what names this run among all of its key. */
export interface Kept {
  readonly run: string;
  readonly emits: readonly (readonly [port: string, payload: unknown])[];
  readonly reply?: { readonly value: unknown };
  readonly drop?: { readonly reason?: string };
  /** Why what was returned cannot go on. The effect is done all the same: it is kept, and not done again. */
  readonly wrong?: string;
}

type Part = Emit | Drop | Reply;

export function keptOf(node: NodeModel, returned: unknown, run: string): Kept {
  const none: Kept = { run, emits: [] };
  if (returned === undefined)
    return node.kind === "transform"
      ? { ...none, wrong: "it returned nothing; return an emit, or drop()" }
      : none;
  if (isPart(returned) && returned.kind === "drop")
    return { ...none, drop: returned.reason === undefined ? {} : { reason: returned.reason } };
  const list: readonly unknown[] = Array.isArray(returned) ? returned : [returned];
  const wrong = list.map((part) => wrongIn(node, part)).find((text) => text !== undefined);
  const parts = list as readonly Part[];
  const replies = parts.flatMap((part) =>
    isPart(part) && part.kind === "reply" ? [{ value: part.value }] : [],
  );
  const emits = parts.flatMap((part) =>
    isPart(part) && part.kind === "emit" ? [[part.port, part.payload] as const] : [],
  );
  return {
    run,
    emits,
    ...(replies[0] === undefined ? {} : { reply: replies[0] }),
    ...(wrong === undefined ? {} : { wrong }),
  };
}

function isPart(value: unknown): value is Part {
  const kind = (value as Part | null | undefined)?.kind;
  return kind === "emit" || kind === "drop" || kind === "reply";
}

function wrongIn({ out, reply }: NodeModel, part: unknown): string | undefined {
  if (!isPart(part)) return "it returned something else than emit(), drop() or reply()";
  switch (part.kind) {
    case "emit":
      return out.has(part.port)
        ? undefined
        : `it emitted on ${JSON.stringify(part.port)}, and its out-ports are ${[...out.keys()].join(", ") || "none"}`;
    case "reply":
      return reply ? undefined : "it replied, and its manifest does not say reply = true";
    case "drop":
      return "it returned drop() in a list; return it alone, or leave it out";
  }
}
