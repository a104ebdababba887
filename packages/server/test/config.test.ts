import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { configOf, printedConfig, readConfig } from "../src/config.ts";
import { redactUrl } from "../src/redacted-url.ts";
import { SETTINGS, variableName } from "../src/server-settings.ts";

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "nevertwice-config-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

let files = 0;
function fileWith(text: string): string {
  const file = join(folder, `${++files}.toml`);
  writeFileSync(file, text);
  return file;
}

const TOKEN = "s3cr3t-s3cr3t-s3cr3t-s3cr3t-s3cr3t";

describe("where a setting comes from", () => {
  test("a flag overrides the environment, which overrides the file, which overrides the default", () => {
    const file = fileWith('lease = "1m"\nretention = "1h"\nnamespace = "from-file"\n');
    const env = { NEVERTWICE_SERVER_LEASE: "2m", NEVERTWICE_SERVER_RETENTION: "2h" };
    const config = readConfig({ flags: { lease: "3m" }, env, file });
    expect(config).toMatchObject({
      lease: 180_000,
      retention: 7_200_000,
      namespace: "from-file",
      drain: 30_000,
    });
  });

  test("an empty variable counts as not set", () => {
    expect(readConfig({ env: { NEVERTWICE_SERVER_NAMESPACE: " " } }).namespace).toBe("default");
  });

  test("a repeatable setting is a list, from every source", () => {
    const file = fileWith('allow_host = ["a.example", "b.example"]\n');
    expect(readConfig({ file }).allowHost).toEqual(["a.example", "b.example"]);
    expect(readConfig({ env: { NEVERTWICE_SERVER_ALLOW_HOST: "a.example, b.example" } }).allowHost).toEqual([
      "a.example",
      "b.example",
    ]);
    expect(readConfig({ flags: { allowHost: ["a.example", "b.example"] } }).allowHost).toEqual([
      "a.example",
      "b.example",
    ]);
  });

  test("an address has a host and a port, with loopback as the default host", () => {
    expect(readConfig({ flags: { listen: "[::1]:80" } }).listen).toEqual({ host: "::1", port: 80 });
    expect(readConfig({ flags: { listen: ":4000" } }).listen).toEqual({ host: "127.0.0.1", port: 4_000 });
  });

  test("by default the server listens on loopback and uses a SQLite file", () => {
    expect(readConfig()).toMatchObject({
      store: "sqlite:./nevertwice.db",
      listen: { host: "127.0.0.1", port: 4_747 },
    });
  });
});

describe("an error names the place of the setting", () => {
  test.each([
    [{ flags: { listen: "nowhere" } }, '--listen is "nowhere"; it must be an address'],
    [{ flags: { listen: "127.0.0.1:99999" } }, "--listen is "],
    [{ env: { NEVERTWICE_SERVER_LEASE: "30" } }, 'NEVERTWICE_SERVER_LEASE is "30"'],
    [{ flags: { lease: "5ms" } }, '--lease is "5ms"; it must be 10ms or more'],
    [{ flags: { holdsWindow: "5s" } }, '--holds-window is "5000ms"; it must be more than 5s'],
    [{ flags: { namespace: "" } }, '--namespace is ""'],
    [{ env: { NEVERTWICE_SERVER_NAMESPACE: "nevertwice:server" } }, "NEVERTWICE_SERVER_NAMESPACE is "],
    [{ flags: { allowHost: ["https://a.example"] } }, '--allow-host is ["https://a.example"]'],
    [{ flags: { allowHost: "a.example:443" } }, "--allow-host is "],
    [{ flags: { logLevel: "loud" } }, '--log-level is "loud"; it must be one of silent'],
    [{ flags: { store: "" } }, '--store is ""'],
    [{ flags: { tlsCert: "a.pem" } }, "tls-cert is "],
  ])("%j", (sources, message) => {
    expect(() => readConfig(sources)).toThrow(message);
  });

  test("in a file: its line, and the file", () => {
    const wrong = fileWith("lease = 30\n");
    expect(() => readConfig({ file: wrong })).toThrow(`lease in ${wrong} is 30; it must be text in quotes`);
    const unknown = fileWith('leese = "30s"\n');
    expect(() => readConfig({ file: unknown })).toThrow(
      `there is no setting leese in ${unknown}. Did you mean "lease"? The settings are store,`,
    );
    const route = fileWith('[[routes]]\npath = "/a"\nscpoe = "anyone"\n');
    expect(() => readConfig({ file: route })).toThrow(
      `there is no setting scpoe of route 1 in ${route}. Did you mean "scope"?`,
    );
    const broken = fileWith("lease = \n");
    expect(() => readConfig({ file: broken })).toThrow(/--config is .* a TOML file that can be read/);
    expect(() => readConfig({ file: join(folder, "none.toml") })).toThrow("ENOENT");
  });

  test("in code: the setting, and one that does not exist", () => {
    expect(() => configOf({ holdsWindow: 1_000 })).toThrow('holdsWindow is "1000ms"');
    expect(() => configOf({ colour: "red" } as object)).toThrow(
      "there is no setting colour. The settings are",
    );
    expect(() => configOf({ retentionMs: 1 } as object)).toThrow('Did you mean "retention"?');
  });

  test("in the environment: a misspelt variable", () => {
    expect(() => readConfig({ env: { NEVERTWICE_SERVER_SOTRE: "memory:" } })).toThrow(
      "there is no variable NEVERTWICE_SERVER_SOTRE. Did you mean NEVERTWICE_SERVER_STORE?",
    );
    // Kubernetes sets these in every pod, if there is a service called nevertwice-server.
    const env = { NEVERTWICE_SERVER_SERVICE_HOST: "10.0.0.1", NEVERTWICE_SERVER_PORT: "tcp://10.0.0.1:80" };
    expect(readConfig({ env }).store).toBe("sqlite:./nevertwice.db");
  });
});

describe("secrets", () => {
  test("the value of a misspelt setting is not shown", () => {
    const file = fileWith(`acess_token = "${TOKEN}"\n`);
    expect(() => readConfig({ file })).toThrow('Did you mean "access_token"?');
    expect(() => readConfig({ file })).not.toThrow(TOKEN);
  });

  test("the printed configuration hides tokens, and passwords in URLs", () => {
    const config = readConfig({
      flags: { accessToken: TOKEN, store: "postgres://nt:pa%40ss@db:5432/nt?sslmode=require" },
      env: {
        NEVERTWICE_SERVER_HOLDS_STORE: "mysql://root:hunter2@db/nt",
        NEVERTWICE_SERVER_OUTBOX_STORE: "postgres://app:hunter2@db/shop",
      },
    });
    const printed = printedConfig(config);
    expect(JSON.stringify(printed)).not.toMatch(/s3cr3t|pa%40ss|hunter2/);
    expect(printed).toMatchObject({
      access_token: "(hidden)",
      store: "postgres://nt:(hidden)@db:5432/nt?sslmode=require",
      holds_store: "mysql://root:(hidden)@db/nt",
      outbox_store: "postgres://app:(hidden)@db/shop",
      listen: "127.0.0.1:4747",
      lease: "30000ms",
    });
  });

  test("every setting is printed", () => {
    expect(Object.keys(printedConfig(readConfig()))).toHaveLength(Object.keys(SETTINGS).length + 1);
  });

  test("the printed configuration can be read again", () => {
    const { routes: _, ...printed } = printedConfig(readConfig());
    const lines = Object.entries(printed)
      .filter(([, value]) => value !== null)
      .map(([name, value]) => `${name} = ${JSON.stringify(value)}`);
    expect(readConfig({ file: fileWith(lines.join("\n")) })).toEqual(readConfig());
  });

  test.each([
    [{ flags: { accessToken: "short-secret" } }, "short-secret"],
    [{ flags: { accessToken: `${TOKEN} with spaces` } }, TOKEN],
    [{ env: { [variableName("accessToken")]: "short-secret" } }, "short-secret"],
    [{ flags: { upstream: "ftp://u:hunter2@host" } }, "hunter2"],
    [{ flags: { upstream: "http://u:hunter2@host/?x=1" } }, "hunter2"],
  ])("an error about a secret does not tell it: %j", (sources, secret) => {
    expect(() => readConfig(sources)).toThrow(/must be/);
    expect(() => readConfig(sources)).not.toThrow(secret);
  });

  test("an access token of 31 characters is refused, and one of 32 is accepted", () => {
    const token = "0123456789abcdef0123456789abcdef";
    expect(() => configOf({ accessToken: token.slice(1) })).toThrow("at least 32 characters");
    expect(configOf({ accessToken: token }).accessToken).toBe(token);
  });

  test("an error about a file or about code shows no secret either", () => {
    const file = fileWith("access_token = 1234567890123456\n");
    expect(() => readConfig({ file })).toThrow('is "(hidden)"; it must be text in quotes');
    expect(() => configOf({ accessToken: "short-secret" })).toThrow('accessToken is "(hidden)"');
  });

  test.each([
    ["redis://:pw@host:6379/0", "redis://(hidden)@host:6379/0"],
    ["redis+cluster://u:pw@a:1,b:2", "redis+cluster://u:(hidden)@a:1,b:2"],
    ["etcd://u:pw@a:1,b:2/shop", "etcd://u:(hidden)@a:1,b:2/shop"],
    ["postgres://u:p@ss@host/db", "postgres://u:(hidden)@host/db"],
    ["postgres://u:p/w@host/db", "postgres://u:(hidden)@host/db"],
    ["postgres://host/db?user=u&password=pw", "postgres://host/db?user=u&password=(hidden)"],
    ["user:pw@host", "user:(hidden)@host"],
    ["sqlite:./mine@home.db", "sqlite:./mine@home.db"],
    ["memory:", "memory:"],
  ])("%s is shown as %s", (url, shown) => {
    expect(redactUrl(url)).toBe(shown);
  });
});
