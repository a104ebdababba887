/** A node as its own manifest describes it, before a network gives it a name. */
import type { NodeModel } from "../model.ts";
import type { Document } from "./document.ts";

/** Schemas are still names. The network that uses the node provides the schemas. */
export interface NodeDraft extends Omit<NodeModel, "name" | "in" | "out" | "concurrency"> {
  readonly document: Document;
  readonly in: ReadonlyMap<string, DraftPort>;
  readonly out: ReadonlyMap<string, DraftPort>;
  /** The rules of lint that do not apply to this node. */
  readonly lint: readonly string[];
}

export interface DraftPort {
  readonly schema: string | undefined;
  readonly buffer: number;
}
