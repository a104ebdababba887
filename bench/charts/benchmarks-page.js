/** docs/benchmarks.md and its charts, from the pages of bench/results alone. */
import { barChart } from "./bars.js";
import { readAmongKeys, readCommit, readTable } from "./figures.js";

/** @typedef {import("./bars.js").Bar} Bar */
/** @typedef {Readonly<Record<string, string>>} Pages the text of each page of results, by its name */

/** The pages that the charts read. */
export const SOURCES = [
  "memory",
  "redis",
  "sqlite",
  "postgres",
  "stores-at-scale",
  "lists-at-scale",
  "capacity",
];

/** Where each store's figures are, at which durability. */
const STORES = [
  { page: "memory", heading: "Nothing outlives", title: "memory" },
  { page: "redis", heading: "`appendonly no`", title: "Redis, without an append-only file" },
  { page: "redis", heading: "`appendonly yes`", title: "Redis, every write flushed (appendfsync always)" },
  { page: "sqlite", heading: "`journal_mode = WAL`", title: "SQLite, every commit flushed" },
  { page: "postgres", heading: "`fsync on`", title: "Postgres, every commit flushed" },
];

const LIMIT = "raw loop";
const RATIOS = ["ratio", "to best peer", "to raw loop"];

/**
 * The files, by their paths in the repository.
 *
 * @param {Pages} pages
 * @returns {Readonly<Record<string, string>>}
 */
export function benchmarkFiles(pages) {
  return {
    "docs/images/benchmarks-first-calls.svg": peersChart(pages, "first call", "First calls a second"),
    "docs/images/benchmarks-replays.svg": peersChart(pages, "replay", "Replays a second"),
    "docs/images/benchmarks-limit.svg": limitChart(pages),
    "docs/images/benchmarks-keys.svg": keysChart(pages),
    "docs/images/benchmarks-durability.svg": durabilityChart(pages),
    "docs/benchmarks.md": page(pages),
  };
}

/**
 * The row with a fingerprint, or the one without where the page has no other.
 *
 * @param {Pages} pages
 * @param {(typeof STORES)[number]} store
 * @param {string} call
 */
function rowFor(pages, { page: name, heading }, call) {
  const rows = readTable(textOf(pages, name), heading);
  const row = rows[`${call}, fingerprint`] ?? rows[`${call}, none`];
  if (row === undefined) throw new Error(`bench/results/${name}.md has no row for a ${call}`);
  return row;
}

/**
 * @param {Pages} pages
 * @param {string} call
 * @param {string} title
 */
function peersChart(pages, call, title) {
  const groups = STORES.map((store) => ({
    title: store.title,
    bars: Object.entries(rowFor(pages, store, call))
      .filter(([name]) => !RATIOS.includes(name) && name !== LIMIT)
      .map(([name, value]) => bar(name, value, value.toLocaleString("en"))),
  }));
  return barChart({
    title,
    description: `${title}, of nevertwice and its peers on each store. More is better.`,
    groups,
  });
}

/** @param {Pages} pages */
function limitChart(pages) {
  const groups = STORES.filter(({ page: name }) => name !== "memory").map((store) => ({
    title: store.title,
    bars: ["first call", "replay"].flatMap((call) => {
      const row = rowFor(pages, store, call);
      return ["nevertwice", LIMIT].map((name) => {
        const value = row[name] ?? 0;
        return bar(`${name}, ${call}`, value, value.toLocaleString("en"));
      });
    }),
  }));
  return barChart({
    title: "Operations a second, beside the same statements sent by hand",
    description:
      "nevertwice beside a raw loop, which sends the same statements without an engine. More is better.",
    groups,
  });
}

/** @param {Pages} pages */
function keysChart(pages) {
  const groups = amongKeys(pages).map(({ store, what, few, many }) => ({
    title: `${store}: ${what}`,
    bars: [few, many].map(({ keys, ms }) => bar(`among ${keys} keys`, ms, `${ms} ms`, "ours")),
  }));
  return barChart({
    title: "Milliseconds among few keys and among many",
    description:
      "How long a claim and the first page of a list take among ten thousand and ten million keys. Less is better.",
    groups,
  });
}

/** @param {Pages} pages */
function durabilityChart(pages) {
  const [, off, always] = STORES;
  if (off === undefined || always === undefined) throw new Error("Redis is missing");
  const rows = [
    { how: "no file", row: withoutFingerprint(pages, off) },
    { how: "each write flushed", row: withoutFingerprint(pages, always) },
  ];
  const names = Object.keys(rows[0]?.row ?? {}).filter((name) => !RATIOS.includes(name));
  const groups = names.map((name) => ({
    title: name,
    bars: rows.map(({ how, row }) => {
      const value = row[name] ?? 0;
      return bar(how, value, value.toLocaleString("en"), name === "nevertwice" ? "ours" : "peer");
    }),
  }));
  return barChart({
    title: "First calls a second on Redis, without and with a flush of every write",
    description:
      "First calls without a fingerprint at appendonly no, and at appendfsync always. More is better.",
    groups,
  });
}

/**
 * @param {Pages} pages
 * @param {(typeof STORES)[number]} store
 */
function withoutFingerprint(pages, { page: name, heading }) {
  const row = readTable(textOf(pages, name), heading)["first call, none"];
  if (row === undefined) throw new Error(`bench/results/${name}.md has no first call without a fingerprint`);
  return row;
}

/** @param {Pages} pages */
function amongKeys(pages) {
  const found = ["stores-at-scale", "lists-at-scale"].flatMap((name) => readAmongKeys(textOf(pages, name)));
  if (found.length === 0) throw new Error("no page says what a claim takes among many keys");
  return found;
}

/**
 * @param {string} name
 * @param {number} value
 * @param {string} label
 * @param {Bar["tone"]} [tone]
 * @returns {Bar}
 */
function bar(name, value, label, tone) {
  if (tone !== undefined) return { name, value, label, tone };
  if (name.startsWith("nevertwice")) return { name, value, label, tone: "ours" };
  return { name, value, label, tone: name.startsWith(LIMIT) ? "limit" : "peer" };
}

/** @param {Pages} pages */
function page(pages) {
  return `${[
    "# Benchmarks",
    `Written by \`node bench/charts.js\` from the pages of [bench/results](../bench/results); do not edit. The figures are those of the pages, each
measured at the commit that it names; no figure here was measured for this page. All were measured on one machine of two processors, with
client and server together. Compare the rows of one group, not those of different ones.`,
    "## Against peers",
    `Calls with a fingerprint of the request, 64 in flight; on Redis with every write flushed, calls without one. More is better. Blue is nevertwice. Powertools'
cache layer refuses an identical retry while it compares payloads, so it appears only where calls have no fingerprint. The peers do not promise the same: each page lists what differs, and the
[scoreboard](scoreboard.md) shows it.`,
    "![First calls a second, of nevertwice and its peers on each store](images/benchmarks-first-calls.svg)",
    "![Replays a second, of nevertwice and its peers on each store](images/benchmarks-replays.svg)",
    summary(pages),
    "## Against the limit",
    "A raw loop sends the same statements by hand, without an engine, a lease to renew or a time limit. It shows what the store and its driver can do.",
    "![Operations a second beside the same statements sent by hand](images/benchmarks-limit.svg)",
    "## From a thousand to ten million keys",
    "Speed was measured among 10,000 and 10,000,000 keys, and sizes among 3,000; nothing was measured in between, so the chart has no line.",
    "![Milliseconds among ten thousand and ten million keys](images/benchmarks-keys.svg)",
    keysTable(pages),
    sizesTable(pages),
    "## What durability costs",
    `Redis answers before or after a write is on disk, as its settings say. SQLite and Postgres are measured with every commit flushed only.
[stores.md](durability.md#durability) says which crashes each setting survives.`,
    "![First calls a second on Redis, without and with a flush of every write](images/benchmarks-durability.svg)",
    durabilityText(pages),
    "## Sources",
    sourcesTable(pages),
    "Measure again with `npm run bench` and the campaigns, and then run `node bench/charts.js`. A test fails while this page or a chart differs from what the script makes of the results.",
  ].join("\n\n")}\n`;
}

/** @param {Pages} pages */
function summary(pages) {
  const rows = STORES.flatMap((store) =>
    ["first call", "replay"].map((call) => {
      const row = rowFor(pages, store, call);
      const peers = Object.entries(row).filter(([name]) => ![...RATIOS, LIMIT, "nevertwice"].includes(name));
      const best = peers.reduce((most, each) => (each[1] > most[1] ? each : most));
      const ours = row.nevertwice ?? 0;
      return [
        store.title,
        call,
        ours.toLocaleString("en"),
        `${best[0]} ${best[1].toLocaleString("en")}`,
        `${(ours / best[1]).toFixed(2)}x`,
      ];
    }),
  );
  return table(["store", "call", "nevertwice, a second", "best peer, a second", "ratio"], rows);
}

/** @param {Pages} pages */
function keysTable(pages) {
  const rows = amongKeys(pages).map(({ store, what, few, many, ratio }) => [
    store,
    what,
    `${few.ms} ms among ${few.keys}`,
    `${many.ms} ms among ${many.keys}`,
    `${ratio}x`,
  ]);
  return table(["store", "what", "few keys", "many keys", "ratio"], rows);
}

/** @param {Pages} pages */
function sizesTable(pages) {
  const text = textOf(pages, "capacity");
  const rows = [...text.matchAll(/^## (.+)\n[\s\S]*?\| bytes of a key +\| +(.+?) \|/gm)].map(
    ([, store = "", bytes = ""]) => [store, bytes.trim()],
  );
  if (rows.length === 0) throw new Error("bench/results/capacity.md has no bytes of a key");
  return table(["store", "bytes of a key"], rows);
}

/** @param {Pages} pages */
function durabilityText(pages) {
  const [, off, always] = STORES;
  if (off === undefined || always === undefined) throw new Error("Redis is missing");
  const [free = 0, flushed = 0] = [off, always].map((store) => withoutFingerprint(pages, store).nevertwice);
  return `nevertwice keeps ${Math.round((flushed / free) * 100)} % of its first calls on Redis when every write is flushed: ${flushed.toLocaleString("en")} instead of ${free.toLocaleString("en")} a second.`;
}

/** @param {Pages} pages */
function sourcesTable(pages) {
  const rows = SOURCES.map((name) => [
    `[bench/results/${name}.md](../bench/results/${name}.md)`,
    readCommit(textOf(pages, name)) ?? "the page names none",
  ]);
  return table(["page", "commit"], rows);
}

/**
 * @param {readonly string[]} head
 * @param {readonly (readonly string[])[]} rows
 */
function table(head, rows) {
  /** @param {readonly string[]} cells */
  const line = (cells) => `| ${cells.join(" | ")} |`;
  return [line(head), line(head.map(() => "---")), ...rows.map(line)].join("\n");
}

/**
 * @param {Pages} pages
 * @param {string} name
 */
function textOf(pages, name) {
  const text = pages[name];
  if (text === undefined) throw new Error(`bench/results/${name}.md is missing`);
  return text;
}
