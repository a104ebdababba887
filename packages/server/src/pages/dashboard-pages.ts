/**
 * Every page of the dashboard, one row each. The server registers the paths, and the dashboard takes the titles, the
 * navigation and the components from the same rows. To add a page, add a row and the file that it names.
 */

export interface DashboardPage {
  /** The address; `:id` matches one segment, which the component gets in `params`. */
  readonly path: string;
  /** The heading of the page and the title of its browser tab. */
  readonly title: string;
  /** Its entry in the navigation; a page without one is reached by links. */
  readonly nav?: {
    readonly name: string;
    readonly icon: "overview" | "keys" | "unknown" | "holds" | "outbox" | "pipelines" | "audit";
  };
  /** Its component: the export `Page` of `dashboard/pages/FILE.tsx`. */
  readonly file: string;
}

export const DASHBOARD_PAGES: readonly DashboardPage[] = [
  { path: "/", title: "Overview", nav: { name: "Overview", icon: "overview" }, file: "overview" },
  { path: "/keys", title: "Keys", nav: { name: "Keys", icon: "keys" }, file: "keys" },
  { path: "/keys/:id", title: "Key", file: "key" },
  { path: "/unknown", title: "Unknown outcomes", nav: { name: "Unknown", icon: "unknown" }, file: "unknown" },
  { path: "/holds", title: "Holds", nav: { name: "Holds", icon: "holds" }, file: "holds" },
  { path: "/outbox", title: "Outbox", nav: { name: "Outbox", icon: "outbox" }, file: "outbox" },
  {
    path: "/pipelines",
    title: "Pipelines",
    nav: { name: "Pipelines", icon: "pipelines" },
    file: "pipelines",
  },
  { path: "/pipelines/:network", title: "Pipeline", file: "pipeline" },
  { path: "/pipelines/:network/journeys/:number", title: "Journey", file: "journey" },
  { path: "/audit", title: "Audit", nav: { name: "Audit", icon: "audit" }, file: "audit" },
];
