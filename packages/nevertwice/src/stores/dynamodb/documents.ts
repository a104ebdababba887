/**
 * What the DynamoDB store asks of its client: items of one table. The commands are classes of the AWS SDK, which is not
 * ours to depend on: a `DynamoDBDocument` has them as methods, and for a `DynamoDBDocumentClient` they are loaded from
 * the application's own copy.
 */
import { NevertwiceError } from "../../core/errors.ts";
import { importDriver } from "../open/driver.ts";

/** A `DynamoDBDocumentClient` or a `DynamoDBDocument` of @aws-sdk/lib-dynamodb. */
export interface DynamodbClient {
  send(command: never): Promise<unknown>;
}

/** An item as the document client has it. */
export type Item = Readonly<Record<string, unknown>>;

type Input = Readonly<Record<string, unknown>>;
type Ask = (input: Input) => Promise<Input>;

export type Documents = Readonly<Record<"get" | "put" | "update" | "delete" | "scan", Ask>>;
export type Descriptions = Readonly<Record<"table" | "timeToLive", () => Promise<Input>>>;

const COMMANDS = {
  get: "GetCommand",
  put: "PutCommand",
  update: "UpdateCommand",
  delete: "DeleteCommand",
  scan: "ScanCommand",
} as const;

type Name = keyof typeof COMMANDS;
type Commands = Readonly<Record<string, new (input: Input) => object>>;

const NAMES = Object.keys(COMMANDS) as readonly Name[];

export function documentsOf(client: DynamodbClient): Documents {
  const methods = client as unknown as Partial<Documents>;
  if (NAMES.every((name) => typeof methods[name] === "function")) return methods as Documents;
  const send = sender(client, "@aws-sdk/lib-dynamodb");
  const asks = NAMES.map((name): [Name, Ask] => [name, (input) => send(COMMANDS[name], input)]);
  return Object.fromEntries(asks) as Documents;
}

/** What only the client that is not about documents has commands for. */
export function descriptionsOf(client: DynamodbClient, table: string): Descriptions {
  const send = sender(client, "@aws-sdk/client-dynamodb");
  const ask = (command: string) => () => send(command, { TableName: table });
  return { table: ask("DescribeTableCommand"), timeToLive: ask("DescribeTimeToLiveCommand") };
}

/** Sends commands of a module that is loaded when it is first needed. */
function sender(client: DynamodbClient, module: string): (command: string, input: Input) => Promise<Input> {
  let commands: Commands | undefined;
  return async (command, input) => {
    commands ??= await importDriver<Commands>(module, module, "the DynamoDB store");
    const Command = commands[command] as Commands[string];
    return (await client.send(new Command(input) as never)) as Input;
  };
}

export function isClient(name: string, value: unknown): void {
  if (typeof (value as DynamodbClient | null)?.send === "function") return;
  throw new NevertwiceError(
    "options-invalid",
    `${name} must be a DynamoDBDocumentClient or a DynamoDBDocument of @aws-sdk/lib-dynamodb.`,
  );
}
