/**
 * Tests variables with our prefix: a misspelt one is refused, an unknown one is reported once, and those of other
 * programs are ignored.
 */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { guardFromEnv, windowsFromEnv } from "../../src/env/index.ts";

const warnings: Error[] = [];
const note = (warning: Error) => warnings.push(warning);
beforeEach(() => void process.on("warning", note));
afterEach(() => {
  process.off("warning", note);
  warnings.length = 0;
});

/** Warnings are emitted in the next turn. */
const nextTurn = () => new Promise<void>((resolve) => setImmediate(resolve));

describe("a variable that is nearly one of ours", () => {
  test.each([
    ["NEVERTWICE_RETENTOIN", "NEVERTWICE_RETENTION"],
    ["NEVERTWICE_RETENTIN", "NEVERTWICE_RETENTION"],
    ["NEVERTWICE_RETENSIONS", "NEVERTWICE_RETENTION"],
    ["NEVERTWICE_LAESE", "NEVERTWICE_LEASE"],
    ["NEVERTWICE_LEASES", "NEVERTWICE_LEASE"],
    ["NEVERTWICE_LEASE_MS", "NEVERTWICE_LEASE"],
    ["NEVERTWICE_RETENTION_SECONDS", "NEVERTWICE_RETENTION"],
    ["NEVERTWICE_MARKRETENTION", "NEVERTWICE_MARK_RETENTION"],
    ["NEVERTWICE_ENABLE", "NEVERTWICE_ENABLED"],
    ["NEVERTWICE_STORE_URI", "NEVERTWICE_STORE_URL"],
    ["NEVERTWICE_STOREURL", "NEVERTWICE_STORE_URL"],
    ["NEVERTWICE_STORE_URL_FILE", "NEVERTWICE_STORE_URL"],
    ["NEVERTWICE_ON_UNAVAILIBLE", "NEVERTWICE_ON_UNAVAILABLE"],
    ["NEVERTWICE_NAMSPACE", "NEVERTWICE_NAMESPACE"],
    ["NEVERTWICE_ALOW_LOCAL", "NEVERTWICE_ALLOW_LOCAL"],
  ])("is refused: %s", async (written, meant) => {
    const message = `options-invalid: there is no variable ${written}. Did you mean ${meant}?`;
    const env = { [written]: "redis://u:hunter2@host" };
    await expect(guardFromEnv(env)).rejects.toMatchObject({ code: "options-invalid", message });
    // Also on a reload; and a guard that is off must not hide a mistake until it is switched on.
    expect(() => windowsFromEnv(env)).toThrow(message);
    await expect(guardFromEnv({ ...env, NEVERTWICE_ENABLED: "off" })).rejects.toMatchObject({ message });
  });

  test("counts as not set if it is empty", () => {
    expect(windowsFromEnv({ NEVERTWICE_RETENTOIN: " " }).retentionMs).toBe(86_400_000);
  });
});

test("an unknown variable is reported once, without its value, and does no harm", async () => {
  const env = { NEVERTWICE_FAIL_OPEN: "hunter2", NEVERTWICE_RELEASE: "v7", NEVERTWICE_REDIS_URL: "hunter2" };
  for (let times = 0; times < 2; times++) {
    expect(windowsFromEnv(env).leaseMs).toBe(30_000);
    await (await guardFromEnv(env)).close();
  }
  await nextTurn();
  for (const warning of warnings)
    expect(warning).toMatchObject({ name: "NevertwiceWarning", code: "NEVERTWICE_UNKNOWN_VARIABLE" });
  expect(warnings.map(({ message }) => message)).toEqual([
    "NEVERTWICE_FAIL_OPEN is set, but nothing reads it.",
    "NEVERTWICE_RELEASE is set, but nothing reads it.",
    "NEVERTWICE_REDIS_URL is set, but nothing reads it.",
  ]);
});

test("variables of the server, of tests and of Kubernetes are ignored", async () => {
  windowsFromEnv({
    NEVERTWICE_SERVER_LISTEN: "1",
    NEVERTWICE_TEST_REDIS_URL: "1",
    NEVERTWICE_PORT: "tcp://10.0.0.11:80",
    NEVERTWICE_PORT_80_TCP: "tcp://10.0.0.11:80",
    NEVERTWICE_PORT_80_TCP_ADDR: "10.0.0.11",
    NEVERTWICE_SERVICE_HOST: "10.0.0.11",
    NEVERTWICE_SERVICE_PORT: "80",
    NEVERTWICE_SERVICE_PORT_HTTP: "80",
    NEVERTWICE_LEASE_SERVICE_HOST: "10.0.0.12",
    NEVERTWICE_LEASE_PORT_6379_TCP_PROTO: "tcp",
    NOT_NEVERTWICE_LEASES: "1",
    PATH: "/bin",
  });
  await nextTurn();
  expect(warnings).toEqual([]);
});
