/** This library, as its users use it. */
import { createGuard } from "nevertwice";
import { memoryStore } from "nevertwice/stores/memory";

export function create({ hasFingerprint, capacity }) {
  // The default limit would refuse the last keys of a long run; the limit itself costs nothing.
  const guard = createGuard({ store: memoryStore({ maxRecords: capacity }) });
  return hasFingerprint
    ? (key, body, work) => guard.run({ operation: "charge", key, fingerprint: body }, work)
    : (key, _body, work) => guard.run({ operation: "charge", key }, work);
}
