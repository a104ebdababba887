/** A node as its own manifest has it, before a network gives it a name. */
import type { NodeModel } from "../model.ts";
import type { Document } from "./document.ts";

/** Schemas are still names: what they are, the network says. */
export interface NodeDraft extends Omit<NodeModel, "name" | "in" | "out" | "concurrency"> {
  readonly document: Document;
  readonly in: ReadonlyMap<string, DraftPort>;
  readonly out: ReadonlyMap<string, DraftPort>;
}

export interface DraftPort {
  readonly schema: string | undefined;
  readonly buffer: number;
}
