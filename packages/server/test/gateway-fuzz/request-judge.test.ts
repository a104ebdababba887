/** Tests that the judge of the gateway's fuzzer objects to everything that a broken gateway would do. */
import { expect, test } from "vitest";
import { pathReadings } from "./path-readings.ts";
import { readRequests, readResponses } from "./reading.ts";
import { answerProblems, createRequestJudge } from "./request-judge.ts";

const HEAD = "Host: localhost\r\nX-Case: c1.0.1abcd\r\n";
const SENT = `POST /free HTTP/1.1\r\n${HEAD}Content-Length: 2\r\n\r\n{}`;

function objections(sent: string, ...seen: readonly string[]): readonly string[] {
  const judge = createRequestJudge();
  judge.expect(sent);
  return seen.flatMap((bytes) => {
    const { messages, unfinished } = readRequests(bytes);
    return [...messages, ...(unfinished === undefined ? [] : [unfinished])].flatMap(judge.problemsOf);
  });
}

test("accepts a request that came as it was sent", () => {
  expect(objections(SENT, SENT.replace("Content-Length", "Via: 1.1 x\r\nContent-Length"))).toEqual([]);
});

test.each([
  ["that came twice", SENT, [SENT, SENT]],
  ["with another method", SENT, [SENT.replace("POST", "PUT")]],
  ["with another path", SENT, [SENT.replace("/free", "/other")]],
  ["with another query", SENT, [SENT.replace("/free", "/free?x")]],
  ["with another body", SENT, [SENT.replace("{}", "[]")]],
  ["with a header that nobody sent", SENT, [SENT.replace("Content-Length", "X-New: 1\r\nContent-Length")]],
  ["that is a part of the body of another", SENT, [SENT.replace("c1.0.1abcd", "c1.0.1abcd.inner")]],
  ["that became whole on the way", SENT.slice(0, -1), [SENT.replace("{}", "{x")]],
  [
    "to a guarded path without a key",
    SENT.replace("/free", "/x/..;/p%2561yments"),
    [SENT.replace("/free", "/x/..;/p%2561yments")],
  ],
  ["with two hosts", SENT, [SENT.replace("Host: localhost", "Host: localhost\r\nHost: x")]],
  [
    "with a forged address",
    SENT.replace("X-Case", "X_Real_IP: forged\r\nX-Case"),
    [SENT.replace("X-Case", "X_Real_IP: forged\r\nX-Case")],
  ],
])("objects to a request %s", (_, sent, seen) => {
  expect(objections(sent, ...seen)).not.toEqual([]);
});

test.each([
  ["Content-Length: 2\r\nContent-Length: 2"],
  ["Content-Length: +2"],
  ["Content-Length: 2, 2"],
  ["Transfer-Encoding: chunked\r\nContent-Length: 2"],
  ["Transfer-Encoding: xchunked"],
  ["Transfer-Encoding: chunked, identity"],
  ["Transfer-Encoding:"],
  ["Transfer-Encoding : chunked"],
  ["X-Fold: a\r\n b"],
  ["X-Lf: a\nb: c"],
])("refuses to read %j", (lines) => {
  const { messages, malformed } = readRequests(`POST / HTTP/1.1\r\nHost: x\r\n${lines}\r\n\r\n{}`);
  expect(messages).toEqual([]);
  expect(malformed).toBeDefined();
});

test("reports an answer that belongs to another request, and one that cannot be read", () => {
  const { messages: asked } = readRequests(SENT);
  const answer = "HTTP/1.1 200 OK\r\nX-Answer: c1.0.1abcd\r\nContent-Length: 2\r\n\r\nok";
  expect(answerProblems(asked, answer, true).problems).toEqual([]);
  expect(answerProblems(asked, answer.replace("c1", "c2"), true).problems).toHaveLength(1);
  expect(answerProblems(asked, answer.replace("200", "099"), true).problems).toHaveLength(1);
});

test("reads chunks, trailers and answers that end with their connection", () => {
  const chunks = "Transfer-Encoding: chunked\r\n\r\n2;x=y\r\nab\r\n1\r\nc\r\n0\r\nX-Late: 1\r\n\r\n";
  const { messages } = readRequests(`POST / HTTP/1.1\r\nHost: x\r\n${chunks}${SENT}`);
  expect(messages.map(({ body }) => body)).toEqual(["abc", "{}"]);
  expect(messages[0]?.trailers).toEqual([["X-Late", "1"]]);
  expect(readResponses("HTTP/1.1 200 OK\r\n\r\nabc", ["GET"], true).messages[0]?.body).toBe("abc");
  expect(readResponses("HTTP/1.1 200 OK\r\n\r\nabc", ["GET"], false).messages).toEqual([]);
});

test("reads a path in every way that some service may read it", () => {
  expect(pathReadings("/payments/%252e%252e/x")).toEqual(
    expect.arrayContaining(["/payments/%2e%2e/x", "/x"]),
  );
  expect(pathReadings("/%ff/../p%61yments;x=1?y")).toContain("/payments");
  expect(pathReadings("http://host\\PAYMENTS//7/.")).toContain("/payments/7");
});
