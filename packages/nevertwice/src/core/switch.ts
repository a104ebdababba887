/** Reads a switch from the environment. */
import { NevertwiceError } from "./errors.ts";

const SWITCHES = new Map([
  ...["true", "1", "on", "yes"].map((text) => [text, true] as const),
  ...["false", "0", "off", "no"].map((text) => [text, false] as const),
]);

/** Throws `options-invalid`, with the name of the variable, for any other text. */
export function readSwitch(name: string, text: string): boolean {
  const position = SWITCHES.get(text.toLowerCase());
  if (position !== undefined) return position;
  throw new NevertwiceError(
    "options-invalid",
    `${name} is ${JSON.stringify(text)}; it must be one of ${[...SWITCHES.keys()].join(", ")}.`,
  );
}
