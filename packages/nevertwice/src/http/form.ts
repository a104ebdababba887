/** Keys for HTML forms: a hidden field that the browser fills, and the key of a form that was sent. */
import { NevertwiceError } from "../core/errors.ts";
import { keyScript } from "./form/key-script.ts";
import { HTTP_DEFAULTS } from "./options.ts";

export { keyScript } from "./form/key-script.ts";

/** Options of `keyAttributes`. */
export interface KeyFieldOptions {
  /** The name of the field. Give the same name to the option `keyField` of the layer. Default: `idempotency_key`. */
  readonly name?: string | undefined;
}

/** Options of `keyInput`. */
export interface KeyInputOptions extends KeyFieldOptions {
  /** The nonce of the page's Content-Security-Policy, for the script. */
  readonly nonce?: string | undefined;
}

const NAME = "idempotency_key";

/** The attributes of the hidden field, for JSX and templates. The page also needs `keyScript`. */
export function keyAttributes({ name = NAME }: KeyFieldOptions = {}): {
  /** The field is not shown. */
  readonly type: "hidden";
  /** The name that the key is sent under. */
  readonly name: string;
  /** Marks the field for the script that fills it. */
  readonly "data-idempotency-key": "";
} {
  return { type: "hidden", name, "data-idempotency-key": "" };
}

/**
 * The HTML of the hidden field and of the script that fills it. It contains no key, so it may be cached.
 * @example
 * ```ts
 * import { keyInput } from "nevertwice/http/form";
 *
 * export const page = `<form method="post" action="/orders">${keyInput()}<button>Buy</button></form>`;
 * ```
 */
export function keyInput({ name, nonce }: KeyInputOptions = {}): string {
  const attributes = Object.entries(keyAttributes({ name })).map(
    ([key, value]) => ` ${key}="${escapeText(value)}"`,
  );
  const guarded = nonce === undefined ? "" : ` nonce="${escapeText(nonce)}"`;
  return `<input${attributes.join("")}><script${guarded}>${keyScript}</script>`;
}

/**
 * The key of a form that was sent. Throws `key-missing` if the field is absent or empty, as without JavaScript, and
 * `key-invalid` if it is there twice, is a file or is too long.
 * @throws `key-invalid`, `key-missing`
 */
export function formKey(form: Pick<FormData, "getAll">, { name = NAME }: KeyFieldOptions = {}): string {
  const [key, ...others] = form.getAll(name);
  if (key === undefined || key === "")
    throw new NevertwiceError("key-missing", `the field ${name} of the form is missing or empty.`);
  if (typeof key !== "string" || others.length > 0 || key.length > HTTP_DEFAULTS.maxKeyLength)
    throw new NevertwiceError(
      "key-invalid",
      `the form must have one text field ${name} that is not too long.`,
    );
  return key;
}

const ENTITIES: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", '"': "&quot;" };

function escapeText(text: string): string {
  return text.replace(/[&<"]/g, (character) => ENTITIES[character] as string);
}
