/** The questions before a key is decided, freed or forgotten. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { type Decision, decide } from "../records.ts";
import type { KeyRecord } from "../shapes.ts";
import { Confirm, phraseOf } from "./confirm.tsx";

export type Verb = "resolve" | "release" | "forget";

export interface DecisionProps {
  readonly record: KeyRecord;
  readonly verb: Verb;
  /** What is chosen at first. */
  readonly decision?: Decision;
  readonly onDone: (told: string) => void;
  readonly onClose: () => void;
}

export function DecisionDialog(props: DecisionProps): JSX.Element {
  if (props.verb === "resolve") return <Resolve {...props} />;
  const { record, verb, onDone, onClose } = props;
  const { title, text, told } = verb === "forget" ? FORGET : record.state === "completed" ? REOPEN : FREE;
  return (
    <Confirm
      title={title}
      phrase={phraseOf(record.key ?? undefined, verb)}
      action={verb === "forget" ? "Forget" : "Release"}
      isDangerous
      onClose={onClose}
      onConfirm={async () => {
        await decide(record, { verb });
        onDone(told);
      }}
    >
      <p>{text}</p>
    </Confirm>
  );
}

const FORGET = {
  title: "Forget this key?",
  text: "Its key, scope and outcome are removed. If its work was done, a mark stays until its retention ends, so that it is not done again.",
  told: "The key was forgotten.",
};

const REOPEN = {
  title: "Release this key?",
  text: "Its outcome is removed, and the next request with this key does the work again. This is how something happens twice, if it should.",
  told: "The key was released.",
};

const FREE = {
  title: "Release this key?",
  text: "It counts as not done, and the next request with this key does the work.",
  told: "The key was released.",
};

const CHOICES: readonly { readonly decision: Decision; readonly name: string; readonly text: string }[] = [
  { decision: "done", name: "It was done", text: "Every retry is answered with the value below." },
  { decision: "failed", name: "It failed for good", text: "Every retry is answered with that failure." },
  { decision: "not-done", name: "It was not done", text: "The key is free, and a retry does the work." },
];

function Resolve({ record, decision: first = "done", onDone, onClose }: DecisionProps): JSX.Element {
  const [decision, setDecision] = useState(first);
  const [value, setValue] = useState("");
  return (
    <Confirm
      title="What became of it?"
      phrase={phraseOf(record.key ?? undefined, "resolve")}
      action="Resolve"
      onClose={onClose}
      onConfirm={async () => {
        await decide(record, { verb: "resolve", decision, ...answerIn(decision, value) });
        onDone(
          `The key was resolved: ${CHOICES.find((choice) => choice.decision === decision)?.name.toLowerCase()}.`,
        );
      }}
    >
      <p>Its attempt ended without a word. Look at the other side before you decide.</p>
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
            ? "What it answered, as JSON; nothing for null"
            : "What it failed with, as text"}
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

function answerIn(decision: Decision, text: string): { readonly value?: unknown; readonly error?: unknown } {
  if (text.trim() === "" || decision === "not-done") return {};
  if (decision === "failed") return { error: text };
  try {
    return { value: JSON.parse(text) as unknown };
  } catch (cause) {
    throw new Error('The answer is not JSON. Text needs double quotes: "paid".', { cause });
  }
}
