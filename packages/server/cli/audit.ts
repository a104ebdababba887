/** `nevertwice audit`: every invariant of holds, verified from the stored records. */
import { durationMs } from "nevertwice/env";
import type { AuditData, AuditPage, Doubles } from "nevertwice/reservations";
import { type Call, type Command, EXIT, type Exit, print, UsageError } from "./command.ts";
import { asking, REACH_FLAGS, reaching, refused } from "./reach.ts";
import { paint, plain, table } from "./terminal.ts";

export const auditCommand: Command = {
  summary: "verifies every invariant of holds from the stored records",
  actions: {
    "": {
      summary: "Prints the verdict on each invariant; ends with code 1 if one does not hold.",
      flags: REACH_FLAGS,
      run: report,
    },
    trace: {
      summary: "Tells all that happened to one hold, as JSON.",
      takes: ["ID"],
      flags: REACH_FLAGS,
      run: (call) => {
        const path = `/v1/audit/holds/${encodeURIComponent(call.args[0] ?? "")}`;
        return asking(call, { method: "GET", path }, (trace) => [JSON.stringify(trace, undefined, 2)]);
      },
    },
    doubles: {
      summary: "Finds holds of one resource and one requester that were placed near each other.",
      flags: { within: { value: "DURATION", what: "how near, such as 5m" }, ...REACH_FLAGS },
      run: (call) => {
        const within = call.text("within");
        if (within === undefined) throw new UsageError("--within DURATION is missing: how near, such as 5m?");
        const query = { withinMs: durationMs("--within", within) };
        return asking(call, { method: "GET", path: "/v1/audit/doubles", query }, doubleLines);
      },
    },
  },
};

function report(call: Call): Promise<Exit> {
  return reaching(call, async (ask) => {
    const answered = await ask({ method: "GET", path: "/v1/audit" });
    if (answered.status !== 200) return refused(call, answered);
    const { data, page } = answered.body as { readonly data: AuditData; readonly page: AuditPage };
    if (call.has("json")) print(JSON.stringify(data));
    else for (const line of reportLines(page)) print(line);
    return data.ok ? EXIT.ok : EXIT.failed;
  });
}

const STYLES = { holds: "green", broken: "red", "nothing-to-see": "dim" } as const;

function reportLines({ title, counts, sections, status, notes }: AuditPage): readonly string[] {
  const rows = sections.flatMap((section) => section.rows);
  const width = Math.max(0, ...rows.map(({ id }) => id.length));
  const verdict = {
    holds: "every invariant holds",
    broken: "broken",
    "nothing-to-see": "there is nothing to look at yet",
  }[status];
  return [
    paint("bold", plain(title)),
    `looked at ${counts.map(({ name, count }) => `${count} ${name}`).join(", ")}`,
    ...sections.flatMap((section) => [
      "",
      paint("bold", section.title),
      ...section.rows.flatMap(({ id, name, status: own, looked, lines }) => [
        `  ${id.padEnd(width)}  ${paint(STYLES[own], own.padEnd(14))}  ${name} (${looked})`,
        ...lines.map((line) => `      ${paint("red", plain(line))}`),
      ]),
    ]),
    "",
    ...notes.map((note) => paint("dim", `note: ${plain(note)}`)),
    paint(STYLES[status], verdict),
  ];
}

function doubleLines({ looked, count, violations, pairs }: Doubles): readonly string[] {
  const rows = pairs.map(({ resource, requester, apartMs, first, second, verdict }) => [
    resource,
    requester,
    `${apartMs} ms`,
    verdict,
    first.id,
    second.id,
  ]);
  return [
    ...(rows.length > 0 ? table(["resource", "requester", "apart", "verdict", "first", "second"], rows) : []),
    `${count} pairs among ${looked} holds; ${violations} of one key within its window`,
  ];
}
