/** A new DynamoDB table. Only the sizes of items are measured: the emulator says nothing of speed. */
import { randomUUID } from "node:crypto";
import { CreateTableCommand, DynamoDBClient, ScanCommand } from "@aws-sdk/client-dynamodb";
import { dynamodbTable } from "nevertwice/stores/dynamodb";

const ACCOUNT = { region: "eu-west-1", credentials: { accessKeyId: "bench", secretAccessKey: "bench" } };

export async function openDatabase({ url }) {
  // The store's own client takes them from the environment.
  process.env.AWS_ACCESS_KEY_ID = ACCOUNT.credentials.accessKeyId;
  process.env.AWS_SECRET_ACCESS_KEY = ACCOUNT.credentials.secretAccessKey;
  const client = new DynamoDBClient({ ...ACCOUNT, endpoint: url });
  const table = `bench-${randomUUID()}`;
  await client.send(new CreateTableCommand(dynamodbTable(table)));
  return {
    url,
    storeUrl: `dynamodb://${ACCOUNT.region}/${table}?endpoint=${encodeURIComponent(url)}`,
    async bytes() {
      let bytes = 0;
      let ExclusiveStartKey;
      do {
        const page = await client.send(new ScanCommand({ TableName: table, ExclusiveStartKey }));
        for (const item of page.Items ?? []) bytes += itemBytes(item);
        ExclusiveStartKey = page.LastEvaluatedKey;
      } while (ExclusiveStartKey !== undefined);
      return bytes;
    },
    close: () => client.destroy(),
  };
}

/** As the service counts an item: the names of its attributes, and their values. */
function itemBytes(item) {
  return Object.entries(item).reduce(
    (sum, [name, value]) => sum + Buffer.byteLength(name) + valueBytes(value),
    0,
  );
}

function valueBytes(value) {
  const [[type, content]] = Object.entries(value);
  if (type === "S") return Buffer.byteLength(content);
  if (type === "N") return Math.ceil(content.replace(/\D/g, "").length / 2) + 1;
  if (type === "B") return content.length;
  if (type === "BOOL" || type === "NULL") return 1;
  throw new Error(`the size of a value of type ${type} is not known`);
}
