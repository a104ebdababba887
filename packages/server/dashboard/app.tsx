/** The frame of the dashboard: it signs the user in, shows the navigation, and renders the page of the address. */
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { CallerJson, SessionJson } from "../src/api/api-json.ts";
import { DASHBOARD_PAGES } from "../src/pages/dashboard-pages.ts";
import { countWords } from "./formats.ts";
import { openFeed, useFeed } from "./live.ts";
import { type PageLocation, usePageLocation } from "./navigation.ts";
import { ErrorPage } from "./pages/error.tsx";
import { LoginPage } from "./pages/login.tsx";
import { NotFoundPage } from "./pages/not-found.tsx";
import { AccessCommand } from "./parts/access-command.tsx";
import { ICONS, Mark } from "./parts/icons.tsx";
import { Failed, Loading } from "./parts/states.tsx";
import { findPage, type PageMatch } from "./routes.ts";
import { closeSession, loadSession, whenSessionEnds } from "./server.ts";
import { chooseTheme, chosenTheme, type Theme } from "./theme.ts";

const NAV = DASHBOARD_PAGES.flatMap(({ path, nav }) => (nav === undefined ? [] : [{ path, ...nav }]));

const THEMES: readonly { readonly theme: Theme; readonly name: string }[] = [
  { theme: "light", name: "Light" },
  { theme: "dark", name: "Dark" },
  { theme: "system", name: "Same as the system" },
];

/** The roles that may use the dashboard. */
const DASHBOARD_ROLES = ["operator", "auditor"];

export function App(): JSX.Element {
  const [session, setSession] = useState<SessionJson>();
  const [error, setError] = useState<Error>();
  const place = usePageLocation();

  function load(): void {
    setError(undefined);
    loadSession().then(setSession, setError);
  }

  useEffect(() => {
    load();
    return whenSessionEnds(load);
  }, []);

  if (place.path.startsWith("/errors/")) return <ErrorPage code={place.path.slice("/errors/".length)} />;
  const match = findPage(place.path);
  if (match === undefined) return <NotFoundPage path={place.path} pages={NAV} />;
  if (session === undefined)
    return (
      <main class="gate">
        {error === undefined ? <Loading lines={3} /> : <Failed error={error} retry={load} />}
      </main>
    );
  if (session.caller === null) return <LoginPage onOpen={setSession} />;
  if (!session.caller.roles.some((role) => DASHBOARD_ROLES.includes(role)))
    return <NotForServices who={session.caller} onLeave={setSession} />;
  return <Frame place={place} match={match} session={session} who={session.caller} onLeave={setSession} />;
}

function Frame(props: {
  readonly place: PageLocation;
  readonly match: PageMatch;
  readonly session: SessionJson;
  readonly who: CallerJson;
  readonly onLeave: (session: SessionJson) => void;
}): JSX.Element {
  const { place, who } = props;
  const { page, Component, params } = props.match;
  useEffect(openFeed, []);
  useFocus(place.path);
  return (
    <>
      <a class="skip" href="#main">
        Skip to the page
      </a>
      <div class="frame">
        <header class="side">
          <a class="brand" href="/">
            <Mark /> nevertwice
          </a>
          <Nav path={place.path} />
          <div class="side-foot">
            <ThemeChoice />
            <WhoIs who={who} canLeave={props.session.needed} onLeave={props.onLeave} />
          </div>
        </header>
        <div class="body">
          <Connection />
          <main class="main" id="main" tabIndex={-1}>
            <Component key={place.path} title={page.title} params={params} query={place.query} who={who} />
          </main>
        </div>
      </div>
    </>
  );
}

function NotForServices(props: {
  readonly who: CallerJson;
  readonly onLeave: (session: SessionJson) => void;
}): JSX.Element {
  return (
    <main class="gate">
      <div class="card">
        <Mark />
        <h1>Not for services</h1>
        <p class="muted">
          The token {props.who.name} has the role service. The dashboard is for operators and auditors. This
          command creates a token for an operator:
        </p>
        <AccessCommand />
        <form onSubmit={(event) => event.preventDefault()}>
          <button type="button" class="button is-main" onClick={() => leave(props.onLeave)}>
            Sign out
          </button>
        </form>
      </div>
    </main>
  );
}

function leave(onLeave: (session: SessionJson) => void): void {
  closeSession().then(onLeave, () => location.reload());
}

function Nav({ path }: { readonly path: string }): JSX.Element {
  const isHere = (own: string) => (own === "/" ? path === "/" : path.startsWith(own));
  return (
    <nav class="nav" aria-label="Pages">
      <ul>
        {NAV.map((item) => (
          <li key={item.path}>
            <a href={item.path} aria-current={isHere(item.path) ? "page" : undefined}>
              {ICONS[item.icon]} {item.name}
              {item.path === "/unknown" && <Waiting />}
            </a>
          </li>
        ))}
      </ul>
    </nav>
  );
}

/** How many keys wait for a decision, from the live figures. */
function Waiting(): JSX.Element | null {
  const undecided = useFeed().snapshot?.undecided;
  if (!undecided || undecided.count === 0) return null;
  return (
    <span class="nav-count figure" title={`${countWords(undecided)} waiting for a decision`}>
      {countWords(undecided)}
      <span class="unseen"> waiting for a decision</span>
    </span>
  );
}

function ThemeChoice(): JSX.Element {
  const [theme, setTheme] = useState(chosenTheme);
  return (
    <fieldset class="themes">
      <legend class="unseen">Colours</legend>
      {THEMES.map((choice) => (
        <button
          key={choice.theme}
          type="button"
          aria-label={choice.name}
          title={choice.name}
          aria-pressed={theme === choice.theme}
          onClick={() => {
            chooseTheme(choice.theme);
            setTheme(choice.theme);
          }}
        >
          {ICONS[choice.theme]}
        </button>
      ))}
    </fieldset>
  );
}

function WhoIs(props: {
  readonly who: CallerJson;
  readonly canLeave: boolean;
  readonly onLeave: (session: SessionJson) => void;
}): JSX.Element {
  const { who, canLeave, onLeave } = props;
  return (
    <div class="who">
      <div>
        <div class="who-name">{who.name}</div>
        <div class="who-role muted">
          {who.roles.length > 1 ? "all roles" : who.roles[0]} · {who.namespace}
        </div>
      </div>
      {canLeave && (
        <button
          type="button"
          class="button is-quiet"
          aria-label="Sign out"
          title="Sign out"
          onClick={() => leave(onLeave)}
        >
          {ICONS.leave}
        </button>
      )}
    </div>
  );
}

function Connection(): JSX.Element {
  const { isConnected } = useFeed();
  return (
    <div role="status">
      {!isConnected && (
        <p class="banner">
          <span class="pulse" aria-hidden="true" /> The server does not answer. Reconnecting…
        </p>
      )}
    </div>
  );
}

/** After a navigation, moves the focus to the heading, so that screen readers start at the new page. */
function useFocus(path: string): void {
  const first = useRef(true);
  useEffect(() => {
    const heading = document.querySelector<HTMLElement>("main h1");
    document.title = heading === null ? "nevertwice" : `${heading.textContent} · nevertwice`;
    if (!first.current) heading?.focus({ preventScroll: true });
    first.current = false;
  }, [path]);
}
