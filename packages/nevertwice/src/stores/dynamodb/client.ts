/**
 * How the DynamoDB store calls its client. The commands are classes of the AWS SDK, which is not a dependency of this
 * package: a `DynamoDBDocument` has them as methods, and for a `DynamoDBDocumentClient` they are loaded from the
 * application's own copy of the SDK.
 */
import { NevertwiceError } from "../../core/errors.ts";
import { importDriver } from "../open/driver.ts";

/** The part of a `DynamoDBDocumentClient` or a `DynamoDBDocument` of `@aws-sdk/lib-dynamodb` that is used here. */
export interface DynamodbClient {
  send(command: never, options?: SendOptions): Promise<unknown>;
}

/** When the signal fires, the SDK ends the request and frees its connection. */
interface SendOptions {
  readonly abortSignal?: AbortSignal;
}

/** An item as the document client returns it. */
export type DynamodbItem = Readonly<Record<string, unknown>>;

type Input = Readonly<Record<string, unknown>>;
type DocumentCommand = (input: Input, options?: SendOptions) => Promise<Input>;

export type Documents = Readonly<Record<"get" | "put" | "update" | "delete" | "scan", DocumentCommand>>;
export type Descriptions = Readonly<Record<"table" | "timeToLive", () => Promise<Input>>>;

const COMMANDS = {
  get: "GetCommand",
  put: "PutCommand",
  update: "UpdateCommand",
  delete: "DeleteCommand",
  scan: "ScanCommand",
} as const;

type CommandName = keyof typeof COMMANDS;
type CommandClasses = Readonly<Record<string, new (input: Input) => object>>;

const NAMES = Object.keys(COMMANDS) as readonly CommandName[];

/** The commands on items. */
export function createDocuments(client: DynamodbClient): Documents {
  const methods = client as unknown as Partial<Documents>;
  if (NAMES.every((name) => typeof methods[name] === "function")) return methods as Documents;
  const send = createSender(client, "@aws-sdk/lib-dynamodb");
  const commands = NAMES.map((name): [CommandName, DocumentCommand] => [
    name,
    (input, options) => send(COMMANDS[name], input, options),
  ]);
  return Object.fromEntries(commands) as Documents;
}

/** The commands that describe the table. Only @aws-sdk/client-dynamodb has them. */
export function createDescriptions(client: DynamodbClient, table: string): Descriptions {
  const send = createSender(client, "@aws-sdk/client-dynamodb");
  const describe = (command: string) => () => send(command, { TableName: table });
  return { table: describe("DescribeTableCommand"), timeToLive: describe("DescribeTimeToLiveCommand") };
}

/** Sends commands of a module that is loaded when the first one is sent. */
function createSender(
  client: DynamodbClient,
  module: string,
): (command: string, input: Input, options?: SendOptions) => Promise<Input> {
  let classes: CommandClasses | undefined;
  return async (command, input, options = {}) => {
    classes ??= await importDriver<CommandClasses>(module, module, "the DynamoDB store");
    const Command = classes[command] as CommandClasses[string];
    return (await client.send(new Command(input) as never, options)) as Input;
  };
}

export function isClient(name: string, value: unknown): void {
  if (typeof (value as DynamodbClient | null)?.send === "function") return;
  throw new NevertwiceError(
    "options-invalid",
    `${name} must be a DynamoDBDocumentClient or a DynamoDBDocument of @aws-sdk/lib-dynamodb.`,
  );
}

/** Placeholders for attribute names: DynamoDB reserves hundreds of words, `state` and `token` among them. */
export function names(...attributes: readonly string[]): {
  ExpressionAttributeNames: Record<string, string>;
} {
  return { ExpressionAttributeNames: Object.fromEntries(attributes.map((name) => [`#${name}`, name])) };
}

/** Placeholders for values, each named after its attribute. */
export function values(attributes: Readonly<Record<string, unknown>>): {
  ExpressionAttributeValues: Record<string, unknown>;
} {
  return {
    ExpressionAttributeValues: Object.fromEntries(
      Object.entries(attributes).map(([name, value]) => [`:${name}`, value]),
    ),
  };
}
