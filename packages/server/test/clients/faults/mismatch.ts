/** The caller sends the key of an earlier, completed request with another body. */
import type { Fault } from "./fault.ts";

export const mismatch: Fault = {
  name: "mismatch",
  title: "other body",
  says: "the key was used for a request with another body, which is done",
  ends: () => "no second effect",
  async run({ call, work }) {
    const first = await call(`${work}0`);
    if (!first.isSuccess) throw new Error(`the first request was refused with ${first.status}`);
    return call();
  },
};
