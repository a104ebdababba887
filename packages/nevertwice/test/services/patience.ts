/**
 * Gives `vi.waitFor` a longer timeout. Its default of one second is too short for a busy machine, and it has no setting
 * for it. A condition that never holds still fails.
 */
import { vi } from "vitest";

const PATIENCE_MS = 30_000;
const { waitFor } = vi;

vi.waitFor = (callback, options) =>
  waitFor(callback, {
    interval: 20,
    ...(typeof options === "object" ? options : {}),
    timeout: PATIENCE_MS,
  });
