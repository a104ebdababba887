/** The outcome of a node for one message: what its effect shell returned, in the form that is stored for its key. */

import type { Drop, Emit, NodeModel, Reply } from "./model.ts";
import type { MessageSettlement } from "./settlement.ts";

/** Stored in the record of the key, so the member names are part of the stored format. */
export interface NodeOutcome {
  /** Identifies this run among all runs of its key. */
  readonly run: string;
  readonly emits: readonly (readonly [port: string, payload: unknown])[];
  readonly reply?: { readonly value: unknown };
  readonly drop?: { readonly reason?: string };
  /** Why the output cannot be forwarded. The effect has happened, so the outcome is stored and the node does not run again. */
  readonly wrong?: string;
  /** The settlement that covers the output: the run's own, or that of a node earlier on the message's way. */
  readonly care?: MessageSettlement | "own";
  /** The id of the pushed message. Left out if the output came from several pushed messages. */
  readonly root?: string;
}

type ReturnedPart = Emit | Drop | Reply;

export function toNodeOutcome(node: NodeModel, returned: unknown, run: string): NodeOutcome {
  const none: NodeOutcome = { run, emits: [] };
  if (returned === undefined)
    return node.kind === "transform"
      ? { ...none, wrong: "it returned nothing; return an emit, or drop()" }
      : none;
  if (isPart(returned) && returned.kind === "drop")
    return { ...none, drop: returned.reason === undefined ? {} : { reason: returned.reason } };
  const list: readonly unknown[] = Array.isArray(returned) ? returned : [returned];
  const wrong = list.map((part) => findProblem(node, part)).find((text) => text !== undefined);
  const parts = list as readonly ReturnedPart[];
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

function isPart(value: unknown): value is ReturnedPart {
  const kind = (value as ReturnedPart | null | undefined)?.kind;
  return kind === "emit" || kind === "drop" || kind === "reply";
}

function findProblem({ out, reply }: NodeModel, part: unknown): string | undefined {
  if (!isPart(part)) return "it returned something other than emit(), drop() or reply()";
  switch (part.kind) {
    case "emit":
      return out.has(part.port)
        ? undefined
        : `it emitted on ${JSON.stringify(part.port)}, but its out-ports are ${[...out.keys()].join(", ") || "none"}`;
    case "reply":
      return reply ? undefined : "it replied, but its manifest does not have reply = true";
    case "drop":
      return "it returned drop() in a list; return drop() alone, or leave it out";
  }
}
