/** Messages of brokers, calls of agents, and networks of nodes. */
import { idempotentMessages } from "../../src/events/a2a.ts";
import { consumer } from "../../src/events/consumer.ts";
import { type LambdaSqsRecord, lambdaBatch } from "../../src/events/lambda-batch.ts";
import { idempotentTool } from "../../src/events/mcp.ts";
import { standardWebhooks, webhook } from "../../src/events/webhook.ts";
import type { Guard } from "../../src/functions/guard.ts";
import { startPipeline } from "../../src/pipeline/pipeline.ts";
import { modelOf } from "../pipeline/scene.ts";
import type { OpenDoor } from "./door.ts";

const SUBJECT = { operation: "charge", scope: "charge" };
const consumed = (key: string) => ({ ...SUBJECT, key });

function charging(guard: Guard, effect: (key: string) => void) {
  const work = ({ messageId }: LambdaSqsRecord) => effect(messageId);
  return consumer<LambdaSqsRecord, void>(guard, { name: "charge", key: ({ messageId }) => messageId, work });
}

function sqsRecord(messageId: string): LambdaSqsRecord {
  const source = { eventSource: "aws:sqs", eventSourceARN: "arn:aws:sqs:eu-west-1:1:orders" };
  return { messageId, body: "{}", ...source, attributes: {}, messageAttributes: {} };
}

/** The answer of a tool is an object, with a code of ours where it says no. */
function toolStatus(result: object): string {
  if (typeof result !== "object" || result === null || Array.isArray(result))
    throw new TypeError(`a tool does not answer ${JSON.stringify(result)}`);
  const { _meta, isError } = result as { _meta?: { nevertwice?: { code: string } }; isError?: boolean };
  return isError === true ? `refused: ${_meta?.nevertwice?.code}` : "answered";
}

export const messageDoors: Readonly<Record<string, OpenDoor>> = {
  consumer: (guard, effect) => {
    const charge = charging(guard, effect);
    return {
      subject: consumed,
      async deliver(key) {
        const { verdict, status } = await charge.handle(sqsRecord(key));
        return `${verdict}: ${status}`;
      },
    };
  },
  "lambda batch": (guard, effect) => {
    const handler = lambdaBatch(charging(guard, effect), { onRejected: () => {} });
    return {
      subject: consumed,
      async deliver(key) {
        const { batchItemFailures } = await handler({ Records: [sqsRecord(key)] });
        return batchItemFailures.length === 0 ? "taken" : "later";
      },
    };
  },
  "webhook that answers with what was done": (guard, effect) => {
    const receive = webhook<{ readonly text: string }>(guard, {
      name: "charge",
      scheme: standardWebhooks,
      verify: () => true,
      key: (received) => received.header("webhook-id"),
      respond: ({ text }) => ({ body: text.toUpperCase() }),
      work(received) {
        effect(received.header("webhook-id") as string);
        return { text: "done" };
      },
    });
    return {
      subject: consumed,
      async deliver(key) {
        const { status } = await receive.handle({ headers: { "webhook-id": key }, body: "{}" });
        if (status >= 500) throw new TypeError(`the webhook was answered ${status}`);
        return status === 409 ? "later" : `answered ${status}`;
      },
    };
  },
  "tool of MCP": (guard, effect) => {
    const tool = idempotentTool(guard, { operation: "charge", scope: "anyone", fingerprint: "none" });
    const charge = tool.handler(({ idempotency_key }: { readonly idempotency_key: string }, _context) => {
      effect(idempotency_key);
      return { content: [{ type: "text", text: "charged" }] };
    });
    return {
      subject: (key) => ({ operation: "charge", key }),
      deliver: async (key) => toolStatus(await charge({ idempotency_key: key }, {})),
    };
  },
  "message of A2A": (guard, effect) => {
    const agent = agentOf(guard, effect);
    return {
      subject: (key) => ({ operation: "a2a.message", key }),
      async deliver(key) {
        const answer = await agent.sendMessage({ message: { messageId: key } }, {});
        if (typeof answer !== "object" || answer === null) throw new TypeError("the answer is no object");
        return "answered";
      },
    };
  },
  "streamed message of A2A": (guard, effect) => {
    const agent = agentOf(guard, effect);
    return {
      subject: (key) => ({ operation: "a2a.message", key }),
      async deliver(key) {
        for await (const event of agent.sendMessageStream({ message: { messageId: key } }, {})) {
          if (typeof event !== "object" || event === null) throw new TypeError("an event is no object");
        }
        return "answered";
      },
    };
  },
  pipeline: (guard, effect) => {
    const charge = (
      order: { readonly id: string },
      { emit }: { emit: (port: string, order: object) => object },
    ) => {
      effect(order.id);
      return emit("charged", order);
    };
    const nodes = {
      charge: { key: "id", out: ["charged"], concurrency: 8, shell: charge },
      ship: { kind: "sink", key: "id", concurrency: 8 },
    } as const;
    const network = { nodes, edges: ["charge.charged > ship.in"], in: { orders: "charge.in" } };
    const pipeline = startPipeline(modelOf(network), guard);
    return {
      subject: (key) => ({ operation: "shop/charge", scope: "shop|charge", key }),
      async deliver(key) {
        const { verdict, failures } = await pipeline.push("orders", { id: key });
        const broken = failures.find(
          ({ error }) => error instanceof TypeError && !error.message.includes("decided"),
        );
        if (broken !== undefined) throw broken.error;
        return `${verdict}: ${failures.map(({ reason }) => reason).join()}`;
      },
      stop: () => pipeline.close(),
    };
  },
};

interface Sent {
  readonly message: { readonly messageId: string };
}

function agentOf(guard: Guard, effect: (key: string) => void) {
  return idempotentMessages(
    guard,
    { scope: "anyone", fingerprint: "none" },
    {
      async sendMessage({ message }: Sent, _context: unknown): Promise<object> {
        effect(message.messageId);
        return { id: "task-1" };
      },
      async *sendMessageStream(
        { message }: Sent,
        _context: unknown,
      ): AsyncGenerator<object, void, undefined> {
        effect(message.messageId);
        yield { payload: { $case: "task", value: { id: "task-1" } } };
      },
      getTask: async (_params: object, _context: unknown): Promise<object> => ({ id: "task-1" }),
    },
  );
}
