/** Running a script by its hash, and what goes wrong with it in the words of our errors. */
import type { Script } from "../redis-lua.ts";
import { failureOf, isNoScript } from "./failures.ts";
import type { Evaluation, RedisLink } from "./link.ts";

/** Where the server does not have the script yet, it is sent the whole of it. */
export async function evaluated(
  evaluate: RedisLink["evaluate"],
  script: Script,
  args: Evaluation,
): Promise<unknown> {
  try {
    return await evaluate("EVALSHA", args);
  } catch (error) {
    if (!isNoScript(error)) throw failureOf(error);
  }
  const [, keyCount, ...rest] = args;
  return settled(evaluate("EVAL", [script.text, keyCount, ...rest]));
}

export async function settled<T>(reply: Promise<T>): Promise<T> {
  try {
    return await reply;
  } catch (error) {
    throw failureOf(error);
  }
}
