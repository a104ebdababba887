/**
 * Tests the recipes of examples/recipes/agents with the real frameworks and a scripted model: an agent that loses its place and
 * plans again charges once with the documented key, and twice with the id of the tool call. Needs the build.
 */
import { BaseChatModel } from "@langchain/core/language_models/chat_models";
import { AIMessage, type BaseMessage, HumanMessage, ToolMessage } from "@langchain/core/messages";
import { tool as langchainTool, type StructuredToolInterface } from "@langchain/core/tools";
import { Agent, type FunctionTool, tool as openaiTool, Runner } from "@openai/agents";
import { assistantMessage, functionCall, modelError, ScriptedModel } from "@openai/agents/testing";
import { generateText, stepCountIs, type Tool, tool as vercelTool } from "ai";
import { MockLanguageModelV3 } from "ai/test";
import { describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import * as langchain from "../../../../examples/recipes/agents/langchain.js";
import * as openaiAgents from "../../../../examples/recipes/agents/openai-agents.js";
import * as vercelAi from "../../../../examples/recipes/agents/vercel-ai.js";
import { compositeKey, createGuard, type Guard } from "../../src/index.ts";
import { memoryStore } from "../../src/stores/memory.ts";

type Charge = (order: string, cents: number, idempotencyKey: string) => Promise<string>;

/** What the model says: it calls the tool, ends its work, or its host crashes before the next word. */
type Step =
  | { readonly id: string; readonly args: { readonly order: string; readonly cents: number } }
  | "crash"
  | "done";

interface Framework {
  readonly name: string;
  /** The tool of the recipe. */
  recipe(guard: Guard, customer: string, charge: Charge): unknown;
  /** The same tool, keyed by the id of the tool call. */
  keyedByCall(guard: Guard, charge: Charge): unknown;
  /** Runs an agent with this tool. Returns what the model was told after each call. */
  run(tool: unknown, script: readonly Step[]): Promise<string[]>;
}

const PROMPT = "Charge order-17: 42 dollars.";
const CRASH = "the host crashed";
const INPUT = z.object({ order: z.string(), cents: z.number() });

/** What a reader who keys by the call would write. */
const chargeOnce = (guard: Guard, charge: Charge, { order, cents }: z.infer<typeof INPUT>, key = "") =>
  guard.run({ operation: "charge", key }, ({ deriveKey }) => charge(order, cents, deriveKey("psp")));

const VERCEL: Framework = {
  name: "ai",
  recipe: vercelAi.chargeTool,
  keyedByCall: (guard, charge) =>
    vercelTool({
      inputSchema: INPUT,
      execute: (input, { toolCallId }) => chargeOnce(guard, charge, input, toolCallId),
    }),
  async run(given, script) {
    const none = { total: 0, noCache: 0, cacheRead: 0, cacheWrite: 0, text: 0, reasoning: 0 };
    const answers = script.values();
    const model = new MockLanguageModelV3({
      async doGenerate() {
        const step = answers.next().value;
        if (step === "crash" || step === undefined) throw new Error(CRASH);
        const isCall = step !== "done";
        return {
          content: isCall
            ? [
                {
                  type: "tool-call",
                  toolCallId: step.id,
                  toolName: "charge",
                  input: JSON.stringify(step.args),
                },
              ]
            : [{ type: "text", text: "done" }],
          finishReason: { unified: isCall ? "tool-calls" : "stop", raw: undefined },
          usage: { inputTokens: none, outputTokens: none },
          warnings: [],
        };
      },
    });
    const { steps } = await generateText({
      model,
      tools: { charge: given as Tool<z.infer<typeof INPUT>, string> },
      stopWhen: stepCountIs(script.length),
      prompt: PROMPT,
    });
    const parts = steps.flatMap(({ content }) => content);
    return parts.flatMap((part) => {
      if (part.type === "tool-result") return [String(part.output)];
      return part.type === "tool-error" ? [String(part.error)] : [];
    });
  },
};

class ScriptedChatModel extends BaseChatModel {
  readonly #script: Iterator<Step>;

  constructor(script: readonly Step[]) {
    super({});
    this.#script = script.values();
  }

  _llmType() {
    return "scripted";
  }

  async _generate() {
    const step = this.#script.next().value;
    if (step === "crash" || step === undefined) throw new Error(CRASH);
    const calls = step === "done" ? [] : [{ id: step.id, name: "charge", args: step.args }];
    return { generations: [{ text: "", message: new AIMessage({ content: "", tool_calls: calls }) }] };
  }
}

const LANGCHAIN: Framework = {
  name: "@langchain/core",
  recipe: langchain.chargeTool,
  keyedByCall: (guard, charge) =>
    langchainTool((input, { toolCall }) => chargeOnce(guard, charge, input, toolCall?.id), {
      name: "charge",
      description: "Charges an order.",
      schema: INPUT,
    }),
  async run(given, script) {
    const charge = given as StructuredToolInterface;
    const model = new ScriptedChatModel(script);
    const messages: BaseMessage[] = [new HumanMessage(PROMPT)];
    const told: string[] = [];
    for (let calls = 1; calls > 0; ) {
      const answer = await model.invoke(messages);
      messages.push(answer);
      calls = answer.tool_calls?.length ?? 0;
      for (const call of answer.tool_calls ?? []) {
        // LangChain's own agents turn an error of a tool into a message in the same way.
        const message: ToolMessage = await charge
          .invoke({ ...call, type: "tool_call" })
          .catch((error) => new ToolMessage({ content: String(error), tool_call_id: call.id ?? "" }));
        messages.push(message);
        told.push(message.text);
      }
    }
    return told;
  },
};

const OPENAI: Framework = {
  name: "@openai/agents",
  recipe: openaiAgents.chargeTool,
  keyedByCall: (guard, charge) =>
    openaiTool({
      name: "charge",
      description: "Charges an order.",
      parameters: INPUT,
      execute: (input, _, details) => chargeOnce(guard, charge, input, details?.toolCall?.callId),
    }),
  async run(given, script) {
    const model = new ScriptedModel(
      script.map((step) => {
        if (step === "crash") return modelError(new Error(CRASH));
        if (step === "done") return [assistantMessage("done")];
        return [functionCall("charge", step.args, { callId: step.id })];
      }),
    );
    const agent = new Agent({ name: "shop", model, tools: [given as FunctionTool] });
    const runner = new Runner({ tracingDisabled: true });
    const { newItems } = await runner.run(agent, PROMPT);
    return newItems.flatMap((item) => (item.type === "tool_call_output_item" ? [String(item.output)] : []));
  },
};

function scene() {
  const guard = createGuard({ store: memoryStore(), purgeEveryMs: 0 });
  onTestFinished(async () => void (await guard.close()));
  const charges: string[] = [];
  const charge: Charge = async (order, cents) => {
    charges.push(`${order} ${cents}`);
    return `receipt ${charges.length}`;
  };
  return { guard, charges, charge };
}

const call = (id: string, cents = 4_200): Step => ({ id, args: { order: "order-17", cents } });

describe.each([VERCEL, LANGCHAIN, OPENAI])(
  "an agent of $name that plans again after a crash",
  (framework) => {
    const { recipe, keyedByCall, run } = framework;

    it("charges once with the documented key, and is told the first receipt", async () => {
      const { guard, charge, charges } = scene();
      const charger = recipe(guard, "alice", charge);
      await expect(run(charger, [call("call_1"), "crash"])).rejects.toThrow(CRASH);
      expect(charges).toEqual(["order-17 4200"]);
      expect(await run(charger, [call("call_2"), "done"])).toEqual(["receipt 1"]);
      expect(await run(charger, [call("call_3"), call("call_4"), "done"])).toEqual([
        "receipt 1",
        "receipt 1",
      ]);
      expect(charges).toEqual(["order-17 4200"]);
    });

    it("charges twice with the id of the tool call as the key", async () => {
      const { guard, charge, charges } = scene();
      const charger = keyedByCall(guard, charge);
      await expect(run(charger, [call("call_1"), "crash"])).rejects.toThrow(CRASH);
      expect(await run(charger, [call("call_2"), "done"])).toEqual(["receipt 2"]);
      expect(charges).toEqual(["order-17 4200", "order-17 4200"]);
    });

    it("keeps the orders of two customers apart", async () => {
      const { guard, charge, charges } = scene();
      for (const customer of ["alice", "bob"])
        await run(recipe(guard, customer, charge), [call("call_1"), "done"]);
      expect(charges).toHaveLength(2);
    });

    it("is told of a conflict when it plans another amount, and charges nothing more", async () => {
      const { guard, charge, charges } = scene();
      const charger = recipe(guard, "alice", charge);
      await expect(run(charger, [call("call_1"), "crash"])).rejects.toThrow(CRASH);
      const [told] = await run(charger, [call("call_2", 4_300), "done"]);
      expect(told).toContain("conflict");
      expect(charges).toEqual(["order-17 4200"]);
    });
  },
);

it("a tool without a business id charges once in each task that the host has stored, and once for each recipient in it", async () => {
  const { guard, charge, charges } = scene();
  const inTask = (task: string) =>
    vercelTool({
      inputSchema: INPUT,
      execute: ({ order, cents }) =>
        guard.run({ operation: "mail", scope: "alice", key: compositeKey(task, order) }, ({ deriveKey }) =>
          charge(order, cents, deriveKey("mail")),
        ),
    });
  await expect(VERCEL.run(inTask("task-1"), [call("call_1"), "crash"])).rejects.toThrow(CRASH);
  expect(await VERCEL.run(inTask("task-1"), [call("call_2"), "done"])).toEqual(["receipt 1"]);
  expect(await VERCEL.run(inTask("task-2"), [call("call_3"), "done"])).toEqual(["receipt 2"]);
  expect(charges).toHaveLength(2);
});
