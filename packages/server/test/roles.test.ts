/** Tests that a role may do exactly what docs/server-access.md says: tested for every address, every role, and no token. */
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { ROLES, type Role } from "../src/access.ts";
import type { NevertwiceServer } from "../src/server.ts";
import { type Scene, sceneOf } from "./calling.ts";

const DOCS = readFileSync(new URL("../../../docs/server-access.md", import.meta.url), "utf8");
const PARAMETERS: Readonly<Record<string, string>> = { id: "0".repeat(36), name: "nothing", code: "pending" };
/** Streams, which never end by themselves. */
const STREAMS = ["GET /v1/live/stream"];

interface Row {
  readonly operation: string;
  readonly address: string;
  readonly roles: readonly Role[];
}

/** The rows of the table whose columns are the roles. */
function rowsIn(markdown: string): readonly Row[] {
  const lines = markdown.split("\n");
  const start = lines.findIndex((line) => line.startsWith("| operation | request | service |"));
  const end = lines.findIndex((line, index) => index > start && !line.startsWith("|"));
  return lines.slice(start + 2, end).map((line) => {
    const [operation = "", address = "", ...cells] = line
      .split("|")
      .slice(1, -1)
      .map((cell) => cell.trim());
    const roles = ROLES.filter((_, index) => cells[index] === "yes");
    return { operation: operation.replaceAll("`", ""), address: address.replaceAll("`", ""), roles };
  });
}

const ROWS = rowsIn(DOCS);
/** The addresses that need no token, as the docs list them. */
const OPEN = (/^Open to all callers: (.+?)\.\n\n/ms.exec(DOCS)?.[1] ?? "")
  .split(",")
  .map((one) => one.replaceAll("`", "").trim());

function templated(address: string): string {
  return address.replace(/:(\w+)/g, "{$1}");
}

function concrete(address: string): string {
  return address.replace(/\{(\w+)\}/g, (_, name: string) => PARAMETERS[name] ?? "x");
}

function addressesOf({ addresses }: NevertwiceServer): readonly string[] {
  return addresses.map(templated).filter((address) => !address.startsWith("HEAD "));
}

/** Uses a new client address each time, so that the many wrong tokens of this test do not count as guessing. */
function fromElsewhere({ call }: Scene): (address: string, token?: string) => ReturnType<Scene["call"]> {
  let count = 0;
  return (address, token) => {
    count++;
    return call(concrete(address), { token, from: `10.0.${count >> 8}.${count & 255}` });
  };
}

describe("roles", () => {
  test("the docs list every address of the server once, and no others", async () => {
    const { server } = await sceneOf();
    const documented = [...ROWS.map(({ address }) => address), ...OPEN];
    expect([...documented].sort()).toEqual([...addressesOf(server)].sort());
    const operations = ROWS.filter(({ address }) => address.includes(" /v1/"));
    expect(operations.map(({ operation }) => operation).sort()).toEqual(
      server.routes.map(({ id }) => id).sort(),
    );
  });

  test("every role is allowed where its column says yes, and nowhere else", async () => {
    const scene = await sceneOf();
    const ask = fromElsewhere(scene);
    const tokens = new Map<Role, string>();
    for (const role of ROLES) tokens.set(role, await scene.token({ name: role, role }));
    for (const { address, roles } of ROWS)
      for (const [role, token] of tokens) {
        const isLetIn = roles.includes(role);
        if (isLetIn && STREAMS.includes(address)) continue;
        const { status, body } = await ask(address, token);
        if (isLetIn) expect([401, 403], `${role}: ${address}`).not.toContain(status);
        else expect([status, body?.code], `${role}: ${address}`).toEqual([403, "not-authorized"]);
      }
  });

  test("a caller without a token, or with a revoked or invented one, is refused", async () => {
    const scene = await sceneOf();
    const ask = fromElsewhere(scene);
    const { access } = scene.server.context;
    await scene.token({});
    const { id, token: revoked } = await access.create({ name: "gone", role: "operator" });
    await access.revoke(id);
    for (const { address } of ROWS)
      for (const token of [undefined, revoked, "nt_0000000000000000_no"]) {
        const { status, body, headers } = await ask(address, token);
        expect([status, body?.code, headers["www-authenticate"]], address).toEqual([
          401,
          "not-authenticated",
          'Bearer realm="nevertwice"',
        ]);
      }
  });

  test("open addresses need no token", async () => {
    const scene = await sceneOf();
    const ask = fromElsewhere(scene);
    await scene.token({});
    expect(OPEN.length).toBeGreaterThan(8);
    for (const address of OPEN) {
      const { status } = await ask(address);
      expect([401, 403], address).not.toContain(status);
    }
  });

  test("the token of the configuration, and callers of a server without tokens, may do everything", async () => {
    const accessToken = "0123456789abcdef0123456789abcdef";
    const [configured, open] = [await sceneOf({ accessToken }), await sceneOf()];
    for (const { address } of ROWS) {
      if (STREAMS.includes(address)) continue;
      const { status } = await fromElsewhere(configured)(address, accessToken);
      expect([401, 403], address).not.toContain(status);
      expect([401, 403], address).not.toContain((await fromElsewhere(open)(address)).status);
    }
  });

  test("an auditor changes nothing", () => {
    const changing = ROWS.filter(({ address }) => !address.startsWith("GET "));
    expect(changing.filter(({ roles }) => roles.includes("auditor"))).toEqual([]);
  });
});
