/** Starts a private Prometheus that scrapes one target every second and evaluates rules as often. */
import { copyFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { find } from "./packages.ts";
import { type Server, startServer } from "./server.ts";

export interface PrometheusOptions {
  /** Host and port of the target. */
  readonly target: string;
  readonly job: string;
  /** A file with rules. */
  readonly rules: string;
}

export function startPrometheus({ target, job, rules }: PrometheusOptions): Promise<Server> {
  const program = find("prometheus");
  return startServer({
    name: "prometheus",
    ready: /Server is ready to receive web requests/,
    url: ({ port }) => `http://127.0.0.1:${port}`,
    command: ({ folder, port }) => [
      program,
      `--config.file=${join(folder, "prometheus.yml")}`,
      `--storage.tsdb.path=${join(folder, "data")}`,
      `--web.listen-address=127.0.0.1:${port}`,
    ],
    async prepare({ folder }) {
      await copyFile(rules, join(folder, "rules.yaml"));
      await writeFile(join(folder, "prometheus.yml"), configuration(target, job));
    },
  });
}

function configuration(target: string, job: string): string {
  return [
    "global: { scrape_interval: 1s, evaluation_interval: 1s }",
    "rule_files: [rules.yaml]",
    "scrape_configs:",
    `  - job_name: ${job}`,
    "    static_configs:",
    `      - targets: ["${target}"]`,
    "",
  ].join("\n");
}
