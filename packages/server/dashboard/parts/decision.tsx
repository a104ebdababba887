/** The dialogs in which an operator resolves, releases or forgets a key. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { KeyJson } from "../../src/api/api-json.ts";
import { decide, type OperatorDecision } from "../key-actions.ts";
import { Confirm, confirmationPhrase } from "./confirm.tsx";

export type Verb = "resolve" | "release" | "forget";

export interface DecisionProps {
  readonly record: KeyJson;
  readonly verb: Verb;
  /** The choice that is selected at first. */
  readonly decision?: OperatorDecision;
  readonly onDone: (notice: string) => void;
  readonly onClose: () => void;
}

export function DecisionDialog(props: DecisionProps): JSX.Element {
  if (props.verb === "resolve") return <Resolve {...props} />;
  const { record, verb, onDone, onClose } = props;
  const { title, text, notice } = verb === "forget" ? FORGET : record.state === "completed" ? REOPEN : FREE;
  return (
    <Confirm
      title={title}
      phrase={confirmationPhrase(record.key ?? undefined, verb)}
      action={verb === "forget" ? "Forget" : "Release"}
      isDangerous
      onClose={onClose}
      onConfirm={async () => {
        await decide(record, { verb });
        onDone(notice);
      }}
    >
      <p>{text}</p>
    </Confirm>
  );
}

const FORGET = {
  title: "Forget this key?",
  text: "The key, its scope and its outcome are removed. If the work was done, a mark stays until the retention ends, so that it is not done again.",
  notice: "The key was forgotten.",
};

const REOPEN = {
  title: "Release this key?",
  text: "The outcome is removed, and the next request with this key does the work again. Release a completed key only if the work should happen a second time.",
  notice: "The key was released.",
};

const FREE = {
  title: "Release this key?",
  text: "The work counts as not done, and the next request with this key does it.",
  notice: "The key was released.",
};

const CHOICES: readonly {
  readonly decision: OperatorDecision;
  readonly name: string;
  readonly text: string;
}[] = [
  { decision: "done", name: "It was done", text: "Every retry is answered with the value below." },
  { decision: "failed", name: "It failed for good", text: "Every retry is answered with the error below." },
  { decision: "not-done", name: "It was not done", text: "The key is free, and a retry does the work." },
];

function Resolve({ record, decision: first = "done", onDone, onClose }: DecisionProps): JSX.Element {
  const [decision, setDecision] = useState(first);
  const [value, setValue] = useState("");
  return (
    <Confirm
      title="Resolve this key"
      phrase={confirmationPhrase(record.key ?? undefined, "resolve")}
      action="Resolve"
      onClose={onClose}
      onConfirm={async () => {
        await decide(record, { verb: "resolve", decision, ...answerIn(decision, value) });
        onDone(
          `The key was resolved: ${CHOICES.find((choice) => choice.decision === decision)?.name.toLowerCase()}.`,
        );
      }}
    >
      <p>The attempt ended without an outcome. Check the system that does the work before you decide.</p>
      <fieldset class="options">
        <legend class="unseen">Outcome</legend>
        {CHOICES.map((choice) => (
          <label key={choice.decision}>
            <input
              type="radio"
              name="decision"
              value={choice.decision}
              checked={decision === choice.decision}
              onChange={() => setDecision(choice.decision)}
            />
            <span>
              {choice.name}
              <small>{choice.text}</small>
            </span>
          </label>
        ))}
      </fieldset>
      {decision !== "not-done" && (
        <label class="field">
          {decision === "done"
            ? "The result of the work, as JSON; empty means null"
            : "The error of the work, as text"}
          <textarea
            class="input is-code"
            value={value}
            spellcheck={false}
            onInput={({ currentTarget }) => setValue(currentTarget.value)}
          />
        </label>
      )}
    </Confirm>
  );
}

function answerIn(
  decision: OperatorDecision,
  text: string,
): { readonly value?: unknown; readonly error?: unknown } {
  if (text.trim() === "" || decision === "not-done") return {};
  if (decision === "failed") return { error: text };
  try {
    return { value: JSON.parse(text) as unknown };
  } catch (cause) {
    throw new Error('The result is not JSON. Text needs double quotes: "paid".', { cause });
  }
}
