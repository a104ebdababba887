/** The command that creates an access token for the dashboard, ready to copy and run. */
import type { JSX } from "preact";

export function AccessCommand(): JSX.Element {
  return (
    <>
      <code class="command">nevertwice access create --name me --role operator</code>
      <p class="muted">
        Run it where the server runs, with the same settings: add the <code>--store</code>,{" "}
        <code>--namespace</code> or <code>--config</code> that the server was started with, or set the same
        variables. It prints the token.
      </p>
    </>
  );
}
