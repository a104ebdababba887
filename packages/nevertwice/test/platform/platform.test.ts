/** Tests both files of src/platform: each platform must give the same ids, fingerprints and derived keys. Needs the build. */
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import * as node from "../../src/platform/node.ts";
import * as web from "../../src/platform/web.ts";

const bytes = (...values: number[]) => new Uint8Array(values);

describe.each([
  { name: "node.ts", platform: node },
  { name: "web.ts", platform: web },
])("$name", ({ platform }) => {
  test.each([
    ["", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"],
    ["abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"],
    [
      "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
      "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
    ],
    ["zażółć 🦊", "4ea2d38d23b811a7e41a125b134a2f864890fb53ad798314c091438cb40950e8"],
    [bytes(0xff, 0x00, 0x80), "ef192b7af54e943f206ab27075ec1805384c972c9959fc5820f1fa7d5268fcef"],
  ])("digests %j as hex", (data, expected) => {
    expect(platform.sha256(data, "hex")).toBe(expected);
  });

  test("digests as base64url, without padding", () => {
    // In base64 it has "+" and "/" too.
    expect(platform.sha256("abc", "base64url")).toBe("ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0");
  });

  test("makes random text of the given size that does not repeat", () => {
    const next = platform.createRandomText(16);
    const texts = Array.from({ length: 1_000 }, next);
    expect(new Set(texts).size).toBe(1_000);
    for (const text of texts) expect(text).toMatch(/^[\w-]{22}$/);
  });
});

test("a guard gives the same keys with either, and the condition of the importer chooses", async () => {
  const program = `
    import { createGuard } from "nevertwice";
    import { memoryStore } from "nevertwice/stores/memory";
    const inner = memoryStore();
    let claimed;
    const claim = (request) => inner.claim((claimed = request));
    const guard = createGuard({ store: { ...inner, claim } });
    const request = { operation: "charge", scope: "alice", key: "order-17", fingerprint: { amount: 4200 } };
    const derived = await guard.run(request, (attempt) => attempt.deriveKey("psp"));
    const usesCrypto = process.moduleLoadList.includes("NativeModule crypto");
    console.log(JSON.stringify({ derived, id: claimed.id, fingerprint: claimed.fingerprint, usesCrypto }));`;
  const run = async (...args: string[]) => {
    const { stdout } = await promisify(execFile)(
      process.execPath,
      [...args, "--input-type=module", "--eval", program],
      { cwd: fileURLToPath(new URL("../..", import.meta.url)) },
    );
    return JSON.parse(stdout);
  };
  const { usesCrypto, ...onNode } = await run();
  const { usesCrypto: webUsesCrypto, ...onWeb } = await run("--conditions=workerd");
  expect(onWeb).toEqual(onNode);
  expect(onWeb.id).toMatch(/^[0-9a-f]{64}$/);
  expect({ usesCrypto, webUsesCrypto }).toEqual({ usesCrypto: true, webUsesCrypto: false });
});
