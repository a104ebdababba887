/**
 * Tests docs/clients.md: real clients against every fault at every door. `npm run test:clients` runs all cells and writes the
 * page; otherwise the cells that need no half minute are compared with it.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { NevertwiceError } from "nevertwice";
import { expect, test, vi } from "vitest";
import { type PageCell, readCells, withReport } from "../../../scripts/clients/page.js";
import { createRefusals } from "../src/gateway/refusals.ts";
import { tell } from "./clients/client.ts";
import { CLIENTS, clientsAt } from "./clients/clients.ts";
import { FAULTS } from "./clients/faults/faults.ts";
import { runMatrix } from "./clients/matrix.ts";
import { toReport } from "./clients/report.ts";
import { DOORS, OUTCOME_TOKEN } from "./clients/stage.ts";
import { read, serviceOn } from "./gateway/stage.ts";

const PAGE = readFileSync(new URL("../../../docs/clients.md", import.meta.url), "utf8");
/** Where `npm run test:clients` wants its report. */
const REPORT = process.env.NEVERTWICE_CLIENTS_REPORT;
/** Twenty seconds on an idle machine, and five minutes for the whole matrix. */
const TIMEOUT_MS = 900_000;

const faults = FAULTS.filter(({ kills, isSlow }) => REPORT !== undefined || !(kills || isSlow));
const line = ({ door, fault, client, effects, told }: PageCell) =>
  `${door}, ${fault}, ${client}: ${effects} · ${told}`;

test(
  "no client is told of a success that was none, and no default makes two effects",
  async () => {
    vi.stubEnv(OUTCOME_TOKEN, "a token of the service");
    const cells = await runMatrix({ doors: DOORS, faults, clientsAt });
    expect(cells.filter(({ wrong }) => wrong !== undefined)).toEqual([]);
    if (REPORT !== undefined) {
      writeFileSync(REPORT, JSON.stringify(toReport(CLIENTS, FAULTS, cells)));
      return;
    }
    const names = new Set(faults.map(({ name }) => name));
    const onPage = readCells(PAGE, FAULTS).filter(({ fault }) => names.has(fault));
    expect(cells.map(line).sort()).toEqual(onPage.map(line).sort());
  },
  TIMEOUT_MS,
);

test.skipIf(REPORT !== undefined)(
  "the page has the setting of each client, and the version that runs",
  () => {
    const report = toReport(CLIENTS, FAULTS, readCells(PAGE, FAULTS));
    expect(PAGE, "run npm run test:clients").toBe(withReport(PAGE, report));
  },
);

const LATE = new NevertwiceError("request-timeout", "the rest of the request did not arrive in time.");
const refusals = createRefusals([
  { path: "/v1/charges", methods: ["POST"], profile: "stripe-v1" },
  { path: "/*", methods: ["POST"], profile: "ietf" },
]);

test.each(CLIENTS.map((client) => [client.name, client] as const))(
  "%s sends the request again after a 408, which says that nothing was done",
  async (_, client) => {
    let tries = 0;
    const port = await serviceOn(async (req, res) => {
      await read(req);
      tries++;
      if (tries === 1) refusals.answer(res, LATE);
      else res.setHeader("Content-Type", "application/json").end('{"id":"1"}');
    });
    const headers = { "Idempotency-Key": "k1" };
    const told = await tell(client, { url: `http://127.0.0.1:${port}`, headers, work: "work.late.1" });
    expect([told, tries]).toEqual([{ isSuccess: true, id: "1" }, 2]);
  },
);
