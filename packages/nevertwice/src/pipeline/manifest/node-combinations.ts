/** What in one node does not go together. To ignore a part of a manifest would be to ignore what somebody relies on. */
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
    report(["ports", "in"], "a source has in-ports", 'take [ports.in] out, or write kind = "transform"');
  if (kind === "sink" && out.size > 0)
    report(["ports", "out"], "a sink has out-ports", 'take [ports.out] out, or write kind = "transform"');
  if (kind !== "source" && inPorts.size === 0)
    report(["ports"], `a ${kind} has no in-port`, 'add [ports.in] with in = { schema = "Order@1" }');
  if (kind !== "sink" && out.size === 0)
    report(["ports"], `a ${kind} has no out-port`, 'add [ports.out] with out = { schema = "Order@1" }');
}

/** Nothing comes in to a source: there is no message to try again, to key, to delay, or to answer. */
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

/** Several messages are one there: which of them would be tried again, keyed, or answered? */
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
        `contract.${key} does not go with [${grouping}], which makes one of several messages`,
        `move ${key} to a node before or after this one`,
      );
  if (reply)
    report(
      ["node", "reply"],
      `node.reply does not go with [${grouping}], which makes one of several messages`,
      "let a node before this one reply",
    );
  if (batch !== undefined && join !== undefined)
    report(["join"], "[join] does not go with [batch]", "make two nodes of it, one after the other");
  else if (batch !== undefined && inPorts.size > 1)
    report(["ports", "in"], "a [batch] has several in-ports", "lead all edges to one in-port");
}

function checkJoin({ in: inPorts, out }: Draft, deadLetter: string | undefined, report: Report): void {
  if (inPorts.size < 2)
    report(["join"], "a [join] has fewer than two in-ports", "give it two or more under [ports.in]");
  if (deadLetter !== undefined && !out.has(deadLetter))
    report(
      ["join", "dead_letter"],
      `join.dead_letter is "${deadLetter}", which is no out-port`,
      `write one of ${[...out.keys()].join(", ") || "the out-ports"}, or add ${deadLetter} under [ports.out]`,
    );
}
