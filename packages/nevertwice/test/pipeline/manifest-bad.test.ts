/** Tests that every manifest in bad-manifests has one problem, which is reported with its place and its fix. */
import { readdirSync } from "node:fs";
import { relative } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { isNevertwiceError } from "../../src/core/errors.ts";
import { loadPipeline, manifestProblems } from "../../src/pipeline/index.ts";

const FOLDER = new URL("./bad-manifests/", import.meta.url);
/** The folder as problems show it. */
const SHOWN = `${relative(process.cwd(), fileURLToPath(FOLDER))}/`;

/** The problems of each file, without the folder. */
const SAID: Readonly<Record<string, readonly string[]>> = {
  "config-key-unknown.toml": [
    "config-key-unknown.toml:9: the node has no curency in its [config]; write currency.",
  ],
  "config-of-a-network.toml": [
    "config-of-a-network.toml:9: step is a network, which has no [config]; set it where that network uses the node.",
  ],
  "config-other-kind.toml": [
    'config-other-kind.toml:9: currency is 7, and its default is "USD"; write text.',
  ],
  "effects-method-unknown.node.toml": [
    'effects-method-unknown.node.toml:17: "PSOT" is not a method; write "POST".',
  ],
  "effects-random-grade.node.toml": [
    'effects-random-grade.node.toml:17: effects.random is "secure"; write random = true, "pseudo" or "crypto", or leave it out to deny it.',
  ],
  "effects-random-none.node.toml": [
    'effects-random-none.node.toml:17: effects.random is "none"; leave it out: what is not declared is denied.',
  ],
  "effects-table-action.node.toml": [
    'effects-table-action.node.toml:17: "charges:get" has the unknown action "get"; write "charges:select".',
  ],
  "effects-table-alone.node.toml": [
    'effects-table-alone.node.toml:17: "charges" is not a table with an action; write e.g. "charges:insert".',
  ],
  "effects-table-in-allow.node.toml": [
    'effects-table-in-allow.node.toml:17: "charges:insert" is a table with an action, and allow lists databases; write allow = ["main"], and tables = ["charges:insert"].',
  ],
  "effects-time-wall-clock.node.toml": [
    'effects-time-wall-clock.node.toml:17: effects.time is "wall_clock"; write time = true, or leave it out to deny it.',
  ],
  "lint-rule-unknown.node.toml": [
    'lint-rule-unknown.node.toml:17: "no-fetch" is not a rule of lint; write one of impure-core, direct-effect, effect-not-declared, effect-not-used, port-not-declared, port-not-emitted, key-missing, intent-missing.',
  ],
  "supervision-rest.toml": [
    'supervision-rest.toml:20: supervision.strategy is "rest_for_one"; write "one-for-one": sources do not depend on each other.',
  ],
  "batch-with-key.node.toml": [
    "batch-with-key.node.toml:15: contract.idempotency cannot be combined with [batch], which merges several messages into one; move idempotency to a node before or after this one.",
  ],
  "batch-with-reply.node.toml": [
    "batch-with-reply.node.toml:5: node.reply cannot be combined with [batch], which merges several messages into one; let a node before this one reply.",
  ],
  "batch-with-retry.node.toml": [
    "batch-with-retry.node.toml:15: contract.retry cannot be combined with [batch], which merges several messages into one; move retry to a node before or after this one.",
  ],
  "batch-without-within.node.toml": [
    'batch-without-within.node.toml:16: batch.within is missing; add within = "1s", after which an incomplete batch is processed.',
  ],
  "capture-nothing.node.toml": [
    "capture-nothing.node.toml:17: capture.max_bytes is 0; write a whole number from 1.",
  ],
  "circle.toml": [
    "circle.toml:22: step → again → step is a cycle; remove this edge; to repeat work, let the sender push the message again.",
  ],
  "concurrency-of-a-network.toml": [
    'concurrency-of-a-network.toml:20: "step" is a network; name one of its nodes: step/step.',
  ],
  "concurrency-unknown-node.toml": [
    'concurrency-unknown-node.toml:20: there is no node "stepp"; write "step".',
  ],
  "concurrency-zero.toml": [
    "concurrency-zero.toml:21: deploy.concurrency.step is 0; write a whole number from 1.",
  ],
  "contract-missing.node.toml": [
    'contract-missing.node.toml:1: contract is missing; add [contract] with effect_shell = "./file.js#name".',
  ],
  "core-absolute.node.toml": [
    'core-absolute.node.toml:13: "node:fs" is not a path relative to this file; write one that begins with "./" or "../"; to use code from a package, export it from one of your files.',
  ],
  "core-missing.node.toml": [
    'core-missing.node.toml:12: contract.pure_core is missing; add pure_core = "./file.js#name".',
  ],
  "core-no-export-named.node.toml": [
    'core-no-export-named.node.toml:13: "./parts/code.js" does not name code; write a file and an export of it, e.g. "./charge.js#decide".',
  ],
  "core-no-such-export.node.toml": [
    'core-no-such-export.node.toml:13: ./parts/code.js has no export "decied"; write "./parts/code.js#decide".',
  ],
  "core-no-such-file.node.toml": [
    "core-no-such-file.node.toml:13: there is no file ./parts/cod.js; correct the path, or write the file.",
  ],
  "core-not-a-function.node.toml": [
    'core-not-a-function.node.toml:13: "./parts/code.js#notCode" is 42; name a function.',
  ],
  "delay-zero.node.toml": [
    'delay-zero.node.toml:17: delay.by is zero; write more, e.g. "5s", or leave it out.',
  ],
  "edge-key-unknown.toml": [
    "edge-key-unknown.toml:15: edges[0].via is unknown; write one of from, to, or remove it.",
  ],
  "edge-not-a-port.toml": [
    'edge-not-a-port.toml:14: "end" is not a port of a node; write the node, a dot, and its port, e.g. "charge.in".',
  ],
  "edge-one-bracket.toml": [
    "edge-one-bracket.toml:12: edges is a table; write [[edges]], with two brackets, once for each edge.",
  ],
  "edge-schemas-differ.toml": [
    'edge-schemas-differ.toml:15: step.out is "Bill@1" and end.in is "Order@1"; connect ports with the same schema, or put a node in between that converts the payload.',
  ],
  "edge-twice.toml": [
    "edge-twice.toml:14: this edge is listed twice, so each message would arrive twice; remove one.",
  ],
  "edge-unknown-node.toml": ['edge-unknown-node.toml:14: there is no node "ned"; write "end".'],
  "edge-unknown-port.toml": ['edge-unknown-port.toml:13: "step" has no out-port "outt"; write "out".'],
  "edge-wrong-way.toml": [
    'edge-wrong-way.toml:14: "step" has no in-port "out"; name an in-port: "out" is an out-port.',
  ],
  "effects-allow-nothing.node.toml": [
    'effects-allow-nothing.node.toml:17: effects.db.allow is empty; name at least one, e.g. ["orders"].',
  ],
  "effects-denied-aloud.node.toml": [
    "effects-denied-aloud.node.toml:17: effects.http is false; leave it out: what is not declared is denied.",
  ],
  "effects-unknown-axis.node.toml": [
    "effects-unknown-axis.node.toml:17: effects.files is unknown; write one of http, db, time, random, or remove it.",
  ],
  "effects-url.node.toml": [
    'effects-url.node.toml:17: "https://api.example/v1" is not a host; write the host alone, without scheme, port or path: "api.example".',
  ],
  "exposed-name-with-dot.toml": [
    'exposed-name-with-dot.toml:17: "new.orders" is not a name; use letters, digits, - and _, a letter first.',
  ],
  "exposed-unknown.toml": ['exposed-unknown.toml:17: "step" has no in-port "inn"; write "in".'],
  "id-missing.node.toml": ['id-missing.node.toml:1: node.id is missing; add id = "charge".'],
  "in-port-not-fed.toml": [
    'in-port-not-fed.toml:1: no message can enter the network; add a source, or expose an in-port: [expose.in] orders = "charge.in".',
    'in-port-not-fed.toml:9: no edge leads to step.in; add an edge with to = "step.in", or expose it: [expose.in] in = "step.in".',
  ],
  "join-and-batch.node.toml": [
    "join-and-batch.node.toml:17: [join] cannot be combined with [batch]; split it into two nodes, one after the other.",
  ],
  "join-dead-letter-unknown.node.toml": [
    'join-dead-letter-unknown.node.toml:20: join.dead_letter is "dead", which is not an out-port; write one of out, or add dead under [ports.out].',
  ],
  "join-of-one.node.toml": [
    "join-of-one.node.toml:16: a [join] has fewer than two in-ports; give it two or more under [ports.in].",
  ],
  "join-with-timeout.node.toml": [
    "join-with-timeout.node.toml:16: contract.timeout cannot be combined with [join], which merges several messages into one; move timeout to a node before or after this one.",
  ],
  "key-empty.node.toml": [
    'key-empty.node.toml:15: contract.idempotency.key is ""; write the name of a field, e.g. key = "request_id".',
  ],
  "key-field-twice.node.toml": [
    'key-field-twice.node.toml:18: "tenant" is listed twice; remove one of them.',
  ],
  "key-fields-in-text.node.toml": [
    'key-fields-in-text.node.toml:15: contract.idempotency.key is "fields:tenant,request_id", which would be the name of one field; write key = ["tenant", "request_id"].',
  ],
  "key-missing.node.toml": [
    'key-missing.node.toml:15: contract.idempotency.key is missing; add key = "request_id".',
  ],
  "key-no-fields.node.toml": [
    'key-no-fields.node.toml:15: contract.idempotency.key is empty; name at least one, e.g. ["tenant", "request_id"].',
  ],
  "key-window.node.toml": [
    "key-window.node.toml:15: contract.idempotency.window is unknown; write one of key, retention, on_lapsed, or remove it.",
  ],
  "kind-missing.node.toml": [
    'kind-missing.node.toml:1: node.kind is missing; add kind = "transform", or another of source, transform, router, sink.',
  ],
  "kind-unknown.node.toml": ['kind-unknown.node.toml:4: node.kind is "tranform"; write "transform".'],
  "long-strings.node.toml": [
    'long-strings.node.toml:21: doc.owner is ""; write text in quotes that is not empty.',
  ],
  "many.toml": [
    'kind-unknown.node.toml:4: node.kind is "tranform"; write "transform".',
    'many.toml:12: edges[0].from is missing; add from = "charge.out".',
    "many.toml:13: edges[0].form is unknown; write from, or remove it.",
    "many.toml:17: expose.inn is unknown; write in, or remove it.",
  ],
  "network-id-missing.toml": [
    'network-id-missing.toml:1: network.id is missing; add id = "billing"; claims are stored under it.',
  ],
  "no-network.toml": [
    'no-network.toml:1: this has no [network]; add [network] with id = "billing" and version = "1.0.0".',
  ],
  "no-nodes.toml": [
    'no-nodes.toml:8: the network has no nodes; add e.g. charge = { use = "./charge.node.toml" }.',
  ],
  "no-way-in.toml": [
    "no-way-in.toml:13: step → step is a cycle; remove this edge; to repeat work, let the sender push the message again.",
  ],
  "node-key-unknown.node.toml": [
    "node-key-unknown.node.toml:5: node.repyl is unknown; write reply, or remove it.",
  ],
  "node-name-twice.toml": [
    "node-name-twice.toml:10: this is not valid TOML: trying to redefine an already defined table or value; correct this line.",
  ],
  "on-lapsed-unknown.node.toml": [
    'on-lapsed-unknown.node.toml:15: contract.idempotency.on_lapsed is "holt"; write "hold".',
  ],
  "out-port-not-read.toml": [
    'out-port-not-read.toml:9: no edge reads begin.out; add an edge with from = "begin.out", or expose it: [expose.out] out = "begin.out".',
  ],
  "port-buffer-out.node.toml": [
    "port-buffer-out.node.toml:10: ports.out.out.buffer is unknown; write it on the in-port that this port leads to.",
  ],
  "port-buffer-zero.node.toml": [
    "port-buffer-zero.node.toml:7: ports.in.in.buffer is 0; write a whole number from 1.",
  ],
  "port-name-with-dot.node.toml": [
    'port-name-with-dot.node.toml:10: "out.put" is not a name; use letters, digits, - and _, a letter first.',
  ],
  "port-not-a-table.node.toml": [
    'port-not-a-table.node.toml:7: ports.in.in is "Order@1"; make it a table: { … }.',
  ],
  "port-schema-unversioned.node.toml": [
    'port-schema-unversioned.node.toml:7: "Order" is a schema name without a version; write e.g. schema = "Order@1".',
  ],
  "rate-zero.node.toml": ["rate-zero.node.toml:17: rate.limit is 0; write a whole number from 1."],
  "reply-not-reached.toml": [
    "reply-not-reached.toml:10: step replies, but no exposed in-port leads to it; remove reply from its [node], or expose a port that leads there: [expose.in].",
  ],
  "reply-text.node.toml": ['reply-text.node.toml:5: node.reply is "yes"; write true or false.'],
  "reply-twice.toml": [
    "reply-twice.toml:9: step replies, and so does more, which comes after it; give only one of them reply = true.",
  ],
  "retention-too-short.node.toml": [
    'retention-too-short.node.toml:17: contract.idempotency.retention is shorter than the 32s that all tries of one message may take; write at least "32s".',
  ],
  "retry-cap-below-base.node.toml": [
    "retry-cap-below-base.node.toml:16: contract.retry.base is longer than its cap; make base the shorter one.",
  ],
  "retry-jitter-too-much.node.toml": [
    "retry-jitter-too-much.node.toml:15: contract.retry.jitter is 50; write a number from 0 to 1.",
  ],
  "retry-max-missing.node.toml": [
    "retry-max-missing.node.toml:15: contract.retry.max is missing; add max = 3 for up to four tries.",
  ],
  "retry-max-zero.node.toml": [
    "retry-max-zero.node.toml:15: contract.retry.max is 0; write a whole number from 1.",
  ],
  "retry-on-timeout-without-one.node.toml": [
    'retry-on-timeout-without-one.node.toml:15: contract.retry.on lists timeout, but the node has no timeout; add timeout = "5s" to [contract].',
  ],
  "retry-on-what-is-permanent.node.toml": [
    'retry-on-what-is-permanent.node.toml:15: "effect-denied" is never retried; remove it: another try would fail the same way.',
  ],
  "retry-outside-contract.node.toml": [
    "retry-outside-contract.node.toml:16: retry is unknown; write it in [contract].",
  ],
  "retry-strategy-unknown.node.toml": [
    'retry-strategy-unknown.node.toml:18: contract.retry.strategy is "exponentail"; write "exponential".',
  ],
  "router-without-out-port.node.toml": [
    'router-without-out-port.node.toml:6: a router has no out-port; add [ports.out] with out = { schema = "Order@1" }.',
  ],
  "schema-is-a-number.toml": [
    'schema-is-a-number.toml:6: "./parts/code.js#notCode" is 42, which is not a schema; name a Standard Schema (an object with "~standard") or a function.',
  ],
  "schema-no-such-export.toml": [
    'schema-no-such-export.toml:6: ./parts/code.js has no export "ordre"; write "./parts/code.js#order".',
  ],
  "schema-not-declared.toml": [
    'schema-not-declared.toml:9: step has a port with the schema "Order@1", which the network does not declare; add "Order@1" = "./schemas.js#name" under [schemas], which has "Orders@1".',
    'schema-not-declared.toml:10: end has a port with the schema "Order@1", which the network does not declare; add "Order@1" = "./schemas.js#name" under [schemas], which has "Orders@1".',
  ],
  "schema-of-used-network-differs.toml": [
    'schema-of-used-network-differs.toml:9: "Order@1" is a different schema in the network that is used; make both name the same code, or give one of them another version.',
  ],
  "shell-fails-to-load.node.toml": [
    "shell-fails-to-load.node.toml:14: ./parts/broken.js cannot be loaded: no such setting; fix the file so that it can be imported.",
  ],
  "sink-with-out-port.node.toml": [
    'sink-with-out-port.node.toml:9: a sink has out-ports; remove [ports.out], or write kind = "transform".',
  ],
  "source-with-in-port.node.toml": [
    'source-with-in-port.node.toml:6: a source has in-ports; remove [ports.in], or write kind = "transform".',
  ],
  "source-with-key.node.toml": [
    "source-with-key.node.toml:11: a source has contract.idempotency; move it to the node that the source leads to.",
  ],
  "source-with-reply.node.toml": [
    "source-with-reply.node.toml:5: a source has node.reply; move it to the node that the source leads to.",
  ],
  "supervision-restarts.toml": [
    "supervision-restarts.toml:20: supervision.restarts is -1; write a whole number from 0.",
  ],
  "supervision-strategy.toml": [
    'supervision-strategy.toml:20: supervision.strategy is "one_for_one"; write "one-for-one".',
  ],
  "syntax.toml": [
    "syntax.toml:14: this is not valid TOML: control characters are not allowed in strings; correct this line.",
  ],
  "timeout-ms.node.toml": ['timeout-ms.node.toml:15: contract.timeout_ms is unknown; write timeout = "5s".'],
  "timeout-number.node.toml": [
    'timeout-number.node.toml:15: contract.timeout is 5; write text with a unit, e.g. "5s".',
  ],
  "timeout-without-unit.node.toml": [
    'timeout-without-unit.node.toml:15: contract.timeout is "5"; write whole numbers with units (d, h, m, s, ms), the largest first, e.g. "5s".',
  ],
  "timeout-zero.node.toml": [
    'timeout-zero.node.toml:15: contract.timeout is zero; write more, e.g. "5s", or leave it out.',
  ],
  "two-files-one-id.toml": [
    'two-files-one-id.toml:11: parts/step-copy.node.toml and parts/step.node.toml both have the id "step"; give one of them another id.',
  ],
  "use-absolute.toml": [
    'use-absolute.toml:9: "parts/step.node.toml" is not a path relative to this file; write one that begins with "./" or "../".',
  ],
  "use-missing.toml": ['use-missing.toml:9: nodes.step.use is missing; add use = "./charge.node.toml".'],
  "use-no-such-file.toml": [
    "use-no-such-file.toml:9: there is no file ./parts/stepp.node.toml; correct the path, or write the file.",
  ],
  "used-network-port-loose.toml": [
    'used-network-port-loose.toml:10: no edge reads loose.out; add an edge with from = "loose.out", or expose it: [expose.out] out = "loose.out".',
  ],
  "uses-itself.toml": [
    "uses-itself.toml:10: the network uses itself: uses-itself.toml → uses-itself.toml; remove this use.",
  ],
  "version-number.node.toml": [
    "version-number.node.toml:3: node.version is 1; write text in quotes that is not empty.",
  ],
};

describe("an invalid manifest", () => {
  it("is in the table, which has more than forty rows", () => {
    const files = readdirSync(FOLDER).filter((name) => name.endsWith(".toml"));
    expect(files.sort()).toEqual(Object.keys(SAID).sort());
    expect(files.length).toBeGreaterThan(40);
  });

  it.each(Object.entries(SAID))("%s gives the file, the line and the fix", async (file, said) => {
    const error = await loadPipeline(new URL(file, FOLDER)).catch((reason: unknown) => reason);
    expect(isNevertwiceError(error, "manifest-invalid"), String(error)).toBe(true);
    const lines = String((error as Error).message)
      .replace(/^manifest-invalid: (there are \d+ problems\.\n)?/, "")
      .split("\n")
      .map((line) => line.trim().replaceAll(SHOWN, ""));
    expect(lines).toEqual(said);
    const problems = manifestProblems(error);
    expect(problems).toHaveLength(said.length);
    for (const problem of problems)
      expect(problem).toMatchObject({ line: expect.any(Number), fix: expect.stringMatching(/./) });
  });
});
