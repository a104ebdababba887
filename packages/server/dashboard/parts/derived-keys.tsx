/** Derives the key of an effect on request, so that an operator can look the effect up in the other system. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { KeyJson } from "../../src/api/api-json.ts";
import { deriveKey } from "../key-actions.ts";
import { Copy } from "./copy.tsx";

interface Derived {
  readonly name: string;
  readonly key: string;
}

export function DerivedKeys({ record }: { readonly record: KeyJson }): JSX.Element {
  const [name, setName] = useState("");
  const [found, setFound] = useState<readonly Derived[]>([]);
  const [problem, setProblem] = useState<string>();
  async function derive(): Promise<void> {
    try {
      const key = await deriveKey(record, name);
      setFound((before) => [{ name, key }, ...before.filter((other) => other.name !== name)]);
      setProblem(undefined);
    } catch (error) {
      setProblem((error as Error).message);
    }
  }
  return (
    <section class="card" aria-labelledby="derived">
      <div class="card-head">
        <h2 id="derived">Derived keys</h2>
      </div>
      <p class="muted">
        The work gives other systems a key of its own for each effect: <code>deriveKey(name)</code>. Type the
        name to look the effect up there.
      </p>
      <form
        class="row derive"
        onSubmit={(event) => {
          event.preventDefault();
          void derive();
        }}
      >
        <label class="search">
          <span class="unseen">Name of the effect</span>
          <input
            class="input is-code"
            placeholder="psp"
            required
            maxLength={1_024}
            value={name}
            spellcheck={false}
            autocomplete="off"
            onInput={({ currentTarget }) => setName(currentTarget.value)}
          />
        </label>
        <button type="submit" class="button">
          Derive
        </button>
      </form>
      <div role="status">
        {problem !== undefined && <p class="notice is-bad">{problem}</p>}
        {found.length > 0 && (
          <dl class="headers">
            {found.map((derived) => (
              <div key={derived.name}>
                <dt>{derived.name}</dt>
                <dd>
                  {derived.key}
                  <Copy text={derived.key} what={`the key of ${derived.name}`} />
                </dd>
              </div>
            ))}
          </dl>
        )}
      </div>
    </section>
  );
}
