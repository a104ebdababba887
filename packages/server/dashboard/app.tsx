/** The frame of the dashboard: who is there, where they are, and what that page is. */
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { openFeed, useFeed } from "./live.ts";
import { AuditPage } from "./pages/audit.tsx";
import { ErrorPage } from "./pages/error.tsx";
import { HoldsPage } from "./pages/holds.tsx";
import { KeyPage } from "./pages/key.tsx";
import { KeysPage } from "./pages/keys.tsx";
import { LoginPage } from "./pages/login.tsx";
import { NotFoundPage } from "./pages/not-found.tsx";
import { OverviewPage } from "./pages/overview.tsx";
import { UnknownPage } from "./pages/unknown.tsx";
import { AccessCommand } from "./parts/access-command.tsx";
import { ICONS, type IconName, Mark } from "./parts/icons.tsx";
import { Failed, Loading } from "./parts/states.tsx";
import { type Place, usePlace } from "./place.ts";
import { closeSession, loadSession, type Session, type Who, whenSessionEnds } from "./server.ts";
import { chooseTheme, chosenTheme, type Theme } from "./theme.ts";

const NAV: readonly { readonly path: string; readonly name: string; readonly icon: IconName }[] = [
  { path: "/", name: "Overview", icon: "overview" },
  { path: "/keys", name: "Keys", icon: "keys" },
  { path: "/unknown", name: "Unknown", icon: "unknown" },
  { path: "/holds", name: "Holds", icon: "holds" },
  { path: "/audit", name: "Audit", icon: "audit" },
];

const THEMES: readonly { readonly theme: Theme; readonly name: string }[] = [
  { theme: "light", name: "Light" },
  { theme: "dark", name: "Dark" },
  { theme: "system", name: "As the system" },
];

const KEY = /^\/keys\/[^/]+$/;

function isPage(path: string): boolean {
  return NAV.some((item) => item.path === path) || KEY.test(path);
}

/** Whose tokens the pages are for. */
const LOOKERS = ["operator", "auditor"];

export function App(): JSX.Element {
  const [session, setSession] = useState<Session>();
  const [error, setError] = useState<Error>();
  const place = usePlace();

  function load(): void {
    setError(undefined);
    loadSession().then(setSession, setError);
  }

  useEffect(() => {
    load();
    return whenSessionEnds(load);
  }, []);

  if (place.path.startsWith("/errors/")) return <ErrorPage code={place.path.slice("/errors/".length)} />;
  if (!isPage(place.path)) return <NotFoundPage path={place.path} pages={NAV} />;
  if (session === undefined)
    return (
      <main class="gate">
        {error === undefined ? <Loading lines={3} /> : <Failed error={error} retry={load} />}
      </main>
    );
  if (session.caller === null) return <LoginPage onOpen={setSession} />;
  if (!session.caller.roles.some((role) => LOOKERS.includes(role)))
    return <NotForServices who={session.caller} onLeave={setSession} />;
  return <Frame place={place} session={session} who={session.caller} onLeave={setSession} />;
}

function Frame(props: {
  readonly place: Place;
  readonly session: Session;
  readonly who: Who;
  readonly onLeave: (session: Session) => void;
}): JSX.Element {
  const { place, who } = props;
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
            <View place={place} who={who} />
          </main>
        </div>
      </div>
    </>
  );
}

function NotForServices(props: {
  readonly who: Who;
  readonly onLeave: (session: Session) => void;
}): JSX.Element {
  return (
    <main class="gate">
      <div class="card">
        <Mark />
        <h1>Not for services</h1>
        <p class="muted">
          The token {props.who.name} is a service's. The dashboard is for operators and auditors. This command
          creates a token for one:
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

function leave(onLeave: (session: Session) => void): void {
  closeSession().then(onLeave, () => location.reload());
}

function View({ place: { path, query }, who }: { readonly place: Place; readonly who: Who }): JSX.Element {
  if (path === "/keys") return <KeysPage query={query} />;
  if (KEY.test(path)) return <KeyPage key={path} id={path.slice("/keys/".length)} who={who} />;
  if (path === "/unknown") return <UnknownPage who={who} />;
  if (path === "/holds") return <HoldsPage />;
  if (path === "/audit") return <AuditPage />;
  return <OverviewPage />;
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
            </a>
          </li>
        ))}
      </ul>
    </nav>
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
  readonly who: Who;
  readonly canLeave: boolean;
  readonly onLeave: (session: Session) => void;
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

/** After a move, whoever reads by ear starts at the new page's heading. */
function useFocus(path: string): void {
  const first = useRef(true);
  useEffect(() => {
    const heading = document.querySelector<HTMLElement>("main h1");
    document.title = heading === null ? "nevertwice" : `${heading.textContent} · nevertwice`;
    if (!first.current) heading?.focus({ preventScroll: true });
    first.current = false;
  }, [path]);
}
