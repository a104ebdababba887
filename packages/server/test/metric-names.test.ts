/** Tests that docs/metrics.md, `/metrics` and OpenTelemetry have the same metrics with the same labels. */
import { metrics as otelMetrics } from "@opentelemetry/api";
import { afterEach, expect, test } from "vitest";
import { documented, everything } from "./every-metric.ts";

afterEach(() => otelMetrics.disable());

const sorted = (names: Iterable<string>) => [...new Set(names)].sort();

test("OpenTelemetry has the documented metrics with the documented attributes", async () => {
  const { all } = await everything();
  const found = all.map(({ descriptor, dataPoints }) => [
    descriptor.name,
    sorted(dataPoints.flatMap(({ attributes }) => Object.keys(attributes))),
  ]);
  const rows = await documented();
  expect(rows.length).toBeGreaterThan(20);
  expect(Object.fromEntries(found)).toEqual(
    Object.fromEntries(rows.map(({ name, attributes }) => [name, sorted(attributes)])),
  );
});

test("/metrics has the documented metrics with the documented labels", async () => {
  const { text } = await everything();
  const types = [...text.matchAll(/^# TYPE (\w+) (\w+)$/gm)].map(([, name = "", type = ""]) => {
    const lines = text
      .split("\n")
      .filter((line) => new RegExp(`^${name}(_bucket|_sum|_count)?[{ ]`).test(line));
    const labels = lines.flatMap((line) => [...line.matchAll(/[{,](\w+)="/g)].map(([, label = ""]) => label));
    return [name, { type, labels: sorted(labels.filter((label) => label !== "le")) }] as const;
  });
  const rows = await documented();
  expect(Object.fromEntries(types)).toEqual(
    Object.fromEntries(
      rows.map(({ inMetrics, type, attributes }) => [
        inMetrics,
        { type, labels: sorted(attributes.map((attribute) => attribute.replaceAll(".", "_"))) },
      ]),
    ),
  );
});
