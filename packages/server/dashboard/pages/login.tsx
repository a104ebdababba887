/** The sign-in page, shown when the server requires an access token. */
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { SessionJson } from "../../src/api/api-json.ts";
import { AccessCommand } from "../parts/access-command.tsx";
import { Mark } from "../parts/icons.tsx";
import { openSession } from "../server.ts";

export function LoginPage({ onOpen }: { readonly onOpen: (session: SessionJson) => void }): JSX.Element {
  const [token, setToken] = useState("");
  const [problem, setProblem] = useState<string>();
  useEffect(() => {
    document.title = "Sign in · nevertwice";
  }, []);

  async function submit(event: Event): Promise<void> {
    event.preventDefault();
    try {
      onOpen(await openSession(token.trim()));
    } catch (error) {
      setProblem((error as Error).message);
    }
  }

  return (
    <main class="gate">
      <div class="card">
        <Mark />
        <h1>Sign in</h1>
        <form onSubmit={submit}>
          <label class="field">
            Access token
            <input
              class="input is-code"
              type="password"
              autocomplete="current-password"
              required
              aria-invalid={problem !== undefined}
              value={token}
              onInput={({ currentTarget }) => setToken(currentTarget.value)}
            />
          </label>
          {problem !== undefined && (
            <p class="notice is-bad" role="alert">
              {problem}
            </p>
          )}
          <button type="submit" class="button is-main">
            Sign in
          </button>
        </form>
        <p class="muted">No access token yet? This command creates one:</p>
        <AccessCommand />
      </div>
    </main>
  );
}
