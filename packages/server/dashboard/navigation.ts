/** The address of the page. It holds all state of a view, so that a link to it shows the same view to a colleague. */
import { useEffect, useState } from "preact/hooks";

export interface PageLocation {
  readonly path: string;
  readonly query: URLSearchParams;
}

function currentLocation(): PageLocation {
  return { path: location.pathname, query: new URLSearchParams(location.search) };
}

export function navigate(address: string, how: "push" | "replace" = "push"): void {
  if (how === "push") history.pushState(null, "", address);
  else history.replaceState(null, "", address);
  window.dispatchEvent(new Event("placechange"));
}

/** The address of a view with these filters, of which the empty ones are left out. */
export function filteredAddress(path: string, filters: object): string {
  const given = Object.entries(filters).filter(([, value]) => value !== "");
  const search = new URLSearchParams(given).toString();
  return search === "" ? path : `${path}?${search}`;
}

export function usePageLocation(): PageLocation {
  const [place, setPlace] = useState(currentLocation);
  useEffect(() => {
    const moved = () => setPlace(currentLocation());
    window.addEventListener("popstate", moved);
    window.addEventListener("placechange", moved);
    document.addEventListener("click", onClick);
    return () => {
      window.removeEventListener("popstate", moved);
      window.removeEventListener("placechange", moved);
      document.removeEventListener("click", onClick);
    };
  }, []);
  return place;
}

/** A plain click on a link of the dashboard changes the view; the browser handles all other clicks. */
function onClick(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey)
    return;
  const link = (event.target as Element | null)?.closest?.("a[href]");
  if (!(link instanceof HTMLAnchorElement) || link.origin !== location.origin) return;
  if (link.target !== "" || link.hasAttribute("download") || link.pathname.startsWith("/v1/")) return;
  if (link.hash !== "" && link.pathname === location.pathname) return;
  event.preventDefault();
  navigate(link.pathname + link.search);
  scrollTo(0, 0);
}
