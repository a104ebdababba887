/** What the page says of each client and fault: the version that ran, and the lines of its program that set it up. */
import { readFileSync } from "node:fs";
import type { PageCell } from "../../../../scripts/clients/page.js";
import type { Client } from "./client.ts";
import type { Fault } from "./faults/fault.ts";

export interface ClientReport {
  readonly clients: readonly {
    readonly name: string;
    readonly version: string;
    readonly route: string;
    readonly needs: string;
    /** The language and the lines of its setting. */
    readonly setting: { readonly language: string; readonly text: string };
  }[];
  readonly faults: readonly { readonly name: string; readonly title: string; readonly says: string }[];
  readonly cells: readonly PageCell[];
}

const MODULES = new URL("../../../../node_modules/", import.meta.url);

export function toReport(
  clients: readonly Client[],
  faults: readonly Fault[],
  cells: readonly PageCell[],
): ClientReport {
  return {
    clients: clients.map(({ name, packages, version, program, route, needs }) => ({
      name,
      version: version ?? packages.map(readVersion).join(" + "),
      route,
      needs,
      setting: readSetting(program),
    })),
    faults: faults.map(({ name, title, says }) => ({ name, title, says })),
    cells,
  };
}

function readVersion(name: string): string {
  const { version } = JSON.parse(readFileSync(new URL(`${name}/package.json`, MODULES), "utf8")) as {
    readonly version: string;
  };
  return version;
}

function readSetting(program: string) {
  const found = /^( *)(\/\/|#) setting\n([\s\S]+?)\n *\2 end of setting$/m.exec(
    readFileSync(new URL(program), "utf8"),
  );
  if (found === null) throw new Error(`${program} has no lines between "setting" and "end of setting"`);
  const [, indent = "", mark, lines = ""] = found;
  const text = lines
    .replaceAll(new RegExp(`^${indent}`, "gm"), "")
    .replaceAll("\\\\\n", "\\\n")
    .replaceAll("\\$", "$");
  return { language: mark === "#" ? "sh" : "js", text };
}
