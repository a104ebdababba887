/** A button that copies a text. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { ICONS } from "./icons.tsx";

export function Copy({ text, what }: { readonly text: string; readonly what: string }): JSX.Element {
  const [isCopied, setCopied] = useState(false);
  return (
    <button
      type="button"
      class="button is-quiet"
      aria-label={isCopied ? "Copied" : `Copy ${what}`}
      title={`Copy ${what}`}
      onClick={() => void navigator.clipboard?.writeText(text).then(() => setCopied(true))}
    >
      {isCopied ? ICONS.yes : ICONS.copy}
    </button>
  );
}
