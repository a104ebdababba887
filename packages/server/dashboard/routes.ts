/** Finds the page for an address, with its component. The pages themselves are rows of `src/pages/dashboard-pages.ts`. */
import type { ComponentType } from "preact";
import type { CallerJson } from "../src/api/api-json.ts";
import { DASHBOARD_PAGES, type DashboardPage } from "../src/pages/dashboard-pages.ts";

/** What the component of every page gets. */
export interface PageProps {
  readonly title: string;
  /** The segments of the address that the path of the page names. */
  readonly params: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
  readonly who: CallerJson;
}

export interface PageMatch {
  readonly page: DashboardPage;
  readonly Component: ComponentType<PageProps>;
  readonly params: PageProps["params"];
}

const MODULES = import.meta.glob<{ readonly Page?: ComponentType<PageProps> }>("./pages/*.tsx", {
  eager: true,
});

/** Undefined if no page has this address. */
export function findPage(address: string): PageMatch | undefined {
  for (const page of DASHBOARD_PAGES) {
    const match = toPattern(page.path).exec(address);
    const Component = MODULES[`./pages/${page.file}.tsx`]?.Page;
    if (match !== null && Component !== undefined) return { page, Component, params: match.groups ?? {} };
  }
  return undefined;
}

function toPattern(path: string): RegExp {
  return new RegExp(`^${path.replace(/:(\w+)/g, "(?<$1>[^/]+)")}$`);
}
