/** The operation that a GraphQL request selects, and its root fields. The types contain only the members that are used here. */

interface Named {
  readonly value: string;
}

interface SelectionNode {
  readonly kind: string;
  readonly name?: Named;
  readonly alias?: Named | undefined;
  readonly selectionSet?: SelectionSetNode | undefined;
}

interface SelectionSetNode {
  readonly selections: readonly SelectionNode[];
}

interface DefinitionNode {
  readonly kind: string;
  /** `query`, `mutation` or `subscription`; undefined for a fragment. */
  readonly operation?: string;
  readonly name?: Named | undefined;
  readonly selectionSet?: SelectionSetNode;
}

export interface DocumentNode {
  readonly definitions: readonly unknown[];
  readonly loc?: { readonly source: { readonly body: string } } | undefined;
}

/** A mutation, and the names of its root fields in their order. */
export interface Mutation {
  readonly fields: readonly string[];
  /** The mutation has one root field, however often it is named. */
  readonly isSingle: boolean;
}

/** Undefined for a query, for a subscription, and if no operation is selected. */
export function selectMutation(
  document: DocumentNode,
  operationName: string | null | undefined,
): Mutation | undefined {
  const definitions = document.definitions as readonly DefinitionNode[];
  const operations = definitions.filter(({ kind }) => kind === "OperationDefinition");
  const candidates =
    operationName === null || operationName === undefined
      ? operations
      : operations.filter(({ name }) => name?.value === operationName);
  // Several candidates are an error of the request, and nothing is executed.
  const selected = candidates.length === 1 ? candidates[0] : undefined;
  if (selected?.operation !== "mutation") return undefined;
  const keys = new Map<string, string>();
  collectFields(selected.selectionSet, definitions, keys);
  return { fields: [...new Set(keys.values())], isSingle: keys.size === 1 };
}

/** By the key in the result. A field that a directive leaves out counts too: then there seem to be several. */
function collectFields(
  set: SelectionSetNode | undefined,
  definitions: readonly DefinitionNode[],
  keys: Map<string, string>,
): void {
  for (const { kind, name, alias, selectionSet } of set?.selections ?? []) {
    if (kind === "Field" && name !== undefined && name.value !== "__typename")
      keys.set((alias ?? name).value, name.value);
    if (kind === "InlineFragment") collectFields(selectionSet, definitions, keys);
    if (kind === "FragmentSpread") {
      const fragment = definitions.find(
        (one) => one.kind === "FragmentDefinition" && one.name?.value === name?.value,
      );
      collectFields(fragment?.selectionSet, definitions, keys);
    }
  }
}

/** The text of the document. A document that was never text is printed as JSON, without positions. */
export function documentText({ loc, definitions }: DocumentNode): string {
  return (
    loc?.source.body ?? JSON.stringify(definitions, (name, value) => (name === "loc" ? undefined : value))
  );
}
