/** An A2A agent, with the official server and client over real sockets. */
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { setImmediate } from "node:timers/promises";
import { type AgentCard, type Message, Role, type SendMessageRequest, TaskState } from "@a2a-js/sdk";
import { type Client, ClientFactory } from "@a2a-js/sdk/client";
import { RequestMalformedError } from "@a2a-js/sdk/errors";
import {
  type A2ARequestHandler,
  AgentEvent,
  DefaultRequestHandler,
  type ExecutionEventBus,
  InMemoryTaskStore,
  type RequestContext,
  ServerCallContext,
} from "@a2a-js/sdk/server";
import { jsonRpcHandler } from "@a2a-js/sdk/server/express";
import express from "express";
import { beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import type { GuardOptions } from "../../src/core/engine.ts";
import { idempotentMessages, type MessageOptions } from "../../src/events/a2a.ts";
import { createGuard } from "../../src/functions/guard.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { gate } from "../deferred.ts";

type Work = (context: RequestContext, bus: ExecutionEventBus) => void | Promise<void>;

function reply(words: string, { contextId }: RequestContext): Message {
  return { ...message(`reply-${words}`, words).message, contextId, role: Role.ROLE_AGENT };
}

function message(messageId: string, words: string): SendMessageRequest & { message: Message } {
  const part = {
    content: { $case: "text", value: words },
    metadata: {},
    filename: "",
    mediaType: "",
  } as const;
  return {
    tenant: "",
    message: {
      messageId,
      contextId: "",
      taskId: "",
      role: Role.ROLE_USER,
      parts: [part],
      metadata: {},
      extensions: [],
      referenceTaskIds: [],
    },
    configuration: undefined,
    metadata: undefined,
  };
}

/** A task that is working, has a result, and is completed. */
async function workThrough(context: RequestContext, bus: ExecutionEventBus, until?: Promise<void>) {
  const { taskId, contextId, userMessage } = context;
  const status = (state: TaskState) => ({ state, message: undefined, timestamp: "2026-11-15T12:00:00.000Z" });
  const about = { taskId, contextId, metadata: {} };
  bus.publish(
    AgentEvent.task({
      id: taskId,
      contextId,
      status: status(TaskState.TASK_STATE_WORKING),
      artifacts: [],
      history: [userMessage],
      metadata: {},
    }),
  );
  await until;
  const { parts } = message("", "receipt").message;
  const artifact = { artifactId: "a", name: "receipt", description: "", parts, metadata: {}, extensions: [] };
  bus.publish(AgentEvent.artifactUpdate({ ...about, artifact, append: false, lastChunk: true }));
  await setImmediate();
  // An agent may continue to change what it has published.
  Object.assign(artifact, { name: "used" });
  bus.publish(AgentEvent.statusUpdate({ ...about, status: status(TaskState.TASK_STATE_COMPLETED) }));
}

/** An agent with a guarded handler, listening on a socket. `user` is the name of its callers. */
async function agent(
  options: Partial<MessageOptions<SendMessageRequest, ServerCallContext>> = {},
  guardOptions: Partial<GuardOptions> = {},
) {
  const guard = createGuard({ store: memoryStore(), purgeEveryMs: 0, ...guardOptions });
  const card: AgentCard = {
    name: "cashier",
    description: "",
    version: "1.0.0",
    supportedInterfaces: [],
    provider: undefined,
    capabilities: { streaming: true, extensions: [] },
    securitySchemes: {},
    securityRequirements: [],
    defaultInputModes: [],
    defaultOutputModes: [],
    skills: [],
    signatures: [],
  };
  let runs = 0;
  let work: Work = (context, bus) => bus.publish(AgentEvent.message(reply(`paid ${runs}`, context)));
  const executor = {
    async execute(context: RequestContext, bus: ExecutionEventBus) {
      runs++;
      await work(context, bus);
    },
    async cancelTask() {},
  };
  const handler: A2ARequestHandler = idempotentMessages(
    guard,
    { scope: "anyone", ...options },
    new DefaultRequestHandler(card, new InMemoryTaskStore(), executor),
  );
  const app = express();
  const userBuilder = async ({ headers }: express.Request) => ({
    isAuthenticated: true,
    userName: String(headers["x-user"]),
  });
  app.use("/", jsonRpcHandler({ requestHandler: handler, userBuilder }));
  const http = app.listen(0, "127.0.0.1");
  await once(http, "listening");
  onTestFinished(async () => {
    http.closeAllConnections();
    http.close();
    await guard.close();
  });
  const url = `http://127.0.0.1:${(http.address() as AddressInfo).port}/`;
  card.supportedInterfaces.push({ url, protocolBinding: "JSONRPC", tenant: "", protocolVersion: "1.0" });
  const client = await new ClientFactory().createFromAgentCard(card);
  return {
    client,
    handler,
    runs: () => runs,
    answers(next: Work) {
      work = next;
    },
  };
}

async function streamed(client: Client, request: SendMessageRequest): Promise<unknown[]> {
  const events: unknown[] = [];
  for await (const event of client.sendMessageStream(request)) events.push(event);
  return events;
}

// The server logs every error that it returns.
beforeEach(() => void vi.spyOn(console, "error").mockReturnValue());

describe("an agent", () => {
  it("AG-18 processes a messageId once, and answers the same message", async () => {
    const { client, runs } = await agent();
    const first = await client.sendMessage(message("m-1", "pay 5"));
    const again = await client.sendMessage(message("m-1", "pay 5"));
    expect(first).toMatchObject({ messageId: "reply-paid 1" });
    expect(again).toEqual(first);
    expect(runs()).toBe(1);
    expect(await client.sendMessage(message("m-2", "pay 5"))).toMatchObject({ messageId: "reply-paid 2" });
  });

  it("AG-18 answers the same task, which can still be read", async () => {
    const { client, runs, answers } = await agent();
    answers((context, bus) => workThrough(context, bus));
    const first = await client.sendMessage(message("m-1", "pay 5"));
    const again = await client.sendMessage(message("m-1", "pay 5"));
    expect(first).toMatchObject({ status: { state: TaskState.TASK_STATE_COMPLETED } });
    expect(again).toEqual(first);
    expect(runs()).toBe(1);
    const { id } = again as { id: string };
    expect(await client.getTask({ tenant: "", id })).toMatchObject({ id, artifacts: [{ name: "receipt" }] });
  });

  it("AG-18 processes it once for two servers on one store, also at the same time", async () => {
    const store = memoryStore();
    const [one, two] = [await agent({}, { store }), await agent({}, { store })];
    const sends = Array.from({ length: 10 }, (_, n) =>
      (n % 2 === 0 ? one : two).client.sendMessage(message("m-1", "pay 5")),
    );
    const answers = await Promise.all(sends);
    expect(new Set(answers.map((answer) => JSON.stringify(answer))).size).toBe(1);
    expect(one.runs() + two.runs()).toBe(1);
  });

  it("AG-18 replays a stream event by event", async () => {
    const { client, runs, answers } = await agent();
    answers((context, bus) => workThrough(context, bus));
    const first = await streamed(client, message("m-1", "pay 5"));
    const again = await streamed(client, message("m-1", "pay 5"));
    expect(first.map((event) => (event as { payload: { $case: string } }).payload.$case)).toEqual([
      "task",
      "artifactUpdate",
      "statusUpdate",
    ]);
    expect(again).toEqual(first);
    expect(runs()).toBe(1);
  });

  it("AG-18 answers a stream's messageId without a stream, and the other way round", async () => {
    const { client, runs, answers } = await agent();
    answers((context, bus) => workThrough(context, bus));
    await streamed(client, message("m-1", "pay 5"));
    const task = await client.sendMessage(message("m-1", "pay 5"));
    expect(task).toMatchObject({
      status: { state: TaskState.TASK_STATE_COMPLETED },
      artifacts: [{ name: "receipt" }],
    });
    const sent = await client.sendMessage(message("m-2", "pay 5"));
    expect(await streamed(client, message("m-2", "pay 5"))).toEqual([
      { payload: { $case: "task", value: sent } },
    ]);
    expect(runs()).toBe(2);
    answers((context, bus) => bus.publish(AgentEvent.message(reply("hello", context))));
    const said = await client.sendMessage(message("m-3", "hello"));
    expect(await streamed(client, message("m-3", "hello"))).toEqual([
      { payload: { $case: "message", value: said } },
    ]);
    await streamed(client, message("m-4", "hello"));
    expect(await client.sendMessage(message("m-4", "hello"))).toMatchObject({ messageId: "reply-hello" });
    expect(runs()).toBe(4);
  });

  it("sends the events of a stream as they come, and continues when its reader leaves", async () => {
    const { client, runs, answers } = await agent();
    const mayEnd = gate();
    answers((context, bus) => workThrough(context, bus, mayEnd.opened));
    for await (const event of client.sendMessageStream(message("m-1", "pay 5"))) {
      expect(event.payload?.$case).toBe("task");
      break;
    }
    const again = client.sendMessage(message("m-1", "pay 5"));
    mayEnd.open();
    expect(await again).toMatchObject({ status: { state: TaskState.TASK_STATE_COMPLETED } });
    expect(runs()).toBe(1);
  });

  it("treats a broken stream as unknown: the agent was at work", async () => {
    const { handler, runs, answers } = await agent({ onLapsed: "hold" });
    answers((context, bus) => {
      // The server treats a second task in one stream as an error, and ends the stream.
      for (const never of [new Promise<void>(() => {}), new Promise<void>(() => {})])
        void workThrough(context, bus, never);
    });
    const context = new ServerCallContext();
    const read = async () => {
      for await (const _event of handler.sendMessageStream(message("m-1", "pay 5"), context));
    };
    await expect(read()).rejects.toThrow("Stream ordering violation");
    await expect(read()).rejects.toThrow("unknown");
    expect(runs()).toBe(1);
  });

  it("stores the answer of an agent that failed", async () => {
    const { client, runs, answers } = await agent();
    answers(() => {
      throw new Error("no money");
    });
    const first = await client.sendMessage(message("m-1", "pay 5"));
    expect(first).toMatchObject({ status: { state: TaskState.TASK_STATE_FAILED } });
    expect(await client.sendMessage(message("m-1", "pay 5"))).toEqual(first);
    expect(runs()).toBe(1);
  });

  it("stores nothing for a request that the server refuses", async () => {
    const { client, runs } = await agent();
    const request = message("m-1", "pay 5");
    const lost = { ...request, message: { ...request.message, taskId: "no-such-task" } };
    await expect(client.sendMessage(lost)).rejects.toThrow("Task not found");
    expect(await client.sendMessage(request)).toMatchObject({ messageId: "reply-paid 1" });
    expect(runs()).toBe(1);
  });

  it('refuses the same messageId with other content, unless fingerprint is "none"', async () => {
    const refusal = ({ message: words }: Error) => new RequestMalformedError(words);
    const { client, runs } = await agent({ refusal });
    await client.sendMessage(message("m-1", "pay 5"));
    await expect(client.sendMessage(message("m-1", "pay 6"))).rejects.toThrow(RequestMalformedError);
    await expect(streamed(client, message("m-1", "pay 6"))).rejects.toThrow("conflict");
    expect(runs()).toBe(1);
    const careless = await agent({ fingerprint: "none" });
    const first = await careless.client.sendMessage(message("m-1", "pay 5"));
    expect(await careless.client.sendMessage(message("m-1", "pay 6"))).toEqual(first);
  });

  it("refuses a pending message, and answers it when it is done", async () => {
    const { client, runs, answers } = await agent({ onPending: "reject" });
    const [started, mayEnd] = [gate(), gate()];
    answers(async (context, bus) => {
      started.open();
      await mayEnd.opened;
      bus.publish(AgentEvent.message(reply("paid", context)));
    });
    const first = client.sendMessage(message("m-1", "pay 5"));
    await started.opened;
    await expect(client.sendMessage(message("m-1", "pay 5"))).rejects.toThrow("pending");
    mayEnd.open();
    expect(await client.sendMessage(message("m-1", "pay 5")).catch(() => first)).toEqual(await first);
    expect(runs()).toBe(1);
  });

  it("keeps the messages of two users apart, and refuses one without an owner", async () => {
    const { client, runs } = await agent({
      scope: ({ user }) => (user?.userName === "undefined" ? undefined : user?.userName),
    });
    const as = (user: string) =>
      client.sendMessage(message("m-1", "pay 5"), { serviceParameters: { "X-User": user } });
    await as("alice");
    await as("bob");
    await as("alice");
    expect(runs()).toBe(2);
    await expect(client.sendMessage(message("m-1", "pay 5"))).rejects.toThrow("scope-missing");
  });

  it.each([
    ["the task of the stream", [{ payload: { $case: "task", value: { id: "t-1" } } }], { id: "t-1" }],
    ["not-kept, if the stream had none", [], undefined],
  ])("answers %s if the task cannot be read", async (_what, events, answer) => {
    const guard = createGuard({ store: memoryStore(), purgeEveryMs: 0 });
    let runs = 0;
    const handler = idempotentMessages(
      guard,
      { scope: "anyone" },
      {
        sendMessage: async (_request: SendMessageRequest): Promise<object> => ({ id: `sent-${++runs}` }),
        async *sendMessageStream(_request: SendMessageRequest): AsyncGenerator<object, void, undefined> {
          runs++;
          yield* events;
        },
        getTask: () => Promise.reject(new Error("the tasks are elsewhere")),
      },
    );
    const received: object[] = [];
    for await (const event of handler.sendMessageStream(message("m-1", "pay 5"))) received.push(event);
    expect(received).toEqual(events);
    const again = handler.sendMessage(message("m-1", "pay 5"));
    if (answer === undefined) await expect(again).rejects.toThrow("not-kept");
    else expect(await again).toEqual(answer);
    expect(runs).toBe(1);
    await guard.close();
  });

  it("keeps bytes", async () => {
    const { client, answers } = await agent();
    answers((context, bus) => {
      const content = { $case: "raw", value: Buffer.from([0, 255, 128]) } as const;
      const part = { content, metadata: {}, filename: "", mediaType: "image/png" };
      bus.publish(AgentEvent.message({ ...reply("bytes", context), parts: [part] }));
    });
    const first = await client.sendMessage(message("m-1", "draw"));
    expect(await client.sendMessage(message("m-1", "draw"))).toEqual(first);
  });

  it("forwards all other methods of the handler, and refuses a message without an id", async () => {
    const { handler } = await agent();
    expect(await handler.getAgentCard()).toMatchObject({ name: "cashier" });
    const nameless = message("", "pay 5");
    await expect(handler.sendMessage(nameless, new ServerCallContext())).rejects.toThrow("key-missing");
  });

  it.each([
    ["scope is missing", {}],
    ["fingerprint is", { scope: "anyone", fingerprint: "words" }],
    ['no option called "key"', { scope: "anyone", key: () => "k" }],
  ])("refuses bad options: %s", async (problem, options) => {
    const guard = createGuard({ store: memoryStore(), purgeEveryMs: 0 });
    const { handler } = await agent();
    expect(() => idempotentMessages(guard, options as never, handler)).toThrow(problem);
  });
});
