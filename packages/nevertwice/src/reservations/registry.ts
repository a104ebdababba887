/**
 * The registry of resources and their capacity. Pure. An undeclared resource has one unit; a declared one has a capacity.
 * The units taken never exceed the capacity, and a request is never reduced to fit: it is granted whole or rejected.
 */
import { isUnits } from "./commitment.ts";

export const RESOURCE_STATES = ["open", "suspended", "closed"] as const;

/** Whether a resource takes holds. */
export type ResourceState = (typeof RESOURCE_STATES)[number];

/** Something that can be held, and how much of it there is. */
export interface Resource {
  /** The name of the resource. */
  readonly name: string;
  /** How many units there are. */
  readonly capacity: number;
  /** Units that are held, or confirmed and not yet given back. */
  readonly taken: number;
  /** Whether it takes holds. */
  readonly state: ResourceState;
  /** Whether it was declared, or only used. */
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

/** The resource behind a name that was never declared. */
export function undeclared(name: string): Resource {
  return { name, capacity: 1, taken: 0, state: "open", isDeclared: false };
}

/** Takes units for a new hold. */
export function take(resource: Resource, units: number): Allotment {
  if (resource.state === "suspended")
    return rejected("pool-suspended", "the resource is suspended and takes no new holds for now");
  if (resource.state === "closed")
    return rejected("pool-closed", "the resource is closed and takes no new holds");
  const free = resource.capacity - resource.taken;
  if (units > free)
    return rejected(
      "resource-unavailable",
      `${units} units were requested, and ${free} of ${resource.capacity} are free`,
    );
  return { resource: { ...resource, taken: resource.taken + units } };
}

/** Frees units of a hold that ended, was confirmed in part, or was given back. Works in every state of the resource. */
export function giveBack(resource: Resource, units: number): Resource {
  if (units > resource.taken)
    throw new Error(`cannot give back ${units} units of ${resource.name}: only ${resource.taken} are taken`);
  return { ...resource, taken: resource.taken - units };
}

export function declare(found: Resource | undefined, name: string, capacity: unknown): Allotment {
  if (!isCapacity(capacity)) return rejected("invalid-request", "capacity must be a whole number from 0");
  const resource = found ?? undeclared(name);
  if (resource.isDeclared)
    return rejected("invalid-request", "the resource is already declared; change its capacity with adjust");
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

/** Cannot be undone. Existing holds can still be confirmed, released, expired and given back. */
export function close(found: Resource | undefined): Allotment {
  return whileOpen(found, (resource) => ({ resource: { ...resource, state: "closed" } }));
}

function whileOpen(found: Resource | undefined, change: (resource: Resource) => Allotment): Allotment {
  if (found === undefined || !found.isDeclared) return rejected("not-known", "the resource is not declared");
  if (found.state === "closed")
    return rejected("pool-closed", "the resource is closed, which cannot be undone");
  return change(found);
}

function resized(resource: Resource, capacity: number): Allotment {
  if (capacity < resource.taken)
    return rejected("units-exceeded", `capacity ${capacity} is too small: ${resource.taken} units are taken`);
  return { resource: { ...resource, capacity } };
}

function isCapacity(value: unknown): value is number {
  return value === 0 || isUnits(value);
}

function rejected(reason: RegistryRejection, detail: string): Allotment {
  return { rejected: reason, detail };
}
