/** The page of the outbox: messages that are not delivered yet, why, and what an operator can do about them. */
import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import type { MessageJson, MessagePageJson, OutboxFiguresJson } from "../../src/api/api-json.ts";
import { durationWords, numberWords } from "../formats.ts";
import { useLoaded } from "../load-state.ts";
import { filteredAddress, navigate } from "../navigation.ts";
import { type LoadedPage, usePages } from "../paging.ts";
import { Badge } from "../parts/badge.tsx";
import { Age, Countdown } from "../parts/countdown.tsx";
import { Head } from "../parts/head.tsx";
import { ICONS } from "../parts/icons.tsx";
import { MessageDialog, type MessageVerb } from "../parts/message-action.tsx";
import { More } from "../parts/more.tsx";
import { StateFilter } from "../parts/state-filter.tsx";
import { Empty, Failed, Shown } from "../parts/states.tsx";
import type { PageProps } from "../routes.ts";
import { ApiError, get, serverNow } from "../server.ts";

const EVERY_MS = 5_000;
const STATES: readonly MessageJson["state"][] = ["waiting", "delivering", "behind", "parked"];

interface Filters {
  readonly state: string;
  readonly key: string;
}

async function listMessages(filters: Filters, after?: string): Promise<LoadedPage<MessageJson>> {
  const { messages, next } = await get<MessagePageJson>("/v1/outbox", { ...filters, after });
  return { rows: messages, next: next ?? undefined };
}

export function Page({ title, query, who }: PageProps): JSX.Element {
  const filters = { state: query.get("state") ?? "", key: query.get("key") ?? "" };
  const figures = useLoaded(() => get<OutboxFiguresJson>("/v1/outbox/figures"), "figures", EVERY_MS);
  const pages = usePages((after) => listMessages(filters, after), JSON.stringify(filters), EVERY_MS);
  const [asked, setAsked] = useState<{ readonly message: MessageJson; readonly verb: MessageVerb }>();
  const [notice, setNotice] = useState<string>();
  const canAct = who.roles.includes("operator");
  const { error } = figures;
  const isFiltered = Object.values(filters).some((value) => value !== "");
  return (
    <div class="page">
      <Head title={title}>Messages that the application committed and that are not delivered yet.</Head>
      <div role="status">{notice !== undefined && <p class="notice is-good">{notice}</p>}</div>
      {figures.value === undefined && error !== undefined ? (
        <section class="card">
          {error instanceof ApiError && error.code === "not-supported" ? (
            <Empty icon="outbox" title="This store has no outbox">
              <p>{error.message}</p>
            </Empty>
          ) : (
            <Failed error={error} retry={figures.reload} />
          )}
        </section>
      ) : (
        <>
          <Shown loaded={figures}>{(value) => <Tiles figures={value} />}</Shown>
          <FilterBar filters={filters} />
          <section class="card table-box" aria-label="Messages">
            <Shown loaded={pages.loaded}>
              {(first) => {
                const { rows, next } = pages.rowsAfter(first);
                return (
                  <>
                    {rows.length === 0 ? (
                      <NoMessages isFiltered={isFiltered} hasMore={next !== undefined} />
                    ) : (
                      <MessageTable
                        rows={rows}
                        hasLinks={canAct}
                        {...(canAct && { act: (message, verb) => setAsked({ message, verb }) })}
                      />
                    )}
                    <More pages={pages} next={next} />
                  </>
                );
              }}
            </Shown>
          </section>
        </>
      )}
      {asked !== undefined && (
        <MessageDialog
          {...asked}
          onClose={() => setAsked(undefined)}
          onDone={(text) => {
            setNotice(text);
            pages.restart();
            figures.reload();
          }}
        />
      )}
    </div>
  );
}

function Tiles({ figures }: { readonly figures: OutboxFiguresJson }): JSX.Element {
  const { waiting, due, delivering, behind, parked, oldestMs, countedUpTo } = figures;
  const counted = (count: number) => `${numberWords(count)}${count >= countedUpTo ? "+" : ""}`;
  return (
    <section class="tiles is-four" aria-label="Numbers">
      <Tile name="Waiting" hint={`${counted(due)} due now, ${counted(delivering)} being delivered`}>
        {counted(waiting)}
      </Tile>
      <Tile name="Behind" hint="An older message comes first">
        {counted(behind)}
      </Tile>
      <Tile
        name="Parked"
        hint={parked === 0 ? "Nothing waits for a decision" : "Wait for your decision"}
        isBad={parked > 0}
      >
        {counted(parked)}
      </Tile>
      <Tile name="Oldest" hint="Neither parked nor behind another">
        {oldestMs === null ? "–" : durationWords(oldestMs)}
      </Tile>
    </section>
  );
}

function Tile(props: {
  readonly name: string;
  readonly hint: string;
  readonly isBad?: boolean;
  readonly children: ComponentChildren;
}): JSX.Element {
  return (
    <div class="tile">
      <h2>{props.name}</h2>
      <p class={props.isBad === true ? "tile-number figure is-bad" : "tile-number figure"}>
        {props.children}
      </p>
      <p class="tile-hint">{props.hint}</p>
    </div>
  );
}

function FilterBar({ filters }: { readonly filters: Filters }): JSX.Element {
  return (
    <search class="row">
      <StateFilter states={STATES} chosen={filters.state} choose={(state) => choose({ ...filters, state })} />
      {filters.key !== "" && (
        <button type="button" class="button" onClick={() => choose({ ...filters, key: "" })}>
          Key {filters.key} {ICONS.no}
        </button>
      )}
    </search>
  );
}

function toAddress(filters: Partial<Filters>): string {
  return filteredAddress("/outbox", filters);
}

function choose(filters: Filters): void {
  navigate(toAddress(filters), "replace");
}

function NoMessages(props: { readonly isFiltered: boolean; readonly hasMore: boolean }): JSX.Element {
  if (props.hasMore)
    return (
      <Empty icon="search" title="No match so far">
        <p>None of the messages that were searched match. More of them are left to search.</p>
      </Empty>
    );
  if (props.isFiltered)
    return (
      <Empty icon="search" title="No matching messages">
        <p>No undelivered message matches.</p>
        <button type="button" class="button" onClick={() => navigate("/outbox", "replace")}>
          Show all messages
        </button>
      </Empty>
    );
  return (
    <Empty icon="yes" title="Everything is delivered">
      <p>
        A message appears here when the application commits the transaction that wrote it, and disappears when
        a relay has delivered it.
      </p>
    </Empty>
  );
}

function MessageTable(props: {
  readonly rows: readonly MessageJson[];
  /** Whether a key leads to the other messages of that key. */
  readonly hasLinks: boolean;
  readonly act?: (message: MessageJson, verb: MessageVerb) => void;
}): JSX.Element {
  return (
    <table class="table is-stacking is-tight">
      <thead>
        <tr>
          <th scope="col">Topic and key</th>
          <th scope="col">State</th>
          <th scope="col" class="is-number">
            Age
          </th>
          <th scope="col" class="is-number">
            Attempts
          </th>
          <th scope="col" class="is-number">
            Next try
          </th>
          <th scope="col">Last error</th>
          {props.act !== undefined && (
            <th scope="col">
              <span class="unseen">Actions</span>
            </th>
          )}
        </tr>
      </thead>
      <tbody>
        {props.rows.map((message) => (
          <MessageRow key={message.id} message={message} hasLinks={props.hasLinks} act={props.act} />
        ))}
      </tbody>
    </table>
  );
}

function MessageRow(props: {
  readonly message: MessageJson;
  readonly hasLinks: boolean;
  readonly act: ((message: MessageJson, verb: MessageVerb) => void) | undefined;
}): JSX.Element {
  const { message, act } = props;
  const { topic, key, state, createdAt, attempts, lastError } = message;
  return (
    <tr>
      <td data-name="Topic and key">
        <div class="two-lines">
          <span title={topic}>{topic}</span>
          {key !== null &&
            (props.hasLinks ? (
              <a class="is-code" href={toAddress({ key })} title={key}>
                {key}
              </a>
            ) : (
              <span class="is-code">{key}</span>
            ))}
        </div>
      </td>
      <td data-name="State">
        <Badge state={state} />
      </td>
      <td data-name="Age" class="is-number">
        <Age at={createdAt} />
      </td>
      <td data-name="Attempts" class="is-number">
        {attempts}
      </td>
      <td data-name="Next try" class={state === "waiting" ? "is-number" : "is-number is-blank"}>
        <NextTry message={message} />
      </td>
      <td
        data-name="Last error"
        class={lastError === null ? "is-long is-blank" : "is-long"}
        title={lastError ?? undefined}
      >
        <span class="clamped">{lastError ?? "–"}</span>
      </td>
      {act !== undefined && (
        <td class="table-actions">
          <div class="row">
            {VERBS[state].map((verb) => (
              <button
                key={verb}
                type="button"
                class="button is-small"
                aria-label={`${NAMES[verb]}… ${key ?? topic}`}
                onClick={() => act(message, verb)}
              >
                {NAMES[verb]}…
              </button>
            ))}
          </div>
        </td>
      )}
    </tr>
  );
}

/** What can be done about a message. One that is being delivered cannot be changed. */
const VERBS: Readonly<Record<MessageJson["state"], readonly MessageVerb[]>> = {
  waiting: ["retry", "park", "discard"],
  behind: ["park", "discard"],
  delivering: [],
  parked: ["retry", "discard"],
};
const NAMES: Readonly<Record<MessageVerb, string>> = { retry: "Retry", park: "Park", discard: "Discard" };

function NextTry({ message: { state, dueAt } }: { readonly message: MessageJson }): JSX.Element {
  if (state !== "waiting") return <>–</>;
  if (dueAt === null) return <>now</>;
  return <Countdown until={Date.now() + (dueAt - serverNow())} over="now" />;
}
