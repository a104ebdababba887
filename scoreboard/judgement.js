/** How a scenario says that a library did not do what it asks for, or that a question does not apply to it. */

export class Failure extends Error {}

export class NotApplicable extends Error {}

export function check(condition, message) {
  if (!condition) throw new Failure(message);
}

export function describeAnswer(answer) {
  if (answer.refusal !== undefined) return `refused (${answer.refusal}: ${firstLine(answer.message)})`;
  return `answered ${JSON.stringify(answer.value)}`;
}

export function firstLine(message) {
  return String(message).split("\n")[0].slice(0, 160);
}
