/** Keeps the values of an attribute few, whoever chooses them: each different one is a time series for ever. */

/** OpenTelemetry's own word for a value that is not told apart. */
export const OTHER = "_OTHER";

/** The first `max` different labels as they are, all later ones as `_OTHER`. */
export function boundedTo(max: number): (label: string) => string {
  const known = new Set<string>();
  return (label) => {
    if (known.has(label)) return label;
    if (known.size >= max) return OTHER;
    known.add(label);
    return label;
  };
}
