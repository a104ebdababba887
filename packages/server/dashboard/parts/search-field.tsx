/** A field whose text becomes part of the address shortly after the user has stopped typing. */
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ICONS } from "./icons.tsx";

const TYPING_MS = 250;

export function SearchField(props: {
  /** For screen readers, and shown while the field is empty. */
  readonly name: string;
  readonly value: string;
  readonly onChange: (text: string) => void;
}): JSX.Element {
  const { name, value } = props;
  const [typed, setTyped] = useState(value);
  /** The text that the address has, or gets from this field. */
  const sent = useRef(value);
  const latest = useRef(props.onChange);
  latest.current = props.onChange;
  useEffect(() => {
    if (value === sent.current) return;
    // The address was changed by something else, such as a link.
    sent.current = value;
    setTyped(value);
  }, [value]);
  useEffect(() => {
    if (typed === sent.current) return undefined;
    const timer = setTimeout(() => {
      sent.current = typed;
      latest.current(typed);
    }, TYPING_MS);
    return () => clearTimeout(timer);
  }, [typed]);
  return (
    <label class="search">
      <span class="unseen">{name}</span>
      {ICONS.search}
      <input
        class="input"
        type="search"
        placeholder={name}
        value={typed}
        onInput={({ currentTarget }) => setTyped(currentTarget.value)}
      />
    </label>
  );
}
