/** Where somebody is: the address is the state, so that every view can be sent to a colleague. */
import { useEffect, useState } from "preact/hooks";

export interface Place {
  readonly path: string;
  readonly query: URLSearchParams;
}

function here(): Place {
  return { path: location.pathname, query: new URLSearchParams(location.search) };
}

export function go(address: string, how: "push" | "replace" = "push"): void {
  if (how === "push") history.pushState(null, "", address);
  else history.replaceState(null, "", address);
  window.dispatchEvent(new Event("placechange"));
}

export function usePlace(): Place {
  const [place, setPlace] = useState(here);
  useEffect(() => {
    const moved = () => setPlace(here());
    window.addEventListener("popstate", moved);
    window.addEventListener("placechange", moved);
    document.addEventListener("click", followed);
    return () => {
      window.removeEventListener("popstate", moved);
      window.removeEventListener("placechange", moved);
      document.removeEventListener("click", followed);
    };
  }, []);
  return place;
}

/** A plain click on a link of ours changes the view; everything else is the browser's. */
function followed(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey)
    return;
  const link = (event.target as Element | null)?.closest?.("a[href]");
  if (!(link instanceof HTMLAnchorElement) || link.origin !== location.origin) return;
  if (link.target !== "" || link.hasAttribute("download") || link.pathname.startsWith("/v1/")) return;
  if (link.hash !== "" && link.pathname === location.pathname) return;
  event.preventDefault();
  go(link.pathname + link.search);
  scrollTo(0, 0);
}
