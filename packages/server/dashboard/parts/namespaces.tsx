/** The other namespaces that have keys, for callers that see the whole server. */
import type { JSX } from "preact";
import type { NamespacePageJson } from "../../src/api/api-json.ts";
import { useLoaded } from "../load-state.ts";
import { get } from "../server.ts";

export function OtherNamespaces({ own }: { readonly own: string }): JSX.Element | null {
  const { value } = useLoaded(() => get<NamespacePageJson>("/v1/namespaces"), "namespaces");
  const others = value?.namespaces.filter((name) => name !== own) ?? [];
  if (others.length === 0) return null;
  return (
    <p class="muted">
      These are the keys of the namespace {own}. Other namespaces have keys, too; a token of theirs shows
      them: {others.join(", ")}
      {value?.next !== null && " and others"}.
    </p>
  );
}
