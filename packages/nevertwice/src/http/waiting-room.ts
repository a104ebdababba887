/**
 * Bounds the requests that wait for another attempt: each holds a connection and its body. Counts are for the whole process,
 * and each layer compares them with its own limits. A request that finds no seat is answered `pending` at once.
 */
import { canShareAcrossCalls } from "#platform";
import { systemTimer } from "../core/clock.ts";
import type { WaitingLimits } from "./options.ts";

/** A request that waits. */
interface WaitingRequest {
  readonly id: string;
  /** The bytes of its body, which are held in memory while it waits. */
  readonly bytes: number;
  /** The longest that it may wait. */
  readonly waitMs: number;
}

interface TakenSeat extends WaitingRequest {
  readonly takenAt: number;
}

/** In the order in which they were taken. */
const seats = new Set<TakenSeat>();
const byKey = new Map<string, number>();
let bytes = 0;

export function takeSeat(limits: WaitingLimits, waiting: WaitingRequest): (() => void) | undefined {
  if (!canShareAcrossCalls) leaveOverdue();
  const ofKey = byKey.get(waiting.id) ?? 0;
  if (ofKey >= limits.perKey || seats.size >= limits.total || bytes + waiting.bytes > limits.bytes)
    return undefined;
  const seat = { ...waiting, takenAt: systemTimer.now() };
  seats.add(seat);
  byKey.set(waiting.id, ofKey + 1);
  bytes += waiting.bytes;
  return () => leave(seat);
}

function leave(seat: TakenSeat): void {
  if (!seats.delete(seat)) return;
  bytes -= seat.bytes;
  const left = (byKey.get(seat.id) ?? 1) - 1;
  if (left === 0) byKey.delete(seat.id);
  else byKey.set(seat.id, left);
}

/** A request that the platform ends, because its client has gone, never leaves by itself. */
function leaveOverdue(): void {
  const now = systemTimer.now();
  for (const seat of seats) if (now - seat.takenAt >= seat.waitMs) leave(seat);
}
