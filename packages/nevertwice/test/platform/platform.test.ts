/** Tests both files of src/platform: each platform must give the same ids, fingerprints and derived keys. Needs the build. */
import { execFile } from "node:child_process";
import { createHmac, generateKeyPairSync, sign, webcrypto } from "node:crypto";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { deflateSync, gzipSync } from "node:zlib";
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

describe("both platforms", () => {
  const texts = ["", "abc", "zażółć 🦊", "\ufeffwith a mark", "\ud800 alone", "x".repeat(20_000)];

  test.each(texts)("encode %j alike, and count its bytes alike", (text) => {
    expect([...web.toUtf8(text)]).toEqual([...node.toUtf8(text)]);
    expect(web.utf8Bytes(text)).toBe(node.utf8Bytes(text));
  });

  test.each([
    [bytes(0x61, 0xc5, 0xbc), "aż"],
    [bytes(0xef, 0xbb, 0xbf, 0x61), "\ufeffa"],
    [bytes(), ""],
    [bytes(0xff), undefined],
    [bytes(0xed, 0xa0, 0x80), undefined],
    [bytes(0xc5), undefined],
  ])("decode %j strictly, and keep a byte order mark", (encoded, text) => {
    expect(web.fromUtf8(encoded)).toBe(text);
    expect(node.fromUtf8(encoded)).toBe(text);
  });

  test("write base64 alike", () => {
    for (let length = 0; length < 20_000; length += 1_111) {
      const random = webcrypto.getRandomValues(new Uint8Array(length));
      expect(web.toBase64(random)).toBe(node.toBase64(random));
      expect([...web.fromBase64(web.toBase64(random))]).toEqual([...random]);
    }
  });

  test.each(["YQ==", "YQ", "YWI", "YWJj", "-_-_", "+/+/", "Y W\nI=", "Y", "YWJjZ", "Y*W!I", "", "===="])(
    "read %j as base64 alike",
    (text) => {
      expect([...web.fromBase64(text)]).toEqual([...node.fromBase64(text)]);
    },
  );

  test("make UUIDs", () => {
    for (const { newUuid } of [web, node])
      expect(newUuid()).toMatch(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
  });

  test.each(["gzip", "deflate"])("unpack %s, within a limit", async (coding) => {
    const text = "a".repeat(5_000);
    const packed = coding === "gzip" ? gzipSync(text) : deflateSync(text);
    for (const { unpack, fromUtf8 } of [web, node]) {
      expect(fromUtf8((await unpack(coding, packed, 5_000)) ?? bytes())).toBe(text);
      expect(await unpack(coding, packed, 4_999)).toBeUndefined();
      expect(await unpack(coding, packed.subarray(0, 10), 5_000)).toBeUndefined();
      expect(await unpack("unknown", packed, 5_000)).toBeUndefined();
    }
  });

  test.each(["hmac-sha256", "hmac-sha1"] as const)("check %s", async (digest) => {
    const signed = node.toUtf8("zażółć");
    const key = bytes(1, 2, 3);
    const signature = createHmac(digest.slice("hmac-".length), key).update(signed).digest();
    for (const { createSignatureCheck } of [web, node]) {
      const check = createSignatureCheck(digest, key);
      expect(await check(signed, signature)).toBe(true);
      expect(await check(signed, signature.subarray(1))).toBe(false);
      expect(await check(bytes(1), signature)).toBe(false);
      expect(await createSignatureCheck(digest, bytes(1, 2))(signed, signature)).toBe(false);
    }
  });

  test("check Ed25519", async () => {
    const { publicKey, privateKey } = generateKeyPairSync("ed25519");
    const key = new Uint8Array(publicKey.export({ format: "der", type: "spki" }).subarray(-32));
    const signed = node.toUtf8("zażółć");
    const signature = sign(null, signed, privateKey);
    for (const { createSignatureCheck } of [web, node]) {
      const check = createSignatureCheck("ed25519", key);
      expect(await check(signed, signature)).toBe(true);
      expect(await check(signed, signature.subarray(1))).toBe(false);
      expect(await check(bytes(1), signature)).toBe(false);
    }
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
