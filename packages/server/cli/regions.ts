/** `nevertwice regions`: the map of homes in the stores of all regions, and moves of owners between them. */
import type { Store } from "nevertwice";
import { durationMs } from "nevertwice/env";
import { type HomeMap, homeIn, REGION_NAME } from "../src/regions/home-map.ts";
import { createHomeMapLogs, type HomeMapLogs } from "../src/regions/home-map-logs.ts";
import { moveScope, thawScope } from "../src/regions/scope-move.ts";
import {
  type Command,
  type CommandCall,
  type CommandResult,
  type Flags,
  JSON_FLAG,
  Refused,
  UsageError,
} from "./command.ts";
import { requireExistingFile } from "./existing-file.ts";
import { CONFIG_FLAG, configFrom, settingsFlags } from "./settings-flags.ts";
import { paint, plain, table } from "./terminal.ts";

const FLAGS: Flags = {
  "region-store": { value: "NAME=URL", what: "the store of a region; once for every region", many: true },
  ...JSON_FLAG,
};
const SCOPE_FLAG: Flags = {
  scope: { value: "SCOPE", what: "the owner, as lists and the dashboard show it" },
};

export const regionsCommand: Command = {
  summary: "say which region is the home of which owner, and move owners",
  actions: {
    init: {
      summary: "Publishes the first home map: every owner has its home in one region.",
      flags: { default: { value: "NAME", what: "the home of every owner" }, ...FLAGS },
      run: init,
    },
    show: {
      summary: "Prints the newest home map, and copies it to stores that lack it.",
      flags: FLAGS,
      run: show,
    },
    move: {
      summary:
        "Moves an owner with its keys to another region. Running it again continues an interrupted move.",
      flags: {
        ...SCOPE_FLAG,
        to: { value: "NAME", what: "the new home" },
        wait: { value: "DURATION", what: "how long to wait for requests that run", default: "2m" },
        ...settingsFlags(["namespace"]),
        ...CONFIG_FLAG,
        ...FLAGS,
      },
      showsProgress: true,
      run: move,
    },
    thaw: {
      summary: "Gives up a move: the old home runs the owner's requests again.",
      flags: { ...SCOPE_FLAG, ...FLAGS },
      run: thaw,
    },
  },
};

interface RegionStores {
  readonly stores: ReadonlyMap<string, Store>;
  readonly logs: HomeMapLogs;
}

async function init(call: CommandCall): Promise<CommandResult> {
  const region = requireText(call, "default");
  return withStores(call, async ({ stores, logs }) => {
    if (!stores.has(region)) throw new UsageError(`--default ${region} is not a region of --region-store.`);
    const known = await logs.newest();
    if (known !== undefined)
      throw new Refused("conflict", `the stores have version ${known.version} of a home map already.`);
    const map: HomeMap = { version: 1, default: region, homes: {}, frozen: {} };
    await logs.publish(map);
    return { data: map, lines: mapLines(map) };
  });
}

function show(call: CommandCall): Promise<CommandResult> {
  return withStores(call, async ({ logs }) => {
    const map = await logs.newest();
    if (map === undefined)
      throw new Refused("not-found", "there is no home map; publish one with `nevertwice regions init`.");
    return { data: map, lines: mapLines(map) };
  });
}

function move(call: CommandCall): Promise<CommandResult> {
  const [scope, to] = [requireText(call, "scope"), requireText(call, "to")];
  const waitMs = durationMs("--wait", call.text("wait") as string);
  const { namespace } = configFrom(call);
  return withStores(call, async ({ stores, logs }) => {
    const report = await moveScope({ logs, stores, namespace, scope, to, waitMs });
    const { from, copied, alreadyThere, version } = report;
    return {
      data: { scope, ...report },
      lines: [
        `${copied} records copied, ${alreadyThere} were there`,
        `${paint("green", "moved")} ${plain(scope)} from ${from} to ${to}, in version ${version} of the home map`,
      ],
    };
  });
}

function thaw(call: CommandCall): Promise<CommandResult> {
  const scope = requireText(call, "scope");
  return withStores(call, async ({ logs }) => {
    const { region, version } = await thawScope({ logs, scope });
    const told = `${region} runs the requests of ${plain(scope)} again, in version ${version} of the home map`;
    return { data: { scope, region, version }, lines: [told] };
  });
}

function mapLines(map: HomeMap): readonly string[] {
  const scopes = [...new Set([...Object.keys(map.homes), ...Object.keys(map.frozen)])].sort();
  const rows = scopes.map((scope) => {
    const { region, movesTo } = homeIn(map, scope);
    return [scope, region, movesTo === undefined ? "" : `moves to ${movesTo}; no region runs its requests`];
  });
  return [
    `version ${map.version}: the home is ${map.default}${rows.length === 0 ? "" : ", except for"}`,
    ...(rows.length === 0 ? [] : table(["scope", "home", ""], rows)),
  ];
}

function requireText(call: CommandCall, flag: string): string {
  const text = call.text(flag);
  if (!text) throw new UsageError(`--${flag} is missing.`);
  return text;
}

async function withStores(
  call: CommandCall,
  work: (opened: RegionStores) => Promise<CommandResult>,
): Promise<CommandResult> {
  const urls = readStores(call);
  const { openStore } = await import("nevertwice/stores/open");
  const stores = new Map<string, Store>();
  try {
    for (const [name, url] of urls) stores.set(name, await openStore(url));
    const logs = createHomeMapLogs(stores);
    try {
      return await work({ stores, logs });
    } finally {
      await logs.close();
    }
  } finally {
    await Promise.all([...stores.values()].map((store) => store.close()));
  }
}

function readStores(call: CommandCall): ReadonlyMap<string, string> {
  const given = [call.given("region-store") ?? []].flat();
  const urls = new Map<string, string>();
  for (const entry of given) {
    const [, name = "", url = ""] = /^([^=]*)=(.+)$/.exec(entry) ?? [];
    if (!REGION_NAME.test(name) || urls.has(name))
      throw new UsageError(
        "--region-store needs NAME=URL, with each region once: --region-store eu=postgres://…",
      );
    requireExistingFile(url);
    urls.set(name, url);
  }
  if (urls.size < 2) throw new UsageError("--region-store is missing: name the store of every region.");
  return urls;
}
