/** Tests the etcd store on clusters with users and with TLS. */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, type TestContext, test } from "vitest";
import { type EtcdStoreOptions, etcdStore } from "../../src/stores/etcd.ts";
import { scratchFolder } from "../scratch-folder.ts";
import { startEtcd } from "../services/etcd.ts";
import { find } from "../services/packages.ts";
import { startFor } from "../services/services.ts";
import { claimOf } from "./claim-request.ts";

/** A member with authentication: `shop` may use the keys of `shop/`, and `root` everything. */
async function withUsers(context: TestContext, settings = {}) {
  const cluster = await startFor(context, () => startEtcd({ members: 1, settings }));
  const [endpoint = ""] = cluster.members.map(({ url }) => url);
  const ask = async (path: string, body: object) => {
    const response = await fetch(`${endpoint}/v3/auth/${path}`, {
      method: "POST",
      body: JSON.stringify(body),
    });
    expect(response.status, path).toBe(200);
  };
  const base64 = (text: string) => Buffer.from(text).toString("base64");
  await ask("user/add", { name: "root", password: "r" });
  await ask("user/grant", { user: "root", role: "root" });
  await ask("role/add", { name: "shop" });
  const perm = { permType: "READWRITE", key: base64("shop/"), range_end: base64("shop0") };
  await ask("role/grant", { name: "shop", perm });
  await ask("user/add", { name: "shop", password: "hunter2" });
  await ask("user/grant", { user: "shop", role: "shop" });
  await ask("enable", {});
  const open = (options: Partial<EtcdStoreOptions>) => {
    const store = etcdStore({ endpoints: endpoint, prefix: "shop", timeoutMs: 20_000, ...options });
    context.onTestFinished(() => store.close());
    return store;
  };
  return { cluster, open };
}

test("a store with a user takes every step, and gets a new token when its own is no longer valid", async (context) => {
  const { cluster, open } = await withUsers(context);
  const store = open({ user: "shop", password: "hunter2" });
  const claim = claimOf("a");
  expect(await store.claim(claim)).toMatchObject({ status: "new" });
  // A member forgets its tokens when it restarts.
  await cluster.members[0]?.restart();
  expect(await store.complete({ ...claim, outcome: "done" })).toBe(true);
  const [, wake] = await Promise.all([store.watch?.({ id: claim.id, wake: () => {} }), store.read(claim.id)]);
  expect(wake).toMatchObject({ state: "completed", outcome: "done" });
  expect(await store.purge(10)).toEqual({ removed: 0, more: false });
  expect(await store.list?.({ namespace: "n", limit: 10 })).toMatchObject({ records: [{ id: claim.id }] });
  // What the user may not ask, the doctor does not pretend to know.
  const settings = await store.settings?.();
  expect(settings?.title).toMatch(/etcd/);
});

test.each([
  ["no user", {}],
  ["an unknown user", { user: "nobody", password: "hunter2" }],
  ["a wrong password", { user: "shop", password: "wrong" }],
  ["a prefix that the user may not use", { user: "shop", password: "hunter2", prefix: "bank" }],
])("%s is store-unsafe, and the message does not contain the password", async (_, options) => {
  const context = { onTestFinished: (end: () => Promise<void>) => ends.push(end) } as unknown as TestContext;
  const ends: (() => Promise<void>)[] = [];
  try {
    const { open } = await withUsers(context);
    const error = await open(options)
      .claim(claimOf("a"))
      .catch((thrown) => thrown);
    expect(error).toMatchObject({ code: "store-unsafe" });
    expect(error.message).not.toMatch(/hunter2|wrong/);
  } finally {
    for (const end of ends.reverse()) await end();
  }
});

test("etcds:// reaches members with TLS, whose authority the platform trusts", async (context) => {
  const folder = await scratchFolder(context);
  const [key, cert] = [join(folder, "key.pem"), join(folder, "cert.pem")];
  await promisify(execFile)(find("openssl"), [
    ...["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"],
    ...["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key, "-out", cert],
  ]);
  const cluster = await startFor(context, () =>
    startEtcd({ members: 1, scheme: "https", settings: { "cert-file": cert, "key-file": key } }),
  );
  const port = cluster.members[0]?.port;
  const program = `import { openStore } from ${JSON.stringify(new URL("../../dist/stores/open.js", import.meta.url).href)};
    const store = await openStore("etcds://127.0.0.1:${port}/shop");
    const claim = ${JSON.stringify(claimOf("a"))};
    console.log((await store.claim(claim).catch((error) => ({ status: error.code }))).status);
    await store.close();`;
  const run = async (env: object) => {
    const args = ["--input-type=module", "--eval", program];
    return (
      await promisify(execFile)(process.execPath, args, { env: { ...process.env, ...env } })
    ).stdout.trim();
  };
  expect(await run({ NODE_EXTRA_CA_CERTS: cert })).toBe("new");
  expect(await run({})).toBe("unavailable");
});
