/** Clients that send requests without a pause over connections that they keep, and never repeat one. */
import { Agent, type IncomingMessage, request } from "node:http";

export interface LoadCount {
  requests: number;
  /** What was answered instead of a success, and how often. */
  readonly failures: Record<string, number>;
}

export interface ClientRequest {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export interface Load {
  /** Ends when the running requests are answered. */
  stop(): Promise<LoadCount>;
  readonly count: LoadCount;
}

/** Starts so many clients. `next` is the request after those that a client has sent. */
export function startLoad(clients: number, next: (client: number, turn: number) => ClientRequest): Load {
  const agent = new Agent({ keepAlive: true, maxSockets: clients });
  const count: LoadCount = { requests: 0, failures: {} };
  let isEnding = false;

  async function client(index: number): Promise<void> {
    for (let turn = 0; !isEnding; turn++) {
      count.requests++;
      const failure = await send(agent, next(index, turn));
      if (failure !== undefined) count.failures[failure] = (count.failures[failure] ?? 0) + 1;
    }
  }

  const all = Promise.all(Array.from({ length: clients }, (_, index) => client(index)));
  return {
    count,
    async stop() {
      isEnding = true;
      await all;
      agent.destroy();
      return count;
    },
  };
}

/** Undefined for a success. */
function send(agent: Agent, { url, headers, body }: ClientRequest): Promise<string | undefined> {
  return new Promise((resolve) => {
    const sent = request(url, {
      method: "POST",
      agent,
      headers: { "content-type": "application/json", ...headers },
    });
    sent.once("error", (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    sent.once("response", (response: IncomingMessage) => {
      const { statusCode = 0 } = response;
      let text = "";
      response.setEncoding("utf8").on("data", (chunk) => {
        text += chunk;
      });
      response.once("error", () => resolve("cut off"));
      response.once("end", () =>
        resolve(statusCode < 300 ? undefined : `${statusCode} ${text.slice(0, 120)}`),
      );
    });
    sent.end(body);
  });
}
