/** Limits the different values of an attribute, since each one becomes a time series that never goes away. */

/** OpenTelemetry's own value for everything that is not listed separately. */
export const OTHER = "_OTHER";

/** Returns the first `max` different labels unchanged, and `_OTHER` for all later ones. */
export function createLabelLimit(max: number): (label: string) => string {
  const known = new Set<string>();
  return (label) => {
    if (known.has(label)) return label;
    if (known.size >= max) return OTHER;
    known.add(label);
    return label;
  };
}
