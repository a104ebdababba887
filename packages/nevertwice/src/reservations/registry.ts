/**
 * What can be held, and how much of it. Pure. A resource that nobody declared is one unit, free to whoever comes first; a
 * declared one has a capacity. What is taken is never more than there is, and nothing is ever cut down to fit.
 */
import { isUnits } from "./commitment.ts";

export type ResourceState = "open" | "suspended" | "closed";

export interface Resource {
  readonly name: string;
  readonly capacity: number;
  /** Units that are held, or confirmed and not given back. */
  readonly taken: number;
  readonly state: ResourceState;
  readonly isDeclared: boolean;
}

export type RegistryRejection =
  | "invalid-request"
  | "not-known"
  | "resource-unavailable"
  | "units-exceeded"
  | "pool-suspended"
  | "pool-closed";

export type Allotment =
  | { readonly resource: Resource }
  | { readonly rejected: RegistryRejection; readonly detail: string };

/** What a name stands for that nobody declared. */
export function undeclared(name: string): Resource {
  return { name, capacity: 1, taken: 0, state: "open", isDeclared: false };
}

/** Takes units for a new hold. */
export function take(resource: Resource, units: number): Allotment {
  if (resource.state === "suspended") return rejected("pool-suspended", "nothing new is held there for now");
  if (resource.state === "closed") return rejected("pool-closed", "nothing is held there any more");
  const free = resource.capacity - resource.taken;
  if (units > free)
    return rejected(
      "resource-unavailable",
      `${free} of ${resource.capacity} are free, and ${units} were asked for`,
    );
  return { resource: { ...resource, taken: resource.taken + units } };
}

/** Gives units back: of a hold that ended, of the rest of a confirmed one, or of what was confirmed. In every state. */
export function giveBack(resource: Resource, units: number): Resource {
  if (units > resource.taken)
    throw new Error(`${units} cannot be given back of ${resource.taken} that are taken of ${resource.name}`);
  return { ...resource, taken: resource.taken - units };
}

export function declare(found: Resource | undefined, name: string, capacity: unknown): Allotment {
  if (!isCapacity(capacity)) return rejected("invalid-request", "capacity must be a whole number from 0");
  const resource = found ?? undeclared(name);
  if (resource.isDeclared)
    return rejected("invalid-request", "it is declared already; adjust changes its capacity");
  return resized({ ...resource, isDeclared: true }, capacity);
}

export function adjust(found: Resource | undefined, capacity: unknown): Allotment {
  if (!isCapacity(capacity)) return rejected("invalid-request", "capacity must be a whole number from 0");
  return whileOpen(found, (resource) => resized(resource, capacity));
}

export function suspend(found: Resource | undefined): Allotment {
  return whileOpen(found, (resource) => ({ resource: { ...resource, state: "suspended" } }));
}

export function resume(found: Resource | undefined): Allotment {
  return whileOpen(found, (resource) => ({ resource: { ...resource, state: "open" } }));
}

/** For good. What is held there can still be confirmed, released, expired and given back. */
export function close(found: Resource | undefined): Allotment {
  return whileOpen(found, (resource) => ({ resource: { ...resource, state: "closed" } }));
}

function whileOpen(found: Resource | undefined, change: (resource: Resource) => Allotment): Allotment {
  if (found === undefined || !found.isDeclared) return rejected("not-known", "nobody has declared it");
  if (found.state === "closed") return rejected("pool-closed", "it is closed for good");
  return change(found);
}

function resized(resource: Resource, capacity: number): Allotment {
  if (capacity < resource.taken)
    return rejected("units-exceeded", `${resource.taken} are taken, and ${capacity} cannot hold them`);
  return { resource: { ...resource, capacity } };
}

function isCapacity(value: unknown): value is number {
  return value === 0 || isUnits(value);
}

function rejected(reason: RegistryRejection, detail: string): Allotment {
  return { rejected: reason, detail };
}
