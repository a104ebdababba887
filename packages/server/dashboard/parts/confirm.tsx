/** A dialog before an action. Before one that cannot be undone, the user has to type a phrase. */
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";

export interface ConfirmProps {
  readonly title: string;
  /** The text that the user has to type; undefined for an action that can be undone. */
  readonly phrase?: string | undefined;
  readonly action: string;
  readonly isDangerous?: boolean;
  readonly children: ComponentChildren;
  /** If it rejects, the dialog stays open and shows the error. */
  readonly onConfirm: () => Promise<void>;
  readonly onClose: () => void;
}

export function Confirm(props: ConfirmProps): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  const [typed, setTyped] = useState("");
  const [problem, setProblem] = useState<string>();
  const [isBusy, setBusy] = useState(false);
  const id = useId();
  const isConfirmed = props.phrase === undefined || typed === props.phrase;
  useEffect(() => dialog.current?.showModal(), []);

  async function submit(event: Event): Promise<void> {
    event.preventDefault();
    if (!isConfirmed || isBusy) return;
    setBusy(true);
    try {
      await props.onConfirm();
      dialog.current?.close();
    } catch (error) {
      setProblem((error as Error).message);
      setBusy(false);
    }
  }

  return (
    <dialog ref={dialog} class="dialog" aria-labelledby={`${id}-title`} onClose={props.onClose}>
      <form onSubmit={submit}>
        <h2 id={`${id}-title`}>{props.title}</h2>
        {props.children}
        {props.phrase !== undefined && (
          <label class="field">
            <span>
              Type <code>{props.phrase}</code> to continue
            </span>
            <input
              class="input is-code"
              value={typed}
              autocomplete="off"
              autocapitalize="off"
              spellcheck={false}
              onInput={({ currentTarget }) => setTyped(currentTarget.value)}
            />
          </label>
        )}
        {problem !== undefined && (
          <p class="notice is-bad" role="alert">
            {problem}
          </p>
        )}
        <div class="row is-end">
          <button type="button" class="button" onClick={() => dialog.current?.close()}>
            Cancel
          </button>
          <button
            type="submit"
            class={props.isDangerous === true ? "button is-danger" : "button is-main"}
            disabled={!isConfirmed || isBusy}
          >
            {props.action}
          </button>
        </div>
      </form>
    </dialog>
  );
}

/** The first characters of the key if they are easy to type, else the given word. */
export function confirmationPhrase(key: string | undefined, word: string): string {
  const start = key?.slice(0, 6) ?? "";
  return /^[\w.:/-]{4,6}$/.test(start) ? start : word;
}
