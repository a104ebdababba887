/** `nevertwice audit`: verifies every invariant of holds from the stored records. */
import { durationMs } from "nevertwice/env";
import type { AuditData, AuditPage, Doubles } from "nevertwice/reservations";
import { API_FLAGS, callApiOnce, toRefused, withApi } from "./api.ts";
import {
  type Command,
  type CommandCall,
  type CommandResult,
  EXIT,
  type Flags,
  UsageError,
} from "./command.ts";
import { paint, plain, table } from "./terminal.ts";

const WINDOWS_FLAG: Flags = {
  windows: {
    value: "DURATIONS",
    what: "time windows that were ever configured, such as 10m,24h; needed for records of earlier releases",
  },
};

export const auditCommand: Command = {
  summary: "verify every invariant of holds from the stored records",
  actions: {
    "": {
      summary: "Prints the result for each invariant. Exit code 1 if one does not hold.",
      flags: { ...WINDOWS_FLAG, ...API_FLAGS },
      run: report,
    },
    trace: {
      summary: "Prints the history of one hold as JSON.",
      takes: ["ID"],
      flags: API_FLAGS,
      run: (call) => {
        const path = `/v1/audit/holds/${encodeURIComponent(call.args[0] ?? "")}`;
        return callApiOnce(call, { method: "GET", path }, (trace) => [JSON.stringify(trace, undefined, 2)]);
      },
    },
    doubles: {
      summary: "Finds holds of the same resource and requester that were placed close together in time.",
      flags: {
        within: { value: "DURATION", what: "the longest time between two such holds, such as 5m" },
        ...WINDOWS_FLAG,
        ...API_FLAGS,
      },
      run: (call) => {
        const within = call.text("within");
        if (within === undefined) throw new UsageError("--within DURATION is missing, such as 5m.");
        const query = { withinMs: durationMs("--within", within), windowsMs: windowsIn(call) };
        return callApiOnce(call, { method: "GET", path: "/v1/audit/doubles", query }, doubleLines);
      },
    },
  },
};

function report(call: CommandCall): Promise<CommandResult> {
  return withApi(call, async (callApi) => {
    const query = { windowsMs: windowsIn(call) };
    const reply = await callApi({ method: "GET", path: "/v1/audit", query });
    if (reply.status !== 200) throw toRefused(reply);
    const { data, page } = reply.body as { readonly data: AuditData; readonly page: AuditPage };
    return { exit: data.ok ? EXIT.ok : EXIT.failed, data, lines: reportLines(page) };
  });
}

/** Converts to the form of the API: milliseconds, separated by commas. */
function windowsIn(call: CommandCall): string | undefined {
  const given = call.text("windows");
  return given
    ?.split(",")
    .map((text) => durationMs("--windows", text.trim()))
    .join(",");
}

const STYLES = { holds: "green", broken: "red", "nothing-to-see": "dim" } as const;

function reportLines({ title, counts, sections, status, notes }: AuditPage): readonly string[] {
  const rows = sections.flatMap((section) => section.rows);
  const width = Math.max(0, ...rows.map(({ id }) => id.length));
  const verdict = {
    holds: "every invariant holds",
    broken: "broken",
    "nothing-to-see": "there are no records to verify yet",
  }[status];
  return [
    paint("bold", plain(title)),
    `read ${counts.map(({ name, count }) => `${count} ${name}`).join(", ")}`,
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

function doubleLines({ looked, count, violations, pairs, unreadable }: Doubles): readonly string[] {
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
    ...(unreadable > 0 ? [paint("red", `${unreadable} holds are damaged; nevertwice audit lists them`)] : []),
  ];
}
