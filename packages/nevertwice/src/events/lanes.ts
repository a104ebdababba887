/** Messages by what must stay in order, in their order: a lane is done one after the other, and lanes side by side. */
export function lanesBy<Message>(
  messages: readonly Message[],
  nameOf: (message: Message) => unknown,
): Message[][] {
  const lanes = new Map<unknown, Message[]>();
  for (const message of messages) {
    const name = nameOf(message);
    const lane = lanes.get(name);
    if (lane === undefined) lanes.set(name, [message]);
    else lane.push(message);
  }
  return [...lanes.values()];
}
