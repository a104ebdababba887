/** A value in an error message: short, and without the members of objects, which may be secret. */
export function shown(value: unknown): string {
  return typeof value === "string"
    ? JSON.stringify(value)
    : typeof value === "object" && value !== null
      ? "an object"
      : String(value);
}
