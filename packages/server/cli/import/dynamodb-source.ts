/** Reads a table of DynamoDB with Scan. Its items expire by the clock of the caller, as in the libraries that wrote them. */
import { importDriver } from "nevertwice/stores/open";
import { UsageError } from "../command.ts";
import { PAGE, type Source, type SourceEntry, takeParameter } from "./source.ts";

type Item = Readonly<Record<string, unknown>>;

interface DocumentClient {
  send(command: object): Promise<{
    readonly Items?: readonly Item[];
    readonly LastEvaluatedKey?: Item;
    readonly ScannedCount?: number;
  }>;
}

interface DynamoModules {
  readonly DynamoDBClient: new (
    config: object,
  ) => {
    send(command: object): Promise<{ readonly Table?: { readonly ItemCount?: number } }>;
    destroy(): void;
  };
  readonly DescribeTableCommand: new (input: object) => object;
}

interface DocumentModules {
  readonly DynamoDBDocumentClient: { from(client: object): DocumentClient };
  readonly ScanCommand: new (input: object) => object;
}

export interface ItemNames {
  /** The attribute with the key. */
  readonly key: string;
  /** The attribute with the end of the item, in seconds since 1970. */
  readonly expires: string;
  /** The attribute with the value; undefined: the whole item is the value. */
  readonly value?: string;
}

const INSTALL = "@aws-sdk/client-dynamodb @aws-sdk/lib-dynamodb";

/** Opens `dynamodb://region/table?endpoint=…`. The parameters `key` and `expires` override `names`. */
export async function dynamodbSource(given: string, names: ItemNames): Promise<Source> {
  const [endpoint, withoutEndpoint] = takeParameter(given, "endpoint");
  const [key = names.key, withoutKey] = takeParameter(withoutEndpoint, "key");
  const [expires = names.expires, url] = takeParameter(withoutKey, "expires");
  const [, region, table] = /^dynamodb:\/\/([\w-]+)\/([\w.-]+)$/.exec(url) ?? [];
  if (region === undefined || table === undefined)
    throw new UsageError("the URL names no table; expected dynamodb://eu-west-1/table.");
  const dynamo = await importDriver<DynamoModules>("@aws-sdk/client-dynamodb", INSTALL, "a dynamodb: URL");
  const documents = await importDriver<DocumentModules>("@aws-sdk/lib-dynamodb", INSTALL, "a dynamodb: URL");
  const client = new dynamo.DynamoDBClient({ region, ...(endpoint !== undefined && { endpoint }) });
  const reader = documents.DynamoDBDocumentClient.from(client);
  try {
    const { Table } = await client.send(new dynamo.DescribeTableCommand({ TableName: table }));
    let position = 0;
    return {
      total: Table?.ItemCount,
      async page(after) {
        const answer = await reader.send(
          new documents.ScanCommand({
            TableName: table,
            Limit: PAGE,
            ConsistentRead: true,
            ...(after !== undefined && { ExclusiveStartKey: JSON.parse(after) as Item }),
          }),
        );
        position += answer.ScannedCount ?? 0;
        const entries = (answer.Items ?? []).map((item) => toEntry(item, { ...names, key, expires }));
        const last = answer.LastEvaluatedKey;
        return { entries, next: last === undefined ? undefined : JSON.stringify(last), position };
      },
      close: async () => client.destroy(),
    };
  } catch (error) {
    client.destroy();
    throw error;
  }
}

function toEntry(item: Item, { key, expires, value }: ItemNames): SourceEntry {
  const end = item[expires];
  return {
    key: String(item[key] ?? ""),
    value: value === undefined ? item : item[value],
    leftMs: typeof end === "number" ? end * 1_000 - Date.now() : null,
  };
}
