/** One library under one scenario, in this process. */
import { createContext } from "./context.js";
import { Failure, firstLine, NotApplicable } from "./judgement.js";
import { slowness } from "./slowness.js";

const DEADLINE_MS = 60_000;

/** `{ verdict: "pass" | "fail" | "not applicable", evidence }` */
export async function judge({ library, scenario, ...run }) {
  const reason = library.without?.[scenario.number];
  if (reason !== undefined) return { verdict: "not applicable", evidence: reason };
  const context = createContext({ library, ...run });
  const deadlineMs = (scenario.deadlineMs ?? DEADLINE_MS) * slowness();
  let timer;
  // It also keeps the process alive while a library waits for nothing at all.
  const late = new Promise((_resolve, reject) => {
    timer = setTimeout(() => reject(new Failure(`no end within ${deadlineMs / 1_000} s`)), deadlineMs);
  });
  try {
    return { verdict: "pass", evidence: await Promise.race([scenario.run(context), late]) };
  } catch (error) {
    if (error instanceof NotApplicable) return { verdict: "not applicable", evidence: error.message };
    if (error instanceof Failure) return { verdict: "fail", evidence: error.message };
    return {
      verdict: "fail",
      evidence: `threw ${error.name}: ${firstLine(error.message)}`,
      stack: error.stack,
    };
  } finally {
    clearTimeout(timer);
    await context.close();
  }
}
