/**
 * Which of two events is the later one. Every instance must answer the same, in whatever order the events arrive, so the
 * order has no ties: the producer's sequence number, then the time, then the event's id.
 */

/**
 * The event that a write is for. Times alone do not order events: EventBridge gives whole seconds, and clocks differ. Send a
 * `sequence` that grows with each event of an asset wherever the producer has one (a version, a log's offset).
 *
 * @typedef {{ id: string, occurredAt: string, sequence?: number | undefined }} Cause
 * @typedef {{ sequence: number, at: number, event: string }} Place
 */

const WITH_ZONE = /^\d{4}-\d\d-\d\dT.*(Z|[+-]\d\d:\d\d)$/i;

/**
 * An event with a sequence number counts as later than all without one. Two in the same millisecond that have none are
 * ordered by their ids, byte by byte: that says nothing about which happened first, but it says the same everywhere.
 *
 * @param {Cause} cause
 * @returns {Place}
 */
export function placeOf({ id, occurredAt, sequence = 0 }) {
  // As numbers: as text, "12:00:00.5Z" stands before "12:00:00Z", and one moment has many spellings.
  const at = WITH_ZONE.test(occurredAt) ? Date.parse(occurredAt) : Number.NaN;
  if (Number.isNaN(at)) throw new RangeError(`event ${id} has no time with a zone: ${occurredAt}`);
  if (!Number.isSafeInteger(sequence) || sequence < 0)
    throw new RangeError(`the sequence of event ${id} is no whole number: ${sequence}`);
  return { sequence, at, event: id };
}
