/**
 * Sends the refusals that the gateway makes outside of the idempotency layer. They have the shape of the route's profile,
 * like those of the layer: an SDK recognises a failure by its shape, and takes any other body for a success.
 */
import { type IncomingMessage, type ServerResponse, STATUS_CODES } from "node:http";
import { isNevertwiceError, NevertwiceError } from "nevertwice";
import { type ProblemAnswer, type ProfileName, problemAnswer } from "nevertwice/http";
import type { GatewayRule } from "./gateway-rules.ts";
import { createRouteMatcher } from "./route-match.ts";
import { originForm } from "./target-path.ts";

/** The gateway answers under the host name of the service, so the type of a problem is a URN and not a path. */
export const PROBLEMS = {
  problemBase: "urn:nevertwice:error:",
  documentation: "https://github.com/nevertwice/nevertwice/blob/main/docs/errors.md#",
} as const;

export interface Refusals {
  /** Sends the error if no response has started, else closes the connection. Never throws. */
  answer(res: ServerResponse, error: unknown): void;
  /** The text of the response for a bare socket, which is closed afterwards. `req` is undefined if it could not be read. */
  raw(req: IncomingMessage | undefined, error: unknown): string;
}

type RuleShape = Pick<GatewayRule, "path" | "methods" | "profile">;

/** Stands for every method. */
const ANY = "ANY";

export function createRefusals(rules: readonly RuleShape[]): Refusals {
  const exact = createRouteMatcher(rules);
  // A request whose method no rule names still comes from a client of the service under this path.
  const anyMethod = createRouteMatcher(rules.map((rule) => ({ ...rule, methods: [ANY] })));
  const profiles = new Set(rules.map(({ profile }) => profile));
  const fallback = profiles.size === 1 ? rules[0]?.profile : undefined;

  function findProfile(req: IncomingMessage | undefined): ProfileName | undefined {
    if (req === undefined) return fallback;
    try {
      const target = originForm(req.url ?? "/", req.headers.host);
      const match = exact.find(req.method ?? "GET", target) ?? anyMethod.find(ANY, target);
      return match === undefined ? fallback : match.rule.profile;
    } catch {
      // The address is what is being refused.
      return fallback;
    }
  }

  function toAnswer(req: IncomingMessage | undefined, error: unknown): ProblemAnswer {
    const known = isNevertwiceError(error)
      ? error
      : new NevertwiceError("internal-error", "the gateway failed.", { cause: error });
    const header = (name: string) => {
      const value = req?.headers[name];
      return typeof value === "string" ? value : undefined;
    };
    return problemAnswer(known, { ...PROBLEMS, profile: findProfile(req), header });
  }

  return {
    answer(res, error) {
      if (res.headersSent || res.destroyed || res.writableEnded) {
        if (!res.writableFinished) res.destroy();
        return;
      }
      const { status, headers, body } = toAnswer(res.req, error);
      try {
        for (const name of res.getHeaderNames()) res.removeHeader(name);
        for (const [name, value] of headers) res.setHeader(name, value);
        const bytes = Buffer.from(body);
        res.setHeader("Content-Length", bytes.length);
        res.writeHead(status, STATUS_CODES[status] ?? "").end(bytes);
      } catch {
        // Other code has ended the response, so the error cannot be sent.
        res.destroy();
      }
    },

    raw(req, error) {
      const { status, headers, body } = toAnswer(req, error);
      const lines = headers.map(([name, value]) => `${name}: ${value}\r\n`).join("");
      const length = Buffer.byteLength(body);
      return `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}\r\n${lines}content-length: ${length}\r\nconnection: close\r\n\r\n${body}`;
    },
  };
}
