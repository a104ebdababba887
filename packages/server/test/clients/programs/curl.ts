/** curl, which by default repeats nothing, and with `--retry` alone neither a broken connection nor a 409. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { type Client, Refused } from "../client.ts";

const COMMAND = `
# setting
curl --fail-with-body --retry 4 \${KEY:+--retry-all-errors} \\
  -H "Idempotency-Key: $KEY" --json "$ORDER" "$URL/orders"
# end of setting
`;

export const curl: Client = {
  name: "curl",
  packages: [],
  version: "7.88, needs 7.82",
  program: import.meta.url,
  needs:
    "`--retry-all-errors` for a request with a key: `--retry` alone repeats neither a broken connection nor a 409",
  route: "",
  async call({ url, headers, work }) {
    // curl sends no header whose value is empty.
    const env = {
      ...process.env,
      URL: url,
      ORDER: JSON.stringify({ work }),
      KEY: headers["Idempotency-Key"],
    };
    const command = COMMAND.replace("curl ", 'curl --silent --write-out "%{stderr}%{http_code}" ');
    try {
      const { stdout } = await promisify(execFile)("sh", ["-c", command], { env });
      return /"id":"([^"]+)"[^"]*$/.exec(stdout)?.[1];
    } catch (error) {
      const status = /\d{3}$/.exec((error as { readonly stderr: string }).stderr)?.[0];
      throw new Refused(Number(status), { cause: error });
    }
  },
};
