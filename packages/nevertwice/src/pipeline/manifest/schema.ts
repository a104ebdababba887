/** Turns the code of a schema, which is a Standard Schema or a function, into the check that the network runs. */
import type { Schema } from "../model.ts";

/** The part of the Standard Schema interface (version 1) that is used here. */
interface StandardSchema {
  readonly "~standard": {
    validate(value: unknown): StandardResult | Promise<StandardResult>;
  };
}

type StandardResult =
  | { readonly value: unknown; readonly issues?: undefined }
  | { readonly issues: readonly StandardIssue[] };

interface StandardIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

/** Undefined if the code is neither. */
export function toSchema(name: string, code: unknown): Schema | undefined {
  if (isStandard(code)) return { name, check: (payload) => standardChecked(name, code, payload) };
  if (typeof code === "function")
    return {
      name,
      check: (payload) => functionChecked(name, code as (payload: unknown) => unknown, payload),
    };
  return undefined;
}

function isStandard(code: unknown): code is StandardSchema {
  const isObject = (typeof code === "object" && code !== null) || typeof code === "function";
  return isObject && typeof (code as Partial<StandardSchema>)["~standard"]?.validate === "function";
}

function standardChecked(name: string, schema: StandardSchema, payload: unknown): unknown {
  return afterwards(schema["~standard"].validate(payload), (result) => checkedValue(name, result));
}

function checkedValue(name: string, result: StandardResult): unknown {
  if (result.issues === undefined) return result.value;
  const reasons = result.issues.map(({ message, path = [] }) => {
    const place = path.map((part) => String(typeof part === "object" ? part.key : part)).join(".");
    return place === "" ? message : `${place}: ${message}`;
  });
  throw new TypeError(`the payload is not a valid ${name}: ${reasons.join("; ")}`);
}

/** `true` and `undefined` accept the payload unchanged, `false` refuses it, and any other value replaces it. */
function functionChecked(name: string, check: (payload: unknown) => unknown, payload: unknown): unknown {
  return afterwards(check(payload), (answer) => {
    if (answer === false) throw new TypeError(`the payload is not a valid ${name}`);
    return answer === true || answer === undefined ? payload : answer;
  });
}

/** Runs `next` synchronously if the value is not a promise: most schemas are synchronous. */
function afterwards<T>(value: T | PromiseLike<T>, next: (value: T) => unknown): unknown {
  const isLater = typeof value === "object" && value !== null && "then" in value;
  return isLater ? Promise.resolve(value).then(next) : next(value as T);
}
