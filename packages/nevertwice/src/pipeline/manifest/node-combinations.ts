/** Refuses parts of a node's manifest that cannot be combined. Ignoring one of them would ignore something the author relies on. */
import type { NodeDraft } from "./node-draft.ts";
import type { Report } from "./problem.ts";
import type { Path } from "./toml-lines.ts";

type Draft = Pick<NodeDraft, "kind" | "in" | "out" | "contract" | "batch" | "join" | "delayMs" | "reply">;

export function checkCombinations(draft: Draft, report: Report): void {
  checkPorts(draft, report);
  if (draft.kind === "source") checkSource(draft, report);
  const grouping = draft.batch !== undefined ? "batch" : draft.join !== undefined ? "join" : undefined;
  if (grouping !== undefined) checkGrouping(draft, grouping, report);
  if (draft.join !== undefined) checkJoin(draft, draft.join.deadLetter, report);
}

function checkPorts({ kind, in: inPorts, out }: Draft, report: Report): void {
  if (kind === "source" && inPorts.size > 0)
    report(["ports", "in"], "a source has in-ports", 'remove [ports.in], or write kind = "transform"');
  if (kind === "sink" && out.size > 0)
    report(["ports", "out"], "a sink has out-ports", 'remove [ports.out], or write kind = "transform"');
  if (kind !== "source" && inPorts.size === 0)
    report(["ports"], `a ${kind} has no in-port`, 'add [ports.in] with in = { schema = "Order@1" }');
  if (kind !== "sink" && out.size === 0)
    report(["ports"], `a ${kind} has no out-port`, 'add [ports.out] with out = { schema = "Order@1" }');
}

/** A source receives no messages: there is nothing to retry, key, delay or reply to. */
function checkSource({ contract, batch, join, delayMs, reply }: Draft, report: Report): void {
  const parts: readonly (readonly [path: Path, isThere: boolean])[] = [
    [["contract", "timeout"], contract.timeoutMs !== undefined],
    [["contract", "retry"], contract.retry !== undefined],
    [["contract", "idempotency"], contract.idempotency !== undefined],
    [["batch"], batch !== undefined],
    [["join"], join !== undefined],
    [["delay"], delayMs !== undefined],
    [["node", "reply"], reply],
  ];
  for (const [path, isThere] of parts)
    if (isThere)
      report(path, `a source has ${path.join(".")}`, "move it to the node that the source leads to");
}

/** A batch or a join merges several messages, so retry, key and reply would not belong to one message. */
function checkGrouping(
  { contract, batch, join, in: inPorts, reply }: Draft,
  grouping: "batch" | "join",
  report: Report,
) {
  const refused: readonly (readonly [key: string, isThere: boolean])[] = [
    ["timeout", contract.timeoutMs !== undefined],
    ["retry", contract.retry !== undefined],
    ["idempotency", contract.idempotency !== undefined],
  ];
  for (const [key, isThere] of refused)
    if (isThere)
      report(
        ["contract", key],
        `contract.${key} cannot be combined with [${grouping}], which merges several messages into one`,
        `move ${key} to a node before or after this one`,
      );
  if (reply)
    report(
      ["node", "reply"],
      `node.reply cannot be combined with [${grouping}], which merges several messages into one`,
      "let a node before this one reply",
    );
  if (batch !== undefined && join !== undefined)
    report(
      ["join"],
      "[join] cannot be combined with [batch]",
      "split it into two nodes, one after the other",
    );
  else if (batch !== undefined && inPorts.size > 1)
    report(["ports", "in"], "a [batch] has several in-ports", "lead all edges to one in-port");
}

function checkJoin({ in: inPorts, out }: Draft, deadLetter: string | undefined, report: Report): void {
  if (inPorts.size < 2)
    report(["join"], "a [join] has fewer than two in-ports", "give it two or more under [ports.in]");
  if (deadLetter !== undefined && !out.has(deadLetter))
    report(
      ["join", "dead_letter"],
      `join.dead_letter is "${deadLetter}", which is not an out-port`,
      `write one of ${[...out.keys()].join(", ") || "the out-ports"}, or add ${deadLetter} under [ports.out]`,
    );
}
