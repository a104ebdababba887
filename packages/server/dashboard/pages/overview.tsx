/** The overview: rates and latency of the last minute, and which faults the store survives. */
import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import type { SnapshotJson, UndecidedJson } from "../../src/api/api-json.ts";
import type { RateName, Second } from "../../src/live.ts";
import { STOPPED } from "../../src/stopped.ts";
import { countWords, numberWords, plural, tookWords } from "../formats.ts";
import { useFeed } from "../live.ts";
import { Chart, type Series, Spark } from "../parts/chart.tsx";
import { Age } from "../parts/countdown.tsx";
import { DayCard, stoppedWords } from "../parts/day-card.tsx";
import { Head } from "../parts/head.tsx";
import { Empty, Loading } from "../parts/states.tsx";
import { StoreCard } from "../parts/store-card.tsx";
import type { PageProps } from "../routes.ts";

const RATE_SERIES: readonly (Series & { readonly rate: RateName })[] = [
  { rate: "first", name: "First runs", colour: "--accent", isFilled: true },
  { rate: "replay", name: "Replays", colour: "--busy", isFilled: true },
  { rate: "conflict", name: "Conflicts", colour: "--bad" },
  { rate: "unknown", name: "Unknown", colour: "--warn" },
];

const LATENCY_SERIES: readonly Series[] = [
  { name: "p50", colour: "--accent", isFilled: true },
  { name: "p99", colour: "--muted" },
];

const TILES: readonly {
  readonly rate: RateName;
  readonly name: string;
  readonly tone: string;
  readonly hint: string;
}[] = [
  { rate: "first", name: "First runs", tone: "good", hint: "Work that ran" },
  { rate: "replay", name: "Replays", tone: "busy", hint: "Answered from a stored outcome" },
  { rate: "alreadyDone", name: "Already done", tone: "busy", hint: "Refused, because the work is done" },
  { rate: "pending", name: "Pending", tone: "busy", hint: "Refused, because the first run goes on" },
  { rate: "conflict", name: "Conflicts", tone: "bad", hint: "A key reused for another request" },
  { rate: "wait", name: "Waits", tone: "plain", hint: "Duplicates that waited for the first run" },
];

const RECENT_SECONDS = 10;
const SPOKEN_EVERY_MS = 30_000;

export function Page({ title }: PageProps): JSX.Element {
  const { snapshot, isConnected } = useFeed();
  return (
    <div class="page">
      <Head title={title}>What this server observed in the last minute, updated every second.</Head>
      {snapshot === undefined ? (
        <section class="card">
          {isConnected ? (
            <Loading />
          ) : (
            <Empty icon="overview" title="No figures yet">
              <p>They appear as soon as the server answers.</p>
            </Empty>
          )}
        </section>
      ) : (
        <Figures snapshot={snapshot} />
      )}
      <StoreCard />
    </div>
  );
}

function Figures({ snapshot }: { readonly snapshot: SnapshotJson }): JSX.Element {
  const { seconds, inFlight, undecided } = snapshot;
  const stopped = STOPPED.reduce((sum, rate) => sum + total(seconds, rate), 0);
  return (
    <>
      <Spoken snapshot={snapshot} stopped={stopped} />
      <section class="tiles" aria-label="Numbers">
        <div class="tile is-hero">
          <h2>Duplicates stopped</h2>
          <p class="tile-number figure">{numberWords(stopped)}</p>
          <p class="tile-hint">
            in the last {plural(seconds.length, "second")}: {stoppedWords((rate) => total(seconds, rate))}
          </p>
        </div>
        <UndecidedTile undecided={undecided} />
        {TILES.map(({ rate, name, tone, hint }) => (
          <div class="tile" key={rate}>
            <h2>{name}</h2>
            <p class="tile-number figure">
              {numberWords(perSecond(seconds, rate))}
              <small>/s</small>
            </p>
            <p class="tile-hint">{hint}</p>
            <Spark values={seconds.map(({ counts }) => counts[rate])} tone={tone} />
          </div>
        ))}
        <div class="tile">
          <h2>In flight</h2>
          <p class="tile-number figure">{numberWords(inFlight)}</p>
          <p class="tile-hint">Work that this server runs now</p>
        </div>
      </section>
      <div class="split">
        <RatesCard seconds={seconds} />
        <LatencyCard seconds={seconds} />
      </div>
      <DayCard />
    </>
  );
}

/** Keys that wait for a decision now, however long ago they lapsed: a rate would show 0 while they wait. */
function UndecidedTile({ undecided }: { readonly undecided: UndecidedJson | null }): JSX.Element {
  const isWaiting = undecided !== null && undecided.count > 0;
  return (
    <div class={isWaiting ? "tile is-warn" : "tile"}>
      <h2>{isWaiting ? <a href="/unknown">Waiting decisions</a> : "Waiting decisions"}</h2>
      <p class="tile-number figure">{undecided === null ? "–" : countWords(undecided)}</p>
      <p class="tile-hint">
        {undecided === null ? (
          "The store does not count them"
        ) : undecided.oldestLapsedAt === null ? (
          "No key waits for you"
        ) : (
          <>
            The oldest for <Age at={undecided.oldestLapsedAt} />
          </>
        )}
      </p>
    </div>
  );
}

function RatesCard({ seconds }: { readonly seconds: readonly Second[] }): JSX.Element {
  const whole = seconds.slice(0, -1);
  const rows = useMemo(
    () => [
      whole.map(({ at }) => at),
      ...RATE_SERIES.map(({ rate }) => whole.map(({ counts }) => counts[rate])),
    ],
    [whole.at(-1)?.at],
  );
  return (
    <section class="card" aria-labelledby="rates">
      <div class="card-head">
        <h2 id="rates">Rates</h2>
        <Legend series={RATE_SERIES} />
      </div>
      <Chart
        label="First runs, replays, conflicts and unknown outcomes by the second"
        series={RATE_SERIES}
        rows={rows}
        height={260}
      />
    </section>
  );
}

function LatencyCard({ seconds }: { readonly seconds: readonly Second[] }): JSX.Element {
  const whole = seconds.slice(0, -1);
  const rows = useMemo(
    () => [
      whole.map(({ at }) => at),
      whole.map(({ ranMs }) => ranMs.p50),
      whole.map(({ ranMs }) => ranMs.p99),
    ],
    [whole.at(-1)?.at],
  );
  const { p50, p99 } = latency(seconds.slice(-RECENT_SECONDS));
  return (
    <section class="card" aria-labelledby="latency">
      <div class="card-head">
        <h2 id="latency">Latency of first runs</h2>
        <Legend series={LATENCY_SERIES} />
      </div>
      <dl class="pair">
        <div>
          <dt>p50</dt>
          <dd>{p50 === undefined ? "–" : tookWords(p50)}</dd>
        </div>
        <div>
          <dt>p99</dt>
          <dd>{p99 === undefined ? "–" : tookWords(p99)}</dd>
        </div>
      </dl>
      <Chart
        label="Duration that half of the first runs, and 99 % of them, did not exceed"
        series={LATENCY_SERIES}
        rows={rows}
        height={192}
        unit=" ms"
      />
    </section>
  );
}

function Legend({ series }: { readonly series: readonly Series[] }): JSX.Element {
  return (
    <ul class="legend">
      {series.map(({ name, colour }) => (
        <li key={name}>
          <span class="legend-line" style={{ background: `var(${colour})` }} aria-hidden="true" /> {name}
        </li>
      ))}
    </ul>
  );
}

/** For users of screen readers: the numbers every 30 seconds instead of every second. */
function Spoken({
  snapshot,
  stopped,
}: {
  readonly snapshot: SnapshotJson;
  readonly stopped: number;
}): JSX.Element {
  const [spoken, setSpoken] = useState({ at: 0, text: "" });
  useEffect(() => {
    const now = Date.now();
    if (now - spoken.at < SPOKEN_EVERY_MS) return;
    const runs = total(snapshot.seconds, "first");
    setSpoken({
      at: now,
      text: `Last minute: ${plural(runs, "first run")}, ${plural(stopped, "duplicate")} stopped.`,
    });
  }, [snapshot, stopped, spoken.at]);
  return (
    <p class="unseen" aria-live="polite">
      {spoken.text}
    </p>
  );
}

function total(seconds: readonly Second[], rate: RateName): number {
  return seconds.reduce((sum, { counts }) => sum + counts[rate], 0);
}

/** The average over the last whole seconds, without the current one, which is not over. */
function perSecond(seconds: readonly Second[], rate: RateName): number {
  const recent = seconds.slice(-RECENT_SECONDS - 1, -1);
  return total(recent, rate) / Math.max(1, recent.length);
}

/** The p50 of each second, weighted by how many runs ended in it; the highest p99 of all seconds. */
function latency(seconds: readonly Second[]): { readonly p50?: number; readonly p99?: number } {
  const busy = seconds.map(({ ranMs }) => ranMs).filter(({ count }) => count > 0);
  const count = busy.reduce((sum, own) => sum + own.count, 0);
  if (count === 0) return {};
  return {
    p50: busy.reduce((sum, own) => sum + own.p50 * own.count, 0) / count,
    p99: Math.max(...busy.map(({ p99 }) => p99)),
  };
}
