/** Tests that the limits in docs/options.md are those of option-checks.ts, policy.ts and identity.ts. */
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { isNevertwiceError } from "../../src/core/errors.ts";
import { createGuard } from "../../src/functions/guard.ts";
import { memoryStore } from "../../src/stores/memory.ts";

const PAGE = readFileSync(new URL("../../../../docs/options.md", import.meta.url), "utf8");
const [, section = ""] = /^## Limits of options$(.*?)^## /ms.exec(PAGE) ?? [];

interface Row {
  readonly name: string;
  readonly least: number;
  readonly most: number;
  readonly isText: boolean;
}

const rows = section.split("\n").flatMap((line): readonly Row[] => {
  const [, names = "", least = "", most = ""] = line.split("|");
  const number = (cell: string) => Number(/[\d,]+/.exec(cell)?.[0].replaceAll(",", ""));
  return [...names.matchAll(/`(\w+)`/g)]
    .filter(([, name]) => name !== "domain")
    .map(([, name = ""]) => ({
      name,
      least: number(least),
      most: number(most),
      isText: most.includes("bytes"),
    }));
});

const guard = createGuard({ store: memoryStore(), purgeEveryMs: 0 });
const SUBJECT = { operation: "charge", key: "k", scope: "alice" };

/** The code of the refusal; undefined if the option is accepted. */
async function refusal({ name, isText }: Row, size: number): Promise<string | undefined> {
  const value = isText ? "x".repeat(size) : size;
  try {
    if (name === "namespace")
      createGuard({ store: memoryStore(), purgeEveryMs: 0, namespace: value as string });
    else if (isText) await guard.read({ ...SUBJECT, [name]: value });
    else if (name === "holdForMs") guard.with({ onLapsed: "hold", [name]: value as number });
    else guard.with({ [name]: value as number });
    return undefined;
  } catch (error) {
    if (!isNevertwiceError(error)) throw error;
    return error.code;
  }
}

describe("the limits in docs/options.md", () => {
  test("are found", () => {
    expect(rows.map(({ name }) => name)).toEqual(
      expect.arrayContaining([
        "leaseMs",
        "retentionMs",
        "maxOutcomeBytes",
        "key",
        "operation",
        "scope",
        "namespace",
      ]),
    );
  });

  test.each(rows)("are those of $name", async (row) => {
    const { least, most } = row;
    expect([await refusal(row, least), await refusal(row, most)]).toEqual([undefined, undefined]);
    for (const beyond of [least - 1, most + 1])
      expect(await refusal(row, beyond)).toMatch(/-(invalid|missing)$/);
  });
});
