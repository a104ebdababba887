/** Stores that mistake one key for another. */
import { claimRecord } from "../../../src/core/record.ts";
import { RULES } from "../rule-store.ts";
import { byParts, type Fault } from "../wrong-rules.ts";

export const identitiesApart: readonly Fault[] = [
  {
    fault: "keeps 63 digits of the id",
    rules: () => ({ keyOf: (id) => id.slice(0, 63) }),
    caught: ["ids that differ in one digit are different keys"],
  },
  {
    fault: "keeps the second half of the id",
    rules: () => ({ keyOf: (id) => id.slice(32) }),
    caught: ["ids that differ in one digit are different keys"],
  },
  {
    fault: "compares keys as a collation does",
    rules: () => ({
      keyOf: byParts(({ key, ...parts }) =>
        JSON.stringify([parts, key.normalize("NFC").trimEnd().toLowerCase()]),
      ),
    }),
    caught: ["keys that differ in case, in spaces or in Unicode form are different keys"],
  },
  {
    fault: "joins the parts with a colon",
    rules: () => ({
      keyOf: byParts(({ namespace, scope, operation, key }) => [namespace, scope, operation, key].join(":")),
    }),
    caught: ["parts that read the same when joined are different keys"],
  },
  {
    fault: "drops the zeros from the parts",
    rules: () => ({
      claim: (found, request, now, nextFence) => {
        const key = request.parts.key.replaceAll("\u0000", "");
        return claimRecord(found, { ...request, parts: { ...request.parts, key } }, now, nextFence);
      },
    }),
    caught: ["parts come back as they were given"],
  },
  {
    fault: "cuts parts at 255 characters",
    rules: () => ({
      claim: (found, request, now, nextFence) => {
        const scope = request.parts.scope.slice(0, 255);
        return claimRecord(found, { ...request, parts: { ...request.parts, scope } }, now, nextFence);
      },
    }),
    caught: ["parts of 1,024 bytes each come back as they were given"],
  },
  {
    fault: "writes what is completed together with the first one's outcome",
    wrap: (store) => {
      let together: string | undefined;
      return {
        ...store,
        complete(request) {
          together ??= request.outcome;
          queueMicrotask(() => {
            together = undefined;
          });
          return store.complete({ ...request, outcome: together });
        },
      };
    },
    caught: ["keys that are completed at once answer with their own outcomes"],
  },
  {
    fault: "lists namespaces that differ in a space at the end",
    rules: () => ({
      list: (records, request, now) =>
        RULES.list(
          records.map((record) => ({
            ...record,
            parts: record.parts && { ...record.parts, namespace: record.parts.namespace.trimEnd() },
          })),
          request,
          now,
        ),
    }),
    caught: ["a list shows the records of its namespace alone"],
  },
  {
    fault: "lists every scope",
    rules: () => ({
      list: (records, request, now) => RULES.list(records, { ...request, scope: undefined }, now),
    }),
    caught: ["a list by scope shows the records of that scope alone"],
  },
  {
    fault: "lists what has lapsed as pending",
    rules: () => ({
      list: (records, { state, ...request }, now) =>
        RULES.list(
          records.filter((record) => state === undefined || record.state === state),
          { ...request },
          now,
        ),
    }),
    caught: ["a list by state shows the records in that state alone"],
  },
];
